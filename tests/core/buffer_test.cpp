#include "sim/core/buffer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/core/dmabuf.h"

namespace understudy {
namespace {

constexpr std::uint64_t kPage = 4096;

class TestExporter : public DmaBufExporter {};

TEST(Buffer, CostsNoDescriptorUntilTouched) {
  const BufferRef buffer = Buffer::create("test", std::uint64_t{192} << 30);
  EXPECT_FALSE(buffer->touched());
  EXPECT_FALSE(buffer->held_by(Hold::kMapLockByte));
  ASSERT_TRUE(buffer->bytes());
  EXPECT_TRUE(buffer->touched());
}

TEST(Buffer, ServerAndDescriptionSeeTheSamePages) {
  const BufferRef buffer = Buffer::create("test", kPage);
  auto description = buffer->open_description(Hold::kMapLockByte, true);
  ASSERT_TRUE(description);
  const char text[] = "written by a client";
  ASSERT_EQ(::pwrite(description.value().get(), text, sizeof text, 100), static_cast<ssize_t>(sizeof text));
  EXPECT_STREQ(reinterpret_cast<const char*>(buffer->bytes().value().data() + 100), text);
}

TEST(Buffer, ReadOnlyDescriptionCannotBeMappedWritable) {
  const BufferRef buffer = Buffer::create("test", kPage);
  auto description = buffer->open_description(Hold::kDmaBufLockByte, false);
  ASSERT_TRUE(description);
  EXPECT_EQ(::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, description.value().get(), 0),
            MAP_FAILED);
  EXPECT_EQ(errno, EACCES);
}

TEST(Buffer, HoldLastsUntilDescriptorAndMappingAreGone) {
  const BufferRef buffer = Buffer::create("test", kPage);
  UniqueFd description = buffer->open_description(Hold::kMapLockByte, true).value();
  EXPECT_TRUE(buffer->held_by(Hold::kMapLockByte));
  EXPECT_FALSE(buffer->held_by(Hold::kDmaBufLockByte));
  void* mapped = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, description.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  description.reset();
  EXPECT_TRUE(buffer->held_by(Hold::kMapLockByte)) << "the mapping alone keeps it";
  ::munmap(mapped, kPage);
  EXPECT_FALSE(buffer->held_by(Hold::kMapLockByte));
}

TEST(Buffer, HoldSurvivesInAnotherProcess) {
  const BufferRef buffer = Buffer::create("test", kPage);
  UniqueFd description = buffer->open_description(Hold::kDmaBufLockByte, true).value();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte;
    ::close(ready[1]);
    (void)!::read(ready[0], &byte, 1);
    ::_exit(0);
  }
  ::close(ready[0]);
  description.reset();
  EXPECT_TRUE(buffer->held_by(Hold::kDmaBufLockByte)) << "the child inherited the descriptor";
  ::close(ready[1]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(buffer->held_by(Hold::kDmaBufLockByte));
}

TEST(DmaBufTable, ForgetsWhatNoClientHolds) {
  Ledger ledger;
  DmaBufTable table(ledger);
  auto exporter = std::make_shared<TestExporter>();
  const std::weak_ptr<TestExporter> alive = exporter;
  DmaBufRef dma_buf = table.export_buffer(nullptr, exporter, Buffer::create("bo", kPage), true).value();
  exporter.reset();
  UniqueFd fd = dma_buf->open_descriptor().value();
  const auto identity = dma_buf->buffer()->identity().value();
  dma_buf.reset();

  EXPECT_EQ(table.sweep(), 1u);
  EXPECT_TRUE(table.of_identity(identity.first, identity.second));
  EXPECT_EQ(ledger.live_count(ObjectKind::kDmaBuf), 1u);
  fd.reset();
  EXPECT_EQ(table.sweep(), 0u);
  EXPECT_TRUE(alive.expired());
  EXPECT_FALSE(table.of_identity(identity.first, identity.second));
  EXPECT_EQ(ledger.live_count(ObjectKind::kDmaBuf), 0u);
}

}  // namespace
}  // namespace understudy
