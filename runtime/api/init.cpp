// Starting, stopping, and what the system is.
#include "runtime/api/entry.h"

using namespace hsa_rt;
using namespace hsa_rt::api;

namespace {

constexpr uint16_t kHsaVersionMajor = 1;
constexpr uint16_t kHsaVersionMinor = 1;
constexpr uint16_t kAmdInterfaceMajor = 1;
constexpr uint16_t kAmdInterfaceMinor = 10;  // the newest feature of the AMD extension that is complete here
constexpr const char* kBuildVersion = "understudy-hsa";

struct StatusText {
  int status;
  const char* text;
};

constexpr StatusText kStatusTexts[] = {
    {HSA_STATUS_SUCCESS, "HSA_STATUS_SUCCESS: The function has been executed successfully."},
    {HSA_STATUS_INFO_BREAK, "HSA_STATUS_INFO_BREAK: A traversal has been ended early by the application."},
    {HSA_STATUS_ERROR, "HSA_STATUS_ERROR: A generic error has occurred."},
    {HSA_STATUS_ERROR_INVALID_ARGUMENT, "HSA_STATUS_ERROR_INVALID_ARGUMENT: An argument is invalid."},
    {HSA_STATUS_ERROR_INVALID_QUEUE_CREATION,
     "HSA_STATUS_ERROR_INVALID_QUEUE_CREATION: The requested queue creation is not valid."},
    {HSA_STATUS_ERROR_INVALID_ALLOCATION,
     "HSA_STATUS_ERROR_INVALID_ALLOCATION: The allocation is not valid."},
    {HSA_STATUS_ERROR_INVALID_AGENT, "HSA_STATUS_ERROR_INVALID_AGENT: The agent is invalid."},
    {HSA_STATUS_ERROR_INVALID_REGION, "HSA_STATUS_ERROR_INVALID_REGION: The memory region is invalid."},
    {HSA_STATUS_ERROR_INVALID_SIGNAL, "HSA_STATUS_ERROR_INVALID_SIGNAL: The signal is invalid."},
    {HSA_STATUS_ERROR_INVALID_QUEUE, "HSA_STATUS_ERROR_INVALID_QUEUE: The queue is invalid."},
    {HSA_STATUS_ERROR_OUT_OF_RESOURCES,
     "HSA_STATUS_ERROR_OUT_OF_RESOURCES: A resource could not be obtained."},
    {HSA_STATUS_ERROR_INVALID_PACKET_FORMAT,
     "HSA_STATUS_ERROR_INVALID_PACKET_FORMAT: The AQL packet is malformed."},
    {HSA_STATUS_ERROR_RESOURCE_FREE, "HSA_STATUS_ERROR_RESOURCE_FREE: A resource could not be released."},
    {HSA_STATUS_ERROR_NOT_INITIALIZED, "HSA_STATUS_ERROR_NOT_INITIALIZED: hsa_init has not been called."},
    {HSA_STATUS_ERROR_REFCOUNT_OVERFLOW,
     "HSA_STATUS_ERROR_REFCOUNT_OVERFLOW: A reference count is at its maximum."},
    {HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS,
     "HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS: The arguments do not go together."},
    {HSA_STATUS_ERROR_INVALID_INDEX, "HSA_STATUS_ERROR_INVALID_INDEX: The index is invalid."},
    {HSA_STATUS_ERROR_INVALID_ISA,
     "HSA_STATUS_ERROR_INVALID_ISA: The instruction set architecture is invalid."},
    {HSA_STATUS_ERROR_INVALID_ISA_NAME,
     "HSA_STATUS_ERROR_INVALID_ISA_NAME: The name of the instruction set architecture is invalid."},
    {HSA_STATUS_ERROR_INVALID_CODE_OBJECT,
     "HSA_STATUS_ERROR_INVALID_CODE_OBJECT: The code object is invalid."},
    {HSA_STATUS_ERROR_INVALID_EXECUTABLE, "HSA_STATUS_ERROR_INVALID_EXECUTABLE: The executable is invalid."},
    {HSA_STATUS_ERROR_EXCEPTION, "HSA_STATUS_ERROR_EXCEPTION: An exception occurred on a device."},
    {HSA_STATUS_ERROR_INVALID_CACHE, "HSA_STATUS_ERROR_INVALID_CACHE: The cache is invalid."},
    {HSA_STATUS_ERROR_INVALID_WAVEFRONT, "HSA_STATUS_ERROR_INVALID_WAVEFRONT: The wavefront is invalid."},
    {HSA_STATUS_ERROR_INVALID_SIGNAL_GROUP,
     "HSA_STATUS_ERROR_INVALID_SIGNAL_GROUP: The signal group is invalid."},
    {HSA_STATUS_ERROR_INVALID_RUNTIME_STATE,
     "HSA_STATUS_ERROR_INVALID_RUNTIME_STATE: The runtime is not in a state that allows this."},
    {HSA_STATUS_ERROR_FATAL, "HSA_STATUS_ERROR_FATAL: The queue has met an error it cannot recover from."},
    {HSA_STATUS_ERROR_INVALID_MEMORY_POOL,
     "HSA_STATUS_ERROR_INVALID_MEMORY_POOL: The memory pool is invalid."},
    {HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION,
     "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: A device used an address outside its apertures."},
    {HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION,
     "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION: A device met an instruction it does not know."},
    {HSA_STATUS_ERROR_MEMORY_FAULT,
     "HSA_STATUS_ERROR_MEMORY_FAULT: A device used memory it has no access to."},
    {HSA_STATUS_CU_MASK_REDUCED,
     "HSA_STATUS_CU_MASK_REDUCED: The mask was reduced to what the queue may use."},
    {HSA_STATUS_ERROR_OUT_OF_REGISTERS,
     "HSA_STATUS_ERROR_OUT_OF_REGISTERS: The kernel needs too many registers."},
    {HSA_STATUS_ERROR_RESOURCE_BUSY, "HSA_STATUS_ERROR_RESOURCE_BUSY: The resource is in use."},
    {HSA_STATUS_ERROR_NOT_SUPPORTED, "HSA_STATUS_ERROR_NOT_SUPPORTED: The device or runtime cannot do this."},
};

bool all_gpus_support_svm(Runtime& runtime) {
  return runtime.svm() != nullptr;
}

Status<void> system_info(Runtime& runtime, hsa_system_info_t attribute, void* value) {
  constexpr uint64_t kNsPerSecond = 1'000'000'000;
  switch (static_cast<int>(attribute)) {
    case HSA_SYSTEM_INFO_VERSION_MAJOR:
      return answer(value, kHsaVersionMajor);
    case HSA_SYSTEM_INFO_VERSION_MINOR:
      return answer(value, kHsaVersionMinor);
    case HSA_SYSTEM_INFO_TIMESTAMP:
      return answer(value, now_ns());
    case HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY:
      return answer(value, kNsPerSecond);
    case HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT:
      return answer(value, UINT64_MAX);
    case HSA_SYSTEM_INFO_ENDIANNESS:
      return answer(value, HSA_ENDIANNESS_LITTLE);
    case HSA_SYSTEM_INFO_MACHINE_MODEL:
      return answer(value, HSA_MACHINE_MODEL_LARGE);
    case HSA_SYSTEM_INFO_EXTENSIONS:
      std::memset(value, 0, 128);
      return {};
    case HSA_AMD_SYSTEM_INFO_BUILD_VERSION:
      return answer(value, kBuildVersion);
    case HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED:
      return answer(value, all_gpus_support_svm(runtime));
    case HSA_AMD_SYSTEM_INFO_SVM_ACCESSIBLE_BY_DEFAULT:
    case HSA_AMD_SYSTEM_INFO_XNACK_ENABLED:
      return answer(value, false);  // this runtime leaves XNACK as it starts: off
    case HSA_AMD_SYSTEM_INFO_MWAITX_ENABLED:
      return answer(value, false);
    case HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED:
    case HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED:
      return answer(value, runtime.supports_dmabuf());
    case HSA_AMD_SYSTEM_INFO_EXT_VERSION_MAJOR:
      return answer(value, kAmdInterfaceMajor);
    case HSA_AMD_SYSTEM_INFO_EXT_VERSION_MINOR:
      return answer(value, kAmdInterfaceMinor);
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

const char* extension_name(uint16_t extension) {
  switch (extension) {
    case HSA_EXTENSION_FINALIZER:
      return "HSA_EXTENSION_FINALIZER";
    case HSA_EXTENSION_IMAGES:
      return "HSA_EXTENSION_IMAGES";
    case HSA_EXTENSION_PERFORMANCE_COUNTERS:
      return "HSA_EXTENSION_PERFORMANCE_COUNTERS";
    case HSA_EXTENSION_PROFILING_EVENTS:
      return "HSA_EXTENSION_PROFILING_EVENTS";
    case HSA_EXTENSION_AMD_PROFILER:
      return "HSA_EXTENSION_AMD_PROFILER";
    case HSA_EXTENSION_AMD_LOADER:
      return "HSA_EXTENSION_AMD_LOADER";
    case HSA_EXTENSION_AMD_AQLPROFILE:
      return "HSA_EXTENSION_AMD_AQLPROFILE";
    default:
      return nullptr;
  }
}

}  // namespace

hsa_status_t hsa_init() {
  try {
    return to_c(Runtime::acquire());
  } catch (...) {
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  }
}

hsa_status_t hsa_shut_down() {
  try {
    return to_c(Runtime::release());
  } catch (...) {
    return HSA_STATUS_ERROR;
  }
}

// Needs no runtime.
hsa_status_t hsa_status_string(hsa_status_t status, const char** status_string) {
  if (status_string == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  for (const StatusText& entry : kStatusTexts) {
    if (entry.status != static_cast<int>(status)) continue;
    *status_string = entry.text;
    return HSA_STATUS_SUCCESS;
  }
  *status_string = nullptr;
  return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void* value) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(value != nullptr));
    return system_info(runtime, attribute, value);
  });
}

