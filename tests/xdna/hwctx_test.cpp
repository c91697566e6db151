#include <time.h>

#include <thread>

#include "sim/xdna/ert.h"
#include "sim/xdna/transaction.h"
#include "tests/xdna/npu_fixture.h"

namespace understudy::xdna {
namespace {

using namespace uapi::amdxdna;

// Words of a TXN stream: header and operations (mlir-aie TxnEncoding).
class TxnBuilder {
 public:
  TxnBuilder& write(std::uint32_t address, std::uint32_t value) { return add({0, 0, address, 0, value, 24}); }
  TxnBuilder& block_write(std::uint32_t address, std::vector<std::uint32_t> data) {
    std::vector<std::uint32_t> op{1, 0, address, static_cast<std::uint32_t>(16 + 4 * data.size())};
    op.insert(op.end(), data.begin(), data.end());
    return add(op);
  }
  TxnBuilder& patch(std::uint32_t address, std::uint32_t argument, std::uint32_t offset = 0) {
    return add({129, 48, 0, 0, 0, 0, address, 0, argument, 0, offset, 0});
  }
  TxnBuilder& wait(bool mm2s, std::uint32_t column, std::uint32_t channel) {
    return add({128, 16, (mm2s ? 1u : 0u) | column << 16, 1u << 8 | 1u << 16 | channel << 24});
  }
  TxnBuilder& raw(std::vector<std::uint32_t> op) { return add(op); }
  std::vector<std::uint32_t> words() const {
    std::vector<std::uint32_t> all{0x06030100, 0x00000104, count_,
                                   static_cast<std::uint32_t>(16 + 4 * operations_.size())};
    all.insert(all.end(), operations_.begin(), operations_.end());
    return all;
  }

 private:
  TxnBuilder& add(std::vector<std::uint32_t> op) {
    operations_.insert(operations_.end(), op.begin(), op.end());
    ++count_;
    return *this;
  }
  std::vector<std::uint32_t> operations_;
  std::uint32_t count_ = 0;
};

// A pass-through copy of `words` words from argument 0 to argument 1 in column 0.
std::vector<std::uint32_t> copy_program(std::uint32_t words) {
  const std::uint32_t valid = 1u << 25;
  return TxnBuilder()
      .block_write(0x1D000, {words, 0, 0, 0, 0, 0, 0, valid})
      .patch(0x1D004, 0)
      .block_write(0x1D020, {words, 0, 0, 0, 0, 0, 0, valid})
      .patch(0x1D024, 1)
      .write(0x1D204, 1 | 1u << 31)  // S2MM0, BD 1, token
      .write(0x1D214, 0)             // MM2S0, BD 0
      .wait(false, 0, 0)
      .words();
}

class HwctxTest : public NpuTest {
 protected:
  using NpuTest::NpuTest;

  int create_context(std::uint32_t tiles = 4) {
    amdxdna_drm_create_hwctx args{};
    args.qos_p = reinterpret_cast<std::uint64_t>(&qos_);
    args.num_tiles = tiles;
    const int result = client_.ioctl<CreateHwctx>(file_, args);
    if (result < 0) return result;
    syncobj_ = args.syncobj_handle;
    EXPECT_EQ(args.umq_doorbell, 0xffffffffu);
    return static_cast<int>(args.handle);
  }
  int destroy_context(std::uint32_t handle) {
    amdxdna_drm_destroy_hwctx args{handle, 0};
    return client_.ioctl<DestroyHwctx>(file_, args);
  }
  // A context with one CU whose PDI says pass-through (or not).
  int make_context(bool pass_through = true) {
    heap_ = make_heap();
    const int context = create_context();
    const int pdi = create_bo(AMDXDNA_BO_DEV, 4096);
    if (pass_through) {
      std::memcpy(heap_ + (info(pdi).xdna_addr - Aperture::kBase), kPassThroughPdiMagic,
                  sizeof kPassThroughPdiMagic);
    }
    EXPECT_EQ(configure(context, pdi), 0);
    return context;
  }
  struct CuConfig {
    std::uint16_t num_cus = 1;
    std::uint16_t pad[3] = {};
    amdxdna_cu_config cus[2] = {};
  };
  int configure(std::uint32_t context, std::uint32_t cu_bo) {
    CuConfig config;
    config.cus[0].cu_bo = cu_bo;
    return configure(context, config, 16);
  }
  int configure(std::uint32_t context, const CuConfig& config, std::uint32_t size) {
    amdxdna_drm_config_hwctx args{context, DRM_AMDXDNA_HWCTX_CONFIG_CU,
                                  reinterpret_cast<std::uint64_t>(&config), size, 0};
    return client_.ioctl<ConfigHwctx>(file_, args);
  }

