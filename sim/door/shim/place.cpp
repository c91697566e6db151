#include "sim/door/shim/place.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/door/shim/fd_link.h"
#include "sim/door/shim/owned_paths.h"
#include "sim/door/shim/raw.h"

namespace understudy::shim {
namespace {

constexpr unsigned kMaxLinks = 8;

std::string_view first_name(const char* path) {
  return {path, ::strcspn(path, "/")};
}

// Skips what does not name anything: slashes and dots.
const char* skip_dots(const char* path) {
  for (;;) {
    if (path[0] == '/') {
      ++path;
    } else if (path[0] == '.' && (path[1] == '/' || path[1] == '\0')) {
      ++path;
    } else {
      return path;
    }
  }
}

// A look at the text alone. What follows the last "../" decides, since all before it may lead anywhere.
bool may_be_owned(const char* path) {
  const char* start = skip_dots(path);
  for (const char* up = start; (up = ::strstr(up, "../")) != nullptr;) start = skip_dots(up += 3);
  const std::string_view name = first_name(start);
  return !name.empty() && occurs_in_owned_paths(name);
}

}  // namespace

Place::Place(int directory, const char* path, Effort effort) : directory_(directory), path_(path) {
  if (!root::active() || path == nullptr || path[0] == '\0') return;
  bool is_inside = false;  // named by its place on disk
  if (path[0] == '/') {
    if (const char* const inside = root::name_on_machine(path)) {
      is_inside = true;
      path = inside;
    } else if (!may_be_owned(path)) {
      return;
    }
  } else if (effort == Effort::kCheap && !may_be_owned(path)) {
    return;
  }
  const std::string_view tree = root::tree();
  ::memcpy(text_, tree.data(), tree.size());
  name_ = text_ + tree.size();
  name_[0] = '\0';
  bool started_inside = false;
  if (path[0] != '/' && !begin_at(directory, &started_inside)) return;
  if (!append(path, kMaxLinks)) return;
  if (length_ == 0) return;
  // A trailing slash asks for a directory.
  const std::size_t path_bytes = ::strlen(path);
  const bool wants_directory = path[path_bytes - 1] == '/';
  if ((is_inside || is_owned()) && root::exists()) {
    in_tree_ = true;
    directory_ = AT_FDCWD;
    path_ = text_;
  } else if (started_inside) {
    // ".." has led out of the tree, which the kernel cannot know.
    directory_ = AT_FDCWD;
    path_ = name_;
  }
  if (wants_directory && path_ != path && length_ + 1 < kMaxNameBytes) {
    name_[length_++] = '/';
    name_[length_] = '\0';
  }
}

bool Place::is_device() const {
  return in_tree_ && name().starts_with("/dev/");
}

const char* Place::on_disk() {
  return is_owned() ? text_ : name_;
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
  const long got = length_ == 0 ? -EINVAL : raw(SYS_readlinkat, AT_FDCWD, on_disk(), target, sizeof target);
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
bool Place::begin_at(int directory, bool* inside_tree) {
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
  *inside_tree = inside != nullptr;
  return append(inside != nullptr ? inside : base, kMaxLinks);
}

}  // namespace understudy::shim
