// The ledger as text, for `understudy ledger` and the report.
//
// Owner, units: none. Errors: none. Thread-safety: as the ledger's.
#pragma once

#include <cstdint>
#include <string>

#include "sim/core/ledger.h"

namespace understudy::cli {

// One line for each live object: kind, label, who made it with which call, when.
std::string ledger_text(const Ledger& ledger, std::uint64_t started_ns);

}  // namespace understudy::cli
