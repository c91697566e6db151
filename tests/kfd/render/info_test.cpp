// AMDGPU_INFO. Expected values: facts/kfd.md D.1 and D.2, amdgpu_kms.c: amdgpu_info_ioctl.
#include <array>

#include "tests/kfd/render/render_fixture.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

class RenderInfo : public RenderTest {
 protected:
  using RenderTest::RenderTest;

  int raw(drm_amdgpu_info args, void* into, std::uint32_t size) {
    args.return_pointer = reinterpret_cast<std::uint64_t>(into);
    args.return_size = size;
    return client_.ioctl<Info>(file_, args);
  }
  template <typename T>
  int ask(drm_amdgpu_info args, T& into) {
    return raw(args, &into, sizeof into);
  }
  template <typename T>
  T answer(std::uint32_t query) {
    T value{};
    EXPECT_EQ(ask(about(query), value), 0);
    return value;
  }
  static drm_amdgpu_info about(std::uint32_t query) {
    drm_amdgpu_info args{};
    args.query = query;
    return args;
  }
  static drm_amdgpu_info hardware(std::uint32_t query, std::uint32_t type, std::uint32_t instance = 0) {
    drm_amdgpu_info args = about(query);
    args.query_hw_ip = {type, instance};
    return args;
  }
  static drm_amdgpu_info firmware(std::uint32_t type, std::uint32_t instance, std::uint32_t index) {
    drm_amdgpu_info args = about(AMDGPU_INFO_FW_VERSION);
    args.query_fw = {type, instance, index, 0};
    return args;
  }
  static drm_amdgpu_info registers(std::uint32_t offset, std::uint32_t count, std::uint32_t instance) {
    drm_amdgpu_info args = about(AMDGPU_INFO_READ_MMR_REG);
    args.read_mmr_reg = {offset, count, instance, 0};
    return args;
  }
  drm_amdgpu_info_hw_ip hw_ip(std::uint32_t type) {
    drm_amdgpu_info_hw_ip info{};
    EXPECT_EQ(ask(hardware(AMDGPU_INFO_HW_IP_INFO, type), info), 0);
    return info;
  }
};

TEST_F(RenderInfo, NeedsARoomForTheAnswer) {
  std::uint32_t value = 0;
  EXPECT_EQ(raw(about(AMDGPU_INFO_ACCEL_WORKING), &value, 0), -EINVAL);
  EXPECT_EQ(raw(about(AMDGPU_INFO_ACCEL_WORKING), nullptr, 4), -EINVAL);
  EXPECT_EQ(raw(about(AMDGPU_INFO_ACCEL_WORKING), reinterpret_cast<void*>(kBadPointer), 4), -EFAULT);
  EXPECT_EQ(raw(about(0x12345), &value, 4), -EINVAL);
  EXPECT_EQ(raw(about(AMDGPU_INFO_CRTC_FROM_ID), &value, 4), -EINVAL);
}

TEST_F(RenderInfo, AnswersAreCutToTheRoom) {
  EXPECT_EQ(answer<std::uint32_t>(AMDGPU_INFO_ACCEL_WORKING), 1u);
  std::array<std::uint8_t, 8> bytes;
  bytes.fill(0xaa);
  EXPECT_EQ(raw(about(AMDGPU_INFO_ACCEL_WORKING), bytes.data(), 2), 0);
  EXPECT_EQ(bytes[0], 1);
  EXPECT_EQ(bytes[2], 0xaa);
  EXPECT_EQ(raw(about(AMDGPU_INFO_ACCEL_WORKING), bytes.data(), 8), 0);
  EXPECT_EQ(bytes[4], 0xaa) << "and never longer than they are";
}

