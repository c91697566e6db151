#include "sim/core/file.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <future>

#include "sim/core/machine.h"

namespace understudy {
namespace {

class TestFile : public File {
 public:
  std::string label() const override { return "test"; }
  dev_t device_number() const override { return 0xe280; }
  void ioctl(const CallRef& call) override { call->finish(0); }
  bool has_read() const override { return reads; }
  void release() override { released.set_value(); }
  Result<std::size_t> write(const Caller&, std::span<const std::byte> bytes) override {
    written.set_value({bytes.begin(), bytes.end()});
    return bytes.size();
  }
  bool reads = true;
  std::promise<void> released;
  std::promise<std::vector<std::byte>> written;
};

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

class FileTableTest : public testing::Test {
 protected:
  Machine machine_{Settings{}};
  FileTable& files_ = machine_.files();
  std::shared_ptr<TestFile> file_ = std::make_shared<TestFile>();
};

TEST_F(FileTableTest, DescriptorNamesItself) {
  const UniqueFd fd = files_.make_descriptor(file_).value();
  sockaddr_un address{};
  socklen_t length = sizeof address;
  ASSERT_EQ(::getpeername(fd.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string name(address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
  char expected[80];
  std::snprintf(expected, sizeof expected, "%s/%016lx/e280", machine_.socket_prefix().c_str(),
                file_->id().value);
  EXPECT_EQ(name, expected);
}

TEST_F(FileTableTest, ClientDescriptorLeadsBackToTheFile) {
  const UniqueFd fd = files_.make_descriptor(file_).value();
  const UniqueFd copy = fd.dup().value();
  const ClientRef self = machine_.clients().resolve(::getpid()).value();
  EXPECT_EQ(files_.by_client_fd(*self, fd.get()).value(), file_);
  EXPECT_EQ(files_.by_client_fd(*self, copy.get()).value(), file_);
  EXPECT_EQ(files_.by_client_fd(*self, STDIN_FILENO).error(), Errno(ENOENT));
  EXPECT_EQ(files_.by_client_fd(*self, 1'000'000).error(), Errno(EBADF));
}

TEST_F(FileTableTest, LastCloseReleases) {
  UniqueFd fd = files_.make_descriptor(file_).value();
  UniqueFd copy = fd.dup().value();
  fd.reset();
  EXPECT_TRUE(files_.by_id(file_->id()));
  copy.reset();
  file_->released.get_future().wait();
  EXPECT_FALSE(files_.by_id(file_->id()));
}

TEST_F(FileTableTest, QueuedReadsArriveAndPoll) {
  const UniqueFd fd = files_.make_descriptor(file_).value();
  pollfd poll{fd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 0), 0);
  file_->queue_read(bytes_of("event"));
  EXPECT_EQ(::poll(&poll, 1, 0), 1);
  char text[16] = {};
  EXPECT_EQ(::read(fd.get(), text, sizeof text), 5);
  EXPECT_STREQ(text, "event");
}

TEST_F(FileTableTest, NodeWithoutReadIsReadyAndDoesNotBlock) {
  file_->reads = false;
  UniqueFd fd = files_.make_descriptor(file_).value();
  pollfd poll{fd.get(), POLLIN | POLLOUT, 0};
  EXPECT_EQ(::poll(&poll, 1, 0), 1);
  EXPECT_EQ(poll.revents, POLLIN | POLLOUT);
  char byte = 0;
  EXPECT_EQ(::read(fd.get(), &byte, 1), 0);
  fd.reset();
  file_->released.get_future().wait();
}

TEST_F(FileTableTest, WritesReachTheFile) {
  const UniqueFd fd = files_.make_descriptor(file_).value();
  ASSERT_EQ(::write(fd.get(), "12345678", 8), 8);
  EXPECT_EQ(file_->written.get_future().get(), bytes_of("12345678"));
}

TEST_F(FileTableTest, ReadQueueKeepsWhatDoesNotFit) {
  file_->queue_read(bytes_of("four"));
  EXPECT_EQ(file_->take_read(3).error(), Errno(EINVAL));
  EXPECT_EQ(file_->take_read(4).value(), bytes_of("four"));
  EXPECT_EQ(file_->take_read(4).error(), Errno(EAGAIN));
}

}  // namespace
}  // namespace understudy