  struct Bo {
    std::uint32_t handle = 0;
    std::byte* bytes = nullptr;
    std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(bytes); }
  };
  Bo make_mapped(std::uint32_t type, std::uint64_t size) {
    const int handle = create_bo(type, size);
    EXPECT_GT(handle, 0);
    return {static_cast<std::uint32_t>(handle), map_bo(handle, size)};
  }
  Bo make_instructions(const std::vector<std::uint32_t>& words) {
    Bo bo = make_mapped(AMDXDNA_BO_SHARE, 16384);
    std::memcpy(bo.bytes, words.data(), words.size() * 4);
    return bo;
  }
  // START_CU packet: opcode 3, instructions, arguments.
  Bo make_start_cu(const Bo& instructions, std::uint32_t words, const std::vector<std::uint64_t>& arguments) {
    Bo command = make_mapped(AMDXDNA_BO_CMD, 4096);
    std::vector<std::byte> payload(20 + arguments.size() * 8);
    const std::uint64_t opcode = 3, address = instructions.address();
    std::memcpy(payload.data(), &opcode, 8);
    std::memcpy(payload.data() + 8, &address, 8);
    std::memcpy(payload.data() + 16, &words, 4);
    std::memcpy(payload.data() + 20, arguments.data(), arguments.size() * 8);
    const std::uint32_t mask = 1;
    const std::uint32_t header = 1 | static_cast<std::uint32_t>(1 + payload.size() / 4) << 12 |
                                 static_cast<std::uint32_t>(ErtOpcode::kStartCu) << 23;
    std::memcpy(command.bytes, &header, 4);
    std::memcpy(command.bytes + 4, &mask, 4);
    std::memcpy(command.bytes + 8, payload.data(), payload.size());
    return command;
  }
  std::uint32_t state_of(const Bo& command) {
    std::uint32_t header;
    std::memcpy(&header, command.bytes, 4);
    return header & 0xf;
  }
  int exec(std::uint32_t context, std::uint32_t command, const std::vector<std::uint32_t>& arguments,
           std::uint64_t* sequence = nullptr) {
    amdxdna_drm_exec_cmd args{};
    args.hwctx = context;
    args.cmd_handles = command;
    args.cmd_count = 1;
    args.args = reinterpret_cast<std::uint64_t>(arguments.data());
    args.arg_count = static_cast<std::uint32_t>(arguments.size());
    const int result = client_.ioctl<ExecCmd>(file_, args);
    if (sequence != nullptr) *sequence = args.seq;
    return result;
  }
  // Waits on the context's timeline without limit worth naming.
  int wait(std::uint64_t point) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    uapi::drm::drm_syncobj_timeline_wait args{};
    args.handles = reinterpret_cast<std::uint64_t>(&syncobj_);
    args.points = reinterpret_cast<std::uint64_t>(&point);
    args.count_handles = 1;
    args.flags = uapi::drm::DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT;
    args.timeout_nsec = (now.tv_sec + 60) * 1'000'000'000ll;
    return client_.ioctl<uapi::drm::SyncobjTimelineWait>(file_, args);
  }

  amdxdna_qos_info qos_{};
  std::uint32_t syncobj_ = 0;
  std::byte* heap_ = nullptr;
};

TEST_F(HwctxTest, NeedsAHeap) {
  EXPECT_EQ(create_context(), -ENOENT);
}

TEST_F(HwctxTest, NeedsAMappedHeap) {
  create_bo(AMDXDNA_BO_DEV_HEAP, 64 * kMiB);
  EXPECT_EQ(create_context(), -EAGAIN);
}

TEST_F(HwctxTest, BadArguments) {
  make_heap();
  amdxdna_drm_create_hwctx args{};
  args.num_tiles = 4;
  EXPECT_EQ(client_.ioctl<CreateHwctx>(file_, args), -EFAULT) << "qos_p is mandatory";
  args.qos_p = reinterpret_cast<std::uint64_t>(&qos_);
  args.ext = 1;
  EXPECT_EQ(client_.ioctl<CreateHwctx>(file_, args), -EINVAL);
  EXPECT_EQ(create_context(0), -EINVAL);
  EXPECT_EQ(create_context(3), -EINVAL) << "less than a column";
  EXPECT_EQ(create_context(36), -EINVAL) << "more columns than there are";
}

