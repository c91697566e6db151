// Tracer: a machine's TraceHook, also its host's: turns calls into records for its sinks.
//
// Owner: Machine::hooks. Units: ns. Errors: none. Thread-safety: begin and end come from many threads; sinks
// are serialised by sink_mutex_, which is a leaf.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/core/hooks.h"
#include "sim/core/trace/record.h"

namespace understudy::trace {

struct Filter {
  std::string call = "*";  // glob, with or without the ioctl's prefix
  std::string node = "*";
  bool failures_only = false;
};

class Tracer : public TraceHook {
 public:
  // Nodes of `host`, the machine a virtual machine runs on, are named "host:NODE".
  explicit Tracer(Filter filter, const Machine* host = nullptr) : filter_(std::move(filter)), host_(host) {}
  ~Tracer() override;
  void add(std::shared_ptr<Sink> sink);

  void begin(const Call& call) override;
  void end(const Call& call, int value) override;
  // Completes the outputs; called once, after the last client.
  void finish();

 private:
  const Filter filter_;
  const Machine* const host_;
  std::mutex entry_mutex_;
  std::unordered_map<std::uint64_t, std::vector<std::byte>> entries_;  // by call serial
  std::mutex sink_mutex_;
  std::vector<std::shared_ptr<Sink>> sinks_;
};

}  // namespace understudy::trace
