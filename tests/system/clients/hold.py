"""Holds buffers and an event until it is killed; says when it is ready."""
import signal
import kfd

node, render = kfd.open_kfd(), kfd.open_render()
for _ in range(10):
    kfd.gem_create(render, 1 << 20, kfd.DOMAIN_VRAM)
kfd.create_event(node)
print("ready", flush=True)
signal.pause()
