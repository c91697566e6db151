// MachineDescription: what the user asked for, by flags and machine file together: devices by profile, and
// settings.
//
// Owner: plain data. Units: in the names. Errors: none here. Thread-safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/settings.h"

namespace understudy::cli {

struct DeviceRequest {
  std::string profile;
  unsigned count = 1;
};

struct CpuDescription {
  unsigned nodes = 1;  // NUMA nodes
  unsigned cores = 0;  // 0: as many as the host has; likewise memory
  std::uint64_t memory_bytes = 0;
};

struct MachineDescription {
  Settings settings;
  CpuDescription cpu;
  std::vector<DeviceRequest> gpus;
  std::vector<DeviceRequest> npus;
  std::string virtio_gpu;                // capset, empty: no virtio-gpu
  std::vector<DeviceRequest> host_gpus;  // behind the virtio-gpu
  bool cpu_only = false;                 // /dev/kfd without any GPU

  bool has_devices() const { return !gpus.empty() || !npus.empty() || !virtio_gpu.empty() || cpu_only; }
};

// "2 x gfx90a, npu4": for messages and `understudy ps`.
std::string describe_devices(const MachineDescription& description);

}  // namespace understudy::cli
