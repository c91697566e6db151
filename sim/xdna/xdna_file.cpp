#include "sim/xdna/xdna_file.h"

#include <sys/mman.h>

#include "sim/xdna/hwctx.h"

namespace understudy::xdna {

XdnaFile::XdnaFile(Npu& npu, dev_t device_number, ClientRef opener)
    : DrmFile(npu, drm::NodeType::kAccel, npu.label(), device_number),
      opener_(std::move(opener)),
      heap_(std::make_shared<DeviceHeap>(npu.profile().heap_max_bytes, npu.profile().can_expand_heap())) {}

XdnaFile::~XdnaFile() = default;

std::vector<XdnaBoRef> XdnaFile::bos() {
  std::vector<XdnaBoRef> bos;
  for (const auto& [handle, object] : handles().all())
    bos.push_back(std::static_pointer_cast<XdnaBo>(object));
  return bos;
}

Result<XdnaBoRef> XdnaFile::lookup_bo(std::uint32_t handle) {
  return std::static_pointer_cast<XdnaBo>(TRY(handles().lookup(drm::GemHandle{handle})));
}

std::shared_ptr<HwContext> XdnaFile::context(std::uint32_t id) {
  const std::lock_guard lock(contexts_mutex_);
  const auto found = contexts_.find(id);
  return found == contexts_.end() ? nullptr : found->second;
}

// amdxdna_pci_drv.c: amdxdna_drm_gem_mmap; amdxdna_gem.c: amdxdna_gem_obj_mmap.
Result<MmapTarget> XdnaFile::mmap(Call& call, const MmapRequest& request) {
  constexpr std::uint64_t kGemOffsetStart = std::uint64_t{1} << 32;
  if (request.offset_bytes < kGemOffsetStart) {
    return Errno(npu().flavour() == DriverFlavour::kMainline ? EINVAL : EOPNOTSUPP);
  }
  if ((request.flags & MAP_TYPE) == MAP_PRIVATE) return Errno(EINVAL);
  return DrmFile::mmap(call, request);
}

void XdnaFile::mapped(const Caller&, const MmapRequest& request, std::uint64_t address) {
  if (const drm::GemRef object = device().object_at_mmap_offset(request.offset_bytes)) {
    static_cast<XdnaBo&>(*object).note_mapped(address);
  }
}

void XdnaFile::release() {
  DrmFile::release();
  std::map<std::uint32_t, std::shared_ptr<HwContext>> contexts;
  {
    const std::lock_guard lock(contexts_mutex_);
    contexts.swap(contexts_);
  }
  for (const auto& [id, context] : contexts) {
    npu().remove_context(id);
    context->destroy();
  }
}

}  // namespace understudy::xdna
