// CS: what runs, and every way it is refused. Expected values: amdgpu_cs.c, in the order of its checks.
#include <array>
#include <thread>

#include "tests/kfd/render/submission_fixture.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

constexpr std::uint32_t kCopyLinear = 1, kConstantFill = 11 | 2u << 30;
constexpr std::uint32_t kPm4WriteData = 3u << 30 | 3u << 16 | 0x37u << 8;
constexpr std::uint64_t kUnmapped = kVa + 256 * kMiB;

class Submit : public SubmissionTest {
 protected:
  std::uint32_t dword_at(std::uint64_t offset) {
    std::uint32_t value = 0;
    std::memcpy(&value, data_ + offset, sizeof value);
    return value;
  }
  drm_amdgpu_cs_chunk_ib write_copy(std::uint64_t from, std::uint64_t to, std::uint32_t bytes) {
    return write_ib({kCopyLinear, bytes - 1, 0, low(from), high(from), low(to), high(to)});
  }
};

TEST_F(Submit, ACopyRuns) {
  std::memset(data_, 0x5a, kPage);
  const std::int64_t sequence = submit_ib(write_copy(kData, kData + kPage, kPage - 3));
  ASSERT_EQ(sequence, 1);
  EXPECT_EQ(wait_cs(1), 0);
  EXPECT_EQ(std::memcmp(data_, data_ + kPage, kPage - 3), 0);
  EXPECT_EQ(data_[2 * kPage - 1], std::byte{0});
}

TEST_F(Submit, FillsAndWritesRun) {
  ASSERT_EQ(submit_ib(write_ib({kConstantFill, low(kData), high(kData), 0xabcdef01, 15 * 4})), 1);
  EXPECT_EQ(wait_cs(1), 0);
  EXPECT_EQ(dword_at(0), 0xabcdef01u);
  EXPECT_EQ(dword_at(15 * 4), 0xabcdef01u);
  EXPECT_EQ(dword_at(16 * 4), 0u);
}

TEST_F(Submit, ComputeRingsTakePm4) {
  const auto ib =
      write_ib({kPm4WriteData, 5u << 8, low(kData + 8), high(kData + 8), 0x1234}, AMDGPU_HW_IP_COMPUTE);
  ASSERT_EQ(submit_ib(ib), 1);
  EXPECT_EQ(wait_cs(1, kForEver, AMDGPU_HW_IP_COMPUTE), 0);
  EXPECT_EQ(dword_at(8), 0x1234u);
}

TEST_F(Submit, UserPagesAreReached) {
  const UserPages pages(kPage);
  const auto userptr =
      static_cast<std::uint32_t>(create_userptr(pages.address(), kPage, AMDGPU_GEM_USERPTR_REGISTER));
  ASSERT_EQ(map_va(userptr, kVa + 16 * kMiB, kPage), 0);
  pages.bytes()[17] = std::byte{42};
  ASSERT_EQ(submit_ib(write_copy(kVa + 16 * kMiB, kData, kPage)), 1);
  EXPECT_EQ(wait_cs(1), 0);
  EXPECT_EQ(data_[17], std::byte{42});
}

TEST_F(Submit, SequencesCountPerRing) {
  EXPECT_EQ(submit_ib(write_ib({0})), 1);
  EXPECT_EQ(submit_ib(write_ib({0})), 2);
  auto ib = write_ib({0});
  ib.ring = 1;
  EXPECT_EQ(submit_ib(ib), 1);
  EXPECT_EQ(wait_cs(2), 0);
}

TEST_F(Submit, JobsOfARingRunInOrder) {
  const auto gate = write_gate();
  ASSERT_EQ(submit_ib(gate), 1);
  // Behind the gate in the same page: a fill.
  const std::uint32_t fill[] = {kConstantFill, low(kData), high(kData), 7, 0};
  std::copy(std::begin(fill), std::end(fill), ib_ + 64);
  drm_amdgpu_cs_chunk_ib second{};
  second.va_start = kIb + 64 * 4;
  second.ib_bytes = sizeof fill;
  second.ip_type = AMDGPU_HW_IP_DMA;
  ASSERT_EQ(submit_ib(second), 2);
  EXPECT_EQ(wait_cs(2, 0), 1);
  EXPECT_EQ(dword_at(0), 0u);
  open_gate();
  advance_until([&] { return fence(2)->is_signalled(); });
  EXPECT_EQ(wait_cs(2), 0);
  EXPECT_EQ(dword_at(0), 7u);
}

