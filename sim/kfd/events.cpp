#include "sim/kfd/events.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "sim/core/machine.h"

namespace understudy::kfd {
namespace {

using uapi::kfd::kfd_event_data;
using uapi::kfd::KFD_IOC_WAIT_RESULT_COMPLETE;
using uapi::kfd::KFD_IOC_WAIT_RESULT_FAIL;
using uapi::kfd::KFD_IOC_WAIT_RESULT_TIMEOUT;

constexpr std::uint32_t kFirstOtherId = 0x40000000;
constexpr std::uint32_t kLastOtherId = 0x7fffffff;
constexpr std::uint32_t kTimeoutImmediate = 0;
constexpr std::uint32_t kTimeoutInfinite = 0xffffffff;
constexpr std::uint32_t kLongestFiniteTimeoutMs = 0x7fffffff;
constexpr std::uint64_t kNsPerMs = 1'000'000;
// What the oldest user space can use of a page it has not mapped itself.
constexpr std::uint64_t kUnmappedPageBytes = 256 * 8;
// The entries up to the first unreadable one.
std::vector<kfd_event_data> read_event_array(Call& call, const uapi::kfd::kfd_ioctl_wait_events_args& args) {
  std::vector<kfd_event_data> entries(args.num_events);
  if (entries.empty()) return entries;
  const auto bytes = std::as_writable_bytes(std::span(entries));
  const Result<std::size_t> moved = call.memory().read_some(args.events_ptr, bytes);
  entries.resize(moved ? moved.value() / sizeof(kfd_event_data) : 0);
  return entries;
}

bool uses_slot(std::uint32_t type) {
  return type == uapi::kfd::KFD_IOC_EVENT_SIGNAL || type == uapi::kfd::KFD_IOC_EVENT_DEBUG_EVENT;
}

}  // namespace

struct Events::Wait {
  struct Entry {
    std::uint32_t event_id = 0;
    bool destroyed = false;
    bool activated = false;
    bool age_enabled = false;
  };
  CallRef call;
  uapi::kfd::kfd_ioctl_wait_events_args* args = nullptr;  // in call->arguments
  bool all = false;
  std::uint64_t deadline_ns = 0;
  std::vector<Entry> entries;
  bool ended = false;
  Clock::TimerId timer = 0;
};

// An ended wait with everything needed to answer it without the lock.
struct Events::Finished {
  struct Copy {
    std::uint64_t address = 0;
    std::array<std::byte, sizeof(uapi::kfd::kfd_hsa_memory_exception_data)> data{};
    std::size_t size_bytes = 0;
  };
  CallRef call;
  uapi::kfd::kfd_ioctl_wait_events_args* args = nullptr;
  std::uint32_t result = 0;
  Outcome outcome = 0;
  std::vector<Copy> copies;
  Clock::TimerId timer = 0;

