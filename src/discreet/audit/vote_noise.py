"""Is the noise of votes as large as planned? Seen from how often a noisy answer is the true one.

No count is ever released, so its noise cannot be looked at. But an audit knows the votes: on questions whose lead is
about the noise, the true class wins with a chance that follows from the size of the noise, and less noise lets it win
more often (`discreet.audit.variances.agreement`). A sparse vector keeps one noise for a whole epoch, so of each epoch
only the first question is looked at.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.audit.variances import Variance, agreement
from discreet.oracles.teachers import distances
from discreet.planning.teachers import ConfidentPrice, NoisyMaxPrice, StablePrice
from discreet.privacy.events import Gaussian

if TYPE_CHECKING:
    from discreet.audit.teachers_twin import TeachersTwin

QUESTIONS = 1000
EPOCHS, OF_EPOCHS, LOOKED_AT = 1000, 4000, 500
"""A sparse vector may say "unstable" so often, in so many questions; so many first ones are looked at, or none. Epochs
end after one question or two, but for a rare one whose threshold is so low that it answers hundreds: with no more
questions than epochs, that one would leave too few of the others.
"""


def noise_of_votes(twin: TeachersTwin, *, seed: int) -> tuple[Variance, ...]:
    """Of answers, and of checks where there are some."""
    from discreet.audit.teachers_twin import CLASSES, answers_of

    if twin.aggregator.startswith("sparse"):
        return _of_epochs(twin, seed)
    price = twin.price(QUESTIONS)
    assert isinstance(price, NoisyMaxPrice | ConfidentPrice)
    luck = np.random.default_rng([seed, 5])
    lead = 2 * round(max(1.0, price.noise * math.sqrt(2) / 2))
    if isinstance(price, ConfidentPrice):  # clear enough to be answered most of the time
        lead = max(lead, 2 * round(price.least + price.check_noise - twin.teachers / 2))
    sides = luck.integers(0, 2, QUESTIONS)
    top = twin.teachers // 2 + lead // 2
    counts = np.full((QUESTIONS, 2), twin.teachers - top, dtype=np.int64)
    counts[np.arange(QUESTIONS), sides] = top
    said = answers_of(twin, price, counts, seed=seed)
    given = np.array([one is not None for one in said.answers], dtype=bool)
    right = np.array([one == CLASSES[side] for one, side in zip(said.answers, sides.tolist(), strict=True)], dtype=bool)
    chances = np.where(sides == 0, _wins(price, lead, first=True), _wins(price, lead, first=False))
    answers = agreement(right[given], chances[given])
    found = [] if math.isnan(answers.ratio) else [answers]  # a lead that no noise turns shows nothing of it
    if isinstance(price, ConfidentPrice):
        passing = np.full(QUESTIONS, _normal((top - price.least) / price.check_noise))
        found.append(agreement(given, passing, "checks"))
    return tuple(found)


def _of_epochs(twin: TeachersTwin, seed: int) -> tuple[Variance, ...]:
    """Of a sparse vector: questions that are unstable by about its noise, and are told so the more often the less noise
    there is.
    """
    from discreet.audit.teachers_twin import answers_of

    price = twin.price(OF_EPOCHS, EPOCHS)
    assert isinstance(price, StablePrice)
    distance = math.floor(price.threshold - 2 * price.spread)
    top = (twin.teachers + 2 * (distance + 1)) // 2
    counts = np.tile(np.array([twin.teachers - top, top], dtype=np.int64), (OF_EPOCHS, 1))
    true = int(distances(counts[:1])[0])
    said = answers_of(twin, price, counts, seed=seed)
    unstable = np.array([one is None for one in said.answers], dtype=bool)[said.reached]
    first = np.concatenate([[True], unstable[:-1]]).nonzero()[0][:LOOKED_AT]
    if first.size < LOOKED_AT:
        return ()
    gap = (price.threshold - true) / price.spread
    chance = 1 - (4 * math.exp(-gap / 2) - math.exp(-gap)) / 6
    return (agreement(unstable[first], np.full(first.size, chance)),)


def _wins(price: NoisyMaxPrice | ConfidentPrice, lead: int, *, first: bool) -> float:
    """The chance that a class which leads by so many votes wins, rounded up by nothing that matters; ``first``: it wins
    ties.
    """
    event = price.charges[-1][0]
    if isinstance(event, Gaussian):
        return _normal(lead / (math.sqrt(2) * price.noise))
    rate = math.exp(-math.sqrt(2) / price.noise)
    reach = round(40 / -math.log(rate))
    one = rate ** np.abs(np.arange(-reach, reach + 1)) * (1 - rate) / (1 + rate)
    both: NDArray[np.float64] = np.convolve(one, one)  # of the difference of two, centred at 2 reach
    start = 2 * reach - lead + (0 if first else 1)
    return min(1.0, float(both[max(0, start) :].sum()))


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))
