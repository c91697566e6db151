"""Statements to the flat program the probe runs (probe/program.h describes that form)."""

import json
import re
from dataclasses import dataclass, field

from .abi import AbiError
from .expressions import Expressions, StatementError
from .language import SequenceError, Statement, split_outside_brackets
from .memory import Memory, is_array

DIRECTIONS = {"none": 0, "w": 1, "r": 2, "rw": 3}
BLOCKS = ("fork", "thread")


@dataclass
class Step:
    """What is emitted for one statement."""

    call: str
    operation: str
    operands: list = field(default_factory=list)
    on: str = ""
    arguments: object = None
    buffers: list = field(default_factory=list)
    saves: list = field(default_factory=list)  # (variable, buffer, offset, width)
    results: list = field(default_factory=list)


class SequenceCompiler:
    """Compiles one sequence for one class of nodes."""

    def __init__(self, abi, file, sequence, makers):
        self.abi = abi
        self.file = file
        self.sequence = sequence
        self.makers = makers  # macro name -> text, of the class
        self.expressions = Expressions(abi)
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
            except (AbiError, StatementError) as error:
                self.fail(str(error))

    def statement(self, statement, loop):
        words = split_outside_brackets(self.substitute(statement.text, loop), " ")
        if words[0] == "for":
            self.loop(words, statement, loop)
            return
        self.quietly = words[0] == "quietly"
        self.step(words[self.quietly:], statement, loop)

    def step(self, words, statement, loop):
        """One step of any kind; `statement` gives the block, for those that take one."""
        names = []
        if "=" in words:
            position = words.index("=")
            names, words = words[:position], words[position + 1:]
        verb, bracket, options = words[0].partition("[") if words else ("", "", "")
        if verb in self.makers:
            self.macro(verb, names, words[1:])
            return
        handler = getattr(self, "do_" + verb.replace("-", "_"), None)
        if handler is None:
            self.fail(f"no statement \"{verb}\"")
        if bracket and verb != "ioctl":
            self.fail(f"\"{verb}\" takes no [options]")
        if verb in BLOCKS:
            handler(words[1:], statement, loop)
            return
        if statement.body:
            self.fail(f"\"{verb}\" takes no block")
        if verb == "ioctl":
            self.do_ioctl(words[1:], dict(part.split("=", 1) for part in split_outside_brackets(options[:-1], " ")))
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
            self.step(words, Statement(self.line, line), {})
        self.quiet = False
        if names:
            self.emit(Step(name, "value", [self.expressions.value(f"${names[0]}")], arguments=" ".join(arguments)))

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
        memory = Memory(self.abi, self.expressions)
        size += memory.appended_size(struct, fields)
        if "size" in options:
            size = self.expressions.constant(options["size"])
        number = self.expressions.constant(options["nr"]) if "nr" in options else number
        direction = options.get("dir", direction)
        letter = options.get("type", letter)
        tail = self.expressions.constant(options["tail"]) if "tail" in options else None
        command = DIRECTIONS[direction] << 30 | (size & 0x3fff) << 16 | ord(letter) << 8 | number & 0xff

        memory.struct(size, struct, fields, tail)
        argument = self.argument(memory, options["arg"]) if "arg" in options else "&0"
        step = Step(name, "ioctl", [self.expressions.operand(target), hex(command), argument], target, arguments,
                    memory.buffers)
        for save in saves:
            variable, equals, path = save.partition("=")
            if not equals:
                self.fail("expected variable=field after \"->\"")
            step.saves.append((self.expressions.variable(variable, create=True), *memory.place(struct, path)))
        self.emit(step)

    def argument(self, memory, text):
        return f"&{memory.array(text, 'data')}" if is_array(text) else self.expressions.value(text)

    # Other statements: names are what stands left of "=", words what follows the verb.

    def simple(self, operation, names, words, operand_count, result_count=0, defaults=()):
        given = list(words) + list(defaults[len(words) - operand_count:] if len(words) < operand_count else [])
        if len(given) != operand_count or len(names) > result_count:
            self.fail(f"\"{operation}\" takes {operand_count} operands and gives {result_count} results")
        step = Step(operation, operation, [self.expressions.operand(word) for word in given], arguments=" ".join(words))
        self.results(step, names)
        self.emit(step)

    def results(self, step, names):
        if names:
            step.arguments = f"{' '.join(names)} = {step.arguments or ''}".strip()
        step.results = [self.expressions.variable(name, create=True) for name in names]

    def do_open(self, names, words):
        node, flags = words[0], words[1] if len(words) > 1 else "O_RDWR"
        self.nodes.add(node)
        step = Step("open", "open", [node, self.expressions.operand(flags)], arguments=" ".join(words))
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
        step = Step("mmap", "mmap", [self.expressions.operand(part) for part in (address, length, protection, flags, fd, offset)],
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
        memory = Memory(self.abi, self.expressions)
        memory.array(words[1], "data")
        self.emit(Step("write", "write", [self.expressions.operand(words[0]), "&0", str(memory.buffers[0].size)],
                       arguments=" ".join(words), buffers=memory.buffers))

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
        self.helper("kill", words, [self.expressions.operand(words[1])])

    def do_interrupt(self, names, words):
        self.helper("interrupt", words, [self.expressions.operand(words[1]) if len(words) > 1 else self.expressions.operand("SIGUSR1")])

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
            lines += buffer.lines(index)
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
