#include "sim/kfd/svm.h"

#include <algorithm>

#include "sim/core/vma.h"
#include "sim/kfd/gpu.h"

namespace understudy::kfd {
namespace {

using namespace uapi::kfd;

constexpr std::uint64_t kCapabilitySvm = 0x8000000;  // HSA_CAP_SVMAPI_SUPPORTED
constexpr std::uint32_t kDefaultFlags = KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT;
constexpr std::uint32_t kDefaultGranularity = 9;  // 2^9 pages: 2 MiB
constexpr std::uint32_t kMaxGranularity = 0x3f;
constexpr std::uint32_t kUndefined = KFD_IOCTL_SVM_LOCATION_UNDEFINED;

// A property of several ranges: their common value, or undefined.
class CommonLocation {
 public:
  void add(std::uint32_t location) {
    value_ = first_ || value_ == location ? location : kUndefined;
    first_ = false;
  }
  std::uint32_t value() const { return value_; }

 private:
  bool first_ = true;
  std::uint32_t value_ = kUndefined;
};

}  // namespace

Svm::Svm(ClientRef client, std::vector<std::shared_ptr<Gpu>> gpus)
    : client_(std::move(client)), gpus_(std::move(gpus)) {
  for (std::size_t index = 0; index < std::min<std::size_t>(gpus_.size(), kMaxGpus); ++index) {
    supported_[index] = (gpus_[index]->profile().property("capability") & kCapabilitySvm) != 0;
  }
}

std::optional<unsigned> Svm::index_of(std::uint32_t gpu_id) const {
  for (unsigned index = 0; index < gpus_.size() && index < kMaxGpus; ++index) {
    if (gpus_[index]->gpu_id() == gpu_id) return index;
  }
  return std::nullopt;
}

std::optional<unsigned> Svm::supported_gpu(std::uint32_t gpu_id) const {
  const auto index = index_of(gpu_id);
  return index && supported_[*index] ? index : std::nullopt;
}

// kfd_svm.c: svm_range_check_attr.
Result<void> Svm::check_attributes(std::span<const kfd_ioctl_svm_attribute> attributes) const {
  for (const kfd_ioctl_svm_attribute& attribute : attributes) {
    bool names_gpu = false;
    switch (attribute.type) {
      case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
        names_gpu = attribute.value != KFD_IOCTL_SVM_LOCATION_SYSMEM && attribute.value != kUndefined;
        break;
      case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
        names_gpu = attribute.value != KFD_IOCTL_SVM_LOCATION_SYSMEM;
        break;
      case KFD_IOCTL_SVM_ATTR_ACCESS:
      case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
      case KFD_IOCTL_SVM_ATTR_NO_ACCESS:
        names_gpu = true;
        break;
      case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
      case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
      case KFD_IOCTL_SVM_ATTR_GRANULARITY:
        break;
      default:
        return Errno(EINVAL);
    }
    if (names_gpu && !supported_gpu(attribute.value)) return Errno(EINVAL);
  }
  return {};
}

// kfd_svm.c: svm_range_is_valid. Any mapping of the client will do, whatever its protection.
Result<void> Svm::check_range(std::uint64_t start, std::uint64_t size_bytes, const Vms& vms) const {
  std::uint64_t end = 0;
  if (__builtin_add_overflow(start, size_bytes, &end)) return Errno(EFAULT);
  for (std::uint64_t address = start; address < end;) {
    const Result<Vma> vma = vma_at(*client_, address);
    if (!vma && vma.error() == Errno(ENOSYS)) break;
    if (!vma) return Errno(EFAULT);
    address = vma.value().end;
  }
  const bool taken =
      std::any_of(vms.begin(), vms.end(), [&](const auto& vm) { return vm->maps_any(start, size_bytes); });
  if (taken) return Errno(EADDRINUSE);
  return {};
}

Svm::Range Svm::default_range(bool xnack_enabled) const {
  Range range;
  range.preferred_location = kUndefined;
  range.prefetch_location = kUndefined;
  range.flags = kDefaultFlags;
  range.granularity = kDefaultGranularity;
  if (xnack_enabled) range.access = supported_;
  return range;
}

void Svm::split_at(std::uint64_t address) {
  auto position = ranges_.lower_bound(address);
  if (position == ranges_.begin()) return;
  Range& range = std::prev(position)->second;
  if (range.end <= address) return;
  Range tail = range;
  range.end = address;
  ranges_.emplace_hint(position, address, tail);
}

std::pair<Svm::Ranges::iterator, Svm::Ranges::iterator> Svm::inside(std::uint64_t start, std::uint64_t end) {
  return {ranges_.lower_bound(start), ranges_.lower_bound(end)};
}

Svm::Ranges::const_iterator Svm::first_beyond(std::uint64_t address) const {
  auto position = ranges_.upper_bound(address);
  if (position != ranges_.begin() && std::prev(position)->second.end > address) --position;
  return position;
}

// kfd_svm.c: svm_range_apply_attrs.
void Svm::apply(Range& range, std::span<const kfd_ioctl_svm_attribute> attributes) const {
  for (const auto& [type, value] : attributes) {
    switch (type) {
      case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
        range.preferred_location = value;
        break;
      case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
        range.prefetch_location = value;
        break;
      case KFD_IOCTL_SVM_ATTR_ACCESS:
      case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
      case KFD_IOCTL_SVM_ATTR_NO_ACCESS: {
        const unsigned gpu = *index_of(value);
        range.access[gpu] = type == KFD_IOCTL_SVM_ATTR_ACCESS;
        range.access_in_place[gpu] = type == KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE;
        break;
      }
      case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
        range.flags |= value;
        break;
      case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
        range.flags &= ~value;
        break;
      case KFD_IOCTL_SVM_ATTR_GRANULARITY:
        range.granularity = std::min(value, kMaxGranularity);
        break;
    }
  }
}

Result<void> Svm::set_attributes(std::uint64_t start, std::uint64_t size_bytes, bool xnack_enabled,
                                 const Vms& vms, std::span<const kfd_ioctl_svm_attribute> attributes) {
  TRY(check_attributes(attributes));
  if (vms.empty()) return Errno(EINVAL);
  TRY(check_range(start, size_bytes, vms));
  const std::uint64_t end = start + size_bytes;
  const std::lock_guard lock(mutex_);
  drop_unmapped(start, end);
  split_at(start);
  split_at(end);
  for (std::uint64_t address = start; address < end;) {
    const auto next = ranges_.lower_bound(address);
    if (next != ranges_.end() && next->first == address) {
      address = next->second.end;
      continue;
    }
    Range fresh = default_range(xnack_enabled);
    fresh.end = next == ranges_.end() ? end : std::min(end, next->first);
    const std::uint64_t gap_end = fresh.end;
    ranges_.emplace_hint(next, address, fresh);
    address = gap_end;
  }
  const auto [first, last] = inside(start, end);
  for (auto position = first; position != last; ++position) apply(position->second, attributes);
  return {};
}

// kfd_svm.c: svm_range_get_attr. Only registered parts of the range count; without any the defaults are
// reported.
Result<void> Svm::get_attributes(std::uint64_t start, std::uint64_t size_bytes, bool xnack_enabled,
                                 const Vms& vms, std::span<kfd_ioctl_svm_attribute> attributes) {
  TRY(check_range(start, size_bytes, vms));
  for (const auto& [type, value] : attributes) {
    if (type == KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE || type == KFD_IOCTL_SVM_ATTR_NO_ACCESS ||
        type > KFD_IOCTL_SVM_ATTR_GRANULARITY) {
      return Errno(EINVAL);
    }
  }
  CommonLocation preferred, prefetch;
  GpuSet access = supported_, access_in_place = supported_;
  std::uint32_t flags_in_all = ~0u, flags_in_any = 0, granularity = 0xff;
  bool any = false;
  const auto add = [&](const Range& range) {
    preferred.add(range.preferred_location);
    prefetch.add(range.prefetch_location);
    access &= range.access;
    access_in_place &= range.access_in_place;
    flags_in_all &= range.flags;
    flags_in_any |= range.flags;
    granularity = std::min(granularity, range.granularity);
    any = true;
  };
  {
    const std::lock_guard lock(mutex_);
    drop_unmapped(start, start + size_bytes);
    for (auto position = first_beyond(start);
         position != ranges_.end() && position->first < start + size_bytes; ++position) {
      add(position->second);
    }
  }
  if (!any) add(default_range(xnack_enabled));

  for (auto& [type, value] : attributes) {
    switch (type) {
      case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
        value = preferred.value();
        break;
      case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
        value = prefetch.value();
        break;
      case KFD_IOCTL_SVM_ATTR_ACCESS: {
        const auto gpu = index_of(value);
        if (!gpu) return Errno(EINVAL);
        type = access[*gpu]            ? KFD_IOCTL_SVM_ATTR_ACCESS
               : access_in_place[*gpu] ? KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE
                                       : KFD_IOCTL_SVM_ATTR_NO_ACCESS;
        break;
      }
      case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
        value = flags_in_all;
        break;
      case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
        value = ~flags_in_any;
        break;
      case KFD_IOCTL_SVM_ATTR_GRANULARITY:
        value = granularity;
        break;
    }
  }
  return {};
}

// The MMU notifier's work (svm_range_unmap_from_cpu), done late.
void Svm::drop_unmapped(std::uint64_t start, std::uint64_t end) {
  auto position = first_beyond(start);
  while (position != ranges_.end() && position->first < end) {
    const std::uint64_t range_start = position->first, range_end = position->second.end;
    const Result<Vma> vma = vma_at(*client_, range_start);
    if (vma && vma.value().end < range_end) split_at(vma.value().end);
    position = ranges_.find(range_start);
    const bool gone = !vma && vma.error() == Errno(EFAULT);
    position = gone ? ranges_.erase(position) : std::next(position);
  }
}

bool Svm::overlaps(std::uint64_t start, std::uint64_t size_bytes) {
  std::uint64_t end = 0;
  if (__builtin_add_overflow(start, size_bytes, &end)) end = ~std::uint64_t{0};
  const std::lock_guard lock(mutex_);
  if (ranges_.empty()) return false;
  drop_unmapped(start, end);
  const auto position = first_beyond(start);
  return position != ranges_.end() && position->first < end;
}

Result<void> Svm::pin_for_queue(const Gpu& gpu, std::uint64_t start, std::uint64_t size_bytes) {
  const auto index = index_of(gpu.gpu_id());
  if (!index) return Errno(EINVAL);
  const std::uint64_t end = start + size_bytes;
  const std::lock_guard lock(mutex_);
  for (std::uint64_t address = start; address < end;) {
    const auto position = first_beyond(address);
    if (position == ranges_.end() || position->first > address) return Errno(EINVAL);
    const Range& range = position->second;
    const bool accessible = range.access[*index] || range.access_in_place[*index];
    if (!accessible || !(range.flags & KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED)) return Errno(EINVAL);
    address = range.end;
  }
  split_at(start);
  split_at(end);
  const auto [first, last] = inside(start, end);
  for (auto position = first; position != last; ++position) ++position->second.queue_references;
  return {};
}

void Svm::unpin_for_queue(std::uint64_t start, std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = inside(start, start + size_bytes);
  for (auto position = first; position != last; ++position) {
    if (position->second.queue_references > 0) --position->second.queue_references;
  }
}

std::optional<Svm::Accessible> Svm::access(const Gpu& gpu, std::uint64_t address, bool xnack_enabled) const {
  const auto index = supported_gpu(gpu.gpu_id());
  if (!index) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto position = first_beyond(address);
  if (position == ranges_.end() || position->first > address) {
    if (!xnack_enabled) return std::nullopt;
    const std::uint64_t end = position == ranges_.end() ? GpuVm::kEndAddress : position->first;
    return Accessible{{.readable = true, .writable = true}, end - address};
  }
  const Range& range = position->second;
  if (!range.access[*index] && !range.access_in_place[*index]) return std::nullopt;
  const PagePermissions permissions{.readable = true,
                                    .writable = !(range.flags & KFD_IOCTL_SVM_FLAG_GPU_RO),
                                    .executable = (range.flags & KFD_IOCTL_SVM_FLAG_GPU_EXEC) != 0};
  return Accessible{permissions, range.end - address};
}

std::size_t Svm::range_count() const {
  const std::lock_guard lock(mutex_);
  return ranges_.size();
}

}  // namespace understudy::kfd
