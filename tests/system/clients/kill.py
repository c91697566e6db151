"""What a killed client held is given back: VRAM in use returns to what it was, within the sweep's interval or so."""
import os
import pathlib
import signal
import subprocess
import sys
import time

used = pathlib.Path("/sys/class/drm/card0/device/mem_info_vram_used")
before = used.read_text()
client = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), "hold.py")], stdout=subprocess.PIPE)
assert client.stdout.readline() == b"ready\n"
assert used.read_text() != before
client.send_signal(signal.SIGKILL)
client.wait()
deadline = time.monotonic() + 20
while used.read_text() != before:
    assert time.monotonic() < deadline, "still in use"
    time.sleep(0.01)
print("OK")
