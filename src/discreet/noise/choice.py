"""Private choice: the exponential mechanism, the sparse vector and the noisy vote, by exact integers.

`exponential`: index i with probability proportional to exp(epsilon score_i / (2 sensitivity)), or without the 2 where
scores are monotone (a record can only raise them). Drawn by rejection: a uniform index is kept with probability
exp(-gap to the best), an exact coin. No weight is ever rounded. Monotone or not, its losses have a range of epsilon.

`SparseVector`: is this value above the threshold? Many noes and one yes cost one charge (Dwork and Roth 2014,
AboveThreshold): threshold noise of scale lambda = 2 sensitivity / epsilon, value noise of 2 lambda. Each yes starts a
new epoch, which takes the next draw of the receipt.

`noisy_winner`: the class with the most votes; its index leaves, and no count. One unit moves one vote of a question:
one count falls by 1, another rises by 1 (the measure ``votes``). The noise is what the receipt was charged for:

Gaussian          one draw a question; standard deviation noise_multiplier x sqrt(2) on every count, on the lattice
DiscreteLaplace   *two* draws a question, one for the count that falls and one for the count that rises; exact

Proofs: docs/proofs/exponential.md, docs/proofs/sparse-vector.md; of votes docs/proofs/teachers.md, with
docs/proofs/gaussian.md and docs/proofs/discrete-laplace.md.
"""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise.additive_noise import FINENESS, Lattice, gaussian_steps, one_multiplier
from discreet.noise.sources import (
    RELEASE,
    Streams,
    paid_epsilon,
    paid_event,
    paid_events,
    positive,
    private_floats,
    release,
)
from discreet.noise.stream import Integers, Stream
from discreet.privacy.events import BoundedRange, DiscreteLaplace, Gaussian, Pure
from discreet.privacy.ledger.receipts import Receipt, Ticket

_SCORE_FINENESS = 20
_EPSILON_UNIT = 1 << 24
_MOST_UNITS = 1 << 34
"""A charge of more than epsilon 1024 is drawn as one of 1024: sharper than anybody can see."""
_MOST_GAP = 1 << 12
"""Scores whose gap to the best costs more than this many nats count as being this far: e^-4096 is never drawn."""


def exponential(
    scores: Any, *, sensitivity: float, receipt: Receipt, monotone: bool = False, who: str | None = None
) -> int:
    """The index of a high score; epsilon is what the receipt was charged for, `Pure` or as a `BoundedRange`."""
    epsilon = paid_epsilon(receipt, (Pure, BoundedRange), "exponential", who)
    reach, values = positive(sensitivity, "sensitivity"), private_floats(scores)
    if values.ndim != 1 or not values.size:
        raise BadInput("the exponential mechanism", "there is nothing to choose from", "Give a list of scores")
    units = min(math.floor(epsilon * _EPSILON_UNIT), _MOST_UNITS)
    if units < 1:
        raise BadInput("the exponential mechanism", "its epsilon is below 2^-24", "Charge more, or choose at random")
    lattice = Lattice(Lattice.under(reach, "exponential").step * 2.0 ** (FINENESS - _SCORE_FINENESS))
    steps = math.ceil(reach / lattice.step)
    under = _EPSILON_UNIT * steps * (1 if monotone else 2)
    heights = lattice.floored(values)
    # gaps are clipped before they are multiplied, so that the product fits into 64 bits
    gaps = np.minimum(heights.max() - heights, _MOST_GAP * under // units) * units

    def sampler(streams: Streams) -> int:
        return _first_kept(streams(0), gaps, under)

    return release(
        receipt,
        "exponential",
        sampler,
        inputs=values,
        measure="linf-up" if monotone else "linf",
        sensitivity=reach,
        parameters={"sensitivity": reach, "epsilon": epsilon, "size": values.size, "monotone": monotone},
        who=who,
    )


def _first_kept(stream: Stream, gaps: Integers, under: int) -> int:
    trials = 64
    while True:
        tried = stream.below(np.full(trials, gaps.size, dtype=np.int64))
        accepted = stream.bernoulli_exp(gaps[tried], np.full(trials, under, dtype=np.int64))
        if accepted.any():
            return int(tried[int(accepted.argmax())])
        trials = min(2 * trials, 1 << 16)


class SparseVector:
    """Asks one value after another whether it is above a threshold; the receipt's count is the number of yeses."""

    def __init__(self, *, receipt: Receipt, sensitivity: float = 1.0, who: str | None = None) -> None:
        self._epsilon = paid_epsilon(receipt, (Pure,), "sparse vector", who)
        self._receipt, self._who, self._reach = receipt, who, positive(sensitivity, "sensitivity")
        self._lattice = Lattice.under(2 * self._reach / float(self._epsilon), "sparse vector")
        steps = self._lattice.steps_l1(self._reach, 1)
        self._scale = math.ceil(2 * steps / self._epsilon)
        self._lattice.check_noise(2 * self._scale, "sparse vector")
        self._epoch: Ticket | None = None
        self._asked = 0
        self._lock = threading.Lock()

    def above(self, value: float, threshold: float) -> bool:
        """Whether ``value`` (private) is above ``threshold`` (public), noisily. A yes ends the epoch."""
        paid_epsilon(self._receipt, (Pure,), "sparse vector", self._who)
        if not isinstance(threshold, (int, float)) or not math.isfinite(threshold):
            raise BadInput("a threshold", "it is not a finite number", "Declare one")
        hidden = private_floats(value)
        if hidden.ndim:
            raise BadInput("a sparse vector query", "it is not one number", "Ask one value at a time")
        with self._lock:  # two threads must not both get the one yes of an epoch
            if self._epoch is None:
                self._epoch, self._asked = self._receipt.take(RELEASE, self._who), 0
            self._asked += 1
            answer = release(
                self._receipt,
                "sparse-vector",
                lambda streams: self._decide(streams, hidden, threshold),
                inputs=hidden,
                measure="linf",
                sensitivity=self._reach,
                parameters={"threshold": float(threshold), "asked": self._asked, "sensitivity": self._reach},
                ticket=self._epoch,
            )
            if answer:
                self._epoch = None
        return answer

    def _decide(self, streams: Streams, value: Any, threshold: float) -> bool:
        bar = streams(0).discrete_laplace(self._scale, 1, 1)  # the same all through an epoch
        noise = streams(self._asked).discrete_laplace(2 * self._scale, 1, 1)
        level = self._lattice.floored(np.asarray(threshold, dtype=np.float64))
        return bool(self._lattice.floored(value) + noise[0] >= level + bar[0])


# -- the noisy vote

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
