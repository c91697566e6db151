// Copies, fills and their timestamps.
#include "runtime/api/entry.h"

using namespace hsa_rt;
using namespace hsa_rt::api;

namespace {

struct CopySignals {
  std::vector<std::shared_ptr<Signal>> dependencies;
  std::shared_ptr<Signal> completion;
};

Status<CopySignals> signals_for(Runtime& runtime, uint32_t num_dep_signals, const hsa_signal_t* dep_signals,
                                hsa_signal_t completion_signal) {
  CopySignals signals;
  for (uint32_t i = 0; i < num_dep_signals; ++i) {
    signals.dependencies.push_back(TRY(signal_for(runtime, dep_signals[i])));
  }
  signals.completion = TRY(signal_for(runtime, completion_signal));
  return signals;
}

// Rows of a box, as one segment each.
std::vector<CopySegment> rows_of(const hsa_pitched_ptr_t& dst, const hsa_dim3_t& dst_offset,
                                 const hsa_pitched_ptr_t& src, const hsa_dim3_t& src_offset,
                                 const hsa_dim3_t& range) {
  const auto address = [](const hsa_pitched_ptr_t& base, const hsa_dim3_t& offset, uint32_t y, uint32_t z) {
    return reinterpret_cast<uint64_t>(base.base) + offset.x + (uint64_t{offset.y} + y) * base.pitch +
           (uint64_t{offset.z} + z) * base.slice;
  };
  std::vector<CopySegment> rows;
  rows.reserve(size_t{range.y} * range.z);
  for (uint32_t z = 0; z < range.z; ++z) {
    for (uint32_t y = 0; y < range.y; ++y) {
      rows.push_back({address(dst, dst_offset, y, z), address(src, src_offset, y, z), range.x});
    }
  }
  return rows;
}

bool fits_pitch(const hsa_pitched_ptr_t& base, const hsa_dim3_t& offset, const hsa_dim3_t& range) {
  const bool row_fits = range.y <= 1 || uint64_t{offset.x} + range.x <= base.pitch;
  const bool slice_fits = range.z <= 1 || (uint64_t{offset.y} + range.y) * base.pitch <= base.slice;
  return row_fits && slice_fits;
}

// Device time as system time: the device's clock runs at a constant rate, so two readings of both give the
// line.
Status<uint64_t> to_system_time(const Agent& agent, uint64_t device_tick) {
  const uint64_t frequency = agent.info().timestamp_frequency_hz;
  const ClockCounters now = TRY(agent.device().clock_counters().error_as(HSA_STATUS_ERROR));
  if (frequency == 0 || now.device == 0) return HSA_STATUS_ERROR;
  const auto ticks = static_cast<double>(static_cast<int64_t>(device_tick - now.device));
  const double ns = ticks * static_cast<double>(now.system_frequency_hz) / static_cast<double>(frequency);
  return now.system_ns + static_cast<uint64_t>(static_cast<int64_t>(ns));
}

}  // namespace

hsa_status_t hsa_memory_copy(void* dst, const void* src, size_t size) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(dst != nullptr && src != nullptr));
    if (size == 0) return {};
    return runtime.copies().copy(dst, src, size);
  });
}

hsa_status_t hsa_amd_memory_fill(void* ptr, uint32_t value, size_t count) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(ptr != nullptr && reinterpret_cast<uintptr_t>(ptr) % sizeof(uint32_t) == 0));
    if (count == 0) return {};
    return runtime.copies().fill(ptr, value, count);
  });
}

hsa_status_t hsa_amd_memory_async_copy(void* dst, hsa_agent_t dst_agent, const void* src,
                                       hsa_agent_t src_agent, size_t size, uint32_t num_dep_signals,
                                       const hsa_signal_t* dep_signals, hsa_signal_t completion_signal) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(dst != nullptr && src != nullptr && (num_dep_signals == 0) == (dep_signals == nullptr)));
    Agent* const to = TRY(agent_for(runtime, dst_agent));
    Agent* const from = TRY(agent_for(runtime, src_agent));
    CopySignals signals = TRY(signals_for(runtime, num_dep_signals, dep_signals, completion_signal));
    if (size == 0) return {};
    Agent& worker = from->kind() == DeviceKind::kGpu ? *from : *to;
    const CopySegment segment{reinterpret_cast<uint64_t>(dst), reinterpret_cast<uint64_t>(src), size};
    return runtime.copies().submit(worker, {segment}, std::nullopt, std::move(signals.dependencies),
                                   std::move(signals.completion));
  });
}

