// The memory a step hands to the kernel: every buffer ends exactly at an inaccessible page, so that a reader
// of more bytes than the caller's command announces gets EFAULT.
//
// Owner: the step being run. Units: bytes. Errors: ends the probe when memory cannot be had. Used by one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "names.h"
#include "program.h"

namespace probe {

class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t size_bytes);
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer(const GuardedBuffer&) = delete;
  ~GuardedBuffer();
  std::span<std::uint8_t> bytes() const { return {start_, size_bytes_}; }

 private:
  std::uint8_t* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::uint8_t* start_ = nullptr;
  std::size_t size_bytes_ = 0;
};

std::uint64_t load(std::span<const std::uint8_t> bytes, std::size_t offset, std::size_t width);
void store(std::span<std::uint8_t> bytes, std::size_t offset, std::size_t width, std::uint64_t value);

// The JSON members of what differs between `before` and the buffers' contents now: watched fields by name,
// other bytes as "LABEL+offset".
std::string changed_fields(const Step& step, const std::vector<std::vector<std::uint8_t>>& before,
                           const std::vector<GuardedBuffer>& buffers, Names& names);

}  // namespace probe
