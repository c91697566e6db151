// Reading a plan: every complaint names file and line, what is wrong and what is accepted.
#include "sim/core/faults/plan.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <charconv>
#include <fstream>
#include <sstream>

#include "uapi/amdgpu.h"
#include "uapi/amdxdna.h"
#include "uapi/drm.h"
#include "uapi/kfd.h"
#include "uapi/kfd_rocm.h"
#include "uapi/virtgpu.h"

namespace understudy::faults {
namespace {

struct Complaint {
  std::string text;
};

// Thrown inside this file only; parse_plan turns it into a PlanError.
[[noreturn]] void complain(std::string_view file, const toml::source_region& where, std::string text) {
  throw Complaint{fmt::format("{}:{}: {}", file, where.begin.line, text)};
}

struct SizeUnit {
  std::string_view suffix;
  std::uint64_t factor;
};
constexpr SizeUnit kSizeUnits[] = {{"KiB", 1ull << 10}, {"MiB", 1ull << 20}, {"GiB", 1ull << 30},
                                   {"TiB", 1ull << 40}, {"ns", 1},           {"us", 1'000},
                                   {"ms", 1'000'000},   {"s", 1'000'000'000}};

// "0x10", "16", "2MiB", "5ms".
std::optional<std::uint64_t> parse_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  }
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.empty()) return number;
  for (const SizeUnit& known : kSizeUnits) {
    std::uint64_t product = 0;
    if (unit == known.suffix && !__builtin_mul_overflow(number, known.factor, &product)) return product;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> constant_by_name(std::string_view name) {
  for (const auto constants :
       {uapi::kfd::constants(), uapi::kfd_rocm::constants(), uapi::drm::constants(),
        uapi::amdgpu::constants(), uapi::amdxdna::constants(), uapi::virtgpu::constants()}) {
    for (const uapi::ConstantDescriptor& constant : constants) {
      if (name == constant.name) return constant.value;
    }
  }
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  Plan read(const toml::table& root) {
    Plan plan;
    for (const auto& [key, node] : root) {
      if (key == "seed") {
        plan.seed = number_of(node, "seed");
      } else if (key == "fault") {
        read_rules(node, plan);
      } else {
        complain(file_, key.source(), fmt::format("unknown key '{}'; accepted: seed, [[fault]]", key.str()));
      }
    }
    return plan;
  }

 private:
  void read_rules(const toml::node& node, Plan& plan) {
    const toml::array* rules = node.as_array();
    if (rules == nullptr) complain(file_, node.source(), "'fault' must be written as [[fault]] tables");
    for (const toml::node& element : *rules) {
      const toml::table* table = element.as_table();
      if (table == nullptr) complain(file_, element.source(), "'fault' must be written as [[fault]] tables");
      plan.rules.push_back(read_rule(*table));
    }
  }

  Rule read_rule(const toml::table& table) {
    Rule rule;
    std::optional<Act> act;
    const auto set_act = [&](const toml::key& key, Act what) {
      if (act)
        complain(file_, key.source(),
                 fmt::format("'{}': a fault does one thing; write another [[fault]]", key.str()));
      act = std::move(what);
    };
    for (const auto& [key, node] : table) {
      const std::string_view name = key.str();
      if (name == "name")
        rule.name = text_of(node, name);
      else if (name == "call")
        rule.match.call = text_of(node, name);
      else if (name == "node")
        rule.match.node = text_of(node, name);
      else if (name == "process")
        rule.match.process = text_of(node, name);
      else if (name == "pid")
        rule.match.pid = static_cast<pid_t>(number_of(node, name));
      else if (name == "once")
        rule.match.once = bool_of(node, name);
      else if (name == "when")
        rule.match.when = when_of(node);
      else if (name == "probability")
        rule.match.probability = probability_of(node);
      else if (name == "where")
        read_conditions(node, rule.match.where);
      else if (name == "errno")
        set_act(key, FailWith{errno_of(node)});
      else if (name == "delay")
        set_act(key, DelayBy{number_of(node, name)});
      else if (name == "hold_until")
        set_act(key, HoldUntil{text_of(node, name)});
      else if (name == "short_bytes")
        set_act(key, ShortData{number_of(node, name)});
      else if (name == "stale") {
        if (bool_of(node, name)) set_act(key, ShortData{0});
      } else if (name == "crash")
        set_act(key, crash_of(node));
      else if (name == "press")
        set_act(key, press_of(node));
      else if (const AtPoint* point = point_act(name, node))
        set_act(key, *point);
      else
        complain(file_, key.source(),
                 fmt::format("unknown key '{}' in [[fault]]; accepted: name, call, node, process, pid, when, "
                             "probability, once, where, and one of "
                             "errno, delay, hold_until, short_bytes, stale, crash, press, lose, duplicate, "
                             "stick, hang, corrupt",
                             name));
    }
    if (!act) {
      complain(file_, table.source(),
               "a fault without an action; add one of errno, delay, hold_until, short_bytes, stale, crash, "
               "press, lose, "
               "duplicate, stick, hang, corrupt");
    }
    rule.act = std::move(*act);
    return rule;
  }

  struct PointName {
    std::string_view key, value;
    AtPoint act;
  };
  static constexpr PointName kPoints[] = {
      {"lose", "interrupt", {FaultPoint::kInterrupt, PointDecision::kDrop}},
      {"lose", "completion", {FaultPoint::kCompletion, PointDecision::kDrop}},
      {"duplicate", "interrupt", {FaultPoint::kInterrupt, PointDecision::kDuplicate}},
      {"duplicate", "completion", {FaultPoint::kCompletion, PointDecision::kDuplicate}},
      {"stick", "queue", {FaultPoint::kQueueProgress, PointDecision::kStick}},
      {"hang", "firmware", {FaultPoint::kFirmware, PointDecision::kStick}},
      {"corrupt", "virtio-response", {FaultPoint::kVirtioResponse, PointDecision::kCorrupt}},
      {"lose", "virtio-response", {FaultPoint::kVirtioResponse, PointDecision::kDrop}},
  };

  const AtPoint* point_act(std::string_view key, const toml::node& node) {
    std::string accepted;
    for (const PointName& point : kPoints) {
      if (point.key != key) continue;
      if (node.value_or(std::string_view{}) == point.value) return &point.act;
      accepted += fmt::format("{}\"{}\"", accepted.empty() ? "" : ", ", point.value);
    }
    if (!accepted.empty()) complain(file_, node.source(), fmt::format("'{}' accepts {}", key, accepted));
    return nullptr;
  }

  void read_conditions(const toml::node& node, std::vector<Condition>& where) {
    const toml::table* table = node.as_table();
    if (table == nullptr)
      complain(file_, node.source(), "'where' must be a table, e.g. where = { size = \">=2MiB\" }");
    for (const auto& [field, value] : *table) where.push_back(condition_of(field, value));
  }

  Condition condition_of(const toml::key& field, const toml::node& node) {
    if (const auto number = node.value<std::int64_t>()) {
      return {std::string(field.str()), Condition::Op::kEqual, static_cast<std::uint64_t>(*number)};
    }
    struct Spelling {
      std::string_view text;
      Condition::Op op;
    };
    constexpr Spelling kSpellings[] = {
        {">=", Condition::Op::kGreaterEqual}, {"<=", Condition::Op::kLessEqual},
        {"!=", Condition::Op::kNotEqual},     {"==", Condition::Op::kEqual},
        {">", Condition::Op::kGreater},       {"<", Condition::Op::kLess},
        {"&", Condition::Op::kHasBits}};
    std::string_view text = node.value_or(std::string_view{});
    Condition condition{std::string(field.str()), Condition::Op::kEqual, 0};
    for (const Spelling& spelling : kSpellings) {
      if (!text.starts_with(spelling.text)) continue;
      condition.op = spelling.op;
      text.remove_prefix(spelling.text.size());
      break;
    }
    while (text.starts_with(' ')) text.remove_prefix(1);
    std::optional<std::uint64_t> value = parse_number(text);
    if (!value) value = constant_by_name(text);
    if (!value) {
      complain(
          file_, node.source(),
          fmt::format(
              "condition on '{}': '{}' is no number, size or kernel constant; write e.g. 7, \">=2MiB\" or "
              "\"&KFD_IOC_ALLOC_MEM_FLAGS_VRAM\"",
              field.str(), text));
    }
    condition.value = *value;
    return condition;
  }

  Press press_of(const toml::node& node) {
    const toml::table* table = node.as_table();
    if (table == nullptr)
      complain(file_, node.source(), "'press' must be a table: { device = ..., action = ... }");
    Press press;
    for (const auto& [key, value] : *table) {
      const std::string_view name = key.str();
      if (name == "device")
        press.device = text_of(value, name);
      else if (name == "action")
        press.action = text_of(value, name);
      else if (name == "address")
        press.arguments.address = number_of(value, name);
      else if (name == "size")
        press.arguments.size_bytes = number_of(value, name);
      else if (name == "number")
        press.arguments.number = number_of(value, name);
      else if (name == "vram_lost")
        press.arguments.vram_lost = bool_of(value, name);
      else
        complain(file_, key.source(),
                 fmt::format(
                     "unknown key '{}' in press; accepted: device, action, address, size, number, vram_lost",
                     name));
    }
    if (press.device.empty() || press.action.empty())
      complain(file_, node.source(), "'press' needs device and action");
    return press;
  }

  CrashServer crash_of(const toml::node& node) {
    const std::string when = text_of(node, "crash");
    if (when != "before-reply" && when != "after-reply") {
      complain(file_, node.source(), "'crash' accepts \"before-reply\", \"after-reply\"");
    }
    return {when == "before-reply"};
  }

  When when_of(const toml::node& node) {
    std::string text = node.value_or(std::string{});
    if (const auto number = node.value<std::int64_t>()) text = std::to_string(*number);
    const std::optional<When> when = When::parse(text);
    if (!when) {
      complain(file_, node.source(),
               fmt::format(
                   "'when = \"{}\"' is not understood; write \"5\", \"5+\", \"5+3\", \"2..9\" or \"2..9+3\"",
                   text));
    }
    return *when;
  }

  double probability_of(const toml::node& node) {
    const double probability = node.value_or(-1.0);
    if (probability < 0 || probability > 1)
      complain(file_, node.source(), "'probability' must be from 0 to 1");
    return probability;
  }

  int errno_of(const toml::node& node) {
    const std::string name = text_of(node, "errno");
    const std::optional<int> number = errno_by_name(name);
    if (!number)
      complain(file_, node.source(), fmt::format("'{}' is no errno name; write e.g. \"ENOMEM\"", name));
    return *number;
  }

  std::uint64_t number_of(const toml::node& node, std::string_view key) {
    if (const auto number = node.value_exact<std::int64_t>(); number && *number >= 0) {
      return static_cast<std::uint64_t>(*number);
    }
    const std::optional<std::uint64_t> number = parse_number(node.value_or(std::string_view{}));
    if (!number)
      complain(file_, node.source(), fmt::format("'{}' must be a number, e.g. 7, \"2MiB\" or \"5ms\"", key));
    return *number;
  }

  std::string text_of(const toml::node& node, std::string_view key) {
    const auto text = node.value_exact<std::string>();
    if (!text) complain(file_, node.source(), fmt::format("'{}' must be a string", key));
    return *text;
  }

  bool bool_of(const toml::node& node, std::string_view key) {
    const auto value = node.value_exact<bool>();
    if (!value) complain(file_, node.source(), fmt::format("'{}' must be true or false", key));
    return *value;
  }

  const std::string_view file_;
};

}  // namespace

std::variant<Plan, PlanError> parse_plan(std::string_view text, std::string_view file_name) {
  try {
    return Reader(file_name).read(toml::parse(text, file_name));
  } catch (const toml::parse_error& error) {
    return PlanError{fmt::format("{}:{}: {}", file_name, error.source().begin.line, error.description())};
  } catch (const Complaint& complaint) {
    return PlanError{complaint.text};
  }
}

std::variant<Plan, PlanError> load_plan(const std::string& path) {
  std::ifstream file(path);
  if (!file) return PlanError{fmt::format("{}: cannot be read; give the path of a fault plan", path)};
  std::ostringstream text;
  text << file.rdbuf();
  return parse_plan(text.str(), path);
}

}  // namespace understudy::faults