hsa_status_t hsa_extension_get_name(uint16_t extension, const char** name) {
  return with_runtime([&](Runtime&) -> Status<void> {
    TRY(require(name != nullptr && extension_name(extension) != nullptr));
    *name = extension_name(extension);
    return {};
  });
}

// No extension is offered; a program that asks is told so, and one that takes a table anyway gets an error.
hsa_status_t hsa_system_extension_supported(uint16_t extension, uint16_t, uint16_t, bool* result) {
  return with_runtime([&](Runtime&) -> Status<void> {
    TRY(require(result != nullptr && extension_name(extension) != nullptr));
    *result = false;
    return {};
  });
}

hsa_status_t hsa_system_major_extension_supported(uint16_t extension, uint16_t, uint16_t* version_minor,
                                                  bool* result) {
  return with_runtime([&](Runtime&) -> Status<void> {
    TRY(require(version_minor != nullptr && result != nullptr && extension_name(extension) != nullptr));
    *result = false;
    return {};
  });
}

hsa_status_t hsa_agent_extension_supported(uint16_t extension, hsa_agent_t agent, uint16_t, uint16_t,
                                           bool* result) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(result != nullptr && extension_name(extension) != nullptr));
    TRY(agent_for(runtime, agent));
    *result = false;
    return {};
  });
}

hsa_status_t hsa_agent_major_extension_supported(uint16_t extension, hsa_agent_t agent, uint16_t,
                                                 uint16_t* version_minor, bool* result) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(version_minor != nullptr && result != nullptr && extension_name(extension) != nullptr));
    TRY(agent_for(runtime, agent));
    *result = false;
    return {};
  });
}
