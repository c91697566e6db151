// Status<T>: a value or the hsa_status_t that says why not. How the core reports; drivers report errno
// (Result<T>), which is translated here when a call has no better answer of its own.
#pragma once

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <cerrno>

#include "runtime/base/expected.h"
#include "runtime/include/understudy/hsa_ext_vmem.h"

namespace hsa_rt {

template <class T>
using Status = Expected<T, hsa_status_t>;

// Status codes of the AMD extension are enumerators of other types than hsa_status_t.
constexpr hsa_status_t kErrorInvalidMemoryPool =
    static_cast<hsa_status_t>(HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
constexpr hsa_status_t kErrorMemoryApertureViolation =
    static_cast<hsa_status_t>(HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION);
constexpr hsa_status_t kErrorIllegalInstruction =
    static_cast<hsa_status_t>(HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION);
constexpr hsa_status_t kErrorMemoryFault = static_cast<hsa_status_t>(HSA_STATUS_ERROR_MEMORY_FAULT);
constexpr hsa_status_t kErrorResourceBusy = static_cast<hsa_status_t>(HSA_STATUS_ERROR_RESOURCE_BUSY);
constexpr hsa_status_t kErrorNotSupported = static_cast<hsa_status_t>(HSA_STATUS_ERROR_NOT_SUPPORTED);

// For driver failures whose call documents no particular status.
constexpr hsa_status_t status_of(Errno error) {
  switch (error.value) {
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
      return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    case EOPNOTSUPP:
    case ENOTTY:
      return kErrorNotSupported;
    case EBUSY:
      return kErrorResourceBusy;
    default:
      return HSA_STATUS_ERROR;
  }
}

template <class T>
Status<T> or_status(Result<T> result) {
  if (!result) return status_of(result.error());
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return std::move(result).value();
  }
}

}  // namespace hsa_rt
