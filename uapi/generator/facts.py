"""One interface (or one variant of it) as read from JSON: its types, and what it shares with another."""

import json
import re

SCALARS = {}
for _bits in (8, 16, 32, 64):
    for _name in (f"__u{_bits}", f"__le{_bits}", f"uint{_bits}_t", f"HSAuint{_bits}"):
        SCALARS[_name] = f"std::uint{_bits}_t"
    for _name in (f"__s{_bits}", f"int{_bits}_t", f"HSAint{_bits}"):
        SCALARS[_name] = f"std::int{_bits}_t"
SCALARS |= {
    "char": "char", "unsigned char": "std::uint8_t", "unsigned short": "std::uint16_t",
    "int": "std::int32_t", "unsigned int": "std::uint32_t", "long": "std::int64_t",
    "unsigned long": "std::uint64_t", "unsigned long long": "std::uint64_t", "__kernel_size_t": "std::uint64_t",
    "drm_context_t": "std::uint32_t", "drm_drawable_t": "std::uint32_t", "drm_magic_t": "std::uint32_t",
    "HSA_QUEUEID": "std::uint64_t", "HSA_EVENTID": "std::uint32_t",
}
SIGNED_ENUMS = {"HSA_QUEUE_PRIORITY"}


class FactError(Exception):
    """The JSON contradicts itself."""


def split_type(text):
    """'__u32[4][4]' -> ('__u32', [4, 4]); a flexible array has the dimension 0."""
    base, *dimensions = re.split(r"[\[\]]+", text.rstrip("]"))
    return base, [int(d or 0) for d in dimensions] if "[" in text else []


def quoted(text):
    """A C string literal, or nullptr for None."""
    return json.dumps(text) if text is not None else "nullptr"


class Scope:
    """Everything that lands in one C++ namespace."""

    def __init__(self, facts, namespace, ioctl_prefix, base=None):
        self.namespace, self.ioctl_prefix, self.base = namespace, ioctl_prefix, base
        self.title = f"{facts['version']}: {facts['source']}"
        self.ioctls, self.structs, self.constants = facts["ioctls"], facts["structs"], facts["constants"]
        self.commands, self.shmem = facts.get("commands", []), facts.get("shmem", {})
        self.by_name = {s["name"]: s for s in self.structs}
        self.base_ioctls = {i["name"]: i for i in base.ioctls} if base else {}
        if len(self.by_name) != len(self.structs):
            raise FactError(f"{namespace}: a struct is described twice")

    def cpp_type(self, field):
        base, dimensions = split_type(field["type"])
        if base.endswith("*"):
            return "std::uint64_t"
        if base in SCALARS:
            return SCALARS[base]
        if base in self.by_name:
            return base
        if base.startswith(("enum ", "HSA_")) and not dimensions:
            return f"std::{'' if base in SIGNED_ENUMS else 'u'}int{8 * field['size']}_t"
        raise FactError(f"{self.namespace}: field {field['name']} has the unknown type {field['type']}")

    def ioctl_tag(self, ioctl):
        """DRM_IOCTL_AMDGPU_GEM_VA -> GemVa"""
        words = ioctl["name"].removeprefix(self.ioctl_prefix).split("_")
        return "".join(word.capitalize() for word in words)

    def shares_struct(self, name):
        """Whether the base has this struct too, equal down to the structs inside it."""
        if not self.base or self.base.by_name.get(name) != self.by_name[name]:
            return False
        return all(self.shares_struct(inner) for inner in self.structs_in(self.by_name[name]["fields"]))

    def shares_ioctl(self, ioctl):
        return self.base_ioctls.get(ioctl["name"]) == ioctl and (
            not ioctl["struct"] or self.shares_struct(ioctl["struct"]))

    def structs_in(self, fields):
        for field in fields:
            if "kind" in field:
                yield from self.structs_in(field["fields"])
            elif split_type(field["type"])[0] in self.by_name:
                yield split_type(field["type"])[0]


def flattened(fields, group=(0, 0), groups=None):
    """The fields of a struct with its anonymous members spread out: (field, (union group, arm))."""
    groups = groups if groups is not None else [0]
    for field in fields:
        if field["name"]:
            yield field, group
        elif field["kind"] == "struct":
            yield from flattened(field["fields"], group, groups)
        else:
            groups[0] += 1
            number = groups[0]
            for arm, member in enumerate(field["fields"]):
                yield from flattened([member], (number, arm), groups)
