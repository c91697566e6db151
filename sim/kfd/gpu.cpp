#include "sim/kfd/gpu.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>

#include "sim/kfd/amdgpu_file.h"
#include "uapi/amdgpu.h"
#include "uapi/drm.h"

namespace understudy::kfd {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kAvailabilityGranule = 2 * 1024 * 1024;      // VRAM_AVAILABILITY_ALIGN
constexpr std::uint64_t kMinimumPageTableReserve = 8 * 1024 * 1024;  // AMDGPU_VM_RESERVED_VRAM

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}
std::uint64_t align_down(std::uint64_t value, std::uint64_t alignment) {
  return value / alignment * alignment;
}

// Adds if the sum stays within the limit.
bool add_within(std::atomic<std::uint64_t>& used, std::uint64_t bytes, std::uint64_t limit) {
  std::uint64_t before = used.load(std::memory_order_relaxed);
  do {
    if (before > limit || bytes > limit - before) return false;
  } while (!used.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  return true;
}

std::uint64_t saturating_subtract(std::uint64_t from, std::uint64_t bytes) {
  return from > bytes ? from - bytes : 0;
}

}  // namespace

Gpu::Gpu(Machine& machine, GpuProfile profile, GpuPlacement placement,
         std::shared_ptr<SystemMemory> system_memory, std::uint64_t total_vram_of_machine_bytes)
    : drm::Device(machine,
                  drm::DriverIdentity{
                      .name = "amdgpu", .description = "AMD GPU", .version_major = 3, .version_minor = 64},
                  drm::DriverFeatures{.modeset = true, .dumb_buffers = true}),
      profile_(std::move(profile)),
      placement_(placement),
      render_node_path_("dri/renderD" + std::to_string(placement.render_minor)),
      system_memory_(std::move(system_memory)),
      vram_size_bytes_(std::min(profile_.vram_bytes, machine.settings().limits.vram_bytes)),
      reserved_for_page_tables_bytes_(std::max(total_vram_of_machine_bytes >> 14, kMinimumPageTableReserve)) {
  const std::uint64_t in_use = std::min(machine.settings().limits.vram_in_use_bytes, vram_size_bytes_);
  vram_used_bytes_ = in_use;
  vram_rounded_bytes_ = align_up(in_use, kAvailabilityGranule);
  machine.on_sweep([this, alive = std::weak_ptr(retired_)] { return !alive.expired() && sweep_retired(); });
}

Gpu::~Gpu() = default;

std::uint64_t Gpu::clock_counter() const {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  const auto nanoseconds =
      static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
  return nanoseconds / 10;
}

// amdgpu_amdkfd_gpuvm.c: amdgpu_amdkfd_get_available_memory.
std::uint64_t Gpu::available_memory_bytes() {
  machine().sweep();
  if (prefers_gtt()) {
    const std::uint64_t system =
        saturating_subtract(system_memory_->limit_bytes, system_memory_->used_bytes.load());
    const std::uint64_t ttm =
        saturating_subtract(system_memory_->ttm_limit_bytes, system_memory_->ttm_used_bytes.load());
    return align_down(std::min(system, ttm), 4096);
  }
  const std::uint64_t taken = vram_rounded_bytes_.load() + reserved_for_page_tables_bytes_;
  return align_down(saturating_subtract(vram_size_bytes_, taken), kAvailabilityGranule);
}

void Gpu::reset(bool vram_lost) {
  std::vector<std::function<void(bool)>> observers;
  {
    const std::lock_guard lock(reset_mutex_);
    observers = reset_observers_;
    if (vram_lost) {
      for (const auto& [key, buffer] : vram_buffers_) {
        if (const BufferRef alive = buffer.lock()) alive->clear();
      }
    }
  }
  ++reset_count_;
  if (vram_lost) ++vram_lost_count_;
  for (const auto& observer : observers) observer(vram_lost);
}

void Gpu::on_reset(std::function<void(bool vram_lost)> observer) {
  const std::lock_guard lock(reset_mutex_);
  reset_observers_.push_back(std::move(observer));
}

