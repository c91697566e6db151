// What the user-space library of the host answers: HSAKMT_STATUS_* in a type of its own.
//
// Owner: plain values. Units: none. Errors: none. Thread-safety: immutable. Mirrors: hsakmttypes.h:
// HSAKMT_STATUS.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "uapi/vhsakmt.h"

namespace understudy::virtio_gpu {

namespace hsa = uapi::vhsakmt;

// As the library returns it and the protocol carries it: positive.
enum class HsaStatus : std::uint32_t {
  kSuccess = hsa::HSAKMT_STATUS_SUCCESS,
  kError = hsa::HSAKMT_STATUS_ERROR,
  kInvalidParameter = hsa::HSAKMT_STATUS_INVALID_PARAMETER,
  kInvalidHandle = hsa::HSAKMT_STATUS_INVALID_HANDLE,
  kInvalidNode = hsa::HSAKMT_STATUS_INVALID_NODE_UNIT,
  kNoMemory = hsa::HSAKMT_STATUS_NO_MEMORY,
  kNotImplemented = hsa::HSAKMT_STATUS_NOT_IMPLEMENTED,
  kNotSupported = hsa::HSAKMT_STATUS_NOT_SUPPORTED,
  kUnavailable = hsa::HSAKMT_STATUS_UNAVAILABLE,
  kMemoryNotRegistered = hsa::HSAKMT_STATUS_MEMORY_NOT_REGISTERED,
};

// A value, or the status of a failure.
template <typename T>
class [[nodiscard]] HsaResult {
 public:
  HsaResult(T value) : value_(std::move(value)) {}
  HsaResult(HsaStatus failure) : status_(failure) {}

  explicit operator bool() const { return value_.has_value(); }
  T& value() { return *value_; }
  HsaStatus status() const { return status_; }

 private:
  std::optional<T> value_;
  HsaStatus status_ = HsaStatus::kSuccess;
};

}  // namespace understudy::virtio_gpu
