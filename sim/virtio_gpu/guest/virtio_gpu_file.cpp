#include "sim/virtio_gpu/guest/virtio_gpu_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sim/core/machine.h"

namespace understudy::virtio_gpu {

VirtioGpuFile::VirtioGpuFile(VirtioGpuDevice& gpu, drm::NodeType type, std::string label, dev_t device_number,
                             std::string opener_name)
    : drm::DrmFile(gpu, type, std::move(label), device_number), opener_name_(std::move(opener_name)) {
  if (gpu.has_3d()) context_id_ = gpu.take_context_id();
}

VirtioGpuFile::~VirtioGpuFile() = default;

void VirtioGpuFile::ensure_context(const Call* call) {
  const std::lock_guard lock(context_mutex_);
  if (!context_.created) create_context_locked(call);
}

void VirtioGpuFile::create_context_locked(const Call* call) {
  const std::string& name = context_.debug_name ? *context_.debug_name : opener_name_;
  CtxCreate command;
  command.body.hdr.ctx_id = context_id_;
  command.body.context_init = context_.capset_id;
  command.body.nlen = static_cast<std::uint32_t>(name.size());
  std::memcpy(command.body.debug_name, name.data(),
              std::min(name.size(), sizeof command.body.debug_name - 1));
  ControlQueue::Entry entry;
  entry.command = encode_command(command);
  gpu().control().queue(std::move(entry));
  context_.created = true;
  context_.entry = gpu().machine().ledger().open(ObjectKind::kContext, call,
                                                 "context " + std::to_string(context_id_) + " on " + label());
  // It ends with the file; no call gives it back.
  context_.entry.keep_for_life();
}

void VirtioGpuFile::release() {
  drm::DrmFile::release();  // detaches and unrefs before the context goes
  if (!gpu().has_3d()) return;
  {
    const std::lock_guard lock(context_mutex_);
    if (context_.created) {
      CtxDestroy command;
      command.body.hdr.ctx_id = context_id_;
      ControlQueue::Entry entry;
      entry.command = encode_command(command);
      gpu().control().queue(std::move(entry));
      context_.entry.close(nullptr);
    }
  }
  gpu().control().notify();
  gpu().give_back_context_id(context_id_);
}

Result<ObjectRef> VirtioGpuFile::lookup(std::uint32_t handle) {
  const drm::GemRef object = TRY(handles().lookup(drm::GemHandle{handle}));
  return std::static_pointer_cast<VirtioGpuObject>(object);
}

}  // namespace understudy::virtio_gpu
