#!/usr/bin/env python3
"""Turns one kernel interface described in JSON into C++: a header to program against and tables to reflect on.

The JSON (uapi/<interface>.json) holds facts only:

  ioctls      name, number, direction, size, command word, argument struct, the driver's access flags
              (null: the header defines the ioctl, the driver has no handler for it)
  structs     in declaration order; every field with offset, size and C type. Nested unnamed structs and
              unions have "kind" and "fields" instead of "type"; a field without a name is an anonymous
              member. Offsets are those in the outermost struct. "pack" is #pragma pack(n), "packed" is
              __attribute__((packed)).
  constants   #defines and enumerators
  commands    requests of a protocol that does not use ioctls
  variants    other versions of the same interface, each one complete

It becomes

  include/uapi/<interface>.h           namespace uapi::<interface>
  include/uapi/<interface>_variants.h  namespaces uapi::<interface>::variants::<name>, if there are variants;
                                       what a variant shares with the interface is the same type there
  <interface>.cpp                      descriptor tables (uapi/descriptor.h)

Layouts are not trusted to the generator: the header asserts sizeof, alignof and every offsetof.
Pointers become std::uint64_t, because they belong to another process. Names are the kernel's; a translation
unit that also includes the kernel's own header cannot compile, since its constants are macros.

uapi/fields.json says what layouts cannot. A rule gives fields ("struct.field", shell globs; the first rule
that matches wins) the constants that are their flags or values, or a kind: pointer, address, size or bits.
Constants are named by globs too, or by "enum NAME". A selector says which arm of a struct's anonymous union
is meant, by the value of another field.
"""

import argparse
import fnmatch
import json
import math
import pathlib
import re
import sys

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
DIRECTIONS = {"none": "kNone", "R": "kRead", "W": "kWrite", "RW": "kReadWrite"}
FLAGS = {"DRM_AUTH": "kAuth", "DRM_MASTER": "kMaster", "DRM_ROOT_ONLY": "kRootOnly",
         "DRM_RENDER_ALLOW": "kRenderAllow", "KFD_IOC_FLAG_CHECKPOINT_RESTORE": "kCheckpointRestore"}


class FactError(Exception):
    """The JSON contradicts itself."""


def split_type(text):
    """'__u32[4][4]' -> ('__u32', [4, 4]); a flexible array has the dimension 0."""
    base, *dims = re.split(r"[\[\]]+", text.rstrip("]"))
    return base, [int(d or 0) for d in dims] if "[" in text else []


def camel_case(name):
    return "".join(part.capitalize() for part in name.split("_"))


def quoted(text):
    return json.dumps(text) if text is not None else "nullptr"


