#include "sim/cli/host_checks.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "sim/cli/install_paths.h"
#include "sim/core/fd.h"
#include "sim/core/machine.h"
#include "sim/door/fuse/fuse_door.h"

namespace understudy::cli {
namespace {

struct Outcome {
  bool works = false;
  std::string found;
  std::string fix;
};

std::string errno_text() {
  return std::strerror(errno);
}

Outcome try_shim() {
  const std::string path = shim_path();
  if (::access(path.c_str(), R_OK) != 0)
    return {false, fmt::format("{}: {}", path, errno_text()),
            "install the whole tree: cmake --install BUILD"};
  return {true, path, ""};
}

// A real mount of an empty machine, and a read through it.
Outcome try_fuse() {
  char directory[] = "/tmp/understudy-doctor-XXXXXX";
  if (::mkdtemp(directory) == nullptr)
    return {false, "no directory in /tmp: " + errno_text(), "make /tmp writable"};
  Outcome outcome;
  {
    Machine machine{Settings{}};
    const Result<std::unique_ptr<door::FuseDoor>> mounted =
        door::FuseDoor::mount(machine, directory, &outcome.found);
    if (!mounted) {
      outcome.fix = ::access("/dev/fuse", F_OK) != 0
                        ? "load the module (modprobe fuse), or give the container /dev/fuse and CAP_SYS_ADMIN"
                        : "install fuse3 (fusermount3), and see that it may open /dev/fuse";
    } else {
      char byte = 0;
      const UniqueFd file(::open((std::string(directory) + "/proc/modules").c_str(), O_RDONLY | O_CLOEXEC));
      outcome.works = file && ::read(file.get(), &byte, 1) == 0;
      outcome.found = outcome.works ? "mounted and read" : "mounted, but reading fails: " + errno_text();
    }
  }
  ::rmdir(directory);
  return outcome;
}

// Does reading `secret` from `process` work? In a process of its own, so that a relation can be chosen.
bool can_read(pid_t process, const volatile long* secret, int* error) {
  long value = 0;
  const iovec local{&value, sizeof value};
  const iovec remote{const_cast<long*>(secret), sizeof value};
  const bool read = ::process_vm_readv(process, &local, 1, &remote, 1, 0) == sizeof value && value == *secret;
  *error = read ? 0 : errno;
  return read;
}

pid_t fork_sleeper() {
  const pid_t sleeper = ::fork();
  if (sleeper == 0) {
    for (;;) ::pause();
  }
  return sleeper;
}

void end_process(pid_t process) {
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
}

Outcome try_descendants() {
  static const volatile long kSecret = 0x5ca1ab1e;
  const pid_t child = fork_sleeper();
  if (child < 0) return {false, "cannot fork: " + errno_text(), ""};
  int error = 0;
  const bool works = can_read(child, &kSecret, &error);
  end_process(child);
  if (works) return {true, "process_vm_readv reads a child", ""};
  return {
      false, fmt::format("process_vm_readv on a child: {}", std::strerror(error)),
      "allow process_vm_readv in the container's seccomp profile; memory then goes through the shim, slower"};
}

Outcome try_others() {
  static const volatile long kSecret = 0x5ca1ab1e;
  const pid_t sibling = fork_sleeper();
  if (sibling < 0) return {false, "cannot fork: " + errno_text(), ""};
  const pid_t reader = ::fork();
  if (reader == 0) {
    int error = 0;
    can_read(sibling, &kSecret, &error);
    ::_exit(error);
  }
  int status = 0;
  ::waitpid(reader, &status, 0);
  end_process(sibling);
  if (status == 0) return {true, "process_vm_readv reads other processes of the user", ""};
  return {false, fmt::format("process_vm_readv on another process: {}", std::strerror(WEXITSTATUS(status))),
          "sysctl kernel.yama.ptrace_scope=0; otherwise memory goes through the shim, slower"};
}

// Write-protects a page of shared memory, writes to it from a thread and waits to be told.
Outcome try_uffd() {
  const std::string fix =
      "a kernel from 5.19 on with CONFIG_USERFAULTFD; in containers a seccomp profile that allows "
      "userfaultfd. Without it doorbells are polled";
  const UniqueFd uffd(
      static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
  if (!uffd) return {false, "userfaultfd: " + errno_text(), fix};
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
  if (::ioctl(uffd.get(), UFFDIO_API, &api) != 0)
    return {false, "no write protection of shared memory: " + errno_text(), fix};
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const Result<UniqueFd> memfd = make_memfd("understudy-doctor", page);
  if (!memfd) return {false, "memfd_create: " + errno_text(), fix};
  const Result<Mapping> mapping = Mapping::of_fd(memfd.value().get(), page);
  if (!mapping) return {false, "mmap: " + errno_text(), fix};
  std::byte* const bytes = mapping.value().data();
  bytes[0] = std::byte{1};
  uffdio_register registration{};
  registration.range = {reinterpret_cast<std::uint64_t>(bytes), page};
  registration.mode = UFFDIO_REGISTER_MODE_WP;
  if (::ioctl(uffd.get(), UFFDIO_REGISTER, &registration) != 0)
    return {false, "register: " + errno_text(), fix};
  uffdio_writeprotect protect{};
  protect.range = registration.range;
  protect.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  if (::ioctl(uffd.get(), UFFDIO_WRITEPROTECT, &protect) != 0)
    return {false, "write-protect: " + errno_text(), fix};
  std::thread writer([bytes] { reinterpret_cast<std::atomic<std::byte>*>(bytes)->store(std::byte{2}); });
  pollfd ready{uffd.get(), POLLIN, 0};
  const bool told = ::poll(&ready, 1, 1000) == 1;
  protect.mode = 0;
  ::ioctl(uffd.get(), UFFDIO_WRITEPROTECT, &protect);
  writer.join();
  return told ? Outcome{true, "a store to a protected page was noticed", ""}
              : Outcome{false, "a store to a protected page went unnoticed", fix};
}

Outcome try_cuse() {
  const UniqueFd cuse(::open("/dev/cuse", O_RDWR | O_CLOEXEC));
  if (cuse) return {true, "/dev/cuse opens", ""};
  return {false, "/dev/cuse: " + errno_text(), "as root: modprobe cuse (CONFIG_CUSE)"};
}

struct Row {
  std::string_view name;
  std::string_view good_for;
  Outcome (*attempt)();
};

constexpr Row kRows[] = {
    {"shim", "mmap of device memory, descriptors from calls, the ordinary /dev and /sys paths", &try_shim},
    {"fuse",
     "--door fuse: nodes that any program can open; without it --door socket serves programs with the shim",
     &try_fuse},
    {"ptrace", "run: direct access to the memory of CMD and its children", &try_descendants},
    {"ptrace-any", "serve and exec: direct access to the memory of other processes", &try_others},
    {"uffd", "doorbells that wake the engines at once and cost nothing while idle", &try_uffd},
    {"cuse", "--door cuse: real character devices", &try_cuse},
};

}  // namespace

std::vector<std::string_view> host_check_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(row.name);
  return names;
}

HostCheck run_host_check(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    Outcome outcome = row.attempt();
    return {row.name, row.good_for, outcome.works, std::move(outcome.found), std::move(outcome.fix)};
  }
  return {};
}

}  // namespace understudy::cli
