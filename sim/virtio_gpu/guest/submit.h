// Submit: one EXECBUFFER in flight: gathers what it needs, waits for what it must, queues the command.
//
// Owner: itself, by the waits it is in, until it has answered. Units: bytes. Errors: see the two orders in
// submit.cpp. Thread-safety: one step at a time; steps after a wait run on the thread that ended it.
// Mirrors: virtio/virtgpu_ioctl.c: virtio_gpu_execbuffer_ioctl (6.1), virtio/virtgpu_submit.c (since 6.6).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sim/drm/syncobj.h"
#include "sim/virtio_gpu/guest/virtio_gpu_file.h"

namespace understudy::virtio_gpu {

class Submit : public std::enable_shared_from_this<Submit> {
 public:
  // `fence_fd_offset`: of fence_fd in the caller's struct.
  static Outcome start(VirtioGpuFile& file, Call& call, const SubmitArguments& args,
                       std::uint32_t fence_fd_offset);

 private:
  Submit(VirtioGpuFile& file, Call& call, const SubmitArguments& args, std::uint32_t fence_fd_offset);

  bool wants(std::uint32_t flag) const { return (args_.flags & flag) != 0; }
  Result<void> check_flags();

  Outcome run_waiting_first();  // 6.1
  Outcome run_waiting_last();   // since 6.6
  Outcome after_early_wait();
  Outcome wait_for_in_syncobjs();
  Outcome wait_for_in_fence();
  Outcome queue();

  Result<void> read_buffer_handles();
  Result<void> read_command();
  Result<void> make_out_descriptor();
  Result<void> read_out_syncobjs();
  Result<guest_abi::drm_virtgpu_execbuffer_syncobj> read_syncobj(std::uint64_t array, std::uint32_t index);
  Result<void> lock_reservations() const;
  void make_fence();
  // Those of `fence` that are not of the ring this goes to.
  std::vector<drm::FenceRef> foreign_parts(const drm::FenceRef& fence) const;
  void reset_in_syncobjs();

  VirtioGpuFile& file_;
  const CallRef call_;  // keeps the file
  const SubmitArguments args_;
  const std::uint32_t fence_fd_offset_;

  std::uint64_t ring_contexts_ = 0;
  std::uint64_t fence_context_ = 0;
  bool polls_ring_ = false;
  VirtioFenceRef out_fence_;
  UniqueFd out_descriptor_;
  std::vector<drm::GemRef> objects_;
  std::vector<std::byte> command_;
  struct OutSyncobj {
    drm::SyncobjRef syncobj;
    std::uint64_t point = 0;
  };
  std::vector<OutSyncobj> out_syncobjs_;
  std::uint32_t next_in_syncobj_ = 0;
  std::vector<drm::SyncobjRef> reset_later_;
};

template <typename Args>
Outcome VirtioGpuFile::exec_buffer(Call& call, Args& args) {
  SubmitArguments submit{.flags = args.flags,
                         .size_bytes = args.size,
                         .command = args.command,
                         .bo_handles = args.bo_handles,
                         .bo_handle_count = args.num_bo_handles,
                         .fence_fd = args.fence_fd,
                         .ring_index = args.ring_idx};
  if constexpr (requires { args.syncobj_stride; }) {
    submit.syncobj_stride_bytes = args.syncobj_stride;
    submit.in_syncobj_count = args.num_in_syncobjs;
    submit.out_syncobj_count = args.num_out_syncobjs;
    submit.in_syncobjs = args.in_syncobjs;
    submit.out_syncobjs = args.out_syncobjs;
  }
  return Submit::start(*this, call, submit, offsetof(Args, fence_fd));
}

}  // namespace understudy::virtio_gpu
