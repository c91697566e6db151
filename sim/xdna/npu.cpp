#include "sim/xdna/npu.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/xdna/hwctx.h"
#include "sim/xdna/xdna_file.h"

namespace understudy::xdna {
namespace {

using namespace uapi::amdxdna;

struct FlavourRow {
  const char* name;
  DriverFlavour flavour;
  int version_major, version_minor;
};
constexpr FlavourRow kFlavours[] = {
    {"out-of-tree", DriverFlavour::kOutOfTree, 0, 16},
    {"mainline", DriverFlavour::kMainline, 0, 10},
    {"first", DriverFlavour::kFirst, 0, 0},
    {"legacy", DriverFlavour::kLegacy, 1, 0},
};

const FlavourRow& flavour_row(const std::string& name) {
  for (const FlavourRow& row : kFlavours) {
    if (name == row.name) return row;
  }
  return kFlavours[0];
}

drm::DriverIdentity identity_of(const Machine& machine) {
  const FlavourRow& row = flavour_row(machine.settings().flavour.amdxdna);
  return {
      "amdxdna_accel_driver", "AMD XDNA DRM implementation", "0", row.version_major, row.version_minor, 0};
}

constexpr std::uint32_t kMaxContextId = 1024;

constexpr IoctlRow kXdnaIoctls[] = {
    row<CreateHwctx, &XdnaFile::create_hwctx>(), row<DestroyHwctx, &XdnaFile::destroy_hwctx>(),
    row<ConfigHwctx, &XdnaFile::config_hwctx>(), row<CreateBo, &XdnaFile::create_bo>(),
    row<GetBoInfo, &XdnaFile::get_bo_info>(),    row<SyncBo, &XdnaFile::sync_bo>(),
    row<ExecCmd, &XdnaFile::exec_cmd>(),         row<GetInfo, &XdnaFile::get_info>(),
    row<SetState, &XdnaFile::set_state>(),       row<WaitCmd, &XdnaFile::wait_cmd>(),
    row<GetArray, &XdnaFile::get_array>(),
};
// Linux 6.14 ends before WAIT_CMD and GET_ARRAY.
constexpr std::size_t kFirstIoctlCount = 9;

}  // namespace

Npu::Npu(Machine& machine, NpuProfile profile, NpuPlacement placement)
    : Device(machine, identity_of(machine), {.modeset = false, .syncobj = true, .syncobj_timeline = true}),
      profile_(std::move(profile)),
      placement_(placement),
      flavour_(flavour_row(machine.settings().flavour.amdxdna).flavour) {}

Npu::~Npu() = default;

std::string Npu::label() const {
  return "accel/accel" + std::to_string(placement_.index);
}

std::string Npu::unique() const {
  return fmt::format("pci:{:04x}:{:02x}:{:02x}.{:x}", placement_.pci_domain, placement_.pci_bus,
                     placement_.pci_device, placement_.pci_function);
}

void Npu::register_controls() {
  Controls& controls = machine().controls();
  controls.add(label(), "unplug", [this](const ControlArguments&) -> Result<void> {
    unplug();
    for (const auto& context : contexts()) context->destroy();
    return {};
  });
  controls.add(label(), "firmware-hang", [this](const ControlArguments&) -> Result<void> {
    firmware_hangs_.store(true);
    return {};
  });
  controls.add(label(), "reset", [this](const ControlArguments&) -> Result<void> {
    firmware_hangs_.store(false);
    for (const auto& context : contexts()) context->abort_in_flight();
    return {};
  });
}

std::span<const IoctlRow> xdna_ioctls() {
  return kXdnaIoctls;
}

std::span<const IoctlRow> Npu::driver_ioctls() const {
  const std::span<const IoctlRow> rows = kXdnaIoctls;
  return flavour_ == DriverFlavour::kFirst ? rows.first(kFirstIoctlCount) : rows;
}

Result<drm::GemRef> Npu::import_dma_buf(Call&, drm::DrmFile&, const DmaBufRef& dma_buf) {
  // amdxdna_gem_prime_import has no short cut for its own objects: another file always gets a new one.
  auto bo = std::make_shared<XdnaBo>(*this, BoType::kShare, dma_buf->size_bytes(), dma_buf->buffer());
  bo->set_imported_from(dma_buf);
  return drm::GemRef(std::move(bo));
}

Result<MmapTarget> Npu::map_object(Call& call, drm::DrmFile& file, drm::GemObject& object,
                                   const MmapRequest& request) {
  auto& bo = static_cast<XdnaBo&>(object);
  if (bo.user_pages()) return Errno(flavour_ == DriverFlavour::kMainline ? EINVAL : EOPNOTSUPP);
  (void)bo.mapped_address();
  MmapTarget target = TRY(Device::map_object(call, file, object, request));
  target.report_address = true;
  return target;
}

Result<std::uint32_t> Npu::add_context(const std::shared_ptr<HwContext>& context) {
  const std::lock_guard lock(contexts_mutex_);
  if (contexts_.size() >= profile_.context_limit)
    return Errno(flavour_ == DriverFlavour::kLegacy ? ENOSPC : EINVAL);
  while (contexts_.contains(next_context_id_)) next_context_id_ = next_context_id_ % kMaxContextId + 1;
  const std::uint32_t id = next_context_id_;
  next_context_id_ = next_context_id_ % kMaxContextId + 1;
  context->set_id(id);
  contexts_[id] = context;
  return id;
}

void Npu::remove_context(std::uint32_t id) {
  const std::lock_guard lock(contexts_mutex_);
  contexts_.erase(id);
}

std::vector<std::shared_ptr<HwContext>> Npu::contexts() const {
  const std::lock_guard lock(contexts_mutex_);
  std::vector<std::shared_ptr<HwContext>> contexts;
  for (const auto& [id, context] : contexts_) contexts.push_back(context);
  return contexts;
}

const DpmLevel& Npu::dpm_level() const {
  const std::size_t top = profile_.dpm_levels.size() - 1;
  switch (power_mode()) {
    case POWER_MODE_LOW:
      return profile_.dpm_levels.front();
    case POWER_MODE_MEDIUM:
      return profile_.dpm_levels[top / 2];
    case POWER_MODE_HIGH:
    case POWER_MODE_TURBO:
      return profile_.dpm_levels[top];
    default:
      return profile_.dpm_levels.front();
  }
}

void Npu::record_async_error(const amdxdna_async_error& error) {
  const std::lock_guard lock(async_error_mutex_);
  async_error_ = error;
}

amdxdna_async_error Npu::last_async_error() const {
  const std::lock_guard lock(async_error_mutex_);
  return async_error_;
}

}  // namespace understudy::xdna
