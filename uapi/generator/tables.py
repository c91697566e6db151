"""The descriptor tables (uapi/descriptor.h) of one namespace."""

import math
import re

from generator.facts import FactError, flattened, quoted, split_type
from generator.hints import named_constants

DIRECTIONS = {"none": "kNone", "R": "kRead", "W": "kWrite", "RW": "kReadWrite"}
FLAGS = {"DRM_AUTH": "kAuth", "DRM_MASTER": "kMaster", "DRM_ROOT_ONLY": "kRootOnly",
         "DRM_RENDER_ALLOW": "kRenderAllow", "KFD_IOC_FLAG_CHECKPOINT_RESTORE": "kCheckpointRestore"}


def array(cpp_type, name, rows):
    return [f"constexpr {cpp_type} {name}[] = {{", *(f"    {row}," for row in rows), "};"] if rows else []


def constant_row(constant):
    return f"{{{quoted(constant['name'])}, {constant['value'] & 0xFFFFFFFFFFFFFFFF:#x}}}"


def struct_row(name, struct, fields, selector="nullptr"):
    is_union = "true" if struct["kind"] == "union" else "false"
    return f"{{{quoted(name)}, {struct['size']}, {struct['align']}, {is_union}, {fields}, {selector}}}"


def scalar_kind(base, cpp, element_size, hint):
    if cpp == "char":
        return "kChars"
    if base.endswith("*"):
        return "kPointer"
    if hint in ("pointer", "address") and element_size == 8:
        return f"k{hint.capitalize()}"
    if "::int" in cpp:
        return "kSigned"
    return f"k{hint.capitalize()}" if hint in ("size", "bits") else "kUnsigned"


