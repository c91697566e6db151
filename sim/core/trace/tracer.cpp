#include "sim/core/trace/tracer.h"

#include "sim/core/file.h"
#include "sim/core/glob.h"
#include "sim/core/machine.h"

namespace understudy::trace {

Tracer::~Tracer() {
  finish();
}

void Tracer::add(std::shared_ptr<Sink> sink) {
  const std::lock_guard lock(sink_mutex_);
  sinks_.push_back(std::move(sink));
}

void Tracer::begin(const Call& call) {
  if (call.arguments.empty()) return;
  const std::lock_guard lock(entry_mutex_);
  entries_[call.serial()] = call.arguments;
}

void Tracer::end(const Call& call, int value) {
  TraceRecord record;
  {
    const std::lock_guard lock(entry_mutex_);
    if (auto entry = entries_.extract(call.serial())) record.entry = std::move(entry.mapped());
  }
  record.node = call.file() ? call.file()->label() : std::string();
  if (&call.machine() == host_ && !record.node.empty()) record.node.insert(0, "host:");
  if (!call_matches(filter_.call, call.name()) || !glob_matches(filter_.node, record.node)) return;
  if (filter_.failures_only && value >= 0) return;
  record.serial = call.serial();
  record.begin_ns = call.begin_ns();
  record.duration_ns = call.machine().clock().now_ns() - call.begin_ns();
  record.pid = call.client().pid();
  record.tid = call.caller().tid;
  record.process = call.client().name();
  record.kind = call.kind();
  record.name = call.name();
  record.command = call.command;
  record.descriptor = call.descriptor;
  record.exit = call.arguments;
  record.value = value;
  const std::lock_guard lock(sink_mutex_);
  for (const auto& sink : sinks_) sink->write(record);
}

void Tracer::finish() {
  const std::lock_guard lock(sink_mutex_);
  for (const auto& sink : sinks_) sink->finish();
  sinks_.clear();
}

}  // namespace understudy::trace
