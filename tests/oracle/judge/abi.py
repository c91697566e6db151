"""The kernel ABI as the sequence language sees it: structs by field path, ioctls and constants by name.

Reads the same JSON as the simulator's generator (uapi/*.json), plus abi/extra.json for interfaces only the sequences use.
"""

import errno
import fcntl
import json
import mmap
import os
import re
import select
import signal
from dataclasses import dataclass, field
from pathlib import Path

INTERFACES = ("kfd", "drm", "amdgpu", "virtgpu")
# virtgpu.json's own structs are those of a patched guest header; the sequences speak the upstream one.
VARIANTS = {"virtgpu": "linux_6_12"}

SCALARS = {
    "u8": (1, False), "u16": (2, False), "u32": (4, False), "u64": (8, False), "s32": (4, True), "s64": (8, True),
    "char": (1, False), "__u8": (1, False), "__u16": (2, False), "__u32": (4, False), "__u64": (8, False),
    "__s32": (4, True), "__s64": (8, True), "int": (4, True), "long": (8, True),
}


class AbiError(Exception):
    """A name the ABI does not have."""


@dataclass
class Type:
    """A scalar (no members), a struct or union, or an array of one of them."""

    size: int
    signed: bool = False
    text: bool = False
    count: int = 1  # of array elements; 1 for no array
    is_array: bool = False
    members: list = field(default_factory=list)  # (name, offset, Type); offsets within one element

    @property
    def element_size(self):
        return self.size // self.count if self.is_array and self.count else self.size


@dataclass
class Leaf:
    """A field that is compared: a scalar, or an array of scalars."""

    path: str
    offset: int
    width: int
    count: int
    kind: str


@dataclass
class Ioctl:
    name: str
    number: int
    direction: str  # none, R, W, RW
    type_char: str
    size: int
    struct: str | None


class Abi:
    def __init__(self, uapi_folder, extra_folder):
        self.ioctls = {}
        self.constants = dict(system_constants())
        self._structs = {}
        self._types = {}
        for name in INTERFACES:
            self._read(Path(uapi_folder) / f"{name}.json", VARIANTS.get(name))
        self._read(Path(extra_folder) / "extra.json", None)
        # Fields whose values legitimately vary: "struct.field" -> class of names.
        self.named_fields = json.loads((Path(extra_folder) / "named_fields.json").read_text())["fields"]

    def _read(self, path, variant_name):
        interface = json.loads(path.read_text())
        variants = [v for v in interface.get("variants", []) if v["name"] == variant_name]
        for part in [interface, *variants]:
            for struct in part["structs"]:
                self._structs[struct["name"]] = struct
            for ioctl in part["ioctls"]:
                self.ioctls[ioctl["name"]] = Ioctl(
                    ioctl["name"], ioctl["nr"], ioctl["dir"], ioctl["type_char"], ioctl["size"],
                    ioctl["struct"])
            for constant in part["constants"]:
                self.constants[constant["name"]] = constant["value"]

    def has_type(self, name):
        return name in SCALARS or name in self._structs

    def type(self, name):
        if name in SCALARS:
            size, signed = SCALARS[name]
            return Type(size, signed)
        if name not in self._types:
            if name not in self._structs:
                raise AbiError(f"no struct {name}")
            struct = self._structs[name]
            self._types[name] = Type(struct["size"], members=self._members(struct["fields"], 0))
        return self._types[name]

    def _members(self, fields, base):
        """`base` is where the members' struct starts: the JSON counts all offsets from the outermost one."""
        members = []
        for entry in fields:
            if not entry["name"] and "fields" in entry:
                members += self._members(entry["fields"], base)
            else:
                members.append((entry["name"], entry["offset"] - base, self._field_type(entry)))
        return members

    def _field_type(self, entry):
        size = entry["size"]
        if "fields" in entry:
            count = entry.get("count", 1)
            return Type(size, count=count, is_array="count" in entry,
                        members=self._members(entry["fields"], entry["offset"]))
        base_name, bracket, dimension = entry["type"].partition("[")
        count = int(dimension.rstrip("]") or 0) if bracket else 1
        if base_name in self._structs:
            return Type(size, count=count, is_array=bool(bracket), members=self.type(base_name).members)
        signed = SCALARS.get(base_name, (size, False))[1]
        return Type(size, signed, text=bool(bracket) and base_name == "char", count=count, is_array=bool(bracket))

    def locate(self, struct_name, path):
        """(offset, width, type) of a field path such as "data.flags" or "attrs[2].value"."""
        current = self.type(struct_name)
        offset = 0
        for part in path.split("."):
            match = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", part)
            found = [m for m in current.members if match and m[0] == match[1]]
            if not found:
                known = ", ".join(m[0] for m in current.members)
                raise AbiError(f"{struct_name} has no field {path} (it has: {known})")
            _, member_offset, current = found[0]
            offset += member_offset
            if match[2] is not None:
                index = int(match[2])
                if not current.is_array or index >= current.count:
                    raise AbiError(f"{struct_name}.{path}: no element {index}")
                offset += index * current.element_size
                current = Type(current.element_size, current.signed, members=current.members)
        return offset, current.size, current

    def leaves(self, struct_name, written=()):
        """The fields that cover the struct. Where union arms overlap, those named in `written` win, then the first."""
        found = list(self._walk(self.type(struct_name), "", 0, struct_name))
        found.sort(key=lambda leaf: leaf.path not in written)
        covered = set()
        chosen = []
        for leaf in found:
            span = set(range(leaf.offset, leaf.offset + leaf.width * leaf.count))
            if not span & covered:
                covered |= span
                chosen.append(leaf)
        return sorted(chosen, key=lambda leaf: leaf.offset)

    def _walk(self, type_, prefix, base, struct_name):
        for name, offset, member in type_.members:
            path = f"{prefix}{name}"
            if member.size == 0:
                continue
            if member.members:
                for i in range(member.count):
                    index = f"[{i}]" if member.is_array else ""
                    start = base + offset + i * member.element_size
                    yield from self._walk(member, f"{path}{index}.", start, struct_name)
            elif member.text:
                yield Leaf(path, base + offset, member.size, 1, "text")
            else:
                yield Leaf(path, base + offset, member.element_size, member.count,
                           self._kind(struct_name, path, member))

    def _kind(self, struct_name, path, member):
        named = self.named_fields.get(f"{struct_name}.{path}")
        if named:
            return f"name:{named}"
        if member.signed:
            return "signed"
        return "hex" if member.element_size == 8 else "number"

    def ioctl(self, name):
        if name not in self.ioctls:
            raise AbiError(f"no ioctl {name}")
        return self.ioctls[name]

    def constant(self, name):
        if name not in self.constants:
            raise AbiError(f"no constant {name}")
        return self.constants[name]


def system_constants():
    for module, prefixes in ((os, ("O_", "SEEK_")), (mmap, ("PROT_", "MAP_")), (select, ("POLL",)),
                             (fcntl, ("F_", "FD_")), (errno, ("E",))):
        for name in dir(module):
            if name.startswith(prefixes) and isinstance(getattr(module, name), int):
                yield name, getattr(module, name)
    for number in signal.Signals:
        yield number.name, int(number)
    # Not in Python's modules of every version.
    yield "PROT_NONE", 0
    yield "MAP_FIXED", 0x10
    yield "MAP_FAILED", (1 << 64) - 1
