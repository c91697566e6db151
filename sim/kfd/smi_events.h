// SmiEvents: who watches a GPU's system-management events, and the lines they get.
//
// Owner: KfdDriver, one per GPU. Units: none. Errors: those of making a descriptor. Thread-safety: locks
// itself. Mirrors: amdkfd/kfd_smi_events.c.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/file.h"

namespace understudy::kfd {

class SmiFile : public File {
 public:
  SmiFile(pid_t watcher, bool privileged) : watcher_(watcher), privileged_(privileged) {}

  std::string label() const override { return "kfd_smi_ev"; }
  bool has_read() const override { return true; }
  void ioctl(const CallRef& call) override;  // ENOTTY
  // The mask of events wanted, 8 bytes: EFAULT for less.
  Result<std::size_t> write(const Caller& caller, std::span<const std::byte> bytes) override;

  // `pid`: whom the event is about, 0 for everybody.
  bool wants(pid_t pid, std::uint32_t event) const;

 private:
  const pid_t watcher_;
  const bool privileged_;  // may watch other processes
  std::atomic<std::uint64_t> mask_{0};
};

class SmiEvents {
 public:
  // A descriptor of a new watcher. Reads do not block, whatever its flags say, as with the real one.
  Result<UniqueFd> open(FileTable& files, const Client& client);
  // `text` is what follows the event's number, without the newline.
  void report(pid_t pid, std::uint32_t event, std::string_view text);

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<SmiFile>> watchers_;  // guarded by mutex_
};

}  // namespace understudy::kfd
