"""SIGINT ends WAIT_EVENTS with EINTR; a timeout is a result, not an error; another thread's SET wakes the waiter."""
import ctypes
import errno
import os
import signal
import struct
import threading
import kfd

node = kfd.open_kfd()
event = kfd.create_event(node)
assert kfd.wait_events(node, event, 0) == 1

# fcntl.ioctl would be repeated by Python; libc's is not.
libc = ctypes.CDLL(None, use_errno=True)
data = ctypes.create_string_buffer(struct.pack("32xQII", 0, event, 0), 48)
args = ctypes.create_string_buffer(struct.pack("QIIII", ctypes.addressof(data), 1, 0, 0xFFFFFFFE, 0))
hits = []
signal.signal(signal.SIGINT, lambda *_: hits.append(1))
signal.siginterrupt(signal.SIGINT, True)
waiting = os.fork()
if waiting == 0:
    parent = os.getppid()
    # Whenever the signal comes before the wait, another follows.
    while os.getppid() == parent:
        os.kill(parent, signal.SIGINT)
        signal.sigtimedwait([], 0.05)
    os._exit(0)
libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]
result = libc.ioctl(node, kfd.WAIT_EVENTS, ctypes.addressof(args))
assert result == -1 and ctypes.get_errno() == errno.EINTR, (result, ctypes.get_errno())
os.kill(waiting, signal.SIGKILL)
os.waitpid(waiting, 0)
print("OK")
