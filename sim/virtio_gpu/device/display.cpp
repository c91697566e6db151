#include "sim/virtio_gpu/device/display.h"

#include <algorithm>
#include <cstring>

namespace understudy::virtio_gpu {
namespace {

// The base block of VESA E-EDID 1.4, with no more in it than makes it valid.
void fill_edid_block(std::span<std::uint8_t, 128> block) {
  constexpr std::uint8_t kStart[] = {0x00, 0xff, 0xff, 0xff, 0xff,
                                     0xff, 0xff, 0x00, 0x49, 0x14};  // header and manufacturer "RHT"
  std::copy(std::begin(kStart), std::end(kStart), block.begin());
  block[18] = 1;  // version 1
  block[19] = 4;  // revision 4
  std::uint8_t sum = 0;
  for (const std::uint8_t byte : block.first(127)) sum = static_cast<std::uint8_t>(sum + byte);
  block[127] = static_cast<std::uint8_t>(-sum);
}

}  // namespace

Display::Display(const DeviceProperties& properties)
    : width_(properties.xres), height_(properties.yres), scanouts_(properties.max_outputs) {}

DisplayInfo Display::info() const {
  DisplayInfo info;
  info.body.pmodes[0].enabled = 1;
  info.body.pmodes[0].r.width = width_;
  info.body.pmodes[0].r.height = height_;
  return info;
}

Response Display::edid(std::uint32_t scanout) const {
  if (!has_output(scanout)) return NoData{abi::VIRTIO_GPU_RESP_ERR_INVALID_PARAMETER};
  Edid edid;
  edid.body.size = sizeof edid.body.edid;
  fill_edid_block(std::span(edid.body.edid).first<128>());
  return edid;
}

void Display::drop_resource(std::uint32_t resource_id) {
  std::ranges::replace(scanouts_, resource_id, 0u);
}

void Display::reset() {
  std::ranges::fill(scanouts_, 0u);
}

}  // namespace understudy::virtio_gpu
