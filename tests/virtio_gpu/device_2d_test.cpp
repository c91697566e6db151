// The 2D device's column of the facts: each command's good answer and each of its errors.
#include <gtest/gtest.h>

#include "tests/virtio_gpu/wire_driver.h"

namespace understudy::virtio_gpu::test {
namespace {

constexpr std::uint32_t kOk = abi::VIRTIO_GPU_RESP_OK_NODATA;
constexpr std::uint32_t kUnspec = abi::VIRTIO_GPU_RESP_ERR_UNSPEC;
constexpr std::uint32_t kOutOfMemory = abi::VIRTIO_GPU_RESP_ERR_OUT_OF_MEMORY;
constexpr std::uint32_t kInvalidScanout = abi::VIRTIO_GPU_RESP_ERR_INVALID_SCANOUT_ID;
constexpr std::uint32_t kInvalidResource = abi::VIRTIO_GPU_RESP_ERR_INVALID_RESOURCE_ID;
constexpr std::uint32_t kInvalidParameter = abi::VIRTIO_GPU_RESP_ERR_INVALID_PARAMETER;
constexpr std::uint32_t kFormat = abi::VIRTIO_GPU_FORMAT_B8G8R8X8_UNORM;

ResourceCreate2d create(std::uint32_t id, std::uint32_t width = 64, std::uint32_t height = 32,
                        std::uint32_t format = kFormat) {
  ResourceCreate2d command;
  command.body.resource_id = id;
  command.body.format = format;
  command.body.width = width;
  command.body.height = height;
  return command;
}

ResourceAttachBacking attach(std::uint32_t id, std::uint32_t entries) {
  ResourceAttachBacking command;
  command.body.resource_id = id;
  command.body.nr_entries = entries;
  return command;
}

template <typename C>
C about(std::uint32_t id) {
  C command;
  command.body.resource_id = id;
  return command;
}

class Device2d : public testing::Test {
 protected:
  WireDriver driver{{}, "qemu-7.2"};
};

class Device2dWithBlobs : public testing::Test {
 protected:
  WireDriver driver{{.blob = true}, "qemu-7.2"};

