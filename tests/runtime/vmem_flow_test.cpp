// The flows of the public vmem test suite of ROCm (rocrtst), in its manner: for every agent with a pool, in units of the pool's
// granule, data checked by the devices themselves.
#include <sys/socket.h>

#include <algorithm>
#include <numeric>

#include "tests/runtime/hsa_fixture.h"

namespace hsa_rt::test {
namespace {

constexpr hsa_access_permission_t kReadWrite = HSA_ACCESS_PERMISSION_RW;

// One message with a descriptor, over a connected socket.
void send_fd(int socket, int fd) {
  char byte = 'f';
  struct iovec data {
    &byte, 1
  };
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr message {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  ASSERT_EQ(::sendmsg(socket, &message, 0), 1);
}

int receive_fd(int socket) {
  char byte = 0;
  struct iovec data {
    &byte, 1
  };
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr message {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
  return fd;
}

class VmemFlow : public HsaTest {
 protected:
  struct Owner {
    hsa_agent_t agent;
    hsa_amd_memory_pool_t pool;
    size_t granule;
  };

  void SetUp() override {
    HsaTest::SetUp();
    for (const auto* group : {&gpus, &npus}) {
      for (const hsa_agent_t agent : *group) {
        const hsa_amd_memory_pool_t pool = coarse_pool(agent);
        owners.push_back(
            {agent, pool, pool_info<size_t>(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE)});
      }
    }
    if (owners.empty()) GTEST_SKIP() << "needs a device";
  }

  static char* at(void* va, size_t offset) { return static_cast<char*>(va) + offset; }

  void* reserve(const Owner& owner, size_t size) {
    void* va = nullptr;
    EXPECT_HSA(hsa_amd_vmem_address_reserve_align(&va, size, 0, owner.granule, 0));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(va) % owner.granule, 0u);
    return va;
  }

  static hsa_amd_vmem_alloc_handle_t create(const Owner& owner, size_t size) {
    hsa_amd_vmem_alloc_handle_t handle{0};
    EXPECT_HSA(hsa_amd_vmem_handle_create(owner.pool, size, MEMORY_TYPE_NONE, 0, &handle));
    return handle;
  }

  // Access for the owner and the CPU, as the suite does it.
  void allow_owner_and_cpu(const Owner& owner, void* va, size_t size) {
    const hsa_amd_memory_access_desc_t access[] = {{kReadWrite, cpus[0]}, {kReadWrite, owner.agent}};
    ASSERT_HSA(hsa_amd_vmem_set_access(va, size, access, 2));
  }

  std::vector<Owner> owners;
};

TEST_F(VmemFlow, CreateAndDestroy) {
  for (const Owner& owner : owners) {
    for (const hsa_amd_memory_type_t type : {MEMORY_TYPE_NONE, MEMORY_TYPE_PINNED}) {
      hsa_amd_vmem_alloc_handle_t handle{0};
      ASSERT_HSA(hsa_amd_vmem_handle_create(owner.pool, 4 * owner.granule, type, 0, &handle));
      ASSERT_HSA(hsa_amd_vmem_handle_release(handle));
      EXPECT_EQ(hsa_amd_vmem_handle_release(handle), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    }
  }
}

TEST_F(VmemFlow, ReferenceCount) {
  for (const Owner& owner : owners) {
    void* va = reserve(owner, owner.granule);
    const auto handle = create(owner, owner.granule);
    ASSERT_HSA(hsa_amd_vmem_map(va, owner.granule, 0, handle, 0));
    hsa_amd_vmem_alloc_handle_t retained{0};
    ASSERT_HSA(hsa_amd_vmem_retain_alloc_handle(&retained, va));
    EXPECT_EQ(retained.handle, handle.handle);
    ASSERT_HSA(hsa_amd_vmem_handle_release(handle));
    ASSERT_HSA(hsa_amd_vmem_handle_release(retained));
    EXPECT_EQ(hsa_amd_vmem_handle_release(handle), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    ASSERT_HSA(hsa_amd_vmem_unmap(va, owner.granule));
    ASSERT_HSA(hsa_amd_vmem_address_free(va, owner.granule));
  }
}

TEST_F(VmemFlow, PartialMapping) {
  constexpr size_t kMapped = 6, kAllocated = 8;
  for (const Owner& owner : owners) {
    void* va = reserve(owner, kAllocated * owner.granule);
    const auto handle = create(owner, kAllocated * owner.granule);
    ASSERT_HSA(hsa_amd_vmem_map(va, kMapped * owner.granule, 0, handle, 0));
    allow_owner_and_cpu(owner, va, kMapped * owner.granule);
    *at(va, kMapped * owner.granule - 1) = 1;
    EXPECT_EQ(protection_at(at(va, kMapped * owner.granule)), "---");
    ASSERT_HSA(hsa_amd_vmem_unmap(va, kMapped * owner.granule));
    ASSERT_HSA(hsa_amd_vmem_handle_release(handle));
    ASSERT_HSA(hsa_amd_vmem_address_free(va, kAllocated * owner.granule));
  }
}

TEST_F(VmemFlow, NonContiguousChunks) {
  constexpr size_t kChunks = 8;
  for (const Owner& owner : owners) {
    const size_t size = kChunks * owner.granule;
    void* va = reserve(owner, size);
    std::vector<hsa_amd_vmem_alloc_handle_t> handles;
    for (size_t i = 0; i < kChunks; ++i) handles.push_back(create(owner, owner.granule));
    // The chunks stand in reverse order, and one call gives access to them all.
    for (size_t i = 0; i < kChunks; ++i) {
      ASSERT_HSA(hsa_amd_vmem_map(at(va, i * owner.granule), owner.granule, 0, handles[kChunks - 1 - i], 0));
    }
    allow_owner_and_cpu(owner, va, size);
    auto* words = static_cast<uint64_t*>(va);
    std::iota(words, words + size / sizeof(uint64_t), 0);
    if (agent_info<hsa_device_type_t>(owner.agent, HSA_AGENT_INFO_DEVICE) == HSA_DEVICE_TYPE_GPU) {
      auto* seen = static_cast<uint64_t*>(allocate_shared(size));
      copy_on(owner.agent, seen, va, size);
      EXPECT_TRUE(std::equal(words, words + size / sizeof(uint64_t), seen));
      EXPECT_HSA(hsa_amd_memory_pool_free(seen));
    }
    ASSERT_HSA(hsa_amd_vmem_unmap(va, size));
    for (const auto handle : handles) ASSERT_HSA(hsa_amd_vmem_handle_release(handle));
    ASSERT_HSA(hsa_amd_vmem_address_free(va, size));
  }
}

TEST_F(VmemFlow, UnmapKeepsTheReservation) {
  for (const Owner& owner : owners) {
    void* va = reserve(owner, owner.granule);
    const auto handle = create(owner, owner.granule);
    for (int round = 0; round < 8; ++round) {
      ASSERT_HSA(hsa_amd_vmem_map(va, owner.granule, 0, handle, 0));
      allow_owner_and_cpu(owner, va, owner.granule);
      EXPECT_EQ(*at(va, 0), static_cast<char>(round));
      *at(va, 0) = static_cast<char>(round + 1);
      ASSERT_HSA(hsa_amd_vmem_unmap(va, owner.granule));
      EXPECT_EQ(protection_at(va), "---");
    }
    ASSERT_HSA(hsa_amd_vmem_handle_release(handle));
    ASSERT_HSA(hsa_amd_vmem_address_free(va, owner.granule));
  }
}

TEST_F(VmemFlow, DoubleMapIsRefused) {
  for (const Owner& owner : owners) {
    void* va = reserve(owner, 2 * owner.granule);
    const auto handle = create(owner, owner.granule);
    ASSERT_HSA(hsa_amd_vmem_map(va, owner.granule, 0, handle, 0));
    EXPECT_EQ(hsa_amd_vmem_map(va, owner.granule, 0, handle, 0), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    // At another address the same memory may be mapped again.
    ASSERT_HSA(hsa_amd_vmem_map(at(va, owner.granule), owner.granule, 0, handle, 0));
    allow_owner_and_cpu(owner, va, 2 * owner.granule);
    *at(va, 5) = 55;
    EXPECT_EQ(*at(va, owner.granule + 5), 55);
    ASSERT_HSA(hsa_amd_vmem_unmap(va, 2 * owner.granule));
    ASSERT_HSA(hsa_amd_vmem_handle_release(handle));
    ASSERT_HSA(hsa_amd_vmem_address_free(va, 2 * owner.granule));
  }
}

// The importing side: imports the descriptor twice, maps one half through each handle, checks, writes, and goes.
int import_halves(int socket, size_t granule, bool owner_is_gpu) {
  constexpr size_t kHalf = 10;
  if (hsa_init() != HSA_STATUS_SUCCESS) return 1;
  const int fd = receive_fd(socket);
  hsa_amd_vmem_alloc_handle_t handles[2] = {};
  for (auto& handle : handles) {
    if (hsa_amd_vmem_import_shareable_handle(fd, &handle) != HSA_STATUS_SUCCESS) return 2;
  }
  ::close(fd);
  void* va = nullptr;
  if (hsa_amd_vmem_address_reserve(&va, 2 * kHalf * granule, 0, 0) != HSA_STATUS_SUCCESS) return 3;
  char* const second = static_cast<char*>(va) + kHalf * granule;
  if (hsa_amd_vmem_map(va, kHalf * granule, 0, handles[0], 0) != HSA_STATUS_SUCCESS) return 4;
  if (hsa_amd_vmem_map(second, kHalf * granule, kHalf * granule, handles[1], 0) != HSA_STATUS_SUCCESS) return 5;
  const hsa_agent_t owner = agents_of_type(owner_is_gpu ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_AIE)[0];
  const hsa_amd_memory_access_desc_t access[] = {{kReadWrite, agents_of_type(HSA_DEVICE_TYPE_CPU)[0]},
                                                 {kReadWrite, owner}};
  if (hsa_amd_vmem_set_access(va, 2 * kHalf * granule, access, 2) != HSA_STATUS_SUCCESS) return 6;
  auto* words = static_cast<uint64_t*>(va);
  const size_t count = 2 * kHalf * granule / sizeof(uint64_t);
  for (size_t i = 0; i < count; ++i) {
    if (words[i] != i) return 7;
    words[i] = count - i;
  }
  if (hsa_amd_vmem_unmap(va, 2 * kHalf * granule) != HSA_STATUS_SUCCESS) return 8;
  for (const auto& handle : handles) {
    if (hsa_amd_vmem_handle_release(handle) != HSA_STATUS_SUCCESS) return 9;
  }
  if (hsa_amd_vmem_address_free(va, 2 * kHalf * granule) != HSA_STATUS_SUCCESS) return 10;
  return hsa_shut_down() == HSA_STATUS_SUCCESS ? 0 : 11;
}

TEST_F(VmemFlow, ExportAndImportOverASocket) {
  constexpr size_t kGranules = 20;
  for (const Owner& owner : owners) {
    const bool is_gpu = agent_info<hsa_device_type_t>(owner.agent, HSA_AGENT_INFO_DEVICE) == HSA_DEVICE_TYPE_GPU;
    // The child takes its first device of the kind for the owner.
    if (owner.agent.handle != (is_gpu ? gpus[0] : npus[0]).handle) continue;
    const size_t size = kGranules * owner.granule;
    void* va = reserve(owner, size);
    const auto handle = create(owner, size);
    ASSERT_HSA(hsa_amd_vmem_map(va, size, 0, handle, 0));
    allow_owner_and_cpu(owner, va, size);
    auto* words = static_cast<uint64_t*>(va);
    std::iota(words, words + size / sizeof(uint64_t), 0);

    int sockets[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(import_halves(sockets[1], owner.granule, is_gpu));
    int fd = -1;
    ASSERT_HSA(hsa_amd_vmem_export_shareable_handle(&fd, handle, 0));
    send_fd(sockets[0], fd);
    EXPECT_EQ(::close(fd), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), 0);
    for (const int socket : sockets) ::close(socket);

    EXPECT_EQ(words[0], size / sizeof(uint64_t));
    EXPECT_EQ(words[size / sizeof(uint64_t) - 1], 1u);
    ASSERT_HSA(hsa_amd_vmem_unmap(va, size));
    ASSERT_HSA(hsa_amd_vmem_handle_release(handle));
    ASSERT_HSA(hsa_amd_vmem_address_free(va, size));
  }
}

}  // namespace
}  // namespace hsa_rt::test
