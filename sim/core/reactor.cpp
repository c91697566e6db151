#include "sim/core/reactor.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>

namespace understudy {

struct Reactor::Watch {
  int fd = -1;
  std::uint32_t events = 0;
  Function function;
  std::mutex mutex;
  std::condition_variable idle;
  bool removed = false;              // guarded by mutex
  std::thread::id running_thread{};  // guarded by mutex
};

Reactor::Reactor(unsigned thread_count)
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
  if (!epoll_ || !wake_) std::abort();
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 0;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) std::abort();
  for (unsigned i = 0; i < thread_count; ++i) threads_.emplace_back([this] { run(); });
}

Reactor::~Reactor() {
  stop();
}

void Reactor::stop() {
  if (stopping_.exchange(true)) return;
  const std::uint64_t wakes = threads_.size() * 2;
  (void)!::write(wake_.get(), &wakes, sizeof wakes);
  for (std::thread& thread : threads_) thread.join();
  // What work still refers to may be gone before the reactor.
  std::deque<std::function<void()>> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(posted_);
}

Result<Reactor::WatchId> Reactor::watch(int fd, std::uint32_t events, Function function) {
  auto watch = std::make_shared<Watch>();
  watch->fd = fd;
  watch->events = events | EPOLLONESHOT;
  watch->function = std::move(function);
  WatchId id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_id_++;
    watches_[id] = watch;
  }
  epoll_event event{};
  event.events = watch->events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const Errno error = last_errno();
    const std::lock_guard lock(mutex_);
    watches_.erase(id);
    return error;
  }
  return id;
}

void Reactor::unwatch(WatchId id) {
  std::shared_ptr<Watch> watch;
  {
    const std::lock_guard lock(mutex_);
    const auto found = watches_.find(id);
    if (found == watches_.end()) return;
    watch = std::move(found->second);
    watches_.erase(found);
  }
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watch->fd, nullptr);
  std::unique_lock lock(watch->mutex);
  watch->removed = true;
  watch->idle.wait(lock, [&] {
    return watch->running_thread == std::thread::id{} || watch->running_thread == std::this_thread::get_id();
  });
}

void Reactor::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void Reactor::run() {
  // Signals are the business of the thread that started the machine.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  while (!stopping_) {
    epoll_event event{};
    if (::epoll_wait(epoll_.get(), &event, 1, -1) != 1) continue;
    if (event.data.u64 == 0) {
      std::uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof count);
      std::function<void()> work;
      {
        const std::lock_guard lock(mutex_);
        if (!posted_.empty()) {
          work = std::move(posted_.front());
          posted_.pop_front();
        }
      }
      if (work) work();
      continue;
    }
    std::shared_ptr<Watch> watch;
    {
      const std::lock_guard lock(mutex_);
      const WatchId id = event.data.u64;  // epoll_event is packed: no references into it
      const auto found = watches_.find(id);
      if (found == watches_.end()) continue;
      watch = found->second;
    }
    {
      const std::lock_guard lock(watch->mutex);
      if (watch->removed) continue;
      watch->running_thread = std::this_thread::get_id();
    }
    watch->function(event.events);
    const std::lock_guard lock(watch->mutex);
    watch->running_thread = {};
    watch->idle.notify_all();
    if (!watch->removed) {
      epoll_event again{};
      again.events = watch->events;
      again.data.u64 = event.data.u64;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, watch->fd, &again);
    }
  }
}

}  // namespace understudy
