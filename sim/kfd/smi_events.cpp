#include "sim/kfd/smi_events.h"

#include <fcntl.h>
#include <linux/capability.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "sim/core/ioctl_table.h"
#include "uapi/kfd.h"

namespace understudy::kfd {
namespace {

constexpr std::uint64_t mask_of(std::uint32_t event) {
  return std::uint64_t{1} << (event - 1);
}

}  // namespace

void SmiFile::ioctl(const CallRef& call) {
  refuse(call, Errno(ENOTTY));
}

Result<std::size_t> SmiFile::write(const Caller&, std::span<const std::byte> bytes) {
  std::uint64_t mask = 0;
  if (bytes.size() < sizeof mask) return Errno(EFAULT);
  std::memcpy(&mask, bytes.data(), sizeof mask);
  mask_ = mask;
  return sizeof mask;
}

// kfd_smi_events.c: kfd_smi_ev_enabled.
bool SmiFile::wants(pid_t pid, std::uint32_t event) const {
  const std::uint64_t mask = mask_;
  const bool others = privileged_ && (mask & mask_of(uapi::kfd::KFD_SMI_EVENT_ALL_PROCESS));
  if (pid != 0 && pid != watcher_ && !others) return false;
  return (mask & mask_of(event)) != 0;
}

Result<UniqueFd> SmiEvents::open(FileTable& files, const Client& client) {
  auto file = std::make_shared<SmiFile>(client.pid(), client.has_capability(CAP_SYS_ADMIN));
  UniqueFd descriptor = TRY(files.make_descriptor(file));
  if (::fcntl(descriptor.get(), F_SETFL, O_RDWR | O_NONBLOCK) != 0) return last_errno();
  const std::lock_guard lock(mutex_);
  std::erase_if(watchers_, [](const auto& watcher) { return watcher.expired(); });
  watchers_.push_back(file);
  return descriptor;
}

void SmiEvents::report(pid_t pid, std::uint32_t event, std::string_view text) {
  char number[16];
  std::snprintf(number, sizeof number, "%x ", event);
  std::string line = number;
  line.append(text).push_back('\n');
  if (line.size() > uapi::kfd::KFD_SMI_EVENT_MSG_SIZE) line.resize(uapi::kfd::KFD_SMI_EVENT_MSG_SIZE);
  std::vector<std::shared_ptr<SmiFile>> interested;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& watcher : watchers_) {
      auto file = watcher.lock();
      if (file && file->wants(pid, event)) interested.push_back(std::move(file));
    }
  }
  const auto bytes = std::as_bytes(std::span(line));
  for (const auto& file : interested) file->queue_read({bytes.begin(), bytes.end()});
}

}  // namespace understudy::kfd
