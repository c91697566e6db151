// Report: what there is to say when a machine ends: findings of the ledger, processes that came without the
// shim or stayed behind, calls the machine lacks. Empty when nothing is wrong.
//
// Owner: plain data, made by the server, printed by the supervisor. Units: times in ms since the machine
// started. Errors: none. Thread-safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/ledger.h"
#include "sim/core/machine.h"
#include "sim/door/shimless_clients.h"

namespace understudy::cli {

struct LeftoverClient {
  pid_t pid = 0;
  std::string name;
  bool ended_by_us = false;
};

// A client that was killed, crashed or became another program by exec while it held objects, which were
// released.
struct AbruptEnd {
  pid_t pid = 0;
  std::string name;
  std::vector<LedgerLine> held;
};

struct Report {
  std::vector<Finding> findings;
  std::vector<Finding> host_findings;  // on the machine a virtual one runs on
  std::vector<AbruptEnd> abrupt_ends;
  std::vector<door::ShimlessClient> shimless_clients;
  std::vector<LeftoverClient> leftover_clients;
  std::vector<Ledger::UnsupportedCall> unsupported_calls;
  std::uint64_t seed = 0;
  std::uint64_t started_ns = 0;

  // Kinds of findings that make the run fail, and patterns (globs over "kind: text") of those not to speak
  // of.
  std::vector<FindingKind> fatal;
  std::vector<std::string> suppressed;
  bool list_leaks = false;  // each leak, rather than their number per process

  void drop_suppressed();
  std::int64_t fatal_count() const;
  // Lines with the prefix "understudy: "; none when nothing is wrong. Numbers that no kernel knows failed
  // here as there, and are left to json().
  std::string text() const;
  // One object, also when there is nothing to say.
  std::string json() const;
};

}  // namespace understudy::cli
