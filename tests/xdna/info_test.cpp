#include "tests/xdna/npu_fixture.h"

namespace understudy::xdna {
namespace {

using namespace uapi::amdxdna;

class GetInfoTest : public NpuTest {
 protected:
  template <typename T>
  T query(std::uint32_t param) {
    T value{};
    amdxdna_drm_get_info args{param, sizeof value, reinterpret_cast<std::uint64_t>(&value)};
    EXPECT_EQ(client_.ioctl<GetInfo>(file_, args), 0);
    return value;
  }
  int raw(std::uint32_t param, void* buffer, std::uint32_t size) {
    amdxdna_drm_get_info args{param, size, reinterpret_cast<std::uint64_t>(buffer)};
    return client_.ioctl<GetInfo>(file_, args);
  }
};

TEST_F(GetInfoTest, MetadataOfStrix) {
  const auto metadata = query<amdxdna_drm_query_aie_metadata>(DRM_AMDXDNA_QUERY_AIE_METADATA);
  EXPECT_EQ(metadata.cols, 8);
  EXPECT_EQ(metadata.rows, 6);
  EXPECT_EQ(metadata.core.row_start, 2);
  EXPECT_EQ(metadata.core.row_count, 4);
  EXPECT_EQ(metadata.mem.lock_count, 64);
  EXPECT_EQ(metadata.shim.dma_channel_count, 2);
}

TEST_F(GetInfoTest, FirmwareClocksAndResources) {
  EXPECT_EQ(query<amdxdna_drm_query_firmware_version>(DRM_AMDXDNA_QUERY_FIRMWARE_VERSION).build, 64u);
  const auto clocks = query<amdxdna_drm_query_clock_metadata>(DRM_AMDXDNA_QUERY_CLOCK_METADATA);
  EXPECT_STREQ(reinterpret_cast<const char*>(clocks.mp_npu_clock.name), "MP-NPU Clock");
  EXPECT_EQ(clocks.h_clock.freq_mhz, 792u) << "boot level";
  const auto resources = query<amdxdna_drm_get_resource_info>(DRM_AMDXDNA_QUERY_RESOURCE_INFO);
  EXPECT_EQ(resources.npu_clk_max, 1800u);
  EXPECT_EQ(resources.npu_tops_max, 58u);
  EXPECT_EQ(resources.npu_tops_curr, 25u);
  EXPECT_EQ(resources.npu_task_max, 16u);
}

TEST_F(GetInfoTest, ShortBufferIsCutSilently) {
  struct {
    std::uint32_t major, guard;
  } buffer{7, 0xdead};
  EXPECT_EQ(raw(DRM_AMDXDNA_QUERY_FIRMWARE_VERSION, &buffer, 4), 0);
  EXPECT_EQ(buffer.major, 1u);
  EXPECT_EQ(buffer.guard, 0xdeadu);
}

TEST_F(GetInfoTest, BadArguments) {
  std::byte buffer[64];
  EXPECT_EQ(raw(999, buffer, sizeof buffer), -EOPNOTSUPP);
  EXPECT_EQ(raw(DRM_AMDXDNA_QUERY_SENSORS, buffer, sizeof buffer), -EOPNOTSUPP) << "no platform driver";
  EXPECT_EQ(raw(DRM_AMDXDNA_QUERY_CERT_FIRMWARE_VERSION, buffer, sizeof buffer), -EOPNOTSUPP);
  EXPECT_EQ(raw(DRM_AMDXDNA_QUERY_AIE_VERSION, reinterpret_cast<void*>(kBadPointer), 8), -EFAULT);
}

class GetArrayTest : public NpuTest {
 protected:
  int raw(amdxdna_drm_get_array& args) { return client_.ioctl<GetArray>(file_, args); }
};

TEST_F(GetArrayTest, BadArguments) {
  std::byte buffer[4096];
  amdxdna_drm_get_array args{DRM_AMDXDNA_HW_CONTEXT_ALL, 160, 1, 1, reinterpret_cast<std::uint64_t>(buffer)};
  EXPECT_EQ(raw(args), -EINVAL) << "pad";
  args = {DRM_AMDXDNA_HW_CONTEXT_ALL, 0, 1, 0, reinterpret_cast<std::uint64_t>(buffer)};
  EXPECT_EQ(raw(args), -EINVAL);
  args = {DRM_AMDXDNA_HW_CONTEXT_ALL, 160, 0, 0, reinterpret_cast<std::uint64_t>(buffer)};
  EXPECT_EQ(raw(args), -EINVAL);
  args = {DRM_AMDXDNA_HW_CONTEXT_ALL, 4097, 1, 0, reinterpret_cast<std::uint64_t>(buffer)};
  EXPECT_EQ(raw(args), -EINVAL);
  args = {DRM_AMDXDNA_HW_CONTEXT_ALL, 160, 1025, 0, reinterpret_cast<std::uint64_t>(buffer)};
  EXPECT_EQ(raw(args), -EINVAL);
  args = {77, 160, 1, 0, reinterpret_cast<std::uint64_t>(buffer)};
  EXPECT_EQ(raw(args), -EOPNOTSUPP);
  args = {DRM_AMDXDNA_HW_CONTEXT_BY_ID, 160, 2, 0, reinterpret_cast<std::uint64_t>(buffer)};
  EXPECT_EQ(raw(args), -EINVAL);
}

TEST_F(GetArrayTest, ContextsAreListedAtTheReturnedStride) {
  make_heap();
  amdxdna_qos_info qos{};
  amdxdna_drm_create_hwctx create{};
  create.qos_p = reinterpret_cast<std::uint64_t>(&qos);
  create.num_tiles = 8;
  ASSERT_EQ(client_.ioctl<CreateHwctx>(file_, create), 0);
  ASSERT_EQ(client_.ioctl<CreateHwctx>(file_, create), 0);
  std::vector<std::byte> buffer(400);
  amdxdna_drm_get_array args{DRM_AMDXDNA_HW_CONTEXT_ALL, 400, 1, 0,
                             reinterpret_cast<std::uint64_t>(buffer.data())};
  ASSERT_EQ(raw(args), 0);
  EXPECT_EQ(args.element_size, 160u);
  EXPECT_EQ(args.num_element, 2u) << "in_num * in_size / out_size entries fit";
  amdxdna_drm_hwctx_entry second;
  std::memcpy(&second, buffer.data() + 160, sizeof second);
  EXPECT_EQ(second.context_id, 2u);
  EXPECT_EQ(second.pid, ::getpid());
  EXPECT_EQ(second.num_col, 8u) << "temporal-only firmware: the whole array";
}

TEST_F(GetArrayTest, LastAsyncErrorIsZerosAtFirst) {
  amdxdna_async_error error{1, 1, 1};
  amdxdna_drm_get_array args{DRM_AMDXDNA_HW_LAST_ASYNC_ERR, sizeof error, 1, 0,
                             reinterpret_cast<std::uint64_t>(&error)};
  EXPECT_EQ(raw(args), 0);
  EXPECT_EQ(args.num_element, 1u);
  EXPECT_EQ(error.err_code, 0u);
}

TEST_F(GetArrayTest, BoUsageCountsInternalAndHeap) {
  make_heap();
  create_bo(AMDXDNA_BO_SHARE, 8192);
  create_bo(AMDXDNA_BO_CMD, 4096);
  create_bo(AMDXDNA_BO_DEV, 4096);
  amdxdna_drm_bo_usage usage{};
  usage.pid = ::getpid();
  amdxdna_drm_get_array args{DRM_AMDXDNA_BO_USAGE, sizeof usage, 1, 0,
                             reinterpret_cast<std::uint64_t>(&usage)};
  EXPECT_EQ(raw(args), 0);
  EXPECT_EQ(usage.total_usage, 64 * kMiB + 8192 + 4096);
  EXPECT_EQ(usage.internal_usage, 64 * kMiB + 4096);
  EXPECT_EQ(usage.heap_usage, 4096u);
  usage.pid = 0;
  EXPECT_EQ(raw(args), -EINVAL);
}

class SetStateTest : public NpuTest {
 protected:
  int set_power_mode(std::uint8_t mode) {
    amdxdna_drm_set_power_mode value{mode, {}};
    amdxdna_drm_set_state args{DRM_AMDXDNA_SET_POWER_MODE, sizeof value,
                               reinterpret_cast<std::uint64_t>(&value)};
    return client_.ioctl<SetState>(file_, args);
  }
};

TEST_F(SetStateTest, PowerModeNeedsRootAndAKnownMode) {
  if (::geteuid() != 0) {
    EXPECT_EQ(set_power_mode(POWER_MODE_LOW), -EACCES);
    GTEST_SKIP() << "the rest needs CAP_SYS_ADMIN";
  }
  EXPECT_EQ(set_power_mode(POWER_MODE_TURBO), 0);
  EXPECT_EQ(set_power_mode(5), -EINVAL);
  amdxdna_drm_get_power_mode mode{};
  amdxdna_drm_get_info args{DRM_AMDXDNA_GET_POWER_MODE, sizeof mode, reinterpret_cast<std::uint64_t>(&mode)};
  EXPECT_EQ(client_.ioctl<GetInfo>(file_, args), 0);
  EXPECT_EQ(mode.power_mode, POWER_MODE_TURBO);
  amdxdna_drm_set_state unknown{1, 8, 0};
  EXPECT_EQ(client_.ioctl<SetState>(file_, unknown), -EOPNOTSUPP);
}

}  // namespace
}  // namespace understudy::xdna
