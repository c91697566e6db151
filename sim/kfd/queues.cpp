#include "sim/kfd/queues.h"

#include <algorithm>
#include <string>

#include "sim/kfd/engine/gpu_scheduler.h"
#include "sim/kfd/kfd_driver.h"
#include "sim/kfd/kfd_process.h"
#include "sim/kfd/topology/process_attributes.h"

namespace understudy::kfd {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr unsigned kMaxQueuesPerProcess = 127;       // HWS limit
constexpr unsigned kMaxQueuesPerProcessGfx94 = 255;  // gfx 9.4.3 to 9.5.0
// Doorbells that belong to SDMA and other engines, in each half of the slice
// (doorbell_index.first/last_non_cp).
constexpr unsigned kFirstNonCpDoorbell = 0x100;
constexpr unsigned kLastNonCpDoorbell = 0x1ff;
constexpr unsigned kMirrorOffset = 512;
constexpr unsigned kDoorbellsPerSdmaEngine = 10;

std::uint64_t align_up(std::uint64_t value) {
  return (value + kPageBytes - 1) & ~(kPageBytes - 1);
}

unsigned max_queues(const GpuProfile& profile) {
  const std::uint64_t version = profile.property("gfx_target_version");
  return version >= 90400 && version < 100000 ? kMaxQueuesPerProcessGfx94 : kMaxQueuesPerProcess;
}

const char* type_name(const QueueProperties& properties) {
  if (properties.is_sdma()) return "SDMA";
  return properties.format == QueueFormat::kAql ? "AQL" : "PM4";
}

// kfd_queue.c: kfd_queue_buffer_get. The mapping must begin on this page and have exactly this size.
Result<std::uint64_t> exact_mapping(const GpuVm& vm, std::uint64_t address, std::uint64_t size_bytes) {
  const auto mapping = vm.find(address);
  if (!mapping || mapping->start != (address & ~(kPageBytes - 1)) || mapping->size_bytes != size_bytes) {
    return Errno(EINVAL);
  }
  return mapping->start;
}

}  // namespace

Queues::Queues(KfdDriver& driver, KfdProcess& process) : driver_(driver), process_(process) {
  for (std::size_t index = 0; index < driver.gpus().size(); ++index) {
    DeviceState& state = device_states_.emplace_back();
    for (unsigned doorbell = kFirstNonCpDoorbell; doorbell <= kLastNonCpDoorbell; ++doorbell) {
      state.doorbells_in_use.set(doorbell);
      state.doorbells_in_use.set(doorbell + kMirrorOffset);
    }
  }
}

Queues::~Queues() = default;

Queues::DeviceState& Queues::state_of(const ProcessDevice& device) {
  return device_states_.at(device.gpu.placement().index);
}

Queue* Queues::find(std::uint32_t id) {
  auto* queue = queues_.find(id);
  return queue ? queue->get() : nullptr;
}

std::size_t Queues::count_on(const Gpu& gpu) const {
  return device_states_.at(gpu.placement().index).queue_count;
}

// kfd_queue.c: kfd_queue_acquire_buffers. Kernels before 6.12 look at none of them.
Result<void> Queues::pin_buffers(Queue& queue) {
  if (driver_.kfd_minor() < kFirstMinorOf6_12) return {};
  const QueueProperties& properties = queue.properties;
  const GpuProfile& profile = queue.device->gpu.profile();
  GpuVm& vm = *TRY(queue.device->vm());
  std::vector<std::uint64_t> starts;
  starts.push_back(TRY(exact_mapping(vm, properties.write_pointer_address, kPageBytes)));
  starts.push_back(TRY(exact_mapping(vm, properties.read_pointer_address, kPageBytes)));
  const std::uint64_t ring_bytes = align_up(properties.ring_size_bytes + properties.metadata_ring_size_bytes);
  const std::uint64_t ring = TRY(exact_mapping(vm, properties.ring_address, ring_bytes));
  if (!properties.is_sdma()) {
    if (properties.eop_address != 0) {
      if (properties.eop_size_bytes < profile.eop_buffer_bytes) return Errno(EINVAL);
      starts.push_back(TRY(exact_mapping(vm, properties.eop_address, properties.eop_size_bytes)));
    }
    if (properties.control_stack_size_bytes != profile.control_stack_bytes) return Errno(EINVAL);
    if (properties.context_save_size_bytes < profile.cwsr_bytes) return Errno(EINVAL);
    const std::uint64_t partitions = std::max<std::uint64_t>(1, profile.property("num_xcc"));
    const std::uint64_t area_bytes =
        align_up((properties.context_save_size_bytes + profile.debug_memory_bytes) * partitions);
    const auto area = exact_mapping(vm, properties.context_save_address, area_bytes);
    if (area) {
      starts.push_back(area.value());
    } else {
      TRY(process_.svm().pin_for_queue(queue.device->gpu, properties.context_save_address, area_bytes));
      queue.pinned_svm_bytes = area_bytes;
    }
  }
  for (const std::uint64_t start : starts) TRY(vm.pin_for_queue(start, +1));
  TRY(vm.pin_for_queue(ring, +1));
  queue.pinned = std::move(starts);
  queue.pinned_ring = ring;
  return {};
}

