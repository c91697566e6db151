#include "sim/drm/drm_file.h"

#include <linux/capability.h>

#include <algorithm>
#include <array>

#include "sim/drm/core_ioctls.h"
#include "sim/drm/syncobj.h"
#include "uapi/drm.h"

namespace understudy::drm {
namespace {

constexpr std::uint32_t kDrmType = 'd';
constexpr std::uint32_t kDriverFirst = 0x40;
constexpr std::uint32_t kDriverEnd = 0xa0;
constexpr std::uint32_t kCoreCount = 0xd3;

// The core's numbers as the kernel's drm_ioctls[] has them: descriptors of all, behaviour where sim/drm has
// it.
const IoctlRow* core_row(std::uint32_t nr) {
  static const std::array<IoctlRow, kCoreCount> rows = [] {
    std::array<IoctlRow, kCoreCount> table{};
    for (const IoctlRow& row : core_ioctls()) table[row.nr] = row;
    return table;
  }();
  return nr < rows.size() && rows[nr].descriptor != nullptr ? &rows[nr] : nullptr;
}

const IoctlRow* driver_row(const Device& device, std::uint32_t nr) {
  const std::span<const IoctlRow> rows = device.driver_ioctls();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [nr](const IoctlRow& row) { return row.nr == nr; });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

DrmFile::DrmFile(Device& device, NodeType type, std::string label, dev_t device_number)
    : device_(device),
      type_(type),
      label_(label),
      device_number_(device_number),
      handles_(*this, label),
      syncobjs_(std::make_unique<Syncobjs>(std::move(label))),
      primary_(device.master_seat()) {}

DrmFile::~DrmFile() = default;

void DrmFile::ioctl(const CallRef& call) {
  if (device_.unplugged()) return refuse(call, Errno(ENODEV));
  if (uapi::cmd_type(call->command) != kDrmType) return refuse(call, Errno(ENOTTY));
  const std::uint32_t nr = uapi::cmd_nr(call->command);
  const bool is_driver = nr >= kDriverFirst && nr < kDriverEnd;
  const IoctlRow* row = is_driver ? driver_row(device_, nr) : core_row(nr);
  if (row == nullptr) return refuse(call, Errno(EINVAL));

  // A direction counts only if both sides' command words have it; sizes may differ.
  const uapi::IoctlDescriptor& kernel = row->descriptor();
  const auto both =
      static_cast<std::uint8_t>(uapi::cmd_dir(call->command)) & static_cast<std::uint8_t>(kernel.dir);
  const std::size_t caller_bytes = uapi::cmd_size(call->command);
  CopyPlan plan;
  plan.copy_in_bytes = both & static_cast<std::uint8_t>(uapi::Direction::kWrite) ? caller_bytes : 0;
  plan.copy_out_bytes = both & static_cast<std::uint8_t>(uapi::Direction::kRead) ? caller_bytes : 0;
  plan.buffer_bytes = std::max({plan.copy_in_bytes, plan.copy_out_bytes, std::size_t{kernel.size}});
  plan.refusal_errno = permit(*call, kernel.flags) ? 0 : EACCES;
  run_row(call, *row, plan);
}

// drm_ioctl.c: drm_ioctl_permit.
bool DrmFile::permit(const Call& call, uapi::IoctlFlags flags) {
  using uapi::IoctlFlags;
  if (has(flags, IoctlFlags::kRootOnly) && !call.client().has_capability(CAP_SYS_ADMIN)) return false;
  if (has(flags, IoctlFlags::kAuth) && type_ != NodeType::kRender && !primary_.authenticated()) return false;
  if (has(flags, IoctlFlags::kMaster) && !primary_.is_current_master()) return false;
  if (!has(flags, IoctlFlags::kRenderAllow) && type_ == NodeType::kRender) return false;
  return true;
}

Result<MmapTarget> DrmFile::mmap(Call& call, const MmapRequest& request) {
  if (device_.unplugged()) return Errno(ENODEV);
  const GemRef object = device_.object_at_mmap_offset(request.offset_bytes);
  if (!object) return Errno(EINVAL);
  if (request.length_bytes > object->size_bytes()) return Errno(EINVAL);
  if (!handles_.holds(*object) && !mmap_grants_.allows(*object)) return Errno(EACCES);
  return device_.map_object(call, *this, *object, request);
}

void DrmFile::release() {
  primary_.closed();
  handles_.close_all();
  syncobjs_->destroy_all();
}

}  // namespace understudy::drm
