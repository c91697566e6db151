#include "sim/drm/syncobj_ioctls.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sim/core/machine.h"
#include "sim/drm/call_wait.h"
#include "sim/drm/sync_file.h"
#include "sim/drm/syncobj_wait.h"

namespace understudy::drm {
namespace {

using namespace uapi::drm;

// The kernel allocates arrays for whatever count it is told; more than this it could not serve either.
constexpr std::uint32_t kMaxHandles = 1 << 22;
constexpr std::uint64_t kWaitForSubmitNs = 5'000'000'000;  // DRM_SYNCOBJ_WAIT_FOR_SUBMIT_TIMEOUT

Result<void> require_syncobj(const DrmFile& file) {
  if (!file.device().features().syncobj) return Errno(EOPNOTSUPP);
  return {};
}

Result<void> require_timeline(const DrmFile& file) {
  if (!file.device().features().syncobj_timeline) return Errno(EOPNOTSUPP);
  return {};
}

// drm_syncobj_array_find.
Result<std::vector<SyncobjRef>> find_all(DrmFile& file, Call& call, std::uint64_t address,
                                         std::uint32_t count) {
  if (count > kMaxHandles) return Errno(ENOMEM);
  const auto handles = TRY(call.memory().read_array<std::uint32_t>(address, count));
  std::vector<SyncobjRef> syncobjs;
  for (const std::uint32_t handle : handles) {
    SyncobjRef syncobj = file.syncobjs().find(handle);
    if (!syncobj) return Errno(ENOENT);
    syncobjs.push_back(std::move(syncobj));
  }
  return syncobjs;
}

Result<std::vector<std::uint64_t>> read_points(Call& call, std::uint64_t address, std::uint32_t count) {
  if (address == 0) return std::vector<std::uint64_t>(count);
  return call.memory().read_array<std::uint64_t>(address, count);
}

Result<void> set_from_sync_file(DrmFile& file, Call& call, const drm_syncobj_handle& args,
                                std::uint64_t point) {
  const FenceRef fence = TRY(SyncFile::of_client_fd(call, args.fd));
  const SyncobjRef syncobj = file.syncobjs().find(args.handle);
  if (!syncobj) return Errno(ENOENT);
  syncobj->set_point(fence, point);
  return {};
}

// eventfd_ctx_fdget: EBADF, and EINVAL for what is no eventfd.
Result<UniqueFd> take_eventfd(const Client& client, int fd) {
  TRY(client.stat_fd(fd));
  UniqueFd taken = TRY(client.take_fd(fd));
  char target[32] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(taken.get());
  if (::readlink(link.c_str(), target, sizeof target - 1) < 0) return last_errno();
  if (std::string_view(target) != "anon_inode:[eventfd]") return Errno(EINVAL);
  return taken;
}

}  // namespace

Outcome syncobj_create(DrmFile& file, Call& call, drm_syncobj_create& args) {
  TRY(require_syncobj(file));
  if (args.flags & ~DRM_SYNCOBJ_CREATE_SIGNALED) return Errno(EINVAL);
  const auto syncobj = std::make_shared<Syncobj>();
  if (args.flags & DRM_SYNCOBJ_CREATE_SIGNALED) syncobj->replace(Fence::signalled());
  args.handle = TRY(file.syncobjs().create_handle(&call, syncobj));
  return 0;
}

Outcome syncobj_destroy(DrmFile& file, Call& call, drm_syncobj_destroy& args) {
  TRY(require_syncobj(file));
  if (args.pad != 0) return Errno(EINVAL);
  return file.syncobjs().destroy(call, args.handle);
}

Outcome syncobj_handle_to_fd(DrmFile& file, Call& call, drm_syncobj_handle& args) {
  TRY(require_syncobj(file));
  constexpr std::uint32_t kKnown =
      DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE | DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_TIMELINE;
  if (args.pad != 0 || (args.flags & ~kKnown) != 0) return Errno(EINVAL);
  const bool timeline = (args.flags & DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_TIMELINE) != 0;
  const SyncobjRef syncobj = file.syncobjs().find(args.handle);
  UniqueFd fd;
  if (args.flags & DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE) {
    if (!syncobj) return Errno(ENOENT);
    const FenceRef fence = syncobj->fence_at(timeline ? args.point : 0);
    if (!fence) return Errno(EINVAL);
    fd = TRY(SyncFile::make_descriptor(call.machine(), fence));
  } else {
    if (args.point != 0 || !syncobj) return Errno(EINVAL);
    fd = TRY(call.machine().files().make_descriptor(std::make_shared<SyncobjFile>(syncobj)));
  }
  TRY(call.hand_fd(std::move(fd), offsetof(drm_syncobj_handle, fd)));
  return 0;
}

Outcome syncobj_fd_to_handle(DrmFile& file, Call& call, drm_syncobj_handle& args) {
  TRY(require_syncobj(file));
  constexpr std::uint32_t kKnown =
      DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE | DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_TIMELINE;
  if (args.pad != 0 || (args.flags & ~kKnown) != 0) return Errno(EINVAL);
  const bool timeline = (args.flags & DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_TIMELINE) != 0;
  if (args.flags & DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE) {
    return set_from_sync_file(file, call, args, timeline ? args.point : 0);
  }
  if (args.point != 0) return Errno(EINVAL);
  const Result<FileRef> open = call.machine().files().by_client_fd(call.client(), args.fd);
  const auto* source = open ? dynamic_cast<const SyncobjFile*>(open.value().get()) : nullptr;
  if (source == nullptr) return Errno(EINVAL);
  args.handle = TRY(file.syncobjs().create_handle(&call, source->syncobj()));
  return 0;
}

Outcome syncobj_transfer(DrmFile& file, Call& call, drm_syncobj_transfer& args) {
  TRY(require_timeline(file));
  if (args.pad != 0) return Errno(EINVAL);
  if (args.flags & ~DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT) return Errno(EINVAL);
  const SyncobjRef to = file.syncobjs().find(args.dst_handle);
  const SyncobjRef from = file.syncobjs().find(args.src_handle);
  if (!to || !from) return Errno(ENOENT);
  const auto transfer = [to, from, &args]() -> Outcome {
    const FenceRef fence = from->fence_at(args.src_point);
    if (!fence) return Errno(EINVAL);
    to->set_point(fence, args.dst_point);
    return 0;
  };
  if (from->fence_at(args.src_point) || args.flags == 0) return transfer();
  const auto wait = std::make_shared<CallWait>(call);
  const std::uint64_t id = from->on_submitted(args.src_point, [wait, transfer] { wait->end(transfer); });
  wait->on_end([from, id] { from->forget(id); });
  wait->arm(call.machine().clock().now_ns() + kWaitForSubmitNs, [] { return Outcome(Errno(ETIME)); });
  return Outcome::later();
}

Outcome syncobj_wait(DrmFile& file, Call& call, drm_syncobj_wait& args) {
  TRY(require_syncobj(file));
  constexpr std::uint32_t kKnown = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT |
                                   DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE;
  if (args.flags & ~kKnown) return Errno(EINVAL);
  if (args.count_handles == 0) return 0;
  const auto syncobjs = TRY(find_all(file, call, args.handles, args.count_handles));
  std::vector<SyncobjWait::Entry> entries;
  for (const SyncobjRef& syncobj : syncobjs) entries.push_back({syncobj, 0});
  return SyncobjWait::start(call, std::move(entries), args.flags, args.timeout_nsec,
                            [&args](std::uint32_t first) {
                              args.first_signaled = first;
                              return Outcome(0);
                            });
}

Outcome syncobj_timeline_wait(DrmFile& file, Call& call, drm_syncobj_timeline_wait& args) {
  TRY(require_timeline(file));
  constexpr std::uint32_t kKnown = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT |
                                   DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE |
                                   DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE;
  if (args.flags & ~kKnown) return Errno(EINVAL);
  if (args.count_handles == 0) return 0;
  const auto syncobjs = TRY(find_all(file, call, args.handles, args.count_handles));
  const auto points = TRY(read_points(call, args.points, args.count_handles));
  std::vector<SyncobjWait::Entry> entries;
  for (std::size_t i = 0; i < syncobjs.size(); ++i) entries.push_back({syncobjs[i], points[i]});
  return SyncobjWait::start(call, std::move(entries), args.flags, args.timeout_nsec,
                            [&args](std::uint32_t first) {
                              args.first_signaled = first;
                              return Outcome(0);
                            });
}

Outcome syncobj_eventfd(DrmFile& file, Call& call, drm_syncobj_eventfd& args) {
  TRY(require_timeline(file));
  if (args.flags & ~DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE) return Errno(EINVAL);
  if (args.pad != 0) return Errno(EINVAL);
  const SyncobjRef syncobj = file.syncobjs().find(args.handle);
  if (!syncobj) return Errno(ENOENT);
  auto event = std::make_shared<UniqueFd>(TRY(take_eventfd(call.client(), args.fd)));
  const bool available = (args.flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE) != 0;
  const auto notify = [event] { ::eventfd_write(event->get(), 1); };
  syncobj->on_submitted(args.point, [syncobj, point = args.point, available, notify] {
    const FenceRef fence = syncobj->fence_at(point);
    if (available || !fence) {
      notify();
    } else {
      fence->on_signal(notify);
    }
  });
  return 0;
}

Outcome syncobj_reset(DrmFile& file, Call& call, drm_syncobj_array& args) {
  TRY(require_syncobj(file));
  if (args.pad != 0 || args.count_handles == 0) return Errno(EINVAL);
  for (const SyncobjRef& syncobj : TRY(find_all(file, call, args.handles, args.count_handles))) {
    syncobj->replace(nullptr);
  }
  return 0;
}

Outcome syncobj_signal(DrmFile& file, Call& call, drm_syncobj_array& args) {
  TRY(require_syncobj(file));
  if (args.pad != 0 || args.count_handles == 0) return Errno(EINVAL);
  for (const SyncobjRef& syncobj : TRY(find_all(file, call, args.handles, args.count_handles))) {
    syncobj->replace(Fence::signalled());
  }
  return 0;
}

Outcome syncobj_timeline_signal(DrmFile& file, Call& call, drm_syncobj_timeline_array& args) {
  TRY(require_timeline(file));
  if (args.flags != 0 || args.count_handles == 0) return Errno(EINVAL);
  const auto syncobjs = TRY(find_all(file, call, args.handles, args.count_handles));
  const auto points = TRY(read_points(call, args.points, args.count_handles));
  for (std::size_t i = 0; i < syncobjs.size(); ++i) syncobjs[i]->add_point(Fence::signalled(), points[i]);
  return 0;
}

Outcome syncobj_query(DrmFile& file, Call& call, drm_syncobj_timeline_array& args) {
  TRY(require_timeline(file));
  if (args.flags & ~DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED || args.count_handles == 0) return Errno(EINVAL);
  const auto syncobjs = TRY(find_all(file, call, args.handles, args.count_handles));
  const bool last_submitted = (args.flags & DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED) != 0;
  for (std::size_t i = 0; i < syncobjs.size(); ++i) {
    TRY(call.memory().write_value(args.points + i * sizeof(std::uint64_t),
                                  syncobjs[i]->query(last_submitted)));
  }
  return 0;
}

}  // namespace understudy::drm
