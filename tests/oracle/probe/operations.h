// The operations a step can ask for, by name.
#pragma once

#include <span>
#include <vector>

#include "buffers.h"
#include "context.h"
#include "program.h"

namespace probe {

// One step being run, as an operation sees it.
struct Run {
  Context& context;
  const Step& step;
  const std::vector<GuardedBuffer>& buffers;

  std::uint64_t value(const Value& value) const;
  std::uint64_t operand(std::size_t index) const { return value(parse_value(step.operands.at(index))); }
  const std::string& word(std::size_t index) const { return step.operands.at(index); }
};

using Operation = Outcome (*)(Run&);

struct OperationRow {
  const char* name;
  Operation run;
};

// File descriptors, memory, ioctl: calls.cpp. Processes, threads, signals: processes.cpp.
std::span<const OperationRow> call_operations();
std::span<const OperationRow> process_operations();

// The result of a system call that returned `value` and may have set errno.
Outcome from_call(std::int64_t value);

}  // namespace probe