TEST_F(RenderInfo, DeviceInfoAsLibdrmNeedsIt) {
  const auto info = answer<drm_amdgpu_info_device>(AMDGPU_INFO_DEV_INFO);
  EXPECT_EQ(info.device_id, gpu().profile().pci.device);
  EXPECT_EQ(info.family, gpu().profile().family_id);
  EXPECT_EQ(info.gpu_counter_freq, 100'000u);
  EXPECT_EQ(info.virtual_address_offset, 0x10000u);
  EXPECT_EQ(info.virtual_address_max, std::uint64_t{1} << 47);
  EXPECT_EQ(info.high_va_offset, 0xffff800000000000u);
  EXPECT_EQ(info.high_va_max, 0xffff800000000000u | ((std::uint64_t{1} << 48) - 4 * kMiB - 0x10000));
  EXPECT_EQ(info.virtual_address_alignment, 4096u);
  EXPECT_EQ(info.pte_fragment_size, 2 * kMiB);
  EXPECT_EQ(info.gart_page_size, 4096u);
  EXPECT_EQ(info.wave_front_size, 64u);
  EXPECT_EQ(info.cu_active_number, gpu().profile().compute.active_cus);
  EXPECT_EQ(info.ids_flags & AMDGPU_IDS_FLAGS_FUSION, 0u);
  EXPECT_LE(info.min_engine_clock, info.max_engine_clock);
}

TEST_F(RenderInfo, TheBitmapHasEveryComputeUnit) {
  const auto info = answer<drm_amdgpu_info_device>(AMDGPU_INFO_DEV_INFO);
  unsigned units = 0;
  for (const auto& row : info.cu_bitmap) {
    for (const std::uint32_t mask : row) units += static_cast<unsigned>(__builtin_popcount(mask));
  }
  EXPECT_EQ(units, gpu().profile().compute.active_cus / gpu().profile().compute.xcc_count);
}

TEST_F(RenderInfo, AnOldCallerGetsAPrefix) {
  std::array<std::byte, 368> old{};
  EXPECT_EQ(raw(about(AMDGPU_INFO_DEV_INFO), old.data(), old.size()), 0);
  std::uint32_t device = 0;
  std::memcpy(&device, old.data(), sizeof device);
  EXPECT_EQ(device, gpu().profile().pci.device);
}

TEST_F(RenderInfo, TheAddressConfigurationIsReadable) {
  std::array<std::uint32_t, 2> values{};
  EXPECT_EQ(raw(registers(0x263e, 1, 0xffffffff), values.data(), 4), 0);
  EXPECT_EQ(values[0], gpu().profile().gb_addr_config);
  EXPECT_EQ(raw(registers(0x263e, 0, 0xffffffff), values.data(), 4), 0);
  EXPECT_EQ(raw(registers(0x263e, 2, 0xffffffff), values.data(), 8), -EFAULT) << "its neighbour is not";
  EXPECT_EQ(raw(registers(0x1000, 1, 0xffffffff), values.data(), 4), -EFAULT);
  EXPECT_EQ(raw(registers(0x263e, 129, 0xffffffff), values.data(), 4), -EINVAL);
  EXPECT_EQ(raw(registers(0x263e, 1, 0xffffff04), values.data(), 4), -EINVAL) << "shader engine";
  EXPECT_EQ(raw(registers(0x263e, 1, 0xffff02ff), values.data(), 4), -EINVAL) << "shader array";
  EXPECT_EQ(raw(registers(0x263e, 1, 0xffff0103), values.data(), 4), 0);
}

TEST_F(RenderInfo, HardwareBlocks) {
  const auto dma = hw_ip(AMDGPU_HW_IP_DMA);
  EXPECT_EQ(dma.available_rings, 3u);
  EXPECT_EQ(dma.ib_start_alignment, 256u);
  EXPECT_EQ(dma.ib_size_alignment, 4u);
  EXPECT_EQ(dma.ip_discovery_version, 0x040400u);
  const auto compute = hw_ip(AMDGPU_HW_IP_COMPUTE);
  EXPECT_EQ(compute.available_rings, 0xfu);
  EXPECT_EQ(compute.hw_ip_version_major, 9u);
  EXPECT_EQ(compute.ip_discovery_version, 0x090402u);
  EXPECT_EQ(hw_ip(AMDGPU_HW_IP_GFX).available_rings, 0u) << "the block is there, a pipe is not";
  EXPECT_EQ(hw_ip(AMDGPU_HW_IP_VCN_DEC).hw_ip_version_major, 0u);
  drm_amdgpu_info_hw_ip info{};
  EXPECT_EQ(ask(hardware(AMDGPU_INFO_HW_IP_INFO, AMDGPU_HW_IP_NUM), info), -EINVAL);
  EXPECT_EQ(ask(hardware(AMDGPU_INFO_HW_IP_INFO, AMDGPU_HW_IP_DMA, 1), info), -EINVAL);
}

TEST_F(RenderInfo, HardwareBlockCounts) {
  std::uint32_t count = 0;
  EXPECT_EQ(ask(hardware(AMDGPU_INFO_HW_IP_COUNT, AMDGPU_HW_IP_GFX), count), 0);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(ask(hardware(AMDGPU_INFO_HW_IP_COUNT, AMDGPU_HW_IP_DMA), count), 0);
  EXPECT_EQ(count, 5u);
  EXPECT_EQ(ask(hardware(AMDGPU_INFO_HW_IP_COUNT, AMDGPU_HW_IP_VCN_DEC), count), -EINVAL);
  EXPECT_EQ(ask(hardware(AMDGPU_INFO_HW_IP_COUNT, 77), count), -EINVAL);
}

TEST_F(RenderInfo, FirmwareVersions) {
  drm_amdgpu_info_firmware info{};
  EXPECT_EQ(ask(firmware(AMDGPU_INFO_FW_GFX_MEC, 0, 0), info), 0);
  EXPECT_NE(info.ver, 0u);
  EXPECT_EQ(ask(firmware(AMDGPU_INFO_FW_GFX_MEC, 1, 0), info), -EINVAL);
  EXPECT_EQ(ask(firmware(AMDGPU_INFO_FW_GFX_MEC, 0, 2), info), -EINVAL);
  EXPECT_EQ(ask(firmware(AMDGPU_INFO_FW_SDMA, 0, 4), info), 0);
  EXPECT_EQ(ask(firmware(AMDGPU_INFO_FW_SDMA, 0, 5), info), -EINVAL);
  EXPECT_EQ(ask(firmware(AMDGPU_INFO_FW_TA, 0, 0), info), -EINVAL);
  EXPECT_EQ(ask(firmware(AMDGPU_INFO_FW_TA, 0, 3), info), 0);
  EXPECT_EQ(ask(firmware(99, 0, 0), info), -EINVAL);
}

TEST_F(RenderInfo, MemoryFollowsAllocations) {
  const auto before = answer<drm_amdgpu_memory_info>(AMDGPU_INFO_MEMORY);
  const std::uint64_t usable = gpu().vram_size_bytes() - 8 * kMiB;
  EXPECT_EQ(before.vram.total_heap_size, gpu().vram_size_bytes());
  EXPECT_EQ(before.vram.usable_heap_size, usable);
  EXPECT_EQ(before.vram.max_allocation, usable * 3 / 4);
  EXPECT_EQ(before.cpu_accessible_vram.total_heap_size, gpu().vram_size_bytes()) << "a large BAR";
  EXPECT_EQ(before.gtt.max_allocation, before.gtt.total_heap_size * 3 / 4);
  create_bo(4 * kMiB, AMDGPU_GEM_DOMAIN_VRAM);
  create_bo(2 * kMiB, AMDGPU_GEM_DOMAIN_GTT);
  const auto after = answer<drm_amdgpu_memory_info>(AMDGPU_INFO_MEMORY);
  EXPECT_EQ(after.vram.heap_usage, before.vram.heap_usage + 4 * kMiB);
  EXPECT_EQ(after.gtt.heap_usage, before.gtt.heap_usage + 2 * kMiB);
  EXPECT_EQ(answer<std::uint64_t>(AMDGPU_INFO_VRAM_USAGE), after.vram.heap_usage);
  EXPECT_EQ(answer<std::uint64_t>(AMDGPU_INFO_VIS_VRAM_USAGE), after.vram.heap_usage);
  EXPECT_EQ(answer<std::uint64_t>(AMDGPU_INFO_GTT_USAGE), after.gtt.heap_usage);
  const auto sizes = answer<drm_amdgpu_info_vram_gtt>(AMDGPU_INFO_VRAM_GTT);
  EXPECT_EQ(sizes.vram_size, usable);
  EXPECT_EQ(sizes.vram_cpu_accessible_size, usable);
}

TEST_F(RenderInfo, CountersOfAnIdleGpu) {
  EXPECT_EQ(answer<std::uint64_t>(AMDGPU_INFO_NUM_BYTES_MOVED), 0u);
  EXPECT_EQ(answer<std::uint64_t>(AMDGPU_INFO_NUM_EVICTIONS), 0u);
  EXPECT_EQ(answer<std::uint64_t>(AMDGPU_INFO_NUM_VRAM_CPU_PAGE_FAULTS), 0u);
  EXPECT_EQ(answer<std::uint32_t>(AMDGPU_INFO_VRAM_LOST_COUNTER), 0u);
  const auto first = answer<std::uint64_t>(AMDGPU_INFO_TIMESTAMP);
  EXPECT_GE(answer<std::uint64_t>(AMDGPU_INFO_TIMESTAMP), first);
}

TEST_F(RenderInfo, LimitsOfSubmissions) {
  const auto limits = answer<std::array<std::uint32_t, AMDGPU_HW_IP_NUM>>(AMDGPU_INFO_MAX_IBS);
  EXPECT_EQ(limits[AMDGPU_HW_IP_GFX], 192u);
  EXPECT_EQ(limits[AMDGPU_HW_IP_COMPUTE], 125u);
  EXPECT_EQ(limits[AMDGPU_HW_IP_DMA], 49u);
  EXPECT_EQ(limits[AMDGPU_HW_IP_VCN_JPEG], 16u);
}

TEST_F(RenderInfo, VideoBiosQueries) {
  const auto vbios = [&](std::uint32_t type) {
    std::array<std::byte, 256> bytes{};
    drm_amdgpu_info args = about(AMDGPU_INFO_VBIOS);
    args.vbios_info = {type, 0};
    return ask(args, bytes);
  };
  EXPECT_EQ(vbios(AMDGPU_INFO_VBIOS_SIZE), 0);
  EXPECT_EQ(vbios(AMDGPU_INFO_VBIOS_IMAGE), -EINVAL) << "there is no image";
  EXPECT_EQ(vbios(AMDGPU_INFO_VBIOS_INFO), 0);
  EXPECT_EQ(vbios(77), -EINVAL);
}

TEST_F(RenderInfo, OldVideoEnginesAreNotThere) {
  drm_amdgpu_info_num_handles handles{};
  EXPECT_EQ(ask(hardware(AMDGPU_INFO_NUM_HANDLES, AMDGPU_HW_IP_UVD), handles), -ENODATA);
  EXPECT_EQ(ask(hardware(AMDGPU_INFO_NUM_HANDLES, AMDGPU_HW_IP_GFX), handles), -EINVAL);
  EXPECT_EQ(answer<drm_amdgpu_info_vce_clock_table>(AMDGPU_INFO_VCE_CLOCK_TABLE).num_valid_entries, 0u);
  drm_amdgpu_info_video_caps caps{};
  drm_amdgpu_info args = about(AMDGPU_INFO_VIDEO_CAPS);
  args.video_cap.type = AMDGPU_INFO_VIDEO_CAPS_DECODE;
  EXPECT_EQ(ask(args, caps), 0);
  args.video_cap.type = 2;
  EXPECT_EQ(ask(args, caps), -EINVAL);
}

TEST_F(RenderInfo, SensorsOfAnIdleGpu) {
  const auto sensor = [&](std::uint32_t type) {
    std::uint32_t value = 0;
    drm_amdgpu_info args = about(AMDGPU_INFO_SENSOR);
    args.sensor_info.type = type;
    const int result = ask(args, value);
    return result < 0 ? result : static_cast<int>(value);
  };
  EXPECT_GT(sensor(AMDGPU_INFO_SENSOR_GFX_SCLK), 0);
  EXPECT_GT(sensor(AMDGPU_INFO_SENSOR_GPU_TEMP), 10'000) << "in thousandths of a degree";
  EXPECT_EQ(sensor(AMDGPU_INFO_SENSOR_GPU_LOAD), 0);
  EXPECT_GT(sensor(AMDGPU_INFO_SENSOR_GPU_AVG_POWER), 0);
  EXPECT_EQ(sensor(0), -EINVAL);
  EXPECT_EQ(sensor(77), -EINVAL);
}

TEST_F(RenderInfo, RasFeaturesAreEnabledAndSupported) {
  const std::uint64_t features = gpu().profile().ras_features;
  EXPECT_EQ(answer<std::uint64_t>(AMDGPU_INFO_RAS_ENABLED_FEATURES), features << 32 | features);
}

TEST_F(RenderInfo, NoFaultUntilOneHappens) {
  const auto fault = answer<drm_amdgpu_info_gpuvm_fault>(AMDGPU_INFO_GPUVM_FAULT);
  EXPECT_EQ(fault.addr, 0u);
  EXPECT_EQ(fault.status, 0u);
}

class NaviInfo : public RenderInfo {
 protected:
  NaviInfo() : RenderInfo("gfx1030") {}
};

TEST_F(NaviInfo, AGraphicsCardHasAPipeAndASmallBar) {
  EXPECT_EQ(hw_ip(AMDGPU_HW_IP_GFX).available_rings, 1u);
  EXPECT_EQ(hw_ip(AMDGPU_HW_IP_GFX).ip_discovery_version, 0x0a0300u);
  const auto memory = answer<drm_amdgpu_memory_info>(AMDGPU_INFO_MEMORY);
  EXPECT_EQ(memory.cpu_accessible_vram.total_heap_size, 256 * kMiB);
  std::uint64_t features = 0;
  EXPECT_EQ(ask(about(AMDGPU_INFO_RAS_ENABLED_FEATURES), features),
            gpu().profile().ras_features == 0 ? -EINVAL : 0);
}

class ApuInfo : public RenderInfo {
 protected:
  ApuInfo() : RenderInfo("gfx1151") {}
};

TEST_F(ApuInfo, AnApuSaysSo) {
  const auto info = answer<drm_amdgpu_info_device>(AMDGPU_INFO_DEV_INFO);
  EXPECT_EQ(info.ids_flags & AMDGPU_IDS_FLAGS_FUSION, AMDGPU_IDS_FLAGS_FUSION);
}

}  // namespace
}  // namespace understudy::kfd
