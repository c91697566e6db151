// ChildProcess: a forked process that lives until the end of a test and does nothing: another client, maybe
// one without rights. SharedMemory: memory that it sees at the same address, where arguments of its calls go.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace understudy::test {

class ChildProcess {
 public:
  // `prepare` runs in the child before the constructor returns here.
  explicit ChildProcess(const std::function<void()>& prepare = [] {}) {
    int ready[2];
    if (::pipe(ready) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ready[0]);
      prepare();
      ::close(ready[1]);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    while (::read(ready[0], &byte, 1) > 0) {
    }
    ::close(ready[0]);
  }
  ~ChildProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

class SharedMemory {
 public:
  SharedMemory()
      : address_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~SharedMemory() { ::munmap(address_, kBytes); }
  SharedMemory(const SharedMemory&) = delete;

  template <typename T>
  T& put(const T& value) {
    T* place = static_cast<T*>(address_);
    *place = value;
    return *place;
  }

 private:
  static constexpr std::size_t kBytes = 4096;
  void* const address_;
};

}  // namespace understudy::test