  // The last step of kfd_wait_on_events: data of signalled events, then the result.
  Outcome conclude() {
    for (const Copy& copy : copies) {
      if (!call->memory().write(copy.address, std::span(copy.data).first(copy.size_bytes))) {
        args->wait_result = KFD_IOC_WAIT_RESULT_FAIL;
        return Errno(EFAULT);
      }
    }
    args->wait_result = result;
    return outcome;
  }
};

Events::Events(Machine& machine, const Rules& rules)
    : machine_(machine),
      rules_(rules),
      signal_events_(1, uapi::kfd::KFD_SIGNAL_EVENT_LIMIT - 1),
      other_events_(kFirstOtherId, kLastOtherId) {}

Events::~Events() = default;

std::uint64_t* Events::slots() {
  return slots_.empty() ? nullptr : reinterpret_cast<std::uint64_t*>(slots_.data());
}

// Requires mutex_. Fills every slot with "unsignalled".
Result<void> Events::adopt_page(BufferRef page, std::uint64_t mapped_bytes) {
  const std::span<std::byte> bytes = TRY(page->bytes());
  slots_ = bytes.first(kSignalPageBytes);
  std::fill(slots_.begin(), slots_.end(), std::byte{0xff});
  signal_page_ = std::move(page);
  mapped_bytes_ = mapped_bytes;
  return {};
}

Result<void> Events::set_signal_page(BufferRef page, std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  if (signal_page_ || size_bytes < kSignalPageBytes) return Errno(EINVAL);
  page_from_user_ = true;
  return adopt_page(std::move(page), size_bytes);
}

bool Events::has_signal_page() const {
  const std::lock_guard lock(mutex_);
  return signal_page_ != nullptr;
}

// kfd_events.c: kfd_event_mmap.
Result<BufferRef> Events::map_kernel_page(std::uint64_t length_bytes) {
  const std::lock_guard lock(mutex_);
  if (length_bytes > kSignalPageBytes || !signal_page_ || page_from_user_) return Errno(EINVAL);
  mapped_bytes_ = length_bytes;
  return signal_page_;
}

Events::Event* Events::find(std::uint32_t id) {
  return id >= kFirstOtherId ? other_events_.find(id) : signal_events_.find(id);
}

// Requires mutex_. kfd_events.c: create_signal_event; slot 0 is never given out.
Result<void> Events::check_free_slot() {
  if (!signal_page_) {
    if (!rules_.kernel_makes_page) return Errno(ENOMEM);
    TRY(adopt_page(Buffer::create("kfd-signal-page", kSignalPageBytes), kUnmappedPageBytes));
  }
  const std::uint64_t usable = std::min<std::uint64_t>(mapped_bytes_, kSignalPageBytes) / 8 - 1;
  if (signal_events_.size() >= std::min(usable, rules_.slot_limit)) return Errno(ENOSPC);
  return {};
}

Result<Events::Created> Events::create(const Call* call, std::uint32_t type, bool auto_reset) {
  Event event;
  event.type = type;
  event.auto_reset = auto_reset;
  event.entry = machine_.ledger().open(ObjectKind::kEvent, call, "event of type " + std::to_string(type));
  const std::lock_guard lock(mutex_);
  if (!uses_slot(type)) {
    const auto id = other_events_.allocate(std::move(event));
    if (!id) return Errno(ENOSPC);
    return Created{*id, false};
  }
  TRY(check_free_slot());
  const auto id = signal_events_.allocate(std::move(event));
  if (!id) return Errno(ENOSPC);
  std::atomic_ref(slots()[*id]).store(kUnsignaledSlot);
  return Created{*id, true};
}

Result<void> Events::destroy(const Call* call, std::uint32_t id) {
  FinishedList finished;
  {
    const std::lock_guard lock(mutex_);
    Event* event = find(id);
    if (event == nullptr) return Errno(EINVAL);
    event->entry.close(call);
    const auto sleepers = std::move(event->sleepers);
    for (const auto& [wait, index] : sleepers) wait->entries[index].destroyed = true;
    id >= kFirstOtherId ? (void)other_events_.remove(id) : (void)signal_events_.remove(id);
    for (const auto& [wait, index] : sleepers) check(wait, finished);
  }
  answer(std::move(finished));
  return {};
}

Result<void> Events::set(std::uint32_t id) {
  FinishedList finished;
  {
    const std::lock_guard lock(mutex_);
    Event* event = find(id);
    if (event == nullptr || event->type != uapi::kfd::KFD_IOC_EVENT_SIGNAL) return Errno(EINVAL);
    set_locked(*event, finished);
  }
  answer(std::move(finished));
  return {};
}

Result<void> Events::reset(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  Event* event = find(id);
  if (event == nullptr || event->type != uapi::kfd::KFD_IOC_EVENT_SIGNAL) return Errno(EINVAL);
  event->signaled = false;
  return {};
}

// kfd_events.c: set_event. An auto-reset event that wakes somebody stays unsignalled.
void Events::set_locked(Event& event, FinishedList& finished) {
  if (++event.age == 0) event.age = 2;
  event.signaled = !event.auto_reset || event.sleepers.empty();
  const auto sleepers = event.sleepers;  // check() takes ended waits off the list
  for (const auto& [wait, index] : sleepers) wait->entries[index].activated = true;
  for (const auto& [wait, index] : sleepers) check(wait, finished);
}

Outcome Events::wait(Call& call, uapi::kfd::kfd_ioctl_wait_events_args& args, bool with_event_age) {
  args.wait_result = KFD_IOC_WAIT_RESULT_FAIL;
  if (args.num_events > rules_.max_waited) return Errno(ENOMEM);
  auto wait = std::make_shared<Wait>();
  wait->call = call.shared_from_this();
  wait->args = &args;
  wait->all = args.wait_for_all != 0;
  wait->entries.resize(args.num_events);

  const std::vector<kfd_event_data> readable = read_event_array(call, args);
  FinishedList finished;
  {
    const std::lock_guard lock(mutex_);
    const Result<void> registered = register_entries(readable, wait, with_event_age);
    if (!registered) {
      leave_sleepers(wait);
      return registered.error();
    }
    check(wait, finished);
    if (!wait->ended && args.timeout == kTimeoutImmediate)
      end(wait, KFD_IOC_WAIT_RESULT_TIMEOUT, 0, finished);
    if (!wait->ended) waits_.push_back(wait);
  }
  if (!finished.empty()) return finished.front().conclude();

  if (args.timeout != kTimeoutInfinite) start_timer(wait, std::min(args.timeout, kLongestFiniteTimeoutMs));
  call.on_cancel([events = weak_from_this(), wait] {
    if (const auto alive = events.lock()) alive->on_signal(wait);
  });
  return Outcome::later();
}

// Requires mutex_. kfd_events.c: init_event_waiter for each entry; registering consumes auto-reset signals,
// also when a later entry turns out to be bad.
Result<void> Events::register_entries(std::span<const kfd_event_data> readable,
                                      const std::shared_ptr<Wait>& wait, bool with_event_age) {
  for (std::size_t index = 0; index < wait->entries.size(); ++index) {
    if (index >= readable.size()) return Errno(EFAULT);
    const kfd_event_data& data = readable[index];
    Event* event = find(data.event_id);
    if (event == nullptr) return Errno(EINVAL);
    Wait::Entry& entry = wait->entries[index];
    entry.event_id = data.event_id;
    entry.activated = event->signaled;
    if (event->auto_reset) event->signaled = false;
    const std::uint64_t last_age = data.signal_event_data.last_event_age;
    if (with_event_age && event->type == uapi::kfd::KFD_IOC_EVENT_SIGNAL && last_age != 0) {
      entry.age_enabled = true;
      if (event->age != last_age) entry.activated = true;
    }
    if (!entry.activated) event->sleepers.emplace_back(wait, index);
  }
  return {};
}

std::uint64_t Events::event_address(const Wait& wait, std::size_t index) {
  return wait.args->events_ptr + index * sizeof(kfd_event_data);
}

void Events::start_timer(const std::shared_ptr<Wait>& wait, std::uint32_t timeout_ms) {
  const std::uint64_t deadline_ns = machine_.clock().now_ns() + timeout_ms * kNsPerMs;
  // The timer may run before it is known here, so the wait learns of both under the lock.
  const std::lock_guard lock(mutex_);
  if (wait->ended) return;
  wait->deadline_ns = deadline_ns;
  wait->timer = machine_.clock().at(deadline_ns, [events = weak_from_this(), wait] {
    if (const auto alive = events.lock()) alive->on_timeout(wait);
  });
}

// Requires mutex_. kfd_events.c: test_event_condition.
void Events::check(const std::shared_ptr<Wait>& wait, FinishedList& finished) {
  if (wait->ended) return;
  std::size_t activated = 0;
  for (const Wait::Entry& entry : wait->entries) {
    if (entry.destroyed) {
      end(wait, KFD_IOC_WAIT_RESULT_FAIL, Errno(EIO), finished);
      return;
    }
    if (!entry.activated) continue;
    ++activated;
    if (!wait->all) break;
  }
  const bool complete =
      wait->all ? activated == wait->entries.size() : activated > 0 || wait->entries.empty();
  if (complete) end(wait, KFD_IOC_WAIT_RESULT_COMPLETE, 0, finished);
}

// Requires mutex_.
void Events::end(const std::shared_ptr<Wait>& wait, std::uint32_t result, Outcome outcome,
                 FinishedList& finished) {
  wait->ended = true;
  leave_sleepers(wait);
  std::erase(waits_, wait);
  Finished answer{wait->call, wait->args, result, outcome, {}, wait->timer};
  if (result == KFD_IOC_WAIT_RESULT_COMPLETE) {
    for (std::size_t index = 0; index < wait->entries.size(); ++index) collect_data(*wait, index, answer);
  }
  wait->call.reset();
  finished.push_back(std::move(answer));
}

// Requires mutex_. kfd_events.c: copy_signaled_event_data.
void Events::collect_data(const Wait& wait, std::size_t index, Finished& answer) {
  const Wait::Entry& entry = wait.entries[index];
  if (!entry.activated) return;
  const Event& event = *find(entry.event_id);
  std::span<const std::byte> data;
  if (event.type == uapi::kfd::KFD_IOC_EVENT_MEMORY) {
    data = std::as_bytes(std::span(&event.memory_exception, 1));
  } else if (event.type == uapi::kfd::KFD_IOC_EVENT_HW_EXCEPTION) {
    data = std::as_bytes(std::span(&event.hw_exception, 1));
  } else if (entry.age_enabled) {
    data = std::as_bytes(std::span(&event.age, 1));
  } else {
    return;
  }
  Finished::Copy copy;
  copy.address = event_address(wait, index);
  copy.size_bytes = data.size();
  std::copy(data.begin(), data.end(), copy.data.begin());
  answer.copies.push_back(copy);
}

// Requires mutex_.
void Events::leave_sleepers(const std::shared_ptr<Wait>& wait) {
  for (const Wait::Entry& entry : wait->entries) {
    if (Event* event = find(entry.event_id)) {
      std::erase_if(event->sleepers, [&](const auto& sleeper) { return sleeper.first == wait; });
    }
  }
}

void Events::on_timeout(const std::shared_ptr<Wait>& wait) {
  FinishedList finished;
  {
    const std::lock_guard lock(mutex_);
    if (wait->ended) return;
    end(wait, KFD_IOC_WAIT_RESULT_TIMEOUT, 0, finished);
  }
  answer(std::move(finished));
}

// A signal: the call is restarted by user space with the time that was left, so what registering consumed is
// given back.
void Events::on_signal(const std::shared_ptr<Wait>& wait) {
  FinishedList finished;
  {
    const std::lock_guard lock(mutex_);
    if (wait->ended) return;
    if (wait->args->timeout != kTimeoutInfinite) {
      const std::uint64_t now_ns = machine_.clock().now_ns();
      const std::uint64_t left_ns = wait->deadline_ns > now_ns ? wait->deadline_ns - now_ns : 0;
      wait->args->timeout = static_cast<std::uint32_t>(left_ns / kNsPerMs);
    }
    end(wait, KFD_IOC_WAIT_RESULT_FAIL, Errno(EINTR), finished);
    for (const Wait::Entry& entry : wait->entries) {
      Event* event = find(entry.event_id);
      if (entry.activated && event != nullptr && event->auto_reset) set_locked(*event, finished);
    }
  }
  answer(std::move(finished));
}

void Events::answer(FinishedList finished) {
  for (Finished& one : finished) {
    if (one.timer != 0) machine_.clock().cancel(one.timer);
    one.call->finish(one.conclude());
  }
}

// Requires mutex_. kfd_events.c: set_event_from_interrupt.
void Events::acknowledge_and_set(std::uint32_t id, Event& event, FinishedList& finished) {
  std::atomic_ref(slots()[id]).store(kUnsignaledSlot);
  set_locked(event, finished);
}

void Events::interrupt(std::uint32_t id) {
  FinishedList finished;
  {
    const std::lock_guard lock(mutex_);
    if (slots() == nullptr) return;
    const auto signalled = [&](std::uint32_t slot) {
      return std::atomic_ref(slots()[slot]).load() != kUnsignaledSlot;
    };
    Event* named = id < uapi::kfd::KFD_SIGNAL_EVENT_LIMIT ? signal_events_.find(id) : nullptr;
    if (named != nullptr && signalled(id)) {
      acknowledge_and_set(id, *named, finished);
    } else {
      for (auto& [other_id, event] : signal_events_.all()) {
        if (signalled(other_id)) acknowledge_and_set(other_id, event, finished);
      }
    }
  }
  answer(std::move(finished));
}

std::size_t Events::raise_memory_exception(const uapi::kfd::kfd_hsa_memory_exception_data& data) {
  return raise(uapi::kfd::KFD_IOC_EVENT_MEMORY, [&](Event& event) { event.memory_exception = data; });
}

std::size_t Events::raise_hw_exception(const uapi::kfd::kfd_hsa_hw_exception_data& data) {
  return raise(uapi::kfd::KFD_IOC_EVENT_HW_EXCEPTION, [&](Event& event) { event.hw_exception = data; });
}

template <typename Fill>
std::size_t Events::raise(std::uint32_t type, Fill fill) {
  FinishedList finished;
  std::size_t raised = 0;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, event] : other_events_.all()) {
      if (event.type != type) continue;
      fill(event);
      set_locked(event, finished);
      ++raised;
    }
  }
  answer(std::move(finished));
  return raised;
}

void Events::set_from_device(std::uint32_t id) {
  FinishedList finished;
  {
    const std::lock_guard lock(mutex_);
    Event* event = find(id);
    if (event == nullptr) return;
    set_locked(*event, finished);
  }
  answer(std::move(finished));
}

std::size_t Events::count() const {
  const std::lock_guard lock(mutex_);
  return signal_events_.size() + other_events_.size();
}

void Events::clear() {
  FinishedList finished;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& wait : std::vector(waits_)) end(wait, KFD_IOC_WAIT_RESULT_FAIL, Errno(EINTR), finished);
    (void)signal_events_.take_all();
    (void)other_events_.take_all();
    slots_ = {};
    signal_page_.reset();
  }
  answer(std::move(finished));
}

}  // namespace understudy::kfd
