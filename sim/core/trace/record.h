// TraceRecord: one finished call as the trace sinks see it, and the sink interface.
//
// Owner: the Tracer makes a record and lends it to its sinks. Units: ns of the machine's clock, bytes.
// Errors: none; a sink that cannot write stops writing. Thread-safety: sinks are called one at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/call.h"

namespace understudy::trace {

struct TraceRecord {
  std::uint64_t serial = 0;
  std::uint64_t begin_ns = 0;
  std::uint64_t duration_ns = 0;
  pid_t pid = 0;
  pid_t tid = 0;
  std::string process;
  std::string node;  // label of the file; empty for an open that failed
  CallKind kind{};
  std::string name;  // "AMDKFD_IOC_...", "open", "mmap"
  std::uint32_t command = 0;
  const uapi::IoctlDescriptor* descriptor = nullptr;
  std::vector<std::byte> entry;  // the struct as it came in
  std::vector<std::byte> exit;   // and as it went out
  int value = 0;                 // >= 0 or -errno
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(const TraceRecord& record) = 0;
  // Completes the output; nothing is written afterwards.
  virtual void finish() {}
};

// Where text goes: a file, or stderr for "-".
class Output {
 public:
  static std::unique_ptr<Output> open(const std::string& path);  // null: cannot be written (errno says why)
  ~Output();
  void write(std::string_view text);
  void flush();

 private:
  explicit Output(int fd, bool owned) : fd_(fd), owned_(owned) {}
  const int fd_;
  const bool owned_;
  std::string pending_;
};

// `12.031 ms  4711:4713 demo  kfd  AMDKFD_IOC_...({in} => {out}) = 0 <0.004 ms>`
std::unique_ptr<Sink> make_text_sink(std::unique_ptr<Output> output);
// One JSON object a line; schema in docs/guide.md.
std::unique_ptr<Sink> make_json_sink(std::unique_ptr<Output> output);
// Chrome/Perfetto trace events: a track per thread, complete events named after the calls.
std::unique_ptr<Sink> make_perfetto_sink(std::unique_ptr<Output> output);

// Counts, errors and time per call, as `strace -c` prints them.
class Statistics : public Sink {
 public:
  void write(const TraceRecord& record) override;
  std::string table() const;

 private:
  struct Row {
    std::uint64_t calls = 0;
    std::uint64_t errors = 0;
    std::uint64_t total_ns = 0;
    std::uint64_t longest_ns = 0;
  };
  std::map<std::pair<std::string, std::string>, Row> rows_;  // (node, call)
};

// "0" or "-1 ENOMEM".
std::string result_text(int value);

}  // namespace understudy::trace
