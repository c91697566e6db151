// Texture copies: pixels of a 2D image in host memory to and from a rectangle in guest memory.
//
// Owner: plain functions. Units: pixels and bytes as named. Errors: EINVAL for formats this host does not
// have. Thread-safety: pure functions. Mirrors: QEMU virtio_gpu_transfer_to_host_2d, and as much of
// virglrenderer's transfers as linear textures need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/core/result.h"
#include "sim/virtio_gpu/wire/guest_memory.h"

namespace understudy::virtio_gpu {

struct TextureLayout {
  std::uint32_t pixel_bytes = 4;
  std::uint64_t stride_bytes = 0;  // of the host's copy
  std::uint32_t rows = 0;
  std::uint64_t size_bytes() const { return stride_bytes * rows; }
};

struct TextureRectangle {
  std::uint32_t x = 0;
  std::uint32_t y = 0;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

enum class CopyDirection : std::uint8_t { kToHost, kFromHost };

// Is `format` one of the eight 32-bit formats of a 2D device?
bool is_image_format(std::uint32_t format);

// EINVAL for targets and formats that are not kept here, ENOMEM above 1 GiB.
Result<TextureLayout> texture_layout(std::uint32_t target, std::uint32_t format, std::uint32_t width,
                                     std::uint32_t height);

// In 64 bits, so that no sum wraps.
constexpr bool rectangle_fits(std::uint32_t x, std::uint32_t y, std::uint32_t width, std::uint32_t height,
                              std::uint32_t limit_width, std::uint32_t limit_height) {
  return std::uint64_t{x} + width <= limit_width && std::uint64_t{y} + height <= limit_height;
}

// The rectangle lies inside. Guest rows start at `offset_bytes`, `guest_stride_bytes` apart; what lies beyond
// the end of the guest's list is left alone.
void copy_rectangle(std::span<std::byte> pixels, const TextureLayout& layout,
                    const TextureRectangle& rectangle, std::span<const MemoryPiece> guest,
                    std::uint64_t offset_bytes, std::uint64_t guest_stride_bytes, CopyDirection direction);

}  // namespace understudy::virtio_gpu
