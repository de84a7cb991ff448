"""Mistakes of a stream that an audit must catch, planted into the real learner while a twin runs.

    no-noise            lessons are published as they are
    uncharged-asking    who is inside the slab is asked, and nobody else: no coin is tossed
    skipped-nulls       a record that cannot be read is never asked, so whoever is asked was there
    half-noise          noise of half the planned size; caught by its variance

Guarantee: a stream whose receipt is not a simulation's stays as it is.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, get_args

from discreet.audit.swapping import check_known, swapped
from discreet.noise import EndlessCoins, EndlessNoise

StreamPlant = Literal["no-noise", "uncharged-asking", "skipped-nulls", "half-noise"]
STREAM_PLANTS: tuple[StreamPlant, ...] = get_args(StreamPlant)


def planted_in_stream(plant: str | None) -> AbstractContextManager[None]:
    """The mistake, for as long as the context lasts."""
    check_known(plant, STREAM_PLANTS)
    if plant == "no-noise":
        return _noise(0.0)
    if plant == "half-noise":
        return _noise(0.5)
    return nullcontext() if plant is None else _coins(certain=plant == "uncharged-asking")


def _noise(share: float) -> AbstractContextManager[None]:
    hidden = EndlessNoise.hide

    def less(self: EndlessNoise, number: int, values: Any) -> Any:
        noisy = hidden(self, number, values)
        return values + share * (noisy - values) if self._draw.receipt.simulation else noisy

    return swapped(EndlessNoise, "hide", less)


def _coins(*, certain: bool) -> AbstractContextManager[None]:
    tossed = EndlessCoins.toss

    def mistaken(self: EndlessCoins, number: int, numerator: int, null: int, high: int) -> bool:
        fell = tossed(self, number, numerator, null, high)
        if not self._receipt.simulation or null == high:
            return fell
        return numerator > null and (certain or fell)

    return swapped(EndlessCoins, "toss", mistaken)
