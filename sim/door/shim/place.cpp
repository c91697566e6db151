#include "sim/door/shim/place.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/door/shim/fd_link.h"
#include "sim/door/shim/owned_paths.h"
#include "sim/door/shim/raw.h"
#include "sim/door/shim/text.h"

namespace understudy::shim {
namespace {

constexpr unsigned kMaxLinks = 8;

std::string_view first_name(const char* path) {
  return {path, ::strcspn(path, "/")};
}

// Skips what does not name anything: slashes and dots.
const char* skip_dots(const char* path) {
  while (path[0] == '/' || (path[0] == '.' && (path[1] == '/' || path[1] == '\0'))) ++path;
  return path;
}

bool begins_like_owned(const char* path) {
  const std::string_view name = first_name(skip_dots(path));
  return !name.empty() && occurs_in_owned_paths(name);
}

// A look at the text alone: at its beginning, and at what follows the last "../", before which it may lead
// anywhere.
bool may_be_owned(const char* path) {
  if (begins_like_owned(path)) return true;
  const char* after_up = path;
  for (const char* up = path; (up = ::strstr(up, "../")) != nullptr;) after_up = up += 3;
  return after_up != path && begins_like_owned(after_up);
}

bool leads_up(const char* path) {
  return ::strncmp(path, "..", 2) == 0 || ::strstr(path, "/..") != nullptr;
}

}  // namespace

Place::Place(int directory, const char* path) : directory_(directory), path_(path) {
  if (!root::active() || path == nullptr || path[0] == '\0') return;
  bool is_inside = false;  // named by its place on disk
  if (path[0] == '/') {
    if (const char* const inside = root::name_on_machine(path)) {
      is_inside = true;
      path = inside;
    } else if (!may_be_owned(path)) {
      return;
    }
  } else if (!leads_up(path) && !may_be_owned(path)) {
    return;
  }
  const std::string_view tree = root::tree();
  ::memcpy(text_, tree.data(), tree.size());
  name_ = text_ + tree.size();
  name_[0] = '\0';
  if (path[0] != '/') {
    if (!begin_at(directory)) return;
    if (!was_in_tree_ && !may_be_owned(path)) return;
  }
  if (!append(path, kMaxLinks)) return;
  if (length_ == 0) return;
  // A trailing slash asks for a directory.
  const std::size_t path_bytes = ::strlen(path);
  const bool wants_directory = path[path_bytes - 1] == '/';
  if ((is_inside || is_owned()) && root::exists()) {
    in_tree_ = true;
    directory_ = AT_FDCWD;
    path_ = text_;
  } else if (was_in_tree_) {
    directory_ = AT_FDCWD;
    path_ = name_;
  }
  if (wants_directory && path_ != path && length_ + 1 < kMaxNameBytes) {
    name_[length_++] = '/';
    name_[length_] = '\0';
  }
}

bool Place::is_device() const {
  return in_tree_ && begins_with(name(), "/dev/");
}

bool Place::is_owned() {
  const Ownership ownership = ownership_of(name());
  if (ownership.claim != Claim::kOverlay) return ownership.claim == Claim::kWhole;
  const char next = name_[ownership.device_end];
  name_[ownership.device_end] = '\0';
  struct stat ignored;
  const bool found = raw(SYS_newfstatat, AT_FDCWD, text_, &ignored, AT_SYMLINK_NOFOLLOW) == 0;
  name_[ownership.device_end] = next;
  return found;
}

bool Place::append(const char* path, unsigned links_left) {
  while (*(path = skip_dots(path)) != '\0') {
    const std::string_view part = first_name(path);
    path += part.size();
    if (part == "..") {
      if (!leave(links_left)) return false;
      continue;
    }
    if (length_ + 1 + part.size() >= kMaxNameBytes) return false;
    name_[length_++] = '/';
    ::memcpy(name_ + length_, part.data(), part.size());
    length_ += static_cast<unsigned>(part.size());
    name_[length_] = '\0';
  }
  return true;
}

// "..": the parent of what a link leads to, not of the link.
bool Place::leave(unsigned links_left) {
  char target[512];
  const bool owned = is_owned();
  const char* const here = owned ? text_ : name_;
  const long got = length_ == 0 ? -EINVAL : raw(SYS_readlinkat, AT_FDCWD, here, target, sizeof target);
  was_in_tree_ = was_in_tree_ || owned;
  const auto drop_last = [this] {
    while (length_ > 0 && name_[--length_] != '/') {
    }
    name_[length_] = '\0';
  };
  drop_last();
  if (got < 0) return true;
  if (links_left == 0 || got == sizeof target) return false;
  target[got] = '\0';
  if (target[0] == '/') length_ = 0;
  if (!append(target, links_left - 1)) return false;
  drop_last();
  return true;
}

// The name of the directory that relative paths start from.
bool Place::begin_at(int directory) {
  char base[kMaxTreeBytes + kMaxNameBytes];
  long got;
  if (directory == AT_FDCWD) {
    got = raw(SYS_getcwd, base, sizeof base - 1);
  } else {
    got = raw(SYS_readlinkat, AT_FDCWD, FdLink(directory).path(), base, sizeof base - 1);
  }
  if (got <= 0 || base[0] != '/') return false;
  base[got] = '\0';
  const char* const inside = root::name_on_machine(base);
  was_in_tree_ = inside != nullptr;
  return append(inside != nullptr ? inside : base, kMaxLinks);
}

}  // namespace understudy::shim
