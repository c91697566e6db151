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
  EXPECT_EQ(rocm.word(offsetof(later::vhsakmt_shmem, base.rsp_mem_offset)), sizeof(later::vhsakmt_shmem));
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

// Objects of the host's drivers that are alive because of the guest.
std::size_t live_on_host(RocmGuest& rocm) {
  std::size_t count = 0;
  for (const LedgerLine& line : rocm.host->ledger().live())
    count += line.kind != ObjectKind::kFile && line.kind != ObjectKind::kMapping ? 1 : 0;
  return count;
}

TEST(Rocm, WithoutTheCapsetThereIsNoContextOfIt) {
  GuestMachine guest({.request = "rocm,rocm=off", .host = make_host_machine()});
  EXPECT_EQ(guest.gpu->capset_mask() >> uapi::virtio_gpu_wire::VIRTIO_GPU_CAPSET_ROCM & 1, 0u);
  GuestMachine with({.request = "rocm", .host = make_host_machine()});
  EXPECT_EQ(with.gpu->capset_mask() >> uapi::virtio_gpu_wire::VIRTIO_GPU_CAPSET_ROCM & 1, 1u);
}

TEST(Rocm, EventsAreMadeSetAndGone) {
  RocmGuest rocm;
  later::vhsakmt_ccmd_event_req request{};
  later::vhsakmt_ccmd_event_rsp response{};
  request.type = vhsa::VHSAKMT_CCMD_EVENT_CREATE;
  request.blob_id = 7;
  request.create_args.EventDesc.EventType = vhsa::HSA_EVENTTYPE_SIGNAL;
  ASSERT_EQ(rocm.call(vhsa::VHSAKMT_CCMD_EVENT, request, response), 0);
  const std::uint64_t handle = response.vevent.event_handle;
  EXPECT_NE(handle, 0u);
  EXPECT_EQ(rocm.call(vhsa::VHSAKMT_CCMD_EVENT, request, response), -EINVAL) << "that blob id is taken";
  for (const std::uint32_t type : {vhsa::VHSAKMT_CCMD_EVENT_SET, vhsa::VHSAKMT_CCMD_EVENT_RESET}) {
    request.type = type;
    request.event_handle = handle;
    EXPECT_EQ(rocm.call(vhsa::VHSAKMT_CCMD_EVENT, request, response), 0) << type;
  }
  request.type = vhsa::VHSAKMT_CCMD_EVENT_SET;
  request.event_handle = 0xdead'beef'0000;
  EXPECT_NE(rocm.call(vhsa::VHSAKMT_CCMD_EVENT, request, response), 0) << "an address made up by the guest";
}

TEST(Rocm, UserMemoryReachesTheHost) {
  RocmGuest rocm;
  constexpr std::uint64_t kBytes = 16 * kPage;
  void* const user = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(user, MAP_FAILED);
  std::memset(user, 0x5a, kBytes);
  const auto made = rocm.create_blob(++rocm.last_blob_id, kBytes, guest_abi::VIRTGPU_BLOB_FLAG_USE_USERPTR,
                                     reinterpret_cast<std::uint64_t>(user));
  ASSERT_EQ(made.result, 0);
  ASSERT_EQ(rocm.memory(vhsa::VHSAKMT_CCMD_MEMORY_MAP_USERPTR, 0, made.id), 0);
  EXPECT_EQ(rocm.memory_answer.map_userptr_rsp.npfns, kBytes / kPage);
  vhsa::vhsakmt_ccmd_memory_req request{};
  request.type = vhsa::VHSAKMT_CCMD_MEMORY_REG_MEM_WITH_FLAG;
  request.res_id = made.id;
  request.reg_mem_with_flag.MemoryAddress = rocm.memory_answer.map_userptr_rsp.userptr_handle;
  request.reg_mem_with_flag.MemorySizeInBytes = kBytes;
  request.reg_mem_with_flag.MemFlags.ui32.HostAccess = 1;
  EXPECT_EQ(rocm.memory(request), 0);
  EXPECT_EQ(rocm.map_to_gpu(request.reg_mem_with_flag.MemoryAddress, kBytes), 0);
  EXPECT_EQ(rocm.guest.close_handle(made.handle), 0);
  rocm.guest.client.close(rocm.guest.file);
  ::munmap(user, kBytes);
}

