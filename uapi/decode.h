// Kernel ABI structs as text, for traces, reports and messages: `{gpu_id=24562, size=2 MiB, flags=...}`.
//
// Works from the descriptor tables alone, so every ioctl prints without code of its own. Never reads outside
// `bytes` and never follows a pointer. Sizes print with units, addresses and bits in hexadecimal, flags and
// enumerators by their kernel names.
// Errors: none; fields that `bytes` is too short for are left out. Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "uapi/descriptor.h"

namespace uapi {

// An argument with the arms `in` and `out` is the one before the call and the other after it.
enum class Moment { kEntry, kExit };

std::string decode(const StructDescriptor& type, std::span<const std::byte> bytes,
                   Moment moment = Moment::kEntry);

// The argument of an ioctl; empty when it has none.
std::string decode(const IoctlDescriptor& ioctl, std::span<const std::byte> bytes, Moment moment);

// `value` in the names of `set`; what has no name stays a number.
std::string decode(const ConstantSet& set, std::uint64_t value);

// Null when there is none.
const StructDescriptor* find_struct(std::span<const StructDescriptor> structs, std::string_view name);
const IoctlDescriptor* find_ioctl(std::span<const IoctlDescriptor> ioctls, std::string_view name);
const IoctlDescriptor* find_ioctl(std::span<const IoctlDescriptor> ioctls, std::uint32_t nr);

}  // namespace uapi
