#include "sim/cli/observation.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "sim/cli/usage_error.h"

namespace understudy::cli {
namespace {

constexpr FindingKind kFindingKinds[] = {
    FindingKind::kLeak,
    FindingKind::kDoubleDestroy,
    FindingKind::kUseAfterFree,
    FindingKind::kWrongOwner,
    FindingKind::kMapLeftBehind,
    FindingKind::kNoShim,
    FindingKind::kUnsupportedCall,
    FindingKind::kSkippedWork,
};

std::vector<std::string_view> split(std::string_view list, char separator) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(separator), list.size());
    parts.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

struct FormatName {
  std::string_view suffix;
  TraceFormat format;
};
constexpr FormatName kFormats[] = {
    {":text", TraceFormat::kText},  {":json", TraceFormat::kJson},     {":perfetto", TraceFormat::kPerfetto},
    {".jsonl", TraceFormat::kJson}, {".json", TraceFormat::kPerfetto},
};

std::unique_ptr<trace::Sink> open_sink(const TraceOutput& trace) {
  std::unique_ptr<trace::Output> output = trace::Output::open(trace.path);
  if (!output) {
    throw UsageError(fmt::format("--trace {}: cannot be written: {}", trace.path, std::strerror(errno)));
  }
  switch (trace.format) {
    case TraceFormat::kJson:
      return trace::make_json_sink(std::move(output));
    case TraceFormat::kPerfetto:
      return trace::make_perfetto_sink(std::move(output));
    case TraceFormat::kText:
      break;
  }
  return trace::make_text_sink(std::move(output));
}

}  // namespace

void ObservationPlan::add_faults(const std::string& path) {
  auto loaded = faults::load_plan(path);
  if (const auto* error = std::get_if<faults::PlanError>(&loaded)) throw UsageError(error->message);
  faults.push_back(std::move(std::get<faults::Plan>(loaded)));
}

void ObservationPlan::add_trace(const std::string& output) {
  TraceOutput trace{output, TraceFormat::kText};
  for (const FormatName& known : kFormats) {
    if (!output.ends_with(known.suffix)) continue;
    trace.format = known.format;
    if (known.suffix[0] == ':') trace.path.resize(output.size() - known.suffix.size());
    break;
  }
  traces.push_back(std::move(trace));
}

void ObservationPlan::add_fail_on(const std::string& kinds) {
  for (const std::string_view name : split(kinds, ',')) {
    if (name == "all") {
      fail_on.assign(std::begin(kFindingKinds), std::end(kFindingKinds));
      continue;
    }
    const auto found = std::find_if(std::begin(kFindingKinds), std::end(kFindingKinds),
                                    [name](FindingKind kind) { return name == finding_kind_name(kind); });
    if (found == std::end(kFindingKinds)) {
      std::string known = "all";
      for (const FindingKind kind : kFindingKinds) known += fmt::format(", {}", finding_kind_name(kind));
      throw UsageError(fmt::format("--fail-on {}: unknown (known: {})", name, known));
    }
    fail_on.push_back(*found);
  }
}

void ObservationPlan::add_suppressions(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UsageError(fmt::format("--suppress {}: cannot be read: {}", path, std::strerror(errno)));
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.find('#'), line.size()));
    while (!line.empty() && line.back() == ' ') line.pop_back();
    if (!line.empty()) suppressions.push_back(line);
  }
}

void Observation::install() {
  for (const faults::Plan& plan : plan_.faults) ensure_injector().add(plan);
  if (plan_.traces.empty() && !plan_.statistics) return;
  tracer_ = std::make_shared<trace::Tracer>(plan_.filter, machine_.host().get());
  for (const TraceOutput& output : plan_.traces) tracer_->add(open_sink(output));
  if (plan_.statistics) {
    statistics_ = std::make_shared<trace::Statistics>();
    tracer_->add(statistics_);
  }
  machine_.hooks().install(tracer_);
  if (machine_.host()) machine_.host()->hooks().install(tracer_);
}

std::string Observation::inject(std::string_view plan_text) {
  auto parsed = faults::parse_plan(plan_text, "plan");
  if (const auto* error = std::get_if<faults::PlanError>(&parsed)) return error->message;
  ensure_injector().add(std::move(std::get<faults::Plan>(parsed)));
  return {};
}

void Observation::finish() {
  if (tracer_) tracer_->finish();
  if (statistics_) fmt::print(stderr, "{}", statistics_->table());
}

faults::Injector& Observation::ensure_injector() {
  const std::lock_guard lock(mutex_);
  if (!injector_) {
    injector_ = std::make_shared<faults::Injector>(machine_);
    machine_.hooks().install(std::static_pointer_cast<FaultHook>(injector_));
  }
  return *injector_;
}

}  // namespace understudy::cli
