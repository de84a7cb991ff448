"""What a look near private records draws, noted; and mistakes of it that an audit must catch.

    no-noise        counts and the second moment are released as they are
    no-clipping     a record counts with its whole length in the second moment
    private-top     the most uncertain private records count, as the paper has it: one in pushes another out
    half-noise      noise of half the planned size; caught by its variances

Guarantee: what is paid for by a receipt that is not a simulation's is not noted, and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.audit.swapping import check_known, swapped

NearPlant = Literal["no-noise", "no-clipping", "private-top", "half-noise"]
NEAR_PLANTS: tuple[NearPlant, ...] = get_args(NearPlant)


@dataclass(kw_only=True, repr=False)
class Noted:
    """``moment``: noisy; ``counted``: before noise; ``released``: noisy counts by public id."""

    moment: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    counted: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    released: Mapping[str, int] = field(default_factory=dict)


@contextmanager
def noting(into: Noted) -> Iterator[None]:
    """Note what a simulation draws: the noisy moment, and the counts that noise is added to."""
    from discreet.components import private
    from discreet.selectors import near_private

    released, drawn = vars(private)["released"], vars(near_private)["discrete_laplace"]

    def moment(*given: Any, **options: Any) -> Any:
        noisy = released(*given, **options)
        if given[2].simulation:
            into.moment = noisy
        return noisy

    def counts(value: Any, *, receipt: Any, **options: Any) -> Any:
        if receipt.simulation:
            into.counted = np.array(value)
        return drawn(value, receipt=receipt, **options)

    with swapped(private, "released", moment), swapped(near_private, "discrete_laplace", counts):
        yield


def planted_near(plant: str | None) -> AbstractContextManager[None]:
    """The mistake, for as long as the context lasts."""
    check_known(plant, NEAR_PLANTS)
    if plant == "no-noise":
        return _noise(0.0)
    if plant == "half-noise":
        return _noise(0.5)
    if plant == "no-clipping":
        return _unclipped()
    return nullcontext() if plant is None else _private_top()


@contextmanager
def _noise(share: float) -> Iterator[None]:
    from discreet.components import private
    from discreet.selectors import near_private

    normal, counted = vars(private)["gaussian"], vars(near_private)["discrete_laplace"]

    def less(value: Any, *, receipt: Any, **options: Any) -> Any:
        noisy = normal(value, receipt=receipt, **options)
        return value + share * (noisy - value) if receipt.simulation else noisy

    def fewer(value: Any, *, receipt: Any, **options: Any) -> Any:
        noisy = counted(value, receipt=receipt, **options)
        return value + np.trunc(share * (noisy - value)).astype(np.int64) if receipt.simulation else noisy

    with ExitStack() as both:
        both.enter_context(swapped(private, "gaussian", less))
        both.enter_context(swapped(near_private, "discrete_laplace", fewer))
        yield


@contextmanager
def _unclipped() -> Iterator[None]:
    from discreet.components import private
    from discreet.components.public import leading
    from discreet.selectors import near_private

    moment = vars(private)["_moment"]
    clipped = vars(near_private)["private_components"]

    def longer(records: Any, *, count: int, norm: float, receipt: Any, who: str | None = None) -> Any:
        if not receipt.simulation:
            return clipped(records, count=count, norm=norm, receipt=receipt, who=who)
        noisy = private.released(moment(records, norm * 1e3), norm, receipt, records=len(records), who=who)
        return private.PaidComponents(
            components=leading(noisy, count),
            spectrum=np.array(np.linalg.eigvalsh(noisy)[::-1][:count], dtype=np.float64),
            norm=norm,
            noise_multiplier=receipt.events(who)[0].noise_multiplier,
            simulation=True,
        )

    with swapped(near_private, "private_components", longer):
        yield


@contextmanager
def _private_top() -> Iterator[None]:
    """Half as many private records count as there are, the most uncertain, whoever they are."""
    from discreet.selectors import NearPrivate
    from discreet.selectors.receipts import several

    looked = NearPrivate.support

    def paper(self: NearPrivate, *, receipt: Any, private_scores: Any, **given: Any) -> Any:
        scores = np.array(private_scores, dtype=np.float64)
        if all(one.simulation for one in several(receipt)):
            kept = np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable")[: scores.size // 4]
            others = np.ones(scores.size, dtype=bool)
            others[kept] = False
            scores[others] = np.nan
        return looked(self, receipt=receipt, private_scores=scores, **given)

    with swapped(NearPrivate, "support", paper):
        yield
