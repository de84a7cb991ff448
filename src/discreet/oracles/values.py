"""Whether a value answers a task: a class, several of them, or a skip. Values never appear in what is said of them."""

from __future__ import annotations

from collections.abc import Container, Sequence

from discreet.errors import BadInput
from discreet.records import Value


def checked_classes(classes: Sequence[str], *, multilabel: bool = False) -> tuple[str, ...]:
    """Declared classes, or BadInput."""
    if isinstance(classes, str) or not all(isinstance(name, str) and name for name in classes):
        raise BadInput("the classes of a task", "they are not a list of texts", 'Declare them, like ["cat", "dog"]')
    least = 1 if multilabel else 2
    if len(classes) < least or len(set(classes)) < len(classes):
        raise BadInput(
            f"a task of {len(classes)} classes", f"it needs {least} or more, each named once", "Declare all of them"
        )
    return tuple(classes)


def fits(value: object, known: Container[str], *, multilabel: bool) -> bool:
    """Whether it is a skip, a known class or, for several labels, a tuple of them."""
    if value is None:
        return True
    if not multilabel:
        return isinstance(value, str) and value in known
    return isinstance(value, tuple) and all(isinstance(label, str) and label in known for label in value)


def in_order(value: Value, classes: Sequence[str]) -> Value:
    """Several labels in the order of the classes, each once: two people who mean the same say the same."""
    if not isinstance(value, tuple):
        return value
    return tuple(name for name in classes if name in value)
