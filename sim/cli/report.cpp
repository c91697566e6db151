#include "sim/cli/report.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/core/glob.h"

namespace understudy::cli {
namespace {

double milliseconds(std::uint64_t time_ns, std::uint64_t started_ns) {
  return time_ns < started_ns ? 0.0 : static_cast<double>(time_ns - started_ns) / 1e6;
}

std::string actor_line(std::string_view role, const Actor& actor, std::uint64_t started_ns) {
  if (actor.pid == 0) return {};
  return fmt::format("  {:<7} {} at {:.3f} ms, client {} (\"{}\"), thread {}\n", fmt::format("{}:", role),
                     actor.call, milliseconds(actor.time_ns, started_ns), actor.pid, actor.process,
                     actor.tid);
}

std::string finding_text(std::string_view machine, const Finding& finding, std::uint64_t started_ns) {
  return fmt::format("understudy: {}{}: {}\n", machine, finding_kind_name(finding.kind), finding.text) +
         actor_line("made", finding.made, started_ns) + actor_line("first", finding.first, started_ns) +
         actor_line("now", finding.actor, started_ns);
}

// The ledger names a call by its command word when no table has it.
bool is_unknown_number(const Ledger::UnsupportedCall& call) {
  return call.name.starts_with("0x");
}

nlohmann::json actor_json(const Actor& actor, std::uint64_t started_ns) {
  if (actor.pid == 0) return nullptr;
  return {{"pid", actor.pid},
          {"tid", actor.tid},
          {"process", actor.process},
          {"call", actor.call},
          {"time_ms", milliseconds(actor.time_ns, started_ns)}};
}

nlohmann::json finding_json(const Finding& finding, std::uint64_t started_ns) {
  return {{"kind", finding_kind_name(finding.kind)},
          {"text", finding.text},
          {"call", actor_json(finding.actor, started_ns)},
          {"first", actor_json(finding.first, started_ns)},
          {"made", actor_json(finding.made, started_ns)}};
}

}  // namespace

void Report::drop_suppressed() {
  const auto is_suppressed = [this](const Finding& finding) {
    const std::string line = fmt::format("{}: {}", finding_kind_name(finding.kind), finding.text);
    return std::any_of(suppressed.begin(), suppressed.end(),
                       [&](const std::string& glob) { return glob_matches(glob, line); });
  };
  std::erase_if(findings, is_suppressed);
  std::erase_if(host_findings, is_suppressed);
}

std::int64_t Report::fatal_count() const {
  const auto is_fatal = [this](const Finding& finding) {
    return std::find(fatal.begin(), fatal.end(), finding.kind) != fatal.end();
  };
  return std::count_if(findings.begin(), findings.end(), is_fatal) +
         std::count_if(host_findings.begin(), host_findings.end(), is_fatal);
}

std::string Report::text() const {
  std::string text;
  std::map<std::pair<pid_t, std::string>, unsigned> leaks;
  for (const Finding& finding : findings) {
    if (finding.kind == FindingKind::kLeak && !list_leaks) {
      ++leaks[{finding.made.pid, finding.made.process}];
      continue;
    }
    text += finding_text("", finding, started_ns);
  }
  unsigned host_leaks = 0;
  for (const Finding& finding : host_findings) {
    if (finding.kind == FindingKind::kLeak && !list_leaks) {
      ++host_leaks;
      continue;
    }
    text += finding_text("host: ", finding, started_ns);
  }
  if (host_leaks > 0) {
    text += fmt::format("understudy: host: {} object{} of the guest not given back (--leaks lists them)\n",
                        host_leaks, host_leaks == 1 ? "" : "s");
  }
  for (const auto& [process, count] : leaks) {
    text += fmt::format(
        "understudy: client {} (\"{}\") exited with {} object{} not given back (--leaks lists them)\n",
        process.first, process.second, count, count == 1 ? "" : "s");
  }
  for (const AbruptEnd& end : abrupt_ends) {
    text += fmt::format(
        "understudy: client {} (\"{}\") was killed, crashed or called exec while it held {} object{}{}\n",
        end.pid, end.name, end.held.size(), end.held.size() == 1 ? "" : "s",
        list_leaks ? ":" : " (--leaks lists them)");
    if (!list_leaks) continue;
    for (const LedgerLine& line : end.held) {
      text += fmt::format("  {}\n", line.label);
      text += actor_line("made", line.made, started_ns);
    }
  }
  for (const door::ShimlessClient& client : shimless_clients) {
    text += fmt::format(
        "understudy: client {} (\"{}\") opened {} without the shim: no mmap and no descriptors from calls "
        "there (is it "
        "a static binary, or was its environment cleared?)\n",
        client.pid, client.name, client.node);
  }
  for (const LeftoverClient& client : leftover_clients) {
    text += fmt::format("understudy: client {} (\"{}\") still used the machine when it ended{}\n", client.pid,
                        client.name,
                        client.ended_by_us ? ", and was ended with it" : "; its calls fail from now on");
  }
  for (const Ledger::UnsupportedCall& call : unsupported_calls) {
    if (is_unknown_number(call)) continue;
    text += fmt::format(
        "understudy: {} on {} is not simulated and failed as on a kernel without it ({} time{})\n", call.name,
        call.file, call.count, call.count == 1 ? "" : "s");
  }
  if (text.empty()) return text;
  text += fmt::format("understudy: --seed {} repeats this machine\n", seed);
  return text;
}

std::string Report::json() const {
  nlohmann::json root = {{"version", 1}, {"seed", seed}};
  for (const char* list : {"findings", "host_findings", "abrupt_ends", "shimless_clients", "leftover_clients",
                           "unsupported_calls"})
    root[list] = nlohmann::json::array();
  for (const Finding& finding : findings) root["findings"].push_back(finding_json(finding, started_ns));
  for (const Finding& finding : host_findings)
    root["host_findings"].push_back(finding_json(finding, started_ns));
  for (const AbruptEnd& end : abrupt_ends) {
    nlohmann::json held = nlohmann::json::array();
    for (const LedgerLine& line : end.held)
      held.push_back({{"object", line.label}, {"made", actor_json(line.made, started_ns)}});
    root["abrupt_ends"].push_back({{"pid", end.pid}, {"process", end.name}, {"held", std::move(held)}});
  }
  for (const door::ShimlessClient& client : shimless_clients)
    root["shimless_clients"].push_back(
        {{"pid", client.pid}, {"process", client.name}, {"node", client.node}});
  for (const LeftoverClient& client : leftover_clients) {
    root["leftover_clients"].push_back(
        {{"pid", client.pid}, {"process", client.name}, {"ended", client.ended_by_us}});
  }
  for (const Ledger::UnsupportedCall& call : unsupported_calls)
    root["unsupported_calls"].push_back({{"file", call.file}, {"call", call.name}, {"count", call.count}});
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace understudy::cli
