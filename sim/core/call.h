// Call: one open/ioctl/mmap in flight. It is answered exactly once, maybe later and from another thread, and
// a signal in the client cancels it.
//
// Owner: shared; the door keeps it until answered, a handler that answers later keeps a reference.
// Units: addresses are client addresses, sizes bytes. Errors: copy_in/copy_out fail with EFAULT.
// Thread-safety: finish, cancel and on_cancel may race from any threads; the rest belongs to the handling
// thread. Mirrors: the frame of fs/ioctl.c: SYSCALL ioctl and what a driver sees as `current`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "sim/core/client.h"
#include "sim/core/result.h"
#include "uapi/descriptor.h"

namespace understudy {

class File;
class Machine;

struct Caller {
  ClientRef client;
  pid_t tid = 0;
};

enum class CallKind : std::uint8_t { kOpen, kIoctl, kMmap, kRead, kWrite, kRelease };

// A descriptor to be installed in the client; its number is written (as a 32-bit int) at `argument_offset` of
// the ioctl's struct by the shim.
struct HandedFd {
  UniqueFd fd;
  std::uint32_t argument_offset = 0;
  bool close_on_exec = true;
};

class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(Machine& machine, CallKind kind, Caller caller, std::shared_ptr<File> file);
  virtual ~Call();
  Call(const Call&) = delete;

  Machine& machine() const { return machine_; }
  CallKind kind() const { return kind_; }
  const Caller& caller() const { return caller_; }
  Client& client() const { return *caller_.client; }
  ClientMemory& memory() const { return caller_.client->memory(); }
  const std::shared_ptr<File>& file() const { return file_; }
  std::uint64_t serial() const { return serial_; }
  std::uint64_t begin_ns() const { return begin_ns_; }

  // ioctl only: command word and argument as the client passed them.
  std::uint32_t command = 0;
  std::uint64_t argument = 0;
  // Set by the dispatcher: row of the table (null: unknown number) and the struct as the handler sees it.
  const uapi::IoctlDescriptor* descriptor = nullptr;
  std::vector<std::byte> arguments;
  // What the trace and fault plans call it: "AMDKFD_IOC_...", "open", "mmap".
  std::string_view name() const;

  // Copies between the client's argument and the server. Doors that got the bytes with the request override.
  virtual Result<void> copy_in(std::span<std::byte> into);
  virtual Result<void> copy_out(std::span<const std::byte> from);

  // Hands a descriptor to the client. EOPNOTSUPP when the client cannot receive any (no shim).
  Result<void> hand_fd(UniqueFd fd, std::uint32_t argument_offset, bool close_on_exec = true);
  std::vector<HandedFd>& handed_fds() { return handed_fds_; }

  // Runs between the handler's outcome and the reply (the dispatcher's copy-out); at most one.
  void before_reply(std::function<Outcome(Outcome)> step) { before_reply_ = std::move(step); }
  // Answers the call; only the first answer counts (returns whether this was it).
  bool finish(Outcome outcome);
  bool finished() const { return finished_.load(std::memory_order_acquire); }

  // `wake` is called (at most once, on the cancelling thread) when a signal interrupts the client; it must
  // lead to finish(EINTR) or another outcome soon. Called at once when the signal has already come.
  void on_cancel(std::function<void()> wake);
  void cancel();

 protected:
  // Sends the final answer; called exactly once, without locks.
  virtual void reply(int value) = 0;
  virtual bool can_hand_fds() const { return false; }

 private:
  Machine& machine_;
  const CallKind kind_;
  const Caller caller_;
  const std::shared_ptr<File> file_;
  const std::uint64_t serial_;
  const std::uint64_t begin_ns_;
  std::vector<HandedFd> handed_fds_;
  std::function<Outcome(Outcome)> before_reply_;
  std::atomic<bool> finished_{false};
  std::mutex cancel_mutex_;
  bool cancelled_ = false;      // guarded by cancel_mutex_
  std::function<void()> wake_;  // guarded by cancel_mutex_
};

using CallRef = std::shared_ptr<Call>;

}  // namespace understudy
