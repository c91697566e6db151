#include "sim/cli/registry.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "sim/cli/usage_error.h"

extern char** environ;

namespace understudy::cli {
namespace {

// Only the user's own, unless root's: its clients may drop their privileges and must still get in.
mode_t directory_mode() {
  return ::geteuid() == 0 ? 0711 : 0700;
}

std::string registry_path() {
  const char* runtime = ::getenv("XDG_RUNTIME_DIR");
  const bool usable = runtime != nullptr && runtime[0] == '/' && ::access(runtime, W_OK | X_OK) == 0;
  return fmt::format("{}/understudy-{}", usable ? runtime : "/tmp", ::geteuid());
}

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw UsageError(fmt::format("{} {}: {}", what, path, std::strerror(errno)));
}

// The registry directory, held under its lock; made if missing.
class LockedRegistry {
 public:
  LockedRegistry() : path_(registry_path()) {
    for (;;) {
      if (::mkdir(path_.c_str(), directory_mode()) != 0 && errno != EEXIST)
        fail("cannot make the directory", path_);
      directory_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!directory_) fail("cannot open the directory", path_);
      struct stat info {};
      if (::fstat(directory_.get(), &info) != 0) fail("cannot look at", path_);
      if (info.st_uid != ::geteuid() || (info.st_mode & 022))
        throw UsageError(
            fmt::format("{} belongs to somebody else or is open to others: remove it, or set "
                        "XDG_RUNTIME_DIR to a directory of your own",
                        path_));
      while (::flock(directory_.get(), LOCK_EX) != 0 && errno == EINTR) {
      }
      // The last machine may have taken the directory away meanwhile.
      if (::fstat(directory_.get(), &info) == 0 && info.st_nlink > 0) return;
    }
  }
  // Leaves nothing behind when no machine is up.
  ~LockedRegistry() { ::rmdir(path_.c_str()); }

  const std::string& path() const { return path_; }

  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    DIR* listing = ::fdopendir(::dup(directory_.get()));
    if (listing == nullptr) return names;
    ::rewinddir(listing);
    while (const dirent* entry = ::readdir(listing)) {
      if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    ::closedir(listing);
    return names;
  }

 private:
  const std::string path_;
  UniqueFd directory_;
};

bool is_up(const std::string& root) {
  const UniqueFd lock(::open((root + "/lock").c_str(), O_RDWR | O_CLOEXEC));
  if (!lock) return false;
  return ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
}

// Runs a helper program quietly and waits for it.
void run_quietly(const char* program, std::vector<std::string> arguments) {
  std::vector<char*> argv{const_cast<char*>(program)};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  if (::posix_spawnp(&child, program, &actions, nullptr, argv.data(), environ) == 0) {
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::posix_spawn_file_actions_destroy(&actions);
}

bool is_mount_point(const std::string& path) {
  struct statx found {};
  return ::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_INO, &found) != 0
             ? errno == ENOTCONN
             : (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

int remove_entry(const char* path, const struct stat*, int type, FTW*) {
  if (type == FTW_DP || type == FTW_D || type == FTW_DNR) {
    ::rmdir(path);
  } else {
    ::unlink(path);
  }
  return 0;
}

void unmount(const std::string& path) {
  if (!is_mount_point(path)) return;
  if (::umount2(path.c_str(), MNT_DETACH) == 0) return;
  run_quietly("fusermount3", {"-u", "-q", "-z", "--", path});
}

void clear_away(const std::string& root) {
  std::string tree = root + "/fs";
  // A link to a mount point of the user's choice (--mount).
  char target[PATH_MAX];
  const ssize_t length = ::readlink(tree.c_str(), target, sizeof target);
  if (length > 0) tree.assign(target, static_cast<std::size_t>(length));
  unmount(tree);
  // Never across a mount that would not go.
  ::nftw(root.c_str(), &remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

MachineInfo read_info(const std::string& name, const std::string& root) {
  MachineInfo info;
  info.name = name;
  info.root = root;
  std::ifstream file(root + "/info");
  std::map<std::string, std::string> values;
  for (std::string line; std::getline(file, line);) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) values[line.substr(0, equals)] = line.substr(equals + 1);
  }
  info.supervisor = static_cast<pid_t>(std::atoi(values["supervisor"].c_str()));
  info.door = values["door"];
  info.devices = values["devices"];
  info.seed = values["seed"];
  return info;
}

std::vector<MachineInfo> machines_in(const LockedRegistry& registry) {
  std::vector<MachineInfo> machines;
  for (const std::string& name : registry.entries()) {
    const std::string root = registry.path() + "/" + name;
    if (is_up(root)) {
      machines.push_back(read_info(name, root));
    } else {
      clear_away(root);
    }
  }
  return machines;
}

}  // namespace

MachineRoot MachineRoot::create(const std::string& name) {
  const LockedRegistry registry;
  for (const MachineInfo& machine : machines_in(registry)) {
    if (machine.name == name)
      throw UsageError(
          fmt::format("machine '{0}' is already up (understudy stop {0}, or choose another name)", name));
  }
  std::string path = registry.path() + "/" + (name.empty() ? "run-XXXXXX" : name);
  if (name.empty()) {
    if (::mkdtemp(path.data()) == nullptr) fail("cannot make a directory in", registry.path());
  } else if (::mkdir(path.c_str(), 0700) != 0) {
    fail("cannot make the directory", path);
  }
  ::chmod(path.c_str(), directory_mode());
  UniqueFd lock(::open((path + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    clear_away(path);
    errno = error;
    fail("cannot lock", path);
  }
  MachineRoot root(path, std::move(lock));
  if (::mkdir(root.tree_path().c_str(), 0755) != 0) fail("cannot make the directory", root.tree_path());
  return root;
}

void MachineRoot::write_info(const MachineInfo& info) const {
  std::ofstream file(path_ + "/info");
  file << "supervisor=" << info.supervisor << "\ndoor=" << info.door << "\ndevices=" << info.devices
       << "\nseed=" << info.seed << "\n";
}

void MachineRoot::remove(const std::string& path) {
  const LockedRegistry registry;
  clear_away(path);
}

std::vector<MachineInfo> running_machines() {
  const LockedRegistry registry;
  return machines_in(registry);
}

std::optional<MachineInfo> find_machine(const std::string& name) {
  for (MachineInfo& machine : running_machines()) {
    if (machine.name == name) return std::move(machine);
  }
  return std::nullopt;
}

}  // namespace understudy::cli
