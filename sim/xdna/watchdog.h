// Watchdog: ends a command that moves more than hardware could before its driver lost patience, or that
// nobody waits for any more. Counts words instead of time, so that a slow host changes no result.
//
// Owner: one per command (a chain is one). Units: 32-bit words. Errors: step() says when to stop.
// Thread-safety: none. Mirrors: aie2_tdr.c, seen from the device.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

namespace understudy::xdna {

class Watchdog {
 public:
  static constexpr std::uint64_t kMaxWords = std::uint64_t{1} << 27;
  // How many words pass between two questions whether the command is still wanted.
  static constexpr std::uint64_t kAskEveryWords = 4096;

  explicit Watchdog(std::function<bool()> is_wanted, std::uint64_t max_words = kMaxWords)
      : is_wanted_(std::move(is_wanted)), max_words_(max_words) {}

  // One more word. False: stop here, now and ever after.
  bool step() {
    if (!stopped_) stopped_ = words_ >= max_words_ || (words_ % kAskEveryWords == 0 && !is_wanted_());
    ++words_;
    return !stopped_;
  }
  bool stopped() const { return stopped_; }

 private:
  const std::function<bool()> is_wanted_;
  const std::uint64_t max_words_;
  std::uint64_t words_ = 0;
  bool stopped_ = false;
};

}  // namespace understudy::xdna
