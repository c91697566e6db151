// Values: what fields of structs are filled with: constants of the field, pointers into the arena, what
// earlier calls gave back (handles, ids, offsets, descriptors), sizes, and now and then anything.
//
// Owner: CallProgram or a target of its own. Units: none. Errors: none. Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/fuzz/arena.h"
#include "tests/fuzz/input.h"
#include "uapi/descriptor.h"

namespace understudy::fuzz {

class Values {
 public:
  explicit Values(const Arena& arena) : arena_(arena) {}

  // What later fields may hold.
  void remember(std::uint64_t value) { known_[next_known_++ % std::size(known_)] = value; }
  // Remembers every field of `after` that is not as in `before`.
  void learn(const uapi::StructDescriptor& type, std::span<const std::byte> before,
             std::span<const std::byte> after);

  std::uint64_t value(Input& input);
  std::uint64_t pointer(Input& input);
  void fill(Input& input, const uapi::StructDescriptor& type, std::span<std::byte> bytes);

 private:
  std::uint64_t value_of(Input& input, const uapi::FieldDescriptor& field);

  const Arena& arena_;
  std::uint64_t known_[32] = {};
  std::size_t next_known_ = 0;
};

}  // namespace understudy::fuzz
