// Svm: ranges of a process's own address space that are registered for GPU access, with their attributes.
//
// Owner: KfdProcess. Units: bytes, page multiples. Errors: EINVAL bad attribute, EFAULT not mapped by the
// client, EADDRINUSE used by a BO. Thread-safety: locks itself (the kernel's svms.lock); called with or
// without the process's mutex. Mirrors: amdkfd/kfd_svm.c: svm_ioctl, svm_range_set_attr, svm_range_get_attr;
// kfd_queue.c: kfd_queue_buffer_svm_get.
//
// The pages stay where they are, in the client: migration has no effect that a program can see here. A munmap
// drops the registration when it is next looked at, because nothing tells of it earlier.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "sim/core/client.h"
#include "sim/core/result.h"
#include "sim/kfd/gpu_vm.h"
#include "uapi/kfd.h"

namespace understudy::kfd {

class Gpu;

class Svm {
 public:
  static constexpr unsigned kMaxGpus = 64;

  Svm(ClientRef client, std::vector<std::shared_ptr<Gpu>> gpus);

  // The VMs ranges must not collide with, of the GPUs the process has acquired.
  using Vms = std::vector<std::shared_ptr<GpuVm>>;
  Result<void> set_attributes(std::uint64_t start, std::uint64_t size_bytes, bool xnack_enabled,
                              const Vms& vms, std::span<const uapi::kfd::kfd_ioctl_svm_attribute> attributes);
  // Overwrites values, and the types of access attributes.
  Result<void> get_attributes(std::uint64_t start, std::uint64_t size_bytes, bool xnack_enabled,
                              const Vms& vms, std::span<uapi::kfd::kfd_ioctl_svm_attribute> attributes);

  bool overlaps(std::uint64_t start, std::uint64_t size_bytes);
  // A queue keeps its save area in the range: it must be mapped all the time and accessible. EINVAL.
  Result<void> pin_for_queue(const Gpu& gpu, std::uint64_t start, std::uint64_t size_bytes);
  void unpin_for_queue(std::uint64_t start, std::uint64_t size_bytes);

  // What `gpu` may do from `address` on, and for how many bytes that is known; nothing when it has no access.
  // Unregistered pages are open to it with XNACK.
  struct Accessible {
    PagePermissions permissions;
    std::uint64_t size_bytes = 0;
  };
  std::optional<Accessible> access(const Gpu& gpu, std::uint64_t address, bool xnack_enabled) const;
  std::size_t range_count() const;

 private:
  using GpuSet = std::bitset<kMaxGpus>;
  struct Range {
    std::uint64_t end = 0;
    std::uint32_t preferred_location = 0;
    std::uint32_t prefetch_location = 0;
    std::uint32_t flags = 0;
    std::uint32_t granularity = 0;
    GpuSet access;
    GpuSet access_in_place;
    unsigned queue_references = 0;
  };
  using Ranges = std::map<std::uint64_t, Range>;  // by start

  Range default_range(bool xnack_enabled) const;
  std::optional<unsigned> supported_gpu(std::uint32_t gpu_id) const;
  std::optional<unsigned> index_of(std::uint32_t gpu_id) const;
  Result<void> check_attributes(std::span<const uapi::kfd::kfd_ioctl_svm_attribute> attributes) const;
  Result<void> check_range(std::uint64_t start, std::uint64_t size_bytes, const Vms& vms) const;
  void apply(Range& range, std::span<const uapi::kfd::kfd_ioctl_svm_attribute> attributes) const;
  // These require mutex_.
  void split_at(std::uint64_t address);
  // The ranges inside [start, end), which must not be cut by its ends.
  std::pair<Ranges::iterator, Ranges::iterator> inside(std::uint64_t start, std::uint64_t end);
  // First range that reaches beyond `address`.
  Ranges::const_iterator first_beyond(std::uint64_t address) const;
  void drop_unmapped(std::uint64_t start, std::uint64_t end);

  const ClientRef client_;
  const std::vector<std::shared_ptr<Gpu>> gpus_;
  GpuSet supported_;
  mutable std::mutex mutex_;
  Ranges ranges_;  // guarded by mutex_; they do not overlap
};

}  // namespace understudy::kfd
