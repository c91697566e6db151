#include "sim/virtio_gpu/device/request.h"

#include <algorithm>
#include <array>

namespace understudy::virtio_gpu {
namespace {

// Entries looked at in one go; the list is never allocated as a whole from the guest's number.
constexpr std::uint64_t kEntriesAtOnce = 256;

}  // namespace

Request make_request(DescriptorChain chain) {
  std::array<std::byte, kLongestCommandBytes> bytes;
  const std::size_t count = copy_from(chain.readable, 0, bytes);
  Request request;
  request.command = decode_command(std::span(bytes).first(count));
  request.header = header_of(request.command);
  request.chain = std::move(chain);
  return request;
}

std::optional<Backing> read_entry_list(const GuestMemory& memory, const Request& request,
                                       std::size_t struct_bytes, std::uint32_t entry_count,
                                       std::uint32_t limit) {
  using Entry = abi::virtio_gpu_mem_entry;
  if (limit != 0 && entry_count > limit) return std::nullopt;
  const std::uint64_t list_bytes = std::uint64_t{entry_count} * sizeof(Entry);
  if (total_bytes(request.chain.readable) < struct_bytes + list_bytes) return std::nullopt;

  Backing backing;
  std::array<Entry, kEntriesAtOnce> entries;
  for (std::uint64_t first = 0; first < entry_count; first += kEntriesAtOnce) {
    const std::size_t count = static_cast<std::size_t>(std::min(kEntriesAtOnce, entry_count - first));
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(entries).first(count));
    if (copy_from(request.chain.readable, struct_bytes + first * sizeof(Entry), bytes) != bytes.size())
      return std::nullopt;
    for (const Entry& entry : std::span(entries).first(count)) {
      if (entry.length == 0 || !memory.look_up(entry.addr, entry.length, backing)) return std::nullopt;
    }
  }
  return backing;
}

}  // namespace understudy::virtio_gpu
