#include "sim/xdna/shim_dma.h"

#include <cstddef>

namespace understudy::xdna {
namespace {

struct QueueRegister {
  std::uint32_t offset;
  ShimDma::Queue queue;
};
constexpr QueueRegister kQueueRegisters[] = {
    {0x1D204, {DmaDirection::kS2mm, 0}},
    {0x1D20C, {DmaDirection::kS2mm, 1}},
    {0x1D214, {DmaDirection::kMm2s, 0}},
    {0x1D21C, {DmaDirection::kMm2s, 1}},
};

// A transfer longer than any BO is a broken descriptor, not a reason to exhaust the server.
constexpr std::uint64_t kMaxTaskWords = std::uint64_t{64} << 20;

constexpr std::uint32_t bits(std::uint32_t word, unsigned high, unsigned low) {
  return (word >> low) & ((std::uint32_t{1} << (high - low + 1)) - 1);
}

struct Descriptor {
  std::uint64_t length_words, address;
  std::uint64_t step0, wrap0, step1, wrap1, step2, iteration_step, iteration_wrap, iteration_current;
  bool valid, use_next;
  unsigned next;
};

Descriptor read_descriptor(const TileRegisters& registers, unsigned column, unsigned bd) {
  std::uint32_t word[8];
  for (unsigned i = 0; i < 8; ++i) {
    word[i] =
        registers.read(TileAddress{column, 0, ShimDma::kBdBase + ShimDma::kBdStride * bd + 4 * i}.absolute());
  }
  Descriptor d{};
  d.length_words = word[0];
  d.address = (word[1] & ~std::uint32_t{3}) | std::uint64_t{bits(word[2], 15, 0)} << 32;
  d.step0 = bits(word[3], 19, 0) + 1;
  d.wrap0 = bits(word[3], 29, 20);
  d.step1 = bits(word[4], 19, 0) + 1;
  d.wrap1 = bits(word[4], 29, 20);
  d.step2 = bits(word[5], 19, 0) + 1;
  d.iteration_step = bits(word[6], 19, 0) + 1;
  d.iteration_wrap = bits(word[6], 25, 20) + 1;
  d.iteration_current = bits(word[6], 31, 26);
  d.valid = bits(word[7], 25, 25);
  d.use_next = bits(word[7], 26, 26);
  d.next = bits(word[7], 30, 27);
  return d;
}

void advance_iteration(TileRegisters& registers, unsigned column, unsigned bd, const Descriptor& d) {
  const std::uint64_t address =
      TileAddress{column, 0, ShimDma::kBdBase + ShimDma::kBdStride * bd + 24}.absolute();
  const std::uint32_t current = static_cast<std::uint32_t>((d.iteration_current + 1) % d.iteration_wrap);
  registers.write(address, (registers.read(address) & 0x03ffffff) | current << 26);
}

// Word offset of the k-th word of a three-dimensional walk; wrap 0 ends the walk in that dimension.
std::uint64_t walk(const Descriptor& d, std::uint64_t k) {
  if (d.wrap0 == 0) return k * d.step0;
  std::uint64_t offset = (k % d.wrap0) * d.step0;
  k /= d.wrap0;
  if (d.wrap1 == 0) return offset + k * d.step1;
  offset += (k % d.wrap1) * d.step1;
  return offset + (k / d.wrap1) * d.step2;
}

}  // namespace

std::optional<ShimDma::Queue> ShimDma::queue_at(std::uint32_t offset) {
  for (const QueueRegister& known : kQueueRegisters) {
    if (known.offset == offset) return known.queue;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> ShimDma::host_address(std::uint64_t address, std::uint64_t size_bytes,
                                                   bool for_write) const {
  if (address >= kDdrOffset && memory_.covers(address - kDdrOffset, size_bytes, for_write))
    return address - kDdrOffset;
  if (memory_.covers(address, size_bytes, for_write)) return address;
  return std::nullopt;
}

bool ShimDma::addresses_of(unsigned column, unsigned bd, bool for_write, std::vector<std::uint64_t>* words) {
  for (unsigned hops = 0; hops < kBdCount; ++hops) {
    const Descriptor d = read_descriptor(registers_, column, bd);
    if (!d.valid || d.length_words > kMaxTaskWords || words->size() + d.length_words > kMaxTaskWords)
      return false;
    const std::uint64_t base = d.address + d.iteration_current * d.iteration_step * 4;
    // One check finds whether the device's view is offset; each word is checked again as it moves.
    const std::optional<std::uint64_t> host = host_address(base, 4, for_write);
    if (!host) return false;
    for (std::uint64_t k = 0; k < d.length_words; ++k) {
      const std::uint64_t address = *host + walk(d, k) * 4;
      if (!watchdog_.step() || !memory_.covers(address, 4, for_write)) return false;
      words->push_back(address);
    }
    advance_iteration(registers_, column, bd, d);
    if (!d.use_next) return true;
    bd = d.next;
  }
  return false;
}

bool ShimDma::push(unsigned column, Queue queue, std::uint32_t word) {
  const Key key{column, queue.channel};
  const unsigned repeats = bits(word, 23, 16) + 1;
  const bool issues_token = bits(word, 31, 31);
  const bool for_write = queue.direction == DmaDirection::kS2mm;
  std::vector<std::uint64_t> words;
  for (unsigned run = 0; run < repeats; ++run) {
    if (!addresses_of(column, bits(word, 3, 0), for_write, &words)) return false;
  }
  Channel& channel = channels_[{key, queue.direction}];
  if (for_write) {
    channel.waiting.push_back(std::move(words));
    channel.waiting_tokens.push_back(issues_token);
    return move(key);
  }
  if (!pass_through_) return true;  // consumed, as far as anybody can tell, by cores that do not exist
  std::deque<std::uint32_t>& stream = streams_[key];
  for (const std::uint64_t address : words) {
    std::uint32_t value = 0;
    if (!watchdog_.step() || !memory_.read(address, std::as_writable_bytes(std::span(&value, 1))))
      return false;
    stream.push_back(value);
  }
  if (issues_token) ++channel.tokens;
  return move(key);
}

bool ShimDma::move(Key key) {
  Channel& channel = channels_[{key, DmaDirection::kS2mm}];
  std::deque<std::uint32_t>& stream = streams_[key];
  while (!channel.waiting.empty() && stream.size() >= channel.waiting.front().size()) {
    for (const std::uint64_t address : channel.waiting.front()) {
      const std::uint32_t value = stream.front();
      stream.pop_front();
      if (!watchdog_.step() || !memory_.write(address, std::as_bytes(std::span(&value, 1)))) return false;
    }
    if (channel.waiting_tokens.front()) ++channel.tokens;
    channel.waiting.pop_front();
    channel.waiting_tokens.pop_front();
  }
  return true;
}

bool ShimDma::take_token(unsigned column, Queue queue) {
  Channel& channel = channels_[{Key{column, queue.channel}, queue.direction}];
  if (channel.tokens == 0) return false;
  --channel.tokens;
  return true;
}

}  // namespace understudy::xdna
