#include "sim/kfd/gpu_vm.h"

#include <algorithm>
#include <mutex>

#include "sim/kfd/amdgpu_bo.h"

namespace understudy::kfd {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kPageMask = kPageBytes - 1;

std::uint64_t end_of(const GpuMapping& mapping) {
  return mapping.start + mapping.size_bytes;
}

bool allowed(const PagePermissions& permissions, Access access) {
  switch (access) {
    case Access::kRead:
      return permissions.readable;
    case Access::kWrite:
      return permissions.writable;
    case Access::kExecute:
      return permissions.executable;
  }
  return false;
}

}  // namespace

GpuFault GpuFault::of(std::uint64_t address, Access access, bool present) {
  GpuFault fault;
  fault.address = address & ~kPageMask;
  fault.not_present = !present;
  fault.read_only = present && access == Access::kWrite;
  fault.no_execute = present && access == Access::kExecute;
  return fault;
}

// amdgpu_vm.c: amdgpu_vm_verify_parameters.
Result<void> GpuVm::check(const GpuMapping& mapping) const {
  if ((mapping.start | mapping.size_bytes | mapping.bo_offset_bytes) & kPageMask) return Errno(EINVAL);
  if (mapping.size_bytes == 0) return Errno(EINVAL);
  std::uint64_t end = 0;
  if (__builtin_add_overflow(mapping.start, mapping.size_bytes, &end) || end > kEndAddress)
    return Errno(EINVAL);
  if (mapping.bo) {
    std::uint64_t bo_end = 0;
    if (__builtin_add_overflow(mapping.bo_offset_bytes, mapping.size_bytes, &bo_end) ||
        bo_end > mapping.bo->size_bytes()) {
      return Errno(EINVAL);
    }
  }
  return {};
}

GpuVm::ByStart::const_iterator GpuVm::covering(std::uint64_t address) const {
  auto after = by_start_.upper_bound(address);
  if (after == by_start_.begin()) return by_start_.end();
  const auto candidate = std::prev(after);
  return address < end_of(candidate->second) ? candidate : by_start_.end();
}

bool GpuVm::overlaps(std::uint64_t start, std::uint64_t size_bytes) const {
  if (covering(start) != by_start_.end()) return true;
  const auto next = by_start_.lower_bound(start);
  return next != by_start_.end() && next->first - start < size_bytes;
}

void GpuVm::insert(GpuMapping mapping) {
  if (mapping.bo) starts_of_bo_[mapping.bo.get()].insert(mapping.start);
  const std::uint64_t start = mapping.start;
  by_start_.emplace(start, std::move(mapping));
}

GpuVm::ByStart::iterator GpuVm::erase(ByStart::iterator position) {
  if (const AmdgpuBo* bo = position->second.bo.get()) {
    const auto starts = starts_of_bo_.find(bo);
    starts->second.erase(position->first);
    if (starts->second.empty()) starts_of_bo_.erase(starts);
  }
  return by_start_.erase(position);
}

Result<void> GpuVm::map(GpuMapping mapping) {
  TRY(check(mapping));
  const std::unique_lock lock(mutex_);
  if (overlaps(mapping.start, mapping.size_bytes)) return Errno(EINVAL);
  insert(std::move(mapping));
  return {};
}

Result<void> GpuVm::replace(GpuMapping mapping) {
  TRY(check(mapping));
  std::vector<std::shared_ptr<AmdgpuBo>> dropped;
  const std::unique_lock lock(mutex_);
  clear_locked(mapping.start, mapping.size_bytes, dropped);
  insert(std::move(mapping));
  return {};
}

Result<void> GpuVm::unmap(const AmdgpuBo& bo, std::uint64_t start, bool made_by_kfd) {
  std::shared_ptr<AmdgpuBo> dropped;
  const std::unique_lock lock(mutex_);
  const auto found = by_start_.find(start);
  if (found == by_start_.end() || found->second.bo.get() != &bo || found->second.made_by_kfd != made_by_kfd) {
    return Errno(ENOENT);
  }
  dropped = found->second.bo;
  erase(found);
  return {};
}

void GpuVm::clear(std::uint64_t start, std::uint64_t size_bytes) {
  std::vector<std::shared_ptr<AmdgpuBo>> dropped;
  const std::unique_lock lock(mutex_);
  clear_locked(start, size_bytes, dropped);
}

