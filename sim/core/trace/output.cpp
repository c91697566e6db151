#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "sim/core/trace/record.h"

namespace understudy::trace {
namespace {

constexpr std::size_t kFlushBytes = 64 * 1024;

}  // namespace

std::unique_ptr<Output> Output::open(const std::string& path) {
  if (path == "-") return std::unique_ptr<Output>(new Output(STDERR_FILENO, false));
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return nullptr;
  return std::unique_ptr<Output>(new Output(fd, true));
}

Output::~Output() {
  flush();
  if (owned_) ::close(fd_);
}

void Output::write(std::string_view text) {
  pending_ += text;
  if (!owned_ || pending_.size() >= kFlushBytes) flush();
}

void Output::flush() {
  std::string_view left = pending_;
  while (!left.empty()) {
    const ssize_t written = ::write(fd_, left.data(), left.size());
    if (written <= 0) break;
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  pending_.clear();
}

std::string result_text(int value) {
  if (value >= 0) return std::to_string(value);
  const char* name = ::strerrorname_np(-value);
  return "-1 " + (name ? std::string(name) : "errno " + std::to_string(-value));
}

}  // namespace understudy::trace
