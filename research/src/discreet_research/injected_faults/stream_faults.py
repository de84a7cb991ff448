"""Faults of a stream: injected into the learner while an audit target runs. An audit must catch each.

    no-noise            updates are published as they are
    uncharged-asking    exactly the records inside the slab are asked, without a coin
    skipped-nulls       a record that cannot be read is never asked, so every record that is asked was present
    half-noise          noise of half the planned size; caught by its variance

Guarantee: a stream whose receipt is not a simulation's stays as it is.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest import mock

from discreet.audit import Fault
from discreet.noise import IndexedCoins, IndexedNoise


def _noise(share: float) -> AbstractContextManager[Any]:
    hidden = IndexedNoise.hide

    def less(self: IndexedNoise, number: int, values: Any) -> Any:
        noisy = hidden(self, number, values)
        return values + share * (noisy - values) if self._draw.receipt.simulation else noisy

    return mock.patch.object(IndexedNoise, "hide", less)


def _coins(*, certain: bool) -> AbstractContextManager[Any]:
    tossed = IndexedCoins.toss

    def faulty(self: IndexedCoins, number: int, numerator: int, null: int, high: int) -> bool:
        fell = tossed(self, number, numerator, null, high)
        if not self._receipt.simulation or null == high:
            return fell
        return numerator > null and (certain or fell)

    return mock.patch.object(IndexedCoins, "toss", faulty)


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(name="no-noise", inject=partial(_noise, 0.0)),
        Fault(name="uncharged-asking", inject=partial(_coins, certain=True)),
        Fault(name="skipped-nulls", inject=partial(_coins, certain=False)),
        Fault(name="half-noise", inject=partial(_noise, 0.5)),
    )
}
