// The fuse door as programs without the shim meet it: everything here is a plain system call.
#include "sim/door/fuse/fuse_door.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <thread>

#include "sim/door/channel_protocol.h"
#include "tests/door/scratch.h"
#include "tests/door/test_node.h"

namespace understudy::test {
namespace {

class FuseDoorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = add_test_device(machine_);
    std::string why;
    Result<std::unique_ptr<door::FuseDoor>> mounted = door::FuseDoor::mount(machine_, scratch_.path(), &why);
    if (!mounted) GTEST_SKIP() << "no fuse mount here: " << why;
    door_ = std::move(mounted).value();
  }

  std::string node_path() const { return scratch_.path() + "/dev/test/node0"; }
  UniqueFd open_node(int flags = O_RDWR | O_CLOEXEC) const {
    return UniqueFd(::open(node_path().c_str(), flags));
  }
  std::string content_of(const std::string& path) const {
    std::ifstream file(scratch_.path() + "/" + path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // RELEASE is sent after close(2) has returned.
  bool files_open_becomes(int count) const {
    for (int i = 0; i < 5000 && device_->files_open != count; ++i) ::usleep(1000);
    return device_->files_open == count;
  }
  void wait_until_blocked() const {
    while (device_->calls_blocked == 0) ::usleep(1000);
  }

  Machine machine_{Settings{}};
  std::shared_ptr<TestDevice> device_;
  ScratchDirectory scratch_;
  std::unique_ptr<door::FuseDoor> door_;
};

TEST_F(FuseDoorTest, FlatIoctlCarriesItsStructBothWays) {
  const UniqueFd fd = open_node();
  ASSERT_TRUE(fd);
  EchoArgs args{21, 0};
  ASSERT_EQ(::ioctl(fd.get(), TEST_IOC_ECHO, &args), 0);
  EXPECT_EQ(args.doubled, 42u);
}

TEST_F(FuseDoorTest, DeepPointersAreReadAndWritten) {
  const UniqueFd fd = open_node();
  std::array<std::uint32_t, 3> numbers{1, 2, 3};
  DeepArgs args{reinterpret_cast<std::uint64_t>(numbers.data()), 3, 0};
  ASSERT_EQ(::ioctl(fd.get(), TEST_IOC_DEEP, &args), 0);
  EXPECT_EQ(args.sum, 6u);
  EXPECT_EQ(numbers, (std::array<std::uint32_t, 3>{2, 3, 4}));
}

TEST_F(FuseDoorTest, DeepPointerToNowhereIsEfault) {
  const UniqueFd fd = open_node();
  DeepArgs args{8, 3, 0};
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_DEEP, &args), -1);
  EXPECT_EQ(errno, EFAULT);
}

TEST_F(FuseDoorTest, BadArgumentPointerIsEfault) {
  const UniqueFd fd = open_node();
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_ECHO, nullptr), -1);
  EXPECT_EQ(errno, EFAULT);
}

TEST_F(FuseDoorTest, FailingIoctlStillWritesItsFields) {
  const UniqueFd fd = open_node();
  FailArgs args{EINVAL, 0};
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_FAIL, &args), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(args.progress, 3u);
}

TEST_F(FuseDoorTest, UnknownNumberIsTheDriversErrno) {
  const UniqueFd fd = open_node();
  EXPECT_EQ(::ioctl(fd.get(), _IO('T', 99), nullptr), -1);
  EXPECT_EQ(errno, ENOTTY);
}

TEST_F(FuseDoorTest, DescriptorsCannotBeHandedWithoutTheShim) {
  const UniqueFd fd = open_node();
  HandFdArgs args{4096, -1, 0};
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_HAND_FD, &args), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(FuseDoorTest, SharedMapIsEnodev) {
  const UniqueFd fd = open_node();
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), MAP_FAILED);
  EXPECT_EQ(errno, ENODEV);
}

TEST_F(FuseDoorTest, EveryOpenIsAnInodeAndAFileOfItsOwn) {
  const UniqueFd first = open_node(), second = open_node();
  struct stat first_info {
  }, second_info{};
  ASSERT_EQ(::fstat(first.get(), &first_info), 0);
  ASSERT_EQ(::fstat(second.get(), &second_info), 0);
  EXPECT_EQ(first_info.st_dev, door_->tree_device());
  EXPECT_NE(first_info.st_ino, second_info.st_ino);
  const FileId id{first_info.st_ino & ~door::kOpenFileInodeBit};
  EXPECT_NE(machine_.files().by_id(id), nullptr);
  EXPECT_FALSE(door_->is_ambiguous(id));
}

