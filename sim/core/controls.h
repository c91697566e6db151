// Controls: what can be done *to* a device from outside its ioctls: reset, unplug, evict, raise an exception,
// lose VRAM. Drivers offer them by name; fault plans and `understudy inject` press them.
//
// Owner: Machine; drivers register while the machine is built. Units: see ControlArguments.
// Errors: ENOENT for an unknown device or action, else the driver's. Thread-safety: run from any thread;
// drivers lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/core/result.h"

namespace understudy {

struct ControlArguments {
  std::uint64_t address = 0;  // memory exception, ECC, userptr range: where
  std::uint64_t size_bytes = 0;
  std::uint64_t number = 0;     // VRAM bytes left, handle, context id, ...
  bool vram_lost = false;       // reset only
  std::uint64_t client_id = 0;  // 0: all clients of the device
};

class Controls {
 public:
  using Action = std::function<Result<void>(const ControlArguments&)>;

  // `device`: label of the node ("kfd", "dri/renderD128", "accel/accel0"). Actions in use: "reset", "unplug",
  // "memory-exception", "ecc", "evict", "migrate", "invalidate-userptr", "exhaust-vram", "firmware-hang",
  // "context-loss".
  void add(std::string device, std::string action, Action function);
  Result<void> run(std::string_view device, std::string_view action, const ControlArguments& arguments) const;
  std::vector<std::pair<std::string, std::string>> all() const;  // (device, action)

 private:
  std::map<std::pair<std::string, std::string>, Action> actions_;
};

}  // namespace understudy
