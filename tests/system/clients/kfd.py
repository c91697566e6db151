"""The few KFD and DRM structs that the clients here speak, packed by hand from the kernel's headers."""

import ctypes
import errno
import fcntl
import os
import struct

GET_VERSION = 0x80084B01
CREATE_EVENT = 0xC0204B08
DESTROY_EVENT = 0x40084B09
SET_EVENT = 0x40084B0A
WAIT_EVENTS = 0xC0184B0C
ACQUIRE_VM = 0x40084B15
ALLOC_MEMORY_OF_GPU = 0xC0284B16
FREE_MEMORY_OF_GPU = 0x40084B17
APERTURES_NEW = 0xC0104B14
DRM_VERSION = 0xC0406400
GEM_CREATE = 0xC0206440
GEM_CLOSE = 0x40086409
PRIME_HANDLE_TO_FD = 0xC00C642D
PRIME_FD_TO_HANDLE = 0xC00C642E

DOMAIN_VRAM = 4
EVENT_TYPE_OTHER = 6  # PROFILE: needs no signal page
EVENT_TYPE_MEMORY = 8


def call(fd, command, data):
    """The ioctl's struct as it came back; OSError as Python raises it."""
    buffer = bytearray(data)
    fcntl.ioctl(fd, command, buffer, True)
    return bytes(buffer)


def error_of(fd, command, data):
    """Name of the errno the ioctl fails with, or None."""
    try:
        call(fd, command, data)
    except OSError as error:
        return errno.errorcode[error.errno]
    return None


def open_kfd():
    return os.open("/dev/kfd", os.O_RDWR | os.O_CLOEXEC)


def open_render(minor=128):
    return os.open(f"/dev/dri/renderD{minor}", os.O_RDWR | os.O_CLOEXEC)


def version(fd):
    return struct.unpack("II", call(fd, GET_VERSION, bytes(8)))


def create_event(fd, kind=EVENT_TYPE_MEMORY):
    out = call(fd, CREATE_EVENT, struct.pack("QIIIIII", 0, 0, kind, 0, 0, 0, 0))
    return struct.unpack("QIIIIII", out)[5]


def wait_events(fd, event_id, timeout_ms):
    """wait_result: 0 complete, 1 timeout."""
    data = ctypes.create_string_buffer(struct.pack("32xQII", 0, event_id, 0), 48)
    out = call(fd, WAIT_EVENTS, struct.pack("QIIII", ctypes.addressof(data), 1, 0, timeout_ms, 0))
    return struct.unpack("QIIII", out)[4]


def gpu_ids(fd):
    entries = ctypes.create_string_buffer(64 * 56)
    out = call(fd, APERTURES_NEW, struct.pack("QII", ctypes.addressof(entries), 0, 0))
    count = struct.unpack("QII", out)[1]
    call(fd, APERTURES_NEW, struct.pack("QII", ctypes.addressof(entries), count, 0))
    return [struct.unpack_from("I", entries.raw, 56 * i + 48)[0] for i in range(count)]


def acquire_vm(fd, render):
    call(fd, ACQUIRE_VM, struct.pack("II", render, gpu_ids(fd)[0]))


def alloc_vram(fd, size, address=0x100000000):
    """A handle of the first GPU's memory."""
    flags = 0x80000001  # WRITABLE | VRAM
    out = call(fd, ALLOC_MEMORY_OF_GPU, struct.pack("QQQQII", address, size, 0, 0, gpu_ids(fd)[0], flags))
    return struct.unpack("QQQQII", out)[2]


def free_memory(fd, handle):
    call(fd, FREE_MEMORY_OF_GPU, struct.pack("Q", handle))


def drm_name(fd):
    name = ctypes.create_string_buffer(32)
    call(fd, DRM_VERSION, struct.pack("iii4xQQQQQQ", 0, 0, 0, 31, ctypes.addressof(name), 0, 0, 0, 0))
    return name.value.decode()


def gem_create(fd, size=4096, domain=2):
    out = call(fd, GEM_CREATE, struct.pack("QQQQ", size, 0, domain, 0))
    return struct.unpack_from("I", out)[0]


def gem_close(fd, handle):
    return error_of(fd, GEM_CLOSE, struct.pack("II", handle, 0))


def prime_export(fd, handle):
    out = call(fd, PRIME_HANDLE_TO_FD, struct.pack("IIi", handle, os.O_CLOEXEC | os.O_RDWR, -1))
    return struct.unpack("IIi", out)[2]


def prime_import(fd, dma_buf):
    out = call(fd, PRIME_FD_TO_HANDLE, struct.pack("IIi", 0, 0, dma_buf))
    return struct.unpack("IIi", out)[0]
