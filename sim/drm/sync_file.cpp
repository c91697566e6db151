#include "sim/drm/sync_file.h"

#include <linux/sync_file.h>

#include <algorithm>
#include <cstring>

#include "sim/core/ioctl_table.h"
#include "sim/core/machine.h"

namespace understudy::drm {
namespace {

// sync_fill_fence_info and the status rule of sync_file_ioctl_fence_info: 1 signalled, 0 active, -errno.
int status_of(const Fence& fence) {
  if (!fence.is_signalled()) return 0;
  return fence.error() == 0 ? 1 : -fence.error();
}

template <std::size_t Size>
void set_text(char (&field)[Size], const std::string& text) {
  std::memset(field, 0, Size);
  std::memcpy(field, text.data(), std::min(text.size(), Size - 1));
}

// sync_fill_fence_info.
sync_fence_info info_of(const Fence& fence) {
  sync_fence_info info{};
  set_text(info.obj_name, fence.timeline_name());
  set_text(info.driver_name, fence.driver_name());
  info.status = status_of(fence);
  info.timestamp_ns = fence.signalled_at_ns();
  return info;
}

}  // namespace

Result<UniqueFd> SyncFile::make_descriptor(Machine& machine, const FenceRef& fence, std::string name) {
  auto file = std::make_shared<SyncFile>(fence, std::move(name));
  UniqueFd fd = TRY(machine.files().make_descriptor(file));
  // A byte in the socket is what makes it readable; nobody reads it.
  fence->on_signal([weak = std::weak_ptr<File>(file)] {
    if (const FileRef open = weak.lock()) open->queue_read({std::byte{1}});
  });
  return fd;
}

Result<FenceRef> SyncFile::of_client_fd(Call& call, int fd) {
  const Result<FileRef> file = call.machine().files().by_client_fd(call.client(), fd);
  const auto* sync_file = file ? dynamic_cast<const SyncFile*>(file.value().get()) : nullptr;
  if (sync_file == nullptr) return Errno(EINVAL);
  return sync_file->fence();
}

// sync_file_get_name.
std::string SyncFile::name() const {
  if (!name_.empty()) return name_;
  return fence_->driver_name() + "-" + fence_->timeline_name() + std::to_string(fence_->context()) + "-" +
         std::to_string(fence_->sequence());
}

// sync_file_ioctl_merge.
Result<void> SyncFile::merge(Call& call) {
  const auto args = TRY(call.memory().read_value<sync_merge_data>(call.argument));
  if (args.flags != 0 || args.pad != 0) return Errno(EINVAL);
  const Result<FenceRef> other = of_client_fd(call, args.fd2);
  if (!other) return Errno(ENOENT);
  std::string name(args.name, ::strnlen(args.name, sizeof args.name - 1));
  UniqueFd fd = TRY(make_descriptor(call.machine(), Fence::merge({fence_, other.value()}), std::move(name)));
  return call.hand_fd(std::move(fd), offsetof(sync_merge_data, fence));
}

// sync_file_ioctl_fence_info.
Result<void> SyncFile::file_info(Call& call) {
  auto args = TRY(call.memory().read_value<sync_file_info>(call.argument));
  if (args.flags != 0 || args.pad != 0) return Errno(EINVAL);
  std::vector<sync_fence_info> infos;
  if (fence_->parts().empty()) infos.push_back(info_of(*fence_));
  for (const FenceRef& part : fence_->parts()) infos.push_back(info_of(*part));
  if (args.num_fences != 0) {
    if (args.num_fences < infos.size()) return Errno(EINVAL);
    TRY(call.memory().write(args.sync_fence_info, std::as_bytes(std::span(infos))));
  }
  set_text(args.name, name());
  args.status = status_of(*fence_);
  args.num_fences = static_cast<std::uint32_t>(infos.size());
  return call.memory().write_value(call.argument, args);
}

void SyncFile::ioctl(const CallRef& call) {
  switch (call->command) {
    case SYNC_IOC_MERGE:
      call->finish(merge(*call));
      return;
    case SYNC_IOC_FILE_INFO:
      call->finish(file_info(*call));
      return;
    default:
      refuse(call, Errno(ENOTTY));
  }
}

void SyncobjFile::ioctl(const CallRef& call) {
  refuse(call, Errno(ENOTTY));
}

}  // namespace understudy::drm
