// Operations on descriptors and memory. Each row of the table at the end is one operation of the sequence
// language.
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "json.h"
#include "operations.h"

namespace probe {
namespace {

Outcome descriptor(Run& run, int fd) {
  Outcome outcome = from_call(fd);
  if (fd >= 0) outcome.result = run.context.names.of("fd", static_cast<std::uint64_t>(fd) + 1, 8);
  return outcome;
}

Outcome descriptor_pair(Run& run, int status, const int (&fds)[2]) {
  Outcome outcome = from_call(status);
  if (status == 0) {
    outcome.results = {static_cast<std::uint64_t>(fds[0]), static_cast<std::uint64_t>(fds[1])};
    for (const std::uint64_t fd : outcome.results) run.context.names.of("fd", fd + 1, 8);
  }
  return outcome;
}

Outcome open_node(Run& run) {
  const auto node = run.context.nodes.find(run.word(0));
  if (node == run.context.nodes.end()) {
    errno = ENODEV;
    return from_call(-1);
  }
  return descriptor(run, open(node->second.c_str(), static_cast<int>(run.operand(1))));
}

Outcome close_fd(Run& run) {
  return from_call(close(static_cast<int>(run.operand(0))));
}

Outcome dup_fd(Run& run) {
  return descriptor(run, dup(static_cast<int>(run.operand(0))));
}

Outcome ioctl_fd(Run& run) {
  return from_call(
      ioctl(static_cast<int>(run.operand(0)), static_cast<unsigned long>(run.operand(1)), run.operand(2)));
}

Outcome mmap_fd(Run& run) {
  void* address = mmap(reinterpret_cast<void*>(run.operand(0)), run.operand(1),
                       static_cast<int>(run.operand(2)), static_cast<int>(run.operand(3)),
                       static_cast<int>(run.operand(4)), static_cast<off_t>(run.operand(5)));
  Outcome outcome = from_call(address == MAP_FAILED ? -1 : 0);
  if (address != MAP_FAILED) {
    outcome.results = {reinterpret_cast<std::uintptr_t>(address)};
    outcome.result = run.context.names.of("va", outcome.results[0], 8);
  }
  return outcome;
}

Outcome munmap_range(Run& run) {
  return from_call(munmap(reinterpret_cast<void*>(run.operand(0)), run.operand(1)));
}

Outcome mprotect_range(Run& run) {
  return from_call(
      mprotect(reinterpret_cast<void*>(run.operand(0)), run.operand(1), static_cast<int>(run.operand(2))));
}

// Touching memory that is not there is an answer, not a crash.
thread_local sigjmp_buf access_failed;

void on_access_failure(int signal) {
  siglongjmp(access_failed, signal);
}

Outcome access_memory(bool write, std::uint64_t address, std::size_t width, std::uint64_t value) {
  struct sigaction action = {};
  struct sigaction old_segv = {};
  struct sigaction old_bus = {};
  action.sa_handler = on_access_failure;
  sigaction(SIGSEGV, &action, &old_segv);
  sigaction(SIGBUS, &action, &old_bus);
  Outcome outcome;
  const int signal = sigsetjmp(access_failed, 1);
  if (signal == 0) {
    auto* bytes = reinterpret_cast<volatile std::uint8_t*>(address);
    std::uint64_t read_value = 0;
    for (std::size_t i = 0; i < width; ++i) {
      if (write)
        bytes[i] = static_cast<std::uint8_t>(value >> (8 * i));
      else
        read_value |= std::uint64_t{bytes[i]} << (8 * i);
    }
    outcome.result = write ? "0" : json_string(hex_number(read_value));
    outcome.results = {read_value};
  } else {
    outcome.result = json_string(std::string("SIG") + sigabbrev_np(signal));
  }
  sigaction(SIGSEGV, &old_segv, nullptr);
  sigaction(SIGBUS, &old_bus, nullptr);
  return outcome;
}

Outcome peek(Run& run) {
  return access_memory(false, run.operand(0), run.operand(1), 0);
}

Outcome poke(Run& run) {
  return access_memory(true, run.operand(0), run.operand(1), run.operand(2));
}

std::string event_names(short events) {
  constexpr struct {
    short bit;
    const char* name;
  } kEvents[] = {{POLLIN, "POLLIN"},   {POLLPRI, "POLLPRI"}, {POLLOUT, "POLLOUT"},
                 {POLLERR, "POLLERR"}, {POLLHUP, "POLLHUP"}, {POLLNVAL, "POLLNVAL"}};
  std::string text;
  for (const auto& event : kEvents)
    if ((events & event.bit) != 0) text += (text.empty() ? "" : "|") + std::string(event.name);
  return text;
}

Outcome poll_fd(Run& run) {
  pollfd entry{static_cast<int>(run.operand(0)), static_cast<short>(run.operand(1)), 0};
  Outcome outcome = from_call(poll(&entry, 1, static_cast<int>(run.operand(2))));
  if (outcome.value > 0) append_member(outcome.out, "revents", json_string(event_names(entry.revents)));
  return outcome;
}

Outcome lseek_fd(Run& run) {
  return from_call(lseek(static_cast<int>(run.operand(0)), static_cast<off_t>(run.operand(1)),
                         static_cast<int>(run.operand(2))));
}

Outcome read_fd(Run& run) {
  std::vector<std::uint8_t> bytes(run.operand(1));
  Outcome outcome = from_call(read(static_cast<int>(run.operand(0)), bytes.data(), bytes.size()));
  if (outcome.value > 0)
    append_member(outcome.out, "data",
                  json_string(hex_bytes(std::span(bytes).first(static_cast<std::size_t>(outcome.value)))));
  return outcome;
}

Outcome write_fd(Run& run) {
  return from_call(
      write(static_cast<int>(run.operand(0)), reinterpret_cast<const void*>(run.operand(1)), run.operand(2)));
}

// The DRM and accel majors are fixed; other drivers get theirs by chance.
std::string major_name(unsigned number) {
  constexpr unsigned kDrmMajor = 226;
  constexpr unsigned kAccelMajor = 261;
  return number == kDrmMajor || number == kAccelMajor ? std::to_string(number) : json_string("dynamic");
}

Outcome stat_fd(Run& run) {
  struct stat status = {};
  Outcome outcome = from_call(fstat(static_cast<int>(run.operand(0)), &status));
  if (outcome.value != 0) return outcome;
  if (S_ISCHR(status.st_mode)) {
    append_member(outcome.out, "type", "\"character device\"");
    append_member(outcome.out, "major", major_name(major(status.st_rdev)));
  } else {
    append_member(outcome.out, "type", S_ISREG(status.st_mode) ? "\"regular\"" : "\"other\"");
    append_member(outcome.out, "size", std::to_string(status.st_size));
  }
  return outcome;
}

Outcome fcntl_fd(Run& run) {
  Outcome outcome =
      from_call(fcntl(static_cast<int>(run.operand(0)), static_cast<int>(run.operand(1)), run.operand(2)));
  if (outcome.value >= 0) outcome.result = json_string(hex_number(static_cast<std::uint64_t>(outcome.value)));
  return outcome;
}

Outcome memory_file(Run& run) {
  const int fd = memfd_create("oracle", 0);
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(run.operand(0))) != 0) return from_call(-1);
  return descriptor(run, fd);
}