class Scope:
    """The interface itself, or one variant of it: everything that lands in one C++ namespace."""

    def __init__(self, facts, namespace, interface, prefix, hints, base=None):
        self.namespace, self.interface, self.prefix, self.base = namespace, interface, prefix, base
        self.ioctls, self.structs = facts["ioctls"], facts["structs"]
        self.constants = facts["constants"]
        self.commands = facts.get("commands", [])
        self.all_commands = self.commands or (base.commands if base else [])
        self.shmem = facts.get("shmem")
        self.by_name = {s["name"]: s for s in self.structs}
        self.hints = hints
        if len(self.by_name) != len(self.structs):
            raise FactError(f"{namespace}: a struct is described twice")

    def cpp_type(self, field):
        base, _ = split_type(field["type"])
        if base.endswith("*"):
            return "std::uint64_t"
        if base in SCALARS:
            return SCALARS[base]
        if base in self.by_name:
            return base
        if base.startswith(("enum ", "HSA_")):
            sign = "" if base == "HSA_QUEUE_PRIORITY" else "u"
            return f"std::{sign}int{8 * field['size']}_t"
        raise FactError(f"{self.namespace}: field {field['name']} has the unknown type {field['type']}")

    def same_as_base(self, name):
        """Whether the interface has this struct too, equal down to the structs inside it."""
        if not self.base or self.base.by_name.get(name) != self.by_name[name]:
            return False
        return all(self.same_as_base(n) for n in self.uses(self.by_name[name]["fields"]))

    def uses(self, fields):
        for field in fields:
            if "kind" in field:
                yield from self.uses(field["fields"])
            elif split_type(field["type"])[0] in self.by_name:
                yield split_type(field["type"])[0]

    # --- header -------------------------------------------------------------------------------------------

    def header(self):
        return "\n".join([f"namespace {self.namespace} {{", "", *self.constant_lines(), "",
                          *self.shmem_lines(), *self.struct_lines(), *self.ioctl_lines(),
                          "std::span<const IoctlDescriptor> ioctls();",
                          "std::span<const StructDescriptor> structs();",
                          "std::span<const ConstantDescriptor> constants();",
                          *(["std::span<const CommandDescriptor> commands();"] if self.commands else []),
                          "", f"}}  // namespace {self.namespace}", ""])

    def constant_lines(self):
        known = {c["name"]: c["value"] for c in self.base.constants} if self.base else {}
        for constant in self.constants:
            name, value = constant["name"], constant["value"]
            if known.get(name) == value:
                yield f"using {self.base.namespace}::{name};"
            elif value < 0:
                yield f"inline constexpr std::int32_t {name} = {value};"
            else:
                bits = 32 if value <= 0xFFFFFFFF else 64
                yield f"inline constexpr std::uint{bits}_t {name} = {value:#x};"

    def shmem_lines(self):
        if not self.shmem:
            return
        yield "namespace shmem {"
        for name, value in self.shmem.items():
            if isinstance(value, int):
                yield f"inline constexpr std::uint32_t k{camel_case(name)} = {value};"
        yield "}  // namespace shmem"
        yield ""

    def struct_lines(self):
        for struct in self.structs:
            name = struct["name"]
            if self.same_as_base(name):
                yield f"using {self.base.namespace}::{name};"
                continue
            attribute = "__attribute__((packed)) " if struct.get("packed") else ""
            if "pack" in struct:
                yield f"#pragma pack(push, {struct['pack']})"
            yield f"{struct['kind']} {attribute}{name} {{"
            yield from self.member_lines(struct["fields"], "  ")
            yield "};"
            if "pack" in struct:
                yield "#pragma pack(pop)"
            yield f"static_assert(sizeof({name}) == {struct['size']} && alignof({name}) == {struct['align']});"
            for path, offset in self.asserted_offsets(struct["fields"], ""):
                yield f"static_assert(offsetof({name}, {path}) == {offset});"
            yield ""

    def member_lines(self, fields, indent):
        for field in fields:
            name = field["name"]
            if "kind" in field:
                yield f"{indent}{field['kind']} {{"
                yield from self.member_lines(field["fields"], indent + "  ")
                count = f"[{field['count']}]" if "count" in field else ""
                yield f"{indent}}}{' ' + name if name else ''}{count};"
                continue
            _, dims = split_type(field["type"])
            suffix = "".join(f"[{d or ''}]" for d in dims)
            if "bitsize" in field:
                suffix = f" : {field['bitsize']}"
            cpp = self.cpp_type(field)
            if cpp == name:  # C++ wants to hear that the type of this name is meant
                cpp = f"{self.by_name[cpp]['kind']} {cpp}"
            yield f"{indent}{cpp} {name}{suffix};"

    def asserted_offsets(self, fields, prefix):
        for field in fields:
            name = field["name"]
            if "kind" in field and "count" not in field:
                if name:
                    yield prefix + name, field["offset"]
                yield from self.asserted_offsets(field["fields"], prefix + name + "." if name else prefix)
            elif "bitsize" not in field:
                yield prefix + name, field["offset"]

    def ioctl_tag(self, ioctl):
        prefix = self.prefix if ioctl["name"].startswith(self.prefix) else "DRM_IOCTL_"
        return camel_case(ioctl["name"].removeprefix(prefix))

    def ioctl_args(self, ioctl):
        if ioctl["struct"]:
            return ioctl["struct"]
        return f"std::uint{8 * ioctl['size']}_t" if ioctl["size"] else "void"

    def ioctl_lines(self):
        base = {i["name"]: i for i in self.base.ioctls} if self.base else {}
        for ioctl in self.ioctls:
            tag = self.ioctl_tag(ioctl)
            if base.get(ioctl["name"]) == ioctl and (not ioctl["struct"] or self.same_as_base(ioctl["struct"])):
                yield f"using {self.base.namespace}::{tag};"
                continue
            yield f"struct {tag} : Ioctl<{ioctl['cmd']}, {self.ioctl_args(ioctl)}> {{"
            yield f"  static constexpr const char* kName = {quoted(ioctl['name'])};"
            yield "  static const IoctlDescriptor& descriptor();"
            yield "};"
        yield ""

    # --- tables -------------------------------------------------------------------------------------------

    def tables(self):
        self.sets, self.inner = {}, []
        fields = []
        selectors = list(self.selector_lines())
        for struct in self.structs:
            self.add_fields(struct["name"], struct["fields"], 0, fields)
        lines = [f"namespace {self.namespace} {{", "namespace {", ""]
        if self.structs:
            lines.append(f"extern const StructDescriptor kStructs[{len(self.structs)}];")
        if self.inner:
            lines.append(f"extern const StructDescriptor kInnerStructs[{len(self.inner)}];")
        lines += self.set_lines()
        lines += fields
        lines += selectors
        if self.inner:
            lines.append(f"constexpr StructDescriptor kInnerStructs[{len(self.inner)}] = {{")
            lines += [f"    {entry}" for entry in self.inner] + ["};"]
        if self.structs:
            lines.append(f"constexpr StructDescriptor kStructs[{len(self.structs)}] = {{")
            for struct in self.structs:
                selector = f"&kSelector_{struct['name']}" if struct["name"] in self.selected else "nullptr"
                lines.append("    " + self.struct_entry(struct["name"], struct, f"kFields_{struct['name']}", selector))
            lines.append("};")
        if self.ioctls:
            lines.append("constexpr IoctlDescriptor kIoctls[] = {")
            lines += ["    " + self.ioctl_entry(i) for i in self.ioctls]
            lines.append("};")
        lines.append("constexpr ConstantDescriptor kConstants[] = {")
        lines += ["    " + self.constant_entry(c) for c in self.constants]
        lines.append("};")
        lines += self.command_table()
        lines += ["", "}  // namespace", ""]
        base = {i["name"]: i for i in self.base.ioctls} if self.base else {}
        for index, ioctl in enumerate(self.ioctls):
            shared = base.get(ioctl["name"]) == ioctl and (not ioctl["struct"] or self.same_as_base(ioctl["struct"]))
            if not shared:
                lines.append(f"const IoctlDescriptor& {self.ioctl_tag(ioctl)}::descriptor() {{ return kIoctls[{index}]; }}")
        for kind, function, table, filled in (("Ioctl", "ioctls", "kIoctls", self.ioctls),
                                              ("Struct", "structs", "kStructs", self.structs),
                                              ("Constant", "constants", "kConstants", True),
                                              ("Command", "commands", "kCommands", self.commands)):
            if function == "commands" and not filled:
                continue
            lines.append(f"std::span<const {kind}Descriptor> {function}() {{ return {table if filled else '{}'}; }}")
        lines += ["", f"}}  // namespace {self.namespace}", ""]
        return "\n".join(lines)

    def flattened(self, fields, group=(0, 0), groups=None):
        """The fields of a struct with its anonymous members spread out: (field, (union group, arm))."""
        groups = groups if groups is not None else [0]
        for field in fields:
            if field["name"] or "kind" not in field:
                yield field, group
            elif field["kind"] == "struct":
                yield from self.flattened(field["fields"], group, groups)
            else:
                groups[0] += 1
                number = groups[0]
                for arm, member in enumerate(field["fields"]):
                    yield from self.flattened([member], (number, arm), groups)

    def add_fields(self, path, fields, origin, out):
        """Appends the field table of one struct to `out`, those of the unnamed structs inside it first."""
        rows = [self.field_row(path, field, origin, group, out) for field, group in self.flattened(fields)]
        table = "kFields_" + path.replace(".", "_")
        out += [f"constexpr FieldDescriptor {table}[] = {{", *rows, "};"]
        return table

    def field_row(self, path, field, origin, group, out):
        name = field["name"]
        full = f"{path}.{name}"
        rule = self.rule_for(full)
        nested = names = "nullptr"
        if "kind" in field:
            count, is_array = field.get("count", 1), "count" in field
            element = field["size"] // count
            table = self.add_fields(full, field["fields"], field["offset"], out)
            inner = {"size": element, "align": self.alignment(field["fields"]), "kind": field["kind"]}
            self.inner.append(self.struct_entry(full, inner, table))
            kind, nested = "kStruct", f"&kInnerStructs[{len(self.inner) - 1}]"
        else:
            base, dims = split_type(field["type"])
            count, is_array = math.prod(dims), bool(dims)
            cpp = self.cpp_type(field) if count else self.cpp_type({**field, "size": 4})
            if base in self.by_name:
                kind, element = "kStruct", self.by_name[base]["size"]
                nested = f"&kStructs[{self.structs.index(self.by_name[base])}]"
            else:
                element = 1 if cpp == "char" else int(re.search(r"\d+", cpp).group()) // 8
                kind = self.scalar_kind(base, cpp, element, rule)
                names = self.set_reference(rule)
        return (f"    {{{quoted(name)}, {field['offset'] - origin}, {element}, {count}, FieldKind::{kind}, "
                f"{str(is_array).lower()}, {field.get('bitpos', 0)}, {field.get('bitsize', 0)}, "
                f"{group[0]}, {group[1]}, {nested}, {names}}},")

    def alignment(self, fields):
        """Alignment of an unnamed struct: that of its largest member. (None of them is in a packed struct.)"""
        sizes = [1]
        for field, _ in self.flattened(fields):
            if "kind" in field:
                sizes.append(self.alignment(field["fields"]))
            else:
                base, dims = split_type(field["type"])
                nested = self.by_name.get(base)
                sizes.append(nested["align"] if nested else field["size"] // math.prod(dims))
        return max(sizes)

    @staticmethod
    def scalar_kind(base, cpp, element, rule):
        if cpp == "char":
            return "kChars"
        hint = rule.get("kind")
        if base.endswith("*"):
            return "kPointer"
        if hint in ("pointer", "address") and element == 8:
            return f"k{hint.capitalize()}"
        if "::int" in cpp:
            return "kSigned"
        return f"k{hint.capitalize()}" if hint in ("size", "bits") else "kUnsigned"

    def rule_for(self, full):
        for rule in self.hints.rules:
            if any(fnmatch.fnmatchcase(full, glob) for glob in rule["fields"]):
                rule["used"] = True
                return rule
        return {}

    def set_reference(self, rule):
        """The constant set of a field with named values; made on first use."""
        kind = next((k for k in ("flags", "values") if k in rule), None)
        if not kind:
            return "nullptr"
        chosen = [c for c in self.constants if self.matches(c, rule[kind]) and not self.matches(c, rule.get("except", []))]
        if not chosen:
            if not self.base:
                raise FactError(f"{self.namespace}: no constant matches {rule[kind]}")
            return "nullptr"
        if kind == "flags":  # the value with the most bits is tried first: some flags are small fields of bits
            chosen.sort(key=lambda c: -bin(c["value"]).count("1"))
        key = (kind, tuple(c["name"] for c in chosen))
        number = self.sets.setdefault(key, (len(self.sets), chosen))[0]
        return f"&kSet{number}"

    @staticmethod
    def matches(constant, globs):
        return any(glob == f"enum {constant.get('enum')}" or fnmatch.fnmatchcase(constant["name"], glob) for glob in globs)

    def selector_lines(self):
        """For each struct with a selector: which value of its field means which arm of its anonymous union."""
        self.selected = set()
        for selector in self.hints.selectors:
            if selector["struct"] in self.by_name:
                yield from self.selector_table(selector["struct"], selector["field"], selector["arms"].items())
        for command in self.all_commands:
            if not command["subtypes"]:
                continue
            arms = [(sub["name"], re.split(r"\W", sub["request_args"])[0]) for sub in command["subtypes"]]
            yield from self.selector_table(command["request_struct"], "type", arms)

    def selector_table(self, name, field_name, arms):
        values = {c["name"]: c["value"] for c in self.constants}
        fields = self.by_name[name]["fields"]
        unions = [f for f in fields if f.get("kind") == "union" and not f["name"]]
        arm_of = {f["name"]: arm for arm, f in enumerate(unions[0]["fields"])} if unions else {}
        choices = []
        for constant, arm in arms:
            matching = [n for n in arm_of if n == arm or arm and n.startswith(arm + "_")]
            if constant in values and matching:
                choices.append((values[constant], arm_of[matching[0]]))
        if not choices:
            return
        index = [field["name"] for field, _ in self.flattened(fields)].index(field_name)
        self.selected.add(name)
        yield f"constexpr ArmSelector::Choice kChoices_{name}[] = {{"
        yield "    " + ", ".join(f"{{{value}, {arm}}}" for value, arm in choices) + ","
        yield "};"
        yield f"constexpr ArmSelector kSelector_{name}{{{index}, kChoices_{name}}};"

    def set_lines(self):
        for (kind, _), (number, chosen) in self.sets.items():
            yield f"constexpr ConstantDescriptor kSetConstants{number}[] = {{"
            yield from ("    " + self.constant_entry(c) for c in chosen)
            yield "};"
            yield f"constexpr ConstantSet kSet{number}{{ConstantSet::Kind::k{kind.capitalize()}, kSetConstants{number}}};"

    @staticmethod
    def struct_entry(name, struct, fields, selector="nullptr"):
        return (f"{{{quoted(name)}, {struct['size']}, {struct['align']}, "
                f"{'true' if struct['kind'] == 'union' else 'false'}, {fields}, {selector}}},")

    def ioctl_entry(self, ioctl):
        flags = ioctl.get("kernel_flags", "0")
        bits = " | ".join(f"IoctlFlags::{FLAGS[f]}" for f in (flags or "0").split("|") if f != "0")
        args = f"&kStructs[{self.structs.index(self.by_name[ioctl['struct']])}]" if ioctl["struct"] else "nullptr"
        return (f"{{{quoted(ioctl['name'])}, {quoted(self.interface)}, {ioctl['nr']}, {ioctl['cmd']}, "
                f"Direction::{DIRECTIONS[ioctl['dir']]}, {ioctl['size']}, {args}, "
                f"{bits or 'IoctlFlags::kNone'}, {'false' if flags is None else 'true'}}},")

    @staticmethod
    def constant_entry(constant):
        return f"{{{quoted(constant['name'])}, {constant['value'] & 0xFFFFFFFFFFFFFFFF:#x}}},"

    def command_table(self):
        if not self.commands:
            return
        def reference(name):
            return f"&kStructs[{self.structs.index(self.by_name[name])}]" if name else "nullptr"
        for number, command in enumerate(self.commands):
            if command["subtypes"]:
                yield f"constexpr SubcommandDescriptor kSubcommands{number}[] = {{"
                for sub in command["subtypes"]:
                    yield (f"    {{{quoted(sub['name'])}, {sub['value']}, {quoted(sub['request_args'])}, "
                           f"{quoted(sub['response'])}}},")
                yield "};"
        yield "constexpr CommandDescriptor kCommands[] = {"
        for number, command in enumerate(self.commands):
            subcommands = f"kSubcommands{number}" if command["subtypes"] else "{}"
            yield (f"    {{{quoted(command['name'])}, {command['value']}, {reference(command['request_struct'])}, "
                   f"{reference(command['response_struct'])}, {subcommands}}},")
        yield "};"


class Hints:
    """What fields.json says about one interface."""

    def __init__(self, path, interface):
        facts = json.loads(path.read_text())
        self.path, self.interface = path, interface
        self.rules = [r for r in facts["rules"] if interface in r["interfaces"] or r["interfaces"] == ["*"]]
        self.selectors = [s for s in facts["selectors"] if interface in s["interfaces"]]

    def check_all_used(self):
        unused = [r["fields"] for r in self.rules if not r.get("used") and r["interfaces"] != ["*"]]
        if unused:
            raise FactError(f"{self.path.name}: no field of {self.interface} matches {unused}")


def generate(json_path, fields_path, out_dir):
    interface = json_path.stem
    facts = json.loads(json_path.read_text())
    hints = Hints(fields_path, interface)
    prefix = facts.get("ioctl_prefix", "")
    namespace = f"uapi::{interface}"
    base = Scope(facts, namespace, interface, prefix, hints)
    variants = [Scope(v, f"{namespace}::variants::{v['name']}", interface, prefix, hints, base)
                for v in facts.get("variants", [])]

    note = f"// Generated by uapi/generate.py from uapi/{json_path.name}. Do not edit.\n"
    include = out_dir / "include" / "uapi"
    include.mkdir(parents=True, exist_ok=True)
    (include / f"{interface}.h").write_text(
        note + f"// {facts['version']}: {facts['source']}\n#pragma once\n\n#include <cstddef>\n#include <cstdint>\n"
        "#include <span>\n\n#include \"uapi/descriptor.h\"\n\n" + base.header())
    source = note + f"#include \"uapi/{interface}.h\"\n"
    if variants:
        text = note + f"#pragma once\n\n#include \"uapi/{interface}.h\"\n\n"
        for facts_of, scope in zip(facts["variants"], variants):
            text += f"// {facts_of['version']}: {facts_of['source']}\n" + scope.header() + "\n"
        (include / f"{interface}_variants.h").write_text(text)
        source += f"#include \"uapi/{interface}_variants.h\"\n"
    source += "\n" + "\n".join(scope.tables() for scope in [base, *variants])
    (out_dir / f"{interface}.cpp").write_text(source)

    hints.check_all_used()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=pathlib.Path, help="uapi/<interface>.json")
    parser.add_argument("--fields", type=pathlib.Path, required=True, help="uapi/fields.json")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="directory for include/uapi/*.h and *.cpp")
    arguments = parser.parse_args()
    try:
        generate(arguments.json, arguments.fields, arguments.output)
    except FactError as error:
        sys.exit(f"generate.py: {arguments.json}: {error}")


if __name__ == "__main__":
    main()
