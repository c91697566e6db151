// The channel from the client's end. The whole suite runs twice: the second time the server may not touch the
// client's memory (see channel_test_main.cpp), so that every struct goes through the client itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <filesystem>
#include <random>
#include <thread>

#include "sim/core/buffer.h"
#include "sim/door/channel/server.h"
#include "sim/door/socket/socket_door.h"
#include "tests/door/channel_client.h"
#include "tests/door/scratch.h"
#include "tests/door/test_node.h"

namespace understudy::test {
namespace {

using namespace door;

constexpr std::uint64_t kNoSuchFile = 0x1234;

class ChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = add_test_device(machine_);
    std::string why;
    std::filesystem::create_directory(scratch_.path() + "/fs");
    door_ = SocketDoor::create(machine_, scratch_.path() + "/fs", &why).value();
    server_ = ChannelServer::create(machine_, *door_, path()).value();
  }

  std::string path() const { return scratch_.path() + "/ctl"; }
  bool becomes(const std::function<bool()>& condition) const {
    for (int i = 0; i < 5000 && !condition(); ++i) ::usleep(1000);
    return condition();
  }
  void wait_until_blocked() const {
    while (device_->calls_blocked == 0) ::usleep(1000);
  }

  // Opens the test node; `id` is taken from the peer name, as the shim does.
  UniqueFd open_node(ChannelClient& client, std::uint64_t* id) const {
    RequestHeader open = ChannelClient::request(kOpen);
    open.flags = O_RDWR | O_CLOEXEC;
    ChannelReply reply = client.call(open, std::string("test/node0\0", 11));
    if (reply.fds.size() != 1) return UniqueFd();
    sockaddr_un peer{};
    socklen_t length = sizeof peer;
    ::getpeername(reply.fds[0].get(), reinterpret_cast<sockaddr*>(&peer), &length);
    const std::string name(peer.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
    EXPECT_TRUE(name.starts_with(machine_.socket_prefix() + "/"));
    *id = std::stoull(name.substr(machine_.socket_prefix().size() + 1, 16), nullptr, 16);
    return std::move(reply.fds[0]);
  }

  static RequestHeader ioctl(std::uint64_t file, unsigned long command, void* argument) {
    RequestHeader header = ChannelClient::request(kIoctl);
    header.file_id = file;
    header.command = static_cast<std::uint32_t>(command);
    header.argument = reinterpret_cast<std::uint64_t>(argument);
    return header;
  }

  Machine machine_{Settings{}};
  std::shared_ptr<TestDevice> device_;
  ScratchDirectory scratch_;
  std::unique_ptr<SocketDoor> door_;
  std::unique_ptr<ChannelServer> server_;
};

TEST_F(ChannelTest, HelloTellsHowDescriptorsAreKnown) {
  ChannelClient client(path());
  const ChannelReply reply = client.hello(kProcessConnection);
  ASSERT_EQ(reply.payload.size(), sizeof(HelloReply));
  HelloReply hello;
  std::memcpy(&hello, reply.payload.data(), sizeof hello);
  EXPECT_EQ(hello.prefix, machine_.socket_prefix());
  EXPECT_EQ(hello.fuse_device, 0u);
  struct stat memfd {};
  ::fstat(make_memfd("test", 1).value().get(), &memfd);
  EXPECT_EQ(hello.shmem_device, memfd.st_dev);
  const ClientRef known = machine_.clients().resolve(::getpid()).value();
  EXPECT_TRUE(known->has_shim());
}

TEST_F(ChannelTest, WhoDoesNotSayHelloFirstIsHungUpOn) {
  ChannelClient client(path());
  EXPECT_EQ(client.call(ChannelClient::request(kOwnership)).header.value, -EPROTO);
  EXPECT_TRUE(client.receive().hung_up);
}

TEST_F(ChannelTest, AnotherProtocolVersionIsHungUpOn) {
  ChannelClient client(path());
  RequestHeader hello = ChannelClient::request(kHello);
  hello.command = kProtocolVersion + 1;
  EXPECT_EQ(client.call(hello).header.value, -EPROTO);
  EXPECT_TRUE(client.receive().hung_up);
}

TEST_F(ChannelTest, SecondHelloIsHungUpOn) {
  ChannelClient client(path());
  client.hello();
  EXPECT_EQ(client.hello().header.value, -EPROTO);
  EXPECT_TRUE(client.receive().hung_up);
}

TEST_F(ChannelTest, UnknownKindIsHungUpOn) {
  ChannelClient client(path());
  client.hello();
  EXPECT_EQ(client.call(ChannelClient::request(static_cast<MessageKind>(999))).header.value, -EPROTO);
  EXPECT_TRUE(client.receive().hung_up);
}

TEST_F(ChannelTest, ShortMessageIsHungUpOn) {
  ChannelClient client(path());
  client.hello();
  client.send_bytes("x", 1);
  EXPECT_TRUE(client.receive().hung_up);
}

TEST_F(ChannelTest, PayloadOfAnotherLengthThanSaidIsHungUpOn) {
  ChannelClient client(path());
  client.hello();
  RequestHeader header = ChannelClient::request(kReadAttribute);
  header.payload_bytes = 100;
  client.send_bytes(&header, sizeof header);
  EXPECT_TRUE(client.receive().hung_up);
}

TEST_F(ChannelTest, UnknownFileIsEbadfAndTheConnectionStays) {
  ChannelClient client(path());
  client.hello();
  EchoArgs args{};
  EXPECT_EQ(client.call(ioctl(kNoSuchFile, TEST_IOC_ECHO, &args)).header.value, -EBADF);
  EXPECT_EQ(client.call(ioctl(kNoSuchFile, TEST_IOC_ECHO, &args)).header.value, -EBADF);
  RequestHeader map = ChannelClient::request(kMmap);
  map.file_id = kNoSuchFile;
  EXPECT_EQ(client.call(map).header.value, -EBADF);
  EXPECT_EQ(client.call(ChannelClient::request(kWriteFile), "abc").header.value, -EBADF);
}

TEST_F(ChannelTest, OpenOfNoNodeIsEnoent) {
  ChannelClient client(path());
  client.hello();
  EXPECT_EQ(client.call(ChannelClient::request(kOpen), "test").header.value, -ENOENT);
  EXPECT_EQ(client.call(ChannelClient::request(kOpen), "").header.value, -ENOENT);
}

TEST_F(ChannelTest, FlatIoctlCarriesItsStructBothWays) {
  ChannelClient client(path());
  client.hello();
  std::uint64_t file = 0;
  const UniqueFd fd = open_node(client, &file);
  EchoArgs args{21, 0};
  EXPECT_EQ(client.call(ioctl(file, TEST_IOC_ECHO, &args)).header.value, 0);
  EXPECT_EQ(args.doubled, 42u);
}

TEST_F(ChannelTest, DeepPointersAreReadAndWritten) {
  ChannelClient client(path());
  client.hello();
  std::uint64_t file = 0;
  const UniqueFd fd = open_node(client, &file);
  // Larger than one message.
  std::vector<std::uint32_t> numbers(100'000, 1);
  DeepArgs args{reinterpret_cast<std::uint64_t>(numbers.data()), static_cast<std::uint32_t>(numbers.size()),
                0};
  EXPECT_EQ(client.call(ioctl(file, TEST_IOC_DEEP, &args)).header.value, 0);
  EXPECT_EQ(args.sum, 100'000u);
  EXPECT_EQ(numbers, std::vector<std::uint32_t>(100'000, 2));
}

TEST_F(ChannelTest, FailingIoctlStillWritesItsFields) {
  ChannelClient client(path());
  client.hello();
  std::uint64_t file = 0;
  const UniqueFd fd = open_node(client, &file);
  FailArgs args{ENOMEM, 0};
  EXPECT_EQ(client.call(ioctl(file, TEST_IOC_FAIL, &args)).header.value, -ENOMEM);
  EXPECT_EQ(args.progress, 3u);
}

TEST_F(ChannelTest, ADescriptorComesWithThePlaceForItsNumber) {
  ChannelClient client(path());
  client.hello();
  std::uint64_t file = 0;
  const UniqueFd fd = open_node(client, &file);
  HandFdArgs args{8192, -1, 0};
  const ChannelReply reply = client.call(ioctl(file, TEST_IOC_HAND_FD, &args));
  ASSERT_EQ(reply.fds.size(), 1u);
  EXPECT_EQ(reply.header.fd_argument_offset[0], offsetof(HandFdArgs, fd));
  EXPECT_EQ(reply.header.fd_flags[0], static_cast<std::uint32_t>(kFdCloseOnExec));
  struct stat info {};
  ::fstat(reply.fds[0].get(), &info);
  EXPECT_EQ(info.st_size, 8192);
}

TEST_F(ChannelTest, MmapHandsTheMemory) {
  ChannelClient client(path());
  client.hello();
  std::uint64_t file = 0;
  const UniqueFd fd = open_node(client, &file);
  RequestHeader map = ChannelClient::request(kMmap);
  map.file_id = file;
  map.length = 4096;
  const ChannelReply reply = client.call(map);
  EXPECT_EQ(reply.header.value, 0);
  ASSERT_EQ(reply.fds.size(), 1u);
  EXPECT_TRUE(Mapping::of_fd(reply.fds[0].get(), 4096));
  map = ChannelClient::request(kMmap);
  map.file_id = file;
  map.length = 8192;
  EXPECT_EQ(client.call(map).header.value, -EINVAL);
}

TEST_F(ChannelTest, ClosingTheLastDescriptorReleasesTheFile) {
  ChannelClient client(path());
  client.hello();
  std::uint64_t file = 0;
  UniqueFd fd = open_node(client, &file);
  const UniqueFd copy = fd.dup().value();
  fd.reset();
  EchoArgs args{};
  EXPECT_EQ(client.call(ioctl(file, TEST_IOC_ECHO, &args)).header.value, 0);
  { UniqueFd last(::dup(copy.get())); }
  EXPECT_EQ(device_->files_open, 1);
}

TEST_F(ChannelTest, ACancelledCallIsEintr) {
  ChannelClient client(path());
  client.hello();
  std::uint64_t file = 0;
  const UniqueFd fd = open_node(client, &file);
  BlockArgs args{};
  RequestHeader block = ioctl(file, TEST_IOC_BLOCK, &args);
  std::thread canceller([&] {
    wait_until_blocked();
    RequestHeader cancel = block;
    cancel.kind = kCancel;
    client.send(cancel);
  });
  EXPECT_EQ(client.call(block).header.value, -EINTR);
  canceller.join();
}

TEST_F(ChannelTest, CancellingWhatIsNotPendingDoesNothing) {
  ChannelClient client(path());
  client.hello();
  client.send(ChannelClient::request(kCancel));
  EXPECT_EQ(client.call(ChannelClient::request(kOwnership)).header.value, 0);
}

TEST_F(ChannelTest, AnotherConnectionIsServedWhileOneBlocks) {
  ChannelClient blocked(path()), other(path());
  blocked.hello();
  other.hello();
  std::uint64_t file = 0;
  const UniqueFd fd = open_node(blocked, &file);
  BlockArgs args{};
  std::thread waker([&] {
    wait_until_blocked();
    EXPECT_EQ(other.call(ioctl(file, TEST_IOC_WAKE, nullptr)).header.value, 1);
  });
  EXPECT_EQ(blocked.call(ioctl(file, TEST_IOC_BLOCK, &args)).header.value, 0);
  EXPECT_EQ(args.woken, 1u);
  waker.join();
}

TEST_F(ChannelTest, HangingUpCancelsWhatIsPending) {
  ChannelClient client(path());
  client.hello();
  std::uint64_t file = 0;
  const UniqueFd fd = open_node(client, &file);
  BlockArgs args{};
  std::thread caller([&] { EXPECT_TRUE(client.call(ioctl(file, TEST_IOC_BLOCK, &args)).hung_up); });
  wait_until_blocked();
  ::shutdown(client.fd(), SHUT_RDWR);
  EXPECT_TRUE(becomes([this] { return device_->calls_blocked == 0; }));
  caller.join();
}

TEST_F(ChannelTest, TooManyPendingCallsAreHungUpOn) {
  ChannelClient client(path());
  client.hello();
  std::uint64_t file = 0;
  const UniqueFd fd = open_node(client, &file);
  static BlockArgs args;
  for (int i = 0; i < 100; ++i) client.send(ioctl(file, TEST_IOC_BLOCK, &args));
  while (!client.receive().hung_up) {
  }
  EXPECT_TRUE(becomes([this] { return device_->calls_blocked == 0; }));
}

TEST_F(ChannelTest, ACallThatItsHandlerForgetsIsEio) {
  ChannelClient client(path());
  client.hello();
  std::uint64_t file = 0;
  const UniqueFd fd = open_node(client, &file);
  EXPECT_EQ(client.call(ioctl(file, TEST_IOC_DROP, nullptr)).header.value, -EIO);
}

TEST_F(ChannelTest, TheServersEndHangsUp) {
  ChannelClient client(path());
  client.hello();
  std::uint64_t file = 0;
  const UniqueFd fd = open_node(client, &file);
  BlockArgs args{};
  std::thread caller([&] { EXPECT_TRUE(client.call(ioctl(file, TEST_IOC_BLOCK, &args)).hung_up); });
  wait_until_blocked();
  server_.reset();
  caller.join();
}

TEST_F(ChannelTest, WriteReachesTheDriverAndReadComesThroughTheDescriptor) {
  ChannelClient client(path());
  client.hello();
  std::uint64_t file = 0;
  const UniqueFd fd = open_node(client, &file);
  RequestHeader write = ChannelClient::request(kWriteFile);
  write.file_id = file;
  EXPECT_EQ(client.call(write, "abc").header.value, 3);
  char text[8];
  EXPECT_EQ(::read(fd.get(), text, sizeof text), 3);
}

TEST_F(ChannelTest, AttributesAreReadByPath) {
  ChannelClient client(path());
  client.hello();
  const auto read = [&client](std::string_view attribute) {
    return client.call(ChannelClient::request(kReadAttribute), attribute);
  };
  EXPECT_EQ(read("sys/devices/test/name").text(), "test device\n");
  EXPECT_EQ(read("sys/class/test/node0/files_open").text(), "0\n");
  EXPECT_EQ(read("proc/modules").text(), "test 4096 0 - Live 0x0000000000000000\n");
  EXPECT_EQ(read("sys/class/test").header.value, -EISDIR);
  EXPECT_EQ(read("sys/nothing").header.value, -ENOENT);
  EXPECT_EQ(read("../../../etc/passwd").header.value, -ENOENT);
  EXPECT_EQ(read("dev/test/node0").header.value, -EISDIR);
}

TEST_F(ChannelTest, OwnDmaBufsAreKnown) {
  ChannelClient client(path());
  client.hello();
  const BufferRef buffer = Buffer::create("exported", 4096);
  const auto dma_buf = machine_.dmabufs().export_buffer(nullptr, nullptr, buffer, true).value();
  const auto [device, inode] = buffer->identity().value();
  RequestHeader own = ChannelClient::request(kOwnership);
  own.length = device;
  own.argument = inode;
  EXPECT_EQ(client.call(own).header.value, 1);
  own = ChannelClient::request(kOwnership);
  own.length = device;
  own.argument = inode + 1'000'000;
  EXPECT_EQ(client.call(own).header.value, 0);
}

TEST_F(ChannelTest, DescriptorsFromClientsAreClosed) {
  ChannelClient client(path());
  client.hello();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  RequestHeader header = ChannelClient::request(kOwnership);
  iovec part{&header, sizeof header};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &ends[1], sizeof(int));
  ASSERT_GT(::sendmsg(client.fd(), &message, 0), 0);
  EXPECT_EQ(client.receive().header.value, 0);
  ::close(ends[1]);
  char byte;
  // The pipe's end comes only when the server holds no copy of its writing side.
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);
  ::close(ends[0]);
}

TEST_F(ChannelTest, AForkedChildOnTheSameConnectionIsItself) {
  ChannelClient client(path());
  client.hello();
  std::uint64_t file = 0;
  const UniqueFd fd = open_node(client, &file);
  const pid_t child = ::fork();
  if (child == 0) {
    WhoArgs args{};
    const bool answered = client.call(ioctl(file, TEST_IOC_WHO, &args)).header.value == 0;
    ::_exit(answered && args.pid == static_cast<std::uint32_t>(::getpid()) ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(ChannelTest, NoiseHarmsNobody) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    ChannelClient noisy(path());
    if (round % 3 != 0) noisy.hello();
    for (int i = 0; i < 5; ++i) {
      RequestHeader header = ChannelClient::request(static_cast<MessageKind>(random() % 12));
      auto* const words = reinterpret_cast<std::uint32_t*>(&header);
      for (std::size_t word = 1; word < sizeof header / 4; ++word)
        words[word] = random() % 4 == 0 ? random() : 0;
      const std::string payload(random() % 64, static_cast<char>(random()));
      if (random() % 4 == 0) {
        noisy.send_bytes(&header, random() % sizeof header);
      } else {
        noisy.send(header, payload);
      }
    }
  }
  ChannelClient client(path());
  EXPECT_EQ(client.hello().header.value, 0);
  client.hang_up();
  EXPECT_TRUE(becomes([this] { return server_->connection_count() == 0; }));
}

TEST_F(ChannelTest, AClientThatLiesAboutItsMemoryIsHungUpOn) {
  ChannelClient client(path());
  client.hello();
  RequestHeader lie = ChannelClient::request(kMemoryData);
  lie.argument = 1 << 20;
  client.send(lie, "short");
  EXPECT_EQ(client.receive_any().header.value, -EPROTO);
  EXPECT_TRUE(client.receive_any().hung_up);
}

}  // namespace
}  // namespace understudy::test
