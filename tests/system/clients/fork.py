"""A forked child cannot use the parent's KFD file, but its DRM files; it opens KFD afresh."""
import os
import kfd

node, render = kfd.open_kfd(), kfd.open_render()
kfd.create_event(node)
if os.fork() == 0:
    assert kfd.error_of(node, kfd.GET_VERSION, bytes(8)) == "EBADF"
    assert kfd.drm_name(render) == "amdgpu"
    fresh = kfd.open_kfd()
    assert kfd.version(fresh)[0] == 1
    os._exit(7)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
assert kfd.version(node)[0] == 1
print("OK")
