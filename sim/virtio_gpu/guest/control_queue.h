// ControlQueue: the driver's end of the control queue: commands go out in the order they are queued, answers
// come back in any order.
//
// Owner: VirtioGpuDevice. Units: bytes. Errors: none for callers: like the kernel's, a queued command is a
// promise, and what the device thinks of it shows later or never. Thread-safety: all methods from any thread;
// answers are handled one at a time, without locks. Mirrors: virtio/virtgpu_vq.c.
//
// Where the kernel sleeps because the ring is full, commands wait in a list here, so that a device that
// stopped answering does not take server threads with it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "sim/drm/gem.h"
#include "sim/virtio_gpu/device/device_model.h"
#include "sim/virtio_gpu/guest/fence_timeline.h"
#include "sim/virtio_gpu/wire/commands.h"
#include "sim/virtio_gpu/wire/guest_memory.h"
#include "sim/virtio_gpu/wire/virtqueue.h"

namespace understudy::virtio_gpu {

class ControlQueue {
 public:
  // Sees the whole response buffer: zeroes where the device has written nothing.
  using OnAnswer = std::function<void(std::span<const std::byte> response)>;

  struct Entry {
    std::vector<std::byte> command;  // header and struct
    std::vector<std::byte> data;     // memory entries or command stream; at most the guest's memory
    std::size_t response_bytes = sizeof(CommandHeader);
    VirtioFenceRef fence;
    // Kept until the answer; with a fence, it is added to their reservations.
    std::vector<drm::GemRef> objects;
    OnAnswer on_answer;
  };

  static Result<std::unique_ptr<ControlQueue>> create(GuestMemory& memory, DeviceModel& device,
                                                      FenceTimeline& fences);

  void queue(Entry entry);
  // Tells the device, if it wants to be told.
  void notify();
  // Handles what has been answered (the device's interrupt).
  void take_answers();

  // Commands not answered yet.
  std::size_t pending_count() const;

 private:
  // A page of guest memory in which most commands fit with their data and response.
  struct Slot {
    static constexpr std::uint64_t kResponseOffset = 128;
    static constexpr std::uint64_t kDataOffset = 2176;
    static_assert(kLongestCommandBytes <= kResponseOffset);
    static constexpr std::size_t kResponseRoom = kDataOffset - kResponseOffset;
    static constexpr std::size_t kDataRoom = kGuestPageBytes - kDataOffset;
  };
  struct DriverMemory {
    std::shared_ptr<KernelPages> pages;
    Placement placement;
  };
  // An entry out at the device; data and response have memory of their own when they do not fit the slot.
  struct Sent {
    Entry entry;
    std::size_t slot = 0;
    DriverMemory data;
    DriverMemory response;
  };

  ControlQueue(GuestMemory& memory, DeviceModel& device, FenceTimeline& fences, DriverQueue ring,
               std::shared_ptr<KernelPages> slot_pages, Placement slot_placement);
  // The following require mutex_. False: no room now.
  bool send(Entry& entry);
  DriverMemory place_driver_memory(std::size_t size_bytes, bool contiguous);
  std::span<std::byte> response_of(const Sent& sent) const;

  GuestMemory& memory_;
  DeviceModel& device_;
  FenceTimeline& fences_;
  mutable std::mutex mutex_;
  DriverQueue ring_;  // guarded by mutex_, like the rest
  const std::shared_ptr<KernelPages> slot_pages_;
  const Placement slot_placement_;
  std::vector<std::size_t> free_slots_;
  std::map<DriverQueue::Token, Sent> sent_;
  DriverQueue::Token next_token_ = 1;
  std::deque<Entry> waiting_;
};

}  // namespace understudy::virtio_gpu
