#include "sim/virtio_gpu/guest/memory_lock_account.h"

#include <linux/capability.h>
#include <sys/resource.h>

#include <limits>
#include <map>
#include <mutex>

namespace understudy::virtio_gpu {
namespace {

struct Account {
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> locked_bytes;  // by client id
};

Account& account() {
  static Account the_account;
  return the_account;
}

void give_back(std::uint64_t client_id, std::uint64_t size_bytes) {
  const std::lock_guard lock(account().mutex);
  const auto found = account().locked_bytes.find(client_id);
  if ((found->second -= size_bytes) == 0) account().locked_bytes.erase(found);
}

}  // namespace

Result<std::shared_ptr<void>> charge_locked_memory(Client& client, std::uint64_t size_bytes) {
  rlimit limit{};
  if (::prlimit(client.pid(), RLIMIT_MEMLOCK, nullptr, &limit) != 0) limit.rlim_cur = RLIM_INFINITY;
  const bool may_exceed = client.has_capability(CAP_IPC_LOCK);
  if (limit.rlim_cur == 0 && !may_exceed) return Errno(EPERM);
  constexpr std::uint64_t kPageBytes = 4096;
  if (size_bytes / kPageBytes > static_cast<std::uint64_t>(std::numeric_limits<int>::max()))
    return Errno(E2BIG);

  const std::uint64_t id = client.id();
  const std::lock_guard lock(account().mutex);
  std::uint64_t& locked = account().locked_bytes[id];
  if (!may_exceed && limit.rlim_cur != RLIM_INFINITY && locked + size_bytes > limit.rlim_cur) {
    if (locked == 0) account().locked_bytes.erase(id);
    return Errno(ENOMEM);
  }
  locked += size_bytes;
  return std::shared_ptr<void>(nullptr, [id, size_bytes](void*) { give_back(id, size_bytes); });
}

}  // namespace understudy::virtio_gpu