TEST(Rocm, MapToNodesLeavesTheMemoryOnThoseNodesOnly) {
  RocmGuest rocm({.host = make_host_machine(2)});
  constexpr std::uint32_t kSecondGpuNode = 2;
  const auto memory = rocm.make_memory(kPage);
  ASSERT_EQ(memory.ret, 0);
  const auto mapped_nodes = [&] {
    Response response{};
    EXPECT_EQ(rocm.query(vhsa::VHSAKMT_CCMD_QUERY_POINTER_INFO, response, memory.address), 0);
    return response.ptr_info.NMappedNodes;
  };
  const auto map_on = [&](const std::vector<std::uint32_t>& nodes) {
    vhsa::vhsakmt_ccmd_memory_req request{};
    request.type = vhsa::VHSAKMT_CCMD_MEMORY_MAP_TO_GPU_NODES;
    request.map_to_GPU_nodes_args.MemoryAddress = memory.address;
    request.map_to_GPU_nodes_args.MemorySizeInBytes = kPage;
    request.map_to_GPU_nodes_args.NumberOfNodes = nodes.size();
    return rocm.memory(request, nodes);
  };
  ASSERT_EQ(map_on({RocmGuest::kGpuNode, kSecondGpuNode}), 0);
  EXPECT_EQ(mapped_nodes(), 2u);
  ASSERT_EQ(map_on({kSecondGpuNode}), 0);
  EXPECT_EQ(mapped_nodes(), 1u);
  ASSERT_EQ(rocm.memory(vhsa::VHSAKMT_CCMD_MEMORY_UNMAP_TO_GPU, memory.address), 0);
  EXPECT_EQ(mapped_nodes(), 0u);
  ::munmap(memory.bytes, kPage);
}

TEST(Rocm, RegistrationsAreCounted) {
  RocmGuest rocm;
  void* const user = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(user, MAP_FAILED);
  const auto made = rocm.create_blob(++rocm.last_blob_id, kPage, guest_abi::VIRTGPU_BLOB_FLAG_USE_USERPTR,
                                     reinterpret_cast<std::uint64_t>(user));
  ASSERT_EQ(made.result, 0);
  ASSERT_EQ(rocm.memory(vhsa::VHSAKMT_CCMD_MEMORY_MAP_USERPTR, 0, made.id), 0);
  const std::uint64_t address = rocm.memory_answer.map_userptr_rsp.userptr_handle;
  vhsa::vhsakmt_ccmd_memory_req request{};
  request.type = vhsa::VHSAKMT_CCMD_MEMORY_REG_MEM_WITH_FLAG;
  request.reg_mem_with_flag.MemoryAddress = address;
  request.reg_mem_with_flag.MemorySizeInBytes = kPage;
  request.reg_mem_with_flag.MemFlags.ui32.HostAccess = 1;
  ASSERT_EQ(rocm.memory(request), 0);
  ASSERT_EQ(rocm.memory(request), 0);
  EXPECT_EQ(rocm.memory(vhsa::VHSAKMT_CCMD_MEMORY_DEREG_MEM, address), 0);
  EXPECT_EQ(rocm.map_to_gpu(address, kPage), 0) << "registered once more";
  EXPECT_EQ(rocm.memory(vhsa::VHSAKMT_CCMD_MEMORY_DEREG_MEM, address), 0);
  EXPECT_NE(rocm.map_to_gpu(address, kPage), 0);
  EXPECT_EQ(rocm.memory(vhsa::VHSAKMT_CCMD_MEMORY_DEREG_MEM, address),
            vhsa::HSAKMT_STATUS_MEMORY_NOT_REGISTERED);
  ::munmap(user, kPage);
}

TEST(Rocm, QueueRunsPacketsOfTheGuest) {
  RocmGuest rocm;
  constexpr std::uint64_t kRingBytes = 16 * kPage;
  const auto ring = rocm.make_memory(kRingBytes);
  const auto data = rocm.make_memory(kPage);  // read and write pointers, then a signal
  ASSERT_NE(ring.bytes, nullptr);
  ASSERT_NE(data.bytes, nullptr);
  ASSERT_EQ(rocm.map_to_gpu(ring.address, kRingBytes), 0);
  ASSERT_EQ(rocm.map_to_gpu(data.address, kPage), 0);
  std::memset(ring.bytes, 0, kRingBytes);
  for (std::uint64_t at = 0; at < kRingBytes; at += 64) ring.bytes[at] = std::byte{1};  // INVALID

  vhsa::vhsakmt_ccmd_queue_req request{};
  later::vhsakmt_ccmd_queue_rsp response{};
  request.type = vhsa::VHSAKMT_CCMD_QUEUE_CREATE;
  request.blob_id = 500;
  request.doorbell_blob_id = 501;
  request.res_id = ring.resource.id;
  request.create_queue_args.NodeId = RocmGuest::kGpuNode;
  request.create_queue_args.Type = vhsa::HSA_QUEUE_COMPUTE_AQL;
  request.create_queue_args.QueuePercentage = 100;
  request.create_queue_args.QueueAddress = ring.address;
  request.create_queue_args.QueueSizeInBytes = kRingBytes;
  request.create_queue_args.Queue_write_ptr_aql = data.address;
  request.create_queue_args.Queue_read_ptr_aql = data.address + 64;
  ASSERT_EQ(rocm.call(vhsa::VHSAKMT_CCMD_QUEUE, request, response), 0);
  const auto doorbell = rocm.create_blob(501, 2 * kPage);
  ASSERT_EQ(doorbell.result, 0);
  const auto queue = rocm.create_blob(500, kPage, 0);
  ASSERT_EQ(queue.result, 0);
  auto* const bell = static_cast<std::byte*>(rocm.map(doorbell.handle, 2 * kPage));
  ASSERT_NE(bell, MAP_FAILED);

  constexpr std::uint64_t kSignal = 128, kBarrierAnd = 3;
  auto* const value = reinterpret_cast<std::int64_t*>(data.bytes + kSignal + 8);
  std::atomic_ref(*value).store(1);
  const std::uint64_t completion = data.address + kSignal;
  std::memcpy(ring.bytes + 56, &completion, sizeof completion);
  std::atomic_ref(*reinterpret_cast<std::uint16_t*>(ring.bytes)).store(kBarrierAnd);
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(data.bytes)).store(1);
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(bell + response.vqueue_res.host_doorbell_offset))
      .store(0);
  for (int i = 0; i < 60000 && std::atomic_ref(*value).load() != 0; ++i) ::usleep(1000);
  EXPECT_EQ(std::atomic_ref(*value).load(), 0);

  // The guest lets go of the ring first: it stays until the queue has gone.
  EXPECT_EQ(rocm.guest.close_handle(ring.resource.handle), 0);
  EXPECT_EQ(rocm.guest.close_handle(queue.handle), 0);
  ::munmap(bell, 2 * kPage);
  ::munmap(ring.bytes, kRingBytes);
  ::munmap(data.bytes, kPage);
}

