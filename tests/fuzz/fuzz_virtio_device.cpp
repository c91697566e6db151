// The virtio-gpu device alone, spoken to by a driver without manners: descriptor tables and rings as the
// input says, commands laid out by the wire descriptors or not at all.
#include <cstring>
#include <memory>
#include <vector>

#include "sim/virtio_gpu/device/device_model.h"
#include "sim/virtio_gpu/wire/ring_layout.h"
#include "tests/fuzz/values.h"
#include "uapi/virtio_gpu_wire.h"

namespace understudy::fuzz {
namespace {

using namespace virtio_gpu;
namespace wire = uapi::virtio_gpu_wire;

constexpr std::uint16_t kQueueSize = 16;
constexpr std::uint64_t kDataPages = 8;
constexpr unsigned kMaxSteps = 48;

class RawDriver {
 public:
  explicit RawDriver(Input& input)
      : data_(std::make_shared<KernelPages>(kDataPages * kGuestPageBytes)),
        placement_(std::move(memory_.place(data_, {1, 4, input.byte()}).value())),
        device_(memory_, properties(input.byte()),
                *find_behaviour(input.byte() % 2 == 0 ? "series" : "qemu-10.0"), types()) {
    device_.accept_features(device_.offered_features());
    for (Ring& ring : rings_) {
      ring.queue.emplace(DriverQueue::create(memory_, kQueueSize, {}).value());
      (void)device_.set_up_queue(ring.index, ring.queue->addresses());
    }
  }

  void run(Input& input) {
    for (unsigned step = 0; step < kMaxSteps && !input.empty(); ++step) {
      Ring& ring = rings_[input.byte() % 8 == 0 ? 1 : 0];
      write_command(input);
      if (input.byte() % 4 != 0) {
        write_plain_chain(input, ring);
      } else {
        write_descriptors(input, ring);
      }
      publish(input, ring);
      device_.kick(ring.index);
      if (device_.needs_reset() || input.byte() == 0) start_over();
      if (input.byte() == 1) device_.lose_contexts();
    }
    (void)device_.unanswered_count();  // waits for what is being processed
  }

 private:
  struct Ring {
    QueueIndex index;
    std::optional<DriverQueue> queue;
    std::uint16_t published = 0;
  };

  static DeviceProperties properties(std::uint8_t choice) {
    DeviceProperties properties;
    properties.gl = choice % 2 == 0;
    properties.blob = choice % 4 < 3;
    properties.context_init = properties.gl;
    properties.hostmem_bytes = properties.blob ? 64 << 20 : 0;
    return properties;
  }
  static std::vector<std::unique_ptr<ContextType>> types() {
    std::vector<std::unique_ptr<ContextType>> types;
    types.push_back(make_virgl(wire::VIRTIO_GPU_CAPSET_VIRGL));
    types.push_back(make_virgl(wire::VIRTIO_GPU_CAPSET_VIRGL2));
    return types;
  }

  void write(std::uint64_t address, std::span<const std::byte> bytes) {
    std::vector<MemoryPiece> pieces;
    if (memory_.look_up(address, bytes.size(), pieces)) copy_to(pieces, 0, bytes);
  }
  std::uint64_t data_address(std::uint64_t page) const {
    const auto& runs = placement_.runs();
    return runs[page % runs.size()].address;
  }

