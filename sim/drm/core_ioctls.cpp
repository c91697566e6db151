#include "sim/drm/core_ioctls.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/drm/drm_file.h"
#include "sim/drm/prime_ioctls.h"
#include "sim/drm/syncobj_ioctls.h"
#include "uapi/drm.h"

namespace understudy::drm {
namespace {

using namespace uapi::drm;

constexpr std::size_t kClientNameMaxBytes = 64;
constexpr std::uint64_t kOverflowUid = 65534;  // what drm_getclient says of everybody

// drm_copy_field: as much as fits, and always the full length back.
Result<void> copy_field(Call& call, std::uint64_t address, std::uint64_t& length, const std::string& value) {
  const std::size_t bytes = std::min<std::size_t>(length, value.size());
  length = value.size();
  if (bytes == 0 || address == 0) return {};
  return call.memory().write(address, std::as_bytes(std::span(value.data(), bytes)));
}

Outcome version(DrmFile& file, Call& call, drm_version& args) {
  const DriverIdentity& identity = file.device().identity();
  args.version_major = identity.version_major;
  args.version_minor = identity.version_minor;
  args.version_patchlevel = identity.version_patchlevel;
  TRY(copy_field(call, args.name, args.name_len, identity.name));
  TRY(copy_field(call, args.date, args.date_len, identity.date));
  TRY(copy_field(call, args.desc, args.desc_len, identity.description));
  return 0;
}

// drm_getcap: some capabilities exist for every driver, the others only with DRIVER_MODESET.
Outcome get_cap(DrmFile& file, Call&, drm_get_cap& args) {
  const DriverFeatures& features = file.device().features();
  args.value = 0;
  switch (args.capability) {
    case DRM_CAP_TIMESTAMP_MONOTONIC:
      args.value = 1;
      return 0;
    case DRM_CAP_PRIME:
      args.value = DRM_PRIME_CAP_IMPORT | DRM_PRIME_CAP_EXPORT;
      return 0;
    case DRM_CAP_SYNCOBJ:
      args.value = features.syncobj;
      return 0;
    case DRM_CAP_SYNCOBJ_TIMELINE:
      args.value = features.syncobj_timeline;
      return 0;
    default:
      break;
  }
  if (!features.modeset) return Errno(EOPNOTSUPP);
  for (const CapabilityValue& known : features.modeset_capabilities) {
    if (known.capability == args.capability) {
      args.value = known.value;
      return 0;
    }
  }
  return Errno(EINVAL);
}

Outcome gem_close(DrmFile& file, Call& call, drm_gem_close& args) {
  TRY(file.handles().close(call, GemHandle{args.handle}));
  return 0;
}

Outcome gem_change_handle(DrmFile& file, Call&, drm_gem_change_handle& args) {
  if (args.handle == args.new_handle) return 0;
  TRY(file.handles().change(GemHandle{args.handle}, GemHandle{args.new_handle}));
  return 0;
}

Outcome gem_flink(DrmFile& file, Call&, drm_gem_flink& args) {
  const GemRef object = TRY(file.handles().lookup(GemHandle{args.handle}));
  args.name = TRY(file.device().gem_names().name_of(*object));
  return 0;
}

Outcome gem_open(DrmFile& file, Call& call, drm_gem_open& args) {
  const GemRef object = TRY(file.device().gem_names().find(args.name));
  args.handle = static_cast<std::uint32_t>(TRY(file.handles().create(&call, object)));
  args.size = object->size_bytes();
  return 0;
}

Outcome get_unique(DrmFile& file, Call& call, drm_unique& args) {
  std::uint64_t length = args.unique_len;
  const std::string unique = file.primary().bus_id();
  if (length >= unique.size()) TRY(copy_field(call, args.unique, length, unique));
  args.unique_len = unique.size();
  return 0;
}

Outcome get_magic(DrmFile& file, Call&, drm_auth& args) {
  args.magic = file.primary().magic();
  return 0;
}

Outcome auth_magic(DrmFile& file, Call&, drm_auth& args) {
  return file.primary().authenticate(args.magic);
}

Outcome get_client(DrmFile& file, Call& call, drm_client& args) {
  if (args.idx != 0) return Errno(EINVAL);
  args.auth = file.primary().authenticated();
  args.pid = static_cast<std::uint64_t>(call.client().pid());
  args.uid = kOverflowUid;
  args.magic = 0;
  args.iocs = 0;
  return 0;
}

Outcome get_stats(DrmFile&, Call&, drm_stats& args) {
  args = {};
  return 0;
}

Outcome set_version(DrmFile& file, Call&, drm_set_version& args) {
  const DriverIdentity& identity = file.device().identity();
  const drm_set_version asked = args;
  args = {1, 4, identity.version_major, identity.version_minor};
  if (asked.drm_di_major != -1 &&
      (asked.drm_di_major != 1 || asked.drm_di_minor < 0 || asked.drm_di_minor > 4)) {
    return Errno(EINVAL);
  }
  // Interface 1.1 and later gives the master its bus id (drm_set_busid).
  if (asked.drm_di_major != -1 && asked.drm_di_minor >= 1) {
    file.primary().set_bus_id(file.device().unique());
  }
  if (asked.drm_dd_major != -1 && (asked.drm_dd_major != identity.version_major || asked.drm_dd_minor < 0 ||
                                   asked.drm_dd_minor > identity.version_minor)) {
    return Errno(EINVAL);
  }
  return 0;
}

Outcome set_client_cap(DrmFile& file, Call&, drm_set_client_cap& args) {
  if (!file.device().features().modeset) return Errno(EOPNOTSUPP);
  switch (args.capability) {
    case DRM_CLIENT_CAP_STEREO_3D:
    case DRM_CLIENT_CAP_UNIVERSAL_PLANES:
      return args.value <= 1 ? Outcome(0) : Errno(EINVAL);
    case DRM_CLIENT_CAP_ATOMIC:
      return Errno(EOPNOTSUPP);
    default:
      return Errno(EINVAL);
  }
}

// drm_set_client_name: printable letters without spaces; an empty name clears it. Nothing shows it here.
Outcome set_client_name(DrmFile&, Call& call, drm_set_client_name& args) {
  if (args.name_len > kClientNameMaxBytes) return Errno(EINVAL);
  if (args.name_len == 0) return 0;
  const auto name = TRY(call.memory().read_array<unsigned char>(args.name, args.name_len));
  const bool printable = std::all_of(name.begin(), name.end(),
                                     [](unsigned char letter) { return letter > ' ' && letter < 0x7f; });
  return printable ? Outcome(0) : Errno(EINVAL);
}

// drm_mode_create_dumb: the checks that are the same for every driver.
Outcome create_dumb(DrmFile& file, Call& call, drm_mode_create_dumb& args) {
  if (!file.device().features().dumb_buffers) return Errno(ENOSYS);
  if (args.width == 0 || args.height == 0 || args.bpp == 0) return Errno(EINVAL);
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  if (args.bpp > kMax - 8) return Errno(EINVAL);
  const std::uint64_t pitch = std::uint64_t{args.width} * ((args.bpp + 7) / 8);
  if (pitch > kMax || pitch * args.height > kMax - 4095) return Errno(EINVAL);
  args.handle = 0;
  args.pitch = 0;
  args.size = 0;
  const GemRef object = TRY(file.device().create_dumb(call, file, args));
  args.handle = static_cast<std::uint32_t>(TRY(file.handles().create(&call, object)));
  return 0;
}

// drm_gem_dumb_map_offset.
Outcome map_dumb(DrmFile& file, Call&, drm_mode_map_dumb& args) {
  if (!file.device().features().dumb_buffers) return Errno(ENOSYS);
  const GemRef object = TRY(file.handles().lookup(GemHandle{args.handle}));
  if (object->imported_from()) return Errno(EINVAL);
  args.offset = object->mmap_offset_bytes();
  return 0;
}

Outcome destroy_dumb(DrmFile& file, Call& call, drm_mode_destroy_dumb& args) {
  if (!file.device().features().dumb_buffers) return Errno(ENOSYS);
  TRY(file.handles().close(call, GemHandle{args.handle}));
  return 0;
}

template <typename Tag, Result<void> (PrimaryState::*action)(const Client&)>
constexpr IoctlRow master_row() {
  return IoctlRow{Tag::kNr, &Tag::descriptor, [](File& file, Call& call) -> Outcome {
                    return (static_cast<DrmFile&>(file).primary().*action)(call.client());
                  }};
}

// Rows that sim/drm gives behaviour.
constexpr IoctlRow kHandlers[] = {
    core_row_of<Version, version>(),
    core_row_of<GetUnique, get_unique>(),
    core_row_of<GetMagic, get_magic>(),
    core_row_of<GetClient, get_client>(),
    core_row_of<GetStats, get_stats>(),
    core_row_of<SetVersion, set_version>(),
    core_row_of<GemClose, gem_close>(),
    core_row_of<GemFlink, gem_flink>(),
    core_row_of<GemOpen, gem_open>(),
    core_row_of<GetCap, get_cap>(),
    core_row_of<SetClientCap, set_client_cap>(),
    core_row_of<AuthMagic, auth_magic>(),
    master_row<SetMaster, &PrimaryState::set_master>(),
    master_row<DropMaster, &PrimaryState::drop_master>(),
    core_row_of<PrimeHandleToFd, prime_handle_to_fd>(),
    core_row_of<PrimeFdToHandle, prime_fd_to_handle>(),
    core_row_of<SyncobjCreate, syncobj_create>(),
    core_row_of<SyncobjDestroy, syncobj_destroy>(),
    core_row_of<SyncobjHandleToFd, syncobj_handle_to_fd>(),
    core_row_of<SyncobjFdToHandle, syncobj_fd_to_handle>(),
    core_row_of<SyncobjWait, syncobj_wait>(),
    core_row_of<SyncobjReset, syncobj_reset>(),
    core_row_of<SyncobjSignal, syncobj_signal>(),
    core_row_of<SyncobjTimelineWait, syncobj_timeline_wait>(),
    core_row_of<SyncobjQuery, syncobj_query>(),
    core_row_of<SyncobjTransfer, syncobj_transfer>(),
    core_row_of<SyncobjTimelineSignal, syncobj_timeline_signal>(),
    core_row_of<SyncobjEventfd, syncobj_eventfd>(),
    core_row_of<SetClientName, set_client_name>(),
    core_row_of<ModeCreateDumb, create_dumb>(),
    core_row_of<ModeMapDumb, map_dumb>(),
    core_row_of<ModeDestroyDumb, destroy_dumb>(),
    core_row_of<GemChangeHandle, gem_change_handle>(),
};

Outcome nothing(File&, Call&) {
  return 0;
}
Outcome invalid(File&, Call&) {
  return Errno(EINVAL);
}

// Rows whose kernel handler is drm_noop or drm_invalid_op.
template <typename Tag>
constexpr IoctlRow noop_row() {
  return IoctlRow{Tag::kNr, &Tag::descriptor, nothing};
}
template <typename Tag>
constexpr IoctlRow invalid_row() {
  return IoctlRow{Tag::kNr, &Tag::descriptor, invalid};
}

constexpr IoctlRow kNoops[] = {
    invalid_row<SetUnique>(), noop_row<Block>(),          noop_row<Unblock>(),
    noop_row<AddDraw>(),      noop_row<RmDraw>(),         noop_row<Finish>(),
    noop_row<UpdateDraw>(),   noop_row<ModeAttachmode>(), noop_row<ModeDetachmode>(),
};

// Mode setting and vblank: the answer of a driver without DRIVER_MODESET.
constexpr IoctlRow kModeSetting[] = {
    unsupported<WaitVblank>(EOPNOTSUPP),
    unsupported<CrtcGetSequence>(EOPNOTSUPP),
    unsupported<CrtcQueueSequence>(EOPNOTSUPP),
    unsupported<ModeGetresources>(EOPNOTSUPP),
    unsupported<ModeGetcrtc>(EOPNOTSUPP),
    unsupported<ModeSetcrtc>(EOPNOTSUPP),
    unsupported<ModeCursor>(EOPNOTSUPP),
    unsupported<ModeGetgamma>(EOPNOTSUPP),
    unsupported<ModeSetgamma>(EOPNOTSUPP),
    unsupported<ModeGetencoder>(EOPNOTSUPP),
    unsupported<ModeGetconnector>(EOPNOTSUPP),
    unsupported<ModeGetproperty>(EOPNOTSUPP),
    unsupported<ModeSetproperty>(EOPNOTSUPP),
    unsupported<ModeGetpropblob>(EOPNOTSUPP),
    unsupported<ModeGetfb>(EOPNOTSUPP),
    unsupported<ModeAddfb>(EOPNOTSUPP),
    unsupported<ModeRmfb>(EOPNOTSUPP),
    unsupported<ModePageFlip>(EOPNOTSUPP),
    unsupported<ModeDirtyfb>(EOPNOTSUPP),
    unsupported<ModeGetplaneresources>(EOPNOTSUPP),
    unsupported<ModeGetplane>(EOPNOTSUPP),
    unsupported<ModeSetplane>(EOPNOTSUPP),
    unsupported<ModeAddfb2>(EOPNOTSUPP),
    unsupported<ModeObjGetproperties>(EOPNOTSUPP),
    unsupported<ModeObjSetproperty>(EOPNOTSUPP),
    unsupported<ModeCursor2>(EOPNOTSUPP),
    unsupported<ModeAtomic>(EOPNOTSUPP),
    unsupported<ModeCreatepropblob>(EOPNOTSUPP),
    unsupported<ModeDestroypropblob>(EOPNOTSUPP),
    unsupported<ModeCreateLease>(EOPNOTSUPP),
    unsupported<ModeListLessees>(EOPNOTSUPP),
    unsupported<ModeGetLease>(EOPNOTSUPP),
    unsupported<ModeRevokeLease>(EOPNOTSUPP),
    unsupported<ModeGetfb2>(EOPNOTSUPP),
    unsupported<ModeClosefb>(EOPNOTSUPP),
};

}  // namespace

std::span<const IoctlRow> core_ioctls() {
  static const std::vector<IoctlRow> rows = [] {
    std::vector<IoctlRow> table;
    for (const std::span<const IoctlRow> part :
         {std::span<const IoctlRow>(kHandlers), std::span<const IoctlRow>(kNoops),
          std::span<const IoctlRow>(kModeSetting)}) {
      table.insert(table.end(), part.begin(), part.end());
    }
    std::sort(table.begin(), table.end(), [](const IoctlRow& a, const IoctlRow& b) { return a.nr < b.nr; });
    return table;
  }();
  return rows;
}

}  // namespace understudy::drm
