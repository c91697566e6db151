// What KFD shows of its processes in sysfs: kfd/proc/PID with memory in use, queues and statistics.
//
// Owner: stateless; attributes hold the process weakly and give ENODEV when it is gone. Units: as in sysfs.
// Errors: none. Thread-safety: any thread; no lock of the process may be held while attributes are read.
// Mirrors: kfd_process.c: kfd_create_process, kfd_procfs_show, kfd_procfs_add_queue.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "sim/core/sysfs.h"

namespace understudy::kfd {

class KfdProcess;
struct Queue;

void add_process_attributes(SysfsTree& sysfs, const std::shared_ptr<KfdProcess>& process);
void remove_process_attributes(SysfsTree& sysfs, pid_t pid);
void add_queue_attributes(SysfsTree& sysfs, pid_t pid, const Queue& queue);
void remove_queue_attributes(SysfsTree& sysfs, pid_t pid, std::uint32_t queue_id);

}  // namespace understudy::kfd
