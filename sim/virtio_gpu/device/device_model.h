// DeviceModel: the virtio-gpu device as its driver sees it through the virtio transport: features, config
// space, two queues, a host-visible region, interrupts.
//
// Owner: the virtual machine. Units: bytes. Errors: queue set-up EINVAL/EFAULT; what goes wrong with a
// command is in its response, and what goes wrong with a ring breaks the device until reset. Thread-safety:
// all methods from any thread; commands run on the strand, one after the other, and interrupts are raised
// from it without locks. Mirrors: QEMU hw/virtio/virtio.c as far as a driver can tell,
// hw/display/virtio-gpu.c: virtio_gpu_handle_ctrl, virtio_gpu_process_cmdq, virtio_gpu_handle_cursor;
// virtio-gpu-virgl.c: virgl_write_fence.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/hooks.h"
#include "sim/virtio_gpu/device/command_model.h"
#include "sim/virtio_gpu/device/display.h"
#include "sim/virtio_gpu/device/host_visible_region.h"
#include "sim/virtio_gpu/device/properties.h"
#include "sim/virtio_gpu/device/renderer.h"
#include "sim/virtio_gpu/device/strand.h"
#include "sim/virtio_gpu/wire/guest_memory.h"
#include "sim/virtio_gpu/wire/virtqueue.h"

namespace understudy::virtio_gpu {

enum class QueueIndex : std::uint8_t { kControl = 0, kCursor = 1 };

class DeviceModel {
 public:
  // Asked about each answer on the control queue.
  using AnswerFault = std::function<PointDecision()>;

  // `properties` have passed check_properties.
  DeviceModel(GuestMemory& memory, DeviceProperties properties, const Behaviour& behaviour,
              std::vector<std::unique_ptr<ContextType>> context_types, AnswerFault answer_fault = {});
  ~DeviceModel();
  DeviceModel(const DeviceModel&) = delete;

  const DeviceProperties& properties() const { return properties_; }
  const Behaviour& behaviour() const { return behaviour_; }

  // Feature bits, offered and accepted.
  std::uint64_t offered_features() const;
  void accept_features(std::uint64_t features);
  abi::virtio_gpu_config config() const;
  void clear_events(std::uint32_t events);
  std::uint16_t queue_size(QueueIndex index) const;
  // Shared memory region of that id; nothing when there is none.
  HostVisibleRegion* shared_memory(std::uint32_t id);

  // EINVAL, EFAULT as DeviceQueue::create.
  Result<void> set_up_queue(QueueIndex index, const VirtqueueAddresses& addresses);
  // `interrupt` may be called from any thread, also from within kick().
  void set_interrupt(std::function<void(QueueIndex)> interrupt);
  // The driver's notification: there is something in the queue.
  void kick(QueueIndex index);
  void reset();
  // VIRTIO_CONFIG_S_NEEDS_RESET.
  bool needs_reset() const { return broken_.load(std::memory_order_acquire); }
  // Why, in the device's own words.
  std::string broken_reason() const;

  // A fence of a context's ring retires outside of any command.
  void retire_ring_fence(std::uint32_t context_id, std::uint8_t ring_index, std::uint64_t fence_id);

  // The host takes away what contexts work on.
  void lose_contexts();

  // For accounts and tests; both wait for what is being processed.
  std::size_t resource_count();
  std::size_t unanswered_count();

 private:
  struct Queue {
    std::optional<DeviceQueue> ring;
  };
  // The rest runs on the strand.
  void process_control();
  void process_cursor();
  void execute(Request request);
  // A command that succeeded but is fenced on the 3D device.
  void wait_for_fence(Request request);
  void retire_global_fences();
  void answer(const Request& request, const Response& response);
  bool ensure_renderer();
  void break_device(std::string_view reason);
  void interrupt(QueueIndex index);
  RingFeatures ring_features() const;
  template <typename Function>
  void run_and_wait(Function function);

  const DeviceProperties properties_;
  const Behaviour& behaviour_;
  GuestMemory& memory_;
  const AnswerFault answer_fault_;
  HostVisibleRegion region_;
  Display display_;
  Renderer renderer_;
  std::unique_ptr<CommandModel> model_;

  mutable std::mutex mutex_;  // guards the next four
  std::uint64_t features_ = 0;
  std::uint32_t events_ = 0;
  std::string broken_reason_;
  std::shared_ptr<const std::function<void(QueueIndex)>> interrupt_;
  std::atomic<bool> broken_{false};

  Strand strand_;
  std::array<Queue, 2> queues_;  // strand only, like the rest
  std::deque<Request> fenced_;   // done, waiting for their fence
  std::uint64_t retired_fence_ = 0;
  bool renderer_started_ = false;
  bool renderer_failed_ = false;
};

}  // namespace understudy::virtio_gpu
