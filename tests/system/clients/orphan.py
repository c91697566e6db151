"""With its server killed, a client's calls fail; none hangs."""
import os
import signal
import kfd

node = kfd.open_kfd()
render = kfd.open_render()
assert kfd.version(node)[0] == 1
# The server is CMD's parent.
server = os.getppid()
os.kill(server, signal.SIGKILL)
while os.getppid() == server:
    pass
assert kfd.error_of(node, kfd.GET_VERSION, bytes(8)) in ("ENODEV", "EIO")
assert kfd.error_of(render, kfd.GEM_CREATE, bytes(32)) in ("ENODEV", "EIO")
try:
    kfd.open_kfd()
    raise SystemExit("a dead machine's node could be opened")
except OSError:
    pass
print("OK", flush=True)
