#include "sim/kfd/amdgpu_bo.h"

#include <algorithm>
#include <cstring>

#include "sim/core/machine.h"
#include "sim/core/vma.h"
#include "sim/kfd/gpu.h"
#include "uapi/amdgpu.h"

namespace understudy::kfd {
namespace {

constexpr const char* kKindNames[] = {"VRAM", "GTT", "userptr", "doorbell", "MMIO", "imported"};

std::string human_size(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
  unsigned unit = 0;
  while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + " " + kUnits[unit];
}

BufferRef make_pages(const BoSpec& spec) {
  switch (spec.kind) {
    case BoKind::kVram:
    case BoKind::kGtt:
      return Buffer::create(spec.kind == BoKind::kVram ? "amdgpu-vram" : "amdgpu-gtt", spec.size_bytes);
    case BoKind::kForeign:
      return spec.foreign->buffer();
    case BoKind::kDoorbell:
    case BoKind::kMmio:
      return spec.pages;
    case BoKind::kUserptr:
      break;
  }
  return nullptr;
}

// Of BOs that were not made by GEM_CREATE.
std::uint64_t domains_of(const BoSpec& spec) {
  if (spec.gem_domains != 0) return spec.gem_domains;
  switch (spec.kind) {
    case BoKind::kVram:
      return uapi::amdgpu::AMDGPU_GEM_DOMAIN_VRAM;
    case BoKind::kDoorbell:
      return uapi::amdgpu::AMDGPU_GEM_DOMAIN_DOORBELL;
    default:
      return uapi::amdgpu::AMDGPU_GEM_DOMAIN_GTT;
  }
}

}  // namespace

Result<std::shared_ptr<AmdgpuBo>> AmdgpuBo::create(Gpu& gpu, const Call* call, const BoSpec& spec) {
  TRY(gpu.reserve(spec.kind, spec.size_bytes));
  // From here on the destructor gives the reservation back.
  const std::shared_ptr<AmdgpuBo> bo(new AmdgpuBo(gpu, spec, make_pages(spec)));
  if (spec.kind == BoKind::kUserptr && spec.check_user_pages_now) TRY(bo->check_user_pages());
  const ObjectKind kind = bo->is_userptr() ? ObjectKind::kUserptr : ObjectKind::kBuffer;
  bo->entry_ = gpu.machine().ledger().open(kind, call, bo->describe());
  return bo;
}

AmdgpuBo::AmdgpuBo(Gpu& gpu, BoSpec spec, BufferRef buffer)
    : drm::GemObject(gpu, spec.size_bytes),
      gpu_(gpu),
      spec_(std::move(spec)),
      buffer_(std::move(buffer)),
      preferred_domains_(domains_of(spec_)) {
  if (spec_.kind == BoKind::kVram) gpu_.remember_vram(buffer_);
}

Result<void> AmdgpuBo::check_user_pages() const {
  Client& client = *spec_.user_client;
  std::uint64_t end = 0;
  if (__builtin_add_overflow(spec_.user_address, spec_.size_bytes, &end)) return Errno(EFAULT);
  for (std::uint64_t address = spec_.user_address; address < end;) {
    const Result<Vma> found = vma_at(client, address);
    if (!found && found.error() == Errno(ENOSYS)) {
      return check_user_range(client, address, end - address, !spec_.user_read_only);
    }
    const Vma vma = TRY(found);
    if (spec_.user_anonymous_only && vma.has_file) return Errno(EPERM);
    if (!vma.readable) return Errno(EFAULT);
    if (!spec_.user_read_only && !vma.writable) return Errno(EPERM);
    address = vma.end;
  }
  return {};
}

AmdgpuBo::~AmdgpuBo() {
  if (spec_.kind == BoKind::kVram) gpu_.forget_vram(*buffer_);
  gpu_.retire_bo(spec_.kind, buffer_, spec_.size_bytes);
}

std::string AmdgpuBo::describe() const {
  return human_size(spec_.size_bytes) + " " + kKindNames[static_cast<int>(spec_.kind)];
}

// amdgpu_dma_buf.c: amdgpu_gem_prime_export.
Result<void> AmdgpuBo::may_export() const {
  if (is_userptr() || (spec_.gem_flags & uapi::amdgpu::AMDGPU_GEM_CREATE_VM_ALWAYS_VALID))
    return Errno(EPERM);
  return {};
}

std::uint64_t AmdgpuBo::read_pages(std::uint64_t offset_bytes, std::span<std::byte> into) const {
  if (is_userptr()) {
    if (spec_.user_client->gone()) return 0;
    const auto moved = spec_.user_client->memory().read_some(spec_.user_address + offset_bytes, into);
    return moved ? moved.value() : 0;
  }
  if (!buffer_) return 0;
  const auto bytes = buffer_->bytes();
  if (!bytes) return 0;
  std::memcpy(into.data(), bytes.value().data() + offset_bytes, into.size());
  return into.size();
}

std::uint64_t AmdgpuBo::write_pages(std::uint64_t offset_bytes, std::span<const std::byte> from) const {
  if (is_userptr()) {
    if (spec_.user_client->gone() || spec_.user_read_only) return 0;
    const auto moved = spec_.user_client->memory().write_some(spec_.user_address + offset_bytes, from);
    return moved ? moved.value() : 0;
  }
  if (!buffer_) return 0;
  const auto bytes = buffer_->bytes();
  if (!bytes) return 0;
  std::memcpy(bytes.value().data() + offset_bytes, from.data(), from.size());
  return from.size();
}

BoMetadata AmdgpuBo::metadata() const {
  const std::lock_guard lock(metadata_mutex_);
  return metadata_;
}

void AmdgpuBo::set_metadata(const BoMetadata& metadata) {
  const std::lock_guard lock(metadata_mutex_);
  metadata_ = metadata;
}

}  // namespace understudy::kfd