  std::uint32_t create_blob(std::uint32_t id, std::uint32_t mem, std::uint32_t flags,
                            std::uint64_t size = kGuestPageBytes) {
    TestPages& pages = kept.emplace_back(driver.memory, 1);
    ResourceCreateBlob command;
    command.body.resource_id = id;
    command.body.blob_mem = mem;
    command.body.blob_flags = flags;
    command.body.size = size;
    command.body.nr_entries = 1;
    return driver.type_of_answer(command, bytes_of(pages.entries()));
  }
  std::deque<TestPages> kept;
};

TEST_F(Device2d, OffersTheFeaturesSeenOnARealOne) {
  const std::uint64_t bits = std::uint64_t{1} << 1 | std::uint64_t{1} << 28 | std::uint64_t{1} << 29 |
                             std::uint64_t{1} << 32 | std::uint64_t{1} << 40;
  EXPECT_EQ(driver.device.offered_features(), bits);
  EXPECT_EQ(driver.device.queue_size(QueueIndex::kControl), 64);
  EXPECT_EQ(driver.device.queue_size(QueueIndex::kCursor), 16);
  EXPECT_EQ(driver.device.config().num_scanouts, 1u);
  EXPECT_EQ(driver.device.config().num_capsets, 0u);
  EXPECT_EQ(driver.device.shared_memory(1), nullptr);
}

TEST_F(Device2d, DisplayInfoHasOneOutputOf1280x800) {
  const Response response = driver.ask(GetDisplayInfo{});
  const auto* info = std::get_if<DisplayInfo>(&response);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->body.pmodes[0].enabled, 1u);
  EXPECT_EQ(info->body.pmodes[0].r.width, 1280u);
  EXPECT_EQ(info->body.pmodes[0].r.height, 800u);
  EXPECT_EQ(info->body.pmodes[1].enabled, 0u);
}

TEST_F(Device2d, EdidIsThereForOutputsThatExist) {
  const Response response = driver.ask(GetEdid{});
  const auto* edid = std::get_if<Edid>(&response);
  ASSERT_NE(edid, nullptr);
  EXPECT_EQ(edid->body.size, 1024u);
  unsigned sum = 0;
  for (int i = 0; i < 128; ++i) sum += edid->body.edid[i];
  EXPECT_EQ(sum % 256, 0u);
  GetEdid beyond;
  beyond.body.scanout = 1;
  EXPECT_EQ(driver.type_of_answer(beyond), kInvalidParameter);
}

TEST_F(Device2d, CreateChecksIdThenFormatThenSize) {
  EXPECT_EQ(driver.type_of_answer(create(0)), kInvalidResource);
  EXPECT_EQ(driver.type_of_answer(create(1)), kOk);
  EXPECT_EQ(driver.type_of_answer(create(1)), kInvalidResource);
  EXPECT_EQ(driver.type_of_answer(create(2, 64, 32, 9999)), kInvalidParameter);
  EXPECT_EQ(driver.type_of_answer(create(2, 16384, 16384)), kOutOfMemory);
  EXPECT_EQ(driver.type_of_answer(create(2, 0xffffffff, 0xffffffff)), kOutOfMemory);
  EXPECT_EQ(driver.type_of_answer(create(2, 0, 0)), kOk);
}

TEST_F(Device2d, ImagesTogetherStayBelowMaxHostmem) {
  EXPECT_EQ(driver.type_of_answer(create(1, 8192, 4096)), kOk);  // 128 MiB
  EXPECT_EQ(driver.type_of_answer(create(2, 8192, 4096)), kOutOfMemory);
  EXPECT_EQ(driver.type_of_answer(about<ResourceUnref>(1)), kOk);
  EXPECT_EQ(driver.type_of_answer(create(2, 8192, 4096)), kOk);
}

TEST_F(Device2d, UnknownResourcesAreInvalidEverywhere) {
  EXPECT_EQ(driver.type_of_answer(about<ResourceUnref>(kNoSuchResource)), kInvalidResource);
  EXPECT_EQ(driver.type_of_answer(about<ResourceDetachBacking>(kNoSuchResource)), kInvalidResource);
  EXPECT_EQ(driver.type_of_answer(about<ResourceFlush>(kNoSuchResource)), kInvalidResource);
  EXPECT_EQ(driver.type_of_answer(about<TransferToHost2d>(kNoSuchResource)), kInvalidResource);
  EXPECT_EQ(driver.type_of_answer(about<SetScanout>(kNoSuchResource)), kInvalidResource);
  EXPECT_EQ(driver.type_of_answer(attach(kNoSuchResource, 0)), kInvalidResource);
}

TEST_F(Device2d, BackingIsAttachedOnceAndDetachedOnce) {
  TestPages pages(driver.memory, 2);
  ASSERT_EQ(driver.type_of_answer(create(1)), kOk);
  EXPECT_EQ(driver.type_of_answer(about<ResourceDetachBacking>(1)), kUnspec);
  EXPECT_EQ(driver.type_of_answer(attach(1, 2), bytes_of(pages.entries())), kOk);
  EXPECT_EQ(driver.type_of_answer(attach(1, 2), bytes_of(pages.entries())), kUnspec);
  EXPECT_EQ(driver.type_of_answer(about<ResourceDetachBacking>(1)), kOk);
  EXPECT_EQ(driver.type_of_answer(about<ResourceDetachBacking>(1)), kUnspec);
}

TEST_F(Device2d, EntryListsThatAreShortOrPointNowhereAreUnspec) {
  TestPages pages(driver.memory, 2);
  ASSERT_EQ(driver.type_of_answer(create(1)), kOk);
  EXPECT_EQ(driver.type_of_answer(attach(1, 3), bytes_of(pages.entries())), kUnspec);
  EXPECT_EQ(driver.type_of_answer(attach(1, 0xffffffff), bytes_of(pages.entries())), kUnspec);
  auto nowhere = pages.entries();
  nowhere[1].addr = 8;
  EXPECT_EQ(driver.type_of_answer(attach(1, 2), bytes_of(nowhere)), kUnspec);
  auto across_the_end = pages.entries();
  across_the_end[1].length += 1;
  EXPECT_EQ(driver.type_of_answer(attach(1, 2), bytes_of(across_the_end)), kUnspec);
  auto empty = pages.entries();
  empty[1].length = 0;
  EXPECT_EQ(driver.type_of_answer(attach(1, 2), bytes_of(empty)), kUnspec);
  EXPECT_EQ(driver.type_of_answer(attach(1, 2), bytes_of(pages.entries())), kOk) << "nothing was attached";
}

TEST_F(Device2d, TransferNeedsBackingAndARectangleInside) {
  TestPages pages(driver.memory, 2);
  ASSERT_EQ(driver.type_of_answer(create(1)), kOk);
  TransferToHost2d transfer = about<TransferToHost2d>(1);
  transfer.body.r = {0, 0, 64, 32};
  EXPECT_EQ(driver.type_of_answer(transfer), kUnspec);
  ASSERT_EQ(driver.type_of_answer(attach(1, 2), bytes_of(pages.entries())), kOk);
  EXPECT_EQ(driver.type_of_answer(transfer), kOk);
  transfer.body.r = {1, 0, 64, 32};
  EXPECT_EQ(driver.type_of_answer(transfer), kInvalidParameter);
  transfer.body.r = {0xffffffff, 0, 2, 1};
  EXPECT_EQ(driver.type_of_answer(transfer), kInvalidParameter) << "the sum wraps in 32 bits";
  transfer.body.r = {8, 8, 8, 8};
  transfer.body.offset = ~std::uint64_t{0};
  EXPECT_EQ(driver.type_of_answer(transfer), kOk) << "rows beyond the backing are left alone";
}

TEST_F(Device2d, FlushOutsideIsInvalid) {
  ASSERT_EQ(driver.type_of_answer(create(1)), kOk);
  ResourceFlush flush = about<ResourceFlush>(1);
  flush.body.r = {0, 0, 64, 32};
  EXPECT_EQ(driver.type_of_answer(flush), kOk);
  flush.body.r = {0, 1, 64, 32};
  EXPECT_EQ(driver.type_of_answer(flush), kInvalidParameter);
}

TEST_F(Device2d, ScanoutsAreCheckedForIdResourceAndSize) {
  TestPages pages(driver.memory, 2);
  ASSERT_EQ(driver.type_of_answer(create(1)), kOk);
  ASSERT_EQ(driver.type_of_answer(attach(1, 2), bytes_of(pages.entries())), kOk);
  SetScanout scanout = about<SetScanout>(1);
  scanout.body.r = {0, 0, 64, 32};
  EXPECT_EQ(driver.type_of_answer(scanout), kOk);
  scanout.body.r = {0, 0, 15, 32};
  EXPECT_EQ(driver.type_of_answer(scanout), kInvalidParameter);
  scanout.body.r = {1, 0, 64, 32};
  EXPECT_EQ(driver.type_of_answer(scanout), kInvalidParameter);
  scanout.body.scanout_id = 1;
  EXPECT_EQ(driver.type_of_answer(scanout), kInvalidScanout);
  EXPECT_EQ(driver.type_of_answer(about<SetScanout>(0)), kOk) << "id 0 disables";
}

TEST_F(Device2d, HasNothingOfTheThirdDimension) {
  EXPECT_EQ(driver.type_of_answer(GetCapsetInfo{}), kUnspec);
  EXPECT_EQ(driver.type_of_answer(GetCapset{}), kUnspec);
  EXPECT_EQ(driver.type_of_answer(CtxCreate{}), kUnspec);
  EXPECT_EQ(driver.type_of_answer(CtxDestroy{}), kUnspec);
  EXPECT_EQ(driver.type_of_answer(CtxAttachResource{}), kUnspec);
  EXPECT_EQ(driver.type_of_answer(CtxDetachResource{}), kUnspec);
  EXPECT_EQ(driver.type_of_answer(ResourceCreate3d{}), kUnspec);
  EXPECT_EQ(driver.type_of_answer(TransferToHost3d{}), kUnspec);
  EXPECT_EQ(driver.type_of_answer(TransferFromHost3d{}), kUnspec);
  EXPECT_EQ(driver.type_of_answer(Submit3d{}), kUnspec);
  EXPECT_EQ(driver.type_of_answer(ResourceMapBlob{}), kUnspec);
  EXPECT_EQ(driver.type_of_answer(ResourceUnmapBlob{}), kUnspec);
  EXPECT_EQ(driver.type_of_answer(ResourceAssignUuid{}), kUnspec);
}

TEST_F(Device2d, BlobsAreRefusedWhenThePropertyIsOff) {
  EXPECT_EQ(driver.type_of_answer(ResourceCreateBlob{}), kInvalidParameter);
  EXPECT_EQ(driver.type_of_answer(SetScanoutBlob{}), kInvalidParameter);
}

TEST_F(Device2dWithBlobs, CreateChecksIdMemoryAndList) {
  EXPECT_EQ(create_blob(0, abi::VIRTIO_GPU_BLOB_MEM_GUEST, 0), kInvalidResource);
  EXPECT_EQ(create_blob(1, abi::VIRTIO_GPU_BLOB_MEM_GUEST, abi::VIRTIO_GPU_BLOB_FLAG_USE_SHAREABLE), kOk);
  EXPECT_EQ(create_blob(1, abi::VIRTIO_GPU_BLOB_MEM_GUEST, 0), kInvalidResource);
  EXPECT_EQ(create_blob(2, abi::VIRTIO_GPU_BLOB_MEM_HOST3D, abi::VIRTIO_GPU_BLOB_FLAG_USE_MAPPABLE),
            kInvalidParameter);
  EXPECT_EQ(create_blob(2, abi::VIRTIO_GPU_BLOB_MEM_HOST3D, abi::VIRTIO_GPU_BLOB_FLAG_USE_SHAREABLE), kOk)
      << "the check wants both to be wrong";
}

TEST_F(Device2dWithBlobs, EmptyListIsFineAndBackingMayComeLater) {
  ResourceCreateBlob blob;
  blob.body.resource_id = 1;
  blob.body.blob_mem = abi::VIRTIO_GPU_BLOB_MEM_GUEST;
  blob.body.size = 4096;
  ASSERT_EQ(driver.type_of_answer(blob), kOk);
  TestPages pages(driver.memory, 1);
  EXPECT_EQ(driver.type_of_answer(attach(1, 1), bytes_of(pages.entries())), kOk);
}

TEST_F(Device2dWithBlobs, ScanoutBlobMustLieInTheBlob) {
  ASSERT_EQ(create_blob(1, abi::VIRTIO_GPU_BLOB_MEM_GUEST, abi::VIRTIO_GPU_BLOB_FLAG_USE_SHAREABLE, 4096),
            kOk);
  SetScanoutBlob scanout = about<SetScanoutBlob>(1);
  scanout.body.format = kFormat;
  scanout.body.width = 32;
  scanout.body.height = 32;
  scanout.body.r = {0, 0, 32, 32};
  scanout.body.strides[0] = 128;
  EXPECT_EQ(driver.type_of_answer(scanout), kOk);
  scanout.body.offsets[0] = 1;
  EXPECT_EQ(driver.type_of_answer(scanout), kInvalidParameter);
}

TEST_F(Device2d, FencedCommandsAreAnsweredAtOnceWithTheirFence) {
  driver.send(create(1), {}, 0, WireDriver::Fence{42, {}});
  const auto answer = driver.take();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->header.type, kOk);
  EXPECT_EQ(answer->header.flags, abi::VIRTIO_GPU_FLAG_FENCE);
  EXPECT_EQ(answer->header.fence_id, 42u);
}