class Tables:
    def __init__(self, scope, interface, hints):
        self.scope, self.interface, self.hints = scope, interface, hints
        self.index = {s["name"]: i for i, s in enumerate(scope.structs)}
        self.constant_sets = {}  # (kind, names) -> (number, constants)
        self.selectors = {}  # struct name -> (field index, [(value, arm)])
        self.inner_rows = []  # unnamed structs
        self.field_tables = []  # lines

    def source(self):
        scope = self.scope
        self.find_selectors()
        struct_rows = []
        for struct in scope.structs:
            name = struct["name"]
            selector = f"&kSelector_{name}" if name in self.selectors else "nullptr"
            struct_rows.append(struct_row(name, struct, self.add_fields(name, struct["fields"], 0), selector))

        lines = [f"namespace {scope.namespace} {{", "namespace {", ""]
        for name, rows in (("kStructs", struct_rows), ("kInnerStructs", self.inner_rows)):
            if rows:  # fields refer to structs, which refer to fields
                lines += [f"extern const StructDescriptor {name}[{len(rows)}];"]
        lines += self.set_lines()
        lines += self.field_tables
        lines += self.selector_lines()
        lines += array("StructDescriptor", "kInnerStructs", self.inner_rows)
        lines += array("StructDescriptor", "kStructs", struct_rows)
        lines += array("IoctlDescriptor", "kIoctls", [self.ioctl_row(i) for i in scope.ioctls])
        lines += array("ConstantDescriptor", "kConstants", [constant_row(c) for c in scope.constants])
        lines += self.command_lines()
        lines += ["", "}  // namespace", ""]
        lines += self.function_lines()
        lines += ["", f"}}  // namespace {scope.namespace}", ""]
        return "\n".join(lines)

    def function_lines(self):
        for number, ioctl in enumerate(self.scope.ioctls):
            if not self.scope.shares_ioctl(ioctl):
                tag = self.scope.ioctl_tag(ioctl)
                yield f"const IoctlDescriptor& {tag}::descriptor() {{ return kIoctls[{number}]; }}"
        for kind in ("Ioctl", "Struct", "Constant", "Command"):
            function = kind.lower() + "s"
            rows = getattr(self.scope, function)
            if rows or kind != "Command":
                table = f"k{kind}s" if rows else "{}"
                yield f"std::span<const {kind}Descriptor> {function}() {{ return {table}; }}"

    def struct_reference(self, name):
        return f"&kStructs[{self.index[name]}]" if name else "nullptr"

    def ioctl_row(self, ioctl):
        flags = ioctl.get("kernel_flags", "0")
        bits = " | ".join(f"IoctlFlags::{FLAGS[f]}" for f in (flags or "0").split("|") if f != "0")
        return (f"{{{quoted(ioctl['name'])}, {quoted(self.interface)}, {ioctl['nr']}, {ioctl['cmd']}, "
                f"Direction::{DIRECTIONS[ioctl['dir']]}, {ioctl['size']}, {self.struct_reference(ioctl['struct'])}, "
                f"{bits or 'IoctlFlags::kNone'}, {'false' if flags is None else 'true'}}}")

    # --- fields -------------------------------------------------------------------------------------------

    def add_fields(self, path, fields, origin):
        """Adds the field table of one struct, after those of the unnamed structs in it. Returns its name."""
        rows = [self.field_row(f"{path}.{field['name']}", field, origin, group) for field, group in flattened(fields)]
        table = "kFields_" + path.replace(".", "_")
        self.field_tables += array("FieldDescriptor", table, rows)
        return table

    def field_row(self, path, field, origin, group):
        nested = constants = "nullptr"
        if "kind" in field:
            count, is_array, kind = field.get("count", 1), "count" in field, "kStruct"
            element_size = field["size"] // count
            inner = {"size": element_size, "align": self.alignment(field["fields"]), "kind": field["kind"]}
            self.inner_rows.append(struct_row(path, inner, self.add_fields(path, field["fields"], field["offset"])))
            nested = f"&kInnerStructs[{len(self.inner_rows) - 1}]"
        else:
            base, dimensions = split_type(field["type"])
            count, is_array = math.prod(dimensions), bool(dimensions)
            if base in self.index:
                kind, element_size = "kStruct", self.scope.by_name[base]["size"]
                nested = self.struct_reference(base)
            else:
                cpp = self.scope.cpp_type(field)
                element_size = 1 if cpp == "char" else int(re.search(r"\d+", cpp).group()) // 8
                rule = self.hints.rule_for(path)
                kind = scalar_kind(base, cpp, element_size, rule.get("kind"))
                constants = self.set_reference(rule)
        return (f"{{{quoted(field['name'])}, {field['offset'] - origin}, {element_size}, {count}, FieldKind::{kind}, "
                f"{str(is_array).lower()}, {field.get('bitpos', 0)}, {field.get('bitsize', 0)}, "
                f"{group[0]}, {group[1]}, {nested}, {constants}}}")

    def alignment(self, fields):
        """Alignment of an unnamed struct: that of its largest member. (None of them is in a packed struct.)"""
        sizes = [1]
        for field, _ in flattened(fields):
            if "kind" in field:
                sizes.append(self.alignment(field["fields"]))
            else:
                base, dimensions = split_type(field["type"])
                nested = self.scope.by_name.get(base)
                sizes.append(nested["align"] if nested else field["size"] // math.prod(dimensions))
        return max(sizes)

    def set_reference(self, rule):
        """The constant set of a field with named values; made on first use."""
        named = named_constants(self.scope.constants, rule)
        if not named:
            return "nullptr"
        kind, chosen = named
        if not chosen:
            if not self.scope.base:
                raise FactError(f"{self.scope.namespace}: no constant is meant by {rule}")
            return "nullptr"
        key = (kind, tuple(c["name"] for c in chosen))
        number, _ = self.constant_sets.setdefault(key, (len(self.constant_sets), chosen))
        return f"&kSet{number}"

    def set_lines(self):
        for (kind, _), (number, chosen) in self.constant_sets.items():
            yield from array("ConstantDescriptor", f"kSetConstants{number}", [constant_row(c) for c in chosen])
            yield f"constexpr ConstantSet kSet{number}{{ConstantSet::Kind::k{kind}, kSetConstants{number}}};"

    # --- selectors and commands ---------------------------------------------------------------------------

    def find_selectors(self):
        for selector in self.hints.selectors:
            self.add_selector(selector["struct"], selector["field"], selector["arms"].items())
        # A variant's requests have the same types as the interface's.
        for command in self.scope.commands or (self.scope.base.commands if self.scope.base else []):
            arms = [(sub["name"], re.split(r"\W", sub["request_args"])[0]) for sub in command["subtypes"]]
            self.add_selector(command["request_struct"], "type", arms)

    def add_selector(self, name, field_name, arms):
        """`arms` are (constant, arm); an arm may be named by the part before an underscore."""
        fields = self.scope.by_name[name]["fields"] if name in self.scope.by_name else []
        union = next((f for f in fields if f.get("kind") == "union" and not f["name"]), {"fields": []})
        values = {c["name"]: c["value"] for c in self.scope.constants}
        choices = []
        for constant, arm in arms:
            matching = [i for i, f in enumerate(union["fields"])
                        if arm and (f["name"] == arm or f["name"].startswith(arm + "_"))]
            if matching and constant in values:
                choices.append((values[constant], matching[0]))
        if choices:
            index = [field["name"] for field, _ in flattened(fields)].index(field_name)
            self.selectors[name] = (index, choices)

    def selector_lines(self):
        for name, (index, choices) in self.selectors.items():
            yield from array("ArmSelector::Choice", f"kChoices_{name}", [f"{{{v}, {arm}}}" for v, arm in choices])
            yield f"constexpr ArmSelector kSelector_{name}{{{index}, kChoices_{name}}};"

    def command_lines(self):
        rows = []
        for number, command in enumerate(self.scope.commands):
            sub_rows = [f"{{{quoted(s['name'])}, {s['value']}, {quoted(s['request_args'])}, {quoted(s['response'])}}}"
                        for s in command["subtypes"]]
            yield from array("SubcommandDescriptor", f"kSubcommands{number}", sub_rows)
            rows.append(f"{{{quoted(command['name'])}, {command['value']}, "
                        f"{self.struct_reference(command['request_struct'])}, "
                        f"{self.struct_reference(command['response_struct'])}, "
                        f"{f'kSubcommands{number}' if sub_rows else '{}'}}}")
        yield from array("CommandDescriptor", "kCommands", rows)