void Queues::unpin_buffers(Queue& queue) {
  if (queue.pinned_svm_bytes != 0) {
    process_.svm().unpin_for_queue(queue.properties.context_save_address, queue.pinned_svm_bytes);
    queue.pinned_svm_bytes = 0;
  }
  const auto vm = queue.device->vm();
  if (!vm) return;
  if (queue.pinned_ring != 0) queue.pinned.push_back(queue.pinned_ring);
  for (const std::uint64_t start : queue.pinned) (void)vm.value()->pin_for_queue(start, -1);
  queue.pinned.clear();
  queue.pinned_ring = 0;
}

// kfd_device_queue_manager.c: allocate_doorbell. SDMA queues have fixed doorbells by engine and queue on it.
Result<unsigned> Queues::take_doorbell(Queue& queue) {
  if (queue.sdma_slot) {
    const SdmaSlot slot = *queue.sdma_slot;
    return kFirstNonCpDoorbell + slot.engine * kDoorbellsPerSdmaEngine +
           (slot.queue_on_engine & 1) * kMirrorOffset + slot.queue_on_engine / 2;
  }
  DeviceState& state = state_of(*queue.device);
  unsigned in_use_by_queues = 0;
  for (const auto& [id, other] : queues_.all()) in_use_by_queues += other->device == queue.device;
  if (in_use_by_queues >= driver_.machine().settings().limits.doorbells) return Errno(EBUSY);
  for (unsigned doorbell = 0; doorbell < kDoorbells; ++doorbell) {
    if (state.doorbells_in_use[doorbell]) continue;
    state.doorbells_in_use.set(doorbell);
    return doorbell;
  }
  return Errno(EBUSY);
}

// Everything a queue takes from the device and the process's slice, or nothing of it.
Result<void> Queues::take_slots(Queue& queue) {
  DeviceState& state = state_of(*queue.device);
  DeviceQueues& on_device = driver_.device_queues(queue.device->gpu);
  const std::uint64_t limit = driver_.machine().settings().limits.queues;
  if (state.queue_count >= std::min<std::uint64_t>(limit, max_queues(queue.device->gpu.profile()))) {
    return Errno(ENOSPC);
  }
  if (queues_.size() >= kMaxQueueIds) return Errno(ENOMEM);
  TRY(on_device.add_queue());
  if (queue.properties.is_sdma()) {
    const auto slot =
        on_device.take_sdma_slot(sdma_choice(queue.properties.type), queue.properties.sdma_engine);
    if (!slot) {
      on_device.remove_queue();
      return slot.error();
    }
    queue.sdma_slot = slot.value();
  }
  const auto doorbell = take_doorbell(queue);
  if (!doorbell) {
    if (queue.sdma_slot) on_device.give_back(*queue.sdma_slot);
    on_device.remove_queue();
    return doorbell.error();
  }
  queue.doorbell = doorbell.value();
  ++state.queue_count;
  return {};
}

Result<Queue*> Queues::create(const Call* call, ProcessDevice& device, const QueueProperties& properties) {
  auto queue = std::make_unique<Queue>();
  queue->device = &device;
  queue->properties = properties;
  TRY(pin_buffers(*queue));
  const Result<void> taken = take_slots(*queue);
  if (!taken) {
    unpin_buffers(*queue);
    return taken.error();
  }
  Queue* const made = queue.get();
  made->id = *queues_.allocate(std::move(queue));
  const Result<void> started = start(*made);
  if (!started) {
    (void)destroy(call, made->id);
    return started.error();
  }
  made->entry = driver_.machine().ledger().open(
      ObjectKind::kQueue, call, std::string(type_name(properties)) + " queue " + std::to_string(made->id));
  if (!process_.is_secondary())
    add_queue_attributes(driver_.machine().sysfs(), process_.client()->pid(), *made);
  return made;
}