TEST_F(Submit, SeveralBuffersMakeOneJob) {
  const std::uint32_t fill[] = {kConstantFill, low(kData + 8), high(kData + 8), 8, 0};
  std::copy(std::begin(fill), std::end(fill), ib_ + 64);
  const auto first = write_ib({kConstantFill, low(kData), high(kData), 7, 0});
  drm_amdgpu_cs_chunk_ib second = first;
  second.va_start = kIb + 64 * 4;
  ASSERT_EQ(submit({chunk(AMDGPU_CHUNK_ID_IB, first), chunk(AMDGPU_CHUNK_ID_IB, second)}), 1);
  EXPECT_EQ(wait_cs(1), 0);
  EXPECT_EQ(dword_at(0), 7u);
  EXPECT_EQ(dword_at(8), 8u);
}

TEST_F(Submit, AGangRunsOnSeveralRingsAndTheLastLeads) {
  // The DMA ring waits for what the compute ring writes.
  const std::uint32_t write[] = {kPm4WriteData, 5u << 8, low(kGate), high(kGate), 1};
  std::copy(std::begin(write), std::end(write), ib_ + 64);
  const auto gate = write_gate();
  drm_amdgpu_cs_chunk_ib compute{};
  compute.va_start = kIb + 64 * 4;
  compute.ib_bytes = sizeof write;
  compute.ip_type = AMDGPU_HW_IP_COMPUTE;
  ASSERT_EQ(submit({chunk(AMDGPU_CHUNK_ID_IB, compute), chunk(AMDGPU_CHUNK_ID_IB, gate)}), 1);
  advance_until([&] { return fence(1)->is_signalled(); });
  EXPECT_EQ(wait_cs(1), 0);
  EXPECT_EQ(wait_cs(1, 0, AMDGPU_HW_IP_COMPUTE), -EINVAL) << "only the leader's ring counts on";
}

TEST_F(Submit, TheUserFenceIsWritten) {
  const auto fence_bo = static_cast<std::uint32_t>(create_bo(kPage));
  const drm_amdgpu_cs_chunk_fence fence{fence_bo, 16};
  const auto ib = write_ib({0});
  ASSERT_EQ(submit_ib(ib), 1);
  ASSERT_EQ(submit({chunk(AMDGPU_CHUNK_ID_IB, ib), chunk(AMDGPU_CHUNK_ID_FENCE, fence)}), 2);
  EXPECT_EQ(wait_cs(2), 0);
  std::array<std::byte, 8> value{};
  bo(fence_bo)->read_pages(16, value);
  EXPECT_EQ(value[0], std::byte{2});
}

TEST_F(Submit, BosAreBusyUntilTheJobIsDone) {
  const drm_amdgpu_bo_list_entry entry{data_bo_, 0};
  const drm_amdgpu_bo_list_in list{0, 0, 1, sizeof entry, reinterpret_cast<std::uint64_t>(&entry)};
  const auto gate = write_gate();
  ASSERT_EQ(submit({chunk(AMDGPU_CHUNK_ID_BO_HANDLES, list), chunk(AMDGPU_CHUNK_ID_IB, gate)}), 1);
  EXPECT_EQ(bo(data_bo_)->reservation().pending().size(), 1u);
  open_gate();
  advance_until([&] { return fence(1)->is_signalled(); });
  EXPECT_TRUE(bo(data_bo_)->reservation().pending().empty());
}

