// GuestMachine: a machine with one virtio-gpu, and the test process as its client.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "sim/core/machine.h"
#include "sim/drm/drm_file.h"
#include "sim/virtio_gpu/assemble.h"
#include "sim/virtio_gpu/guest/virtio_gpu_device.h"
#include "sim/virtio_gpu/guest/virtio_gpu_file.h"
#include "tests/support/test_client.h"
#include "uapi/drm.h"
#include "uapi/virtgpu.h"
#include "uapi/virtgpu_variants.h"

namespace understudy::virtio_gpu::test {

namespace guest_abi = uapi::virtgpu;
namespace variants = uapi::virtgpu::variants;

inline constexpr std::uint32_t kNoSuchHandle = 4711;

struct GuestOptions {
  std::string request = "2d";
  std::string kernel = "upstream";
  std::string device;  // empty: the mode's
  std::uint64_t scatter_entries = Limits::kNone;
  std::uint64_t system_bytes = Limits::kNone;
  bool strict = false;
  std::shared_ptr<Machine> host;
};

inline Settings settings_of(const GuestOptions& options) {
  Settings settings;
  settings.flavour.virtio_blob_layout = options.kernel;
  settings.flavour.virtio_device = options.device;
  settings.flavour.virtio_strict = options.strict;
  settings.limits.scatter_entries = options.scatter_entries;
  settings.limits.system_bytes = options.system_bytes;
  return settings;
}

class GuestMachine {
 public:
  explicit GuestMachine(const GuestOptions& options = {})
      : machine(settings_of(options), make_clock()), client(machine) {
    const ParsedRequest parsed = parse_request(options.request);
    EXPECT_EQ(parsed.problem, std::nullopt);
    const AddedDevice added = add_device(machine, options.host, parsed.request);
    EXPECT_EQ(added.problem, std::nullopt);
    gpu = added.device;
    if (gpu) file = client.open("dri/renderD128");
  }

  template <typename Tag>
  int ioctl(typename Tag::Args& args) {
    return client.ioctl<Tag>(file, args);
  }
  int ioctl_number(std::uint32_t command, void* args) { return client.ioctl(file, command, args); }

  int get_param(std::uint64_t param, std::int32_t& value) {
    guest_abi::drm_virtgpu_getparam args{param, reinterpret_cast<std::uint64_t>(&value)};
    return ioctl<guest_abi::Getparam>(args);
  }
  // A 2D resource; 0 on failure.
  std::uint32_t create_resource(std::uint32_t size = 4096, std::uint32_t width = 16) {
    guest_abi::drm_virtgpu_resource_create args{};
    args.target = 2;
    args.format = 1;
    args.width = width;
    args.height = 16;
    args.depth = args.array_size = 1;
    args.size = size;
    return ioctl<guest_abi::ResourceCreate>(args) == 0 ? args.bo_handle : 0;
  }
  int close_handle(std::uint32_t handle) {
    uapi::drm::drm_gem_close args{handle, 0};
    return ioctl<uapi::drm::GemClose>(args);
  }
  int map_offset(std::uint32_t handle, std::uint64_t& offset) {
    guest_abi::drm_virtgpu_map args{};
    args.handle = handle;
    const int result = ioctl<guest_abi::Map>(args);
    offset = args.offset;
    return result;
  }
  int wait(std::uint32_t handle, std::uint32_t flags = 0) {
    guest_abi::drm_virtgpu_3d_wait args{handle, flags};
    return ioctl<guest_abi::Wait>(args);
  }
  int context_init(std::vector<guest_abi::drm_virtgpu_context_set_param> params) {
    guest_abi::drm_virtgpu_context_init args{};
    args.num_params = static_cast<std::uint32_t>(params.size());
    args.ctx_set_params = reinterpret_cast<std::uint64_t>(params.data());
    return ioctl<guest_abi::ContextInit>(args);
  }
  std::size_t live(ObjectKind kind) { return machine.ledger().live_count(kind); }

  ManualClock* clock = nullptr;
  Machine machine;
  understudy::test::TestClient client;
  std::shared_ptr<VirtioGpuDevice> gpu;
  FileRef file;

 private:
  std::unique_ptr<Clock> make_clock() {
    auto made = std::make_unique<ManualClock>();
    clock = made.get();
    return made;
  }
};

}  // namespace understudy::virtio_gpu::test
