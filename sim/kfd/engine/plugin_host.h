// PluginHost: loads an engine plug-in and hands it dispatches.
//
// Owner: KfdDriver. Units: none. Errors: load() returns one line that says what is wrong with the object.
// Thread-safety: dispatch() from any thread. Mirrors: nothing; see plugin.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sim/kfd/engine/address_space.h"
#include "sim/kfd/engine/plugin.h"

namespace understudy::kfd {
struct GpuProfile;
}

namespace understudy::kfd::engine {

class PluginHost {
 public:
  // Null and *error filled when the object cannot be used.
  static std::unique_ptr<PluginHost> load(const std::string& path, std::string* error);
  ~PluginHost();
  PluginHost(const PluginHost&) = delete;

  const char* name() const { return table_->name; }
  understudy_dispatch_result dispatch(const GpuProfile& profile, AddressSpace& memory,
                                      std::span<const std::byte, 64> packet) const;

 private:
  PluginHost(void* object, const understudy_engine_table* table, void* self)
      : object_(object), table_(table), self_(self) {}
  void* const object_;
  const understudy_engine_table* const table_;
  void* const self_;
};

}  // namespace understudy::kfd::engine
