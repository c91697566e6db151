#include "sim/virtio_gpu/device/properties.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <variant>

#include "uapi/virtio_gpu_wire.h"

namespace understudy::virtio_gpu {
namespace {

namespace abi = uapi::virtio_gpu_wire;

constexpr Behaviour kBehaviours[] = {
    {.name = "qemu-7.2",
     .reports_malformed = false,
     .gl_checks_resource_ids = false,
     .gl_has_blobs = false,
     .gl_rejects_guest_blobs = false,
     .has_context_init = false,
     .has_ring_fences = false,
     .renderer_failure_stops_queue = false,
     .submit_limit_bytes = 0,
     .entry_limit = abi::QEMU_MAX_NR_ENTRIES,
     .has_rocm = false},
    {.name = "qemu-10.0",
     .reports_malformed = true,
     .gl_checks_resource_ids = true,
     .gl_has_blobs = true,
     .gl_rejects_guest_blobs = true,
     .has_context_init = true,
     .has_ring_fences = true,
     .renderer_failure_stops_queue = true,
     .submit_limit_bytes = abi::QEMU_VIRTIO_GPU_MAX_CMD_SUBMIT_SIZE,
     .entry_limit = abi::QEMU_MAX_NR_ENTRIES,
     .has_rocm = false},
    {.name = "series",
     .reports_malformed = true,
     .gl_checks_resource_ids = true,
     .gl_has_blobs = true,
     .gl_rejects_guest_blobs = false,
     .has_context_init = true,
     .has_ring_fences = true,
     .renderer_failure_stops_queue = true,
     .submit_limit_bytes = abi::QEMU_VIRTIO_GPU_MAX_CMD_SUBMIT_SIZE,
     .entry_limit = 0,
     .has_rocm = true},
};

using Member = std::variant<bool DeviceProperties::*, std::uint64_t DeviceProperties::*,
                            std::uint32_t DeviceProperties::*>;
struct PropertyRow {
  std::string_view name;
  Member member;
};
// `hsakmt` and `userptr` are the names of the series' first versions.
const PropertyRow kProperties[] = {
    {"blob", &DeviceProperties::blob},
    {"context_init", &DeviceProperties::context_init},
    {"edid", &DeviceProperties::edid},
    {"hostmem", &DeviceProperties::hostmem_bytes},
    {"hsakmt", &DeviceProperties::rocm},
    {"max_hostmem", &DeviceProperties::max_hostmem_bytes},
    {"max_outputs", &DeviceProperties::max_outputs},
    {"rocm", &DeviceProperties::rocm},
    {"userptr", &DeviceProperties::userptr_feature},
    {"xres", &DeviceProperties::xres},
    {"yres", &DeviceProperties::yres},
};

std::optional<bool> parse_switch(std::string_view text) {
  if (text == "on" || text == "true" || text == "yes" || text == "1") return true;
  if (text == "off" || text == "false" || text == "no" || text == "0") return false;
  return std::nullopt;
}

// A number with QEMU's size suffixes.
std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  constexpr std::string_view kSuffixes = "BKMGT";
  if (suffix.empty()) return value;
  const std::size_t power = kSuffixes.find(suffix);
  if (suffix.size() != 1 || power == std::string_view::npos) return std::nullopt;
  const unsigned shift = static_cast<unsigned>(power) * 10;
  if (value > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return value << shift;
}

std::string bad_value(std::string_view name, std::string_view value, std::string_view accepted) {
  return "virtio-gpu property '" + std::string(name) + "': '" + std::string(value) + "' is not " +
         std::string(accepted);
}

struct Assign {
  DeviceProperties& properties;
  std::string_view name;
  std::string_view value;

  std::optional<std::string> operator()(bool DeviceProperties::*member) const {
    const auto parsed = parse_switch(value);
    if (!parsed) return bad_value(name, value, "on or off");
    properties.*member = *parsed;
    return std::nullopt;
  }
  std::optional<std::string> operator()(std::uint64_t DeviceProperties::*member) const {
    const auto parsed = parse_size(value);
    if (!parsed) return bad_value(name, value, "a size such as 256M");
    properties.*member = *parsed;
    return std::nullopt;
  }
  std::optional<std::string> operator()(std::uint32_t DeviceProperties::*member) const {
    const auto parsed = parse_size(value);
    if (!parsed || *parsed > std::numeric_limits<std::uint32_t>::max())
      return bad_value(name, value, "a number below 2^32");
    properties.*member = static_cast<std::uint32_t>(*parsed);
    return std::nullopt;
  }
};

}  // namespace

std::span<const Behaviour> behaviours() {
  return kBehaviours;
}

const Behaviour* find_behaviour(std::string_view name) {
  const auto found = std::ranges::find(kBehaviours, name, &Behaviour::name);
  return found == std::end(kBehaviours) ? nullptr : found;
}

std::optional<std::string> set_property(DeviceProperties& properties, std::string_view name,
                                        std::string_view value) {
  const auto row = std::ranges::find(kProperties, name, &PropertyRow::name);
  if (row == std::end(kProperties)) {
    std::string known;
    for (const PropertyRow& item : kProperties) known += (known.empty() ? "" : ", ") + std::string(item.name);
    return "virtio-gpu has no property '" + std::string(name) + "'; it has " + known;
  }
  return std::visit(Assign{properties, name, value}, row->member);
}

std::optional<std::string> check_properties(const DeviceProperties& properties, const Behaviour& behaviour) {
  if (properties.max_outputs == 0 || properties.max_outputs > abi::VIRTIO_GPU_MAX_SCANOUTS)
    return "virtio-gpu: invalid max_outputs, must be 1 to 16";
  if (properties.gl && properties.blob && !behaviour.gl_has_blobs)
    return "virtio-gpu: blobs and virgl are not compatible (yet) in " + std::string(behaviour.name) +
           "; use the behaviour 'series' or 'qemu-10.0'";
  if (properties.rocm && !behaviour.has_rocm)
    return "virtio-gpu: " + std::string(behaviour.name) +
           " has no property 'rocm'; use the behaviour 'series'";
  if (properties.rocm && !properties.gl) return "virtio-gpu: 'rocm' needs the 3D device";
  if (properties.hostmem_bytes % 4096 != 0 ||
      (properties.hostmem_bytes & (properties.hostmem_bytes - 1)) != 0)
    return "virtio-gpu: hostmem must be a power of two of at least 4K (it is a PCI BAR)";
  return std::nullopt;
}

}  // namespace understudy::virtio_gpu
