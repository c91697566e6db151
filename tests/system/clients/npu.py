"""The NPU's node answers VERSION and its metadata query."""
import ctypes
import os
import struct
import kfd

assert os.path.realpath("/sys/class/accel/accel0/device").startswith("/sys/devices/pci")
node = os.open("/dev/accel/accel0", os.O_RDWR)
info = os.fstat(node)
assert os.major(info.st_rdev) == 261 and os.minor(info.st_rdev) == 0
assert kfd.drm_name(node) == "amdxdna_accel_driver"
metadata = ctypes.create_string_buffer(64)
kfd.call(node, 0xC0106447, struct.pack("IIQ", 1, 64, ctypes.addressof(metadata)))
columns, rows = struct.unpack_from("HH", metadata.raw, 4)
assert (columns, rows) == (8, 6)
print("OK")