TEST_F(Submit, SyncobjsOrderJobs) {
  const std::uint32_t before = make_syncobj();
  const std::uint32_t after = make_syncobj();
  const auto input = std::make_shared<drm::Fence>();
  amdgpu(file_).syncobjs().find(before)->replace(input);
  const drm_amdgpu_cs_chunk_sem in{before}, out{after};
  const auto ib = write_ib({kConstantFill, low(kData), high(kData), 7, 0});
  ASSERT_EQ(submit({chunk(AMDGPU_CHUNK_ID_IB, ib), chunk(AMDGPU_CHUNK_ID_SYNCOBJ_IN, in),
                    chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, out)}),
            1);
  EXPECT_EQ(wait_cs(1, 0), 1);
  EXPECT_FALSE(amdgpu(file_).syncobjs().find(after)->fence_at(0)->is_signalled());
  input->signal();
  EXPECT_EQ(wait_cs(1), 0);
  EXPECT_TRUE(amdgpu(file_).syncobjs().find(after)->fence_at(0)->is_signalled());
}

TEST_F(Submit, TimelinesOrderJobs) {
  const std::uint32_t timeline = make_syncobj();
  const drm_amdgpu_cs_chunk_syncobj out{timeline, 0, 5};
  const auto ib = write_ib({0});
  ASSERT_EQ(submit({chunk(AMDGPU_CHUNK_ID_IB, ib), chunk(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, out)}), 1);
  EXPECT_EQ(wait_cs(1), 0);
  EXPECT_EQ(amdgpu(file_).syncobjs().find(timeline)->query(false), 5u);
  const drm_amdgpu_cs_chunk_syncobj in{timeline, 0, 6};
  EXPECT_EQ(submit({chunk(AMDGPU_CHUNK_ID_IB, ib), chunk(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, in)}),
            -EINVAL);
}

