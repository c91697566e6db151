#include "sim/kfd/topology/process_attributes.h"

#include <fmt/format.h>

#include "tests/kfd/queue_rig.h"

namespace understudy::kfd::testing {
namespace {

using namespace uapi::kfd;

class ProcessAttributes : public QueueTest {
 protected:
  std::string path(const std::string& name) {
    return fmt::format("devices/virtual/kfd/kfd/proc/{}{}", ::getpid(), name);
  }
  std::string read(const std::string& name) {
    const SysfsTree::EntryRef entry = machine_->sysfs().find(path(name));
    return entry ? SysfsTree::read(*entry).value() : "none";
  }
  std::string gpu_file(const std::string& prefix) {
    return fmt::format("/{}_{}", prefix, gpus_[0]->gpu_id());
  }
};

TEST_F(ProcessAttributes, VramFollowsAllocations) {
  EXPECT_EQ(read(gpu_file("vram")), "0\n");
  const auto memory = alloc(kfd_, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, kMiB, 0x1000'0000);
  ASSERT_EQ(memory.result, 0);
  EXPECT_EQ(read(gpu_file("vram")), "1048576\n");
}

TEST_F(ProcessAttributes, QueuesComeAndGo) {
  EXPECT_TRUE(machine_->sysfs().list(*machine_->sysfs().find(path("/queues"))).empty());
  const UserQueue queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const std::string directory = fmt::format("/queues/{}", queue.args.queue_id);
  EXPECT_EQ(read(directory + "/gpuid"), std::to_string(gpus_[0]->gpu_id()));
  EXPECT_EQ(read(directory + "/size"), std::to_string(kRingBytes));
  EXPECT_EQ(read(directory + "/type"), "1");
  ASSERT_EQ(destroy(queue), 0);
  EXPECT_EQ(read(directory + "/type"), "none");
}

TEST_F(ProcessAttributes, AqlQueuesAreComputeQueues) {
  const UserQueue queue = make_queue(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
  EXPECT_EQ(read(fmt::format("/queues/{}/type", queue.args.queue_id)), "0");
}

TEST_F(ProcessAttributes, EndWithTheProcess) {
  EXPECT_NE(read("/pasid"), "none");
  machine_->clients().retire(self().client);
  EXPECT_EQ(read("/pasid"), "none");
}

}  // namespace
}  // namespace understudy::kfd::testing
