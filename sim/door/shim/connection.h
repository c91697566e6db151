// The process's connections to its machine: made when first needed, kept for the next call, one per call in
// flight at the same time (a signal handler's call inside an interrupted one takes another).
//
// Kept per call rather than per thread: nothing has to happen when a thread ends, and a thousand idle threads
// hold no descriptors. The first is the process connection, whose end tells the server of exec.
//
// Owner: a static pool; a Lease has one of it to itself. Units: none. Errors: ENODEV: no server; EMFILE,
// ENFILE, ENOMEM: no descriptor for the socket. Thread-safety: Leases may be taken from any thread, signal
// handler and vfork child; a vfork child (which shares our memory and not our descriptors) gets a connection
// for the one call. Mirrors: nothing.
#pragma once

#include "sim/door/channel_protocol.h"
#include "sim/door/shim/exchange.h"

namespace understudy::shim {

class Lease {
 public:
  Lease();
  ~Lease();
  Lease(const Lease&) = delete;

  // 0, or why there is no connection.
  int error() const { return error_; }
  Connection& connection() { return *connection_; }
  // Puts a fresh one in the place of one whose server has hung up; error() tells.
  void renew();
  // It is of no more use.
  void drop();

 private:
  const std::uint32_t generation_ = fork_generation();
  Connection* connection_ = nullptr;
  Connection temporary_;
  int slot_ = -1;
  int error_ = 0;
};

// This process (and not the one it was forked from) keeps a connection.
bool is_connected();

// What the server has said about itself; null with `error` set when there is none.
const door::HelloReply* meet_machine(int* error);
// The same without a word to the server: null when nothing here has spoken to it yet.
const door::HelloReply* known_machine();

}  // namespace understudy::shim
