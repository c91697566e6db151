// What can be done to a GPU from outside its ioctls: memory exceptions, ECC errors, resets, evictions,
// migrations, invalidated user pages, vanishing VRAM.
//
// Owner: stateless; registers actions with the machine's Controls under the render node of each GPU, and
// under "kfd" for all of them. Units: see ControlArguments. Errors: none. Thread-safety: actions run on any
// thread, without locks. Mirrors: amdkfd/kfd_events.c: kfd_signal_vm_fault_event,
// kfd_signal_poison_consumed_event, kfd_signal_reset_event; kfd_device.c: kgd2kfd_pre_reset,
// kgd2kfd_post_reset; kfd_process.c: kfd_process_evict_queues.
#pragma once

#include <memory>

namespace understudy::kfd {

class KfdDriver;

// The actions do nothing once `alive` has expired.
void add_gpu_controls(KfdDriver& driver, std::weak_ptr<void> alive);

}  // namespace understudy::kfd
