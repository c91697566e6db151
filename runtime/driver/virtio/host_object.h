// HostObject: memory the host holds for this process: an allocation, or pages of the process that the host
// sees in one piece. The host chose the address. Its GPUs know an allocation by the same one; where they see
// user pages is known once these are mapped, so they stay mapped on one GPU from the beginning to the end.
//
// The host maps on a list of GPUs and unmaps from all at once; so the list is kept here. Closing the blob is
// what frees an allocation.
//
// Owner: VirtioMemory, by shared_ptr. Units: bytes. Errors: errno of the host's answer. Thread-safe.
// Mirrors: virglrenderer src/rocm/hsakmt_memory.c.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/base/address_span.h"
#include "runtime/driver/virtio/virtio_file.h"

namespace hsa_rt::virtio {

class HostChannel;

class HostObject {
 public:
  // An allocation the host made at `span`.
  HostObject(HostChannel& channel, VirtioFile::Blob blob, const AddressSpan& span);
  // Pages of the process behind `blob`, registered with the host's library and mapped on the GPU of `node`.
  static Result<std::shared_ptr<HostObject>> register_user_pages(HostChannel& channel, VirtioFile::Blob blob,
                                                                 uint64_t size_bytes, uint32_t node);
  HostObject(const HostObject&) = delete;
  HostObject& operator=(const HostObject&) = delete;
  ~HostObject();

  // Where the host has it.
  const AddressSpan& span() const { return span_; }
  // Where GPUs have it.
  uint64_t device_address() const { return device_address_; }
  const GemRef& gem() const { return *blob_.gem; }
  uint32_t resource_id() const { return blob_.resource_id; }

  // Counted: the GPU of `node` has the memory until each map() has its unmap().
  Result<void> map(uint32_t node);
  Result<void> unmap(uint32_t node);

  // Gives the memory back; none of the callers' mappings are left. A second call does nothing.
  Result<void> close();

 private:
  // Requires lock_.
  Result<void> map_exactly(const std::map<uint32_t, uint64_t>& nodes);

  HostChannel& channel_;
  VirtioFile::Blob blob_;
  const AddressSpan span_;
  uint64_t device_address_;
  bool registered_ = false;            // user pages: with the host's library
  std::optional<uint32_t> home_node_;  // user pages: where they are mapped for good
  std::mutex lock_;
  std::map<uint32_t, uint64_t> uses_by_node_;
};

}  // namespace hsa_rt::virtio
