#include "sim/xdna/npu_memory.h"

#include <algorithm>

#include "sim/core/vma.h"

namespace understudy::xdna {

NpuMemory::NpuMemory(std::shared_ptr<DeviceHeap> heap, const std::vector<XdnaBoRef>& bos,
                     const Client* client) {
  for (const XdnaBoRef& bo : bos) {
    if (bo->user_pages()) {
      for (const UserPages::Range& range : bo->user_pages()->ranges) {
        add(range.address, Region{range.size_bytes, bo, 0, true, bo->user_pages()->read_only});
      }
    } else if (bo->buffer() && bo->mapped_address() != kInvalidAddress) {
      add(bo->mapped_address(), Region{bo->size_bytes(), bo, 0, false, false});
    }
  }
  for (std::uint64_t address = Aperture::kBase;;) {
    const auto place = heap->locate(address);
    if (!place) break;
    add(address, Region{place->chunk->size_bytes(), place->chunk, 0, false, false});
    if (place->chunk->mapped_address() != kInvalidAddress) {
      add(place->chunk->mapped_address(), Region{place->chunk->size_bytes(), place->chunk, 0, false, false});
    }
    address += place->chunk->size_bytes();
  }
  // Last, as what the page tables say now is truer than what was noted when mmap was called.
  if (client != nullptr) add_mappings(bos, *client);
}

void NpuMemory::add_mappings(const std::vector<XdnaBoRef>& bos, const Client& client) {
  std::map<std::pair<dev_t, ino_t>, XdnaBoRef> by_identity;
  for (const XdnaBoRef& bo : bos) {
    if (!bo->buffer() || !bo->buffer()->touched()) continue;
    if (const auto identity = bo->buffer()->identity()) by_identity.emplace(identity.value(), bo);
  }
  for (const FileMapping& mapping : shared_file_mappings(client)) {
    const auto found = by_identity.find({mapping.device, mapping.inode});
    if (found == by_identity.end() || mapping.file_offset >= found->second->size_bytes()) continue;
    const std::uint64_t inside =
        std::min(mapping.size_bytes, found->second->size_bytes() - mapping.file_offset);
    add(mapping.start, Region{inside, found->second, mapping.file_offset, false, !mapping.writable});
  }
}

void NpuMemory::add(std::uint64_t start, Region region) {
  regions_.insert_or_assign(start, std::move(region));
}

const NpuMemory::Region* NpuMemory::find(std::uint64_t address, std::uint64_t size_bytes,
                                         std::uint64_t* start) const {
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return nullptr;
  const auto& [region_start, region] = *std::prev(after);
  const std::uint64_t offset = address - region_start;
  if (offset >= region.size_bytes || size_bytes > region.size_bytes - offset) return nullptr;
  *start = region_start;
  return &region;
}

bool NpuMemory::covers(std::uint64_t address, std::uint64_t size_bytes, bool for_write) const {
  std::uint64_t start = 0;
  const Region* region = find(address, size_bytes, &start);
  return region != nullptr && !(for_write && region->read_only);
}

bool NpuMemory::read(std::uint64_t address, std::span<std::byte> into) const {
  std::uint64_t start = 0;
  const Region* region = find(address, into.size(), &start);
  if (region == nullptr) return false;
  if (region->is_user_memory) return bool(region->bo->user_pages()->client->memory().read(address, into));
  const auto bytes = region->bo->buffer()->bytes();
  if (!bytes) return false;
  std::ranges::copy(bytes.value().subspan(region->bo_offset + (address - start), into.size()), into.begin());
  return true;
}

bool NpuMemory::write(std::uint64_t address, std::span<const std::byte> from) const {
  std::uint64_t start = 0;
  const Region* region = find(address, from.size(), &start);
  if (region == nullptr || region->read_only) return false;
  if (region->is_user_memory) return bool(region->bo->user_pages()->client->memory().write(address, from));
  const auto bytes = region->bo->buffer()->bytes();
  if (!bytes) return false;
  std::ranges::copy(
      from, bytes.value().begin() + static_cast<std::ptrdiff_t>(region->bo_offset + (address - start)));
  return true;
}

}  // namespace understudy::xdna
