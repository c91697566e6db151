"""Statements to the flat program the probe runs (probe/program.h describes that form)."""

import ast
import json
import re
from dataclasses import dataclass, field

from .abi import SCALARS, AbiError
from .language import SequenceError, split_outside_brackets

MASK64 = (1 << 64) - 1
DIRECTIONS = {"none": 0, "w": 1, "r": 2, "rw": 3}
# Variables every sequence has; the probe sets them.
PREDEFINED = ("nowhere", "readonly", "pid")
MAX_VARIABLES = 256
# Arrays longer than this are watched as bytes, not field by field.
MAX_WATCHED_ELEMENTS = 64


@dataclass
class Buffer:
    size: int
    label: str
    fills: list = field(default_factory=list)
    assignments: list = field(default_factory=list)
    watches: list = field(default_factory=list)


@dataclass
class Step:
    """What is emitted for one statement."""

    call: str
    operation: str
    operands: list = field(default_factory=list)
    on: str = ""
    arguments: object = None
    buffers: list = field(default_factory=list)
    saves: list = field(default_factory=list)
    results: list = field(default_factory=list)


class SequenceCompiler:
    """Compiles one sequence for one class of nodes."""

    def __init__(self, abi, file, sequence, makers):
        self.abi = abi
        self.file = file
        self.sequence = sequence
        self.makers = makers  # macro name -> text, of the class
        self.variables = {name: i for i, name in enumerate(PREDEFINED)}
        self.lines = []
        self.step_count = 0
        self.exec_count = 0
        self.nodes = set()
        self.within = ""
        self.line = sequence.line
        self.quiet = False    # inside a macro: no number of its own
        self.quietly = False  # by the author's wish: printed only when it fails

    def fail(self, message):
        raise SequenceError(f"{self.file.path}:{self.line}: {message}")

    def compile(self):
        self.lines.append(f"sequence {self.sequence.name}")
        self.statements(self.sequence.statements, {})
        return self.lines

    def statements(self, statements, loop):
        for statement in statements:
            self.line = statement.line
            try:
                self.statement(statement, loop)
            except AbiError as error:
                self.fail(str(error))

    def statement(self, statement, loop):
        text = self.substitute(statement.text, loop)
        words = split_outside_brackets(text, " ")
        if words[0] == "for":
            self.loop(words, statement, loop)
            return
        self.quietly = words[0] == "quietly"
        words = words[self.quietly:]
        names = []
        if "=" in words:
            position = words.index("=")
            names, words = words[:position], words[position + 1:]
        verb = words[0] if words else ""
        verb_name, bracket, _ = verb.partition("[")
        handler = getattr(self, "do_" + verb_name.replace("-", "_"), None)
        if handler is None and verb_name in self.makers:
            self.macro(verb_name, names, words[1:])
            return
        if handler is None:
            self.fail(f"no statement \"{verb_name}\"")
        if statement.body and verb_name not in ("fork", "thread"):
            self.fail(f"\"{verb_name}\" takes no block")
        options = dict(part.split("=", 1) for part in split_outside_brackets(verb[len(verb_name) + 1:-1], " ")) \
            if bracket else {}
        if verb_name in ("fork", "thread"):
            handler(words[1:], statement, loop)
        elif verb_name == "ioctl":
            self.do_ioctl(words[1:], options)
        else:
            handler(names, words[1:])

    @staticmethod
    def substitute(text, loop):
        for name, value in sorted(loop.items(), key=lambda item: -len(item[0])):
            text = text.replace("@" + name, value)
        return text

    def loop(self, words, statement, loop):
        """for NAME[,NAME] in VALUE... ; a VALUE is text, A..B, or with several names their values joined by commas."""
        if len(words) < 4 or words[2] != "in" or not statement.body:
            self.fail("expected \"for NAME in VALUE...\" and an indented block")
        names = words[1].split(",")
        for word in words[3:]:
            values = self.loop_values(word)
            for value in values:
                parts = split_outside_brackets(value, ",") if len(names) > 1 else [value]
                if len(parts) != len(names):
                    self.fail(f"\"{value}\" has {len(parts)} values for {len(names)} names")
                self.statements(statement.body, {**loop, **dict(zip(names, parts))})

    def loop_values(self, word):
        match = re.fullmatch(r"(\w+)\.\.(\w+)", word)
        if not match:
            return [word]
        first, last = (int(part, 0) for part in match.groups())
        style = hex if match[1].startswith("0x") else str
        return [style(number) for number in range(first, last + 1)]

    def macro(self, name, names, arguments):
        """A statement the class defines in its own ioctls, so that one sequence suits every driver's buffers."""
        macro = self.makers[name]
        parameters = dict(zip(macro["parameters"], arguments))
        if len(names) != len(macro.get("gives", [])) or len(parameters) != len(arguments):
            self.fail(f"expected \"{' '.join(macro.get('gives', []))} = {name} {' '.join(macro['parameters'])}\"")
        parameters.update(zip(macro.get("gives", []), names))
        self.quiet = True
        for line in macro["text"].strip().splitlines():
            words = split_outside_brackets(self.substitute(line, parameters), " ")
            taken = []
            if "=" in words:
                taken, words = words[:words.index("=")], words[words.index("=") + 1:]
            verb_name = words[0].partition("[")[0]
            if verb_name == "ioctl":
                self.do_ioctl(words[1:], {})
            else:
                getattr(self, "do_" + verb_name.replace("-", "_"))(taken, words[1:])
        self.quiet = False
        if names:
            step = Step(name, "value", [self.operand(f"${names[0]}")], arguments=" ".join(arguments))
            self.emit(step)

    # Values.

    def variable(self, name, create=False):
        if name not in self.variables:
            if not create:
                self.fail(f"no variable ${name}")
            if len(self.variables) == MAX_VARIABLES:
                self.fail("too many variables")
            self.variables[name] = len(self.variables)
        return self.variables[name]

    def evaluate(self, text):
        """(variable or None, number) of an expression; variables may only be added to."""
        names = {}

        def replace(match):
            names[f"variable_{match[1]}"] = match[1]
            return f"variable_{match[1]}"

        try:
            tree = ast.parse(re.sub(r"\$(\w+)", replace, text), mode="eval").body
        except SyntaxError:
            self.fail(f"\"{text}\" is not an expression")
        variable, number = self._fold(tree, names, text)
        return variable, number & MASK64

    def _fold(self, tree, names, text):
        if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
            return None, tree.value
        if isinstance(tree, ast.Name):
            if tree.id in names:
                return self.variable(names[tree.id]), 0
            return None, self.abi.constant(tree.id)
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, (ast.USub, ast.Invert)):
            variable, number = self._fold(tree.operand, names, text)
            if variable is None:
                return None, -number if isinstance(tree.op, ast.USub) else ~number
        if isinstance(tree, ast.BinOp):
            left, left_number = self._fold(tree.left, names, text)
            right, right_number = self._fold(tree.right, names, text)
            operations = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.BitOr: lambda a, b: a | b,
                          ast.BitAnd: lambda a, b: a & b, ast.LShift: lambda a, b: a << b, ast.Mult: lambda a, b: a * b}
            operation = operations.get(type(tree.op))
            if operation and left is None and right is None:
                return None, operation(left_number, right_number)
            if isinstance(tree.op, ast.Add) and (left is None or right is None):
                return left if left is not None else right, left_number + right_number
            if isinstance(tree.op, ast.Sub) and right is None:
                return left, left_number - right_number
        return self.fail(f"\"{text}\" is not a constant, nor a variable plus a constant")

    def operand(self, text):
        """An operand in the probe's form. A bare variable name may stand without its $."""
        if text in self.variables:
            text = f"${text}"
        variable, number = self.evaluate(text)
        if variable is None:
            return hex(number) if number > 9 else str(number)
        return f"${variable}" + (f"+{number}" if number else "")

    # Memory handed to a call.

    def array(self, step, text, label):
        """TYPE[element, ...] or TYPE[n * element] or u8["text"]: a buffer of its own; returns its index."""
        match = re.fullmatch(r"(\w+)\[(.*)\]", text, re.DOTALL)
        type_name, inner = match[1], match[2].strip()
        elements = []
        for part in split_outside_brackets(inner, ","):
            repeated = re.fullmatch(r"(\w+) ?\* ?(.+)", part)
            if repeated and not part.startswith("{"):
                elements += [repeated[2]] * self.evaluate(repeated[1])[1]
            elif part.startswith('"'):
                elements += [str(byte) for byte in part[1:-1].encode()]
            else:
                elements.append(part)
        type_ = self.abi.type(type_name)
        index = len(step.buffers)
        buffer = Buffer(type_.size * len(elements), label)
        step.buffers.append(buffer)
        written = set()
        for i, element in enumerate(elements):
            if element.startswith("{"):
                written |= self.struct_fields(step, index, type_name, i * type_.size, element[1:-1], f"{label}[{i}].")
            else:
                self.assign(step, index, i * type_.size, type_.size, element, f"{label}[{i}]")
        self.watch_array(buffer, type_name, type_, len(elements), written, label)
        return index

    def watch_array(self, buffer, type_name, type_, count, written, label):
        if type_name in SCALARS:
            kind = "hex" if type_.size == 8 else "number"
            if type_.size == 1 or count > MAX_WATCHED_ELEMENTS:
                kind = "bytes"
            if kind == "bytes" and buffer.size:
                buffer.watches.append((0, buffer.size, 1, "bytes", label))
            elif count:
                buffer.watches.append((0, type_.size, count, kind, label))
            return
        for i in range(min(count, MAX_WATCHED_ELEMENTS)):
            for leaf in self.abi.leaves(type_name, written):
                buffer.watches.append((i * type_.size + leaf.offset, leaf.width, leaf.count, leaf.kind,
                                       f"{label}[{i}].{leaf.path}"))

    def struct_fields(self, step, index, struct_name, base, text, prefix):
        written = set()
        for part in split_outside_brackets(text, " ,"):
            path, equals, value = part.partition("=")
            if not equals:
                self.fail(f"expected field=value, not \"{part}\"")
            offset, width, type_ = self.abi.locate(struct_name, path)
            written.add(path)
            if type_.is_array and re.fullmatch(r"\w+\[.*\]", value, re.DOTALL):
                self.inline_array(step, index, base + offset, type_, value)
            elif type_.members or (type_.is_array and not type_.text):
                self.fail(f"{path} is not a number")
            else:
                self.assign(step, index, base + offset, width, value, prefix + path)
        return written

    def inline_array(self, step, index, offset, type_, text):
        scratch = Step("", "")
        self.array(scratch, text, "")
        content = scratch.buffers[0]
        if type_ is not None and content.size > type_.size:
            self.fail(f"{text} is longer than the field")
        buffer = step.buffers[index]
        buffer.fills += [(offset + start, data) for start, data in content.fills]
        buffer.assignments += [(offset + start, width, value) for start, width, value in content.assignments]

    def assign(self, step, index, offset, width, value, label):
        buffer = step.buffers[index]
        if value.startswith('"'):
            data = value[1:-1].encode()[:width]
            buffer.fills.append((offset, data))
        elif re.fullmatch(r"\w+\[.*\]", value, re.DOTALL) and self.abi.has_type(value.partition("[")[0]):
            buffer.assignments.append((offset, width, f"&{self.array(step, value, label)}"))
        else:
            buffer.assignments.append((offset, width, self.operand_value(value)))

    def operand_value(self, text):
        variable, number = self.evaluate(text)
        if variable is None:
            return str(number) if number < 10 else hex(number)
        return f"${variable}" + (f"+{number}" if number else "")

    # ioctl.

    def do_ioctl(self, words, options):
        """ioctl[size=N dir=rw nr=N type=C arg=VALUE tail=BYTE] FD NAME field=value... [-> variable=field...]"""
        saves = []
        if "->" in words:
            position = words.index("->")
            saves, words = words[position + 1:], words[:position]
        if len(words) < 2:
            self.fail("expected \"ioctl FD NAME field=value...\"")
        known = {"size", "dir", "nr", "type", "arg", "tail"}
        if set(options) - known:
            self.fail(f"ioctl[...] knows {', '.join(sorted(known))}")
        target, name, fields = words[0], words[1], words[2:]
        arguments = dict(part.split("=", 1) for part in fields if "=" in part)
        arguments.update({f"_{key}": value for key, value in options.items()})
        if name == "raw":
            number, direction, letter, size, struct = 0, "none", "\0", 0, None
        else:
            ioctl = self.abi.ioctl(name)
            number, direction, letter = ioctl.number, ioctl.direction.lower(), ioctl.type_char
            size, struct = ioctl.size, ioctl.struct
        struct_size = self.abi.type(struct).size if struct and self.abi.has_type(struct) else size
        appended, fields = self.split_appended(struct, fields)
        size += sum(self.appended_size(value) for _, value in appended)
        number = self.evaluate(options["nr"])[1] if "nr" in options else number
        direction = options.get("dir", direction)
        letter = options.get("type", letter)
        size = self.evaluate(options["size"])[1] if "size" in options else size
        command = DIRECTIONS[direction] << 30 | (size & 0x3fff) << 16 | ord(letter) << 8 | number & 0xff

        step = Step(name, "ioctl", on=target, arguments=arguments)
        step.buffers.append(Buffer(size, "arg"))
        main = step.buffers[0]
        if "tail" in options and size > struct_size:
            main.fills.append((struct_size, bytes([self.evaluate(options["tail"])[1]]) * (size - struct_size)))
        self.main_struct(step, main, struct, fields)
        for offset, value in appended:
            self.inline_array(step, 0, offset, None, value)
        argument = self.argument(step, options["arg"]) if "arg" in options else "&0"
        step.operands = [self.operand(target), hex(command), argument]
        for save in saves:
            self.save(step, struct, save)
        self.emit(step)

    def split_appended(self, struct, fields):
        """Array fields without a size of their own stand behind the struct (kfd_ioctl_svm_args.attrs)."""
        appended, rest = [], []
        for part in fields:
            path, _, value = part.partition("=")
            known = struct and self.abi.has_type(struct)
            offset, width, _ = self.abi.locate(struct, path) if known else (0, 1, None)
            if width == 0:
                appended.append((offset, value))
            else:
                rest.append(part)
        return appended, rest

    def appended_size(self, text):
        scratch = Step("", "")
        self.array(scratch, text, "")
        return scratch.buffers[0].size

    def argument(self, step, text):
        if re.fullmatch(r"\w+\[.*\]", text, re.DOTALL):
            return f"&{self.array(step, text, 'data')}"
        return self.operand_value(text)

    def main_struct(self, step, main, struct, fields):
        if struct is None or not self.abi.has_type(struct):
            if fields:
                self.fail("the fields of this ioctl's struct are not known here")
            return
        # A caller's shorter struct has no fields beyond its end.
        kept = [part for part in fields
                if sum(self.abi.locate(struct, part.partition("=")[0])[:2]) <= main.size]
        written = self.struct_fields(step, 0, struct, 0, " ".join(kept), "")
        for leaf in self.abi.leaves(struct, written):
            if leaf.offset + leaf.width * leaf.count <= main.size:
                main.watches.append((leaf.offset, leaf.width, leaf.count, leaf.kind, leaf.path))

    def save(self, step, struct, text):
        name, equals, path = text.partition("=")
        if not equals:
            self.fail("expected variable=field after \"->\"")
        first = re.match(r"\w+(?:\.\w+)*", path)[0]
        nested = [i for i, buffer in enumerate(step.buffers) if i and buffer.label == first]
        variable = self.variable(name, create=True)
        if nested:
            for offset, width, count, _, label in step.buffers[nested[0]].watches:
                for i in range(count):
                    if path in (label, f"{label}[{i}]"):
                        step.saves.append((variable, nested[0], offset + i * width, width))
                        return
            self.fail(f"no field {path}")
        offset, width, _ = self.abi.locate(struct, path)
        step.saves.append((variable, 0, offset, width))

    # Other statements: names are what stands left of "=", words what follows the verb.

    def simple(self, operation, names, words, operand_count, result_count=0, defaults=()):
        given = list(words) + list(defaults[len(words) - operand_count:] if len(words) < operand_count else [])
        if len(given) != operand_count or len(names) > max(result_count, 0):
            self.fail(f"\"{operation}\" takes {operand_count} operands and gives {result_count} results")
        step = Step(operation, operation, [self.operand(word) for word in given], arguments=" ".join(words))
        self.results(step, names)
        self.emit(step)

    def results(self, step, names):
        if names:
            step.arguments = f"{' '.join(names)} = {step.arguments or ''}".strip()
        step.results = [self.variable(name, create=True) for name in names]

    def do_open(self, names, words):
        node, flags = words[0], words[1] if len(words) > 1 else "O_RDWR"
        self.nodes.add(node)
        step = Step("open", "open", [node, self.operand(flags)], arguments=" ".join(words))
        self.results(step, names)
        self.emit(step)

    def do_close(self, names, words):
        self.simple("close", names, words, 1)

    def do_dup(self, names, words):
        self.simple("dup", names, words, 1, 1)

    def do_mmap(self, names, words):
        """A = mmap FD LENGTH PROT FLAGS OFFSET [ADDRESS]"""
        if len(words) not in (5, 6):
            self.fail("expected \"mmap FD LENGTH PROT FLAGS OFFSET [ADDRESS]\"")
        fd, length, protection, flags, offset = words[:5]
        address = words[5] if len(words) == 6 else "0"
        step = Step("mmap", "mmap", [self.operand(part) for part in (address, length, protection, flags, fd, offset)],
                    arguments=" ".join(words))
        self.results(step, names)
        self.emit(step)

    def do_munmap(self, names, words):
        self.simple("munmap", names, words, 2)

    def do_mprotect(self, names, words):
        self.simple("mprotect", names, words, 3)

    def do_peek(self, names, words):
        self.simple("peek", names, words, 2, 1)

    def do_poke(self, names, words):
        self.simple("poke", names, words, 3)

    def do_poll(self, names, words):
        self.simple("poll", names, words, 3)

    def do_lseek(self, names, words):
        self.simple("lseek", names, words, 3)

    def do_read(self, names, words):
        self.simple("read", names, words, 2)

    def do_write(self, names, words):
        """write FD u8[...]"""
        if len(words) != 2:
            self.fail("expected \"write FD TYPE[...]\"")
        step = Step("write", "write", arguments=" ".join(words))
        index = self.array(step, words[1], "data")
        step.operands = [self.operand(words[0]), f"&{index}", str(step.buffers[index].size)]
        self.emit(step)

    def do_stat(self, names, words):
        self.simple("stat", names, words, 1)

    def do_fcntl(self, names, words):
        self.simple("fcntl", names, words, 3, defaults=("0",))

    def do_memfd(self, names, words):
        self.simple("memfd", names, words, 1, 1)

    def do_pipe(self, names, words):
        self.simple("pipe", names, words, 0, 2)

    def do_socketpair(self, names, words):
        self.simple("socketpair", names, words, 0, 2)

    def do_send(self, names, words):
        self.simple("send", names, words, 2)

    def do_receive(self, names, words):
        self.simple("receive", names, words, 1, 1)

    def do_memory(self, names, words):
        self.simple("memory", names, words, 2, 1, defaults=("0",))

    def do_no_more_files(self, names, words):
        self.simple("no-more-files", names, words, 0)

    def do_drop_capabilities(self, names, words):
        self.simple("drop-capabilities", names, words, 0)

    def do_alarm(self, names, words):
        self.simple("alarm", names, words, 1)

    def do_exit(self, names, words):
        self.simple("exit", names, words, 1)

    def do_let(self, names, words):
        self.fail("there is no \"let\"; write the value where it is used")

    def do_exec(self, names, words):
        self.exec_count += 1
        self.emit(Step("exec", "exec", [str(self.exec_count)]))

    def helper(self, operation, words, extra=()):
        if not words:
            self.fail(f"\"{operation}\" needs a name")
        self.emit(Step(operation, operation, [words[0], *extra], arguments=" ".join(words)))

    def do_wait(self, names, words):
        self.helper("wait", words)

    def do_join(self, names, words):
        self.helper("join", words)

    def do_blocked(self, names, words):
        self.helper("blocked", words)

    def do_kill(self, names, words):
        self.helper("kill", words, [self.operand(words[1])])

    def do_interrupt(self, names, words):
        self.helper("interrupt", words, [self.operand(words[1]) if len(words) > 1 else self.operand("SIGUSR1")])

    def do_fork(self, words, statement, loop):
        background = "background" in words[1:]
        self.block("fork", words, statement, loop)
        if not background:
            self.helper("wait", words[:1])

    def do_thread(self, words, statement, loop):
        self.block("thread", words, statement, loop)

    def block(self, operation, words, statement, loop):
        if not words or not statement.body:
            self.fail(f"expected \"{operation} NAME\" and an indented block")
        self.emit(Step(operation, operation, [words[0]], arguments=" ".join(words)))
        self.lines.append("body")
        outer, self.within = self.within, words[0]
        self.statements(statement.body, loop)
        self.within = outer
        self.lines.append("end")

    # Output.

    def emit(self, step):
        self.step_count += not self.quiet
        # The quiet steps of a macro share the number of the one that follows them and prints.
        echo = {"sequence": self.sequence.name, "step": self.step_count + self.quiet}
        if self.within:
            echo["in"] = self.within
        echo["call"] = step.call
        if step.on:
            echo["on"] = step.on
        if step.arguments:
            echo["args"] = step.arguments
        lines = ["step " + json.dumps(echo, separators=(",", ":"))[:-1]]
        if self.quiet or self.quietly:
            lines.append("quiet")
        for index, buffer in enumerate(step.buffers):
            lines.append(f"buffer {index} {buffer.size} {buffer.label}")
            lines += [f"fill {index} {offset} {data.hex()}" for offset, data in buffer.fills if data]
            lines += [f"set {index} {offset} {width} {value}" for offset, width, value in buffer.assignments]
            lines += [f"watch {index} {offset} {width} {count} {kind} {name}"
                      for offset, width, count, kind, name in buffer.watches]
        lines += [f"save {variable} {index} {offset} {width}" for variable, index, offset, width in step.saves]
        lines += [f"result {variable}" for variable in step.results]
        lines.append(" ".join(["do", step.operation, *step.operands]))
        self.lines += lines


@dataclass
class Program:
    lines: list
    step_count: int
    nodes: set


def compile_sequence(abi, file, sequence, makers):
    compiler = SequenceCompiler(abi, file, sequence, makers)
    lines = compiler.compile()
    return Program(lines, compiler.step_count, compiler.nodes)
