// Plan: what to break, and when: the rules of one fault plan, read from TOML.
//
//   seed = 7
//   [[fault]]
//   call = "ALLOC_MEMORY_OF_GPU"      # ioctl name without its prefix, "open", "mmap", or a glob
//   node = "kfd"                      # glob over node labels
//   when = "3"
//   where = { size = ">=2MiB", flags = "&KFD_IOC_ALLOC_MEM_FLAGS_VRAM" }
//   errno = "ENOMEM"
//
// Owner: plain data. Units: times ns, sizes bytes. Errors: parse_plan's PlanError is one line: file, line,
// what is wrong and what is accepted. Thread-safety: immutable once parsed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/core/controls.h"
#include "sim/core/faults/when.h"
#include "sim/core/glob.h"
#include "sim/core/hooks.h"

namespace understudy::faults {

// One condition on a field of the call's struct.
struct Condition {
  enum class Op : std::uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kHasBits };
  std::string field;
  Op op = Op::kEqual;
  std::uint64_t value = 0;
};

struct Match {
  std::string call = "*";     // glob
  std::string node = "*";     // glob
  std::string process = "*";  // glob over comm
  std::optional<pid_t> pid;
  std::vector<Condition> where;
  When when;
  double probability = 1.0;
  bool once = false;
};

// What happens to a matching call.
struct FailWith {
  int error = 0;
};
struct DelayBy {
  std::uint64_t delay_ns = 0;
};
struct HoldUntil {
  std::string call;  // glob; released when a matching call has ended
};
struct ShortData {
  std::uint64_t bytes = 0;  // only so many bytes of the struct go back; 0: stale data
};
struct CrashServer {
  bool before_reply = true;
};
// Presses a control of a device (reset, unplug, memory-exception, ...) when the call comes by.
struct Press {
  std::string device;
  std::string action;
  ControlArguments arguments;
};
// At a fault point instead of a call.
struct AtPoint {
  FaultPoint point{};
  PointDecision decision{};
};

using Act = std::variant<FailWith, DelayBy, HoldUntil, ShortData, CrashServer, Press, AtPoint>;

struct Rule {
  std::string name;
  Match match;
  Act act;
};

struct Plan {
  std::uint64_t seed = 1;
  std::vector<Rule> rules;
};

struct PlanError {
  std::string message;
};

std::variant<Plan, PlanError> parse_plan(std::string_view text, std::string_view file_name);
std::variant<Plan, PlanError> load_plan(const std::string& path);

// "ENOMEM" -> 12; nothing for unknown names.
std::optional<int> errno_by_name(std::string_view name);

}  // namespace understudy::faults
