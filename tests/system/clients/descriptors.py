"""dup, SCM_RIGHTS and exec carry device files along."""
import array
import os
import socket
import sys
import kfd

if len(sys.argv) > 1:  # after exec: an inherited descriptor
    assert kfd.drm_name(int(sys.argv[1])) == "amdgpu"
    print("OK")
    sys.exit(0)

render = kfd.open_render()
handle = kfd.gem_create(render)
copy = os.dup(render)
os.close(render)
assert kfd.gem_close(copy, handle) is None, "the copy is the same file"
assert kfd.gem_close(copy, handle) == "EINVAL"

ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
if os.fork() == 0:
    _, ancillary, _, _ = theirs.recvmsg(1, socket.CMSG_SPACE(4))
    passed = array.array("i", ancillary[0][2])[0]
    assert kfd.drm_name(passed) == "amdgpu"
    os._exit(0)
ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [copy]))])
assert os.wait()[1] == 0
os.set_inheritable(copy, True)
os.execv(sys.executable, [sys.executable, __file__, str(copy)])