void Gpu::leave_vram(std::uint64_t bytes) {
  const std::lock_guard lock(reset_mutex_);
  vram_used_bytes_ -= taken_away_bytes_;
  vram_rounded_bytes_ -= align_up(taken_away_bytes_, kAvailabilityGranule);
  const std::uint64_t usable = saturating_subtract(vram_size_bytes_, reserved_for_page_tables_bytes_);
  const std::uint64_t left = saturating_subtract(usable, vram_used_bytes_.load());
  taken_away_bytes_ = saturating_subtract(left, bytes);
  vram_used_bytes_ += taken_away_bytes_;
  vram_rounded_bytes_ += align_up(taken_away_bytes_, kAvailabilityGranule);
}

void Gpu::remember_vram(const BufferRef& buffer) {
  const std::lock_guard lock(reset_mutex_);
  vram_buffers_.emplace(buffer.get(), buffer);
}

void Gpu::forget_vram(const Buffer& buffer) {
  const std::lock_guard lock(reset_mutex_);
  vram_buffers_.erase(&buffer);
}

Result<void> Gpu::reserve(BoKind kind, std::uint64_t size_bytes) {
  if (try_reserve(kind, size_bytes)) return {};
  // Clients may have dropped mappings of dead BOs since the last look.
  machine().sweep();
  return try_reserve(kind, size_bytes);
}

// amdgpu_amdkfd_gpuvm.c: amdgpu_amdkfd_reserve_mem_limit.
Result<void> Gpu::try_reserve(BoKind kind, std::uint64_t size_bytes) {
  if (kind == BoKind::kVram) {
    if (!add_within(vram_used_bytes_, size_bytes,
                    saturating_subtract(vram_size_bytes_, reserved_for_page_tables_bytes_))) {
      return Errno(ENOMEM);
    }
    vram_rounded_bytes_ += align_up(size_bytes, kAvailabilityGranule);
    return {};
  }
  if (kind != BoKind::kGtt && kind != BoKind::kUserptr) return {};
  if (!add_within(system_memory_->used_bytes, size_bytes, system_memory_->limit_bytes)) return Errno(ENOMEM);
  if (kind == BoKind::kGtt) {
    if (!add_within(system_memory_->ttm_used_bytes, size_bytes, system_memory_->ttm_limit_bytes)) {
      system_memory_->used_bytes -= size_bytes;
      return Errno(ENOMEM);
    }
    gtt_used_bytes_ += size_bytes;
  }
  return {};
}

void Gpu::unreserve(BoKind kind, std::uint64_t size_bytes) {
  if (kind == BoKind::kVram) {
    vram_used_bytes_ -= size_bytes;
    vram_rounded_bytes_ -= align_up(size_bytes, kAvailabilityGranule);
    return;
  }
  if (kind != BoKind::kGtt && kind != BoKind::kUserptr) return;
  system_memory_->used_bytes -= size_bytes;
  if (kind == BoKind::kGtt) {
    system_memory_->ttm_used_bytes -= size_bytes;
    gtt_used_bytes_ -= size_bytes;
  }
}

void Gpu::retire_bo(BoKind kind, BufferRef buffer, std::uint64_t size_bytes) {
  const bool has_own_pages = kind == BoKind::kVram || kind == BoKind::kGtt;
  if (!has_own_pages || !buffer->held_by(Hold::kMapLockByte)) {
    unreserve(kind, size_bytes);
    return;
  }
  {
    const std::lock_guard lock(retired_->mutex);
    retired_->waiting.push_back({kind, std::move(buffer), size_bytes});
  }
  machine().sweep_soon();
}

bool Gpu::sweep_retired() {
  std::vector<RetiredBo> gone;
  bool any_left = false;
  {
    const std::lock_guard lock(retired_->mutex);
    auto& waiting = retired_->waiting;
    const auto first_gone = std::partition(waiting.begin(), waiting.end(), [](const RetiredBo& bo) {
      return bo.buffer->held_by(Hold::kMapLockByte);
    });
    gone.assign(std::make_move_iterator(first_gone), std::make_move_iterator(waiting.end()));
    waiting.erase(first_gone, waiting.end());
    any_left = !waiting.empty();
  }
  for (const RetiredBo& bo : gone) unreserve(bo.kind, bo.size_bytes);
  return any_left;
}

