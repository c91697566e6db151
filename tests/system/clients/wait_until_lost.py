"""The server is killed while this waits for an event: the wait fails instead of hanging, and so does what follows."""
import os
import signal
import threading
import kfd

node = kfd.open_kfd()
event = kfd.create_event(node)
result = []


def wait():
    try:
        result.append(kfd.wait_events(node, event, 0xFFFFFFFE))
    except OSError as error:
        result.append(error.strerror)


waiter = threading.Thread(target=wait)
waiter.start()
# Asleep: in the call, or, at worst, about to make it.
while ") S " not in open(f"/proc/self/task/{waiter.native_id}/stat").read() and not result:
    os.sched_yield()
# The server is CMD's parent.
os.kill(os.getppid(), signal.SIGKILL)
waiter.join()
assert result[0] in (os.strerror(5), os.strerror(19)), result
assert kfd.error_of(node, kfd.GET_VERSION, bytes(8)) in ("ENODEV", "EIO")
print("OK")
