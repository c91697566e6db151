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

#include <chrono>
#include <climits>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "sim/cli/usage_error.h"

extern char** environ;

namespace understudy::cli {
namespace {

constexpr const char* kInfoFile = "/info";
constexpr const char* kMountLink = "/mount";
constexpr std::chrono::seconds kStartPatience{10};
constexpr std::chrono::milliseconds kPause{5};

// Only the user's own, unless root's: its clients may drop their privileges and must still get in.
mode_t directory_mode() {
  return ::geteuid() == 0 ? 0711 : 0700;
}

// The socket door writes a few hundred files for each GPU, which memory takes faster than a disk.
std::string registry_path() {
  const char* runtime = ::getenv("XDG_RUNTIME_DIR");
  for (const char* directory : {runtime, "/dev/shm"}) {
    if (directory != nullptr && directory[0] == '/' && ::access(directory, W_OK | X_OK) == 0)
      return fmt::format("{}/understudy-{}", directory, ::geteuid());
  }
  return fmt::format("/tmp/understudy-{}", ::geteuid());
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
  unmount(root + "/fs");
  char mount_point[PATH_MAX];
  const ssize_t length = ::readlink((root + kMountLink).c_str(), mount_point, sizeof mount_point);
  if (length > 0) unmount(std::string(mount_point, static_cast<std::size_t>(length)));
  // Never across a mount that would not go.
  ::nftw(root.c_str(), &remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

MachineInfo read_info(const std::string& name, const std::string& root) {
  MachineInfo info;
  info.name = name;
  info.root = root;
  std::ifstream file(root + kInfoFile);
  info.is_ready = file.is_open();
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
  // There from the start, so that `stop` can hold it while the machine goes.
  std::ofstream(root.report_path()).flush();
  return root;
}

void MachineRoot::write_info(const MachineInfo& info) const {
  const std::string complete = path_ + kInfoFile;
  const std::string partial = complete + ".new";
  std::ofstream file(partial);
  file << "supervisor=" << info.supervisor << "\ndoor=" << info.door << "\ndevices=" << info.devices
       << "\nseed=" << info.seed << "\n";
  file.close();
  ::rename(partial.c_str(), complete.c_str());
}

void MachineRoot::note_mount(const std::string& mount_point) const {
  (void)!::symlink(mount_point.c_str(), (path_ + kMountLink).c_str());
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

MachineInfo require_machine(const std::string& name) {
  const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
  while (std::optional<MachineInfo> machine = find_machine(name)) {
    if (machine->is_ready) return std::move(*machine);
    if (std::chrono::steady_clock::now() > deadline)
      throw UsageError(fmt::format("machine '{}' is still starting", name));
    std::this_thread::sleep_for(kPause);
  }
  std::string names;
  for (const MachineInfo& other : running_machines()) names += (names.empty() ? "" : ", ") + other.name;
  throw UsageError(fmt::format("no machine '{}' is up ({})", name,
                               names.empty() ? "none is: start one with understudy serve" : "up: " + names));
}

}  // namespace understudy::cli
