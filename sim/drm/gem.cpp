#include "sim/drm/gem.h"

#include "sim/core/machine.h"
#include "sim/drm/device.h"

namespace understudy::drm {

GemObject::~GemObject() {
  if (mmap_offset_bytes_ != 0) device_.release_mmap_offset(mmap_offset_bytes_);
}

std::uint64_t GemObject::mmap_offset_bytes() {
  const std::lock_guard lock(mutex_);
  if (mmap_offset_bytes_ == 0) mmap_offset_bytes_ = device_.reserve_mmap_offset(*this);
  return mmap_offset_bytes_;
}

Result<DmaBufRef> GemObject::ensure_dma_buf(Call& call, bool writable) {
  if (imported_from_) return imported_from_;
  TRY(may_export());
  const std::lock_guard lock(mutex_);
  if (DmaBufRef known = dma_buf_.lock()) return known;
  DmaBufRef made = TRY(call.machine().dmabufs().export_buffer(&call, shared_from_this(), buffer(), writable));
  dma_buf_ = made;
  call.machine().sweep_soon();
  return made;
}

Result<GemHandle> GemHandles::create(const Call* call, const GemRef& object) {
  TRY(object->device().object_opened(file_, *object));
  object->device().gem_names().handle_added(*object);
  const std::lock_guard lock(mutex_);
  std::uint32_t handle = 1;
  if (!free_.empty()) {
    handle = *free_.begin();
    free_.erase(free_.begin());
  } else {
    handle = next_++;
  }
  LedgerEntry entry;
  if (call != nullptr) {
    entry = call->machine().ledger().open(
        ObjectKind::kGemHandle, call,
        "GEM handle " + std::to_string(handle) + " on " + owner_label_ + ", " + object->describe());
  }
  slots_.emplace(handle, Slot{object, nullptr, std::move(entry)});
  ++handle_counts_[object.get()];
  return GemHandle{handle};
}

Result<GemRef> GemHandles::lookup(GemHandle handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(static_cast<std::uint32_t>(handle));
  if (found == slots_.end()) return Errno(ENOENT);
  return found->second.object;
}

Result<GemRef> GemHandles::close(const Call& call, GemHandle handle) {
  const auto number = static_cast<std::uint32_t>(handle);
  const std::string key =
      owner_label_ + "#" + std::to_string(call.file()->id().value) + " GEM handle " + std::to_string(number);
  Ledger& ledger = call.machine().ledger();
  Slot slot;
  bool known = false;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = slots_.find(number); found != slots_.end()) {
      slot = take_locked(found);
      known = true;
    }
  }
  if (!known) {
    Finding finding;
    LedgerLine line;
    if (ledger.was_destroyed(key, &finding.first, &line)) {
      finding.kind = FindingKind::kDoubleDestroy;
      finding.text = "GEM handle " + std::to_string(number) + " closed twice on " + owner_label_;
      finding.actor = Ledger::actor_of(&call);
      finding.made = line.made;
      ledger.report(std::move(finding));
    }
    return Errno(EINVAL);
  }
  ledger.note_destroyed(key, &call, &slot.entry);
  slot.entry.close(&call);
  handle_gone(*slot.object);
  return slot.object;
}

void GemHandles::handle_gone(GemObject& object) {
  object.device().object_closed(file_, object);
  object.device().gem_names().handle_removed(object);
}

GemHandles::Slot GemHandles::take_locked(std::map<std::uint32_t, Slot>::iterator place) {
  const std::uint32_t number = place->first;
  Slot slot = std::move(place->second);
  slots_.erase(place);
  free_.insert(number);
  const auto count = handle_counts_.find(slot.object.get());
  if (--count->second == 0) handle_counts_.erase(count);
  by_dma_buf_.erase({slot.dma_buf.get(), number});
  return slot;
}

bool GemHandles::holds(const GemObject& object) const {
  const std::lock_guard lock(mutex_);
  return handle_counts_.contains(&object);
}

std::vector<std::pair<GemHandle, GemRef>> GemHandles::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<GemHandle, GemRef>> handles;
  for (const auto& [number, slot] : slots_) handles.emplace_back(GemHandle{number}, slot.object);
  return handles;
}

void GemHandles::close_all() {
  std::map<std::uint32_t, Slot> slots;
  {
    const std::lock_guard lock(mutex_);
    slots.swap(slots_);
    by_dma_buf_.clear();
    handle_counts_.clear();
  }
  for (auto& [number, slot] : slots) handle_gone(*slot.object);
}

Result<GemHandle> GemHandles::handle_of(const DmaBufRef& dma_buf) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_dma_buf_.lower_bound({dma_buf.get(), 0});
  if (found == by_dma_buf_.end() || found->first != dma_buf.get()) return Errno(ENOENT);
  return GemHandle{found->second};
}

void GemHandles::remember(const DmaBufRef& dma_buf, GemHandle handle) {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(static_cast<std::uint32_t>(handle));
  if (found == slots_.end()) return;
  found->second.dma_buf = dma_buf;
  by_dma_buf_.insert({dma_buf.get(), found->first});
}

Result<void> GemHandles::change(GemHandle from, GemHandle to) {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(static_cast<std::uint32_t>(from));
  if (found == slots_.end()) return Errno(ENOENT);
  const auto wanted = static_cast<std::uint32_t>(to);
  if (slots_.contains(wanted)) return Errno(ENOSPC);
  Slot slot = std::move(found->second);
  slots_.erase(found);
  free_.insert(static_cast<std::uint32_t>(from));
  for (; next_ <= wanted; ++next_) free_.insert(next_);
  free_.erase(wanted);
  if (slot.dma_buf) {
    by_dma_buf_.erase({slot.dma_buf.get(), static_cast<std::uint32_t>(from)});
    by_dma_buf_.insert({slot.dma_buf.get(), wanted});
  }
  slots_.emplace(wanted, std::move(slot));
  return {};
}

}  // namespace understudy::drm
