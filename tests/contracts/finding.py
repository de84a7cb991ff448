"""The built-in parts, read off the code: classes by the methods that make them a role, functions by what they return,
and every module that draws noise. Nothing is listed by hand, so that a new part cannot be forgotten.
"""

import ast
import importlib
import inspect
import pkgutil
from functools import cache
from pathlib import Path

import discreet
from discreet import noise

ROOT = Path(discreet.__file__).parent
ROOMS = ("scorers", "features", "selectors", "gates", "oracles", "trainers", "stream", "components", "tuning")
ROLES = {
    "scorer": ("score", "range", "needs"),
    "selector": ("select", "price"),
    "feature map": ("transform", "norm_bound", "identity"),
    "gate": ("release", "price"),
    "oracle": ("ask", "collect"),
    "aggregator": ("answer", "left"),
    "trainer": ("train",),
    "predictor": ("predict_proba", "sample_proba", "embed"),
    "online learner": ("ask", "learn_one"),
}
STREAM_PARTS = ("Asking", "UpdateNoise", "Window", "Slab", "Loss")
LEARNT = {"Student", "TextClassifier", "Votes", "TorchPredictor", "nn.Module"}
TAUGHT = {"x", "texts", "pictures", "records"}
"""What a function that trains returns, and what it reads."""
PLAYED_ELSEWHERE = ("testing", "bench", "audit")
"""Rooms whose draws attack, simulate or compare: they serve no person's records."""


@cache
def modules(room):
    package = importlib.import_module(f"discreet.{room}")
    folders = getattr(package, "__path__", [])  # none of a room that is one module
    names = [found.name for found in pkgutil.walk_packages(folders, f"discreet.{room}.")]
    return [package, *(importlib.import_module(name) for name in names)]


def _own(module, kind):
    for name, found in vars(module).items():
        if kind(found) and found.__module__ == module.__name__ and not name.startswith("_"):
            yield found


def _has(found, words):
    fields = getattr(found, "__dataclass_fields__", {})
    return all(hasattr(found, word) or word in fields for word in words)


def name_of(found):
    return f"{found.__module__.removeprefix('discreet.')}.{found.__qualname__}"


def is_part(found):
    """Which role a class plays, or None. A Protocol and a class with abstract methods play none."""
    if getattr(found, "_is_protocol", False) or inspect.isabstract(found):
        return None
    return next((role for role, words in ROLES.items() if _has(found, words)), None)


def parts_in(rooms=ROOMS):
    """{name: role} of every built-in part."""
    found = {}
    for room in rooms:
        for module in modules(room):
            for one in _own(module, inspect.isclass):
                role = is_part(one) or _stream_part(one)
                if role:
                    found[name_of(one)] = role
            if room == "trainers":
                for one in _own(module, inspect.isfunction):
                    if str(one.__annotations__.get("return")) in LEARNT and TAUGHT & set(one.__annotations__):
                        found[name_of(one)] = "trainer"
    return found


def _stream_part(found):
    if not found.__module__.startswith("discreet.stream.") or inspect.isabstract(found):
        return None
    if getattr(found, "_is_protocol", False):
        return None
    above = {one.__name__ for one in found.__mro__[1:]}
    return "stream part" if above & set(STREAM_PARTS) else None


# -- who draws

NO_DRAW = {"same_inputs", "remembers_inputs", "step_seal", "shared_secret", "charge_once"}
"""They take a receipt, or name one, and hide nothing."""


def draws():
    """The names in `discreet.noise` that hide something: they take a receipt."""
    found = set()
    for name in noise.__all__:
        one = getattr(noise, name)
        if not callable(one) or name in NO_DRAW:
            continue
        if {"receipt"} & set(inspect.signature(one).parameters):
            found.add(name)
    return found


@cache
def drawing_modules(root=ROOT):
    """{module: what it calls}, outside the noise room."""
    wanted, found = draws(), {}
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        if place.parts[0] in ("noise", *PLAYED_ELSEWHERE):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("discreet.noise")
            for alias in node.names
            if alias.name in wanted
        }
        if imported:
            found[".".join(place.with_suffix("").parts)] = imported
    return found
