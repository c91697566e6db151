// CONTEXT_INIT. Mirrors virtio/virtgpu_ioctl.c: virtio_gpu_context_init_ioctl.
#include <limits>

#include "sim/virtio_gpu/guest/virtio_gpu_file.h"

namespace understudy::virtio_gpu {
namespace {

constexpr std::uint64_t kLastCapsetId = 63;
constexpr std::uint64_t kMostRings = 64;
constexpr std::size_t kLongestDebugName = 63;  // and a terminator

// strncpy_from_user: up to the terminator, however much lies behind it.
Result<std::string> read_debug_name(ClientMemory& memory, std::uint64_t address) {
  std::string name;
  while (name.size() < kLongestDebugName) {
    const char next = TRY(memory.read_value<char>(address + name.size()));
    if (next == '\0') break;
    name.push_back(next);
  }
  return name;
}

}  // namespace

Outcome VirtioGpuFile::context_init(Call& call, guest_abi::drm_virtgpu_context_init& args) {
  using Param = guest_abi::drm_virtgpu_context_set_param;
  const std::uint32_t most_params = gpu().kernel().has_debug_name ? 4 : 3;
  if (!gpu().has_context_init() || !gpu().has_3d()) return Errno(EINVAL);
  if (args.num_params > most_params) return Errno(EINVAL);
  const std::vector<Param> params =
      TRY(call.memory().read_array<Param>(args.ctx_set_params, args.num_params));

  const std::lock_guard lock(context_mutex_);
  if (context_.created) return Errno(EEXIST);
  TRY(apply_context_params(call, params));
  create_context_locked(&call);
  gpu().control().notify();
  return 0;
}

// What was set before a bad parameter stays set: the same list then fails at its first entry.
Result<void> VirtioGpuFile::apply_context_params(
    Call& call, std::span<const guest_abi::drm_virtgpu_context_set_param> params) {
  for (const auto& param : params) {
    std::uint64_t value = param.value;
    std::uint64_t number = param.param;
    if (!gpu().kernel().has_debug_name) {  // kept in 32 bits
      value &= std::numeric_limits<std::uint32_t>::max();
      number &= std::numeric_limits<std::uint32_t>::max();
    }
    switch (number) {
      case guest_abi::VIRTGPU_CONTEXT_PARAM_CAPSET_ID:
        if (value > kLastCapsetId) return Errno(EINVAL);
        if ((gpu().capset_mask() >> value & 1) == 0) return Errno(EINVAL);
        if (context_.capset_id != 0) return Errno(EINVAL);
        context_.capset_id = static_cast<std::uint32_t>(value);
        break;
      case guest_abi::VIRTGPU_CONTEXT_PARAM_NUM_RINGS:
        if (context_.ring_contexts != 0) return Errno(EINVAL);
        if (value > kMostRings) return Errno(EINVAL);
        context_.ring_contexts = drm::Fence::allocate_contexts(value);
        context_.ring_count = static_cast<std::uint32_t>(value);
        break;
      case guest_abi::VIRTGPU_CONTEXT_PARAM_POLL_RINGS_MASK:
        if (context_.poll_rings != 0) return Errno(EINVAL);
        context_.poll_rings = value;
        break;
      case guest_abi::VIRTGPU_CONTEXT_PARAM_DEBUG_NAME:
        if (!gpu().kernel().has_debug_name || context_.debug_name) return Errno(EINVAL);
        context_.debug_name = TRY(read_debug_name(call.memory(), value));
        break;
      default:
        return Errno(EINVAL);
    }
  }
  const std::uint64_t valid_rings =
      context_.ring_count == kMostRings ? ~std::uint64_t{0} : (std::uint64_t{1} << context_.ring_count) - 1;
  if ((context_.poll_rings & ~valid_rings) != 0) return Errno(EINVAL);
  return {};
}

}  // namespace understudy::virtio_gpu
