// QueueProperties: what user space says about a queue.
//
// Owner: plain data. Units: sizes in bytes. Errors: none. Thread-safety: immutable.
// Mirrors: amdkfd/kfd_priv.h: struct queue_properties.
#pragma once

#include <cstdint>

namespace understudy::kfd {

enum class QueueType : std::uint8_t { kCompute, kSdma, kSdmaXgmi, kSdmaByEngine };
enum class QueueFormat : std::uint8_t { kPm4, kAql };

struct QueueProperties {
  QueueType type = QueueType::kCompute;
  QueueFormat format = QueueFormat::kPm4;
  std::uint64_t ring_address = 0;
  std::uint64_t ring_size_bytes = 0;
  std::uint64_t metadata_ring_size_bytes = 0;
  std::uint64_t read_pointer_address = 0;
  std::uint64_t write_pointer_address = 0;
  std::uint64_t eop_address = 0;
  std::uint64_t eop_size_bytes = 0;
  std::uint64_t context_save_address = 0;
  std::uint32_t context_save_size_bytes = 0;
  std::uint32_t control_stack_size_bytes = 0;
  std::uint32_t percent = 0;
  std::uint32_t priority = 0;
  std::uint32_t sdma_engine = 0;  // kSdmaByEngine

  // The scheduler runs it (kfd_priv.h: QUEUE_IS_ACTIVE).
  bool is_active() const { return ring_size_bytes > 0 && ring_address != 0 && (percent & 0xff) > 0; }
  bool is_sdma() const { return type != QueueType::kCompute; }
};

}  // namespace understudy::kfd
