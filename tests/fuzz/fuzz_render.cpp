// The render and primary nodes of two GPUs: every ioctl of amdgpu and of the DRM core.
#include "tests/fuzz/call_program.h"
#include "tests/fuzz/machines.h"
#include "uapi/amdgpu.h"
#include "uapi/drm.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace understudy::fuzz;
  Input input(data, size);
  const FuzzMachine gpus = gpu_machine(input.byte());
  const Scene scene{{{{"dri/renderD128", "dri/renderD129", "dri/card0"},
                      {uapi::amdgpu::ioctls(), uapi::drm::ioctls(), uapi::amdgpu::ioctls()}}},
                    {uapi::amdgpu::structs(), uapi::drm::structs()},
                    {}};
  CallProgram(*gpus.machine, *gpus.clock, scene).run(input);
  return 0;
}
