#include "sim/door/fuse/interrupts.h"

#include <utility>

namespace understudy::door {

Interrupts::Key Interrupts::watch(fuse_req_t request, std::function<void()> interrupted) {
  Key key = 0;
  {
    const std::lock_guard lock(mutex_);
    key = next_++;
    watched_.emplace(key, std::move(interrupted));
  }
  ::fuse_req_interrupt_func(request, &Interrupts::on_interrupt, reinterpret_cast<void*>(key));
  return key;
}

void Interrupts::forget(Key key) {
  const std::lock_guard lock(mutex_);
  watched_.erase(key);
  forgotten_.notify_all();
}

bool Interrupts::interrupt_all(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  for (auto entry = watched_.begin(); entry != watched_.end();) {
    const Key key = entry->first;
    lock.unlock();
    run(key);
    lock.lock();
    entry = watched_.upper_bound(key);
  }
  return forgotten_.wait_for(lock, patience, [this] { return watched_.empty(); });
}

void Interrupts::on_interrupt(fuse_req_t request, void* data) {
  auto& session = *static_cast<SessionData*>(::fuse_req_userdata(request));
  session.machine.reactor().post(
      [&session, key = reinterpret_cast<Key>(data)] { session.interrupts.run(key); });
}

void Interrupts::run(Key key) {
  std::function<void()> interrupted;
  {
    const std::lock_guard lock(mutex_);
    const auto found = watched_.find(key);
    if (found == watched_.end()) return;
    interrupted = std::exchange(found->second, nullptr);
  }
  if (interrupted) interrupted();
}

}  // namespace understudy::door
