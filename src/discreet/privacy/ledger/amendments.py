"""A re-planning as a line of the ledger: from it on the ledger has other terms, and forgets nothing.

Guarantee (docs/proofs/replanning.md): the new terms are adaptive; their filter counts every charge that was ever made,
on paths that tell the past as the old ones did; its order follows from the terms that were there before any data was
touched, by one rule; epsilon and delta only grow, as `continued_budget` says. A line that breaks one of these is
refused when it is written and whenever it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from discreet.errors import BadInput, DiscreetError, InvalidLedger
from discreet.privacy.accounting.rdp import ORDERS, conversion, rdp_curve
from discreet.privacy.accounting.sampled_gaussian import Array
from discreet.privacy.events import Block, ThresholdResponse
from discreet.privacy.exact import float_below
from discreet.privacy.ledger.continued import continued_budget
from discreet.privacy.ledger.entries import (
    BROKEN,
    MOST_COUNT,
    Charge,
    Entry,
    Why,
    checked_count,
    checked_time,
    sealed,
    unsealed,
)
from discreet.privacy.ledger.paths import Path
from discreet.privacy.ledger.terms import Terms
from discreet.privacy.trajectories import Trajectory

PURPOSE = "replanning"
KEYS = {"sequence", "at", "phase", "purpose", "terms", "previous"}
_NEAR = 1e-6
"""How far (relative) an order's price may be from the best one's: other machines round the last digits otherwise."""


def filter_order(terms: Terms, epsilon: Decimal) -> float:
    """The order of the filter that ``terms`` go on under, if they are re-planned with ``epsilon``.

    Fixed before data is touched, as a filter needs: a function of the committed terms and the new promise alone. It is
    the order that prices the dearest committed path lowest when its events are scaled until they cost ``epsilon``.
    """
    return float(ORDERS[int(np.argmin(_prices(terms, epsilon)))])


def _prices(terms: Terms, epsilon: Decimal) -> Array:
    added, target = conversion(float_below(terms.accounted.delta)), float(epsilon)
    paths = [one for one in map(_curve, terms.trajectories()) if one[1].any()]
    if not paths:
        raise BadInput("re-planning a ledger", "none of its paths is guarded by a Renyi order", "Create a new ledger")
    loss, curve = max(paths, key=lambda one: one[0] + float(np.min(one[1] + added)))
    low, high = 0.0, 1.0
    while loss + float(np.min(high * curve + added)) < target and high < 1e9:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if loss + float(np.min(middle * curve + added)) < target else (low, middle)
    return np.asarray(high * curve + added)


def _curve(path: Trajectory) -> tuple[float, Array]:
    """The losses of being asked or missed, and the Rényi sums of everything else."""
    forward, backward, curve = Decimal(0), Decimal(0), np.zeros(ORDERS.size)
    for branch in path.selection:
        if isinstance(branch.event, ThresholdResponse):
            forward, backward = forward + branch.forward, backward + branch.backward
        else:
            curve = curve + rdp_curve(branch.event.event if isinstance(branch.event, Block) else branch.event)
    return float(max(forward, backward)), np.asarray(curve + rdp_curve(path.trained))


def check_amendment(first: Terms, before: Terms, after: Terms, entries: Sequence[Entry]) -> None:
    """Raise `BadInput` unless ``after`` may follow ``before``. ``first``: the terms the ledger began with."""
    if before.mode == "committed" and (before.overflow or before.apart):
        kind = "a hidden selection" if before.overflow else "selections priced apart"
        raise BadInput(
            f"re-planning {kind}",
            "its claim keeps a part of delta for queries that were committed together",
            "Finish the plan, or stop: the claim stays as it is",
        )
    if first.mode != "committed" or after.continued is None or after.mode != "adaptive":
        raise BadInput("re-planning a ledger", "it goes from committed to adaptive mode, once", "Use continued terms")
    leaves = before.mode == "committed"
    budget, kept = continued_budget(before.budget, after.budget.epsilon, after.continued.because, first=leaves)
    kept = kept if leaves or before.continued is None else before.continued.kept
    if after.budget != budget or after.continued.kept != kept:
        raise BadInput("re-planning a ledger", "its delta does not follow from what was promised", "Plan it again")
    if leaves and len(after.orders) == 1:
        prices = _prices(first, after.budget.epsilon)
        mine = prices[after.orders[0] == ORDERS]
        fits = mine.size == 1 and bool(mine[0] <= prices.min() + _NEAR * max(1.0, abs(float(prices.min()))))
    else:
        fits = not leaves and after.orders == before.orders
    if not fits:
        raise BadInput("re-planning a ledger", "its order is not the one that was fixed beforehand", "Plan it again")
    _check_histories(before.paths, after.paths, entries)


def _check_histories(before: Iterable[Path], after: Sequence[Path], entries: Sequence[Entry]) -> None:
    """Every way a record can have gone so far must be told by some new path, charge by charge, or one would be free."""
    charges = [(entry.why.phase, charge) for entry in entries for charge in entry.charges]
    told = {_history(path, charges) for path in after}
    if any(_history(path, charges) not in told for path in before):
        raise BadInput(
            "re-planning a ledger", "its paths forget what some records were charged", "Declare every path so far"
        )


def _history(path: Path, charges: Iterable[tuple[int, Charge]]) -> tuple[str, ...]:
    return tuple(_happened(path, charge.who, phase) for phase, charge in charges)


def _happened(path: Path, who: str, phase: int) -> str:
    stay = path.stay_of(who, phase)
    if stay is None:
        return ""
    if stay.choice in ("asked", "asked-below") and phase < stay.last:
        return "missed"
    return stay.choice or "open"


def write_amendment(terms: Terms, *, sequence: int, at: str, phase: int, previous: str) -> tuple[bytes, Entry]:
    """A re-planning and the line it is stored as."""
    why = Why(phase=phase, purpose=PURPOSE)
    form = {
        "sequence": sequence,
        "at": at,
        "phase": why.phase,
        "purpose": why.purpose,
        "terms": terms.to_json(),
        "previous": previous,
    }
    line, digest = sealed(form)
    return line, Entry(
        sequence=sequence, at=at, why=why, charges=(), key="", previous=previous, hash=digest, terms=terms
    )


def read_amendment(line: bytes) -> Entry | None:
    """The re-planning a stored line holds; None for a line that is something else."""
    form: dict[str, Any] = unsealed(line)
    if "terms" not in form or "format" in form:
        return None
    if set(form) != KEYS or form["purpose"] != PURPOSE or not isinstance(form["terms"], dict):
        raise InvalidLedger("reading a ledger", "a re-planning's parts are not the expected ones", BROKEN)
    try:
        sequence = checked_count(form["sequence"], "the number", least=1, most=MOST_COUNT)
        why = Why(phase=form["phase"], purpose=PURPOSE)
    except DiscreetError as error:
        raise InvalidLedger("reading a ledger", error.fact, BROKEN) from None
    if not isinstance(form["previous"], str):
        raise InvalidLedger("reading a ledger", "a re-planning does not name the line before it", BROKEN)
    _, digest = sealed(form)
    return Entry(
        sequence=sequence,
        at=checked_time(form["at"]),
        why=why,
        charges=(),
        key="",
        previous=form["previous"],
        hash=digest,
        terms=Terms.from_json(form["terms"]),
    )
