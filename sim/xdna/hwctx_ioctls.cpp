// CREATE_HWCTX, DESTROY_HWCTX, CONFIG_HWCTX. Mirrors amdxdna_ctx.c and aie2_ctx.c: aie2_hwctx_init,
// aie2_hwctx_col_list, aie2_hwctx_cu_config, aie2_hwctx_cfg_debug_bo.
#include <algorithm>
#include <cstring>

#include "sim/xdna/hwctx.h"
#include "sim/xdna/xdna_file.h"

namespace understudy::xdna {
namespace {

using namespace uapi::amdxdna;

constexpr std::uint64_t kInternalBufferBytes = 4096;
constexpr std::uint32_t kMaxConfigBytes = 4096;

// Where a partition of the wanted width may start; npu4 and later align it to its own width.
Result<HwContext::Columns> choose_columns(const NpuProfile& profile, std::uint32_t tile_count) {
  if (tile_count == 0) return Errno(EINVAL);
  const unsigned count = tile_count / profile.core.row_count;
  if (count == 0 || count > profile.columns) return Errno(EINVAL);
  const unsigned last_start = profile.columns - count;
  unsigned first = profile.first_usable_column;
  if (first > 0 && last_start == 0) first = 0;
  const unsigned width = profile.first_usable_column == 0 ? count : 1;
  first = (first + width - 1) / width * width;
  if (first > last_start) return Errno(EINVAL);
  return HwContext::Columns{first, count};
}

}  // namespace

Outcome XdnaFile::create_hwctx(Call& call, amdxdna_drm_create_hwctx& args) {
  if (args.ext != 0 || args.ext_flags != 0) return Errno(EINVAL);
  const auto qos = call.memory().read_value<amdxdna_qos_info>(args.qos_p);
  if (!qos) return Errno(EFAULT);
  if (heap_->empty()) return Errno(ENOENT);
  std::vector<XdnaBoRef> internal_buffers;
  for (unsigned i = 0; i < HwContext::kInternalBuffers; ++i) {
    internal_buffers.push_back(std::make_shared<XdnaBo>(npu(), BoType::kDev, kInternalBufferBytes, nullptr));
    TRY(heap_->place(*internal_buffers.back()));
  }
  const HwContext::Columns columns = TRY(choose_columns(npu().profile(), args.num_tiles));
  auto context = std::make_shared<HwContext>(*this, qos.value(), columns, std::move(internal_buffers));
  const std::uint32_t id = TRY(npu().add_context(context));
  const Result<std::uint32_t> syncobj = syncobjs().create_handle(&call, context->completion());
  if (!syncobj) {
    npu().remove_context(id);
    return syncobj.error();
  }
  context->account(call);
  {
    const std::lock_guard lock(contexts_mutex_);
    contexts_[id] = context;
  }
  args.handle = id;
  args.syncobj_handle = syncobj.value();
  args.umq_doorbell = AMDXDNA_INVALID_DOORBELL_OFFSET;
  return 0;
}

Outcome XdnaFile::destroy_hwctx(Call& call, amdxdna_drm_destroy_hwctx& args) {
  if (args.pad != 0) return Errno(EINVAL);
  const std::string key =
      label() + "#" + std::to_string(id().value) + " hwctx " + std::to_string(args.handle);
  std::shared_ptr<HwContext> context;
  {
    const std::lock_guard lock(contexts_mutex_);
    if (const auto found = contexts_.find(args.handle); found != contexts_.end()) {
      context = std::move(found->second);
      contexts_.erase(found);
    }
  }
  Ledger& ledger = call.machine().ledger();
  if (!context) {
    Finding finding{FindingKind::kDoubleDestroy, {}, Ledger::actor_of(&call), {}, {}};
    if (ledger.was_destroyed(key, &finding.first)) {
      finding.text = "hwctx " + std::to_string(args.handle) + " destroyed twice on " + label();
      ledger.report(std::move(finding));
    }
    return Errno(EINVAL);
  }
  ledger.note_destroyed(key, &call);
  npu().remove_context(args.handle);
  context->destroy();
  return 0;
}

Outcome XdnaFile::config_hwctx(Call& call, amdxdna_drm_config_hwctx& args) {
  if (args.pad != 0) return Errno(EINVAL);
  std::vector<std::byte> config;
  switch (args.param_type) {
    case DRM_AMDXDNA_HWCTX_CONFIG_CU:
      if (args.param_val_size > kMaxConfigBytes) return Errno(E2BIG);
      // The kernel reads the header even when the caller's size is shorter: what is missing is zero.
      config.resize(kMaxConfigBytes);
      TRY(call.memory().read(args.param_val, std::span(config).first(args.param_val_size)));
      break;
    case DRM_AMDXDNA_HWCTX_ASSIGN_DBG_BUF:
    case DRM_AMDXDNA_HWCTX_REMOVE_DBG_BUF:
      break;
    default:
      return Errno(EINVAL);
  }
  const std::shared_ptr<HwContext> context = this->context(args.handle);
  if (!context) return Errno(EINVAL);
  if (args.param_type == DRM_AMDXDNA_HWCTX_CONFIG_CU)
    return configure_cus(*context, config, args.param_val_size);
  return configure_debug_bo(call, context, static_cast<std::uint32_t>(args.param_val),
                            args.param_type == DRM_AMDXDNA_HWCTX_ASSIGN_DBG_BUF);
}

Result<void> XdnaFile::configure_cus(HwContext& context, std::span<const std::byte> config,
                                     std::uint32_t size_bytes) {
  amdxdna_hwctx_param_config_cu header;
  std::memcpy(&header, config.data(), sizeof header);
  if (std::any_of(std::begin(header.pad), std::end(header.pad), [](std::uint16_t pad) { return pad != 0; })) {
    return Errno(EINVAL);
  }
  if (context.configured() || header.num_cus == 0) return Errno(EINVAL);
  if (sizeof header + header.num_cus * sizeof(amdxdna_cu_config) > size_bytes) return Errno(EINVAL);
  if (header.num_cus > HwContext::kMaxComputeUnits) return Errno(EINVAL);
  std::vector<ComputeUnit> units;
  for (unsigned i = 0; i < header.num_cus; ++i) {
    amdxdna_cu_config unit;
    std::memcpy(&unit, config.data() + sizeof header + i * sizeof unit, sizeof unit);
    if (unit.pad[0] != 0 || unit.pad[1] != 0 || unit.pad[2] != 0) return Errno(EINVAL);
    const Result<XdnaBoRef> pdi = lookup_bo(unit.cu_bo);
    if (!pdi || pdi.value()->type() != BoType::kDev) return Errno(EINVAL);
    units.push_back({pdi.value(), unit.cu_func});
  }
  return context.configure(std::move(units));
}

Outcome XdnaFile::configure_debug_bo(Call& call, const std::shared_ptr<HwContext>& context,
                                     std::uint32_t handle, bool assign) {
  const Result<XdnaBoRef> found = lookup_bo(handle);
  if (!found || found.value()->type() != BoType::kDev) return Errno(EINVAL);
  const XdnaBoRef bo = found.value();
  if (assign && bo->assigned_context() != 0) return Errno(EBUSY);
  if (!assign && bo->assigned_context() != context->id()) return Errno(EINVAL);
  const std::uint64_t sequence = TRY(context->submit(Job{nullptr, {bo}, 0, nullptr}));
  // It blocks until the queue has come to it.
  context->when_done(sequence, [call = call.shared_from_this(), bo, id = assign ? context->id() : 0] {
    bo->assign_context(id);
    call->finish(0);
  });
  return Outcome::later();
}

}  // namespace understudy::xdna
