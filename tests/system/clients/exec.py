"""exec ends the compute process, whose memory is free again; it starts anew with the next open."""
import os
import pathlib
import sys
import time
import kfd

used = pathlib.Path("/sys/class/drm/card0/device/mem_info_vram_used")
if len(sys.argv) == 1:
    before = int(used.read_text())
    node, render = kfd.open_kfd(), kfd.open_render()
    kfd.acquire_vm(node, render)
    kfd.alloc_vram(node, 64 << 20)
    assert int(used.read_text()) >= before + (64 << 20)
    # Inherited on purpose: what ends the memory's life is the address space, not the descriptor.
    os.set_inheritable(node, True)
    os.execv(sys.executable, [sys.executable, __file__, str(before)])
deadline = time.monotonic() + 20
while int(used.read_text()) != int(sys.argv[1]):
    assert time.monotonic() < deadline, "still in use after exec"
    time.sleep(0.01)
node, render = kfd.open_kfd(), kfd.open_render()
kfd.acquire_vm(node, render)
kfd.free_memory(node, kfd.alloc_vram(node, 64 << 20))
print("OK")
