// GPU memory from one process to another: the parent fills it, the child reads it, changes it and leaves; the
// parent sees the change. The runtime is started on both sides of the fork, never before it.
#include <sys/wait.h>
#include <unistd.h>

#include "hsa_client.h"

using namespace hsa_client;

namespace {

constexpr std::size_t kBytes = 2 * 1024 * 1024;

template <typename T>
void send(int fd, const T& value) {
  REQUIRE(::write(fd, &value, sizeof value) == static_cast<ssize_t>(sizeof value));
}
template <typename T>
T receive(int fd) {
  T value{};
  REQUIRE(::read(fd, &value, sizeof value) == static_cast<ssize_t>(sizeof value));
  return value;
}

int child(int from_parent) {
  const auto handle = receive<hsa_amd_ipc_memory_t>(from_parent);
  const System system = discover();
  void* shared = nullptr;
  HSA_CHECK(hsa_amd_ipc_memory_attach(&handle, kBytes, 1, system.gpus.data(), &shared));
  auto* const host = static_cast<std::uint8_t*>(allocate(system, system.cpu_pool(), kBytes));
  auto* const expected = static_cast<std::uint8_t*>(std::malloc(kBytes));
  fill_pattern(expected, kBytes, 1);
  copy(host, system.cpus[0], shared, system.gpus[0], kBytes);
  REQUIRE(std::memcmp(host, expected, kBytes) == 0);
  fill_pattern(host, kBytes, 2);
  copy(shared, system.gpus[0], host, system.cpus[0], kBytes);
  HSA_CHECK(hsa_amd_ipc_memory_detach(shared));
  HSA_CHECK(hsa_shut_down());
  return 0;
}

}  // namespace

int main() {
  int to_child[2];
  REQUIRE(::pipe(to_child) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) return child(to_child[0]);

  const System system = discover();
  void* const shared = allocate(system, system.gpu_pool(0), kBytes);
  auto* const host = static_cast<std::uint8_t*>(allocate(system, system.cpu_pool(), kBytes));
  fill_pattern(host, kBytes, 1);
  copy(shared, system.gpus[0], host, system.cpus[0], kBytes);
  hsa_amd_ipc_memory_t handle{};
  HSA_CHECK(hsa_amd_ipc_memory_create(shared, kBytes, &handle));
  send(to_child[1], handle);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  copy(host, system.cpus[0], shared, system.gpus[0], kBytes);
  auto* const expected = static_cast<std::uint8_t*>(std::malloc(kBytes));
  fill_pattern(expected, kBytes, 2);
  REQUIRE(std::memcmp(host, expected, kBytes) == 0);
  HSA_CHECK(hsa_amd_memory_pool_free(shared));
  return finish();
}
