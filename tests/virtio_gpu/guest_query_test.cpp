// VERSION, GETPARAM, GET_CAPS, CONTEXT_INIT: what a guest learns about its device, against the facts.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/virtio_gpu/guest_machine.h"

namespace understudy::virtio_gpu::test {
namespace {

const GuestOptions kGl{.request = "gl"};
const GuestOptions kSeriesGl{.request = "gl,blob,context_init,hostmem=1G", .device = "series"};

TEST(Version, IsThatOfTheDriver) {
  GuestMachine guest;
  char name[32] = {}, date[32] = {}, description[32] = {};
  uapi::drm::drm_version args{};
  args.name = reinterpret_cast<std::uint64_t>(name);
  args.name_len = args.date_len = args.desc_len = sizeof name;
  args.date = reinterpret_cast<std::uint64_t>(date);
  args.desc = reinterpret_cast<std::uint64_t>(description);
  ASSERT_EQ(guest.ioctl<uapi::drm::Version>(args), 0);
  EXPECT_STREQ(name, "virtio_gpu");
  EXPECT_STREQ(date, "0");
  EXPECT_STREQ(description, "virtio GPU");
  EXPECT_EQ(args.version_major, 0);
  EXPECT_EQ(args.version_minor, 1);
  EXPECT_EQ(args.version_patchlevel, 0);
}

TEST(DriverNumbers, EndAtContextInit) {
  GuestMachine guest;
  std::uint64_t args[16] = {};
  EXPECT_EQ(guest.ioctl_number(0xc0106440, args), -EINVAL);
  EXPECT_EQ(guest.ioctl_number(0xc010644c, args), -EINVAL);
}

TEST(StructPointer, UnreadableIsEfaultBeforeAnyCheck) {
  GuestMachine guest;
  EXPECT_EQ(guest.client.ioctl(guest.file, guest_abi::Execbuffer::kCmd, reinterpret_cast<void*>(8)), -EFAULT);
}

TEST(GetParam, TellsTheFeaturesOfEachDevice) {
  struct Row {
    GuestOptions options;
    std::int32_t values[8];  // params 1..8; -EINVAL: unknown
  };
  const Row rows[] = {{{.request = "2d"}, {0, 1, 0, 0, 0, 0, 0, 0}},
                      {{.request = "2d", .kernel = "6.1"}, {0, 1, 0, 0, 0, 0, 0, -EINVAL}},
                      {kGl, {1, 1, 0, 0, 0, 0, 6, 0}},
                      {kSeriesGl, {1, 1, 1, 1, 0, 1, 6, 1}}};
  for (const Row& row : rows) {
    GuestMachine guest(row.options);
    for (std::uint64_t param = 1; param <= 8; ++param) {
      std::int32_t value[2] = {-1, -1};
      const int result = guest.get_param(param, value[0]);
      if (row.values[param - 1] < 0) {
        EXPECT_EQ(result, row.values[param - 1]) << param;
      } else {
        EXPECT_EQ(result, 0) << param;
        EXPECT_EQ(value[0], row.values[param - 1]) << row.options.request << " " << param;
        EXPECT_EQ(value[1], -1) << "four bytes are written, no more";
      }
    }
    std::int32_t value = 0;
    EXPECT_EQ(guest.get_param(0, value), -EINVAL);
    EXPECT_EQ(guest.get_param(9, value), -EINVAL);
  }
}

TEST(GetParam, BadPointerIsEfaultAndUnknownComesFirst) {
  GuestMachine guest;
  guest_abi::drm_virtgpu_getparam args{1, 8};
  EXPECT_EQ(guest.ioctl<guest_abi::Getparam>(args), -EFAULT);
  args = {99, 8};
  EXPECT_EQ(guest.ioctl<guest_abi::Getparam>(args), -EINVAL);
}

int get_caps(GuestMachine& guest, std::uint32_t id, std::uint32_t version, void* into, std::uint32_t size) {
  guest_abi::drm_virtgpu_get_caps args{};
  args.cap_set_id = id;
  args.cap_set_ver = version;
  args.addr = reinterpret_cast<std::uint64_t>(into);
  args.size = size;
  return guest.ioctl<guest_abi::GetCaps>(args);
}

TEST(GetCaps, IsEnosysWithoutSetsEvenForSizeZero) {
  GuestMachine guest;
  EXPECT_EQ(get_caps(guest, 1, 0, nullptr, 0), -ENOSYS);
}

TEST(GetCaps, ChecksSizeThenIdAndVersionThenPointer) {
  GuestMachine guest(kGl);
  std::uint8_t bytes[4096];
  EXPECT_EQ(get_caps(guest, 99, 0, bytes, 0), -EINVAL);
  for (const std::uint32_t id : {0u, 8u, 63u, 64u})
    EXPECT_EQ(get_caps(guest, id, 0, bytes, 16), -EINVAL) << id;
  EXPECT_EQ(get_caps(guest, 1, 2, bytes, 16), -EINVAL) << "above the set's version";
  EXPECT_EQ(get_caps(guest, 1, 1, reinterpret_cast<void*>(8), 16), -EFAULT);
  EXPECT_EQ(get_caps(guest, 1, 0, bytes, 16), 0) << "below it is fine";
}

TEST(GetCaps, TouchesNoMoreThanTheSetHas) {
  GuestMachine guest(kGl);
  std::vector<std::uint8_t> bytes(4096, 0xee);
  ASSERT_EQ(get_caps(guest, 2, 2, bytes.data(), 4096), 0);
  EXPECT_EQ(bytes[0], 2);
  EXPECT_EQ(bytes[1375], 0);
  EXPECT_EQ(bytes[1376], 0xee);
  std::fill(bytes.begin(), bytes.end(), 0xee);
  ASSERT_EQ(get_caps(guest, 2, 2, bytes.data(), 3), 0);
  EXPECT_EQ(bytes[3], 0xee);
}

class LosesAnswers : public FaultHook {
 public:
  bool lose = false;
  FaultDecision before(Call&) override { return {}; }
  Outcome after(Call&, Outcome outcome, std::size_t*) override { return outcome; }
  void replied(const Call&) override {}
  PointDecision at(FaultPoint point, std::string_view, const Client*) override {
    return lose && point == FaultPoint::kVirtioResponse ? PointDecision::kDrop : PointDecision::kPass;
  }
};

TEST(GetCaps, LostAnswerIsEbusyAfterFiveSeconds) {
  GuestMachine guest(kGl);
  const auto hook = std::make_shared<LosesAnswers>();
  guest.machine.hooks().install(hook);
  hook->lose = true;
  std::uint8_t bytes[16];
  guest_abi::drm_virtgpu_get_caps args{1, 1, reinterpret_cast<std::uint64_t>(bytes), sizeof bytes, 0};
  const auto call =
      guest.client.start(guest.file, guest_abi::GetCaps::kCmd, reinterpret_cast<std::uint64_t>(&args));
  call->cancel();
  EXPECT_FALSE(call->answered()) << "a signal does not end it";
  guest.clock->advance(4'999'000'000);
  EXPECT_FALSE(call->answered());
  guest.clock->advance(1'000'000);
  EXPECT_EQ(call->wait(), -EBUSY);
}

TEST(ContextInit, NeedsTheFeature) {
  EXPECT_EQ(GuestMachine({.request = "2d"}).context_init({}), -EINVAL);
  EXPECT_EQ(GuestMachine(kGl).context_init({}), -EINVAL);
}

TEST(ContextInit, NoParametersMakeAPlainContextOnce) {
  GuestMachine guest(kSeriesGl);
  EXPECT_EQ(guest.context_init({}), 0);
  EXPECT_EQ(guest.live(ObjectKind::kContext), 1u);
  EXPECT_EQ(guest.context_init({}), -EEXIST);
}

TEST(ContextInit, CountIsCheckedBeforePointerBeforeExistence) {
  GuestMachine guest(kSeriesGl);
  guest_abi::drm_virtgpu_context_init args{};
  args.ctx_set_params = 8;
  args.num_params = 5;
  EXPECT_EQ(guest.ioctl<guest_abi::ContextInit>(args), -EINVAL);
  args.num_params = 1;
  EXPECT_EQ(guest.ioctl<guest_abi::ContextInit>(args), -EFAULT);
  ASSERT_EQ(guest.context_init({}), 0);
  EXPECT_EQ(guest.ioctl<guest_abi::ContextInit>(args), -EFAULT);
}

TEST(ContextInit, OldKernelsTakeThreeParameters) {
  GuestOptions old = kSeriesGl;
  old.kernel = "6.1";
  GuestMachine guest(old);
  EXPECT_EQ(guest.context_init({{1, 2}, {2, 4}, {3, 1}, {4, 0}}), -EINVAL);
  EXPECT_EQ(guest.context_init({{1, 2}, {2, 4}, {3, 1}}), 0);
}

TEST(ContextInit, BadParametersAreEinval) {
  const std::vector<guest_abi::drm_virtgpu_context_set_param> bad[] = {
      {{0, 0}},           // no such parameter
      {{5, 0}},           // no such parameter
      {{1, 64}},          // beyond the last set
      {{1, 8}},           // not announced
      {{1, 1}, {1, 1}},   // twice
      {{2, 65}},          // more rings than there are
      {{2, 1}, {2, 1}},   // twice
      {{3, 1}},           // a ring that is not there
      {{2, 4}, {3, 16}},  // likewise
      {{3, 1}, {3, 1}},   // twice
  };
  for (const auto& params : bad) {
    GuestMachine guest(kSeriesGl);
    EXPECT_EQ(guest.context_init(params), -EINVAL);
    EXPECT_EQ(guest.live(ObjectKind::kContext), 0u);
  }
}

TEST(ContextInit, WhatWasSetBeforeTheBadOneStaysSet) {
  GuestMachine guest(kSeriesGl);
  EXPECT_EQ(guest.context_init({{2, 4}, {99, 0}}), -EINVAL);
  EXPECT_EQ(guest.context_init({{2, 4}}), -EINVAL);
  EXPECT_EQ(guest.context_init({}), 0);
}

TEST(ContextInit, RingMaskHas64BitsOnlyInNewKernels) {
  GuestMachine recent(kSeriesGl);
  EXPECT_EQ(recent.context_init({{2, 64}, {3, std::uint64_t{1} << 63}}), 0);
  GuestMachine narrow(kSeriesGl);
  EXPECT_EQ(narrow.context_init({{2, 2}, {3, std::uint64_t{1} << 40}}), -EINVAL);
  GuestOptions old = kSeriesGl;
  old.kernel = "6.1";
  GuestMachine cut(old);
  EXPECT_EQ(cut.context_init({{2, 2}, {3, std::uint64_t{1} << 40}}), 0) << "the high bits are lost";
}

TEST(ContextInit, DebugNameComesFromUserMemory) {
  GuestMachine guest(kSeriesGl);
  const char name[] = "my context";
  EXPECT_EQ(guest.context_init({{4, 8}}), -EFAULT);
  EXPECT_EQ(guest.context_init({{4, reinterpret_cast<std::uint64_t>(name)}}), 0);
}

TEST(Contexts, NumbersAreTheLowestFree) {
  GuestMachine guest(kGl);
  const auto context_of = [](const FileRef& file) { return static_cast<VirtioGpuFile&>(*file).context_id(); };
  const FileRef second = guest.client.open("dri/renderD128");
  const FileRef third = guest.client.open("dri/card0");
  EXPECT_EQ(context_of(guest.file), 1u);
  EXPECT_EQ(context_of(second), 2u);
  EXPECT_EQ(context_of(third), 3u);
  guest.client.close(second);
  EXPECT_EQ(context_of(guest.client.open("dri/renderD128")), 2u);
}

TEST(Contexts, AreMadeByTheFirstThingThatNeedsOneAndGoWithTheFile) {
  GuestMachine guest(kSeriesGl);
  EXPECT_EQ(guest.live(ObjectKind::kContext), 0u);
  EXPECT_NE(guest.create_resource(), 0u);
  EXPECT_EQ(guest.live(ObjectKind::kContext), 1u);
  EXPECT_EQ(guest.context_init({}), -EEXIST);
  guest.client.close(guest.file);
  EXPECT_EQ(guest.live(ObjectKind::kContext), 0u);
  EXPECT_EQ(guest.live(ObjectKind::kResource), 0u);
  EXPECT_EQ(guest.gpu->device_model().resource_count(), 0u);
}

}  // namespace
}  // namespace understudy::virtio_gpu::test
