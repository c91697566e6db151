// A user queue as libhsakmt would set it up, in the test process: GTT memory for ring and pointers, mapped to
// the GPU and to the test.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <initializer_list>
#include <thread>

#include "tests/kfd/kfd_fixture.h"

namespace understudy::kfd::testing {

class QueueTest : public KfdTest {
 protected:
  static constexpr std::uint32_t kGttFlags =
      uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_GTT | uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
  static constexpr std::uint64_t kRingBytes = 64 * kKiB;

  void SetUp() override {
    KfdTest::SetUp();
    kfd_ = open_ready();
  }

  // Device memory that the test sees too.
  struct Memory {
    std::uint64_t va = 0;
    std::uint64_t handle = 0;
    std::uint64_t size = 0;
    Mapping mapping;
    template <typename T>
    T* as() const {
      return reinterpret_cast<T*>(mapping.data());
    }
  };
  Memory make_memory(std::uint64_t size, std::uint32_t flags = kGttFlags, std::size_t gpu = 0,
                     bool mapped_to_gpu = true) {
    Memory memory;
    memory.va = next_va_;
    memory.size = size;
    next_va_ += (size + kMiB) & ~(kMiB - 1);
    const auto allocated = alloc(kfd_, flags, size, memory.va, 0, gpu);
    EXPECT_EQ(allocated.result, 0);
    memory.handle = allocated.handle;
    std::vector<std::uint32_t> ids;
    for (const auto& each : gpus_) ids.push_back(each->gpu_id());
    if (mapped_to_gpu) {
      EXPECT_EQ(map(kfd_, memory.handle, ids).result, 0);
    }
    const auto target = mmap(render_files_[gpu], allocated.mmap_offset, size, self());
    memory.mapping = Mapping::of_fd(target.value().fd.get(), size).value();
    return memory;
  }

  struct UserQueue {
    int result = 0;
    uapi::kfd::kfd_ioctl_create_queue_args args{};
    Memory ring, pointers, eop, save_area;
    Mapping doorbells;
    std::uint64_t wptr = 0;  // what the producer has written, in the queue's units

    std::uint64_t& doorbell() const {
      return reinterpret_cast<std::uint64_t*>(doorbells.data())[(args.doorbell_offset & 0x1fff) / 8];
    }
    std::uint64_t read_pointer() const { return std::atomic_ref(pointers.as<std::uint64_t>()[16]).load(); }
    std::uint64_t& write_pointer() const { return pointers.as<std::uint64_t>()[7]; }
    void ring_doorbell(std::uint64_t value) const { std::atomic_ref(doorbell()).store(value); }
  };
  // What CREATE_QUEUE needs; tests change fields before create().
  UserQueue prepare(std::uint32_t type, std::size_t gpu = 0) {
    UserQueue queue;
    queue.ring = make_memory(kRingBytes, kGttFlags, gpu);
    queue.pointers = make_memory(kPage, kGttFlags, gpu);
    auto& args = queue.args;
    args.ring_base_address = queue.ring.va;
    args.ring_size = static_cast<std::uint32_t>(kRingBytes);
    // As in amd_queue_t, which the pointers' page then is: write index at 56, read index at 128.
    args.write_pointer_address = queue.pointers.va + 56;
    args.read_pointer_address = queue.pointers.va + 128;
    args.gpu_id = gpus_[gpu]->gpu_id();
    args.queue_type = type;
    args.queue_percentage = 100;
    args.queue_priority = 7;
    if (type == uapi::kfd::KFD_IOC_QUEUE_TYPE_COMPUTE || type == uapi::kfd::KFD_IOC_QUEUE_TYPE_COMPUTE_AQL) {
      const GpuProfile& profile = gpus_[gpu]->profile();
      queue.eop = make_memory(kPage, kGttFlags, gpu);
      queue.save_area = make_memory(profile.cwsr_bytes + profile.debug_memory_bytes, kGttFlags, gpu);
      args.eop_buffer_address = queue.eop.va;
      args.eop_buffer_size = kPage;
      args.ctx_save_restore_address = queue.save_area.va;
      args.ctx_save_restore_size = static_cast<std::uint32_t>(profile.cwsr_bytes);
      args.ctl_stack_size = static_cast<std::uint32_t>(profile.control_stack_bytes);
    }
    return queue;
  }
  void create(UserQueue& queue) {
    queue.result = ioctl<uapi::kfd::CreateQueue>(kfd_, queue.args);
    if (queue.result != 0) return;
    const auto target = mmap(kfd_, queue.args.doorbell_offset & ~std::uint64_t{0x1fff}, 8192, self());
    queue.doorbells = Mapping::of_fd(target.value().fd.get(), 8192).value();
  }
  UserQueue make_queue(std::uint32_t type, std::size_t gpu = 0) {
    UserQueue queue = prepare(type, gpu);
    create(queue);
    EXPECT_EQ(queue.result, 0);
    return queue;
  }
  int destroy(const UserQueue& queue) {
    uapi::kfd::kfd_ioctl_destroy_queue_args args{queue.args.queue_id, 0};
    return ioctl<uapi::kfd::DestroyQueue>(kfd_, args);
  }

  // Appends dwords to an SDMA or PM4 ring and rings the doorbell.
  void submit(UserQueue& queue, std::initializer_list<std::uint32_t> dwords) {
    submit(queue, std::vector<std::uint32_t>(dwords));
  }
  void submit(UserQueue& queue, const std::vector<std::uint32_t>& dwords) {
    const bool is_sdma = queue.args.queue_type != uapi::kfd::KFD_IOC_QUEUE_TYPE_COMPUTE;
    std::uint64_t position = is_sdma ? queue.wptr / 4 : queue.wptr;
    for (const std::uint32_t dword : dwords) {
      queue.ring.as<std::uint32_t>()[position++ % (kRingBytes / 4)] = dword;
    }
    queue.wptr = is_sdma ? position * 4 : position;
    queue.ring_doorbell(queue.wptr);
  }
  // Writes an AQL packet with its header last, as producers must, and rings the doorbell.
  void submit_aql(UserQueue& queue, std::array<std::uint64_t, 8> packet) {
    auto* const slot = queue.ring.as<std::uint64_t>() + queue.wptr % (kRingBytes / 64) * 8;
    const std::uint64_t header = packet[0];
    std::copy(packet.begin() + 1, packet.end(), slot + 1);
    std::atomic_ref(queue.write_pointer()).store(queue.wptr + 1);
    std::atomic_ref(slot[0]).store(header, std::memory_order_release);
    queue.ring_doorbell(queue.wptr++);
  }
  void fill_with_invalid(UserQueue& queue) {
    for (std::uint64_t slot = 0; slot < kRingBytes / 64; ++slot) queue.ring.as<std::uint64_t>()[slot * 8] = 1;
  }

  // Until `condition` holds; a test that waits here for ever is stopped by its time limit.
  template <typename Condition>
  static void eventually(Condition condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  void wait_done(const UserQueue& queue) {
    eventually([&] { return queue.read_pointer() == queue.wptr; });
  }

  std::shared_ptr<KfdFile> kfd_;
  std::uint64_t next_va_ = 0x7000'0000'0000;
};

inline std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
inline std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

}  // namespace understudy::kfd::testing
