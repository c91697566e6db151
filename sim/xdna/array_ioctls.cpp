// GET_ARRAY: lists of contexts, the last asynchronous error, BO usage. Mirrors aie2_pci.c: aie2_get_array and
// the amdxdna_query_* helpers of aie.c.
#include <linux/capability.h>

#include <algorithm>
#include <cstring>

#include "sim/xdna/hwctx.h"
#include "sim/xdna/xdna_file.h"

namespace understudy::xdna {
namespace {

using namespace uapi::amdxdna;

constexpr std::uint32_t kMaxElementBytes = 4096;
constexpr std::uint32_t kMaxElements = 1024;
// Mainline's hwctx_entry ends before the process name.
constexpr std::size_t kMainlineEntryBytes = 144;

struct Query {
  XdnaFile& file;
  Call& call;
  amdxdna_drm_get_array& args;
  Npu& npu() const { return file.npu(); }
};

std::size_t entry_bytes(const Npu& npu) {
  return npu.flavour() == DriverFlavour::kOutOfTree ? sizeof(amdxdna_drm_hwctx_entry) : kMainlineEntryBytes;
}

bool may_see(const Query& query, const HwContext& context) {
  return context.owner()->uid() == query.call.client().uid() ||
         query.call.client().has_capability(CAP_SYS_ADMIN);
}

amdxdna_drm_hwctx_entry entry_of(const HwContext& context) {
  const ContextCounters counters = context.counters();
  const HealthRecord health = context.last_health();
  amdxdna_drm_hwctx_entry entry{};
  entry.context_id = context.id();
  entry.start_col = context.first_column();
  entry.num_col = context.occupied_columns();
  entry.hwctx_id = context.id();
  entry.pid = context.owner()->pid();
  entry.command_submissions = counters.submissions;
  entry.command_completions = counters.completions;
  entry.migrations = counters.migrations;
  entry.preemptions = counters.preemptions;
  entry.errors = counters.errors;
  entry.priority = context.qos().priority;
  entry.heap_usage = context.heap_used_bytes();
  entry.suspensions = counters.suspensions;
  entry.state = context.busy() ? AMDXDNA_HWCTX_STATE_ACTIVE : AMDXDNA_HWCTX_STATE_IDLE;
  entry.gops = context.qos().gops;
  entry.fps = context.qos().fps;
  entry.dma_bandwidth = context.qos().dma_bandwidth;
  entry.latency = context.qos().latency;
  entry.frame_exec_time = context.qos().frame_exec_time;
  entry.txn_op_idx = health.txn_op_index;
  entry.ctx_pc = health.context_pc;
  entry.fatal_error_type = health.fatal_error_type;
  entry.fatal_error_exception_type = health.fatal_error_exception_type;
  entry.fatal_error_exception_pc = health.fatal_error_exception_pc;
  entry.fatal_error_app_module = health.fatal_error_app_module;
  const std::string& name = context.owner()->name();
  std::memcpy(entry.name, name.data(), std::min(name.size(), sizeof entry.name - 1));
  return entry;
}

Outcome all_contexts(const Query& query) {
  amdxdna_drm_get_array& args = query.args;
  if (args.element_size > kMaxElementBytes || args.num_element > kMaxElements) return Errno(EINVAL);
  const auto stride =
      static_cast<std::uint32_t>(std::min<std::size_t>(args.element_size, entry_bytes(query.npu())));
  const std::uint64_t room = std::uint64_t{args.num_element} * args.element_size / stride;
  std::uint32_t written = 0;
  for (const auto& context : query.npu().contexts()) {
    if (!may_see(query, *context)) continue;
    if (written == room) break;
    const amdxdna_drm_hwctx_entry entry = entry_of(*context);
    TRY(query.call.memory().write(args.buffer + std::uint64_t{written} * stride,
                                  std::as_bytes(std::span(&entry, 1)).first(stride)));
    ++written;
  }
  args.element_size = stride;
  args.num_element = written;
  return 0;
}

Outcome context_by_id(const Query& query) {
  amdxdna_drm_get_array& args = query.args;
  constexpr std::size_t kLeastInputBytes = offsetof(amdxdna_drm_hwctx_entry, pid) + sizeof(std::int64_t);
  if (args.num_element != 1 || args.element_size > kMaxElementBytes || args.element_size < kLeastInputBytes) {
    return Errno(EINVAL);
  }
  const auto stride = std::min<std::size_t>(args.element_size, sizeof(amdxdna_drm_hwctx_entry));
  amdxdna_drm_hwctx_entry wanted{};
  TRY(query.call.memory().read(args.buffer, std::as_writable_bytes(std::span(&wanted, 1)).first(stride)));
  if (wanted.context_id == 0 || wanted.pid == 0) return Errno(EINVAL);
  for (const auto& context : query.npu().contexts()) {
    if (context->id() != wanted.context_id || context->owner()->pid() != wanted.pid) continue;
    if (!may_see(query, *context)) continue;
    const amdxdna_drm_hwctx_entry entry = entry_of(*context);
    TRY(query.call.memory().write(args.buffer, std::as_bytes(std::span(&entry, 1)).first(stride)));
    args.element_size = static_cast<std::uint32_t>(stride);
    return 0;
  }
  return Errno(ENOENT);
}

Outcome last_async_error(const Query& query) {
  amdxdna_drm_get_array& args = query.args;
  const amdxdna_async_error error = query.npu().last_async_error();
  const auto stride = std::min<std::size_t>(args.element_size, sizeof error);
  TRY(query.call.memory().write(args.buffer, std::as_bytes(std::span(&error, 1)).first(stride)));
  args.element_size = static_cast<std::uint32_t>(stride);
  args.num_element = 1;
  return 0;
}

Outcome bo_usage(const Query& query) {
  amdxdna_drm_get_array& args = query.args;
  if (args.num_element != 1) return Errno(EINVAL);
  const auto stride = std::min<std::size_t>(args.element_size, sizeof(amdxdna_drm_bo_usage));
  amdxdna_drm_bo_usage usage{};
  TRY(query.call.memory().read(args.buffer, std::as_writable_bytes(std::span(&usage, 1)).first(stride)));
  if (usage.pid == 0) return Errno(EINVAL);
  usage.total_usage = usage.internal_usage = usage.heap_usage = 0;
  for (const FileRef& open : query.call.machine().files().all()) {
    auto* file = dynamic_cast<XdnaFile*>(open.get());
    if (file == nullptr || &file->npu() != &query.npu() || file->opener()->pid() != usage.pid) continue;
    for (const XdnaBoRef& bo : file->bos()) {
      if (bo->type() == BoType::kDev) continue;
      usage.total_usage += bo->size_bytes();
      if (bo->internal()) usage.internal_usage += bo->size_bytes();
    }
    usage.heap_usage += file->heap()->used_bytes();
  }
  return query.call.memory().write(args.buffer, std::as_bytes(std::span(&usage, 1)).first(stride));
}

// Firmware log and trace never start here: the buffers stay shut down, for those allowed to ask.
Outcome firmware_log(const Query& query) {
  if (!query.call.client().has_capability(CAP_SYS_ADMIN)) return Errno(EPERM);
  return Errno(ESHUTDOWN);
}

struct QueryRow {
  std::uint32_t param;
  bool in_mainline;
  Outcome (*answer)(const Query&);
};
constexpr QueryRow kQueries[] = {
    {DRM_AMDXDNA_HW_CONTEXT_ALL, true, all_contexts},
    {DRM_AMDXDNA_HW_CONTEXT_BY_ID, false, context_by_id},
    {DRM_AMDXDNA_HW_LAST_ASYNC_ERR, true, last_async_error},
    {DRM_AMDXDNA_FW_LOG, false, firmware_log},
    {DRM_AMDXDNA_FW_TRACE, false, firmware_log},
    {DRM_AMDXDNA_BO_USAGE, true, bo_usage},
};

}  // namespace

Outcome XdnaFile::get_array(Call& call, amdxdna_drm_get_array& args) {
  if (args.pad != 0 || args.num_element == 0 || args.element_size == 0) return Errno(EINVAL);
  for (const QueryRow& row : kQueries) {
    if (row.param != args.param) continue;
    if (!row.in_mainline && npu().flavour() != DriverFlavour::kOutOfTree) break;
    return row.answer(Query{*this, call, args});
  }
  return Errno(EOPNOTSUPP);
}

}  // namespace understudy::xdna
