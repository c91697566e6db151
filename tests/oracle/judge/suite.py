"""The whole of tests/oracle as data: sequences, classes of nodes, kernels, golden files."""

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from .abi import Abi
from .compiler import compile_sequence
from .language import SequenceError, parse_version, read_folder

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = ROOT.parents[1]


@dataclass
class Place:
    """Somewhere sequences of a class can run: the kernel, or one simulated machine."""

    name: str
    driver: str
    nodes: dict
    arguments: list = field(default_factory=list)
    absent: dict = field(default_factory=dict)  # node -> why this place has none
    kernels: list = field(default_factory=list)  # whose recordings it is compared with; empty for all


@dataclass
class NodeClass:
    name: str
    title: str
    kernel: Place
    machines: list
    until: tuple = (999,)  # the last kernel that has such a node
    not_compared: str = ""  # why there are no machines


class Suite:
    def __init__(self, sequences=None, golden=None):
        self.abi = Abi(REPOSITORY / "uapi", ROOT / "abi")
        nodes = tomllib.loads((ROOT / "nodes.toml").read_text())
        self.drivers = nodes.pop("drivers")
        self.classes = {name: self._class(name, row) for name, row in nodes.items()}
        self.kernels = tomllib.loads((ROOT / "kernels.toml").read_text())["kernel"]
        self.golden = Path(golden) if golden else ROOT / "golden"
        self.files = read_folder(Path(sequences) if sequences else ROOT / "sequences", set(self.classes))

    @staticmethod
    def _class(name, row):
        machines = [Place(m["name"], m["driver"], m["nodes"], m["arguments"], m.get("absent", {}),
                          m.get("kernels", [])) for m in row.get("machine", [])]
        kernel = Place("kernel", row["kernel"]["driver"], row["kernel"]["nodes"])
        return NodeClass(name, row["title"], kernel, machines, parse_version(row.get("until", "999")),
                         row.get("not_compared", ""))

    def kernel(self, name):
        for row in self.kernels:
            if row["name"] == name:
                return row
        raise SequenceError(f"no kernel {name} in kernels.toml (there are: "
                            f"{', '.join(row['name'] for row in self.kernels)})")

    def recorded_kernels(self):
        return [row["name"] for row in self.kernels if (self.golden / row["name"] / "kernel.json").exists()]

    def runs_on(self, class_name, file, sequence, kernel_version):
        """Is the sequence for nodes of this class, and has that kernel what it needs?"""
        classes = sequence.only or file.classes
        return (class_name in classes and kernel_version <= self.classes[class_name].until
                and max(file.since, sequence.since) <= kernel_version)

    def sequences(self, class_name, kernel_version):
        """(file, sequence) pairs of a class on a kernel."""
        return [(file, sequence) for file in self.files for sequence in file.sequences
                if self.runs_on(class_name, file, sequence, kernel_version)]

    def compile(self, file, sequence, place):
        return compile_sequence(self.abi, file, sequence, self.drivers.get(place.driver, {}))

    def golden_folder(self, kernel_name, class_name):
        return self.golden / kernel_name / class_name


def by_sequence(lines):
    """Transcript lines as {sequence: [step, ...]}, in order. Lines that are no JSON are a broken transcript."""
    found = {}
    for line in lines:
        try:
            step = json.loads(line)
        except json.JSONDecodeError:
            raise SequenceError(f"not a transcript line: {line[:200]}") from None
        found.setdefault(step["sequence"], []).append(step)
    return found
