"""The amdxdna structs that the clients here speak, packed by hand from the kernel's header."""

import ctypes
import errno
import fcntl
import mmap
import os
import struct
import time
import kfd

CREATE_HWCTX, DESTROY_HWCTX, CONFIG_HWCTX = 0xC0386440, 0xC0086441, 0xC0186442
CREATE_BO, GET_BO_INFO, SYNC_BO, EXEC_CMD = 0xC0206443, 0xC0306444, 0xC0186445, 0xC0386446
GET_INFO = 0xC0106447
SYNCOBJ_TIMELINE_WAIT, SYNCOBJ_DESTROY = 0xC02864CA, 0xC00864C0
SHARE, DEV_HEAP, DEV, CMD = 1, 2, 3, 4
HEAP_BYTES = 64 << 20
APERTURE = 0x4000000
UNMAPPED = 0xFFFFFFFFFFFFFFFF
WAIT_FOR_SUBMIT = 2
NEW, COMPLETED, ERROR = 1, 4, 5
START_CU, CMD_CHAIN = 0, 19
PASS_THROUGH = b"UNDERSTUDY PASS-THROUGH\0"


def open_accel():
    return os.open("/dev/accel/accel0", os.O_RDWR | os.O_CLOEXEC)


def create_bo(fd, kind, size):
    return struct.unpack("QQQII", kfd.call(fd, CREATE_BO, struct.pack("QQQII", 0, 0, size, kind, 0)))[4]


def bo_info(fd, handle):
    """(map_offset, vaddr, xdna_addr)"""
    return struct.unpack("QQIIQQQ", kfd.call(fd, GET_BO_INFO, struct.pack("QQIIQQQ", 0, 0, handle, 0, 0, 0, 0)))[4:]


def map_bo(fd, handle, size):
    return mmap.mmap(fd, size, offset=bo_info(fd, handle)[0])


def address_of(mapping):
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def info(fd, param, size):
    buffer = ctypes.create_string_buffer(size)
    kfd.call(fd, GET_INFO, struct.pack("IIQ", param, size, ctypes.addressof(buffer)))
    return buffer.raw


def create_context(fd, tiles=4):
    """(context, timeline syncobj)"""
    qos = ctypes.create_string_buffer(24)
    out = kfd.call(fd, CREATE_HWCTX, struct.pack("QQQIIIIIIII", 0, 0, ctypes.addressof(qos), 0, 0, 0, tiles, 0, 0, 0, 0))
    fields = struct.unpack("QQQIIIIIIII", out)
    return fields[9], fields[10]


def destroy_context(fd, context):
    return kfd.error_of(fd, DESTROY_HWCTX, struct.pack("II", context, 0))


def configure(fd, context, cu_bo):
    config = ctypes.create_string_buffer(struct.pack("HHHHIBBBB", 1, 0, 0, 0, cu_bo, 0, 0, 0, 0), 16)
    kfd.call(fd, CONFIG_HWCTX, struct.pack("IIQII", context, 0, ctypes.addressof(config), 16, 0))


def execute(fd, context, command, arguments=()):
    """The sequence number."""
    handles = ctypes.create_string_buffer(struct.pack(f"{len(arguments)}I", *arguments), 4 * len(arguments) + 4)
    out = kfd.call(fd, EXEC_CMD, struct.pack("QQIIQQIIQ", 0, 0, context, 0, command, ctypes.addressof(handles), 1,
                                             len(arguments), 0))
    return struct.unpack("QQIIQQIIQ", out)[8]


def wait(fd, syncobj, point, seconds=60):
    handles = ctypes.create_string_buffer(struct.pack("I", syncobj), 4)
    points = ctypes.create_string_buffer(struct.pack("Q", point), 8)
    deadline = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + seconds * 1_000_000_000
    return kfd.error_of(fd, SYNCOBJ_TIMELINE_WAIT,
                        struct.pack("QQqIIII", ctypes.addressof(handles), ctypes.addressof(points), deadline, 1,
                                    WAIT_FOR_SUBMIT, 0, 0))


def state_of(command):
    return struct.unpack_from("I", command)[0] & 0xF


def copy_program(word_count):
    """Transaction: shim DMA of column 0 moves argument 0 to argument 1."""
    operations = b""
    for register, argument in ((0x1D000, 0), (0x1D020, 1)):
        operations += struct.pack("12I", 1, 0, register, 48, word_count, 0, 0, 0, 0, 0, 0, 1 << 25)
        operations += struct.pack("12I", 129, 48, 0, 0, 0, 0, register + 4, 0, argument, 0, 0, 0)
    operations += struct.pack("6I", 0, 0, 0x1D204, 0, 1 | 1 << 31, 24)
    operations += struct.pack("6I", 0, 0, 0x1D214, 0, 0, 24)
    operations += struct.pack("4I", 128, 16, 0, 1 << 8 | 1 << 16)
    return struct.pack("4I", 0x06030100, 0x00000104, 7, 16 + len(operations)) + operations


def write_packet(command, opcode, words):
    """`words`: what follows the header."""
    struct.pack_into("I", command, 0, NEW | len(words) // 4 << 12 | opcode << 23)
    command[4:4 + len(words)] = words


def start_cu(command, instructions, program_bytes, *arguments):
    payload = struct.pack("<IQQI", 1, 3, instructions, program_bytes // 4)
    write_packet(command, START_CU, payload + struct.pack(f"<{len(arguments)}Q", *arguments))


def chain(command, handles):
    write_packet(command, CMD_CHAIN, struct.pack(f"<6I{len(handles)}Q", len(handles), 0, 0, 0, 0, 0, *handles))


class Design:
    """A file with a heap, and a context with a pass-through design that copies `size` bytes of a BO to another."""

    def __init__(self, size=4096):
        self.fd = open_accel()
        self.heap_handle = create_bo(self.fd, DEV_HEAP, HEAP_BYTES)
        self.heap = map_bo(self.fd, self.heap_handle, HEAP_BYTES)
        self.context, self.syncobj = create_context(self.fd)
        self.pdi = create_bo(self.fd, DEV, 4096)
        start = bo_info(self.fd, self.pdi)[2] - APERTURE
        self.heap[start:start + len(PASS_THROUGH)] = PASS_THROUGH
        configure(self.fd, self.context, self.pdi)
        self.source_handle, self.target_handle = (create_bo(self.fd, SHARE, size) for _ in range(2))
        self.source, self.target = (map_bo(self.fd, h, size) for h in (self.source_handle, self.target_handle))
        program = copy_program(size // 4)
        self.code_handle = create_bo(self.fd, SHARE, 4096)
        self.code = map_bo(self.fd, self.code_handle, 4096)
        self.code[:len(program)] = program
        self.command_handle = create_bo(self.fd, CMD, 4096)
        self.command = map_bo(self.fd, self.command_handle, 4096)
        start_cu(self.command, address_of(self.code), len(program), address_of(self.source), address_of(self.target))
        self.chain_handle = create_bo(self.fd, CMD, 4096)
        self.chain = map_bo(self.fd, self.chain_handle, 4096)

    def submit_chain(self, length):
        chain(self.chain, [self.command_handle] * length)
        return execute(self.fd, self.context, self.chain_handle, [self.source_handle, self.target_handle])

    def wait(self, point):
        return wait(self.fd, self.syncobj, point)
