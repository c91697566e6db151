#include "sim/virtio_gpu/rocm/rocm_backend.h"

#include <algorithm>

namespace understudy::virtio_gpu {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// The older host puts everything below a fixed address, in slices for ten contexts.
constexpr std::uint64_t kSlicesEnd = 0x7000'0000'0000;
constexpr std::uint64_t kSliceBytes = 8 * kGiB;
constexpr std::uint64_t kSliceCount = 10;
// The newer one starts at a fixed address and takes twice what the machine's memory adds up to.
constexpr std::uint64_t kLargestArenaBytes = ccmd::VHSA_VAMGR_VM_MAX_KFD_SIZE;
constexpr std::uint64_t kArenaBytesWithoutMemory = ccmd::VHSA_CTX_RESERVE_SIZE;
constexpr std::uint64_t kScratchBytesPerPartition = ccmd::VHSA_SCRATCH_RESERVE_SIZE;

// Views of guest memory lie where neither the library's buffers nor guests' addresses are.
constexpr std::uint64_t kViewsBase = 0x0d00'0000'0000;
constexpr std::uint64_t kViewsBytes = 1024 * kGiB;

std::uint64_t scratch_bytes(const TopologyNode& node) {
  return kScratchBytesPerPartition * node.properties.NumXcc;
}

std::uint64_t shared_arena_bytes(const Topology& topology) {
  std::uint64_t memory_bytes = 0;
  for (const TopologyNode& node : topology.nodes) {
    for (const auto& bank : node.memory) memory_bytes += bank.SizeInBytes;
  }
  if (memory_bytes == 0) return kArenaBytesWithoutMemory;
  const std::uint64_t wanted = (std::min(memory_bytes, kLargestArenaBytes) * 2 + kGiB - 1) / kGiB * kGiB;
  return std::min(wanted, kLargestArenaBytes);
}

}  // namespace

Result<std::unique_ptr<RocmBackend>> RocmBackend::open(Machine& host, const VhsakmtLayout& layout,
                                                       bool strict) {
  std::unique_ptr<HostThunk> thunk = TRY(HostThunk::open(host));
  if (thunk->topology().nodes.empty()) return Errno(EINVAL);
  std::unique_ptr<RocmBackend> backend(new RocmBackend(layout, strict, std::move(thunk)));
  backend->lay_out_addresses();
  return backend;
}

RocmBackend::RocmBackend(const VhsakmtLayout& layout, bool strict, std::unique_ptr<HostThunk> thunk)
    : layout_(layout), strict_(strict), thunk_(std::move(thunk)), views_(kViewsBase, kViewsBytes) {}

void RocmBackend::lay_out_addresses() {
  const Topology& topology = thunk_->topology();
  std::uint64_t next = 0;
  if (layout_.one_arena) {
    const std::uint64_t size = shared_arena_bytes(topology);
    shared_arena_ = std::make_shared<VaArena>(ccmd::VHSA_FIXED_VM_BASE_ADDR, size);
    next = ccmd::VHSA_FIXED_VM_BASE_ADDR + size;
  } else {
    std::uint64_t total = kSliceCount * kSliceBytes;
    for (const TopologyNode* gpu : topology.gpus()) total += scratch_bytes(*gpu);
    const std::uint64_t base = (kSlicesEnd - total) / kGiB * kGiB;
    slices_.emplace(base, kSliceCount * kSliceBytes);
    next = base + kSliceCount * kSliceBytes;
  }
  for (const TopologyNode* gpu : topology.gpus()) {
    scratch_.emplace(topology.node_of_gpu(gpu->gpu_id()), Scratch{VaArena(next, scratch_bytes(*gpu))});
    next += scratch_bytes(*gpu);
  }
}

std::shared_ptr<VaArena> RocmBackend::take_arena() {
  if (shared_arena_) return shared_arena_;
  const auto base = slices_->allocate(kSliceBytes, kGiB);
  if (!base) return nullptr;
  // The slice is given back with the last reference to its arena.
  return std::shared_ptr<VaArena>(new VaArena(*base, kSliceBytes), [this](VaArena* arena) {
    slices_->free(arena->base());
    delete arena;
  });
}

RocmBackend::Scratch* RocmBackend::scratch(std::uint32_t node_id) {
  const auto found = scratch_.find(node_id);
  return found == scratch_.end() ? nullptr : &found->second;
}

}  // namespace understudy::virtio_gpu