hsa_status_t hsa_amd_memory_async_copy_rect(const hsa_pitched_ptr_t* dst, const hsa_dim3_t* dst_offset,
                                            const hsa_pitched_ptr_t* src, const hsa_dim3_t* src_offset,
                                            const hsa_dim3_t* range, hsa_agent_t copy_agent,
                                            hsa_amd_copy_direction_t dir, uint32_t num_dep_signals,
                                            const hsa_signal_t* dep_signals, hsa_signal_t completion_signal) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(dst != nullptr && src != nullptr && dst_offset != nullptr && src_offset != nullptr &&
                range != nullptr && (num_dep_signals == 0) == (dep_signals == nullptr)));
    TRY(require(dir != hsaHostToHost));
    Agent* const worker = TRY(agent_for(runtime, copy_agent));
    TRY(require(worker->kind() == DeviceKind::kGpu, HSA_STATUS_ERROR_INVALID_AGENT));
    CopySignals signals = TRY(signals_for(runtime, num_dep_signals, dep_signals, completion_signal));
    if (range->x == 0 || range->y == 0 || range->z == 0) return {};
    TRY(require(fits_pitch(*dst, *dst_offset, *range) && fits_pitch(*src, *src_offset, *range)));
    return runtime.copies().submit(*worker, rows_of(*dst, *dst_offset, *src, *src_offset, *range),
                                   std::nullopt, std::move(signals.dependencies),
                                   std::move(signals.completion));
  });
}

hsa_status_t hsa_amd_profiling_async_copy_enable(bool enable) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    runtime.copies().enable_timestamps(enable);
    return {};
  });
}

hsa_status_t hsa_amd_profiling_get_async_copy_time(hsa_signal_t signal,
                                                   hsa_amd_profiling_async_copy_time_t* time) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(time != nullptr));
    const SignalSlot& slot = TRY(signal_for(runtime, signal))->slot();
    TRY(require(slot.copy_end_ts != 0, HSA_STATUS_ERROR));
    if (slot.copy_agent.handle == 0) {
      *time = {slot.copy_start_ts, slot.copy_end_ts};
      return {};
    }
    const Agent* const worker = TRY(agent_for(runtime, slot.copy_agent));
    time->start = TRY(to_system_time(*worker, slot.copy_start_ts));
    time->end = TRY(to_system_time(*worker, slot.copy_end_ts));
    return {};
  });
}

hsa_status_t hsa_amd_profiling_convert_tick_to_system_domain(hsa_agent_t agent, uint64_t agent_tick,
                                                             uint64_t* system_tick) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(system_tick != nullptr));
    Agent* const clock = TRY(agent_for(runtime, agent));
    TRY(require(clock->kind() == DeviceKind::kGpu, HSA_STATUS_ERROR_INVALID_AGENT));
    *system_tick = TRY(to_system_time(*clock, agent_tick));
    return {};
  });
}

hsa_status_t hsa_amd_profiling_set_profiler_enabled(hsa_queue_t* queue, int enable) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(queue != nullptr));
    const std::shared_ptr<Queue> target = runtime.queues().find(queue);
    TRY(require(target != nullptr, HSA_STATUS_ERROR_INVALID_QUEUE));
    AMD_HSA_BITS_SET(target->amd_queue().queue_properties, AMD_QUEUE_PROPERTIES_ENABLE_PROFILING,
                     enable != 0);
    return {};
  });
}

hsa_status_t hsa_amd_profiling_get_dispatch_time(hsa_agent_t agent, hsa_signal_t signal,
                                                 hsa_amd_profiling_dispatch_time_t* time) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(time != nullptr));
    Agent* const worker = TRY(agent_for(runtime, agent));
    TRY(require(worker->kind() == DeviceKind::kGpu, HSA_STATUS_ERROR_INVALID_AGENT));
    const amd_signal_t& stamps = TRY(signal_for(runtime, signal))->slot().amd;
    time->start = TRY(to_system_time(*worker, stamps.start_ts));
    time->end = TRY(to_system_time(*worker, stamps.end_ts));
    return {};
  });
}
