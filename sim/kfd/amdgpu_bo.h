// AmdgpuBo: amdgpu's buffer object, behind both KFD handles and GEM handles.
//
// Owner: shared (see drm::GemObject). Accounted memory is given back by the destructor, i.e. when KFD
// handles, GEM handles, dma-bufs and device maps are gone and (see Gpu::retire_bo) no client maps its pages
// any more. Units: bytes. Errors: create() returns ENOMEM when the limits say so, EFAULT for unreadable user
// pages. Thread-safety: immutable but for metadata, which locks. Mirrors: amdgpu_object.c,
// amdgpu_ttm.c, amdgpu_amdkfd_gpuvm.c (accounting).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "sim/core/buffer.h"
#include "sim/core/client.h"
#include "sim/core/ledger.h"
#include "sim/drm/gem.h"

namespace understudy::kfd {

class Gpu;

enum class BoKind : std::uint8_t { kVram, kGtt, kUserptr, kDoorbell, kMmio, kForeign };

struct BoSpec {
  BoKind kind = BoKind::kVram;
  std::uint64_t size_bytes = 0;  // page multiple
  std::uint64_t alignment_bytes = 0;
  std::uint64_t gem_domains = 0;  // AMDGPU_GEM_DOMAIN_*
  std::uint64_t gem_flags = 0;    // AMDGPU_GEM_CREATE_*
  bool cpu_accessible = true;
  // userptr only
  ClientRef user_client;
  std::uint64_t user_address = 0;
  bool user_read_only = false;
  bool user_anonymous_only = false;
  bool check_user_pages_now = true;  // else they are looked at when first used
  // foreign import only
  DmaBufRef foreign;
  // doorbell and MMIO only: the pages, which exist before the BO
  BufferRef pages;
};

struct BoMetadata {
  std::uint64_t flags = 0;
  std::uint64_t tiling_info = 0;
  std::uint32_t size_bytes = 0;
  std::array<std::byte, 256> data{};
};

class AmdgpuBo : public drm::GemObject {
 public:
  // Accounts the memory (ENOMEM) and, for userptr, checks the pages.
  static Result<std::shared_ptr<AmdgpuBo>> create(Gpu& gpu, const Call* call, const BoSpec& spec);
  ~AmdgpuBo() override;

  Gpu& gpu() const { return gpu_; }
  const BoSpec& spec() const { return spec_; }
  BoKind kind() const { return spec_.kind; }
  bool is_userptr() const { return spec_.kind == BoKind::kUserptr; }
  BufferRef buffer() const override { return buffer_; }
  std::string describe() const override;
  Result<void> may_export() const override;  // EPERM for userptr

  // Userptr: could the driver have all pages now? EFAULT: not mapped or not readable; EPERM: read-only, or of
  // a file where only anonymous memory was wanted (amdgpu_ttm.c: amdgpu_ttm_tt_get_user_pages).
  Result<void> check_user_pages() const;
  // Where the pages should be: AMDGPU_GEM_DOMAIN_*. Only user space sees it; they stay where they are.
  std::uint64_t preferred_domains() const { return preferred_domains_.load(); }
  void set_preferred_domains(std::uint64_t domains) { preferred_domains_.store(domains); }

  // The GPU's access to the pages, wherever they are. Returns how many bytes were moved: less than asked for
  // when user pages have vanished or forbid it. The range must lie inside the BO.
  std::uint64_t read_pages(std::uint64_t offset_bytes, std::span<std::byte> into) const;
  std::uint64_t write_pages(std::uint64_t offset_bytes, std::span<const std::byte> from) const;

  void keep_for_life() { entry_.keep_for_life(); }

  BoMetadata metadata() const;
  void set_metadata(const BoMetadata& metadata);

 private:
  AmdgpuBo(Gpu& gpu, BoSpec spec, BufferRef buffer);
  Gpu& gpu_;
  BoSpec spec_;
  const BufferRef buffer_;
  LedgerEntry entry_;
  std::atomic<std::uint64_t> preferred_domains_;
  mutable std::mutex metadata_mutex_;
  BoMetadata metadata_;
};

using BoRef = std::shared_ptr<AmdgpuBo>;

}  // namespace understudy::kfd
