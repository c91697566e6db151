"""N processes one after another, each of which opens the nodes, allocates, exports and leaves without tidying up."""
import os
import sys
import kfd

for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        node, render = kfd.open_kfd(), kfd.open_render()
        kfd.acquire_vm(node, render)
        kfd.alloc_vram(node, 1 << 20)
        kfd.create_event(node)
        kfd.prime_export(render, kfd.gem_create(render))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print("OK")
