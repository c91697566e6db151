// Observation: what the user wants broken and seen on a machine: fault plans, traces, and which findings make
// the run fail.
//
// Owner: ObservationPlan is plain data, checked before the machine starts; Observation belongs to the server.
// Units: none. Errors: read_* throw UsageError with file and line. Thread-safety: install and finish on the
// main thread; inject from any.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/faults/injector.h"
#include "sim/core/machine.h"
#include "sim/core/trace/tracer.h"

namespace understudy::cli {

enum class TraceFormat : std::uint8_t { kText, kJson, kPerfetto };

struct TraceOutput {
  std::string path;  // "-": stderr
  TraceFormat format = TraceFormat::kText;
};

struct ObservationPlan {
  std::vector<faults::Plan> faults;
  std::vector<TraceOutput> traces;
  trace::Filter filter;
  bool statistics = false;
  bool list_leaks = false;
  std::vector<FindingKind> fail_on;
  std::vector<std::string> suppressions;

  // The flags' values.
  void add_faults(const std::string& path);
  // "FILE" or "FILE:text|json|perfetto"; by default what the file's ending says (.jsonl, .json: Perfetto).
  void add_trace(const std::string& output);
  // "leak,double-destroy" or "all".
  void add_fail_on(const std::string& kinds);
  // One glob over "kind: text" a line; '#' begins a comment.
  void add_suppressions(const std::string& path);
};

class Observation {
 public:
  Observation(Machine& machine, const ObservationPlan& plan) : machine_(machine), plan_(plan) {}

  // Hooks into the machine what the plan asks for; throws UsageError for an output that cannot be written.
  void install();
  // Adds a plan while clients run; the complaint, or nothing.
  std::string inject(std::string_view plan_text);
  // Completes traces and prints statistics.
  void finish();

 private:
  faults::Injector& ensure_injector();
  Machine& machine_;
  const ObservationPlan& plan_;
  std::mutex mutex_;
  std::shared_ptr<faults::Injector> injector_;  // guarded by mutex_
  std::shared_ptr<trace::Tracer> tracer_;
  std::shared_ptr<trace::Statistics> statistics_;
};

}  // namespace understudy::cli