TEST_F(HwctxTest, IdsAreCyclicAndDeviceWide) {
  make_heap();
  EXPECT_EQ(create_context(), 1);
  EXPECT_EQ(destroy_context(1), 0);
  EXPECT_EQ(create_context(), 2) << "not reused at once";
  EXPECT_EQ(destroy_context(1), -EINVAL);
  amdxdna_drm_destroy_hwctx args{2, 1};
  EXPECT_EQ(client_.ioctl<DestroyHwctx>(file_, args), -EINVAL) << "pad";
}

TEST_F(HwctxTest, CreatingAContextTakesFourInternalBuffers) {
  make_heap();
  create_context();
  EXPECT_EQ(info(create_bo(AMDXDNA_BO_DEV, 4096)).xdna_addr, 0x4000000u + 4 * 32 * 1024);
}

TEST_F(HwctxTest, FirmwareHasRoomForSixteen) {
  make_heap();
  for (int i = 0; i < 16; ++i) EXPECT_GT(create_context(), 0);
  EXPECT_EQ(create_context(), -EINVAL);
}

TEST_F(HwctxTest, ForeignFileDoesNotKnowTheContext) {
  make_heap();
  const int context = create_context();
  const FileRef other = client_.open("accel/accel0");
  amdxdna_drm_destroy_hwctx args{static_cast<std::uint32_t>(context), 0};
  EXPECT_EQ(client_.ioctl<DestroyHwctx>(other, args), -EINVAL);
}

TEST_F(HwctxTest, CuConfigurationErrors) {
  make_heap();
  const std::uint32_t context = create_context();
  const std::uint32_t pdi = create_bo(AMDXDNA_BO_DEV, 4096);
  const std::uint32_t share = create_bo(AMDXDNA_BO_SHARE, 4096);
  CuConfig config;
  config.cus[0].cu_bo = pdi;
  EXPECT_EQ(configure(context, config, 4097), -E2BIG);
  EXPECT_EQ(configure(context, config, 15), -EINVAL) << "size too small for one CU";
  config.pad[1] = 1;
  EXPECT_EQ(configure(context, config, 16), -EINVAL);
  config.pad[1] = 0;
  config.num_cus = 0;
  EXPECT_EQ(configure(context, config, 16), -EINVAL);
  config.num_cus = 1;
  config.cus[0].cu_bo = share;
  EXPECT_EQ(configure(context, config, 16), -EINVAL) << "not a DEV BO";
  config.cus[0].cu_bo = 0;
  EXPECT_EQ(configure(context, config, 16), -EINVAL);
  EXPECT_EQ(configure(kNoSuchHandle, pdi), -EINVAL);
  EXPECT_EQ(configure(context, pdi), 0);
  EXPECT_EQ(configure(context, pdi), -EINVAL) << "only once";
  amdxdna_drm_config_hwctx args{context, 9, 0, 0, 0};
  EXPECT_EQ(client_.ioctl<ConfigHwctx>(file_, args), -EINVAL) << "unknown parameter";
  args = {context, DRM_AMDXDNA_HWCTX_CONFIG_CU, kBadPointer, 16, 0};
  EXPECT_EQ(client_.ioctl<ConfigHwctx>(file_, args), -EFAULT);
}

TEST_F(HwctxTest, DebugBufferAssignment) {
  const std::uint32_t context = make_context();
  const std::uint32_t bo = create_bo(AMDXDNA_BO_DEV, 4096);
  amdxdna_drm_config_hwctx assign{context, DRM_AMDXDNA_HWCTX_ASSIGN_DBG_BUF, bo, 0, 0};
  amdxdna_drm_config_hwctx remove{context, DRM_AMDXDNA_HWCTX_REMOVE_DBG_BUF, bo, 0, 0};
  EXPECT_EQ(client_.ioctl<ConfigHwctx>(file_, remove), -EINVAL);
  EXPECT_EQ(client_.ioctl<ConfigHwctx>(file_, assign), 0);
  EXPECT_EQ(client_.ioctl<ConfigHwctx>(file_, assign), -EBUSY);
  amdxdna_drm_sync_bo sync{bo, SYNC_DIRECT_FROM_DEVICE, 0, 4096};
  EXPECT_EQ(client_.ioctl<SyncBo>(file_, sync), 0) << "assigned as a debug buffer";
  EXPECT_EQ(client_.ioctl<ConfigHwctx>(file_, remove), 0);
  assign.param_val = kNoSuchHandle;
  EXPECT_EQ(client_.ioctl<ConfigHwctx>(file_, assign), -EINVAL);
}