// amdgpu_dma_buf.c: amdgpu_gem_prime_import. An object of this device is imported as itself, a foreign
// dma-buf (also another GPU's) as a new object that holds on to it.
Result<drm::GemRef> Gpu::import_dma_buf(Call& call, drm::DrmFile&, const DmaBufRef& dma_buf) {
  return drm::GemRef(TRY(import_bo(call, dma_buf)));
}

Result<BoRef> Gpu::import_bo(Call& call, const DmaBufRef& dma_buf) {
  if (auto own = std::dynamic_pointer_cast<AmdgpuBo>(dma_buf->exporter()); own && &own->gpu() == this)
    return own;
  BoSpec spec;
  spec.kind = BoKind::kForeign;
  spec.size_bytes = dma_buf->size_bytes();
  spec.gem_domains = uapi::amdgpu::AMDGPU_GEM_DOMAIN_GTT;
  spec.foreign = dma_buf;
  BoRef bo = TRY(AmdgpuBo::create(*this, &call, spec));
  bo->set_imported_from(dma_buf);
  return bo;
}

Result<void> Gpu::object_opened(drm::DrmFile& file, drm::GemObject& object) {
  static_cast<AmdgpuFile&>(file).vm()->handle_opened(static_cast<AmdgpuBo&>(object));
  return {};
}

void Gpu::object_closed(drm::DrmFile& file, drm::GemObject& object) {
  static_cast<AmdgpuFile&>(file).vm()->handle_closed(static_cast<AmdgpuBo&>(object));
}

// amdgpu_gem.c: amdgpu_gem_object_mmap, ttm_bo_vm.c: ttm_bo_mmap_obj.
Result<MmapTarget> Gpu::map_object(Call& call, drm::DrmFile& file, drm::GemObject& object,
                                   const MmapRequest& request) {
  const auto& bo = static_cast<const AmdgpuBo&>(object);
  if (bo.is_userptr() || (bo.spec().gem_flags & uapi::amdgpu::AMDGPU_GEM_CREATE_NO_CPU_ACCESS))
    return Errno(EPERM);
  // Private mappings are for debuggers that only want the address range.
  const bool is_private = (request.flags & MAP_TYPE) == MAP_PRIVATE;
  if (is_private && request.protection != PROT_NONE) return Errno(EINVAL);
  return drm::Device::map_object(call, file, object, request);
}

// amdgpu_gem.c: amdgpu_mode_dumb_create.
Result<drm::GemRef> Gpu::create_dumb(Call& call, drm::DrmFile&, uapi::drm::drm_mode_create_dumb& args) {
  const std::uint64_t bytes_per_pixel = (args.bpp + 7) / 8;
  // amdgpu_gem_align_pitch
  const std::uint64_t pixels = align_up(args.width, bytes_per_pixel == 1   ? 256
                                                    : bytes_per_pixel == 2 ? 128
                                                                           : 64);
  args.pitch = static_cast<std::uint32_t>(pixels * bytes_per_pixel);
  args.size = align_up(std::uint64_t{args.pitch} * args.height, kPageBytes);
  if (args.size == 0) return Errno(EINVAL);
  BoSpec spec;
  spec.kind = BoKind::kVram;
  spec.size_bytes = args.size;
  spec.gem_domains = uapi::amdgpu::AMDGPU_GEM_DOMAIN_VRAM;
  spec.gem_flags = uapi::amdgpu::AMDGPU_GEM_CREATE_CPU_GTT_USWC |
                   uapi::amdgpu::AMDGPU_GEM_CREATE_VRAM_CONTIGUOUS |
                   uapi::amdgpu::AMDGPU_GEM_CREATE_VRAM_CLEARED;
  const Result<BoRef> bo = AmdgpuBo::create(*this, &call, spec);
  if (!bo) return Errno(ENOMEM);
  return drm::GemRef(bo.value());
}

}  // namespace understudy::kfd
