#include "runtime/driver/drm/drm_file.h"

#include <fcntl.h>

#include "runtime/base/persist.h"
#include "runtime/driver/ioctl.h"
#include "uapi/drm.h"

namespace hsa_rt::drm {

GemRef::~GemRef() {
  if (held_) file_.drop(handle_);
}

Result<void> GemRef::release(std::shared_ptr<GemRef>& ref) {
  if (ref != nullptr && ref.use_count() == 1) {
    TRY(ref->file_.try_drop(ref->handle_));
    ref->held_ = false;
  }
  ref.reset();
  return {};
}

Result<UniqueFd> DrmFile::open_node(const std::string& path) {
  return UniqueFd::open(path.c_str(), O_RDWR);
}

Result<std::string> DrmFile::driver_name() const {
  char name[64] = {};
  uapi::drm::drm_version args{};
  args.name_len = sizeof(name) - 1;
  args.name = reinterpret_cast<uint64_t>(name);
  TRY(driver_ioctl<uapi::drm::Version>(fd_.get(), args));
  return std::string(name);
}

std::shared_ptr<GemRef> DrmFile::count(uint32_t handle) {
  auto ref = std::make_shared<GemRef>(*this, handle);
  ++use_count_[handle];
  return ref;
}

std::shared_ptr<GemRef> DrmFile::adopt(uint32_t handle) {
  const std::lock_guard guard(lock_);
  return count(handle);
}

Result<std::shared_ptr<GemRef>> DrmFile::import_dmabuf(int dmabuf_fd) {
  uapi::drm::drm_prime_handle args{};
  args.fd = dmabuf_fd;
  const std::lock_guard guard(lock_);
  close_refused();
  TRY(driver_ioctl<uapi::drm::PrimeFdToHandle>(fd_.get(), args));
  return count(args.handle);
}

Result<std::shared_ptr<GemRef>> DrmFile::import_memory(const Memory& memory) {
  const uint64_t serial = memory.serial();
  const std::lock_guard guard(imports_lock_);
  if (const auto known = imports_.find(serial); known != imports_.end()) {
    if (std::shared_ptr<GemRef> gem = known->second.lock()) return gem;
  }
  const UniqueFd dmabuf = TRY(memory.export_dmabuf());
  std::shared_ptr<GemRef> gem = TRY(import_dmabuf(dmabuf.get()));
  GemRef* const raw = gem.get();
  const auto forget = [this, serial, gem = std::move(gem)](GemRef*) mutable {
    gem.reset();
    const std::lock_guard forget_guard(imports_lock_);
    const auto entry = imports_.find(serial);
    if (entry != imports_.end() && entry->second.expired()) imports_.erase(entry);
  };
  std::shared_ptr<GemRef> shared(raw, forget);
  imports_[serial] = shared;
  return shared;
}

Result<UniqueFd> DrmFile::export_dmabuf(const GemRef& gem) const {
  uapi::drm::drm_prime_handle args{};
  args.handle = gem.handle();
  // The access mode of the first export stays with the buffer for all later ones.
  args.flags = O_CLOEXEC | O_RDWR;
  TRY(driver_ioctl<uapi::drm::PrimeHandleToFd>(fd_.get(), args));
  return UniqueFd(args.fd);
}

void DrmFile::drop(uint32_t handle) {
  const std::lock_guard guard(lock_);
  if (--use_count_[handle] != 0) return;
  bool closed = false;
  persist([&] { return closed = static_cast<bool>(close_handle(handle)); });
  if (!closed) refused_.push_back(handle);
}

Result<void> DrmFile::try_drop(uint32_t handle) {
  const std::lock_guard guard(lock_);
  if (use_count_[handle] == 1) return close_handle(handle);
  --use_count_[handle];
  return {};
}

Result<void> DrmFile::close_handle(uint32_t handle) {
  uapi::drm::drm_gem_close args{};
  args.handle = handle;
  TRY(driver_ioctl<uapi::drm::GemClose>(fd_.get(), args));
  use_count_.erase(handle);
  return {};
}

void DrmFile::close_refused() {
  // A handle on the list may have come back to life: importing its buffer again returns the same number.
  std::erase_if(refused_, [this](uint32_t handle) {
    const auto used = use_count_.find(handle);
    return used == use_count_.end() || used->second != 0 || close_handle(handle);
  });
}

}  // namespace hsa_rt::drm
