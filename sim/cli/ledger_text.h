// The ledger as text, for `understudy ledger` and the report.
//
// Owner, units: none. Errors: none. Thread-safety: as the ledger's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/core/ledger.h"

namespace understudy::cli {

// One line for each live object: kind, label, who made it with which call, when. Each begins with `machine`.
std::string ledger_text(const Ledger& ledger, std::uint64_t started_ns, std::string_view machine = {});

}  // namespace understudy::cli
