// Result<T>: how a driver call ends, in a value or one errno. Outcome adds the third ending of an
// ioctl handler: answered later.
//
// Owner: plain values, copied and moved freely. Units: errno numbers are positive, as in <errno.h>.
// Errors: reading value() of a failed Result is a broken invariant and aborts. Thread-safety: as the value's.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>

namespace understudy {

class Errno {
 public:
  constexpr explicit Errno(int number) : number_(number) {}
  constexpr int number() const { return number_; }
  constexpr bool operator==(const Errno&) const = default;

 private:
  int number_;
};

// The errno of the libc call that just failed.
inline Errno last_errno() {
  return Errno(errno);
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Errno error) : error_(error) {}

  explicit operator bool() const { return value_.has_value(); }
  T& value() & {
    require_value();
    return *value_;
  }
  const T& value() const& {
    require_value();
    return *value_;
  }
  T&& value() && {
    require_value();
    return std::move(*value_);
  }
  Errno error() const { return error_; }

 private:
  void require_value() const {
    if (!value_) std::abort();
  }
  std::optional<T> value_;
  Errno error_{0};
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Errno error) : error_(error) {}

  explicit operator bool() const { return error_.number() == 0; }
  void value() const {}
  Errno error() const { return error_; }

 private:
  Errno error_{0};
};

// What an ioctl handler returns: the ioctl's non-negative return value, an errno, or later() when it kept the
// call (shared_from_this) and will finish() it.
class [[nodiscard]] Outcome {
 public:
  Outcome(int value) : value_(value) {}
  Outcome(Errno error) : value_(-error.number()) {}
  Outcome(Result<void> result) : value_(-result.error().number()) {}
  static Outcome later() {
    Outcome outcome(0);
    outcome.later_ = true;
    return outcome;
  }

  bool is_later() const { return later_; }
  // The kernel's convention: >= 0 or -errno.
  int value() const { return value_; }

 private:
  int value_;
  bool later_ = false;
};

}  // namespace understudy

// "Stop and pass it on": unwraps a Result, or returns its errno from the enclosing function.
#define TRY(expression)                           \
  ({                                              \
    auto try_result_ = (expression);              \
    if (!try_result_) return try_result_.error(); \
    std::move(try_result_).value();               \
  })
