#include "sim/virtio_gpu/wire/guest_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

namespace understudy::virtio_gpu {
namespace {

// mem entries and descriptors have 32-bit lengths.
constexpr std::uint64_t kLongestRunBytes = 0xffff'f000;

std::uint64_t next_random(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e37'79b9'7f4a'7c15;
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
  return z ^ (z >> 31);
}

std::vector<std::uint64_t> draw_runs(std::uint64_t size_bytes, const Contiguity& contiguity) {
  std::vector<std::uint64_t> lengths;
  std::uint64_t state = contiguity.seed;
  const std::uint64_t span_pages = contiguity.maximum_pages - contiguity.minimum_pages + 1;
  for (std::uint64_t left = size_bytes; left > 0;) {
    const std::uint64_t pages = contiguity.minimum_pages + next_random(state) % span_pages;
    lengths.push_back(std::min({left, pages * kGuestPageBytes, kLongestRunBytes}));
    left -= lengths.back();
  }
  return lengths;
}

std::vector<std::uint64_t> one_run(std::uint64_t size_bytes) {
  std::vector<std::uint64_t> lengths;
  for (std::uint64_t left = size_bytes; left > 0; left -= lengths.back())
    lengths.push_back(std::min(left, kLongestRunBytes));
  return lengths;
}

template <typename Move>
std::size_t move_pieces(std::span<const MemoryPiece> pieces, std::uint64_t offset_bytes,
                        std::size_t size_bytes, Move move) {
  std::size_t moved = 0;
  for (const MemoryPiece& piece : pieces) {
    if (moved == size_bytes) break;
    if (offset_bytes >= piece.length_bytes) {
      offset_bytes -= piece.length_bytes;
      continue;
    }
    const std::size_t count = static_cast<std::size_t>(
        std::min<std::uint64_t>(piece.length_bytes - offset_bytes, size_bytes - moved));
    const std::size_t done = move(piece, piece.offset_bytes + offset_bytes, moved, count);
    moved += done;
    if (done < count) break;
    offset_bytes = 0;
  }
  return moved;
}

}  // namespace

KernelPages::KernelPages(std::uint64_t size_bytes)
    : size_bytes_(size_bytes),
      bytes_(static_cast<std::byte*>(std::aligned_alloc(kGuestPageBytes, size_bytes))) {
  if (!bytes_) throw std::bad_alloc();
  std::memset(bytes_.get(), 0, size_bytes);
}

void KernelPages::Free::operator()(std::byte* bytes) const {
  std::free(bytes);
}

std::size_t KernelPages::read(std::uint64_t offset_bytes, std::span<std::byte> into) {
  std::memcpy(into.data(), bytes_.get() + offset_bytes, into.size());
  return into.size();
}

std::size_t KernelPages::write(std::uint64_t offset_bytes, std::span<const std::byte> from) {
  std::memcpy(bytes_.get() + offset_bytes, from.data(), from.size());
  return from.size();
}

Placement::~Placement() {
  if (memory_) memory_->remove(window_);
}

Result<Placement> GuestMemory::place(GuestPagesRef pages, const Contiguity& contiguity) {
  if (pages->size_bytes() > ram_bytes_) return Errno(ENOMEM);
  const std::vector<std::uint64_t> lengths = draw_runs(pages->size_bytes(), contiguity);
  return place_runs(std::move(pages), lengths, true);
}

Result<Placement> GuestMemory::place_contiguous(GuestPagesRef pages) {
  if (pages->size_bytes() > ram_bytes_) return Errno(ENOMEM);
  const std::vector<std::uint64_t> lengths = one_run(pages->size_bytes());
  return place_runs(std::move(pages), lengths, false);
}

Result<Placement> GuestMemory::place_pinned(GuestPagesRef pages, const Contiguity& contiguity) {
  if (pages->size_bytes() > ram_bytes_) return Errno(ENOMEM);
  const std::vector<std::uint64_t> lengths = draw_runs(pages->size_bytes(), contiguity);
  return place_runs(std::move(pages), lengths, false);
}

Result<Placement> GuestMemory::place_runs(GuestPagesRef pages, std::span<const std::uint64_t> run_lengths,
                                          bool allocated) {
  const std::uint64_t size_bytes = pages->size_bytes();
  // A page of nothing behind each run keeps runs from being adjacent.
  const std::uint64_t window_bytes = size_bytes + run_lengths.size() * kGuestPageBytes;

  const std::unique_lock lock(mutex_);
  if (allocated && size_bytes > ram_bytes_ - allocated_bytes_) return Errno(ENOMEM);

  // Addresses run out after 2^50 pages or more: as good as never, but checked.
  if (window_bytes > kEndAddress - next_address_) return Errno(ENOMEM);
  const std::uint64_t start = next_address_;
  next_address_ += window_bytes;

  Window window{std::move(pages), nullptr, {}, allocated ? size_bytes : 0};
  std::vector<MemoryRun> runs;
  runs.reserve(run_lengths.size());
  window.run_offsets.reserve(run_lengths.size());
  std::uint64_t address = start;
  std::uint64_t offset = 0;
  for (const std::uint64_t length : run_lengths) {
    runs.push_back({address, length});
    window.run_offsets.push_back(offset);
    address += length + kGuestPageBytes;
    offset += length;
  }
  window.runs = std::make_shared<const std::vector<MemoryRun>>(std::move(runs));

  Placement placement;
  placement.memory_ = this;
  placement.window_ = start;
  placement.runs_ = window.runs;
  allocated_bytes_ += window.allocated_bytes;
  windows_.emplace(start, std::move(window));
  return placement;
}

void GuestMemory::remove(std::uint64_t window) {
  GuestPagesRef dropped;  // destroyed without the lock
  const std::unique_lock lock(mutex_);
  const auto found = windows_.find(window);
  allocated_bytes_ -= found->second.allocated_bytes;
  dropped = std::move(found->second.pages);
  windows_.erase(found);
}

Result<MemoryPiece> GuestMemory::piece_at(std::uint64_t address, std::uint64_t length_bytes) const {
  auto found = windows_.upper_bound(address);
  if (found == windows_.begin()) return Errno(EFAULT);
  const Window& window = std::prev(found)->second;
  const std::vector<MemoryRun>& runs = *window.runs;
  auto run =
      std::upper_bound(runs.begin(), runs.end(), address,
                       [](std::uint64_t value, const MemoryRun& item) { return value < item.address; });
  if (run == runs.begin()) return Errno(EFAULT);
  --run;
  const std::uint64_t into_run = address - run->address;
  if (into_run >= run->length_bytes) return Errno(EFAULT);
  return MemoryPiece{window.pages,
                     window.run_offsets[static_cast<std::size_t>(run - runs.begin())] + into_run,
                     std::min(length_bytes, run->length_bytes - into_run)};
}

Result<void> GuestMemory::look_up(std::uint64_t address, std::uint64_t length_bytes,
                                  std::vector<MemoryPiece>& into) const {
  std::uint64_t end = 0;
  if (__builtin_add_overflow(address, length_bytes, &end)) return Errno(EFAULT);
  const std::shared_lock lock(mutex_);
  while (address < end) {
    const MemoryPiece piece = TRY(piece_at(address, end - address));
    address += piece.length_bytes;
    if (!into.empty() && into.back().pages == piece.pages &&
        into.back().offset_bytes + into.back().length_bytes == piece.offset_bytes) {
      into.back().length_bytes += piece.length_bytes;
    } else {
      into.push_back(piece);
    }
  }
  return {};
}

Result<std::span<std::byte>> GuestMemory::direct(std::uint64_t address, std::uint64_t length_bytes,
                                                 GuestPagesRef& keep) const {
  const std::shared_lock lock(mutex_);
  const MemoryPiece piece = TRY(piece_at(address, length_bytes));
  const std::span<std::byte> bytes = piece.pages->direct();
  if (piece.length_bytes < length_bytes || bytes.empty()) return Errno(EFAULT);
  keep = piece.pages;
  return bytes.subspan(piece.offset_bytes, length_bytes);
}

std::size_t GuestMemory::placement_count() const {
  const std::shared_lock lock(mutex_);
  return windows_.size();
}

std::uint64_t total_bytes(std::span<const MemoryPiece> pieces) {
  std::uint64_t total = 0;
  for (const MemoryPiece& piece : pieces) total += piece.length_bytes;
  return total;
}

std::size_t copy_from(std::span<const MemoryPiece> pieces, std::uint64_t offset_bytes,
                      std::span<std::byte> into) {
  return move_pieces(pieces, offset_bytes, into.size(),
                     [&](const MemoryPiece& piece, std::uint64_t at, std::size_t done, std::size_t count) {
                       return piece.pages->read(at, into.subspan(done, count));
                     });
}

std::size_t copy_to(std::span<const MemoryPiece> pieces, std::uint64_t offset_bytes,
                    std::span<const std::byte> from) {
  return move_pieces(pieces, offset_bytes, from.size(),
                     [&](const MemoryPiece& piece, std::uint64_t at, std::size_t done, std::size_t count) {
                       return piece.pages->write(at, from.subspan(done, count));
                     });
}

}  // namespace understudy::virtio_gpu
