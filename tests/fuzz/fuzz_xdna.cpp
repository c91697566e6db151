// The NPU's node: every ioctl of amdxdna, of all its published headers, and of the DRM core.
#include "tests/fuzz/call_program.h"
#include "tests/fuzz/machines.h"
#include "uapi/amdxdna.h"
#include "uapi/amdxdna_variants.h"
#include "uapi/drm.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace understudy::fuzz;
  namespace xdna = uapi::amdxdna;
  Input input(data, size);
  const FuzzMachine npu = npu_machine(input.byte());
  const Scene scene{
      {{{"accel/accel0"},
        {xdna::ioctls(), xdna::variants::out_of_tree::ioctls(), xdna::variants::linux_7_3::ioctls(),
         xdna::variants::rocr_bundled::ioctls(), uapi::drm::ioctls()}}},
      {xdna::structs(), xdna::variants::out_of_tree::structs(), uapi::drm::structs()},
      {}};
  CallProgram(*npu.machine, *npu.clock, scene).run(input);
  return 0;
}
