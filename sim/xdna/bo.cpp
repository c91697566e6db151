#include "sim/xdna/bo.h"

#include "sim/xdna/device_heap.h"
#include "sim/xdna/npu.h"

namespace understudy::xdna {

XdnaBo::XdnaBo(Npu& npu, BoType type, std::uint64_t size_bytes, BufferRef buffer)
    : GemObject(npu, size_bytes),
      type_(type),
      buffer_(std::move(buffer)),
      internal_(type != BoType::kShare) {}

XdnaBo::~XdnaBo() {
  if (const std::shared_ptr<DeviceHeap> heap = heap_.lock()) heap->release(device_address_, size_bytes());
}

std::string XdnaBo::describe() const {
  constexpr const char* kTypeNames[] = {"SHARE", "DEV_HEAP", "DEV"};
  return std::to_string(size_bytes() / 1024) + " KiB " +
         (user_pages_ ? "userptr" : kTypeNames[static_cast<int>(type_)]);
}

Result<void> XdnaBo::may_export() const {
  if (type_ == BoType::kDev || user_pages_) return Errno(EOPNOTSUPP);
  return {};
}

void XdnaBo::place_heap_chunk(std::uint64_t device_address) {
  device_address_ = device_address;
}

void XdnaBo::place_in_aperture(std::weak_ptr<DeviceHeap> heap, std::uint64_t device_address) {
  heap_ = std::move(heap);
  device_address_ = device_address;
}

void XdnaBo::note_mapped(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  if (mapped_address_ == kInvalidAddress) mapped_address_ = address;
}

std::uint64_t XdnaBo::mapped_address() const {
  if (user_pages_) return user_pages_->ranges.front().address;
  const std::lock_guard lock(mutex_);
  if (mapped_address_ != kInvalidAddress && buffer_ && !buffer_->held_by(Hold::kMapLockByte)) {
    mapped_address_ = kInvalidAddress;
  }
  return mapped_address_;
}

std::uint32_t XdnaBo::assigned_context() const {
  const std::lock_guard lock(mutex_);
  return assigned_context_;
}

void XdnaBo::assign_context(std::uint32_t context_id) {
  const std::lock_guard lock(mutex_);
  assigned_context_ = context_id;
}

}  // namespace understudy::xdna