TEST_F(HwctxTest, PassThroughDesignMovesData) {
  const std::uint32_t context = make_context();
  const Bo source = make_mapped(AMDXDNA_BO_SHARE, 4096);
  const Bo target = make_mapped(AMDXDNA_BO_SHARE, 4096);
  for (int i = 0; i < 4096; ++i) source.bytes[i] = static_cast<std::byte>(i * 7);
  const auto program = copy_program(1024);
  const Bo instructions = make_instructions(program);
  const Bo command = make_start_cu(instructions, static_cast<std::uint32_t>(program.size()),
                                   {source.address(), target.address()});
  std::uint64_t sequence = 99;
  ASSERT_EQ(exec(context, command.handle, {source.handle, target.handle, instructions.handle}, &sequence), 0);
  EXPECT_EQ(sequence, 0u);
  EXPECT_EQ(wait(sequence), 0);
  EXPECT_EQ(state_of(command), static_cast<std::uint32_t>(ErtState::kCompleted));
  EXPECT_EQ(std::memcmp(source.bytes, target.bytes, 4096), 0);
}

TEST_F(HwctxTest, EveryMappingOfABoIsReachable) {
  const std::uint32_t context = make_context();
  const Bo source = make_mapped(AMDXDNA_BO_SHARE, 4096);
  const Bo target = make_mapped(AMDXDNA_BO_SHARE, 4096);
  std::byte* const again = map_bo(target.handle, 4096);
  ASSERT_NE(again, target.bytes);
  source.bytes[9] = std::byte{77};
  const auto program = copy_program(1024);
  const Bo instructions = make_instructions(program);
  const Bo command = make_start_cu(instructions, static_cast<std::uint32_t>(program.size()),
                                   {source.address(), reinterpret_cast<std::uint64_t>(again)});
  ASSERT_EQ(exec(context, command.handle, {source.handle, target.handle, instructions.handle}), 0);
  EXPECT_EQ(wait(0), 0);
  EXPECT_EQ(state_of(command), static_cast<std::uint32_t>(ErtState::kCompleted));
  EXPECT_EQ(target.bytes[9], std::byte{77});
}

TEST_F(HwctxTest, UnknownDesignEndsInErrorWithHealthRecord) {
  const std::uint32_t context = make_context(/*pass_through=*/false);
  const Bo source = make_mapped(AMDXDNA_BO_SHARE, 4096);
  const auto program = copy_program(16);
  const Bo instructions = make_instructions(program);
  const Bo command = make_start_cu(instructions, static_cast<std::uint32_t>(program.size()),
                                   {source.address(), source.address()});
  ASSERT_EQ(exec(context, command.handle, {source.handle}), 0);
  EXPECT_EQ(wait(0), 0);
  EXPECT_EQ(state_of(command), static_cast<std::uint32_t>(ErtState::kError));
  HealthRecord health;
  std::memcpy(&health, command.bytes + 4, sizeof health);
  EXPECT_EQ(health.version, 1u);
  EXPECT_EQ(health.txn_op_index, 6u) << "the wait that can never be met";
  EXPECT_EQ(health.context_pc, 0xffffffffu);
}

TEST_F(HwctxTest, AddressOutsideEveryBoEndsInError) {
  const std::uint32_t context = make_context();
  const Bo source = make_mapped(AMDXDNA_BO_SHARE, 4096);
  const auto program = copy_program(2048);  // 8 KiB into a 4 KiB BO
  const Bo instructions = make_instructions(program);
  const Bo command = make_start_cu(instructions, static_cast<std::uint32_t>(program.size()),
                                   {source.address(), source.address()});
  ASSERT_EQ(exec(context, command.handle, {source.handle}), 0);
  EXPECT_EQ(wait(0), 0);
  EXPECT_EQ(state_of(command), static_cast<std::uint32_t>(ErtState::kError));
}

