"""A whole program of the NPU's ABI: BOs of every type, sharing, a context, chains, waits, and destruction in every
order."""
import array
import itertools
import mmap
import os
import socket
import struct
import kfd
import xdna

UNSUPPORTED = ("EOPNOTSUPP", "ENOTSUP")  # one number

# Before there is a heap, a context and device memory have nowhere to be.
bare = xdna.open_accel()
try:
    xdna.create_context(bare)
    raise AssertionError("a context without a heap")
except FileNotFoundError:
    pass
os.close(bare)
clocks = xdna.info(kfd_fd := xdna.open_accel(), 3, 48)
assert clocks[:12] == b"MP-NPU Clock", clocks
assert struct.unpack("IIII", xdna.info(kfd_fd, 8, 16))[0] > 0
os.close(kfd_fd)

npu = xdna.Design()
assert xdna.bo_info(npu.fd, npu.pdi)[0] == xdna.UNMAPPED, "device memory has no mapping of its own"
assert xdna.bo_info(npu.fd, npu.source_handle)[1] == xdna.address_of(npu.source)

# Export and import: the same file, and another process.
dma_buf = kfd.prime_export(npu.fd, npu.source_handle)
assert kfd.prime_import(npu.fd, dma_buf) == npu.source_handle, "the same file: the same handle"
view = mmap.mmap(dma_buf, 4096)
npu.source[0:5] = b"bytes"
assert view[0:5] == b"bytes"
ours, theirs = socket.socketpair()
if os.fork() == 0:
    passed = array.array("i", theirs.recvmsg(1, socket.CMSG_SPACE(4))[1][0][2])[0]
    other = xdna.open_accel()
    imported = kfd.prime_import(other, passed)
    assert imported == 1 and kfd.prime_import(other, passed) == 1
    there = xdna.map_bo(other, imported, 4096)
    assert there[0:5] == b"bytes"
    there[0:5] = b"child"
    assert kfd.gem_close(other, imported) is None
    assert kfd.gem_close(other, imported) == "EINVAL"
    os._exit(0)
ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [dma_buf]))])
assert os.wait()[1] == 0
assert npu.source[0:5] == b"child"
assert kfd.error_of(npu.fd, kfd.PRIME_HANDLE_TO_FD, struct.pack("IIi", npu.pdi, 0, -1)) in UNSUPPORTED

# A single command, and a chain of them.
for run in (lambda: xdna.execute(npu.fd, npu.context, npu.command_handle, [npu.source_handle, npu.target_handle]),
            lambda: npu.submit_chain(3)):
    npu.target[0:4096] = bytes(4096)
    npu.source[0:4096] = os.urandom(4096)
    assert npu.wait(run()) is None
    assert npu.target[:] == npu.source[:]
assert xdna.state_of(npu.command) == xdna.COMPLETED and xdna.state_of(npu.chain) == xdna.COMPLETED
assert npu.submit_chain(1) == 2

# The BO, its dma-buf and its import can go in any order.
for order in itertools.permutations(("handle", "dma-buf", "import")):
    handle = xdna.create_bo(npu.fd, xdna.SHARE, 4096)
    fd = kfd.prime_export(npu.fd, handle)
    other = xdna.open_accel()
    alias = kfd.prime_import(other, fd)
    last = xdna.map_bo(other, alias, 4096)
    for what in order:
        if what == "handle":
            assert kfd.gem_close(npu.fd, handle) is None
        elif what == "dma-buf":
            os.close(fd)
        else:
            assert kfd.gem_close(other, alias) is None
    last[0:4] = b"live"
    assert last[0:4] == b"live"
    last.close()
    os.close(other)

# So can a context, its buffers and the heap, with a command on its way.
for order in itertools.permutations(("context", "buffers", "heap")):
    design = xdna.Design()
    design.submit_chain(2)
    for what in order:
        if what == "context":
            assert xdna.destroy_context(design.fd, design.context) is None
            assert xdna.destroy_context(design.fd, design.context) == "EINVAL"
        elif what == "buffers":
            for handle in (design.chain_handle, design.command_handle, design.source_handle, design.pdi):
                assert kfd.gem_close(design.fd, handle) is None
        else:
            assert kfd.gem_close(design.fd, design.heap_handle) is None
    assert kfd.error_of(design.fd, xdna.SYNCOBJ_DESTROY, struct.pack("II", design.syncobj, 0)) is None
    os.close(design.fd)
print("OK")
