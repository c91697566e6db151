// RocmContext: one guest context of the ROCm capability set: command streams in, answers and sequence numbers
// out through a page the guest shares, objects on the host's KFD.
//
// Owner: Renderer. Units: bytes. Errors: submit: the errno that ended the stream (EINVAL a frame, ENOMEM an
// answer that does not fit); create_blob: EINVAL, ENOENT. Failures of commands are in their answers.
// Thread-safety: the renderer's single caller. Mirrors: virglrenderer src/rocm: hsakmt_context.c,
// hsakmt_device.c.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sim/core/buffer.h"
#include "sim/virtio_gpu/device/renderer.h"
#include "sim/virtio_gpu/rocm/protocol.h"
#include "sim/virtio_gpu/rocm/rocm_backend.h"
#include "sim/virtio_gpu/rocm/rocm_objects.h"

namespace understudy::virtio_gpu {

class RocmContext : public RendererContext {
 public:
  // ENOMEM when every slice of addresses is taken.
  static Result<std::unique_ptr<RocmContext>> create(RocmBackend& backend, std::uint32_t context_id);
  ~RocmContext() override;

  // RendererContext
  Result<void> submit(std::span<const std::byte> commands) override;
  Result<Blob> create_blob(const BlobRequest& request) override;
  void detach_resource(std::uint32_t resource_id) override;
  // Ring 0 is in step with the host's CPU. The published hosts never look at the others.
  bool retires_fence(std::uint32_t ring_index) override { return ring_index == 0; }
  void lose() override { lost_ = true; }

 private:
  // A handler's end: an answer, none at all, or what ends the stream.
  using Answer = Result<std::optional<VhsakmtReply>>;

  RocmContext(RocmBackend& backend, std::shared_ptr<VaArena> arena)
      : backend_(backend), arena_(std::move(arena)) {}

  HostThunk& thunk() { return backend_.thunk(); }
  const VhsakmtLayout& layout() const { return backend_.layout(); }

  // The shared page.
  Result<Blob> create_shmem(const BlobRequest& request);
  std::span<std::byte> response_area();
  void write_seqno(std::uint32_t seqno);
  void write_answer(const VhsakmtHeader& header, const VhsakmtReply& reply);
  // ENOMEM when the host's own answer does not fit, whatever the guest has room for.
  Result<VhsakmtReply> make_reply(const VhsakmtHeader& header, std::size_t size_bytes);
  Answer answer_with(const VhsakmtHeader& header, std::size_t size_bytes, std::int32_t ret);

  Answer handle(const NopCommand& command);
  Answer handle(const QueryCommand& command);
  Answer handle(const EventCommand& command);
  Answer handle(const MemoryCommand& command);
  Answer handle(const QueueCommand& command);
  Answer handle(const GlCommand& command);
  Answer refuse_lost(const VhsakmtCommand& command);

  // query_commands.cpp
  std::int32_t query(const QueryCommand& command, ccmd::vhsakmt_ccmd_query_info_rsp& response);
  Answer query_array(const QueryCommand& command);
  Answer query_tile_config(const QueryCommand& command);
  Answer query_pointer_info(const QueryCommand& command);
  std::int32_t later_query(const QueryCommand& command);

  // memory_commands.cpp
  std::int32_t allocate(const MemoryCommand& command, std::uint64_t& handle);
  HsaResult<std::uint64_t> allocate_scratch(std::uint32_t node_id, std::uint64_t size_bytes,
                                            const hsa::HsaMemFlags& flags, std::int32_t& refusal);
  std::int32_t register_memory(const MemoryCommand& command);
  std::int32_t deregister_memory(const MemoryCommand& command);
  std::int32_t memory(const MemoryCommand& command, ccmd::vhsakmt_ccmd_memory_rsp& response);
  // later_memory_commands.cpp
  std::int32_t later_memory(const MemoryCommand& command, ccmd::vhsakmt_ccmd_memory_rsp& response);
  std::int32_t export_dma_buf(const MemoryCommand& command, ccmd::vhsakmt_ccmd_memory_rsp& response);
  std::int32_t import_dma_buf(const MemoryCommand& command, ccmd::vhsakmt_ccmd_memory_rsp& response);
  std::int32_t export_imported(const MemoryCommand& command, ccmd::vhsakmt_ccmd_memory_rsp& response);
  std::int32_t va_operation(const MemoryCommand& command);
  std::int32_t free_imported(const MemoryCommand& command);
  std::int32_t svm_attributes(const MemoryCommand& command, bool set);

  // queue_commands.cpp
  std::int32_t create_queue(const QueueCommand& command, ccmd::vhsakmt_ccmd_queue_rsp& response);
  std::int32_t later_queue(const QueueCommand& command);

  // event_commands.cpp
  std::int32_t create_event(const EventCommand& command, ccmd::vhsakmt_ccmd_event_rsp& response);

  // rocm_context.cpp: the end of objects
  void free_object(const RocmObjectRef& object);
  void free_memory(const RocmObject& object);
  BlobOpener opener_of(const RocmObject& object);
  Result<RocmObjectRef> make_userptr(const BlobRequest& request);
  Result<void> fill_view(RocmObject& object);

  RocmBackend& backend_;
  const std::shared_ptr<VaArena> arena_;
  RocmObjects objects_;
  BufferRef shmem_;
  std::uint32_t shmem_resource_id_ = 0;
  bool lost_ = false;
};

// The capability set; `host` may be null: a host without KFD.
std::unique_ptr<ContextType> make_rocm(std::shared_ptr<Machine> host, const VhsakmtLayout& layout,
                                       bool strict);

}  // namespace understudy::virtio_gpu
