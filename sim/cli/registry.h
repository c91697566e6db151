// Registry: the machines of this user that are up: one directory each, which is the root that clients find in
// $UNDERSTUDY, in $XDG_RUNTIME_DIR, /dev/shm or /tmp. A lock file tells the living from what a kill left
// behind; the latter is cleared away at the next start of any machine.
//
// Owner: the processes of one machine share its MachineRoot's lock, inherited by fork. Units: none.
// Errors: UsageError. Thread-safety: one thread per process; processes exclude each other by flock.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "sim/core/fd.h"

namespace understudy::cli {

// What `understudy ps` shows and `stop` needs.
struct MachineInfo {
  std::string name;
  std::string root;
  // False while it is starting: the rest is not known yet.
  bool is_ready = false;
  pid_t supervisor = 0;
  std::string door;
  std::string devices;
  std::string seed;
};

class MachineRoot {
 public:
  // A fresh root: "run-XXXXXX" when `name` is empty, else the machine's name, which must not be up already.
  static MachineRoot create(const std::string& name);
  MachineRoot(MachineRoot&&) = default;

  const std::string& path() const { return path_; }
  std::string channel_path() const { return path_ + "/ctl"; }
  std::string tree_path() const { return path_ + "/fs"; }
  int lock_fd() const { return lock_.get(); }

  // The machine is ready: others may use it.
  void write_info(const MachineInfo& info) const;
  // A mount elsewhere, to be taken away with the root.
  void note_mount(const std::string& mount_point) const;
  // Where the last word of a machine in the background goes.
  std::string report_path() const { return path_ + "/report"; }
  // Unmounts what is mounted and removes everything. Also for a root whose server was killed.
  static void remove(const std::string& path);

 private:
  MachineRoot(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  UniqueFd lock_;
};

// The machines that are up or starting; clears away what is left of others.
std::vector<MachineInfo> running_machines();
std::optional<MachineInfo> find_machine(const std::string& name);
// One that is ready, perhaps after a little; otherwise the complaint says which there are.
MachineInfo require_machine(const std::string& name);

}  // namespace understudy::cli
