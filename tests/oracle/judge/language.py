"""The sequence language: text to statements. README.md beside the sequences describes it for authors."""

import re
from dataclasses import dataclass, field


class SequenceError(Exception):
    """A mistake in a sequence file, with file and line."""


@dataclass
class Statement:
    line: int
    text: str
    body: list = field(default_factory=list)


@dataclass
class Sequence:
    name: str  # "file/sequence"
    line: int
    statements: list
    since: tuple = ()  # kernel version this needs, as (6, 12)
    only: tuple = ()   # classes, when fewer than the file's


@dataclass
class SequenceFile:
    name: str
    path: str
    classes: list
    since: tuple
    sequences: list


def split_outside_brackets(text, separators):
    """Splits at any of `separators` that is not inside brackets or quotes; empty parts are dropped."""
    parts, current, depth, quoted = [], "", 0, False
    for character in text:
        if character == '"':
            quoted = not quoted
        elif not quoted and character in "[{(":
            depth += 1
        elif not quoted and character in "]})":
            depth -= 1
        if character in separators and depth == 0 and not quoted:
            parts.append(current)
            current = ""
        else:
            current += character
    parts.append(current)
    return [part.strip() for part in parts if part.strip()]


def strip_comment(line):
    quoted = False
    for position, character in enumerate(line):
        if character == '"':
            quoted = not quoted
        elif character == "#" and not quoted and (position == 0 or line[position - 1].isspace()):
            return line[:position]
    return line


def parse_version(text):
    return tuple(int(part) for part in text.split("."))


def read_file(path, known_classes):
    """Parses one .seq file."""
    result = SequenceFile(path.stem, str(path), [], (), [])
    stack = []  # (indent, list of statements) of open blocks
    joined = ""
    for number, raw in enumerate(path.read_text().splitlines(), 1):
        line = joined + strip_comment(raw).rstrip()
        joined = ""
        if line.endswith("\\"):
            joined = line[:-1]
            continue
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip(" "))
        words = line.split()
        if indent == 0:
            _read_heading(result, words, number, known_classes, path)
            stack = [(0, result.sequences[-1].statements)] if result.sequences else []
            continue
        if not stack:
            raise SequenceError(f"{path}:{number}: a statement before any \"sequence\"")
        while len(stack) > 1 and indent < stack[-1][0]:
            stack.pop()
        if indent > stack[-1][0]:
            statements = stack[-1][1]
            if stack[-1][0] != 0:
                if not statements:
                    raise SequenceError(f"{path}:{number}: unexpected indentation")
                statements = statements[-1].body
            stack.append((indent, statements))
        stack[-1][1].append(Statement(number, line.strip()))
    if not result.classes:
        raise SequenceError(f"{path}: no \"on CLASS...\" line (classes: {', '.join(sorted(known_classes))})")
    return result


def _read_heading(result, words, number, known_classes, path):
    if words[0] == "on" and not result.sequences:
        unknown = [word for word in words[1:] if word not in known_classes]
        if unknown or len(words) == 1:
            raise SequenceError(f"{path}:{number}: class {' '.join(unknown) or '?'} is not one of "
                                f"{', '.join(sorted(known_classes))}")
        result.classes = words[1:]
    elif words[0] == "since" and len(words) == 2 and not result.sequences:
        result.since = parse_version(words[1])
    elif words[0] == "sequence" and len(words) >= 2 and re.fullmatch(r"[a-z0-9-]+", words[1]):
        options = dict(zip(words[2::2], words[3::2]))
        if set(options) - {"since", "on"}:
            raise SequenceError(f"{path}:{number}: expected \"sequence NAME [since VERSION] [on CLASS]\"")
        name = f"{result.name}/{words[1]}"
        if any(sequence.name == name for sequence in result.sequences):
            raise SequenceError(f"{path}:{number}: sequence {words[1]} exists already")
        result.sequences.append(Sequence(name, number, [],
                                         parse_version(options.get("since", "0")),
                                         tuple(options["on"].split(",")) if "on" in options else ()))
    else:
        raise SequenceError(f"{path}:{number}: expected \"on CLASS...\", \"since VERSION\" or \"sequence NAME\" "
                            f"(names: small letters, digits and dashes)")


def read_folder(folder, known_classes):
    return [read_file(path, known_classes) for path in sorted(folder.glob("*.seq"))]