// Hands the queue to the GPU's scheduler. A memory fault of any queue stops all of the process on that GPU,
// before the process is told (kfd_int_process_v9.c: event_interrupt_wq_v9).
Result<void> Queues::start(Queue& queue) {
  Gpu& gpu = queue.device->gpu;
  engine::GpuScheduler& scheduler = driver_.scheduler(gpu);
  engine::QueueSetup setup;
  setup.machine = &driver_.machine();
  setup.gpu = &gpu;
  setup.vm = TRY(queue.device->vm());
  setup.svm = process_.shared_svm();
  setup.events = process_.shared_events();
  setup.client = process_.client();
  setup.process_key = process_.key();
  setup.xnack_enabled = process_.xnack_enabled;
  setup.properties = queue.properties;
  setup.label = std::string(type_name(queue.properties)) + " queue " + std::to_string(queue.id);
  setup.doorbells = queue.device->ensure_doorbells();
  setup.doorbell = queue.doorbell;
  setup.plugin = driver_.plugin();
  setup.on_fault = [&driver = driver_, &gpu, &scheduler, key = process_.key(), client = process_.client(),
                    events = process_.shared_events()](const GpuFault& fault) {
    scheduler.evict(key);
    driver.report_vm_fault(gpu, *client, *events, fault);
  };
  queue.hardware = TRY(engine::HardwareQueue::create(std::move(setup)));
  queue.hardware->set_paused(pauses_ > 0);
  scheduler.add(queue.hardware);
  return {};
}

DeviceQueues::SdmaChoice Queues::sdma_choice(QueueType type) {
  switch (type) {
    case QueueType::kSdmaXgmi:
      return DeviceQueues::SdmaChoice::kXgmi;
    case QueueType::kSdmaByEngine:
      return DeviceQueues::SdmaChoice::kByEngine;
    case QueueType::kSdma:
    case QueueType::kCompute:
      break;
  }
  return DeviceQueues::SdmaChoice::kPcie;
}

void Queues::release(Queue& queue) {
  DeviceState& state = state_of(*queue.device);
  DeviceQueues& on_device = driver_.device_queues(queue.device->gpu);
  if (queue.hardware) driver_.scheduler(queue.device->gpu).remove(queue.hardware);
  unpin_buffers(queue);
  if (queue.sdma_slot) {
    on_device.give_back(*queue.sdma_slot);
  } else {
    state.doorbells_in_use.reset(queue.doorbell);
  }
  on_device.remove_queue();
  --state.queue_count;
}

Result<void> Queues::destroy(const Call* call, std::uint32_t id) {
  auto queue = queues_.remove(id);
  if (!queue) return Errno(EINVAL);
  (*queue)->entry.close(call);
  if (!process_.is_secondary())
    remove_queue_attributes(driver_.machine().sysfs(), process_.client()->pid(), id);
  release(**queue);
  return {};
}

// kfd_process_queue_manager.c: pqm_update_queue_properties.
Result<void> Queues::update(std::uint32_t id, std::uint64_t ring_address, std::uint64_t ring_size_bytes,
                            std::uint32_t percent, std::uint32_t priority) {
  Queue* queue = find(id);
  if (queue == nullptr) return Errno(EFAULT);
  QueueProperties& properties = queue->properties;
  if (driver_.kfd_minor() >= kFirstMinorOf6_12 && ring_address != 0 && ring_size_bytes != 0) {
    GpuVm& vm = *TRY(queue->device->vm());
    const auto ring = exact_mapping(vm, ring_address, align_up(ring_size_bytes));
    if (!ring) return Errno(EFAULT);
    TRY(vm.pin_for_queue(ring.value(), +1));
    if (queue->pinned_ring != 0) (void)vm.pin_for_queue(queue->pinned_ring, -1);
    queue->pinned_ring = ring.value();
  }
  properties.ring_address = ring_address;
  properties.ring_size_bytes = ring_size_bytes;
  properties.percent = percent;
  properties.priority = priority;
  queue->hardware->update(properties);
  driver_.scheduler(queue->device->gpu).kick();
  return {};
}

// kfd_process_queue_manager.c: pqm_set_gws. One queue per process and GPU may have it.
Result<void> Queues::set_gws(std::uint32_t id, bool attach) {
  Queue* queue = find(id);
  if (queue == nullptr) return Errno(EINVAL);
  if (queue->device->gpu.profile().property("num_gws") == 0) return Errno(ENODEV);
  bool taken = false;
  for (const auto& [other_id, other] : queues_.all())
    taken |= other->device == queue->device && other->has_gws;
  if (attach && taken) return Errno(EBUSY);
  if (!attach && !taken) return Errno(EINVAL);
  queue->has_gws = attach;
  return {};
}

void Queues::pause() {
  if (pauses_++ > 0) return;
  for (const auto& [id, queue] : queues_.all()) queue->hardware->set_paused(true);
}

void Queues::resume() {
  if (--pauses_ > 0) return;
  for (const auto& [id, queue] : queues_.all()) {
    queue->hardware->set_paused(false);
    driver_.scheduler(queue->device->gpu).kick();
  }
}

void Queues::destroy_all() {
  for (auto& [id, queue] : queues_.take_all()) release(*queue);
}

}  // namespace understudy::kfd
