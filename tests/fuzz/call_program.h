// CallProgram: the input as a program of one client: it opens nodes, makes ioctls with structs laid out by
// the uapi descriptors, maps files, stores to its memory and to what it mapped, closes, and lets time pass.
// At its end the client is gone, and with it everything it held: what stays is a fault of the simulator.
//
// Owner: the target; one program per input. Units: bytes. Errors: none a client can cause; a broken promise
// of the simulator (a call that no cancel ends, something that outlives its client) aborts with a line that
// says which. Thread-safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/core/machine.h"
#include "tests/fuzz/arena.h"
#include "tests/fuzz/values.h"

namespace understudy::fuzz {

// A kind of node and what is called on it.
struct NodeCalls {
  std::vector<std::string> nodes;
  std::vector<std::span<const uapi::IoctlDescriptor>> ioctls;
};

struct Scene {
  std::vector<NodeCalls> calls;
  // What pointers lead to.
  std::vector<std::span<const uapi::StructDescriptor>> structs;
  // Ids the client would find in sysfs.
  std::vector<std::uint64_t> known;
};

class ProgramCall;

class CallProgram {
 public:
  // `clock` is the machine's.
  CallProgram(Machine& machine, ManualClock& clock, const Scene& scene);
  ~CallProgram();
  CallProgram(const CallProgram&) = delete;

  void run(Input& input);

 private:
  struct OpenFile {
    const NodeCalls* calls = nullptr;
    FileRef file;
    UniqueFd descriptor;
  };
  Caller caller() const { return {client_, client_->pid()}; }
  void step(Input& input);
  void open(const NodeCalls& calls, const std::string& node);
  void ioctl(Input& input);
  void map(Input& input);
  void store(Input& input);
  void fill_struct(Input& input);
  void close(Input& input);
  void take_answer(ProgramCall& call, std::span<const std::byte> before);
  void keep_pending(std::shared_ptr<ProgramCall> call);
  void finish_all();
  void check_nothing_is_left() const;
  const uapi::StructDescriptor* pick_struct(Input& input) const;

  Machine& machine_;
  ManualClock& clock_;
  const Scene& scene_;
  Arena arena_;
  Values values_{arena_};
  ClientRef client_;
  std::vector<OpenFile> files_;
  std::vector<UniqueFd> handed_;
  std::vector<std::shared_ptr<ProgramCall>> pending_;
};

}  // namespace understudy::fuzz
