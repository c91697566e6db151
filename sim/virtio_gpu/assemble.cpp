#include "sim/virtio_gpu/assemble.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/virtio_gpu/device/device_model.h"
#include "sim/virtio_gpu/guest/nodes.h"
#include "sim/virtio_gpu/guest/virtio_gpu_device.h"
#include "sim/virtio_gpu/rocm/rocm_context.h"

namespace understudy::virtio_gpu {
namespace {

struct ModeRow {
  std::string_view name;
  Mode mode;
};
constexpr ModeRow kModes[] = {{"2d", Mode::k2d}, {"gl", Mode::kGl}, {"3d", Mode::kGl}, {"rocm", Mode::kRocm}};

// A first PCI slot behind what QEMU puts on its board.
constexpr unsigned kFirstPciDevice = 4;

DeviceProperties properties_of(Mode mode) {
  DeviceProperties properties;
  properties.gl = mode != Mode::k2d;
  if (mode == Mode::kRocm) {
    // What the guest library cannot do without.
    properties.blob = properties.context_init = properties.rocm = true;
    properties.hostmem_bytes = std::uint64_t{1} << 40;
  }
  return properties;
}

std::string_view default_behaviour(Mode mode) {
  return mode == Mode::kRocm ? "series" : "qemu-7.2";
}

template <typename Row>
std::string names(std::span<const Row> rows) {
  std::string text;
  for (const Row& row : rows) text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

}  // namespace

ParsedRequest parse_request(std::string_view text) {
  ParsedRequest parsed;
  const std::string_view mode = text.substr(0, text.find(','));
  const auto row = std::ranges::find(kModes, mode, &ModeRow::name);
  if (row == std::end(kModes)) {
    parsed.problem = fmt::format("--virtio-gpu has no mode '{}'; it has {}", mode,
                                 names(std::span<const ModeRow>(kModes)));
    return parsed;
  }
  parsed.request.mode = row->mode;
  text.remove_prefix(mode.size());
  while (!text.empty()) {
    text.remove_prefix(1);  // the comma
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(item.size());
    const std::size_t equals = item.find('=');
    const bool bare = equals == std::string_view::npos;
    parsed.request.properties.emplace_back(item.substr(0, equals), bare ? "on" : item.substr(equals + 1));
  }
  return parsed;
}

AddedDevice add_device(Machine& guest, std::shared_ptr<Machine> host, const VirtioGpuRequest& request) {
  const Settings& settings = guest.settings();
  const std::string_view behaviour_name = settings.flavour.virtio_device.empty()
                                              ? default_behaviour(request.mode)
                                              : std::string_view(settings.flavour.virtio_device);
  const Behaviour* behaviour = find_behaviour(behaviour_name);
  if (!behaviour)
    return {nullptr, fmt::format("flavour.virtio_device: no device model '{}'; there are {}", behaviour_name,
                                 names(behaviours()))};
  const KernelFlavour* kernel = find_kernel_flavour(settings.flavour.virtio_blob_layout);
  if (!kernel)
    return {nullptr, fmt::format("flavour.virtio_blob_layout: no guest kernel '{}'; there are {}",
                                 settings.flavour.virtio_blob_layout, names(kernel_flavours()))};

  const VhsakmtLayout* layout = find_vhsakmt_layout(settings.flavour.vhsakmt_memory_layout);
  if (!layout)
    return {nullptr, fmt::format("flavour.vhsakmt_memory_layout: no layout '{}'",
                                 settings.flavour.vhsakmt_memory_layout)};

  DeviceProperties properties = properties_of(request.mode);
  properties.strict = settings.flavour.virtio_strict;
  if (settings.limits.scatter_entries != Limits::kNone)
    properties.entry_limit =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(settings.limits.scatter_entries, 0xffff'ffff));
  for (const auto& [name, value] : request.properties) {
    if (auto problem = set_property(properties, name, value)) return {nullptr, std::move(problem)};
  }
  if (auto problem = check_properties(properties, *behaviour)) return {nullptr, std::move(problem)};

  const unsigned card_number = next_card_number(guest);
  VirtioGpuDevice::Options options;
  options.kernel = kernel;
  options.guest_memory_bytes = std::min(options.guest_memory_bytes, settings.limits.system_bytes);
  options.label = fmt::format("dri/renderD{}", kFirstRenderMinor + card_number);
  options.pci_slot = fmt::format("0000:00:{:02x}.0", kFirstPciDevice + card_number);

  auto memory = std::make_unique<GuestMemory>(options.guest_memory_bytes);
  std::vector<std::unique_ptr<ContextType>> types;
  types.push_back(make_virgl(abi::VIRTIO_GPU_CAPSET_VIRGL));
  types.push_back(make_virgl(abi::VIRTIO_GPU_CAPSET_VIRGL2));
  // A renderer built with ROCm has the set; whether the device offers it is up to its properties.
  if (request.mode == Mode::kRocm) types.push_back(make_rocm(std::move(host), *layout, properties.strict));
  auto model = std::make_unique<DeviceModel>(
      *memory, properties, *behaviour, std::move(types), [&guest, label = options.label] {
        return guest.hooks().at(FaultPoint::kVirtioResponse, label, nullptr);
      });

  Result<std::shared_ptr<VirtioGpuDevice>> device =
      VirtioGpuDevice::create(guest, options, std::move(memory), std::move(model));
  if (!device)
    return {nullptr, fmt::format("virtio-gpu: the guest's driver does not take the device (errno {})",
                                 device.error().number())};
  add_nodes(guest, device.value(), card_number);
  guest.controls().add(options.label, "context-loss",
                       [&gpu = *device.value()](const ControlArguments&) -> Result<void> {
                         gpu.device_model().lose_contexts();
                         return {};
                       });
  guest.keep(device.value());
  return {std::move(device).value(), std::nullopt};
}

}  // namespace understudy::virtio_gpu