TEST(Rocm, EndOfTheFileFreesEverythingOnTheHost) {
  RocmGuest rocm;
  const std::size_t before = live_on_host(rocm);
  const auto memory = rocm.make_memory(64 * kPage, RocmGuest::kGpuNode);
  ASSERT_EQ(memory.ret, 0);
  std::uint64_t address = 0;
  ASSERT_EQ(rocm.allocate(kPage, 900, RocmGuest::kCpuNode, address), 0) << "a blob never made";
  EXPECT_GT(live_on_host(rocm), before);
  ::munmap(memory.bytes, 64 * kPage);
  rocm.guest.client.close(rocm.guest.file);
  for (int i = 0; i < 60000 && live_on_host(rocm) != before; ++i) ::usleep(1000);
  EXPECT_EQ(live_on_host(rocm), before);
}

TEST(Rocm, LostContextSaysSo) {
  RocmGuest rocm;
  ASSERT_TRUE(rocm.guest.machine.controls().run("dri/renderD128", "context-loss", {}));
  Response response{};
  EXPECT_EQ(rocm.query(vhsa::VHSAKMT_CCMD_QUERY_GET_VER, response), -EIO);
  EXPECT_NE(rocm.word(offsetof(later::vhsakmt_shmem, async_error)), 0u);
}

TEST(Rocm, MemoryCommandsThatMakeNoSense) {
  RocmGuest rocm;
  std::uint64_t address = 0;
  EXPECT_EQ(rocm.allocate(kPage, 0, RocmGuest::kCpuNode, address), -EINVAL) << "no blob id";
  ASSERT_EQ(rocm.allocate(kPage, 5, RocmGuest::kCpuNode, address), 0);
  EXPECT_EQ(rocm.allocate(kPage, 5, RocmGuest::kCpuNode, address), -EINVAL) << "taken";
  EXPECT_EQ(rocm.memory(vhsa::VHSAKMT_CCMD_MEMORY_MAP_USERPTR, 0, 4711), -EINVAL);
  EXPECT_EQ(rocm.memory(4711, 0), -ENOSYS) << "the older layout knows what it does not know";
  vhsa::vhsakmt_ccmd_memory_req request{};
  request.type = vhsa::VHSAKMT_CCMD_MEMORY_MAP_TO_GPU_NODES;
  request.map_to_GPU_nodes_args.NumberOfNodes = 1u << 30;
  EXPECT_EQ(rocm.memory(request), -EINVAL) << "more nodes than were sent";
}

TEST(Rocm, BadFramesEndTheStreamAndNothingElse) {
  struct Row {
    const char* what;
    std::uint32_t command, length, rsp_off;
  };
  constexpr std::uint32_t kLength = sizeof(vhsa::vhsakmt_ccmd_query_info_req);
  const Row rows[] = {
      {"no such command", 99, kLength, 0},
      {"longer than the stream", vhsa::VHSAKMT_CCMD_QUERY_INFO, 2 * kLength, 0},
      {"shorter than its header", vhsa::VHSAKMT_CCMD_QUERY_INFO, 8, 0},
      {"odd", vhsa::VHSAKMT_CCMD_QUERY_INFO, kLength - 4, 0},
      {"answer at an odd place", vhsa::VHSAKMT_CCMD_QUERY_INFO, kLength, 4},
      {"answer behind the page", vhsa::VHSAKMT_CCMD_QUERY_INFO, kLength, RocmGuest::kShmemBytes},
      {"answer far away", vhsa::VHSAKMT_CCMD_QUERY_INFO, kLength, 0xffff'fff8},
  };
  RocmGuest rocm;
  for (const Row& row : rows) {
    vhsa::vhsakmt_ccmd_query_info_req request{};
    request.hdr = {row.command, row.length, 0xbad, row.rsp_off};
    (void)rocm.submit(&request, sizeof request);
    Response response{};
    EXPECT_EQ(rocm.query(vhsa::VHSAKMT_CCMD_QUERY_GET_VER, response), 0) << row.what;
  }
}

}  // namespace
}  // namespace understudy::virtio_gpu::test
