// /dev/kfd and the render nodes of two GPUs: every ioctl of KFD, and what it shares with the client: rings,
// doorbells, signal pages. Render nodes are there to be acquired and shared with.
#include "tests/fuzz/call_program.h"
#include "tests/fuzz/machines.h"
#include "uapi/amdgpu.h"
#include "uapi/drm.h"
#include "uapi/kfd.h"
#include "uapi/kfd_rocm.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace understudy::fuzz;
  Input input(data, size);
  const FuzzMachine gpus = gpu_machine(input.byte());
  const Scene scene{{{{"kfd"}, {uapi::kfd::ioctls(), uapi::kfd_rocm::ioctls(), uapi::kfd::ioctls()}},
                     {{"dri/renderD128", "dri/renderD129"}, {uapi::amdgpu::ioctls(), uapi::drm::ioctls()}}},
                    {uapi::kfd::structs(), uapi::kfd_rocm::structs()},
                    gpu_ids(*gpus.machine)};
  CallProgram(*gpus.machine, *gpus.clock, scene).run(input);
  return 0;
}
