// Submission: one command submission: the caller's chunks, read and checked, and the jobs that come of them.
//
// Owner: the CS ioctl. Units: device addresses and bytes. Errors: amdgpu_cs_ioctl's, in its order: read(),
// resolve(), collect_bos(). Thread-safety: none. Mirrors: amdgpu_cs.c: struct amdgpu_cs_parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/call.h"
#include "sim/drm/syncobj.h"
#include "sim/drm/syncobj_wait.h"
#include "sim/kfd/render/bo_lists.h"
#include "sim/kfd/render/contexts.h"
#include "sim/kfd/render/ib_runner.h"
#include "uapi/amdgpu.h"

namespace understudy::kfd {

class AmdgpuFile;

class Submission {
 public:
  explicit Submission(AmdgpuFile& file) : file_(file) {}

  // amdgpu_cs_parser_init, amdgpu_cs_pass1.
  Result<void> read(Call& call, const uapi::amdgpu::drm_amdgpu_cs_in& in);
  // Points that have to be submitted by somebody before resolve() can succeed, for which the caller would
  // wait.
  std::vector<drm::SyncobjWait::Entry> missing_points() const;
  // amdgpu_cs_pass2.
  Result<void> resolve();
  // amdgpu_cs_parser_bos.
  Result<void> collect_bos(std::uint32_t bo_list_handle);
  // amdgpu_cs_submit: the sequence number on the leader's ring.
  std::uint64_t submit(const ClientRef& client);

 private:
  static constexpr std::size_t kGangSize = 4;  // AMDGPU_CS_GANG_SIZE
  struct Chunk {
    std::uint32_t id = 0;
    std::vector<std::byte> data;

    template <typename T>
    std::vector<T> entries() const;
  };
  // Indirect buffers for one ring; all members of a gang run at the same time.
  struct Member {
    RingId ring;
    std::uint32_t announced_ibs = 0;
    std::vector<IbJob::Ib> ibs;
  };
  struct Signal {
    drm::SyncobjRef syncobj;
    std::uint64_t point = 0;
  };

  Result<void> read_chunk(Call& call, std::uint64_t address);
  Result<void> announce_ib(const uapi::amdgpu::drm_amdgpu_cs_chunk_ib& ib);
  Result<void> read_user_fence(const uapi::amdgpu::drm_amdgpu_cs_chunk_fence& chunk);
  Result<void> read_bo_handles(Call& call, const uapi::amdgpu::drm_amdgpu_bo_list_in& chunk);
  Result<void> resolve_chunk(const Chunk& chunk);
  Result<void> add_ib(const uapi::amdgpu::drm_amdgpu_cs_chunk_ib& ib);
  Result<void> add_dependency(const uapi::amdgpu::drm_amdgpu_cs_chunk_dep& dependency);
  Result<void> add_wait(std::uint32_t handle, std::uint64_t point);
  template <typename T>
  Result<void> add_signals(const std::vector<T>& entries);
  Member* member_of(const RingId& ring);
  IbJob job_of(const Member& member, const ClientRef& client) const;

  AmdgpuFile& file_;
  std::vector<Chunk> chunks_;
  ContextRef context_;
  std::vector<Member> gang_;
  std::size_t leader_ = 0;
  std::shared_ptr<const ListedBos> bos_;
  BoRef user_fence_bo_;
  std::uint64_t user_fence_offset_bytes_ = 0;
  std::vector<drm::FenceRef> waits_;
  std::vector<Signal> signals_;
  bool has_signals_ = false;
};

}  // namespace understudy::kfd
