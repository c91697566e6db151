// raw(): a system call that leaves errno alone and is no cancellation point.
//
// The program called one library function; what the shim does around it must not show. Units: none. Errors:
// the result is -errno, as the kernel returns it. Thread-safety: as the system call; usable in signal
// handlers and in a vfork child.
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace understudy::shim {

template <typename... Arguments>
inline long raw(long number, Arguments... arguments) {
  const int saved = errno;
  const long result = ::syscall(number, (long)(arguments)...);
  if (result != -1) return result;
  const long error = errno;
  errno = saved;
  return -error;
}

// The library's way to say no.
inline int fail(long error) {
  errno = static_cast<int>(error);
  return -1;
}

// A system call's result as the library returns it.
inline int as_library_result(long result) {
  return result < 0 ? fail(-result) : static_cast<int>(result);
}

}  // namespace understudy::shim