TEST_F(FuseDoorTest, AClientsDescriptorIsRecognised) {
  const UniqueFd fd = open_node();
  const ClientRef client = machine_.clients().resolve(::getpid()).value();
  const Result<FileRef> file = machine_.files().by_client_fd(*client, fd.get());
  ASSERT_TRUE(file);
  EXPECT_EQ(file.value()->label(), "test");
}

TEST_F(FuseDoorTest, ReopeningThroughProcIsAnotherFileOfTheSameInode) {
  const UniqueFd first = open_node();
  const UniqueFd second(::open(("/proc/self/fd/" + std::to_string(first.get())).c_str(), O_RDWR));
  ASSERT_TRUE(second);
  EXPECT_EQ(device_->files_open, 2);
  std::uint64_t first_id = 0, second_id = 0;
  ASSERT_EQ(::ioctl(first.get(), UNDERSTUDY_IOC_FILE_ID, &first_id), 0);
  ASSERT_EQ(::ioctl(second.get(), UNDERSTUDY_IOC_FILE_ID, &second_id), 0);
  EXPECT_NE(first_id, second_id);
  EXPECT_TRUE(door_->is_ambiguous(FileId{first_id}));
}

TEST_F(FuseDoorTest, DupKeepsTheFileOpen) {
  UniqueFd fd = open_node();
  const UniqueFd copy(::dup(fd.get()));
  fd.reset();
  EchoArgs args{1, 0};
  EXPECT_EQ(::ioctl(copy.get(), TEST_IOC_ECHO, &args), 0);
  EXPECT_EQ(device_->files_open, 1);
}

TEST_F(FuseDoorTest, LastCloseReleasesTheFile) {
  open_node().reset();
  EXPECT_TRUE(files_open_becomes(0));
}

TEST_F(FuseDoorTest, AKilledClientsFileIsReleased) {
  const pid_t child = ::fork();
  if (child == 0) {
    (void)open_node().release();
    ::raise(SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(files_open_becomes(0));
}

TEST_F(FuseDoorTest, ForkedChildUsesTheInheritedFileAsAnotherClient) {
  const UniqueFd fd = open_node();
  WhoArgs parent{};
  ASSERT_EQ(::ioctl(fd.get(), TEST_IOC_WHO, &parent), 0);
  EXPECT_EQ(parent.pid, static_cast<std::uint32_t>(::getpid()));
  const pid_t child = ::fork();
  if (child == 0) {
    WhoArgs args{};
    const int result = ::ioctl(fd.get(), TEST_IOC_WHO, &args);
    ::_exit(result == 0 && args.pid == static_cast<std::uint32_t>(::getpid()) &&
                    args.client_id != parent.client_id
                ? 0
                : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(device_->files_open, 1);
}

TEST_F(FuseDoorTest, SignalInterruptsABlockedIoctl) {
  const pid_t child = ::fork();
  if (child == 0) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGINT, &action, nullptr);
    const UniqueFd fd = open_node();
    BlockArgs args{};
    ::_exit(::ioctl(fd.get(), TEST_IOC_BLOCK, &args) == -1 && errno == EINTR ? 0 : 1);
  }
  wait_until_blocked();
  ::kill(child, SIGINT);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(FuseDoorTest, AClientKilledInABlockedIoctlIsGoneAtOnce) {
  const pid_t child = ::fork();
  if (child == 0) {
    const UniqueFd fd = open_node();
    BlockArgs args{};
    ::ioctl(fd.get(), TEST_IOC_BLOCK, &args);
    ::_exit(1);
  }
  wait_until_blocked();
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(files_open_becomes(0));
}

TEST_F(FuseDoorTest, ABlockedIoctlIsAnsweredFromAnotherThread) {
  const UniqueFd fd = open_node();
  std::thread waker([&] {
    wait_until_blocked();
    ::ioctl(fd.get(), TEST_IOC_WAKE);
  });
  BlockArgs args{};
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_BLOCK, &args), 0);
  EXPECT_EQ(args.woken, 1u);
  waker.join();
}

TEST_F(FuseDoorTest, ACallThatItsHandlerForgetsEndsInEio) {
  const UniqueFd fd = open_node();
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_DROP), -1);
  EXPECT_EQ(errno, EIO);
}

