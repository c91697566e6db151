// Next: the definition of a function that the shim stands in front of: libc's, or that of another preloaded
// library or sanitizer in between.
//
// Owner: a constinit object per function, usable before any constructor has run. Units: none. Errors: get()
// is null while this thread is inside dlsym already (an allocator that opens a file, say) and where libc has
// no such function: callers then make the system call themselves. Thread-safety: all methods from any thread.
// Looked up at first use: a process that never calls a function pays nothing for it.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace understudy::shim {

// The look-up itself, shared by all; null when nested.
void* find_next(const char* name);

template <typename Function>
class Next {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}

  Function* get() {
    Function* function = function_.load(std::memory_order_acquire);
    if (function == nullptr) {
      function = reinterpret_cast<Function*>(find_next(name_));
      function_.store(function, std::memory_order_release);
    }
    return function;
  }

 private:
  const char* const name_;
  std::atomic<Function*> function_{nullptr};
};

#define UNDERSTUDY_NEXT(function) constinit Next<decltype(::function)> next_##function(#function)

}  // namespace understudy::shim
