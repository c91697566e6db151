// What the kernel ABI looks like, as data: the types in which the generated tables of uapi/<interface>.h
// describe ioctls, structs and constants.
//
// Owner: the tables are constants in read-only memory; everything here is borrowed from them and never freed.
// Units: offsets and sizes are bytes unless a name says bits. Errors: none. Thread-safety: immutable.
// Mirrors: include/uapi/asm-generic/ioctl.h (command encoding), include/drm/drm_ioctl.h (access flags).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uapi {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof(void*) == 8,
              "the layouts in uapi/*.json are those of 64-bit little-endian machines");

struct ConstantDescriptor {
  const char* name;
  std::uint64_t value;  // sign-extended where the constant is negative
};

// The names a field's value is printed with: one of the values, or a sum of flags.
struct ConstantSet {
  enum class Kind : std::uint8_t { kValues, kFlags };
  Kind kind;
  std::span<const ConstantDescriptor> constants;
};

enum class FieldKind : std::uint8_t {
  kUnsigned,
  kSigned,
  kPointer,  // points into the caller's memory, whether declared as a pointer or as a 64-bit integer
  kAddress,  // an address of a device or of the caller that the ioctl does not dereference
  kSize,     // a number of bytes
  kBits,     // bits without names, or with names in `constants`
  kChars,    // text, not necessarily terminated
  kStruct,   // `nested` says which; also unions
};

struct StructDescriptor;

struct FieldDescriptor {
  const char* name;
  std::uint32_t offset;
  std::uint32_t element_size;
  std::uint32_t count;  // 1 for a scalar, 0 for a flexible array at the end of the struct
  FieldKind kind;
  bool is_array;
  std::uint8_t bit_offset;  // from bit 0 of the unit at `offset`
  std::uint8_t bit_count;   // 0 when the field is not a bit-field
  // Fields of one anonymous union share a nonzero `union_group`; fields of one arm of it share `arm`.
  std::uint8_t union_group;
  std::uint8_t arm;
  const StructDescriptor* nested;
  const ConstantSet* constants;

  constexpr std::uint32_t size() const { return element_size * count; }
};

// Which arm of a struct's first anonymous union is meant, by the value of another field. For values without
// a choice the union means nothing.
struct ArmSelector {
  struct Choice {
    std::uint64_t value;
    std::uint8_t arm;
  };
  std::uint8_t field;  // index in StructDescriptor::fields
  std::span<const Choice> choices;
};

struct StructDescriptor {
  const char* name;
  std::uint32_t size;
  std::uint32_t align;
  bool is_union;
  std::span<const FieldDescriptor> fields;
  const ArmSelector* selector;  // null: no field says which arm
};

// Direction as _IOC encodes it, seen from user space: kWrite passes data to the kernel.
enum class Direction : std::uint8_t { kNone = 0, kWrite = 1, kRead = 2, kReadWrite = 3 };

// The access flags of drm_ioctl_desc and amdkfd_ioctl_desc.
enum class IoctlFlags : std::uint8_t {
  kNone = 0,
  kAuth = 1 << 0,
  kMaster = 1 << 1,
  kRootOnly = 1 << 2,
  kRenderAllow = 1 << 3,
  kCheckpointRestore = 1 << 4,
};
constexpr IoctlFlags operator|(IoctlFlags a, IoctlFlags b) {
  return static_cast<IoctlFlags>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr bool has(IoctlFlags flags, IoctlFlags bit) {
  return (static_cast<std::uint8_t>(flags) & static_cast<std::uint8_t>(bit)) != 0;
}

struct IoctlDescriptor {
  const char* name;  // as in the kernel header, e.g. "AMDKFD_IOC_GET_VERSION"
  const char* interface;
  std::uint32_t nr;
  std::uint32_t cmd;
  Direction dir;
  std::uint32_t size;
  const StructDescriptor* args;  // null when the argument is no struct
  IoctlFlags flags;
  bool has_handler;  // false: the header still defines it, the driver has no function for it

  constexpr bool render_allow() const { return has(flags, IoctlFlags::kRenderAllow); }
};

// A command of a protocol that is not made of ioctls, e.g. vhsakmt in a virtio-gpu context.
struct SubcommandDescriptor {
  const char* name;
  std::uint32_t value;
  const char* request_args;  // which member of the request carries the arguments, in words
  const char* response;
};
struct CommandDescriptor {
  const char* name;
  std::uint32_t value;
  const StructDescriptor* request;
  const StructDescriptor* response;  // null when the command has no response
  std::span<const SubcommandDescriptor> subcommands;
};

constexpr std::uint32_t cmd_nr(std::uint32_t cmd) {
  return cmd & 0xff;
}
constexpr std::uint32_t cmd_type(std::uint32_t cmd) {
  return (cmd >> 8) & 0xff;
}
constexpr std::uint32_t cmd_size(std::uint32_t cmd) {
  return (cmd >> 16) & 0x3fff;
}
constexpr Direction cmd_dir(std::uint32_t cmd) {
  return static_cast<Direction>(cmd >> 30);
}

// Base of the generated ioctl types: the parts of the command number, checked against the argument type.
template <std::uint32_t Cmd, typename ArgsType>
struct Ioctl {
  using Args = ArgsType;
  static constexpr std::uint32_t kCmd = Cmd;
  static constexpr std::uint32_t kNr = cmd_nr(Cmd);
  static constexpr std::uint32_t kSize = cmd_size(Cmd);
  static constexpr Direction kDir = cmd_dir(Cmd);
  static_assert(kSize == sizeof(Args));
};
template <std::uint32_t Cmd>
struct Ioctl<Cmd, void> {
  using Args = void;
  static constexpr std::uint32_t kCmd = Cmd;
  static constexpr std::uint32_t kNr = cmd_nr(Cmd);
  static constexpr std::uint32_t kSize = cmd_size(Cmd);
  static constexpr Direction kDir = cmd_dir(Cmd);
  static_assert(kSize == 0);
};

}  // namespace uapi
