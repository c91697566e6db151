// Sharing pool allocations with other processes of the same user.
//
// A handle names a socket of the exporting process and a secret key. Attaching connects, sends the key, and
// receives the memory as a dma-buf; from then on the two processes' mappings are independent, and the
// exporter may free its own. The server is a thread that starts with the first handle. It answers only
// processes of its own user. Thread-safe.
#pragma once

#include <hsa/hsa_ext_amd.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/base/unique_fd.h"
#include "runtime/core/allocation_table.h"
#include "runtime/core/status.h"

namespace hsa_rt {

// The 32 bytes of hsa_amd_ipc_memory_t.
struct IpcHandle {
  uint32_t magic;
  uint32_t process;
  uint64_t server_secret;
  uint64_t key;
  uint64_t size_bytes;
};
static_assert(sizeof(IpcHandle) == sizeof(hsa_amd_ipc_memory_t));

class IpcServer {
 public:
  explicit IpcServer(AllocationTable& allocations) : allocations_(allocations) {}
  ~IpcServer();

  Status<IpcHandle> share(void* base, uint64_t size_bytes);

 private:
  struct SharedMemory {
    void* base;
    uint64_t size_bytes;
    uint64_t memory_serial;
  };

  Status<void> start();
  void serve();
  void answer(const UniqueFd& client);

  AllocationTable& allocations_;
  std::mutex lock_;
  std::map<uint64_t, SharedMemory> shared_;  // by key
  uint64_t server_secret_ = 0;
  UniqueFd listener_;
  UniqueFd stop_;
  std::thread thread_;
};

// Asks the exporting process for the memory. INVALID_ARGUMENT: the handle is no longer good, or never was.
Status<UniqueFd> fetch_shared_memory(const IpcHandle& handle);

}  // namespace hsa_rt
