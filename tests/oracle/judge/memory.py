"""The memory a step hands to the kernel: structs and arrays, what stands in them, and which fields are watched."""

import re
from dataclasses import dataclass, field

from .abi import SCALARS
from .expressions import StatementError
from .language import split_outside_brackets

# Longer arrays are watched as bytes, or in their first elements, not field by field.
MAX_WATCHED_ELEMENTS = 64


@dataclass
class Buffer:
    size: int
    label: str
    fills: list = field(default_factory=list)        # (offset, bytes)
    assignments: list = field(default_factory=list)  # (offset, width, value in the probe's form)
    watches: list = field(default_factory=list)      # (offset, width, count, kind, name)

    def lines(self, index):
        """In the probe's form (probe/program.h)."""
        yield f"buffer {index} {self.size} {self.label}"
        for offset, data in self.fills:
            if data:
                yield f"fill {index} {offset} {data.hex()}"
        for offset, width, value in self.assignments:
            yield f"set {index} {offset} {width} {value}"
        for offset, width, count, kind, name in self.watches:
            yield f"watch {index} {offset} {width} {count} {kind} {name}"


def is_array(text):
    """TYPE[...], as opposed to an expression."""
    return re.fullmatch(r"\w+\[.*\]", text, re.DOTALL) is not None


class Memory:
    """The buffers of one step. Values in them come from `expressions`."""

    def __init__(self, abi, expressions):
        self.abi = abi
        self.expressions = expressions
        self.buffers = []

    def array(self, text, label):
        """TYPE[element, ...] in a buffer of its own; returns the buffer's index."""
        type_name, inner = re.fullmatch(r"(\w+)\[(.*)\]", text, re.DOTALL).groups()
        type_ = self.abi.type(type_name)
        elements = self._elements(inner)
        index = len(self.buffers)
        buffer = Buffer(type_.size * len(elements), label)
        self.buffers.append(buffer)
        written = set()
        for i, element in enumerate(elements):
            if element.startswith("{"):
                written |= self._struct_fields(buffer, type_name, i * type_.size, element[1:-1], f"{label}[{i}].")
            else:
                self._assign(buffer, i * type_.size, type_.size, element, f"{label}[{i}]")
        self._watch_array(buffer, type_name, type_, len(elements), written)
        return index

    def _elements(self, text):
        elements = []
        for part in split_outside_brackets(text, ","):
            repeated = re.fullmatch(r"(\w+) ?\* ?(.+)", part)
            if part.startswith('"'):
                elements += [str(byte) for byte in part[1:-1].encode()]
            elif repeated and not part.startswith("{"):
                elements += [repeated[2]] * self.expressions.constant(repeated[1])
            else:
                elements.append(part)
        return elements

    def struct(self, size, struct_name, fields, tail):
        """The argument struct, announced with `size` bytes. A caller's shorter struct has no fields beyond its end; what
        a longer one has there is `tail`. Arrays without a size of their own (kfd_ioctl_svm_args.attrs) stand behind it."""
        main = Buffer(size, "arg")
        self.buffers.append(main)
        if struct_name is None or not self.abi.has_type(struct_name):
            if fields:
                raise StatementError("the fields of this ioctl's struct are not known here")
            return
        struct_size = self.abi.type(struct_name).size
        if tail is not None and size > struct_size:
            main.fills.append((struct_size, bytes([tail]) * (size - struct_size)))
        kept = []
        for part in fields:
            path, _, value = part.partition("=")
            offset, width, _ = self.abi.locate(struct_name, path)
            if width == 0:
                self._inline(main, offset, self._content(value))
            elif offset + width <= size:
                kept.append(part)
        written = self._struct_fields(main, struct_name, 0, " ".join(kept), "")
        for leaf in self.abi.leaves(struct_name, written):
            if leaf.offset + leaf.width * leaf.count <= size:
                main.watches.append((leaf.offset, leaf.width, leaf.count, leaf.kind, leaf.path))

    def appended_size(self, struct_name, fields):
        """Bytes of the arrays that stand behind the struct."""
        if struct_name is None or not self.abi.has_type(struct_name):
            return 0
        parts = [part.partition("=") for part in fields]
        return sum(self._content(value).size for path, _, value in parts
                   if self.abi.locate(struct_name, path)[1] == 0)

    def _struct_fields(self, buffer, struct_name, base, text, prefix):
        """Writes "field=value ..."; returns the paths."""
        written = set()
        for part in split_outside_brackets(text, " ,"):
            path, equals, value = part.partition("=")
            if not equals:
                raise StatementError(f"expected field=value, not \"{part}\"")
            offset, width, type_ = self.abi.locate(struct_name, path)
            written.add(path)
            if type_.is_array and is_array(value):
                content = self._content(value)
                if content.size > width:
                    raise StatementError(f"{value} is longer than the field")
                self._inline(buffer, base + offset, content)
            elif type_.members or (type_.is_array and not type_.text):
                raise StatementError(f"{path} is not a number")
            else:
                self._assign(buffer, base + offset, width, value, prefix + path)
        return written

    def _assign(self, buffer, offset, width, value, label):
        if value.startswith('"'):
            buffer.fills.append((offset, value[1:-1].encode()[:width]))
        elif is_array(value):
            buffer.assignments.append((offset, width, f"&{self.array(value, label)}"))
        else:
            buffer.assignments.append((offset, width, self.expressions.value(value)))

    def _content(self, text):
        """An array as it would stand in a buffer of its own."""
        scratch = Memory(self.abi, self.expressions)
        scratch.array(text, "")
        return scratch.buffers[0]

    @staticmethod
    def _inline(buffer, offset, content):
        buffer.fills += [(offset + start, data) for start, data in content.fills]
        buffer.assignments += [(offset + start, width, value) for start, width, value in content.assignments]

    def _watch_array(self, buffer, type_name, type_, count, written):
        if type_name not in SCALARS:
            for i in range(min(count, MAX_WATCHED_ELEMENTS)):
                buffer.watches += [(i * type_.size + leaf.offset, leaf.width, leaf.count, leaf.kind,
                                    f"{buffer.label}[{i}].{leaf.path}")
                                   for leaf in self.abi.leaves(type_name, written)]
        elif type_.size == 1 or count > MAX_WATCHED_ELEMENTS:
            buffer.watches.append((0, buffer.size, 1, "bytes", buffer.label))
        else:
            buffer.watches.append((0, type_.size, count, "hex" if type_.size == 8 else "number", buffer.label))

    def place(self, struct_name, path):
        """(buffer, offset, width) of a field: of the argument struct, or of an array that hangs off it."""
        first = re.match(r"\w+(?:\.\w+)*", path)[0]
        nested = [i for i, buffer in enumerate(self.buffers) if i and buffer.label == first]
        if not nested:
            return 0, *self.abi.locate(struct_name, path)[:2]
        for offset, width, count, _, name in self.buffers[nested[0]].watches:
            for i in range(count):
                if path in (name, f"{name}[{i}]"):
                    return nested[0], offset + i * width, width
        raise StatementError(f"no field {path}")
