"""A dma-buf passed to another process shows the same bytes, and the same import gives the same handle."""
import array
import mmap
import os
import socket
import kfd

render = kfd.open_render()
handle = kfd.gem_create(render, 8192)
dma_buf = kfd.prime_export(render, handle)
assert os.lseek(dma_buf, 0, os.SEEK_END) == 8192
assert kfd.prime_import(render, dma_buf) == handle, "same file, same dma-buf: same handle"
here = mmap.mmap(dma_buf, 8192)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
if os.fork() == 0:
    _, ancillary, _, _ = theirs.recvmsg(1, socket.CMSG_SPACE(4))
    passed = array.array("i", ancillary[0][2])[0]
    other = kfd.open_render()
    imported = kfd.prime_import(other, passed)
    assert imported == 1, "a new file: its first handle"
    assert kfd.prime_import(other, passed) == imported
    there = mmap.mmap(passed, 8192)
    there[100:105] = b"hello"
    os._exit(0)
ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [dma_buf]))])
assert os.wait()[1] == 0
assert here[100:105] == b"hello"
assert kfd.gem_close(render, handle) is None
print("OK")
