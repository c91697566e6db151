// ShimlessClients: the processes that opened nodes and never said hello through the shim.
//
// Owner: a door. Units: none. Errors: none. Thread-safety: all methods from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sim/core/machine.h"

namespace understudy::door {

// A process that used the machine without the shim: no memory maps, no descriptors from calls.
struct ShimlessClient {
  pid_t pid = 0;
  std::string name;
  std::string node;  // the first it opened
};

class ShimlessClients {
 public:
  explicit ShimlessClients(Machine& machine);

  void opened(const ClientRef& client, const std::string& node);
  std::vector<ShimlessClient> all() const;

 private:
  // Outlives the door in the machine's list of observers.
  struct State {
    std::mutex mutex;
    // By Client::id(): processes that may still say hello.
    std::map<std::uint64_t, std::pair<ClientRef, ShimlessClient>> candidates;
    std::vector<ShimlessClient> gone;
  };
  const std::shared_ptr<State> state_;
};

}  // namespace understudy::door
