// WireDriver: a driver that says exactly what a test wants over real queues, for tests of the device alone.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/virtio_gpu/device/device_model.h"
#include "sim/virtio_gpu/wire/commands.h"
#include "sim/virtio_gpu/wire/guest_memory.h"
#include "sim/virtio_gpu/wire/virtqueue.h"

namespace understudy::virtio_gpu::test {

inline constexpr std::uint32_t kNoSuchResource = 4711;

// Pages of the guest, placed.
struct TestPages {
  TestPages(GuestMemory& memory, std::uint64_t page_count, Contiguity contiguity = {1, 1, 0})
      : pages(std::make_shared<KernelPages>(page_count * kGuestPageBytes)),
        placement(std::move(memory.place(pages, contiguity).value())) {}

  std::vector<abi::virtio_gpu_mem_entry> entries() const {
    std::vector<abi::virtio_gpu_mem_entry> list;
    for (const MemoryRun& run : placement.runs())
      list.push_back({run.address, static_cast<std::uint32_t>(run.length_bytes), 0});
    return list;
  }

  std::shared_ptr<KernelPages> pages;
  Placement placement;
};

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& items) {
  const auto bytes = std::as_bytes(std::span(items));
  return {bytes.begin(), bytes.end()};
}

class WireDriver {
 public:
  struct Fence {
    std::uint64_t id = 0;
    std::optional<std::uint8_t> ring;
  };

  WireDriver(DeviceProperties properties, std::string_view behaviour,
             std::vector<std::unique_ptr<ContextType>> types = virgl_types(),
             DeviceModel::AnswerFault fault = {})
      : device(memory, std::move(properties), *find_behaviour(behaviour), std::move(types), std::move(fault)),
        control(set_up(QueueIndex::kControl)),
        cursor(set_up(QueueIndex::kCursor)),
        buffers(memory, 64, {64, 64, 0}) {}

  static std::vector<std::unique_ptr<ContextType>> virgl_types() {
    std::vector<std::unique_ptr<ContextType>> types;
    types.push_back(make_virgl(abi::VIRTIO_GPU_CAPSET_VIRGL));
    types.push_back(make_virgl(abi::VIRTIO_GPU_CAPSET_VIRGL2));
    return types;
  }

  // Queues raw bytes and tells the device; `room` bytes are writable. Returns the token.
  std::uint64_t send_bytes(std::span<const std::byte> bytes, std::size_t room) {
    EXPECT_LE(bytes.size(), kRequestBytes);
    EXPECT_LE(room, kRequestBytes);
    const std::uint64_t slot = next_token_ % kSlots;
    const std::uint64_t base = buffers.placement.address() + slot * 2 * kRequestBytes;
    std::span<std::byte> memory_of_slot = buffers.pages->direct().subspan(slot * 2 * kRequestBytes);
    if (!bytes.empty()) std::memcpy(memory_of_slot.data(), bytes.data(), bytes.size());
    std::memset(memory_of_slot.data() + kRequestBytes, 0xee, kRequestBytes);
    std::vector<MemoryRun> out;
    std::vector<MemoryRun> in;
    if (!bytes.empty()) out.push_back({base, bytes.size()});
    if (room > 0) in.push_back({base + kRequestBytes, room});
    EXPECT_TRUE(control.add(out, in, next_token_));
    control.kick_prepare();
    device.kick(QueueIndex::kControl);
    return next_token_++;
  }

  template <typename C>
  std::uint64_t send(C command, std::span<const std::byte> payload = {}, std::uint32_t context_id = 0,
                     std::optional<Fence> fence = {}, std::size_t room = 4096) {
    CommandHeader& header = header_in(command);
    header.ctx_id = context_id;
    if (fence) {
      header.flags = abi::VIRTIO_GPU_FLAG_FENCE;
      header.fence_id = fence->id;
      if (fence->ring) {
        header.flags |= abi::VIRTIO_GPU_FLAG_INFO_RING_IDX;
        header.ring_idx = *fence->ring;
      }
    }
    std::vector<std::byte> bytes = encode_command(command);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return send_bytes(bytes, room);
  }

  struct Answer {
    std::uint64_t token = 0;
    std::vector<std::byte> bytes;
    CommandHeader header{};
  };
  // The next answer, in the order given.
  std::optional<Answer> take() {
    const auto used = control.take_used();
    if (!used) return std::nullopt;
    Answer answer{used->token, {}, {}};
    const std::span<std::byte> bytes = buffers.pages->direct().subspan(
        (used->token % kSlots) * 2 * kRequestBytes + kRequestBytes, used->length_bytes);
    answer.bytes.assign(bytes.begin(), bytes.end());
    std::memcpy(&answer.header, bytes.data(), std::min(bytes.size(), sizeof answer.header));
    return answer;
  }

  // Sends and expects the answer at once.
  template <typename C>
  Response ask(C command, std::span<const std::byte> payload = {}, std::uint32_t context_id = 0) {
    const std::uint64_t token = send(command, payload, context_id);
    const auto answer = take();
    if (!answer || answer->token != token) return NoData{0};
    return decode_response(answer->bytes);
  }
  template <typename C>
  std::uint32_t type_of_answer(C command, std::span<const std::byte> payload = {},
                               std::uint32_t context_id = 0) {
    return type_of(ask(std::move(command), payload, context_id));
  }

  static constexpr std::size_t kRequestBytes = 8192;
  static constexpr std::size_t kSlots = 16;

  GuestMemory memory{std::uint64_t{4} << 30};
  DeviceModel device;
  DriverQueue control;
  DriverQueue cursor;
  TestPages buffers;

 private:
  template <typename C>
  static CommandHeader& header_in(C& command) {
    if constexpr (std::is_same_v<typename C::Body, CommandHeader>) {
      return command.body;
    } else {
      return command.body.hdr;
    }
  }
  DriverQueue set_up(QueueIndex index) {
    device.accept_features(device.offered_features());
    Result<DriverQueue> queue = DriverQueue::create(memory, device.queue_size(index), {});
    EXPECT_TRUE(device.set_up_queue(index, queue.value().addresses()));
    return std::move(queue).value();
  }

  std::uint64_t next_token_ = 0;
};

}  // namespace understudy::virtio_gpu::test
