"""The check: runs the sequences on Understudy through its doors and compares with every kernel's golden files."""

import fnmatch
import subprocess
import tempfile
from dataclasses import dataclass, field

from .compare import Result, compare_sequence
from .language import SequenceError
from .record import kernel_version
from .suite import by_sequence

DOORS = ("fuse", "socket")
RUN_TIMEOUT_S = 600


class CheckError(Exception):
    """The check could not be made: a program is missing, or a machine did not start."""


@dataclass
class Row:
    """Results of one sequence file of one class, for one kernel, machine and door."""

    kernel: str
    node_class: str
    machine: str
    door: str
    file: str
    results: dict = field(default_factory=dict)  # sequence -> Result
    not_compared: dict = field(default_factory=dict)  # sequence -> reason


def problem_with(understudy, door):
    """Why the door cannot be used on this host, or None."""
    try:
        done = subprocess.run([str(understudy), "run", "--door", door, "--cpu-only", "--", "true"], text=True,
                              capture_output=True, timeout=60)
    except FileNotFoundError:
        raise CheckError(f"{understudy} is not built") from None
    except subprocess.TimeoutExpired:
        return "a machine behind it does not end"
    return None if done.returncode == 0 else done.stderr.strip() or f"exit status {done.returncode}"


def run_machine(understudy, probe, place, door, program, extra):
    nodes = [word for name, path in place.nodes.items() for word in ("--node", f"{name}={path}")]
    with tempfile.NamedTemporaryFile("w", suffix=".program") as file:
        file.write(program)
        file.flush()
        command = [str(understudy), "run", "--door", door, *place.arguments, *extra, "--",
                   str(probe), "--timeout", "20", *nodes, file.name]
        try:
            done = subprocess.run(command, text=True, capture_output=True, timeout=RUN_TIMEOUT_S)
        except FileNotFoundError:
            raise CheckError(f"{understudy} is not built") from None
        except subprocess.TimeoutExpired:
            raise CheckError(f"{' '.join(command)}: no end within {RUN_TIMEOUT_S} s") from None
    if done.returncode == 2 or (done.returncode != 0 and not done.stdout):
        raise CheckError(f"{' '.join(command)}: {done.stderr.strip() or 'exit status %d' % done.returncode}")
    return done.stdout.splitlines()


def read_golden(suite, kernel_name, class_name, file_name):
    path = suite.golden_folder(kernel_name, class_name) / f"{file_name}.jsonl"
    if not path.exists():
        raise SequenceError(f"no recording of {file_name} on kernel {kernel_name}; "
                            f"run scripts/oracle --record --kernel {kernel_name}")
    return by_sequence(path.read_text().splitlines())


def matches(sequence_name, pattern):
    """A pattern is a file's name, or a shell pattern for FILE/SEQUENCE."""
    return sequence_name.partition("/")[0] == pattern or fnmatch.fnmatchcase(sequence_name, pattern)


def select(suite, class_name, kernels, only):
    """The sequences of a class that any of the kernels ran."""
    versions = [kernel_version(name) for name in kernels]
    return [(file, sequence) for file in suite.files for sequence in file.sequences
            if any(suite.runs_on(class_name, file, sequence, version) for version in versions)
            and (only is None or matches(sequence.name, only))]


def check(suite, kernels, doors, understudy, probe, only=None, extra=(), progress=lambda text: None):
    """One Row per (kernel, class, machine, door, file). Sequences run once a machine and door, for all kernels."""
    rows = []
    for node_class in suite.classes.values():
        for place in node_class.machines:
            for door in doors:
                rows += check_place(suite, kernels, node_class, place, door, understudy, probe, only, extra, progress)
        if not node_class.machines:
            rows += not_compared(suite, kernels, node_class, only)
    return rows


def not_compared(suite, kernels, node_class, only):
    """Rows of a class that no simulated machine answers for."""
    rows = {}
    for file, sequence in select(suite, node_class.name, kernels, only):
        row = rows.setdefault(file.name, Row("all", node_class.name, "none", "none", file.name))
        row.not_compared[sequence.name] = node_class.not_compared
    return list(rows.values())


def check_place(suite, kernels, node_class, place, door, understudy, probe, only, extra, progress):
    kernels = [name for name in kernels if name in (place.kernels or kernels)]
    program, absent = [], {}
    selected = select(suite, node_class.name, kernels, only)
    for file, sequence in selected:
        compiled = suite.compile(file, sequence, place)
        lacking = [node for node in sorted(compiled.nodes) if node not in place.nodes]
        if lacking:
            absent[sequence.name] = place.absent.get(lacking[0], f"the machine has no node {lacking[0]}")
        else:
            program += compiled.lines
    if not program:
        return []
    progress(f"{node_class.name} on {place.name} through {door}")
    found = by_sequence(run_machine(understudy, probe, place, door, "\n".join(program) + "\n", extra))
    rows = []
    for kernel_name in kernels:
        for file, sequence in selected:
            if not suite.runs_on(node_class.name, file, sequence, kernel_version(kernel_name)):
                continue
            if not rows or (rows[-1].kernel, rows[-1].file) != (kernel_name, file.name):
                rows.append(Row(kernel_name, node_class.name, place.name, door, file.name))
                golden = read_golden(suite, kernel_name, node_class.name, file.name)
            if sequence.name in absent:
                rows[-1].not_compared[sequence.name] = absent[sequence.name]
                continue
            if sequence.name not in golden:
                raise SequenceError(f"no recording of {sequence.name} on kernel {kernel_name}; "
                                    f"run scripts/oracle --record --kernel {kernel_name}")
            where = {"kernel": kernel_name, "node_class": node_class.name, "machine": place.name, "door": door,
                     "sequence": sequence.name}
            rows[-1].results[sequence.name] = compare_sequence(golden[sequence.name], found.get(sequence.name, []),
                                                               where)
    return rows


def judge(rows, differences):
    """Mismatches no row of the table explains; counts the uses of those that do."""
    unexplained = []
    for row in rows:
        for result in row.results.values():
            for mismatch in result.mismatches:
                reasons = [difference for difference in differences if difference.explains(mismatch)]
                if reasons:
                    reasons[0].uses += 1
                else:
                    unexplained.append(mismatch)
    return unexplained


def totals(rows):
    total = Result()
    for row in rows:
        for result in row.results.values():
            total.steps += result.steps
            total.equal += result.equal
    return total
