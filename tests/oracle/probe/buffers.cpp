#include "buffers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "json.h"

namespace probe {

GuardedBuffer::GuardedBuffer(std::size_t size_bytes) : size_bytes_(size_bytes) {
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t data_bytes = (size_bytes + page_bytes - 1) / page_bytes * page_bytes;
  mapping_bytes_ = data_bytes + page_bytes;
  void* mapping = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    std::perror("oracle_probe: mmap");
    std::exit(2);
  }
  mapping_ = static_cast<std::uint8_t*>(mapping);
  mprotect(mapping_ + data_bytes, page_bytes, PROT_NONE);
  start_ = mapping_ + data_bytes - size_bytes;
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(other.mapping_bytes_),
      start_(other.start_),
      size_bytes_(other.size_bytes_) {}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

std::uint64_t load(std::span<const std::uint8_t> bytes, std::size_t offset, std::size_t width) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.subspan(offset, width).data(), width);
  return value;
}

void store(std::span<std::uint8_t> bytes, std::size_t offset, std::size_t width, std::uint64_t value) {
  std::memcpy(bytes.subspan(offset, width).data(), &value, width);
}

namespace {

std::string field_text(const Watch& watch, std::span<const std::uint8_t> bytes, std::size_t offset,
                       Names& names) {
  if (watch.kind == "text") {
    const auto* text = reinterpret_cast<const char*>(bytes.data() + offset);
    return json_string(std::string(text, strnlen(text, watch.width)));
  }
  if (watch.kind == "bytes") return json_string(hex_bytes(bytes.subspan(offset, watch.width)));
  const std::uint64_t value = load(bytes, offset, watch.width);
  if (watch.kind == "hex") return json_string(hex_number(value));
  if (watch.kind.starts_with("name:")) return names.of(watch.kind.substr(5), value, watch.width);
  if (watch.kind == "signed") {
    const unsigned shift = 64 - 8 * static_cast<unsigned>(watch.width);
    return std::to_string(static_cast<std::int64_t>(value << shift) >> shift);
  }
  return std::to_string(value);
}

std::string changed_rest(const BufferSpec& spec, std::span<const std::uint8_t> before,
                         std::span<const std::uint8_t> after, const std::vector<bool>& watched) {
  std::string members;
  for (std::size_t start = 0; start < after.size(); ++start) {
    if (watched[start] || before[start] == after[start]) continue;
    std::size_t end = start;
    while (end < after.size() && !watched[end] && before[end] != after[end]) ++end;
    append_member(members, spec.label + "+" + std::to_string(start),
                  json_string(hex_bytes(after.subspan(start, end - start))));
    start = end;
  }
  return members;
}

}  // namespace

std::string changed_fields(const Step& step, const std::vector<std::vector<std::uint8_t>>& before,
                           const std::vector<GuardedBuffer>& buffers, Names& names) {
  std::string members;
  std::vector<std::vector<bool>> watched;
  for (const auto& bytes : before) watched.emplace_back(bytes.size(), false);
  for (const Watch& watch : step.watches) {
    const std::span<const std::uint8_t> was = before[watch.buffer];
    const std::span<const std::uint8_t> now = buffers[watch.buffer].bytes();
    for (std::size_t i = 0; i < watch.count; ++i) {
      const std::size_t offset = watch.offset + i * watch.width;
      if (offset + watch.width > now.size()) break;  // a caller's shorter struct ends here
      std::fill_n(watched[watch.buffer].begin() + static_cast<std::ptrdiff_t>(offset), watch.width, true);
      if (std::ranges::equal(was.subspan(offset, watch.width), now.subspan(offset, watch.width))) continue;
      const std::string index = watch.count > 1 ? "[" + std::to_string(i) + "]" : "";
      append_member(members, watch.name + index, field_text(watch, now, offset, names));
    }
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::string rest = changed_rest(step.buffers[i], before[i], buffers[i].bytes(), watched[i]);
    if (!rest.empty()) members += (members.empty() ? "" : ",") + rest;
  }
  return members;
}

}  // namespace probe