TEST_F(Submit, APointMayBeWaitedForFiveSeconds) {
  const std::uint32_t timeline = make_syncobj();
  const drm_amdgpu_cs_chunk_syncobj in{timeline, uapi::drm::DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT, 1};
  const auto ib = write_ib({0});
  const Chunks chunks = {chunk(AMDGPU_CHUNK_ID_IB, ib), chunk(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, in)};
  auto call = start_submit(chunks);
  EXPECT_FALSE(call->answered());
  amdgpu(file_).syncobjs().find(timeline)->add_point(drm::Fence::signalled(), 1);
  EXPECT_EQ(call->wait(), 0);
  EXPECT_EQ(wait_cs(cs_args_.out.handle), 0);

  amdgpu(file_).syncobjs().find(timeline)->replace(nullptr);
  call = start_submit(chunks);
  clock_->advance(5'000'000'000);
  EXPECT_EQ(call->wait(), -ETIME);
}

TEST_F(Submit, DependenciesOnEarlierJobs) {
  ASSERT_EQ(submit_ib(write_gate()), 1);
  const drm_amdgpu_cs_chunk_dep dependency{AMDGPU_HW_IP_DMA, 0, 0, context_, 1};
  drm_amdgpu_cs_chunk_ib other{};
  ib_[64] = 0;
  other.va_start = kIb + 64 * 4;
  other.ib_bytes = 4;
  other.ip_type = AMDGPU_HW_IP_DMA;
  other.ring = 1;
  ASSERT_EQ(submit({chunk(AMDGPU_CHUNK_ID_IB, other), chunk(AMDGPU_CHUNK_ID_DEPENDENCIES, dependency)}), 1);
  const auto second = amdgpu(file_).contexts().find(context_)->fence({AMDGPU_HW_IP_DMA, 0, 1}, 1).value();
  EXPECT_FALSE(second->is_signalled());
  open_gate();
  advance_until([&] { return second->is_signalled(); });
}

TEST_F(Submit, AFaultLosesTheJobAndItsContext) {
  ASSERT_EQ(submit_ib(write_copy(kUnmapped, kData, 64)), 1);
  EXPECT_EQ(wait_cs(1), -ECANCELED);
  const drm_amdgpu_info_gpuvm_fault fault = amdgpu(file_).faults()->last();
  EXPECT_EQ(fault.addr, kUnmapped);
  EXPECT_EQ(fault.status, 0x10u);
  EXPECT_EQ(submit_ib(write_ib({0})), -ECANCELED) << "a guilty context takes no more";
  drm_amdgpu_ctx args{};
  args.in = {AMDGPU_CTX_OP_QUERY_STATE2, 0, context_, 0};
  EXPECT_EQ(client_.ioctl<Ctx>(file_, args), 0);
  EXPECT_EQ(args.out.state.flags, AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_GUILTY);
  args.in = {AMDGPU_CTX_OP_QUERY_STATE, 0, context_, 0};
  EXPECT_EQ(client_.ioctl<Ctx>(file_, args), 0);
  EXPECT_EQ(args.out.state.reset_status, AMDGPU_CTX_UNKNOWN_RESET);
  args.in = {AMDGPU_CTX_OP_QUERY_STATE, 0, context_, 0};
  EXPECT_EQ(client_.ioctl<Ctx>(file_, args), 0);
  EXPECT_EQ(args.out.state.reset_status, AMDGPU_CTX_NO_RESET) << "told once";
  context_ = static_cast<std::uint32_t>(make_context());
  EXPECT_EQ(submit_ib(write_ib({0})), 1) << "another context goes on";
}

TEST_F(Submit, AWriteToReadOnlyPagesIsAFault) {
  ASSERT_EQ(map_va(data_bo_, kVa + 32 * kMiB, kPage, 0, AMDGPU_VM_PAGE_READABLE), 0);
  ASSERT_EQ(submit_ib(write_copy(kData, kVa + 32 * kMiB, 64)), 1);
  EXPECT_EQ(wait_cs(1), -ECANCELED);
  EXPECT_EQ(amdgpu(file_).faults()->last().status, 0x40u);
}

TEST_F(Submit, ABadPacketLosesTheJob) {
  ASSERT_EQ(submit_ib(write_ib({0xffffffff})), 1);
  EXPECT_EQ(wait_cs(1), -ECANCELED);
}

TEST_F(Submit, AHangEndsAfterTenSeconds) {
  ASSERT_EQ(submit_ib(write_gate()), 1);
  advance_until([&] {
    clock_->advance(1'000'000'000);
    return fence(1)->is_signalled();
  });
  EXPECT_EQ(wait_cs(1), -ETIME);
}

TEST_F(Submit, RefusedBeforeAnythingIsRead) {
  const auto ib = write_ib({0});
  EXPECT_EQ(submit({}), -EINVAL) << "no chunks";
  context_ = kNoSuchContext;
  EXPECT_EQ(submit_ib(ib), -EINVAL);
}

TEST_F(Submit, BadPointersAreEfault) {
  const auto ib = write_ib({0});
  drm_amdgpu_cs args{};
  args.in = {context_, 0, 1, 0, kBadPointer};
  EXPECT_EQ(client_.ioctl<Cs>(file_, args), -EFAULT);
  const std::uint64_t bad = kBadPointer;
  args.in = {context_, 0, 1, 0, reinterpret_cast<std::uint64_t>(&bad)};
  EXPECT_EQ(client_.ioctl<Cs>(file_, args), -EFAULT);
  drm_amdgpu_cs_chunk broken = chunk(AMDGPU_CHUNK_ID_IB, ib);
  broken.chunk_data = kBadPointer;
  EXPECT_EQ(submit({broken}), -EFAULT);
  broken.chunk_id = 77;
  EXPECT_EQ(submit({broken}), -EFAULT) << "read before its number is looked at";
}

TEST_F(Submit, ChunksAreChecked) {
  const auto ib = write_ib({0});
  EXPECT_EQ(submit({chunk(77, ib)}), -EINVAL);
  drm_amdgpu_cs_chunk shortened = chunk(AMDGPU_CHUNK_ID_IB, ib);
  --shortened.length_dw;
  EXPECT_EQ(submit({shortened}), -EINVAL);
  const drm_amdgpu_cs_chunk_sem none{};
  EXPECT_EQ(submit({chunk(AMDGPU_CHUNK_ID_SYNCOBJ_IN, none, 0)}), -EINVAL) << "nothing to run";
}

TEST_F(Submit, RingsAreChecked) {
  const auto refused = [&](std::uint32_t ip_type, std::uint32_t instance, std::uint32_t ring) {
    auto ib = write_ib({0}, ip_type);
    ib.ip_instance = instance;
    ib.ring = ring;
    return submit_ib(ib);
  };
  EXPECT_EQ(refused(AMDGPU_HW_IP_NUM, 0, 0), -EINVAL);
  EXPECT_EQ(refused(AMDGPU_HW_IP_DMA, 1, 0), -EINVAL);
  EXPECT_EQ(refused(AMDGPU_HW_IP_DMA, 0, 2), -EINVAL);
  EXPECT_EQ(refused(AMDGPU_HW_IP_COMPUTE, 0, 4), -EINVAL);
  EXPECT_EQ(refused(AMDGPU_HW_IP_VCN_DEC, 0, 0), -EINVAL) << "no such hardware here";
  EXPECT_EQ(refused(AMDGPU_HW_IP_GFX, 0, 0), -EINVAL) << "an Instinct has no graphics pipe";
}

TEST_F(Submit, SizesAndCountsAreLimited) {
  auto ib = write_ib({0});
  EXPECT_EQ(submit(Chunks(50, chunk(AMDGPU_CHUNK_ID_IB, ib))), -EINVAL) << "49 buffers for a DMA ring";
  ib.ib_bytes = 0x100000 * 4;
  EXPECT_EQ(submit_ib(ib), -EINVAL);
  std::array<drm_amdgpu_cs_chunk_ib, 5> gang;
  Chunks chunks;
  for (std::uint32_t i = 0; i < gang.size(); ++i) {
    gang[i] = write_ib({0}, i < 4 ? AMDGPU_HW_IP_COMPUTE : AMDGPU_HW_IP_DMA);
    gang[i].ring = i % 4;
    chunks.push_back(chunk(AMDGPU_CHUNK_ID_IB, gang[i]));
  }
  EXPECT_EQ(submit(chunks), -EINVAL) << "four rings at most";
}

TEST_F(Submit, UserFencesAreChecked) {
  const auto ib = write_ib({0});
  const auto page = static_cast<std::uint32_t>(create_bo(kPage));
  const auto with_fence = [&](std::uint32_t handle, std::uint32_t offset) {
    const drm_amdgpu_cs_chunk_fence fence{handle, offset};
    return submit({chunk(AMDGPU_CHUNK_ID_FENCE, fence), chunk(AMDGPU_CHUNK_ID_IB, ib)});
  };
  EXPECT_EQ(with_fence(kNoSuchHandle, 0), -EINVAL);
  EXPECT_EQ(with_fence(data_bo_, 0), -EINVAL) << "more than a page";
  EXPECT_EQ(with_fence(page, kPage - 7), -EINVAL);
  const UserPages pages(kPage);
  const int userptr = create_userptr(pages.address(), kPage, AMDGPU_GEM_USERPTR_REGISTER);
  EXPECT_EQ(with_fence(static_cast<std::uint32_t>(userptr), 0), -EINVAL);
  const drm_amdgpu_cs_chunk_fence fence{page, 0};
  EXPECT_EQ(submit({chunk(AMDGPU_CHUNK_ID_FENCE, fence), chunk(AMDGPU_CHUNK_ID_FENCE, fence),
                    chunk(AMDGPU_CHUNK_ID_IB, ib)}),
            -EINVAL)
      << "only one";
}

TEST_F(Submit, BoListsAreChecked) {
  const auto ib = write_ib({0});
  const Chunks chunks = {chunk(AMDGPU_CHUNK_ID_IB, ib)};
  EXPECT_EQ(submit(chunks, kNoSuchHandle), -ENOENT);
  drm_amdgpu_bo_list_entry entry{kNoSuchHandle, 0};
  drm_amdgpu_bo_list_in list{0, 0, 1, sizeof entry, reinterpret_cast<std::uint64_t>(&entry)};
  const auto handles = chunk(AMDGPU_CHUNK_ID_BO_HANDLES, list);
  EXPECT_EQ(submit({chunk(AMDGPU_CHUNK_ID_IB, ib), handles}), -ENOENT);
  entry.bo_handle = data_bo_;
  EXPECT_EQ(submit({chunk(AMDGPU_CHUNK_ID_IB, ib), handles, handles}), -EINVAL) << "only one";
  drm_amdgpu_bo_list create{};
  create.in = {AMDGPU_BO_LIST_OP_CREATE, 0, 1, sizeof entry, reinterpret_cast<std::uint64_t>(&entry)};
  ASSERT_EQ(client_.ioctl<BoList>(file_, create), 0);
  EXPECT_EQ(submit({chunk(AMDGPU_CHUNK_ID_IB, ib), handles}, create.out.list_handle), -EINVAL);
  EXPECT_EQ(submit(chunks, create.out.list_handle), 1);
}

TEST_F(Submit, InaccessibleUserPagesInTheListAreEfault) {
  const UserPages pages(kPage);
  const auto userptr =
      static_cast<std::uint32_t>(create_userptr(pages.address(), kPage, AMDGPU_GEM_USERPTR_REGISTER));
  const drm_amdgpu_bo_list_entry entry{userptr, 0};
  const drm_amdgpu_bo_list_in list{0, 0, 1, sizeof entry, reinterpret_cast<std::uint64_t>(&entry)};
  const auto ib = write_ib({0});
  const Chunks chunks = {chunk(AMDGPU_CHUNK_ID_IB, ib), chunk(AMDGPU_CHUNK_ID_BO_HANDLES, list)};
  EXPECT_EQ(submit(chunks), 1);
  ::mprotect(pages.bytes(), kPage, PROT_NONE);
  EXPECT_EQ(submit(chunks), -EFAULT);
}

TEST_F(Submit, SyncobjsAreChecked) {
  const auto ib = write_ib({0});
  const auto with = [&](std::uint32_t id, const auto& data) {
    return submit({chunk(AMDGPU_CHUNK_ID_IB, ib), chunk(id, data)});
  };
  const drm_amdgpu_cs_chunk_sem unknown{kNoSuchHandle};
  const drm_amdgpu_cs_chunk_sem empty{make_syncobj()};
  const drm_amdgpu_cs_chunk_syncobj unknown_point{kNoSuchHandle, 0, 1};
  EXPECT_EQ(with(AMDGPU_CHUNK_ID_SYNCOBJ_IN, unknown), -ENOENT);
  EXPECT_EQ(with(AMDGPU_CHUNK_ID_SYNCOBJ_IN, empty), -EINVAL);
  EXPECT_EQ(with(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, unknown_point), -ENOENT);
  EXPECT_EQ(with(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, unknown), -EINVAL);
  EXPECT_EQ(with(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, unknown_point), -EINVAL);
  EXPECT_EQ(submit({chunk(AMDGPU_CHUNK_ID_IB, ib), chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, empty),
                    chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, empty)}),
            -EINVAL)
      << "only one chunk of outputs";
  const drm_amdgpu_cs_chunk_dep dependencies[] = {{AMDGPU_HW_IP_DMA, 0, 0, kNoSuchContext, 0},
                                                  {AMDGPU_HW_IP_DMA, 0, 2, context_, 0},
                                                  {AMDGPU_HW_IP_DMA, 0, 0, context_, 1}};
  for (const auto& dependency : dependencies) {
    EXPECT_EQ(with(AMDGPU_CHUNK_ID_DEPENDENCIES, dependency), -EINVAL);
  }
}

class SubmitOnNavi : public SubmissionTest {
 protected:
  SubmitOnNavi() : SubmissionTest("gfx1030") {}
};

TEST_F(SubmitOnNavi, TheGraphicsRingTakesPm4) {
  const auto ib = write_ib({kPm4WriteData, 5u << 8, low(kData), high(kData), 0x1234}, AMDGPU_HW_IP_GFX);
  ASSERT_EQ(submit_ib(ib), 1);
  EXPECT_EQ(wait_cs(1, kForEver, AMDGPU_HW_IP_GFX), 0);
  EXPECT_EQ(std::to_integer<int>(data_[0]), 0x34);
}

}  // namespace
}  // namespace understudy::kfd
