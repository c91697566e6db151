// The guest's render node: every ioctl of virtio-gpu, in several sizes of RESOURCE_CREATE_BLOB, and of the
// DRM core; behind it the device, and behind that the host's KFD.
#include "tests/fuzz/call_program.h"
#include "tests/fuzz/machines.h"
#include "uapi/drm.h"
#include "uapi/virtgpu.h"
#include "uapi/virtgpu_variants.h"
#include "uapi/virtio_gpu_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace understudy::fuzz;
  Input input(data, size);
  const FuzzMachine guest = virtio_machine(input.byte());
  const Scene scene{
      {{{"dri/renderD128"},
        {uapi::virtgpu::ioctls(), uapi::virtgpu::variants::userptr_v4::ioctls(), uapi::drm::ioctls()}}},
      {uapi::virtgpu::structs(), uapi::virtio_gpu_wire::structs()},
      {}};
  CallProgram(*guest.machine, *guest.clock, scene).run(input);
  return 0;
}
