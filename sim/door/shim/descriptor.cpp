#include "sim/door/shim/descriptor.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include <string_view>

#include "sim/door/channel_protocol.h"
#include "sim/door/shim/connection.h"
#include "sim/door/shim/raw.h"
#include "sim/door/shim/text.h"

namespace understudy::shim {
namespace {

// What the names of all machines' sockets begin with.
constexpr std::string_view kAnyMachine = "understudy/";

// "<prefix>/<id>/<device number>", the last two in hex.
struct SocketName {
  std::string_view prefix;
  std::uint64_t file_id = 0;
  std::uint64_t device = 0;
};

// Takes "/<hex>" off the end of `text`.
bool take_hex(std::string_view* text, std::uint64_t* value) {
  *value = 0;
  for (unsigned shift = 0; !text->empty() && shift <= 64; shift += 4) {
    const char last = text->back();
    text->remove_suffix(1);
    if (last == '/') return shift > 0;
    const bool is_digit = last >= '0' && last <= '9';
    if (shift == 64 || (!is_digit && (last < 'a' || last > 'f'))) return false;
    *value |= static_cast<std::uint64_t>(is_digit ? last - '0' : last - 'a' + 10) << shift;
  }
  return false;
}

// The kernel's name of the other end; `address` keeps the text.
bool name_of_peer(int fd, sockaddr_un* address, SocketName* name) {
  socklen_t size = sizeof *address;
  if (raw(SYS_getpeername, fd, address, &size) != 0 || address->sun_family != AF_UNIX) return false;
  constexpr socklen_t kTextOffset = offsetof(sockaddr_un, sun_path) + 1;
  if (size <= kTextOffset || size > sizeof *address || address->sun_path[0] != '\0') return false;
  std::string_view text(address->sun_path + 1, size - kTextOffset);
  if (!begins_with(text, kAnyMachine)) return false;
  if (!take_hex(&text, &name->device) || !take_hex(&text, &name->file_id)) return false;
  name->prefix = text;
  return true;
}

DeviceNumber device_number(std::uint64_t device) {
  return {gnu_dev_major(device), gnu_dev_minor(device)};
}

void describe_socket(int fd, Descriptor* descriptor) {
  sockaddr_un address;
  SocketName name;
  if (!name_of_peer(fd, &address, &name)) return;
  int error = 0;
  const door::HelloReply* const machine = meet_machine(&error);
  if (machine != nullptr && name.prefix != machine->prefix) return;
  descriptor->kind = DescriptorKind::kFile;
  descriptor->error = error;
  descriptor->file_id = name.file_id;
  descriptor->number = device_number(name.device);
}

void describe_regular(Descriptor* descriptor) {
  if (is_node(descriptor->info, &descriptor->number)) {
    if (!(descriptor->info.st_ino & door::kOpenFileInodeBit)) return;
    int error = 0;
    const door::HelloReply* const machine = meet_machine(&error);
    if (machine != nullptr && descriptor->info.st_dev != machine->fuse_device) return;
    descriptor->kind = DescriptorKind::kFile;
    descriptor->error = error;
    descriptor->file_id = descriptor->info.st_ino & ~door::kOpenFileInodeBit;
    return;
  }
  const door::HelloReply* const machine = known_machine();
  if (machine != nullptr && descriptor->info.st_dev == machine->shmem_device)
    descriptor->kind = DescriptorKind::kMemory;
}

}  // namespace

Descriptor describe(int fd) {
  Descriptor descriptor;
  if (raw(SYS_fstat, fd, &descriptor.info) != 0) return descriptor;
  if (S_ISSOCK(descriptor.info.st_mode)) {
    describe_socket(fd, &descriptor);
  } else if (S_ISREG(descriptor.info.st_mode)) {
    describe_regular(&descriptor);
  }
  return descriptor;
}

bool is_machine_socket(int fd, DeviceNumber* number) {
  sockaddr_un address;
  SocketName name;
  if (!name_of_peer(fd, &address, &name)) return false;
  *number = device_number(name.device);
  return true;
}

}  // namespace understudy::shim
