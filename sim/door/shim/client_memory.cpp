#include "sim/door/shim/client_memory.h"

#include <sys/uio.h>

#include "sim/door/shim/raw.h"

namespace understudy::shim {
namespace {

long move(long system_call, std::uint64_t address, void* local, std::size_t bytes) {
  const iovec here{local, bytes};
  const iovec there{reinterpret_cast<void*>(address), bytes};
  return raw(system_call, raw(SYS_getpid), &here, 1, &there, 1, 0);
}

}  // namespace

long read_some(std::uint64_t address, void* into, std::size_t bytes) {
  return move(SYS_process_vm_readv, address, into, bytes);
}

long write_some(std::uint64_t address, const void* from, std::size_t bytes) {
  return move(SYS_process_vm_writev, address, const_cast<void*>(from), bytes);
}

bool write_all(std::uint64_t address, const void* from, std::size_t bytes) {
  return write_some(address, from, bytes) == static_cast<long>(bytes);
}

bool read_all(std::uint64_t address, void* into, std::size_t bytes) {
  return read_some(address, into, bytes) == static_cast<long>(bytes);
}

}  // namespace understudy::shim
