"""GPU memory seen by the NPU's node and NPU memory by the GPU's, through dma-bufs, both ways."""
import mmap
import struct
import kfd
import xdna

GEM_MMAP = 0xC0086441


def gpu_map(fd, handle, size):
    return mmap.mmap(fd, size, offset=struct.unpack("Q", kfd.call(fd, GEM_MMAP, struct.pack("II", handle, 0)))[0])


render = kfd.open_render()
accel = xdna.open_accel()

gpu_handle = kfd.gem_create(render, 8192, kfd.DOMAIN_VRAM)
gpu_view = gpu_map(render, gpu_handle, 8192)
imported = kfd.prime_import(accel, kfd.prime_export(render, gpu_handle))
npu_view = xdna.map_bo(accel, imported, 8192)
npu_view[5000:5003] = b"npu"
assert gpu_view[5000:5003] == b"npu"
gpu_view[0:3] = b"gpu"
assert npu_view[0:3] == b"gpu"

npu_handle = xdna.create_bo(accel, xdna.SHARE, 4096)
npu_own = xdna.map_bo(accel, npu_handle, 4096)
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