// Keeps the parts of overlapped mappings that stick out on either side.
void GpuVm::clear_locked(std::uint64_t start, std::uint64_t size_bytes,
                         std::vector<std::shared_ptr<AmdgpuBo>>& dropped) {
  const std::uint64_t end = start + size_bytes;
  auto position = by_start_.lower_bound(start);
  if (position != by_start_.begin() && end_of(std::prev(position)->second) > start) --position;
  std::vector<GpuMapping> remains;
  while (position != by_start_.end() && position->first < end) {
    const GpuMapping& mapping = position->second;
    if (mapping.start < start) {
      GpuMapping before = mapping;
      before.size_bytes = start - mapping.start;
      remains.push_back(std::move(before));
    }
    if (end_of(mapping) > end) {
      GpuMapping after = mapping;
      after.start = end;
      after.size_bytes = end_of(mapping) - end;
      after.bo_offset_bytes += end - mapping.start;
      remains.push_back(std::move(after));
    }
    dropped.push_back(mapping.bo);
    position = erase(position);
  }
  for (GpuMapping& mapping : remains) insert(std::move(mapping));
}

void GpuVm::unmap_all(const AmdgpuBo& bo, bool made_by_kfd) {
  std::vector<std::shared_ptr<AmdgpuBo>> dropped;
  const std::unique_lock lock(mutex_);
  const auto starts = starts_of_bo_.find(&bo);
  if (starts == starts_of_bo_.end()) return;
  for (const std::uint64_t start : std::set<std::uint64_t>(starts->second)) {
    const auto position = by_start_.find(start);
    if (position->second.made_by_kfd != made_by_kfd) continue;
    dropped.push_back(position->second.bo);
    erase(position);
  }
}

void GpuVm::handle_opened(const AmdgpuBo& bo) {
  const std::unique_lock lock(mutex_);
  ++handle_counts_[&bo];
}

void GpuVm::handle_closed(const AmdgpuBo& bo) {
  {
    const std::unique_lock lock(mutex_);
    const auto found = handle_counts_.find(&bo);
    if (found == handle_counts_.end() || --found->second > 0) return;
    handle_counts_.erase(found);
  }
  unmap_all(bo, /*made_by_kfd=*/false);
}

std::optional<GpuMapping> GpuVm::find(std::uint64_t address) const {
  const std::shared_lock lock(mutex_);
  const auto found = covering(address);
  if (found == by_start_.end()) return std::nullopt;
  return found->second;
}

std::optional<GpuMapping> GpuVm::find_start(std::uint64_t start) const {
  const std::shared_lock lock(mutex_);
  const auto found = by_start_.find(start);
  if (found == by_start_.end()) return std::nullopt;
  return found->second;
}

bool GpuVm::maps_any(std::uint64_t start, std::uint64_t size_bytes) const {
  const std::shared_lock lock(mutex_);
  return overlaps(start, size_bytes);
}

std::vector<GpuMapping> GpuVm::mappings_of(const AmdgpuBo& bo) const {
  const std::shared_lock lock(mutex_);
  std::vector<GpuMapping> mappings;
  const auto starts = starts_of_bo_.find(&bo);
  if (starts == starts_of_bo_.end()) return mappings;
  for (const std::uint64_t start : starts->second) mappings.push_back(by_start_.at(start));
  return mappings;
}

std::size_t GpuVm::mapping_count() const {
  const std::shared_lock lock(mutex_);
  return by_start_.size();
}

Result<void> GpuVm::pin_for_queue(std::uint64_t start, int delta) {
  const std::unique_lock lock(mutex_);
  const auto found = by_start_.find(start);
  if (found == by_start_.end()) return Errno(ENOENT);
  found->second.queue_references += static_cast<unsigned>(delta);
  return {};
}

std::optional<Translation> GpuVm::translate(std::uint64_t address, std::uint64_t max_bytes, Access access,
                                            GpuFault* fault) const {
  const std::shared_lock lock(mutex_);
  const auto found = covering(address);
  if (found == by_start_.end() || !allowed(found->second.permissions, access)) {
    *fault = GpuFault::of(address, access, /*present=*/found != by_start_.end());
    return std::nullopt;
  }
  const GpuMapping& mapping = found->second;
  const std::uint64_t into_mapping = address - mapping.start;
  return Translation{mapping.bo, mapping.bo_offset_bytes + into_mapping,
                     std::min(max_bytes, mapping.size_bytes - into_mapping)};
}

}  // namespace understudy::kfd
