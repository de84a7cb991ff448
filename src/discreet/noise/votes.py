"""The class with the most votes, noisily: its place leaves, and no count.

One unit moves one vote of a question: one count falls by 1, another rises by 1 (the measure ``votes``). The noise is
what the receipt was charged for:

Gaussian          one draw a question; standard deviation noise_multiplier x sqrt(2) on every count, on the lattice
DiscreteLaplace   *two* draws a question, one for the count that falls and one for the count that rises; exact

Proof: docs/proofs/teachers.md, with docs/proofs/gaussian.md and docs/proofs/discrete-laplace.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise.door import RELEASE, paid_event, paid_events, release
from discreet.noise.gaussian import gaussian_steps, one_multiplier
from discreet.noise.sources import Streams
from discreet.noise.stream import Integers
from discreet.privacy.events import DiscreteLaplace, Gaussian
from discreet.privacy.ledger.receipts import Receipt

_MOST = 1 << 40


def noisy_winner(counts: Any, *, receipt: Receipt, who: str | None = None) -> int:
    """The place of the largest of one question's noisy ``counts``, for the next draw or two of ``receipt``."""
    kinds = (Gaussian, DiscreteLaplace)
    events = paid_events(receipt, kinds, "vote", who)
    votes = np.asarray(counts)
    if votes.ndim != 1 or votes.size < 2 or votes.dtype.kind not in "iu":
        raise BadInput("votes to hide", "they are not one whole number a class", "Give counts")
    votes = np.clip(votes.astype(np.int64), -_MOST, _MOST)
    if isinstance(events[0], Gaussian):
        return _gaussian(votes, receipt, who)
    return _discrete_laplace(votes, receipt, who)


def _gaussian(votes: Integers, receipt: Receipt, who: str | None) -> int:
    sigma, reach = one_multiplier(receipt, who), math.sqrt(2)
    lattice, steps = gaussian_steps(sigma, reach, votes.size)

    def sampler(streams: Streams) -> int:
        noise = np.rint(streams(0).normals(votes.size) * steps)
        return int(lattice.plus(votes.astype(np.float64), noise).argmax())

    return release(
        receipt,
        "gaussian-vote",
        sampler,
        inputs=votes,
        measure="votes",
        sensitivity=reach,
        parameters={"noise_multiplier": sigma, "classes": votes.size},
        who=who,
    )


def _discrete_laplace(votes: Integers, receipt: Receipt, who: str | None) -> int:
    event = paid_event(receipt, DiscreteLaplace, "vote", who)
    if event.sensitivity != 1 or event.epsilon == 0:
        raise ReceiptRefused(
            f"a vote on receipt {receipt.entry.sequence}",
            "it was charged for another sensitivity than one vote's, or for nothing",
            "Charge DiscreteLaplace(epsilon), twice a question",
        )
    scale = 1 / Fraction(event.epsilon)
    first = receipt.take(RELEASE, who)
    receipt.take(RELEASE, who)  # the count that rises

    def sampler(streams: Streams) -> int:
        return int((votes + streams(0).discrete_laplace(scale.numerator, scale.denominator, votes.size)).argmax())

    return release(
        receipt,
        "laplace-vote",
        sampler,
        inputs=votes,
        measure="votes",
        sensitivity=math.sqrt(2),
        parameters={"epsilon": event.epsilon, "classes": votes.size},
        ticket=first,
    )
