// Copies host <-> GPU and GPU <-> GPU of many sizes at odd offsets, through hsa_amd_memory_async_copy, and
// compares. Usage: hsa_copy [LARGEST_BYTES]
#include "hsa_client.h"

using namespace hsa_client;

namespace {

struct Place {
  hsa_agent_t agent;
  std::uint8_t* address;
};

void check_copy(const Place& host, const Place& from, const Place& to, std::size_t size_bytes,
                std::size_t from_offset, std::size_t to_offset, std::uint8_t* expected, std::uint8_t* got) {
  fill_pattern(expected, size_bytes, static_cast<std::uint32_t>(size_bytes + from_offset * 3 + to_offset));
  copy(from.address + from_offset, from.agent, expected, host.agent, size_bytes);
  copy(to.address + to_offset, to.agent, from.address + from_offset, from.agent, size_bytes);
  std::memset(got, 0xa5, size_bytes);
  copy(got, host.agent, to.address + to_offset, to.agent, size_bytes);
  if (std::memcmp(expected, got, size_bytes) != 0) {
    std::fprintf(stderr, "%zu bytes from offset %zu to %zu differ\n", size_bytes, from_offset, to_offset);
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t largest = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 64 * 1024 * 1024;
  const System system = discover();
  constexpr std::size_t kSlack = 8192;
  const hsa_agent_t cpu = system.cpus[0];
  auto* const expected = static_cast<std::uint8_t*>(allocate(system, system.cpu_pool(), largest));
  auto* const got = static_cast<std::uint8_t*>(allocate(system, system.cpu_pool(), largest));
  std::vector<Place> places = {
      {cpu, static_cast<std::uint8_t*>(allocate(system, system.cpu_pool(), largest + kSlack))}};
  for (std::size_t gpu = 0; gpu < system.gpus.size(); ++gpu) {
    places.push_back({system.gpus[gpu],
                      static_cast<std::uint8_t*>(allocate(system, system.gpu_pool(gpu), largest + kSlack))});
  }
  const std::size_t sizes[] = {1,    2,    3,    4,     5,           63,      64,      65,
                               4095, 4096, 4097, 65537, 1048576 + 3, 4194304, 4194305, largest};
  const std::size_t offsets[] = {0, 1, 7, 4093};
  for (const Place& from : places) {
    for (const Place& to : places) {
      if (from.address == to.address) continue;
      for (const std::size_t size_bytes : sizes) {
        if (size_bytes > largest) continue;
        for (const std::size_t offset : offsets) {
          if (size_bytes > 2 * 1024 * 1024 && offset > 1) continue;
          check_copy(places[0], from, to, size_bytes, offset, (offset * 5 + 3) % kSlack, expected, got);
        }
      }
    }
  }
  for (const Place& place : places) HSA_CHECK(hsa_amd_memory_pool_free(place.address));
  HSA_CHECK(hsa_amd_memory_pool_free(expected));
  HSA_CHECK(hsa_amd_memory_pool_free(got));
  return finish();
}
