// Settings: what a machine file says beyond its devices: flavour, limits, seed and policies.
//
// Owner: plain data, fixed before the first client. Units in the names. Errors: none here; the command line
// checks. Thread-safety: read-only once the machine runs.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace understudy {

struct Limits {
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t vram_bytes = kNone;       // per GPU, lower than the profile's
  std::uint64_t vram_in_use_bytes = 0;    // already used by others, per GPU
  std::uint64_t system_bytes = kNone;     // GTT + userptr
  std::uint64_t events = kNone;           // signal events per process
  std::uint64_t queues = kNone;           // per process and GPU
  std::uint64_t doorbells = kNone;        // per process and GPU
  std::uint64_t scatter_entries = kNone;  // virtio-gpu nr_entries_limit
  std::uint64_t fds = kNone;              // descriptors handed to one client
};

struct Flavour {
  unsigned kfd_minor = 17;
  bool rocm_dkms = true;  // the ROCm-only KFD numbers exist
  std::string amdxdna =
      "out-of-tree";  // "out-of-tree" (newest, 0.16), "mainline" (0.10), "first" (6.14), "legacy" (1.0)
  std::string virtio_blob_layout = "upstream";      // guest kernel: size variant of RESOURCE_CREATE_BLOB
  std::string vhsakmt_memory_layout = "reference";  // "reference" (80 bytes) or "merge-request" (312 bytes)
  std::string virtio_device;   // model of the device: "qemu-7.2", "qemu-10.0", "series"; empty: by mode
  bool virtio_strict = false;  // make errors loud that the real device swallows
};

// What becomes of a kernel dispatch that no plug-in executes.
enum class DispatchPolicy : std::uint8_t { kQueueError, kSkip };

struct Settings {
  std::string name = "machine";
  std::uint64_t seed = 1;
  Limits limits;
  Flavour flavour;
  DispatchPolicy dispatch = DispatchPolicy::kQueueError;
  std::string dispatch_plugin;  // shared object, empty: none
  bool npu_complete_unsupported =
      false;  // profile's `unsupported` policy: complete and warn instead of error
};

}  // namespace understudy
