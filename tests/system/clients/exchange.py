"""GPU memory seen by the NPU's node and NPU memory by the GPU's, through dma-bufs, both ways."""
import mmap
import os
import struct
import kfd

CREATE_BO, GET_BO_INFO = 0xC0206443, 0xC0306444
GEM_MMAP = 0xC0086441
SHARE = 1


def npu_create(fd, size):
    return struct.unpack("QQQII", kfd.call(fd, CREATE_BO, struct.pack("QQQII", 0, 0, size, SHARE, 0)))[4]


def npu_map(fd, handle, size):
    info = kfd.call(fd, GET_BO_INFO, struct.pack("QQIIQQQ", 0, 0, handle, 0, 0, 0, 0))
    return mmap.mmap(fd, size, offset=struct.unpack("QQIIQQQ", info)[4])


def gpu_map(fd, handle, size):
    return mmap.mmap(fd, size, offset=struct.unpack("Q", kfd.call(fd, GEM_MMAP, struct.pack("II", handle, 0)))[0])


render = kfd.open_render()
accel = os.open("/dev/accel/accel0", os.O_RDWR)

gpu_handle = kfd.gem_create(render, 8192, kfd.DOMAIN_VRAM)
gpu_view = gpu_map(render, gpu_handle, 8192)
imported = kfd.prime_import(accel, kfd.prime_export(render, gpu_handle))
npu_view = npu_map(accel, imported, 8192)
npu_view[5000:5003] = b"npu"
assert gpu_view[5000:5003] == b"npu"
gpu_view[0:3] = b"gpu"
assert npu_view[0:3] == b"gpu"

npu_handle = npu_create(accel, 4096)
npu_own = npu_map(accel, npu_handle, 4096)
in_gpu = kfd.prime_import(render, kfd.prime_export(accel, npu_handle))
gpu_of_npu = gpu_map(render, in_gpu, 4096)
npu_own[7:11] = b"from"
assert gpu_of_npu[7:11] == b"from"
gpu_of_npu[4090:4094] = b"back"
assert npu_own[4090:4094] == b"back"
assert kfd.gem_close(accel, imported) is None
assert kfd.gem_close(accel, npu_handle) is None
assert kfd.gem_close(render, in_gpu) is None
assert kfd.gem_close(render, gpu_handle) is None
print("OK")
