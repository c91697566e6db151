// TestClient: the test process as a client of an in-process Machine: opens nodes, runs ioctls and maps files
// with no door and no shim between.
//
// Descriptors that drivers hand out are installed by writing their number into the struct, as the shim does.
// Units: values are the kernel's: >= 0 or -errno. Thread-safety: calls may be made from many threads.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string_view>

#include "sim/core/call.h"
#include "sim/core/file.h"
#include "sim/core/machine.h"

namespace understudy::test {

class TestCall : public Call {
 public:
  TestCall(Machine& machine, CallKind kind, Caller caller, FileRef file)
      : Call(machine, kind, std::move(caller), std::move(file)) {}
  // Waits for the answer.
  int wait();
  bool answered();

 protected:
  void reply(int value) override;
  bool can_hand_fds() const override { return true; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool answered_ = false;
  int value_ = 0;
};

class TestClient {
 public:
  explicit TestClient(Machine& machine);
  // The same machine seen by another process (which must live).
  TestClient(Machine& machine, pid_t pid);

  Caller caller() const { return caller_; }
  // Null when it fails; then *error says why.
  FileRef open(std::string_view node, int flags = 2 /* O_RDWR */, Errno* error = nullptr);
  void close(const FileRef& file);

  std::shared_ptr<TestCall> start(const FileRef& file, std::uint32_t command, std::uint64_t argument);
  int ioctl(const FileRef& file, std::uint32_t command, void* argument) {
    return start(file, command, reinterpret_cast<std::uint64_t>(argument))->wait();
  }
  template <typename Tag>
  int ioctl(const FileRef& file, typename Tag::Args& args) {
    return ioctl(file, Tag::kCmd, &args);
  }
  // MAP_FAILED with errno set on refusal.
  void* mmap(const FileRef& file, std::size_t length, int protection, std::uint64_t offset,
             int flags = 1 /* MAP_SHARED */);

 private:
  Machine& machine_;
  Caller caller_;
};

}  // namespace understudy::test
