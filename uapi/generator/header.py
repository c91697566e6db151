"""The header of one namespace: constants, structs with their assertions, ioctl types."""

from generator.facts import quoted, split_type


def header(scope):
    lines = [f"namespace {scope.namespace} {{", ""]
    lines += constant_lines(scope)
    lines += shmem_lines(scope)
    lines += [""]
    lines += struct_lines(scope)
    lines += ioctl_lines(scope)
    lines += ["std::span<const IoctlDescriptor> ioctls();",
              "std::span<const StructDescriptor> structs();",
              "std::span<const ConstantDescriptor> constants();"]
    if scope.commands:
        lines += ["std::span<const CommandDescriptor> commands();"]
    lines += ["", f"}}  // namespace {scope.namespace}", ""]
    return "\n".join(lines)


def constant_lines(scope):
    shared = {c["name"]: c["value"] for c in scope.base.constants} if scope.base else {}
    for constant in scope.constants:
        name, value = constant["name"], constant["value"]
        if shared.get(name) == value:
            yield f"using {scope.base.namespace}::{name};"
        elif value < 0:
            yield f"inline constexpr std::int32_t {name} = {value};"
        else:
            yield f"inline constexpr std::uint{32 if value <= 0xFFFFFFFF else 64}_t {name} = {value:#x};"


def shmem_lines(scope):
    numbers = {name: value for name, value in scope.shmem.items() if isinstance(value, int)}
    if not numbers:
        return
    yield "namespace shmem {"
    for name, value in numbers.items():
        camel_case = "".join(word.capitalize() for word in name.split("_"))
        yield f"inline constexpr std::uint32_t k{camel_case} = {value};"
    yield "}  // namespace shmem"


def struct_lines(scope):
    for struct in scope.structs:
        name = struct["name"]
        if scope.shares_struct(name):
            yield f"using {scope.base.namespace}::{name};"
            continue
        attribute = "__attribute__((packed)) " if struct.get("packed") else ""
        if "pack" in struct:
            yield f"#pragma pack(push, {struct['pack']})"
        yield f"{struct['kind']} {attribute}{name} {{"
        yield from member_lines(scope, struct["fields"], "  ")
        yield "};"
        if "pack" in struct:
            yield "#pragma pack(pop)"
        yield f"static_assert(sizeof({name}) == {struct['size']} && alignof({name}) == {struct['align']});"
        for path, offset in offsets(struct["fields"], ""):
            yield f"static_assert(offsetof({name}, {path}) == {offset});"
        yield ""


def member_lines(scope, fields, indent):
    for field in fields:
        name = field["name"]
        if "kind" in field:
            yield f"{indent}{field['kind']} {{"
            yield from member_lines(scope, field["fields"], indent + "  ")
            count = f"[{field['count']}]" if "count" in field else ""
            yield f"{indent}}}{' ' + name if name else ''}{count};"
            continue
        _, dimensions = split_type(field["type"])
        suffix = "".join(f"[{d or ''}]" for d in dimensions)
        if "bitsize" in field:
            suffix = f" : {field['bitsize']}"
        cpp = scope.cpp_type(field)
        if cpp == name:  # C++ wants to hear that the type of this name is meant
            cpp = f"{scope.by_name[cpp]['kind']} {cpp}"
        yield f"{indent}{cpp} {name}{suffix};"


def offsets(fields, prefix):
    """(designator, offset) of everything that has an address of its own."""
    for field in fields:
        path = prefix + field["name"]
        if "bitsize" in field:
            continue
        if field["name"]:
            yield path, field["offset"]
        if "kind" in field and "count" not in field:
            yield from offsets(field["fields"], path + "." if field["name"] else prefix)


def ioctl_lines(scope):
    for ioctl in scope.ioctls:
        tag = scope.ioctl_tag(ioctl)
        if scope.shares_ioctl(ioctl):
            yield f"using {scope.base.namespace}::{tag};"
            continue
        without_struct = f"std::uint{8 * ioctl['size']}_t" if ioctl["size"] else "void"
        yield f"struct {tag} : Ioctl<{ioctl['cmd']}, {ioctl['struct'] or without_struct}> {{"
        yield f"  static constexpr const char* kName = {quoted(ioctl['name'])};"
        yield "  static const IoctlDescriptor& descriptor();"
        yield "};"
    yield ""
