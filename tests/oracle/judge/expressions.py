"""Values in sequences: numbers, constants of the ABI, variables, and what can be added of them."""

import ast
import re

MASK64 = (1 << 64) - 1
# Variables every sequence has; the probe sets them.
PREDEFINED = ("nowhere", "readonly", "pid")
MAX_VARIABLES = 256

CONSTANT_OPERATIONS = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.BitOr: lambda a, b: a | b, ast.BitAnd: lambda a, b: a & b, ast.LShift: lambda a, b: a << b,
}


class StatementError(Exception):
    """A mistake in a statement; who reads the file adds where."""


class Expressions:
    """The variables of one sequence, and expressions in the probe's form."""

    def __init__(self, abi):
        self.abi = abi
        self.variables = {name: i for i, name in enumerate(PREDEFINED)}

    def variable(self, name, create=False):
        if name not in self.variables:
            if not create:
                raise StatementError(f"no variable ${name}")
            if len(self.variables) == MAX_VARIABLES:
                raise StatementError("too many variables")
            self.variables[name] = len(self.variables)
        return self.variables[name]

    def value(self, text):
        """What `text` is, as the probe reads it."""
        variable, number = self._evaluate(text)
        if variable is None:
            return str(number) if number < 10 else hex(number)
        return f"${variable}" + (f"+{number}" if number else "")

    def operand(self, text):
        """As value(); a variable that stands alone needs no $."""
        return self.value(f"${text}" if text in self.variables else text)

    def constant(self, text):
        variable, number = self._evaluate(text)
        if variable is not None:
            raise StatementError(f"\"{text}\" must be a constant")
        return number

    def _evaluate(self, text):
        """(variable or None, number)"""
        names = {}

        def replace(match):
            names[f"variable_{match[1]}"] = match[1]
            return f"variable_{match[1]}"

        try:
            tree = ast.parse(re.sub(r"\$(\w+)", replace, text), mode="eval").body
        except SyntaxError:
            raise StatementError(f"\"{text}\" is not an expression") from None
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
            operation = CONSTANT_OPERATIONS.get(type(tree.op))
            if operation and left is None and right is None:
                return None, operation(left_number, right_number)
            if isinstance(tree.op, ast.Add) and (left is None or right is None):
                return left if left is not None else right, left_number + right_number
            if isinstance(tree.op, ast.Sub) and right is None:
                return left, left_number - right_number
        raise StatementError(f"\"{text}\" is not a constant, nor a variable plus a constant")
