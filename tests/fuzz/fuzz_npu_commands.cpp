// What an NPU context executes: the input is a command buffer (an ERT packet or a chain of them) and the
// instructions it points to.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "sim/xdna/transaction.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/machines.h"
#include "tests/support/test_client.h"
#include "uapi/amdxdna.h"

namespace understudy::fuzz {
namespace {

using namespace uapi::amdxdna;

constexpr std::uint64_t kMiB = 1 << 20, kBoBytes = 16384;

class NpuContext {
 public:
  explicit NpuContext(std::uint8_t variant) : npu_(npu_machine(variant & ~3u)) {
    file_ = client_.open("accel/accel0");
    heap_ = make(AMDXDNA_BO_DEV_HEAP, 64 * kMiB);
    amdxdna_drm_create_hwctx args{};
    args.qos_p = reinterpret_cast<std::uint64_t>(&qos_);
    args.num_tiles = 4;
    if (client_.ioctl<CreateHwctx>(file_, args) < 0) std::abort();
    context_ = args.handle;
    configure();
    for (Bo& bo : data_) bo = make(AMDXDNA_BO_SHARE, kBoBytes);
    for (Bo& bo : commands_) bo = make(AMDXDNA_BO_CMD, kBoBytes);
  }
  ~NpuContext() {
    npu_.clock->advance(std::uint64_t{60} * 1'000'000'000);
    client_.close(file_);
    for (const Bo& bo : {heap_, data_[0], data_[1], data_[2], commands_[0], commands_[1]})
      ::munmap(bo.bytes, bo.size_bytes);
  }

  // Addresses and handles lie where packets want them; the rest is the input's.
  void run(Input& input) {
    for (const Bo& bo : data_) input.take({bo.bytes, input.number<std::uint16_t>() % kBoBytes});
    for (const Bo& command : commands_) write_command(input, command);
    const std::size_t count = 1 + input.pick(2);
    std::uint32_t handles[] = {commands_[0].handle, commands_[1].handle};
    std::uint32_t arguments[] = {data_[0].handle, data_[1].handle, data_[2].handle};
    amdxdna_drm_exec_cmd args{};
    args.hwctx = context_;
    args.type = AMDXDNA_CMD_SUBMIT_EXEC_BUF;
    args.cmd_handles = count == 1 ? handles[0] : reinterpret_cast<std::uint64_t>(handles);
    args.cmd_count = static_cast<std::uint32_t>(count);
    args.args = reinterpret_cast<std::uint64_t>(arguments);
    args.arg_count = std::size(arguments);
    (void)client_.ioctl<ExecCmd>(file_, args);
  }

 private:
  struct Bo {
    std::uint32_t handle = 0;
    std::byte* bytes = nullptr;
    std::uint64_t size_bytes = 0;
  };
  Bo make(std::uint32_t type, std::uint64_t size_bytes) {
    amdxdna_drm_create_bo args{0, 0, size_bytes, type, 0};
    if (client_.ioctl<CreateBo>(file_, args) < 0) std::abort();
    Bo bo{args.handle, nullptr, size_bytes};
    if (type == AMDXDNA_BO_DEV) return bo;
    amdxdna_drm_get_bo_info info{};
    info.handle = args.handle;
    if (client_.ioctl<GetBoInfo>(file_, info) < 0) std::abort();
    bo.bytes =
        static_cast<std::byte*>(client_.mmap(file_, size_bytes, PROT_READ | PROT_WRITE, info.map_offset));
    if (bo.bytes == MAP_FAILED) std::abort();
    return bo;
  }
  void configure() {
    const Bo pdi = make(AMDXDNA_BO_DEV, 4096);
    std::memcpy(heap_.bytes, xdna::kPassThroughPdiMagic, sizeof xdna::kPassThroughPdiMagic);
    struct {
      std::uint16_t num_cus = 1;
      std::uint16_t pad[3] = {};
      amdxdna_cu_config cus[1] = {};
    } config;
    config.cus[0].cu_bo = pdi.handle;
    amdxdna_drm_config_hwctx args{context_, DRM_AMDXDNA_HWCTX_CONFIG_CU,
                                  reinterpret_cast<std::uint64_t>(&config), sizeof config, 0};
    if (client_.ioctl<ConfigHwctx>(file_, args) < 0) std::abort();
  }
  void write_command(Input& input, const Bo& command) {
    const auto words = [&](std::size_t index, std::uint64_t value, std::size_t bytes) {
      std::memcpy(command.bytes + index * 4, &value, bytes);
    };
    const std::uint8_t shape = input.byte();
    const std::uint8_t opcode = input.byte();
    const std::size_t payload_words = input.pick(64);
    input.take({command.bytes, 4 * (payload_words + 1)});
    if (shape % 4 == 3) return;
    constexpr std::uint8_t kOpcodes[] = {0, 18, 19, 20, 21, 22};
    words(0,
          1u | static_cast<std::uint32_t>(payload_words) << 12 |
              std::uint32_t{kOpcodes[opcode % std::size(kOpcodes)]} << 23,
          4);
    if (shape % 4 == 0) {  // START_CU
      words(1, 1, 4);
      words(2, 3, 8);
      words(4, reinterpret_cast<std::uint64_t>(data_[0].bytes), 8);
      words(6, input.number<std::uint16_t>(), 4);
      for (std::size_t argument = 0; argument < 3; ++argument)
        words(7 + argument * 2, reinterpret_cast<std::uint64_t>(data_[argument].bytes), 8);
    } else if (shape % 4 == 1) {  // a chain of the other one
      words(1, input.byte() % 4, 4);
      for (std::size_t index = 0; index < 3; ++index)
        words(7 + index * 2, commands_[input.pick(2)].handle, 8);
    }
  }

  FuzzMachine npu_;
  test::TestClient client_{*npu_.machine};
  amdxdna_qos_info qos_{};
  FileRef file_;
  std::uint32_t context_ = 0;
  Bo heap_;
  Bo data_[3], commands_[2];
};

}  // namespace
}  // namespace understudy::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  understudy::fuzz::Input input(data, size);
  understudy::fuzz::NpuContext context(input.byte());
  context.run(input);
  return 0;
}