TEST_F(FuseDoorTest, AMountThatGoesAwayFailsABlockedIoctl) {
  const UniqueFd fd = open_node();
  std::thread closer([&] {
    wait_until_blocked();
    door_.reset();
  });
  BlockArgs args{};
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_BLOCK, &args), -1);
  closer.join();
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_ECHO, &args), -1);
}

TEST_F(FuseDoorTest, ReadWaitsForAMessageAndPollTellsOfIt) {
  const UniqueFd fd = open_node();
  pollfd ready{fd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
  std::thread writer([&] { ::ioctl(fd.get(), TEST_IOC_MESSAGE); });
  EXPECT_EQ(::poll(&ready, 1, -1), 1);
  writer.join();
  char text[16];
  EXPECT_EQ(::read(fd.get(), text, sizeof text), 5);
  std::thread second_writer([&] { ::ioctl(fd.get(), TEST_IOC_MESSAGE); });
  EXPECT_EQ(::read(fd.get(), text, sizeof text), 5);
  second_writer.join();
}

TEST_F(FuseDoorTest, NonblockingReadIsEagain) {
  const UniqueFd fd = open_node(O_RDWR | O_NONBLOCK);
  char text[16];
  EXPECT_EQ(::read(fd.get(), text, sizeof text), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(FuseDoorTest, WriteReachesTheDriver) {
  const UniqueFd fd = open_node(O_RDWR | O_NONBLOCK);
  EXPECT_EQ(::write(fd.get(), "abc", 3), 3);
  char text[16];
  EXPECT_EQ(::read(fd.get(), text, sizeof text), 3);
}

TEST_F(FuseDoorTest, SysfsReadsThroughLinksAndFollowsChanges) {
  EXPECT_EQ(content_of("sys/devices/test/name"), "test device\n");
  EXPECT_EQ(content_of("sys/class/test/node0/files_open"), "0\n");
  const UniqueFd fd = open_node();
  EXPECT_EQ(content_of("sys/class/test/node0/files_open"), "1\n");
}

TEST_F(FuseDoorTest, OneAttributeDescriptorReadsAgainFromTheStart) {
  const UniqueFd attribute(
      ::open((scratch_.path() + "/sys/devices/test/files_open").c_str(), O_RDONLY | O_CLOEXEC));
  char text[8] = {};
  EXPECT_EQ(::read(attribute.get(), text, sizeof text), 2);
  EXPECT_EQ(::read(attribute.get(), text, sizeof text), 0);
  const UniqueFd fd = open_node();
  EXPECT_EQ(::pread(attribute.get(), text, sizeof text, 0), 2);
  EXPECT_STREQ(text, "1\n");
}

TEST_F(FuseDoorTest, AttributesWithoutStoreCannotBeOpenedForWriting) {
  EXPECT_EQ(::open((scratch_.path() + "/sys/devices/test/name").c_str(), O_WRONLY), -1);
  EXPECT_EQ(errno, EACCES);
}

TEST_F(FuseDoorTest, ProcModulesListsLoadableModulesOnly) {
  EXPECT_EQ(content_of("proc/modules"), "test 4096 0 - Live 0x0000000000000000\n");
}

TEST_F(FuseDoorTest, DirectoriesListTheirEntries) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path() + "/dev"))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, std::set<std::string>{"test"});
  EXPECT_TRUE(std::filesystem::exists(node_path()));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() + "/dev/test/node1"));
}

TEST_F(FuseDoorTest, AShimlessClientIsNamed) {
  const UniqueFd fd = open_node();
  const std::vector<door::ShimlessClient> clients = door_->shimless_clients();
  ASSERT_EQ(clients.size(), 1u);
  EXPECT_EQ(clients[0].pid, ::getpid());
  EXPECT_EQ(clients[0].node, "test/node0");
}

TEST(FuseDoor, MountingWhereNothingIsSaysWhy) {
  Machine machine{Settings{}};
  std::string why;
  EXPECT_FALSE(door::FuseDoor::mount(machine, "/nonexistent/place", &why));
  EXPECT_NE(why, "");
}

}  // namespace
}  // namespace understudy::test
