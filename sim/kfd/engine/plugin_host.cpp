#include "sim/kfd/engine/plugin_host.h"

#include <dlfcn.h>

#include <array>
#include <cstring>

#include "sim/kfd/engine/aql_packet.h"
#include "sim/kfd/profile.h"

namespace understudy::kfd::engine {
namespace {

constexpr const char* kEntry = "understudy_engine_plugin";

int read_memory(void* context, std::uint64_t address, void* into, std::size_t size_bytes) {
  auto& memory = *static_cast<AddressSpace*>(context);
  return memory.read(address, std::span(static_cast<std::byte*>(into), size_bytes)) ? 0 : -1;
}

int write_memory(void* context, std::uint64_t address, const void* from, std::size_t size_bytes) {
  auto& memory = *static_cast<AddressSpace*>(context);
  return memory.write(address, std::span(static_cast<const std::byte*>(from), size_bytes)) ? 0 : -1;
}

}  // namespace

std::unique_ptr<PluginHost> PluginHost::load(const std::string& path, std::string* error) {
  void* const object = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    *error = "engine plug-in " + path + ": " + ::dlerror();
    return nullptr;
  }
  const auto refuse = [&](const std::string& reason) {
    *error = "engine plug-in " + path + ": " + reason;
    ::dlclose(object);
    return nullptr;
  };
  using Entry = const understudy_engine_table* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(object, kEntry));
  if (entry == nullptr) return refuse(std::string("has no function ") + kEntry + "()");
  const understudy_engine_table* const table = entry();
  if (table == nullptr || table->abi_version != UNDERSTUDY_ENGINE_ABI_VERSION) {
    return refuse("speaks another ABI version than " + std::to_string(UNDERSTUDY_ENGINE_ABI_VERSION));
  }
  void* const self = table->create();
  if (self == nullptr) return refuse("refused to start");
  return std::unique_ptr<PluginHost>(new PluginHost(object, table, self));
}

PluginHost::~PluginHost() {
  table_->destroy(self_);
  ::dlclose(object_);
}

understudy_dispatch_result PluginHost::dispatch(const GpuProfile& profile, AddressSpace& memory,
                                                std::span<const std::byte, 64> packet) const {
  const AqlPacket aql(packet);
  std::array<std::byte, 64> descriptor{};
  const bool has_descriptor = memory.read(aql.kernel_object(), descriptor);
  memory.clear_fault();
  const understudy_memory accessors{&memory, &read_memory, &write_memory};
  understudy_dispatch dispatch{};
  dispatch.struct_bytes = sizeof dispatch;
  dispatch.gpu = profile.name.c_str();
  dispatch.gfx_target_version = static_cast<std::uint32_t>(profile.property("gfx_target_version"));
  dispatch.packet = packet.data();
  dispatch.kernel_object = aql.kernel_object();
  dispatch.kernel_descriptor = has_descriptor ? descriptor.data() : nullptr;
  dispatch.kernarg_address = aql.kernarg_address();
  dispatch.memory = &accessors;
  return table_->dispatch(self_, &dispatch);
}

}  // namespace understudy::kfd::engine