TEST_F(HwctxTest, ChainReportsTheFailingIndexInTheChainOnly) {
  const std::uint32_t context = make_context();
  const Bo source = make_mapped(AMDXDNA_BO_SHARE, 4096);
  const Bo target = make_mapped(AMDXDNA_BO_SHARE, 4096);
  const auto good_program = copy_program(4);
  const auto bad_program = copy_program(4096);
  const Bo good_instructions = make_instructions(good_program);
  const Bo bad_instructions = make_instructions(bad_program);
  const Bo good = make_start_cu(good_instructions, static_cast<std::uint32_t>(good_program.size()),
                                {source.address(), target.address()});
  const Bo bad = make_start_cu(bad_instructions, static_cast<std::uint32_t>(bad_program.size()),
                               {source.address(), target.address()});
  const Bo chain = make_mapped(AMDXDNA_BO_CMD, 4096);
  const std::uint32_t header = 1 | (6 + 4) << 12 | static_cast<std::uint32_t>(ErtOpcode::kCommandChain) << 23;
  const std::uint32_t counts[6] = {2, 0, 0, 0, 0, 0};
  const std::uint64_t handles[2] = {good.handle, bad.handle};
  std::memcpy(chain.bytes, &header, 4);
  std::memcpy(chain.bytes + 4, counts, 24);
  std::memcpy(chain.bytes + 28, handles, 16);
  ASSERT_EQ(exec(context, chain.handle, {source.handle, target.handle}), 0);
  EXPECT_EQ(wait(0), 0);
  EXPECT_EQ(state_of(chain), static_cast<std::uint32_t>(ErtState::kError));
  std::uint32_t error_index;
  std::memcpy(&error_index, chain.bytes + 4 + 8, 4);
  EXPECT_EQ(error_index, 1u);
  EXPECT_EQ(state_of(bad), static_cast<std::uint32_t>(ErtState::kNew))
      << "sub-command states are user space's";
  std::uint32_t first_word_of_first_command;
  std::memcpy(&first_word_of_first_command, good.bytes + 4, 4);
  EXPECT_EQ(first_word_of_first_command, 1u) << "the health record lands in the first sub-command";
}

TEST_F(HwctxTest, MalformedPacketIsAcceptedAndStaysNew) {
  const std::uint32_t context = make_context();
  const Bo command = make_mapped(AMDXDNA_BO_CMD, 4096);
  const std::uint32_t header = 1 | 2000u << 12;  // count beyond the BO
  std::memcpy(command.bytes, &header, 4);
  ASSERT_EQ(exec(context, command.handle, {}), 0);
  EXPECT_EQ(wait(0), 0) << "the fence signals all the same";
  EXPECT_EQ(state_of(command), static_cast<std::uint32_t>(ErtState::kNew));
}

TEST_F(HwctxTest, ExecErrors) {
  const std::uint32_t context = make_context();
  const Bo command = make_mapped(AMDXDNA_BO_CMD, 4096);
  const std::uint32_t dev = create_bo(AMDXDNA_BO_DEV, 4096);
  amdxdna_drm_exec_cmd args{};
  args.hwctx = context;
  args.cmd_handles = command.handle;
  args.cmd_count = 1;
  const auto with = [&](auto change) {
    amdxdna_drm_exec_cmd changed = args;
    change(changed);
    return client_.ioctl<ExecCmd>(file_, changed);
  };
  EXPECT_EQ(with([](auto& a) { a.ext = 1; }), -EINVAL);
  EXPECT_EQ(with([](auto& a) { a.ext_flags = 1; }), -EINVAL);
  EXPECT_EQ(with([](auto& a) { a.type = AMDXDNA_CMD_SUBMIT_DEPENDENCY; }), -EINVAL);
  EXPECT_EQ(with([](auto& a) { a.arg_count = 4096; }), -EINVAL);
  EXPECT_EQ(with([](auto& a) { a.arg_count = ~0u; }), -EINVAL);
  EXPECT_EQ(with([](auto& a) { a.cmd_count = 2; }), -EINVAL);
  EXPECT_EQ(with([](auto& a) { a.arg_count = 1; }), -EFAULT);
  EXPECT_EQ(with([](auto& a) { a.cmd_handles = 0; }), -EINVAL);
  EXPECT_EQ(with([&](auto& a) { a.cmd_handles = dev; }), -EINVAL) << "not a SHARE-kind BO";
  EXPECT_EQ(with([](auto& a) { a.hwctx = kNoSuchHandle; }), -EINVAL);
  EXPECT_EQ(exec(context, command.handle, {kNoSuchHandle}), -ENOENT);
  EXPECT_EQ(exec(context, command.handle, {command.handle, command.handle}), -EALREADY);
}

