"""Mistakes of a release gate that an audit must catch, planted into the real gate while a twin runs.

    no-subsampling       no coins: a value passes as soon as k people have it
    reused-coins         a log that has grown is released with the coins of the time before
    occurrence-coins     a coin for every occurrence, then persons are counted: whoever repeats is always in
    occurrences-counted  rows are counted, and persons are promised

Guarantee: a release on a receipt that is not a simulation's stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from typing import Any, Literal, get_args

import numpy as np

from discreet.audit.swapping import check_known, swapped
from discreet.gates import CrowdGate
from discreet.gates.query_log import QueryLog, TablePart

CrowdPlant = Literal["no-subsampling", "reused-coins", "occurrence-coins", "occurrences-counted"]
CROWD_PLANTS: tuple[CrowdPlant, ...] = get_args(CrowdPlant)
_SURE = (1 << 63) - 1


class _Sure(CrowdGate):
    """Every coin falls."""

    coin = _SURE


class _Rows(CrowdGate):
    """Counts rows, and says that it counts persons."""

    unit = "person"

    def price(self) -> Any:
        """As if persons were counted, with their values."""
        return replace(super().price(), values=self.__dict__.get("said", 1))


def planted_in_gate(plant: str | None) -> AbstractContextManager[None]:
    """The mistake, for as long as the context lasts."""
    check_known(plant, CROWD_PLANTS)
    if plant == "reused-coins":
        return _reused()
    if plant is None:
        return nullcontext()
    made: dict[str, Callable[[CrowdGate, Any], tuple[CrowdGate, Any]]] = {
        "no-subsampling": lambda gate, rows: (_like(_Sure, gate), rows),
        "occurrence-coins": lambda gate, rows: (_like(_Sure, gate), _thinned(rows, gate.beta)),
        "occurrences-counted": lambda gate, rows: (_counting_rows(gate), replace(rows, person=None)),
    }
    change, released = made[plant], CrowdGate.release

    def mistaken(self: CrowdGate, rows: Any, *, receipt: Any, **options: Any) -> Any:
        if not receipt.simulation or not isinstance(rows, QueryLog) or (plant != "no-subsampling" and not self.persons):
            return released(self, rows, receipt=receipt, **options)
        gate, log = change(self, rows)
        return released(gate, log, receipt=receipt, **options)

    return swapped(CrowdGate, "release", mistaken)


def _like(kind: type[CrowdGate], gate: CrowdGate, **other: Any) -> CrowdGate:
    return kind(**{one.name: getattr(gate, one.name) for one in fields(gate)} | other)


def _counting_rows(gate: CrowdGate) -> CrowdGate:
    made = _like(_Rows, gate, persons=False, values=1)
    object.__setattr__(made, "said", gate.values)
    return made


def _thinned(rows: QueryLog, beta: float) -> QueryLog:
    """Each row by a coin of its own."""
    luck, parts = np.random.default_rng(0), []
    for part in rows.parts:
        assert isinstance(part, TablePart)
        parts.append(TablePart(part.table.filter(luck.random(len(part.table)) < beta)))
    return replace(rows, parts=parts)


def _reused() -> AbstractContextManager[None]:
    """The key of the first release of a ledger is that of all that follow."""
    from discreet.gates import gate

    made, first = vars(gate)["release_key"], dict[str, Any]()

    def again(receipt: Any, **options: Any) -> Any:
        key = made(receipt, **options)
        return first.setdefault(receipt.ledger_id, key) if receipt.simulation else key

    return swapped(gate, "release_key", again)
