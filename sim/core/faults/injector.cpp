#include "sim/core/faults/injector.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "sim/core/machine.h"

namespace understudy::faults {
namespace {

// A call held for one that never comes goes on after this long.
constexpr std::uint64_t kHoldLimitNs = 10'000'000'000;

std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 30;
  value *= 0xbf58476d1ce4e5b9;
  value ^= value >> 27;
  value *= 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

std::string_view label_of(const Call& call) {
  thread_local std::string label;
  label = call.file() ? call.file()->label() : std::string();
  return label;
}

bool holds(const Condition& condition, std::uint64_t actual) {
  switch (condition.op) {
    case Condition::Op::kEqual:
      return actual == condition.value;
    case Condition::Op::kNotEqual:
      return actual != condition.value;
    case Condition::Op::kLess:
      return actual < condition.value;
    case Condition::Op::kLessEqual:
      return actual <= condition.value;
    case Condition::Op::kGreater:
      return actual > condition.value;
    case Condition::Op::kGreaterEqual:
      return actual >= condition.value;
    case Condition::Op::kHasBits:
      return (actual & condition.value) == condition.value;
  }
  return false;
}

// A condition on a field that the struct does not have is not met.
bool condition_met(const Condition& condition, const Call& call) {
  if (call.descriptor == nullptr || call.descriptor->args == nullptr) return false;
  for (const uapi::FieldDescriptor& field : call.descriptor->args->fields) {
    if (condition.field != field.name || field.is_array || field.element_size > sizeof(std::uint64_t))
      continue;
    if (field.offset + field.element_size > call.arguments.size()) return false;
    std::uint64_t actual = 0;
    std::memcpy(&actual, call.arguments.data() + field.offset, field.element_size);
    return holds(condition, actual);
  }
  return false;
}

bool client_matches(const Match& match, const Client* client) {
  if (client == nullptr) return match.process == "*" && !match.pid;
  return (!match.pid || *match.pid == client->pid()) && glob_matches(match.process, client->name());
}

bool matches(const Match& match, const Call& call) {
  return call_matches(match.call, call.name()) && client_matches(match, &call.client()) &&
         (match.node == "*" || glob_matches(match.node, label_of(call))) &&
         std::all_of(match.where.begin(), match.where.end(),
                     [&](const Condition& condition) { return condition_met(condition, call); });
}

}  // namespace

void Injector::add(Plan plan) {
  const std::lock_guard lock(mutex_);
  for (Rule& rule : plan.rules) {
    auto armed = std::make_shared<ArmedRule>();
    armed->rule = std::move(rule);
    armed->seed = mix(plan.seed + rules_.size() * 0x9e3779b97f4a7c15);
    rules_.push_back(std::move(armed));
  }
}

void Injector::clear() {
  std::vector<RuleRef> rules;
  {
    const std::lock_guard lock(mutex_);
    rules.swap(rules_);
  }
  for (const RuleRef& rule : rules) {
    std::vector<std::function<void()>> held;
    {
      const std::lock_guard lock(rule->held_mutex);
      held.swap(rule->held);
    }
    for (const auto& resume : held) resume();
  }
}

std::vector<Injector::RuleRef> Injector::rules() const {
  const std::lock_guard lock(mutex_);
  return rules_;
}

bool Injector::fires(ArmedRule& rule) {
  const std::uint64_t occurrence = rule.occurrences.fetch_add(1) + 1;
  const Match& match = rule.rule.match;
  if (!match.when.takes(occurrence)) return false;
  if (match.probability < 1.0) {
    constexpr double kTwoTo53 = 9007199254740992.0;
    const double draw = static_cast<double>(mix(rule.seed ^ occurrence) >> 11) / kTwoTo53;
    if (draw >= match.probability) return false;
  }
  if (match.once && rule.spent.exchange(true)) return false;
  rule.fires.fetch_add(1);
  return true;
}

FaultDecision Injector::before(Call& call) {
  FaultDecision decision;
  for (const RuleRef& rule : rules()) {
    if (std::holds_alternative<AtPoint>(rule->rule.act) ||
        std::holds_alternative<ShortData>(rule->rule.act) ||
        std::holds_alternative<CrashServer>(rule->rule.act)) {
      continue;  // these act after the handler
    }
    if (!matches(rule->rule.match, call) || !fires(*rule)) continue;
    apply(rule, call, decision);
    if (decision.fail || decision.hold) return decision;
  }
  return decision;
}

void Injector::apply(const RuleRef& rule, Call&, FaultDecision& decision) {
  if (const auto* fail = std::get_if<FailWith>(&rule->rule.act)) {
    decision.fail = Errno(fail->error);
  } else if (const auto* delay = std::get_if<DelayBy>(&rule->rule.act)) {
    decision.hold = [this, delay_ns = delay->delay_ns](std::function<void()> resume) {
      machine_.clock().after(delay_ns,
                             [this, resume = std::move(resume)] { machine_.reactor().post(resume); });
    };
  } else if (std::holds_alternative<HoldUntil>(rule->rule.act)) {
    decision.hold = [this, rule](std::function<void()> resume) {
      auto released = std::make_shared<std::atomic<bool>>(false);
      auto once = [released, resume = std::move(resume)] {
        if (!released->exchange(true)) resume();
      };
      {
        const std::lock_guard lock(rule->held_mutex);
        rule->held.push_back(once);
      }
      machine_.clock().after(kHoldLimitNs, [this, once] { machine_.reactor().post(once); });
    };
  } else if (const auto* press = std::get_if<Press>(&rule->rule.act)) {
    const Result<void> pressed = machine_.controls().run(press->device, press->action, press->arguments);
    if (!pressed) {
      Finding finding;
      finding.kind = FindingKind::kUnsupportedCall;
      finding.text = "fault plan: " + press->device + " has no working action '" + press->action + "' (" +
                     ::strerrorname_np(pressed.error().number()) + ")";
      machine_.ledger().report(std::move(finding));
    }
  }
}

Outcome Injector::after(Call& call, Outcome outcome, std::size_t* copy_out_bytes) {
  for (const RuleRef& rule : rules()) {
    if (const auto* data = std::get_if<ShortData>(&rule->rule.act)) {
      if (matches(rule->rule.match, call) && fires(*rule)) {
        *copy_out_bytes = std::min<std::size_t>(*copy_out_bytes, data->bytes);
      }
    } else if (const auto* crash = std::get_if<CrashServer>(&rule->rule.act); crash && crash->before_reply) {
      if (matches(rule->rule.match, call) && fires(*rule)) ::kill(::getpid(), SIGKILL);
    }
  }
  return outcome;
}

void Injector::replied(const Call& call) {
  for (const RuleRef& rule : rules()) {
    if (const auto* hold = std::get_if<HoldUntil>(&rule->rule.act);
        hold && call_matches(hold->call, call.name())) {
      std::vector<std::function<void()>> held;
      {
        const std::lock_guard lock(rule->held_mutex);
        held.swap(rule->held);
      }
      for (auto& resume : held) machine_.reactor().post(std::move(resume));
    } else if (const auto* crash = std::get_if<CrashServer>(&rule->rule.act); crash && !crash->before_reply) {
      if (matches(rule->rule.match, call) && fires(*rule)) ::kill(::getpid(), SIGKILL);
    }
  }
}

PointDecision Injector::at(FaultPoint point, std::string_view node, const Client* client) {
  for (const RuleRef& rule : rules()) {
    const auto* act = std::get_if<AtPoint>(&rule->rule.act);
    if (act == nullptr || act->point != point) continue;
    if (!glob_matches(rule->rule.match.node, node) || !client_matches(rule->rule.match, client)) continue;
    if (fires(*rule)) return act->decision;
  }
  return PointDecision::kPass;
}

std::vector<Injector::Fired> Injector::fired() const {
  std::vector<Fired> fired;
  for (const RuleRef& rule : rules()) {
    fired.push_back({rule->rule.name, rule->rule.match.call, rule->occurrences.load(), rule->fires.load()});
  }
  return fired;
}

}  // namespace understudy::faults
