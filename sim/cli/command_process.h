// CommandProcess: the user's CMD, forked early, while the server is small and has one thread, and held back
// until its machine is up.
//
// Owner: the server. It is CMD's parent, so that process_vm_readv on CMD and its descendants is allowed under
// Yama's default, too. Units: none. Errors: CMD ends with 126 or 127 when it cannot be executed, as under
// env(1). Thread-safety: one thread.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "sim/core/fd.h"

namespace understudy::cli {

// What CMD gets: the shim loaded, and the way to its machine.
void set_client_environment(const std::string& root, const std::string& shim);
// Replaces this process by CMD; returns only to exit.
[[noreturn]] void execute(const std::vector<std::string>& command);
// 126 or 127 with a message when CMD cannot be executed, 0 when it seems so.
int check_executable(const std::string& program, std::string* message);

class CommandProcess {
 public:
  // Forks; the child waits. Standard descriptors, process group and `signal_mask` are CMD's.
  static CommandProcess fork(const std::vector<std::string>& command, const std::string& root,
                             const std::string& shim, const sigset_t& signal_mask, int close_in_child);
  CommandProcess() = default;

  pid_t pid() const { return pid_; }
  int go_fd() const { return go_.get(); }
  // Lets it go on. Not called (or the server dead): it ends without having run anything.
  void begin();

 private:
  pid_t pid_ = 0;
  UniqueFd go_;
};

}  // namespace understudy::cli
