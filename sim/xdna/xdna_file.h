// XdnaFile: one open of an accel node: device heap, hardware contexts, and the driver's ioctl handlers.
//
// Owner: FileTable. Units: bytes. Errors: each handler gives the errno of its counterpart, in its order.
// Thread-safety: handlers run in parallel; heap, contexts and handles lock themselves. Mirrors: struct
// amdxdna_client.
//
// Handlers by topic: bo_ioctls.cpp, hwctx_ioctls.cpp, exec_ioctls.cpp, info_ioctls.cpp, array_ioctls.cpp.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "sim/drm/drm_file.h"
#include "sim/xdna/device_heap.h"
#include "sim/xdna/npu.h"
#include "uapi/amdxdna.h"

namespace understudy::xdna {

class HwContext;

class XdnaFile : public drm::DrmFile {
 public:
  XdnaFile(Npu& npu, dev_t device_number, ClientRef opener);
  ~XdnaFile() override;

  Npu& npu() const { return static_cast<Npu&>(device()); }
  const ClientRef& opener() const { return opener_; }
  const std::shared_ptr<DeviceHeap>& heap() const { return heap_; }
  std::vector<XdnaBoRef> bos();
  Result<XdnaBoRef> lookup_bo(std::uint32_t handle);     // ENOENT
  std::shared_ptr<HwContext> context(std::uint32_t id);  // null: not one of this file
  Result<MmapTarget> mmap(Call& call, const MmapRequest& request) override;
  void mapped(const Caller& caller, const MmapRequest& request, std::uint64_t address) override;
  void release() override;

  Outcome create_hwctx(Call& call, uapi::amdxdna::amdxdna_drm_create_hwctx& args);
  Outcome destroy_hwctx(Call& call, uapi::amdxdna::amdxdna_drm_destroy_hwctx& args);
  Outcome config_hwctx(Call& call, uapi::amdxdna::amdxdna_drm_config_hwctx& args);
  Outcome create_bo(Call& call, uapi::amdxdna::amdxdna_drm_create_bo& args);
  Outcome get_bo_info(Call& call, uapi::amdxdna::amdxdna_drm_get_bo_info& args);
  Outcome sync_bo(Call& call, uapi::amdxdna::amdxdna_drm_sync_bo& args);
  Outcome exec_cmd(Call& call, uapi::amdxdna::amdxdna_drm_exec_cmd& args);
  Outcome wait_cmd(Call& call, uapi::amdxdna::amdxdna_drm_wait_cmd& args);
  Outcome get_info(Call& call, uapi::amdxdna::amdxdna_drm_get_info& args);
  Outcome get_array(Call& call, uapi::amdxdna::amdxdna_drm_get_array& args);
  Outcome set_state(Call& call, uapi::amdxdna::amdxdna_drm_set_state& args);

 private:
  Result<XdnaBoRef> make_bo(Call& call, const uapi::amdxdna::amdxdna_drm_create_bo& args, BoType type);
  Result<XdnaBoRef> make_dev_bo(const uapi::amdxdna::amdxdna_drm_create_bo& args);
  Result<XdnaBoRef> make_from_va_table(Call& call, std::uint64_t va_table, BoType type);
  Result<XdnaBoRef> pin_user_pages(Call& call, std::uint64_t entries_address, std::uint32_t count,
                                   BoType type);
  Result<void> configure_cus(HwContext& context, std::span<const std::byte> config, std::uint32_t size_bytes);
  Outcome configure_debug_bo(Call& call, const std::shared_ptr<HwContext>& context, std::uint32_t handle,
                             bool assign);

  const ClientRef opener_;
  const std::shared_ptr<DeviceHeap> heap_;
  std::mutex contexts_mutex_;
  std::map<std::uint32_t, std::shared_ptr<HwContext>> contexts_;  // guarded by contexts_mutex_
};

}  // namespace understudy::xdna
