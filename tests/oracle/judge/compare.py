"""Comparison of a simulated machine's transcript with the kernel's, and the reviewed table of differences."""

import fnmatch
import json
import tomllib
from dataclasses import dataclass, field

MISSING = "(missing)"


@dataclass
class Mismatch:
    kernel: str
    node_class: str
    machine: str
    door: str
    sequence: str
    step: int
    call: str
    field: str
    expected: object
    actual: object

    def __str__(self):
        return (f"{self.sequence} step {self.step} ({self.call}), {self.field}: kernel {self.kernel} has "
                f"{json.dumps(self.expected)}, {self.machine} through {self.door} has {json.dumps(self.actual)}")


@dataclass
class Difference:
    """A row of differences.toml: which mismatches it explains."""

    row: dict
    line: int
    uses: int = 0

    KEYS = ("kernel", "class", "machine", "door", "sequence", "step", "call", "field", "expected", "actual")

    def explains(self, mismatch):
        values = {"kernel": mismatch.kernel, "class": mismatch.node_class, "machine": mismatch.machine,
                  "door": mismatch.door, "sequence": mismatch.sequence, "step": mismatch.step, "call": mismatch.call,
                  "field": mismatch.field, "expected": mismatch.expected, "actual": mismatch.actual}
        return all(self._matches(self.row[key], values[key]) for key in self.KEYS if key in self.row)

    @staticmethod
    def _matches(wanted, value):
        if isinstance(wanted, list):
            return any(Difference._matches(item, value) for item in wanted)
        if isinstance(wanted, str) and not isinstance(value, (dict, list)):
            return fnmatch.fnmatchcase(str(value), wanted)
        return wanted == value


class DifferenceError(Exception):
    """differences.toml is not what it should be."""


def read_differences(path):
    rows = tomllib.loads(path.read_text()).get("difference", []) if path.exists() else []
    differences = []
    for index, row in enumerate(rows, 1):
        unknown = set(row) - set(Difference.KEYS) - {"reason"}
        if unknown or not row.get("reason"):
            raise DifferenceError(f"{path}: row {index}: " + (f"unknown key {', '.join(sorted(unknown))}" if unknown
                                                             else "a reason is required"))
        if not {"sequence", "call"} & set(row):
            raise DifferenceError(f"{path}: row {index}: name a sequence or a call")
        differences.append(Difference(row, index))
    return differences


def flatten(step):
    """The compared fields of one step. The call and its arguments show that both sides ran the same sequence."""
    fields = {"result": step.get("result", MISSING), "errno": step.get("errno", "")}
    if "end" in step:
        fields = {"end": step["end"]}
    for name, value in step.get("out", {}).items():
        fields[f"out.{name}"] = value
    fields["args"] = step.get("args", "")
    return fields


def key(step):
    return step.get("step", "end"), step.get("in", ""), step.get("call", "end")


@dataclass
class Result:
    """One sequence on one machine."""

    steps: int = 0
    equal: int = 0
    mismatches: list = field(default_factory=list)


def compare_sequence(golden, actual, where):
    """`where`: kernel, node_class, machine, door and sequence of the mismatches."""
    result = Result()
    simulated = {}
    for step in actual:
        simulated.setdefault(key(step), step)
    for step in golden:
        number = step.get("step", 0)
        call = step.get("call", "end")
        result.steps += "step" in step
        other = simulated.pop(key(step), None)
        if other is None:
            result.mismatches.append(Mismatch(**where, step=number, call=call, field="step", expected="ran",
                                              actual=MISSING))
            continue
        expected, found = flatten(step), flatten(other)
        differing = [name for name in {**expected, **found} if expected.get(name, MISSING) != found.get(name, MISSING)]
        result.equal += "step" in step and not differing
        result.mismatches += [Mismatch(**where, step=number, call=call, field=name,
                                       expected=expected.get(name, MISSING), actual=found.get(name, MISSING))
                              for name in differing]
    for step in simulated.values():
        result.mismatches.append(Mismatch(**where, step=step.get("step", 0), call=step.get("call", "end"), field="step",
                                          expected=MISSING, actual="ran"))
    return result
