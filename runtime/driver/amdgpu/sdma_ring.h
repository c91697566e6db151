// SdmaRing: jobs of a copy engine as packets in a ring. Whoever made the queue lends ring, pointers and
// doorbell; they outlive this.
//
// Units: bytes; both pointers count bytes and never wrap. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "runtime/driver/amdgpu/sdma_packets.h"
#include "runtime/driver/device_info.h"
#include "runtime/driver/queues.h"

namespace hsa_rt::amdgpu {

class SdmaRing {
 public:
  static constexpr uint64_t kBytes = uint64_t{1} << 20;

  struct Queue {
    void* ring = nullptr;  // kBytes
    std::atomic<uint64_t>* read_pointer = nullptr;
    std::atomic<uint64_t>* write_pointer = nullptr;
    volatile uint64_t* doorbell = nullptr;
  };

  // `gfx_version` as in the topology: major * 10000 + minor * 100 + stepping.
  SdmaRing(const Queue& queue, uint32_t gfx_version, const DeviceInfo& device);

  void submit(const CopyJob& job);

 private:
  void write_prologue(const CopyJob& job);
  uint64_t write_chunk(const CopySegment& segment, uint64_t done, std::optional<uint32_t> fill_value);
  void write_epilogue(const CopyJob& job);
  // Moves what has been written to the ring and publishes it.
  void flush_piece();

  const Queue queue_;
  const SdmaVariant variant_;
  const bool has_atomics_;
  std::mutex lock_;
  uint64_t write_position_ = 0;
  SdmaWriter writer_;
};

}  // namespace hsa_rt::amdgpu
