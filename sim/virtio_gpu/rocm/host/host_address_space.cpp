#include "sim/virtio_gpu/rocm/host/host_address_space.h"

#include <algorithm>
#include <cstring>

namespace understudy::virtio_gpu {
namespace {

constexpr std::uint64_t kPageMask = kGuestPageBytes - 1;

template <typename Map>
auto entry_below(Map& map, std::uint64_t address) {
  auto found = map.upper_bound(address);
  return found == map.begin() ? map.end() : std::prev(found);
}

}  // namespace

HostAddressSpace::Found HostAddressSpace::find(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  Found found;
  if (const auto staged = entry_below(staged_, address); staged != staged_.end()) {
    const std::uint64_t offset = address - staged->first;
    if (offset < staged->second.size()) {
      found.staged = staged->second.subspan(offset);
      found.length_bytes = found.staged.size();
      return found;
    }
  }
  if (const auto view = entry_below(views_, address); view != views_.end()) {
    const std::uint64_t offset = address - view->first;
    if (offset < view->second.size_bytes) {
      found.backing = view->second.backing;
      found.offset_bytes = offset;
      found.length_bytes = view->second.size_bytes - offset;
      found.read_only = view->second.read_only;
    }
  }
  return found;
}

template <typename Move>
Result<std::size_t> HostAddressSpace::move_bytes(std::uint64_t address, std::size_t size_bytes, Move move) {
  std::size_t moved = 0;
  while (moved < size_bytes) {
    const Found found = find(address + moved);
    if (found.length_bytes == 0) break;
    const std::size_t count =
        static_cast<std::size_t>(std::min<std::uint64_t>(found.length_bytes, size_bytes - moved));
    const std::size_t done = move(found, moved, count);
    moved += done;
    if (done < count) break;
  }
  return moved;
}

Result<std::size_t> HostAddressSpace::read_some(std::uint64_t address, std::span<std::byte> into) {
  return move_bytes(address, into.size(), [&](const Found& found, std::size_t done, std::size_t count) {
    if (found.staged.empty()) return copy_from(found.backing, found.offset_bytes, into.subspan(done, count));
    std::memcpy(into.data() + done, found.staged.data(), count);
    return count;
  });
}

Result<std::size_t> HostAddressSpace::write_some(std::uint64_t address, std::span<const std::byte> from) {
  return move_bytes(address, from.size(), [&](const Found& found, std::size_t done, std::size_t count) {
    if (found.read_only) return std::size_t{0};
    if (found.staged.empty()) return copy_to(found.backing, found.offset_bytes, from.subspan(done, count));
    std::memcpy(found.staged.data(), from.data() + done, count);
    return count;
  });
}

Result<Vma> HostAddressSpace::vma_at(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto view = entry_below(views_, address);
  if (view == views_.end() || address - view->first >= view->second.size_bytes) return Errno(EFAULT);
  return Vma{view->first, view->first + ((view->second.size_bytes + kPageMask) & ~kPageMask), true,
             !view->second.read_only, false};
}

Result<void> HostAddressSpace::map_view(std::uint64_t address, std::uint64_t size_bytes, Backing backing,
                                        bool read_only) {
  const std::lock_guard lock(mutex_);
  const auto next = views_.lower_bound(address);
  if (next != views_.end() && next->first - address < size_bytes) return Errno(EEXIST);
  if (next != views_.begin()) {
    const auto& [before, view] = *std::prev(next);
    if (address - before < view.size_bytes) return Errno(EEXIST);
  }
  views_[address] = {size_bytes, std::move(backing), read_only};
  return {};
}

void HostAddressSpace::unmap_view(std::uint64_t address) {
  View dropped;  // its pages may be the last reference to a client's memory: not under the lock
  const std::lock_guard lock(mutex_);
  if (auto node = views_.extract(address)) dropped = std::move(node.mapped());
}

bool HostAddressSpace::is_read_only(std::uint64_t address, std::uint64_t size_bytes) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [start, view] : views_) {
    if (view.read_only && start < address + size_bytes && address < start + view.size_bytes) return true;
  }
  return false;
}

HostAddressSpace::Staged::Staged(HostAddressSpace& space, std::span<std::byte> bytes) : space_(space) {
  const std::lock_guard lock(space_.mutex_);
  address_ = space_.next_staging_address_;
  // A page of nothing follows, so that running over the end is noticed.
  space_.next_staging_address_ += ((bytes.size() + kPageMask) & ~kPageMask) + kGuestPageBytes;
  constexpr std::uint64_t kLastStagingAddress = 0x7fff'0000'0000;
  if (space_.next_staging_address_ > kLastStagingAddress) space_.next_staging_address_ = kFirstStagingAddress;
  space_.staged_[address_] = bytes;
}

HostAddressSpace::Staged::~Staged() {
  const std::lock_guard lock(space_.mutex_);
  space_.staged_.erase(address_);
}

}  // namespace understudy::virtio_gpu
