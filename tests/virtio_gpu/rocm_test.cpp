// The ROCm capability set, end to end: a guest's commands on a host machine's KFD.
#include <gtest/gtest.h>

#include "tests/virtio_gpu/rocm_guest.h"

namespace understudy::virtio_gpu::test {
namespace {

using Response = later::vhsakmt_ccmd_query_info_rsp;
constexpr std::uint64_t kPage = RocmGuest::kPage;

TEST(Rocm, SharedPageAndNop) {
  RocmGuest rocm;
  ASSERT_NE(rocm.shmem, nullptr);
  EXPECT_EQ(rocm.word(offsetof(vhsa::vhsakmt_shmem, base.rsp_mem_offset)), sizeof(vhsa::vhsakmt_shmem));
  vhsa::vhsakmt_ccmd_nop_req nop{};
  nop.hdr = {vhsa::VHSAKMT_CCMD_NOP, sizeof nop, 7, 0};
  EXPECT_EQ(rocm.submit(&nop, sizeof nop), 0);
  EXPECT_TRUE(rocm.reached(7));
}

TEST(Rocm, EnumeratesTheHostsGpus) {
  RocmGuest rocm({.host = make_host_machine(2)});
  Response response{};
  ASSERT_EQ(rocm.query(vhsa::VHSAKMT_CCMD_QUERY_OPEN_KFD, response), 0);
  EXPECT_NE(response.open_kfd_rsp.vm_size, 0u);
  ASSERT_EQ(rocm.query(vhsa::VHSAKMT_CCMD_QUERY_GET_VER, response), 0);
  EXPECT_EQ(response.kfd_version.KernelInterfaceMajorVersion, 1u);
  ASSERT_EQ(rocm.query(vhsa::VHSAKMT_CCMD_QUERY_GET_SYS_PROP, response), 0);
  EXPECT_EQ(response.sys_props.NumNodes, 3u);
  ASSERT_EQ(rocm.query(vhsa::VHSAKMT_CCMD_QUERY_GET_NODE_PROP, response, RocmGuest::kGpuNode), 0);
  EXPECT_EQ(response.node_props.EngineId.ui32.Major, 9u);
  EXPECT_GT(response.node_props.NumFComputeCores, 0u);
  EXPECT_NE(rocm.query(vhsa::VHSAKMT_CCMD_QUERY_GET_NODE_PROP, response, 9), 0) << "no such node";
}

TEST(Rocm, HostMemoryIsSharedWithTheGuest) {
  RocmGuest rocm;
  for (const std::uint32_t node : {RocmGuest::kCpuNode, RocmGuest::kGpuNode}) {
    const auto memory = rocm.make_memory(4 * kPage, node);
    ASSERT_EQ(memory.ret, 0) << node;
    ASSERT_EQ(memory.resource.result, 0) << node;
    ASSERT_NE(memory.bytes, nullptr) << node;
    memory.bytes[5] = std::byte{42};
    EXPECT_EQ(rocm.map_to_gpu(memory.address, 4 * kPage), 0);
    EXPECT_EQ(rocm.memory(vhsa::VHSAKMT_CCMD_MEMORY_UNMAP_TO_GPU, memory.address), 0);
    ::munmap(memory.bytes, 4 * kPage);
    EXPECT_EQ(rocm.guest.close_handle(memory.resource.handle), 0);
  }
}

}  // namespace
}  // namespace understudy::virtio_gpu::test
