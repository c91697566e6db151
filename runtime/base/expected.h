// Expected<T, E>: a value or the reason there is none. `Result<T>` carries an errno and is what drivers
// return; the core uses the same template with hsa_status_t (core/status.h). Nothing here throws; asking for
// a value that is not there is a broken invariant and stops the program.
#pragma once

#include <cstdlib>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace hsa_rt {

struct Errno {
  int value;
  friend bool operator==(Errno, Errno) = default;
};

template <class T, class E>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Expected(E error) : state_(std::in_place_index<1>, error) {}
  template <class U>
  requires(std::is_convertible_v<U&&, T> && !std::is_same_v<std::remove_cvref_t<U>, T> &&
           !std::is_same_v<std::remove_cvref_t<U>, E> && !std::is_same_v<std::remove_cvref_t<U>, Expected>)
      Expected(U&& value)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& value() & { return *checked(); }
  const T& value() const& { return *const_cast<Expected*>(this)->checked(); }
  T&& value() && { return std::move(*checked()); }
  E error() const { return std::get<1>(state_); }

  // The same outcome with every failure reported as `other`.
  template <class F>
  Expected<T, F> error_as(F other) && {
    if (!*this) return other;
    return std::move(*checked());
  }

 private:
  T* checked() {
    T* value = std::get_if<0>(&state_);
    if (value == nullptr) std::abort();
    return value;
  }
  std::variant<T, E> state_;
};

template <class E>
class [[nodiscard]] Expected<void, E> {
 public:
  Expected() = default;
  Expected(E error) : error_(error) {}

  explicit operator bool() const { return !error_.has_value(); }
  void value() const {
    if (error_) std::abort();
  }
  E error() const { return *error_; }

  template <class F>
  Expected<void, F> error_as(F other) && {
    if (error_) return other;
    return {};
  }

 private:
  std::optional<E> error_;
};

template <class T>
using Result = Expected<T, Errno>;

}  // namespace hsa_rt

// Evaluates to the value, or returns the error from the enclosing function.
#define TRY(expression)                                       \
  __extension__({                                             \
    auto&& try_outcome = (expression);                        \
    if (!try_outcome) return try_outcome.error();             \
    std::forward<decltype(try_outcome)>(try_outcome).value(); \
  })
