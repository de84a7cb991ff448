"""Faults of near-private selection: injected while an audit target runs. An audit must catch each.

    no-noise        counts and the second moment are released as they are
    no-clipping     a record counts with its whole length in the second moment
    private-top     the most uncertain private records count, as the paper has it: one in pushes another out
    half-noise      noise of half the planned size; caught by its variances

Guarantee: what is paid for by a receipt that is not a simulation's stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from discreet import components as private
from discreet.audit import Fault
from discreet.components import leading
from discreet.selectors import NearPrivate, near_private
from discreet_research.injected_faults.training_faults import quieter


@contextmanager
def _noise(share: float) -> Iterator[None]:

    less, counted = quieter(vars(private)["gaussian"], share), vars(near_private)["discrete_laplace"]

    def fewer(value: Any, *, receipt: Any, **options: Any) -> Any:
        noisy = counted(value, receipt=receipt, **options)
        return value + np.trunc(share * (noisy - value)).astype(np.int64) if receipt.simulation else noisy

    with mock.patch.object(private, "gaussian", less), mock.patch.object(near_private, "discrete_laplace", fewer):
        yield


@contextmanager
def _unclipped() -> Iterator[None]:

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

    with mock.patch.object(near_private, "private_components", longer):
        yield


@contextmanager
def _private_top() -> Iterator[None]:
    """Half as many private records count as there are, the most uncertain, whoever they are."""
    from discreet.selectors.selection_inputs import several

    looked = NearPrivate.support

    def paper(self: NearPrivate, *, receipt: Any, private_scores: Any, **options: Any) -> Any:
        scores = np.array(private_scores, dtype=np.float64)
        if all(paid.simulation for paid in several(receipt)):
            highest = np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable")[: scores.size // 4]
            others = np.ones(scores.size, dtype=bool)
            others[highest] = False
            scores[others] = np.nan
        return looked(self, receipt=receipt, private_scores=scores, **options)

    with mock.patch.object(NearPrivate, "support", paper):
        yield


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(name="no-noise", inject=partial(_noise, 0.0)),
        Fault(name="no-clipping", inject=_unclipped),
        Fault(name="private-top", inject=_private_top),
        Fault(name="half-noise", inject=partial(_noise, 0.5)),
    )
}
