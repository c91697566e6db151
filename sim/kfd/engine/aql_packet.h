// AqlPacket and the memory layouts AQL refers to: signals and amd_queue_t.
//
// Owner: views of bytes. Units: bytes. Errors: none. Thread-safety: immutable.
// Mirrors: hsa.h (packets), amd_hsa_signal.h, amd_hsa_queue.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace understudy::kfd::engine {

enum class AqlType : std::uint8_t {
  kVendorSpecific = 0,
  kInvalid = 1,
  kKernelDispatch = 2,
  kBarrierAnd = 3,
  kAgentDispatch = 4,
  kBarrierOr = 5,
};
enum class AqlVendorFormat : std::uint8_t { kPm4IndirectBuffer = 1, kBarrierValue = 2 };

class AqlPacket {
 public:
  static constexpr std::size_t kBytes = 64;
  static constexpr std::uint16_t kInvalidHeader = 1;
  static constexpr unsigned kDependencies = 5;

  explicit AqlPacket(std::span<const std::byte, kBytes> bytes) : bytes_(bytes) {}

  AqlType type() const { return static_cast<AqlType>(at<std::uint16_t>(0) & 0xff); }
  AqlVendorFormat vendor_format() const { return static_cast<AqlVendorFormat>(at<std::uint8_t>(2)); }
  std::uint64_t completion_signal() const { return at<std::uint64_t>(56); }
  // Kernel dispatch.
  std::uint64_t kernel_object() const { return at<std::uint64_t>(32); }
  std::uint64_t kernarg_address() const { return at<std::uint64_t>(40); }
  // Barrier-AND, barrier-OR.
  std::uint64_t dependency(unsigned index) const { return at<std::uint64_t>(8 + 8 * index); }
  // Barrier-value.
  std::uint64_t value_signal() const { return at<std::uint64_t>(8); }
  std::int64_t value() const { return at<std::int64_t>(16); }
  std::int64_t value_mask() const { return at<std::int64_t>(24); }
  std::uint32_t value_condition() const { return at<std::uint32_t>(32); }
  // PM4 indirect buffer: a PM4 INDIRECT_BUFFER packet behind the header.
  std::uint64_t buffer_address() const { return at<std::uint64_t>(8) & 0xffff'ffff'ffff; }
  std::uint32_t buffer_size_dw() const { return at<std::uint32_t>(16) & 0xfffff; }

 private:
  template <typename T>
  T at(std::size_t offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  const std::span<const std::byte, kBytes> bytes_;
};

// amd_signal_t.
namespace signal_layout {
inline constexpr std::uint64_t kValue = 8;
inline constexpr std::uint64_t kMailbox = 16;
inline constexpr std::uint64_t kEventId = 24;
inline constexpr std::uint64_t kStartTimestamp = 32;
inline constexpr std::uint64_t kEndTimestamp = 40;
}  // namespace signal_layout

// amd_queue_t.
namespace queue_layout {
inline constexpr std::uint64_t kWriteDispatchId = 56;
inline constexpr std::uint64_t kReadDispatchId = 128;
inline constexpr std::uint64_t kProperties = 180;
inline constexpr std::uint64_t kInactiveSignal = 192;
inline constexpr std::uint32_t kPropertyEnableProfiling = 1u << 3;
}  // namespace queue_layout

}  // namespace understudy::kfd::engine
