#include "sim/cli/command_process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "sim/cli/say.h"
#include "sim/cli/usage_error.h"
#include "sim/door/channel_protocol.h"

namespace understudy::cli {
namespace {

int status_of(int error) {
  return error == ENOENT || error == ENOTDIR ? kExitNotFound : kExitCannotExecute;
}

std::string cannot_run(const std::string& program, int error) {
  return fmt::format("cannot run '{}': {}", program, std::strerror(error));
}

int try_executable(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return errno;
  if (!S_ISREG(info.st_mode)) return EACCES;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

}  // namespace

int check_executable(const std::string& program, std::string* message) {
  int error = ENOENT;
  if (program.find('/') != std::string::npos) {
    error = try_executable(program);
  } else {
    const char* path = ::getenv("PATH");
    std::string_view rest = path != nullptr ? path : "/bin:/usr/bin";
    while (error != 0) {
      const std::size_t colon = std::min(rest.find(':'), rest.size());
      const std::string directory(rest.substr(0, colon));
      const int here = try_executable((directory.empty() ? "." : directory) + "/" + program);
      if (here == 0 || here == EACCES) error = here;
      if (colon == rest.size()) break;
      rest.remove_prefix(colon + 1);
    }
  }
  if (error == 0) return 0;
  *message = cannot_run(program, error);
  return status_of(error);
}

void set_client_environment(const std::string& root, const std::string& shim) {
  ::setenv(UNDERSTUDY_ENVIRONMENT, root.c_str(), 1);
  const char* others = ::getenv("LD_PRELOAD");
  const std::string preload = others != nullptr && others[0] != '\0' ? shim + ":" + others : shim;
  ::setenv("LD_PRELOAD", preload.c_str(), 1);
}

void execute(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  say(cannot_run(command[0], error));
  ::_exit(status_of(error));
}

CommandProcess CommandProcess::fork(const std::vector<std::string>& command, const std::string& root,
                                    const std::string& shim, const sigset_t& signal_mask,
                                    int close_in_child) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw UsageError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  UniqueFd wait_end(ends[0]);
  CommandProcess process;
  process.go_ = UniqueFd(ends[1]);
  process.pid_ = ::fork();
  if (process.pid_ < 0) throw UsageError(fmt::format("cannot fork: {}", std::strerror(errno)));
  if (process.pid_ == 0) {
    process.go_.reset();
    ::close(close_in_child);
    ::sigprocmask(SIG_SETMASK, &signal_mask, nullptr);
    char go = 0;
    ssize_t got = 0;
    while ((got = ::read(wait_end.get(), &go, 1)) < 0 && errno == EINTR) {
    }
    if (got != 1) ::_exit(kExitUsage);
    set_client_environment(root, shim);
    execute(command);
  }
  return process;
}

void CommandProcess::begin() {
  const char go = 1;
  (void)!::write(go_.get(), &go, 1);
  go_.reset();
}

}  // namespace understudy::cli
