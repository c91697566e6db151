// Clients whose server is killed, through both doors; and clients without one.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "sim/core/machine.h"
#include "sim/door/channel/server.h"
#include "sim/door/fuse/fuse_door.h"
#include "sim/door/socket/socket_door.h"
#include "tests/door/scratch.h"
#include "tests/door/test_node.h"

namespace understudy::test {
namespace {

enum class DoorKind { kFuse, kSocket };

// Null where this host does not have it.
std::unique_ptr<door::Door> make_door(DoorKind kind, Machine& machine, const std::string& tree) {
  std::string why;
  if (kind == DoorKind::kFuse) {
    auto fuse = door::FuseDoor::mount(machine, tree, &why);
    return fuse ? std::move(fuse).value() : nullptr;
  }
  auto socket = door::SocketDoor::create(machine, tree, &why);
  return socket ? std::move(socket).value() : nullptr;
}

// A server in a process of its own, at a root of its own.
class Server {
 public:
  explicit Server(DoorKind kind) : kind_(kind) {
    std::filesystem::create_directory(tree());
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) serve(ends[1]);
    ::close(ends[1]);
    char byte;
    is_up_ = ::read(ends[0], &byte, 1) == 1;
    ::close(ends[0]);
  }
  ~Server() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    if (kind_ == DoorKind::kFuse) (void)!std::system(("fusermount3 -uzq " + tree()).c_str());
  }
  Server(const Server&) = delete;

  bool is_up() const { return is_up_; }
  pid_t pid() const { return pid_; }
  const std::string& root() const { return scratch_.path(); }
  std::string tree() const { return root() + "/fs"; }

 private:
  [[noreturn]] void serve(int ready) {
    Machine machine{Settings{}};
    add_test_accelerator(machine);
    const auto door = make_door(kind_, machine, tree());
    if (!door) ::_exit(1);
    const auto channel = door::ChannelServer::create(machine, *door, root() + "/ctl");
    if (!channel || ::write(ready, "", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }

  const DoorKind kind_;
  const ScratchDirectory scratch_;
  pid_t pid_ = -1;
  bool is_up_ = false;
};

// Exit status of the client program, or 128 + signal; 142 when it hangs.
int run_client(const std::string& root, const std::vector<std::string>& arguments) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("UNDERSTUDY", root.c_str(), 1);
    ::setenv("LD_PRELOAD", UNDERSTUDY_TEST_SHIM, 1);
    ::alarm(20);
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class ServerDeath : public ::testing::TestWithParam<DoorKind> {
 protected:
  void expect_client_outlives(const char* role) {
    const Server server(GetParam());
    if (!server.is_up()) GTEST_SKIP() << "no such door here";
    EXPECT_EQ(run_client(server.root(), {UNDERSTUDY_TEST_CLIENT, role, std::to_string(server.pid())}), 0);
  }
};

TEST_P(ServerDeath, BetweenCallsMakesEverythingEnodev) {
  expect_client_outlives("--outlive-idle");
}
TEST_P(ServerDeath, InMidCallIsEio) {
  expect_client_outlives("--outlive-in-call");
}

INSTANTIATE_TEST_SUITE_P(EachDoor, ServerDeath, ::testing::Values(DoorKind::kFuse, DoorKind::kSocket),
                         [](const auto& info) { return info.param == DoorKind::kFuse ? "fuse" : "socket"; });

TEST(NoServer, MissingRootPassesEverythingThrough) {
  EXPECT_EQ(
      run_client("/nonexistent",
                 {"/bin/sh", "-c", "test -c /dev/null && test -d /sys/class && cd /dev && test -c null"}),
      0);
}

TEST(NoServer, UnusableRootsPassEverythingThrough) {
  for (const std::string& root :
       {std::string(), std::string("relative"), std::string(4000, '/'), "/" + std::string(4000, 'x')})
    EXPECT_EQ(run_client(root, {"/bin/sh", "-c",
                                "test -c /dev/null && test -d /sys/class && cd /dev && test -c null"}),
              0);
}

}  // namespace
}  // namespace understudy::test