Outcome pipe_pair(Run& run) {
  int fds[2];
  return descriptor_pair(run, pipe(fds), fds);
}

Outcome socket_pair(Run& run) {
  int fds[2];
  return descriptor_pair(run, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), fds);
}

union RightsMessage {
  cmsghdr header;
  char space[CMSG_SPACE(sizeof(int))];
};

msghdr rights_message(iovec& vector, RightsMessage& rights) {
  msghdr message = {};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = rights.space;
  message.msg_controllen = sizeof rights.space;
  return message;
}

Outcome send_fd(Run& run) {
  char byte = 0;
  iovec vector{&byte, 1};
  RightsMessage rights = {};
  msghdr message = rights_message(vector, rights);
  rights.header.cmsg_level = SOL_SOCKET;
  rights.header.cmsg_type = SCM_RIGHTS;
  rights.header.cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = static_cast<int>(run.operand(1));
  std::memcpy(CMSG_DATA(&rights.header), &fd, sizeof fd);
  return from_call(sendmsg(static_cast<int>(run.operand(0)), &message, 0));
}

Outcome receive_fd(Run& run) {
  char byte = 0;
  iovec vector{&byte, 1};
  RightsMessage rights = {};
  msghdr message = rights_message(vector, rights);
  if (recvmsg(static_cast<int>(run.operand(0)), &message, 0) < 0) return from_call(-1);
  int fd = -1;
  errno = ENOMSG;
  if (message.msg_controllen >= CMSG_LEN(sizeof fd)) std::memcpy(&fd, CMSG_DATA(&rights.header), sizeof fd);
  return descriptor(run, fd);
}

Outcome anonymous_memory(Run& run) {
  void* address = mmap(nullptr, run.operand(0), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Outcome outcome = from_call(address == MAP_FAILED ? -1 : 0);
  if (address != MAP_FAILED) {
    std::memset(address, static_cast<int>(run.operand(1)), run.operand(0));
    outcome.results = {reinterpret_cast<std::uintptr_t>(address)};
    outcome.result = run.context.names.of("va", outcome.results[0], 8);
  }
  return outcome;
}

// From here on no descriptor can be made: the limit is set to the lowest free number.
Outcome no_more_files(Run&) {
  const int lowest_free = dup(STDERR_FILENO);
  if (lowest_free < 0) return from_call(-1);
  close(lowest_free);
  const rlimit limit{static_cast<rlim_t>(lowest_free), static_cast<rlim_t>(lowest_free)};
  return from_call(setrlimit(RLIMIT_NOFILE, &limit));
}

// Prints a variable: how a buffer made by quiet steps becomes one line.
Outcome report_value(Run& run) {
  Outcome outcome;
  outcome.value = static_cast<std::int64_t>(run.operand(0));
  return outcome;
}

constexpr OperationRow kOperations[] = {
    {"open", open_node},
    {"close", close_fd},
    {"dup", dup_fd},
    {"ioctl", ioctl_fd},
    {"mmap", mmap_fd},
    {"munmap", munmap_range},
    {"mprotect", mprotect_range},
    {"peek", peek},
    {"poke", poke},
    {"poll", poll_fd},
    {"lseek", lseek_fd},
    {"read", read_fd},
    {"write", write_fd},
    {"stat", stat_fd},
    {"fcntl", fcntl_fd},
    {"memfd", memory_file},
    {"pipe", pipe_pair},
    {"socketpair", socket_pair},
    {"send", send_fd},
    {"receive", receive_fd},
    {"memory", anonymous_memory},
    {"no-more-files", no_more_files},
    {"value", report_value},
};

}  // namespace

std::span<const OperationRow> call_operations() {
  return kOperations;
}

}  // namespace probe
