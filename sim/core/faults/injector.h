// Injector: carries out fault plans: the machine's FaultHook.
//
// Owner: Machine::hooks; plans can be added while clients run. Units: ns. Errors: none of its own; a control
// that cannot be pressed is reported to the ledger. Thread-safety: called from many threads; per-rule
// counters are exact, and which of several concurrent calls is "the third" is decided by arrival.
//
// Deterministic: probability draws depend on the plan's seed, the rule and the occurrence, never on time.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sim/core/faults/plan.h"
#include "sim/core/hooks.h"

namespace understudy {
class Machine;
}

namespace understudy::faults {

class Injector : public FaultHook {
 public:
  explicit Injector(Machine& machine) : machine_(machine) {}

  void add(Plan plan);
  // Forgets all rules; calls on hold go on.
  void clear();

  FaultDecision before(Call& call) override;
  Outcome after(Call& call, Outcome outcome, std::size_t* copy_out_bytes) override;
  void replied(const Call& call) override;
  PointDecision at(FaultPoint point, std::string_view node, const Client* client) override;

  struct Fired {
    std::string rule;
    std::string call;
    std::uint64_t occurrence = 0;
    std::uint64_t count = 0;
  };
  // How often each rule fired.
  std::vector<Fired> fired() const;

 private:
  struct ArmedRule {
    Rule rule;
    std::uint64_t seed = 0;
    std::atomic<std::uint64_t> occurrences{0};
    std::atomic<std::uint64_t> fires{0};
    std::atomic<bool> spent{false};
    std::mutex held_mutex;
    std::vector<std::function<void()>> held;  // guarded by held_mutex
  };
  using RuleRef = std::shared_ptr<ArmedRule>;
  std::vector<RuleRef> rules() const;
  bool fires(ArmedRule& rule);
  void apply(const RuleRef& rule, Call& call, FaultDecision& decision);

  Machine& machine_;
  mutable std::mutex mutex_;
  std::vector<RuleRef> rules_;
};

}  // namespace understudy::faults
