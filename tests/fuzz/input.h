// Input: the bytes of a fuzzer as a stream of choices. Past the end everything is zero, so that every prefix
// of an input is a program too.
//
// Owner: borrows the bytes. Units: bytes. Errors: none. Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace understudy::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(data, size) {}

  bool empty() const { return left_.empty(); }
  std::uint8_t byte() { return number<std::uint8_t>(); }
  // One of `count` (not 0) choices.
  std::size_t pick(std::size_t count) {
    return count <= 256 ? byte() % count : number<std::uint16_t>() % count;
  }
  template <typename T>
  T number() {
    T value{};
    take(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  void take(std::span<std::byte> into) {
    const std::size_t taken = std::min(into.size(), left_.size());
    if (taken > 0) std::memcpy(into.data(), left_.data(), taken);
    left_ = left_.subspan(taken);
  }
  std::span<const std::byte> rest() const { return std::as_bytes(left_); }
  std::span<const std::byte> bytes(std::size_t count) {
    const auto taken = rest().first(std::min(count, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace understudy::fuzz
