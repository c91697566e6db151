"""What fields.json says about one interface: the meaning of fields that layouts cannot show."""

import fnmatch
import json

from generator.facts import FactError


def any_match(name, globs):
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


class Hints:
    def __init__(self, path, interface):
        facts = json.loads(path.read_text())
        self.path, self.interface = path, interface
        self.rules = [r for r in facts["rules"] if interface in r["interfaces"] or r["interfaces"] == ["*"]]
        self.selectors = [s for s in facts["selectors"] if interface in s["interfaces"]]
        self.used = []

    def rule_for(self, field_path):
        """The first rule for "struct.field", or an empty one."""
        for rule in self.rules:
            if any_match(field_path, rule["fields"]):
                self.used.append(rule)
                return rule
        return {}

    def check_all_used(self):
        unused = [r["fields"] for r in self.rules if r not in self.used and r["interfaces"] != ["*"]]
        if unused:
            raise FactError(f"{self.path.name}: no field of {self.interface} matches {unused}")


def named_constants(constants, rule):
    """("Flags" or "Values", the constants that name a field's value), or None."""
    kind = next((k for k in ("flags", "values") if k in rule), None)
    if not kind:
        return None
    chosen = [c for c in constants
              if (f"enum {c.get('enum')}" in rule[kind] or any_match(c["name"], rule[kind]))
              and not any_match(c["name"], rule.get("except", []))]
    if kind == "flags":  # the value with the most bits is tried first: some flags are small fields of bits
        chosen.sort(key=lambda c: -bin(c["value"]).count("1"))
    return kind.capitalize(), chosen
