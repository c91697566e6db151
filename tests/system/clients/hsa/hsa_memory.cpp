// Allocates from every pool, locks malloc'd memory and copies through it and asks what pointers are.
#include "hsa_client.h"

using namespace hsa_client;

namespace {

void use_every_pool(const System& system) {
  for (const Pool& pool : system.pools) {
    for (const std::size_t size_bytes :
         {std::size_t{1}, std::size_t{4096}, std::size_t{5000}, std::size_t{3} << 20}) {
      void* const address = allocate(system, pool, size_bytes);
      hsa_amd_pointer_info_t info{};
      info.size = sizeof info;
      HSA_CHECK(hsa_amd_pointer_info(address, &info, nullptr, nullptr, nullptr));
      REQUIRE(info.type == HSA_EXT_POINTER_TYPE_HSA);
      REQUIRE(info.agentOwner.handle == pool.agent.handle);
      HSA_CHECK(hsa_amd_memory_pool_free(address));
    }
  }
}

void copy_through_locked_memory(const System& system) {
  constexpr std::size_t kBytes = 5 * 1024 * 1024 + 123;
  auto* const source = static_cast<std::uint8_t*>(std::malloc(kBytes));
  auto* const target = static_cast<std::uint8_t*>(std::malloc(kBytes));
  auto* const on_gpu = allocate(system, system.gpu_pool(0), kBytes);
  fill_pattern(source, kBytes, 7);
  std::memset(target, 0, kBytes);
  void *locked_source = nullptr, *locked_target = nullptr;
  HSA_CHECK(
      hsa_amd_memory_lock(source, kBytes, const_cast<hsa_agent_t*>(system.gpus.data()), 1, &locked_source));
  HSA_CHECK(
      hsa_amd_memory_lock(target, kBytes, const_cast<hsa_agent_t*>(system.gpus.data()), 1, &locked_target));
  copy(on_gpu, system.gpus[0], locked_source, system.cpus[0], kBytes);
  copy(locked_target, system.cpus[0], on_gpu, system.gpus[0], kBytes);
  REQUIRE(std::memcmp(source, target, kBytes) == 0);
  HSA_CHECK(hsa_amd_memory_unlock(source));
  HSA_CHECK(hsa_amd_memory_unlock(target));
  HSA_CHECK(hsa_amd_memory_pool_free(on_gpu));
  std::free(source);
  std::free(target);
}

}  // namespace

int main() {
  const System system = discover();
  use_every_pool(system);
  copy_through_locked_memory(system);
  return finish();
}