  // Page 0 holds the command, the others are answers, backing entries and what backs resources.
  void write_command(Input& input) {
    const auto structs = wire::structs();
    const uapi::StructDescriptor& type = structs[input.pick(structs.size())];
    std::vector<std::byte> bytes(type.size);
    values_.fill(input, type, bytes);
    if (input.byte() % 8 != 0 && bytes.size() >= sizeof(std::uint32_t)) {
      const std::uint32_t command = kCommands[input.pick(std::size(kCommands))];
      std::memcpy(bytes.data(), &command, sizeof command);
    }
    const std::size_t entries = input.pick(4);
    for (std::size_t index = 0; index < entries; ++index) {
      const wire::virtio_gpu_mem_entry entry{data_address(input.byte()), input.number<std::uint16_t>(), 0};
      const auto raw = std::as_bytes(std::span(&entry, 1));
      bytes.insert(bytes.end(), raw.begin(), raw.end());
    }
    command_bytes_ = bytes.size();
    write(data_address(0), bytes);
  }
  void write_plain_chain(Input& input, Ring& ring) {
    const std::uint16_t next = VirtqDescriptor::kNext, writable = VirtqDescriptor::kWrite;
    head_ = 0;
    const VirtqDescriptor chain[] = {
        {data_address(0), static_cast<std::uint32_t>(std::min<std::size_t>(command_bytes_, kGuestPageBytes)),
         next, 1},
        {data_address(1), std::uint32_t{input.byte()} * 16, writable, 0}};
    write(ring.queue->addresses().descriptors, std::as_bytes(std::span(chain)));
  }
  void write_descriptors(Input& input, Ring& ring) {
    VirtqDescriptor table[kQueueSize];
    for (VirtqDescriptor& descriptor : table) {
      const std::uint8_t where = input.byte();
      descriptor.address = where < 0xf0 ? data_address(where) + input.byte() : input.number<std::uint64_t>();
      descriptor.length = where % 8 == 0 ? input.number<std::uint32_t>() : input.byte() * 16u;
      descriptor.flags = input.byte() % 8;
      descriptor.next = input.byte() % (kQueueSize + 1);
    }
    head_ = input.byte() % (kQueueSize + 1);
    // The same table serves as an indirect one.
    write(data_address(2), std::as_bytes(std::span(table)));
    write(ring.queue->addresses().descriptors, std::as_bytes(std::span(table)));
  }
  void publish(Input& input, Ring& ring) {
    GuestPagesRef keep;
    const auto available =
        memory_.direct(ring.queue->addresses().available, ring::available_bytes(kQueueSize), keep);
    if (!available) return;
    ring::set_available_entry(available.value(), ring.published % kQueueSize, head_);
    ring.published = static_cast<std::uint16_t>(ring.published + (input.byte() == 2 ? input.byte() : 1));
    ring::index_of(available.value()).store(ring.published);
  }
  void start_over() {
    device_.reset();
    device_.accept_features(device_.offered_features());
    for (Ring& ring : rings_) {
      ring.queue.emplace(DriverQueue::create(memory_, kQueueSize, {}).value());
      ring.published = 0;
      (void)device_.set_up_queue(ring.index, ring.queue->addresses());
    }
  }

  static constexpr std::uint32_t kCommands[] = {wire::VIRTIO_GPU_CMD_GET_DISPLAY_INFO,
                                                wire::VIRTIO_GPU_CMD_RESOURCE_CREATE_2D,
                                                wire::VIRTIO_GPU_CMD_RESOURCE_UNREF,
                                                wire::VIRTIO_GPU_CMD_SET_SCANOUT,
                                                wire::VIRTIO_GPU_CMD_RESOURCE_FLUSH,
                                                wire::VIRTIO_GPU_CMD_TRANSFER_TO_HOST_2D,
                                                wire::VIRTIO_GPU_CMD_RESOURCE_ATTACH_BACKING,
                                                wire::VIRTIO_GPU_CMD_RESOURCE_DETACH_BACKING,
                                                wire::VIRTIO_GPU_CMD_GET_CAPSET_INFO,
                                                wire::VIRTIO_GPU_CMD_GET_CAPSET,
                                                wire::VIRTIO_GPU_CMD_GET_EDID,
                                                wire::VIRTIO_GPU_CMD_RESOURCE_CREATE_BLOB,
                                                wire::VIRTIO_GPU_CMD_SET_SCANOUT_BLOB,
                                                wire::VIRTIO_GPU_CMD_CTX_CREATE,
                                                wire::VIRTIO_GPU_CMD_CTX_DESTROY,
                                                wire::VIRTIO_GPU_CMD_CTX_ATTACH_RESOURCE,
                                                wire::VIRTIO_GPU_CMD_CTX_DETACH_RESOURCE,
                                                wire::VIRTIO_GPU_CMD_RESOURCE_CREATE_3D,
                                                wire::VIRTIO_GPU_CMD_TRANSFER_TO_HOST_3D,
                                                wire::VIRTIO_GPU_CMD_TRANSFER_FROM_HOST_3D,
                                                wire::VIRTIO_GPU_CMD_SUBMIT_3D,
                                                wire::VIRTIO_GPU_CMD_RESOURCE_MAP_BLOB,
                                                wire::VIRTIO_GPU_CMD_RESOURCE_UNMAP_BLOB,
                                                wire::VIRTIO_GPU_CMD_UPDATE_CURSOR,
                                                wire::VIRTIO_GPU_CMD_MOVE_CURSOR};

  Arena arena_;
  Values values_{arena_};
  GuestMemory memory_{std::uint64_t{1} << 30};
  std::shared_ptr<KernelPages> data_;
  Placement placement_;
  DeviceModel device_;
  Ring rings_[2] = {{QueueIndex::kControl, {}, 0}, {QueueIndex::kCursor, {}, 0}};
  std::size_t command_bytes_ = 0;
  std::uint16_t head_ = 0;
};

}  // namespace
}  // namespace understudy::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  understudy::fuzz::Input input(data, size);
  understudy::fuzz::RawDriver(input).run(input);
  return 0;
}
