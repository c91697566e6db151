#include "sim/cli/ledger_text.h"

#include <fmt/format.h>

namespace understudy::cli {

std::string ledger_text(const Ledger& ledger, std::uint64_t started_ns, std::string_view machine) {
  std::string text;
  for (const LedgerLine& line : ledger.live()) {
    const double made_ms = static_cast<double>(line.made.time_ns - started_ns) / 1e6;
    text += fmt::format("{}{:<11} {}; made by {} at {:.3f} ms, client {} (\"{}\"), thread {}\n", machine,
                        object_kind_name(line.kind), line.label, line.made.call, made_ms, line.made.pid,
                        line.made.process, line.made.tid);
  }
  return text;
}

}  // namespace understudy::cli
