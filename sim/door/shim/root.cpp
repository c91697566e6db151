#include "sim/door/shim/root.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "sim/door/channel_protocol.h"
#include "sim/door/shim/raw.h"

namespace understudy::shim::root {
namespace {

enum State : int { kUnread, kAbsent, kActive };

constinit std::atomic<int> state{kUnread};
constinit char tree_path[kMaxTreeBytes + 1];
constinit char socket_path[kMaxTreeBytes + 1];
constinit unsigned tree_length = 0;

// Two threads may do this at once; both write the same.
int read_environment() {
  // Before libc has started nobody can have an environment; ask again later.
  if (environ == nullptr) return kUnread;
  const char* const path = ::getenv(UNDERSTUDY_ENVIRONMENT);
  const std::size_t length = path == nullptr ? 0 : ::strlen(path);
  if (length == 0 || path[0] != '/' || length + sizeof "/ctl" > kMaxTreeBytes) return kAbsent;
  ::snprintf(tree_path, sizeof tree_path, "%s/fs", path);
  ::snprintf(socket_path, sizeof socket_path, "%s/ctl", path);
  tree_length = static_cast<unsigned>(length + ::strlen("/fs"));
  return kActive;
}

}  // namespace

bool active() {
  int known = state.load(std::memory_order_acquire);
  if (known == kUnread) {
    known = read_environment();
    state.store(known, std::memory_order_release);
  }
  return known == kActive;
}

std::string_view tree() {
  return {tree_path, tree_length};
}

std::string_view socket() {
  return {socket_path, tree_length + 1};
}

bool exists() {
  return raw(SYS_faccessat, AT_FDCWD, socket_path, F_OK) != -ENOENT;
}

const char* name_on_machine(const char* path) {
  if (::strncmp(path, tree_path, tree_length) != 0) return nullptr;
  path += tree_length;
  return *path == '/' ? path : nullptr;
}

}  // namespace understudy::shim::root