TEST_F(Device2d, AnswersAreCutToTheRoomThereIs) {
  driver.send(GetDisplayInfo{}, {}, 0, {}, 100);
  const auto answer = driver.take();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->bytes.size(), 100u);
  driver.send(GetDisplayInfo{}, {}, 0, {}, 0);
  EXPECT_EQ(driver.take()->bytes.size(), 0u);
}

TEST_F(Device2d, CursorRequestsComeBackEmptyWhateverTheySay) {
  TestPages pages(driver.memory, 1);
  for (const std::uint64_t length : {std::uint64_t{56}, std::uint64_t{3}}) {
    const MemoryRun out[] = {{pages.placement.address(), length}};
    ASSERT_TRUE(driver.cursor.add(out, {}, length));
    driver.device.kick(QueueIndex::kCursor);
    const auto used = driver.cursor.take_used();
    ASSERT_TRUE(used);
    EXPECT_EQ(used->token, length);
    EXPECT_EQ(used->length_bytes, 0u);
  }
}

TEST_F(Device2d, ResetForgetsEverything) {
  ASSERT_EQ(driver.type_of_answer(create(1)), kOk);
  EXPECT_EQ(driver.device.resource_count(), 1u);
  driver.device.reset();
  EXPECT_EQ(driver.device.resource_count(), 0u);
  driver.send(GetDisplayInfo{});
  EXPECT_FALSE(driver.take()) << "no queue is set up";
}

}  // namespace
}  // namespace understudy::virtio_gpu::test
