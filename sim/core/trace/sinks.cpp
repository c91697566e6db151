#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/core/trace/record.h"
#include "uapi/decode.h"

namespace understudy::trace {
namespace {

using nlohmann::json;

std::string entry_text(const TraceRecord& record) {
  return record.descriptor ? uapi::decode(*record.descriptor, record.entry, uapi::Moment::kEntry) : std::string();
}

std::string exit_text(const TraceRecord& record) {
  return record.descriptor ? uapi::decode(*record.descriptor, record.exit, uapi::Moment::kExit) : std::string();
}

std::string arguments_text(const TraceRecord& record) {
  if (record.kind != CallKind::kIoctl) return {};
  if (record.descriptor == nullptr) return fmt::format("{:#010x}", record.command);
  const std::string entry = entry_text(record);
  return record.exit == record.entry ? entry : entry + " => " + exit_text(record);
}

class TextSink : public Sink {
 public:
  explicit TextSink(std::unique_ptr<Output> output) : output_(std::move(output)) {}
  void write(const TraceRecord& record) override {
    output_->write(fmt::format("{:12.3f} ms  {}:{} {}  {}  {}({}) = {} <{:.3f} ms>\n", record.begin_ns / 1e6,
                               record.pid, record.tid, record.process, record.node, record.name,
                               arguments_text(record), result_text(record.value), record.duration_ns / 1e6));
  }
  void finish() override { output_->flush(); }

 private:
  std::unique_ptr<Output> output_;
};

class JsonSink : public Sink {
 public:
  explicit JsonSink(std::unique_ptr<Output> output) : output_(std::move(output)) {}
  void write(const TraceRecord& record) override {
    json line = {{"serial", record.serial},     {"begin_ns", record.begin_ns},
                 {"duration_ns", record.duration_ns}, {"pid", record.pid},
                 {"tid", record.tid},           {"process", record.process},
                 {"node", record.node},         {"call", record.name},
                 {"result", result_text(record.value)}};
    if (record.kind == CallKind::kIoctl) {
      line["command"] = fmt::format("{:#010x}", record.command);
      line["entry"] = entry_text(record);
      line["exit"] = exit_text(record);
    }
    output_->write(line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
  }
  void finish() override { output_->flush(); }

 private:
  std::unique_ptr<Output> output_;
};

class PerfettoSink : public Sink {
 public:
  explicit PerfettoSink(std::unique_ptr<Output> output) : output_(std::move(output)) {
    output_->write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  }
  void write(const TraceRecord& record) override {
    name_process(record);
    json event = {{"ph", "X"},
                  {"name", record.name},
                  {"cat", record.node.empty() ? "open" : record.node},
                  {"ts", record.begin_ns / 1e3},
                  {"dur", record.duration_ns / 1e3},
                  {"pid", record.pid},
                  {"tid", record.tid},
                  {"args", {{"result", result_text(record.value)}}}};
    if (record.kind == CallKind::kIoctl) event["args"]["arguments"] = arguments_text(record);
    put(event);
  }
  void finish() override {
    output_->write("]}\n");
    output_->flush();
  }

 private:
  void name_process(const TraceRecord& record) {
    std::string& known = process_names_[record.pid];
    if (known == record.process) return;
    known = record.process;
    put({{"ph", "M"}, {"name", "process_name"}, {"pid", record.pid}, {"args", {{"name", record.process}}}});
  }
  void put(const json& event) {
    if (!first_) output_->write(",\n");
    first_ = false;
    output_->write(event.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  std::unique_ptr<Output> output_;
  std::map<pid_t, std::string> process_names_;
  bool first_ = true;
};

}  // namespace

std::unique_ptr<Sink> make_text_sink(std::unique_ptr<Output> output) {
  return std::make_unique<TextSink>(std::move(output));
}
std::unique_ptr<Sink> make_json_sink(std::unique_ptr<Output> output) {
  return std::make_unique<JsonSink>(std::move(output));
}
std::unique_ptr<Sink> make_perfetto_sink(std::unique_ptr<Output> output) {
  return std::make_unique<PerfettoSink>(std::move(output));
}

void Statistics::write(const TraceRecord& record) {
  Row& row = rows_[{record.node, record.name}];
  ++row.calls;
  row.errors += record.value < 0;
  row.total_ns += record.duration_ns;
  row.longest_ns = std::max(row.longest_ns, record.duration_ns);
}

std::string Statistics::table() const {
  std::string text = fmt::format("{:<16} {:<36} {:>9} {:>7} {:>12} {:>10} {:>12}\n", "node", "call", "calls", "errors",
                                 "total ms", "mean us", "longest us");
  for (const auto& [key, row] : rows_) {
    text += fmt::format("{:<16} {:<36} {:>9} {:>7} {:>12.3f} {:>10.1f} {:>12.1f}\n", key.first, key.second, row.calls,
                        row.errors, row.total_ns / 1e6, row.total_ns / 1e3 / row.calls, row.longest_ns / 1e3);
  }
  return text;
}

}  // namespace understudy::trace
