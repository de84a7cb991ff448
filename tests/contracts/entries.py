"""What the census knows of each built-in part: which contract it keeps, and which scene of the replay kit it is in.

A contract is a function that runs it, or the test elsewhere that does (`Cited`). Instead of a scene a part may be
`Free`: it draws nothing, which the census holds against its module; or proven by an attack that is cited.
"""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Cited:
    """``tests/<file>::<function>``, which calls ``kit``."""

    test: str
    kit: str = ""

    def problem(self, part: str) -> str:
        """Why it does not stand for ``part``, or an empty string."""
        path, _, name = self.test.partition("::")
        if not (TESTS / path).exists():
            return f"{path} does not exist"
        functions = _functions(TESTS / path)
        if not name.startswith("test_") or name not in functions:
            return f"{path} has no {name}"
        if part.rpartition(".")[2] not in (TESTS / path).read_text(encoding="utf-8"):
            return f"{path} does not name {part}"
        if self.kit and self.kit not in _called(name, functions):
            return f"{name} does not call {self.kit}"
        return ""


@dataclass(frozen=True)
class Free:
    """Nothing is drawn: ``why`` it needs no noise."""

    why: str


@dataclass(frozen=True)
class Entry:
    """``contract``: a function or `Cited`. ``replay``: names of scenes, or `Cited`, or `Free`."""

    contract: Any
    replay: Any


@cache
def _functions(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _called(name, functions, seen=()):
    """Names that a test calls, also through functions of its own file."""
    found = set()
    for node in ast.walk(functions[name]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
    for other in found & functions.keys() - {name, *seen}:
        found |= _called(other, functions, (*seen, name))
    return found
