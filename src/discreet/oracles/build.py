"""Oracles by name, as a campaign's file names them."""

from __future__ import annotations

import inspect
from typing import Any

from discreet.errors import BadInput
from discreet.oracles.calling import CallableOracle
from discreet.oracles.file_oracle import FileOracle
from discreet.oracles.label_studio import LabelStudioOracle
from discreet.oracles.pages import PageOracle
from discreet.oracles.simulated import SimulatedOracle
from discreet.roles import Oracle

Kinds = type[SimulatedOracle] | type[FileOracle] | type[CallableOracle] | type[PageOracle] | type[LabelStudioOracle]
ORACLES: dict[str, Kinds] = {
    "simulated": SimulatedOracle,
    "files": FileOracle,
    "callable": CallableOracle,
    "web": PageOracle,
    "label-studio": LabelStudioOracle,
}
TEACHERS = "teachers"
"""Who answers campaigns of a recipe of their own (`discreet.recipes.teachers`), and is no oracle of others."""


def build_oracle(name: str, **options: Any) -> Oracle:
    """The oracle called ``name``; ``options`` are its own arguments."""
    there = ", ".join(ORACLES)
    if name not in ORACLES:
        fact = "it answers in a recipe of its own" if name == TEACHERS else "there is no such oracle"
        raise BadInput(f"the oracle {name}", fact, f"Choose one of {there}")
    kind = ORACLES[name]
    takes = inspect.signature(kind).parameters
    strange = sorted(set(options) - set(takes))
    missing = [word for word, one in takes.items() if one.default is one.empty and word not in options]
    if strange or missing:
        facts = [f"it does not take {', '.join(strange)}"] * bool(strange)
        facts += [f"it needs {', '.join(missing)}"] * bool(missing)
        raise BadInput(f"the oracle {name}", "; ".join(facts), f"It takes {', '.join(takes)}")
    return kind(**options)