TEST_F(HwctxTest, WaitCmdIsNotThereOnNewDrivers) {
  amdxdna_drm_wait_cmd args{1, 0, 0};
  EXPECT_EQ(client_.ioctl<WaitCmd>(file_, args), -EOPNOTSUPP);
}

TEST_F(HwctxTest, CloseDuringACommandReleasesEverything) {
  const std::uint32_t context = make_context();
  const Bo source = make_mapped(AMDXDNA_BO_SHARE, 4096);
  const auto program = copy_program(1024);
  const Bo instructions = make_instructions(program);
  const Bo command = make_start_cu(instructions, static_cast<std::uint32_t>(program.size()),
                                   {source.address(), source.address()});
  for (int i = 0; i < 4; ++i) (void)exec(context, command.handle, {source.handle});
  client_.close(file_);
  file_.reset();
  EXPECT_EQ(machine_.ledger().live_count(ObjectKind::kContext), 0u);
  EXPECT_EQ(machine_.ledger().live_count(ObjectKind::kGemHandle), 0u);
  EXPECT_EQ(machine_.ledger().live_count(ObjectKind::kSyncobj), 0u);
}

// Descriptors that are legal one by one, but together move more than any watchdog waits for.
std::vector<std::uint32_t> endless_program() {
  constexpr std::uint32_t kWords = 4096, kMostRepeats = 255u << 16;
  TxnBuilder program;
  program.block_write(0x1D000, {kWords, 0, 0, 0, 0, 0, 0, 1u << 25}).patch(0x1D004, 0);
  for (std::uint64_t words = 0; words <= Watchdog::kMaxWords; words += std::uint64_t{256} * kWords)
    program.write(0x1D214, kMostRepeats);
  return program.words();
}

TEST_F(HwctxTest, EndlessTransferEndsInTimeoutAndTheContextGoesOn) {
  const std::uint32_t context = make_context(false);
  const Bo source = make_mapped(AMDXDNA_BO_SHARE, 16384);
  const auto program = endless_program();
  const Bo endless = make_start_cu(make_instructions(program), static_cast<std::uint32_t>(program.size()),
                                   {source.address()});
  std::uint64_t sequence = 0;
  ASSERT_EQ(exec(context, endless.handle, {source.handle}, &sequence), 0);
  EXPECT_EQ(wait(sequence), 0);
  EXPECT_EQ(state_of(endless), static_cast<std::uint32_t>(ErtState::kTimeout));

  const auto nothing = TxnBuilder().raw({5}).words();
  const Bo next = make_start_cu(make_instructions(nothing), static_cast<std::uint32_t>(nothing.size()), {});
  ASSERT_EQ(exec(context, next.handle, {}, &sequence), 0);
  EXPECT_EQ(wait(sequence), 0);
  EXPECT_EQ(state_of(next), static_cast<std::uint32_t>(ErtState::kCompleted));
}

TEST_F(HwctxTest, ContextDestroyedInAnEndlessTransferAbortsIt) {
  const std::uint32_t context = make_context(false);
  const Bo source = make_mapped(AMDXDNA_BO_SHARE, 16384);
  const auto program = endless_program();
  const Bo endless = make_start_cu(make_instructions(program), static_cast<std::uint32_t>(program.size()),
                                   {source.address()});
  ASSERT_EQ(exec(context, endless.handle, {source.handle}), 0);
  EXPECT_EQ(destroy_context(context), 0);
  EXPECT_EQ(state_of(endless), static_cast<std::uint32_t>(ErtState::kAbort));
}

Settings legacy_settings() {
  Settings settings;
  settings.flavour.amdxdna = "legacy";
  return settings;
}

class LegacyHwctxTest : public HwctxTest {
 protected:
  LegacyHwctxTest() : HwctxTest(legacy_settings()) {}
};

TEST_F(LegacyHwctxTest, WaitCmdWaitsForTheSequenceNumber) {
  const std::uint32_t context = make_context();
  const Bo command = make_mapped(AMDXDNA_BO_CMD, 4096);
  ASSERT_EQ(exec(context, command.handle, {}), 0);
  amdxdna_drm_wait_cmd args{context, 60'000, 0};
  EXPECT_EQ(client_.ioctl<WaitCmd>(file_, args), 0);
  args.hwctx = kNoSuchHandle;
  EXPECT_EQ(client_.ioctl<WaitCmd>(file_, args), -EINVAL);
}

}  // namespace
}  // namespace understudy::xdna
