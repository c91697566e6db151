// Events: what a process waits for: signal events with a slot in the signal page, and exceptions.
//
// Owner: KfdProcess. Units: timeouts in milliseconds as in the ABI. Errors: EINVAL unknown or wrong type,
// ENOSPC slots used up, EFAULT bad event array, EIO a waited-for event was destroyed, EINTR a signal came.
// Thread-safety: locks itself (the kernel's event_mutex); waits are answered without the lock.
// Mirrors: amdkfd/kfd_events.c.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "sim/core/buffer.h"
#include "sim/core/call.h"
#include "sim/core/ledger.h"
#include "sim/kfd/id_table.h"
#include "uapi/kfd.h"

namespace understudy::kfd {

class Events : public std::enable_shared_from_this<Events> {
 public:
  static constexpr std::uint64_t kSignalPageBytes = uapi::kfd::KFD_SIGNAL_EVENT_LIMIT * 8;
  static constexpr std::uint64_t kUnsignaledSlot = ~std::uint64_t{0};

  struct Rules {
    // Kernels before 7.0 make a signal page when user space has passed none.
    bool kernel_makes_page = false;
    // How many events one wait may name.
    std::uint32_t max_waited = uapi::kfd::KFD_SIGNAL_EVENT_LIMIT;
    // Signal events a process may have (Limits::events).
    std::uint64_t slot_limit = 0;
  };
  Events(Machine& machine, const Rules& rules);
  ~Events();

  // The page user space passes with the first CREATE_EVENT. EINVAL: there is one already, or it is too small.
  Result<void> set_signal_page(BufferRef page, std::uint64_t size_bytes);
  bool has_signal_page() const;
  // mmap of the page that older kernels make when user space has passed none: the pages to map. From then on
  // slots beyond `length_bytes` are not given out. EINVAL: no such page, or too long.
  Result<BufferRef> map_kernel_page(std::uint64_t length_bytes);

  struct Created {
    std::uint32_t id = 0;
    bool has_slot = false;  // the id is also the slot index
  };
  Result<Created> create(const Call* call, std::uint32_t type, bool auto_reset);
  Result<void> destroy(const Call* call, std::uint32_t id);
  Result<void> set(std::uint32_t id);
  Result<void> reset(std::uint32_t id);
  // Answers the call now or later, and fills timeout and wait_result of `args`, which lies in call.arguments.
  Outcome wait(Call& call, uapi::kfd::kfd_ioctl_wait_events_args& args, bool with_event_age);

  // The interrupt that follows a GPU's write to a slot. A wrong or truncated id makes it look at all slots.
  void interrupt(std::uint32_t id);
  // All MEMORY (HW_EXCEPTION) events get the data and are set. Returns how many there were.
  std::size_t raise_memory_exception(const uapi::kfd::kfd_hsa_memory_exception_data& data);
  std::size_t raise_hw_exception(const uapi::kfd::kfd_hsa_hw_exception_data& data);
  // Sets an event of any type on behalf of a device (queue errors); unknown ids are ignored.
  void set_from_device(std::uint32_t id);

  std::size_t count() const;
  // The process is gone: waits end with EINTR, events vanish.
  void clear();

 private:
  struct Wait;
  struct Finished;
  using FinishedList = std::vector<Finished>;
  struct Event {
    std::uint32_t type = 0;
    bool auto_reset = false;
    bool signaled = false;
    std::uint64_t age = 1;
    uapi::kfd::kfd_hsa_memory_exception_data memory_exception{};
    uapi::kfd::kfd_hsa_hw_exception_data hw_exception{};
    // Who sleeps on it, in order of arrival: a wait and its entry.
    std::list<std::pair<std::shared_ptr<Wait>, std::size_t>> sleepers;
    LedgerEntry entry;
  };

  static std::uint64_t event_address(const Wait& wait, std::size_t index);
  void start_timer(const std::shared_ptr<Wait>& wait, std::uint32_t timeout_ms);
  void on_timeout(const std::shared_ptr<Wait>& wait);
  void on_signal(const std::shared_ptr<Wait>& wait);
  template <typename Fill>
  std::size_t raise(std::uint32_t type, Fill fill);
  void answer(FinishedList finished);
  // These require mutex_.
  Event* find(std::uint32_t id);
  std::uint64_t* slots();
  Result<void> adopt_page(BufferRef page, std::uint64_t mapped_bytes);
  Result<void> check_free_slot();
  Result<void> register_entries(std::span<const uapi::kfd::kfd_event_data> readable,
                                const std::shared_ptr<Wait>& wait, bool with_event_age);
  void set_locked(Event& event, FinishedList& finished);
  void acknowledge_and_set(std::uint32_t id, Event& event, FinishedList& finished);
  void check(const std::shared_ptr<Wait>& wait, FinishedList& finished);
  void end(const std::shared_ptr<Wait>& wait, std::uint32_t result, Outcome outcome, FinishedList& finished);
  void collect_data(const Wait& wait, std::size_t index, Finished& answer);
  void leave_sleepers(const std::shared_ptr<Wait>& wait);

  Machine& machine_;
  const Rules rules_;
  mutable std::mutex mutex_;  // guards all below
  IdTable<Event> signal_events_;
  IdTable<Event> other_events_;
  std::vector<std::shared_ptr<Wait>> waits_;
  BufferRef signal_page_;
  std::span<std::byte> slots_;  // in signal_page_
  bool page_from_user_ = false;
  std::uint64_t mapped_bytes_ = 0;
};

}  // namespace understudy::kfd
