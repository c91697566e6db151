// Syncobj ioctls and the two descriptors made from syncobjs. See syncobj.h; mirrors drm_syncobj.c.
#pragma once

#include "sim/core/file.h"
#include "sim/drm/drm_file.h"
#include "sim/drm/syncobj.h"
#include "uapi/drm.h"

namespace understudy::drm {

Outcome syncobj_create(DrmFile& file, Call& call, uapi::drm::drm_syncobj_create& args);
Outcome syncobj_destroy(DrmFile& file, Call& call, uapi::drm::drm_syncobj_destroy& args);
Outcome syncobj_handle_to_fd(DrmFile& file, Call& call, uapi::drm::drm_syncobj_handle& args);
Outcome syncobj_fd_to_handle(DrmFile& file, Call& call, uapi::drm::drm_syncobj_handle& args);
Outcome syncobj_transfer(DrmFile& file, Call& call, uapi::drm::drm_syncobj_transfer& args);
Outcome syncobj_wait(DrmFile& file, Call& call, uapi::drm::drm_syncobj_wait& args);
Outcome syncobj_timeline_wait(DrmFile& file, Call& call, uapi::drm::drm_syncobj_timeline_wait& args);
Outcome syncobj_eventfd(DrmFile& file, Call& call, uapi::drm::drm_syncobj_eventfd& args);
Outcome syncobj_reset(DrmFile& file, Call& call, uapi::drm::drm_syncobj_array& args);
Outcome syncobj_signal(DrmFile& file, Call& call, uapi::drm::drm_syncobj_array& args);
Outcome syncobj_timeline_signal(DrmFile& file, Call& call, uapi::drm::drm_syncobj_timeline_array& args);
Outcome syncobj_query(DrmFile& file, Call& call, uapi::drm::drm_syncobj_timeline_array& args);

}  // namespace understudy::drm
