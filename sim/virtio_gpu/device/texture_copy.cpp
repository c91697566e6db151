#include "sim/virtio_gpu/device/texture_copy.h"

#include <algorithm>

#include "uapi/virtio_gpu_wire.h"

namespace understudy::virtio_gpu {
namespace {

namespace abi = uapi::virtio_gpu_wire;

constexpr std::uint32_t kImageFormats[] = {
    abi::VIRTIO_GPU_FORMAT_B8G8R8A8_UNORM, abi::VIRTIO_GPU_FORMAT_B8G8R8X8_UNORM,
    abi::VIRTIO_GPU_FORMAT_A8R8G8B8_UNORM, abi::VIRTIO_GPU_FORMAT_X8R8G8B8_UNORM,
    abi::VIRTIO_GPU_FORMAT_R8G8B8A8_UNORM, abi::VIRTIO_GPU_FORMAT_X8B8G8R8_UNORM,
    abi::VIRTIO_GPU_FORMAT_A8B8G8R8_UNORM, abi::VIRTIO_GPU_FORMAT_R8G8B8X8_UNORM};

constexpr std::uint32_t kBufferTarget = 0;     // PIPE_BUFFER
constexpr std::uint32_t kTexture2dTarget = 2;  // PIPE_TEXTURE_2D
constexpr std::uint64_t kLargestTextureBytes = std::uint64_t{1} << 30;

}  // namespace

bool is_image_format(std::uint32_t format) {
  return std::ranges::find(kImageFormats, format) != std::end(kImageFormats);
}

Result<TextureLayout> texture_layout(std::uint32_t target, std::uint32_t format, std::uint32_t width,
                                     std::uint32_t height) {
  TextureLayout layout;
  layout.rows = height;
  if (target == kBufferTarget) {
    layout.pixel_bytes = 1;
    layout.rows = 1;
  } else if (target != kTexture2dTarget || !is_image_format(format)) {
    return Errno(EINVAL);
  }
  layout.stride_bytes = std::uint64_t{width} * layout.pixel_bytes;
  if (layout.rows != 0 && layout.stride_bytes > kLargestTextureBytes / layout.rows) return Errno(ENOMEM);
  return layout;
}

void copy_rectangle(std::span<std::byte> pixels, const TextureLayout& layout,
                    const TextureRectangle& rectangle, std::span<const MemoryPiece> guest,
                    std::uint64_t offset_bytes, std::uint64_t guest_stride_bytes, CopyDirection direction) {
  const std::size_t row_bytes = std::size_t{rectangle.width} * layout.pixel_bytes;
  const std::uint64_t guest_end = total_bytes(guest);
  for (std::uint32_t row = 0; row < rectangle.height; ++row) {
    std::uint64_t at = 0;
    if (__builtin_mul_overflow(guest_stride_bytes, row, &at) ||
        __builtin_add_overflow(at, offset_bytes, &at) || at >= guest_end)
      return;
    const std::span<std::byte> line =
        pixels.subspan((std::uint64_t{rectangle.y} + row) * layout.stride_bytes +
                           std::uint64_t{rectangle.x} * layout.pixel_bytes,
                       row_bytes);
    if (direction == CopyDirection::kToHost) {
      copy_from(guest, at, line);
    } else {
      copy_to(guest, at, line);
    }
  }
}

}  // namespace understudy::virtio_gpu
