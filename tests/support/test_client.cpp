#include "tests/support/test_client.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace understudy::test {

int TestCall::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return answered_; });
  return value_;
}

bool TestCall::answered() {
  const std::lock_guard lock(mutex_);
  return answered_;
}

void TestCall::reply(int value) {
  for (HandedFd& handed : handed_fds()) {
    const std::int32_t number = handed.fd.release();
    std::memcpy(reinterpret_cast<void*>(argument + handed.argument_offset), &number, sizeof number);
  }
  const std::lock_guard lock(mutex_);
  value_ = value;
  answered_ = true;
  changed_.notify_all();
}

TestClient::TestClient(Machine& machine) : TestClient(machine, ::gettid()) {}

TestClient::TestClient(Machine& machine, pid_t pid)
    : machine_(machine), caller_{machine.clients().resolve(pid).value(), pid} {}

FileRef TestClient::open(std::string_view path, int flags, Errno* error) {
  Node* node = machine_.node(path);
  if (node == nullptr) std::abort();
  const Result<FileRef> file = machine_.open(*node, caller_, flags);
  if (!file) {
    if (error != nullptr) *error = file.error();
    return nullptr;
  }
  machine_.files().add(file.value());
  return file.value();
}

void TestClient::close(const FileRef& file) {
  machine_.files().remove(file->id());
}

std::shared_ptr<TestCall> TestClient::start(const FileRef& file, std::uint32_t command,
                                            std::uint64_t argument) {
  auto call = std::make_shared<TestCall>(machine_, CallKind::kIoctl, caller_, file);
  call->command = command;
  call->argument = argument;
  file->ioctl(call);
  return call;
}

void* TestClient::mmap(const FileRef& file, std::size_t length, int protection, std::uint64_t offset,
                       int flags) {
  TestCall call(machine_, CallKind::kMmap, caller_, file);
  const MmapRequest request{0, length, protection, flags, offset};
  const Result<MmapTarget> target = machine_.map(call, request);
  if (!target) {
    errno = target.error().number();
    return MAP_FAILED;
  }
  void* address = ::mmap(nullptr, length, protection, flags, target.value().fd.get(),
                         static_cast<off_t>(target.value().offset_bytes));
  if (address != MAP_FAILED && target.value().report_address) {
    file->mapped(caller_, request, reinterpret_cast<std::uint64_t>(address));
  }
  return address;
}

}  // namespace understudy::test
