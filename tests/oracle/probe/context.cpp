#include "context.h"

#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "buffers.h"
#include "json.h"
#include "operations.h"

namespace probe {
namespace {

void write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) std::_Exit(3);
    done += static_cast<std::size_t>(written);
  }
}

// The kernel leaks a few numbers of its own (524) that libc has no name for.
std::string errno_name(int error) {
  const char* name = strerrorname_np(error);
  return name != nullptr ? name : std::to_string(error);
}

Operation find_operation(const std::string& name) {
  for (const auto operations : {call_operations(), process_operations()})
    for (const OperationRow& row : operations)
      if (name == row.name) return row.run;
  std::fprintf(stderr, "oracle_probe: no operation %s\n", name.c_str());
  std::exit(2);
}

void print(Context& context, const Step& step, const Outcome& outcome, const std::string& out) {
  if (step.quiet && outcome.error == 0) return;
  std::string line = step.echo;
  line += ",\"result\":" + (outcome.result.empty() ? std::to_string(outcome.value) : outcome.result);
  if (outcome.error != 0) line += ",\"errno\":" + json_string(errno_name(outcome.error));
  if (!out.empty()) line += ",\"out\":{" + out + "}";
  context.write_lines(line + "}\n");
}

void run_step(Context& context, const Step& step) {
  std::vector<GuardedBuffer> buffers;
  for (const BufferSpec& spec : step.buffers) buffers.emplace_back(spec.size_bytes);
  // What nobody sees uses up no names: drivers make their buffers in different numbers of steps.
  const Names names = context.names;
  Run run{context, step, buffers};
  for (const Fill& fill : step.fills) {
    for (std::size_t i = 0; i < fill.bytes.size(); ++i)
      store(buffers[fill.buffer].bytes(), fill.offset + i, 1, fill.bytes[i]);
  }
  for (const Assignment& assignment : step.assignments)
    store(buffers[assignment.buffer].bytes(), assignment.offset, assignment.width,
          run.value(assignment.value));
  std::vector<std::vector<std::uint8_t>> before;
  for (const GuardedBuffer& buffer : buffers)
    before.emplace_back(buffer.bytes().begin(), buffer.bytes().end());

  const Outcome outcome = find_operation(step.operation)(run);

  for (const Save& save : step.saves)
    context.variables.at(static_cast<std::size_t>(save.variable)) =
        load(buffers[save.buffer].bytes(), save.offset, save.width);
  for (std::size_t i = 0; i < step.results.size(); ++i)
    context.variables.at(static_cast<std::size_t>(step.results[i])) =
        i < outcome.results.size() ? outcome.results[i] : static_cast<std::uint64_t>(outcome.value);
  std::string out = outcome.out;
  const std::string changed = changed_fields(step, before, buffers, context.names);
  if (!changed.empty()) out += (out.empty() ? "" : ",") + changed;
  print(context, step, outcome, out);
  if (step.quiet) context.names = names;
}

}  // namespace

void Context::write_lines(const std::string& text) {
  if (transcript_fd >= 0)
    write_all(transcript_fd, text);
  else
    lines += text;
}

Outcome from_call(std::int64_t value) {
  Outcome outcome;
  outcome.value = value;
  outcome.error = value == -1 ? errno : 0;
  return outcome;
}

std::uint64_t Run::value(const Value& value) const {
  std::uint64_t sum = value.constant;
  if (value.variable >= 0) sum += context.variables.at(static_cast<std::size_t>(value.variable));
  if (value.buffer >= 0)
    sum +=
        reinterpret_cast<std::uintptr_t>(buffers.at(static_cast<std::size_t>(value.buffer)).bytes().data());
  return sum;
}

void run_steps(Context& context, const std::vector<Step>& steps, std::size_t first) {
  for (std::size_t i = first; i < steps.size(); ++i) run_step(context, steps[i]);
}

}  // namespace probe
