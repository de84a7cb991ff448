"""Faults of the release gate: injected while an audit target runs. An audit must catch each.

    no-subsampling       no coins: a value passes as soon as k people have it
    reused-coins         a log that has grown is released with the coins of the time before
    occurrence-coins     a coin for every occurrence, then persons are counted: who repeats a value always counts
    occurrences-counted  rows are counted, and the guarantee is for persons

Guarantee: a release on a receipt that is not a simulation's stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from discreet.audit import Fault
from discreet.gates import CrowdGate, gate
from discreet.gates.query_log import QueryLog, TablePart

_SURE = (1 << 63) - 1


class _Sure(CrowdGate):
    """Every coin succeeds."""

    coin = _SURE


class _Rows(CrowdGate):
    """Counts rows, and is priced as if it counted persons."""

    unit = "person"

    def price(self) -> Any:
        """As if persons were counted, with their values."""
        return replace(super().price(), values=self.__dict__.get("priced_values", 1))


def _changed(
    change: Callable[[CrowdGate, Any], tuple[CrowdGate, Any]], *, persons_only: bool = True
) -> AbstractContextManager[Any]:
    """A gate and a log that are changed before each release of a simulation."""
    released = CrowdGate.release

    def faulty(self: CrowdGate, rows: Any, *, receipt: Any, **options: Any) -> Any:
        gate, log = self, rows
        if receipt.simulation and isinstance(rows, QueryLog) and (self.persons or not persons_only):
            gate, log = change(self, rows)
        return released(gate, log, receipt=receipt, **options)

    return mock.patch.object(CrowdGate, "release", faulty)


def _like(kind: type[CrowdGate], gate: CrowdGate, **other: Any) -> CrowdGate:
    return kind(**{field.name: getattr(gate, field.name) for field in fields(gate)} | other)


def _counting_rows(gate: CrowdGate) -> CrowdGate:
    rows = _like(_Rows, gate, persons=False, values=1)
    object.__setattr__(rows, "priced_values", gate.values)
    return rows


def _thinned(rows: QueryLog, beta: float) -> QueryLog:
    """Each row by a coin of its own."""
    rng, parts = np.random.default_rng(0), []
    for part in rows.parts:
        assert isinstance(part, TablePart)
        parts.append(TablePart(part.table.filter(rng.random(len(part.table)) < beta)))
    return replace(rows, parts=parts)


def _reused() -> AbstractContextManager[Any]:
    """The key of the first release of a ledger is that of all that follow."""
    release_key, first = vars(gate)["release_key"], dict[str, Any]()

    def again(receipt: Any, **options: Any) -> Any:
        key = release_key(receipt, **options)
        return first.setdefault(receipt.ledger_id, key) if receipt.simulation else key

    return mock.patch.object(gate, "release_key", again)


def _sure(gate: CrowdGate, rows: Any) -> tuple[CrowdGate, Any]:
    return _like(_Sure, gate), rows


def _sure_and_thinned(gate: CrowdGate, rows: Any) -> tuple[CrowdGate, Any]:
    return _like(_Sure, gate), _thinned(rows, gate.beta)


def _rows_counted(gate: CrowdGate, rows: Any) -> tuple[CrowdGate, Any]:
    return _counting_rows(gate), replace(rows, person=None)


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(name="no-subsampling", inject=partial(_changed, _sure, persons_only=False)),
        Fault(name="reused-coins", inject=_reused),
        Fault(name="occurrence-coins", inject=partial(_changed, _sure_and_thinned)),
        Fault(name="occurrences-counted", inject=partial(_changed, _rows_counted)),
    )
}
