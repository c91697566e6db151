// What a running sequence knows: variables, names, nodes, helpers it started, and where its transcript goes.
//
// Owner: one process or thread of a sequence; forks and threads get a copy. Used by one thread.
// Errors: an operation's errno is part of the transcript, never an error of the probe.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "names.h"
#include "program.h"

namespace probe {

struct Context;

// A process or thread the sequence started.
struct Helper {
  pid_t pid = 0;                     // of a process; 0 for a thread
  int transcript_fd = -1;            // of a process: the memfd it writes its lines to
  pthread_t thread{};                // of a thread
  std::shared_ptr<Context> context;  // of a thread: its copy, whose lines and variables join the starter's
};

struct Context {
  std::map<std::string, std::string> nodes;  // name in the sequences -> path
  std::vector<std::string> command;          // how this probe was started, for exec
  std::string sequence;
  std::vector<std::uint64_t> variables;
  Names names;
  std::map<std::string, Helper> helpers;

  int transcript_fd = -1;  // lines go here, or to `lines` when it is -1
  std::string lines;
  pid_t thread_id = 0;  // of a thread, set by itself before its first step

  void write_lines(const std::string& text);
};

// What an operation did. `result` is JSON when not empty, else `value` is printed.
struct Outcome {
  std::int64_t value = 0;
  int error = 0;  // errno, when value is -1
  std::string result;
  std::string out;                     // JSON members of what came back beside the result
  std::vector<std::uint64_t> results;  // for `result` directives, when not just {value}
};

// Runs `steps` from `first` on, writing a line each.
void run_steps(Context& context, const std::vector<Step>& steps, std::size_t first = 0);

}  // namespace probe
