"""How votes become answers: each way with its charge, made before anything is drawn.

NoisyMaximum     the class with the most noisy votes; every question costs the same
ConfidentMaximum a noisy check first, whether the largest count is large enough; only then a noisy maximum
StableAnswer     sparse vector: the winner itself where it is stable, at no further cost; None where it is not

Guarantee: data-independent. What the charges of a price keep, these keep, whatever the votes are, for questions that
may depend on earlier answers; zero-out relation, both directions (docs/proofs/teachers.md). Which questions were
answered, and the answers, are released; counts, leads and noisy counts are not.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise import SparseVector, gaussian, noisy_winner
from discreet.planning.teachers import ConfidentPrice, NoisyMaxPrice, StablePrice, VotePrice
from discreet.privacy.events import DiscreteLaplace, Event
from discreet.privacy.ledger import Receipt

Integers = NDArray[np.int64]
Places = list[int | None]
"""The place of a class for each question; None: no answer."""


class Charges(Protocol):
    """Where answers are charged: a `discreet.privacy.ledger.Ledger`, or the sealed phase of a campaign."""

    def charge(self, *, event: Event, count: int = 1, who: str, why: Any) -> Receipt:
        """Durable when it returns."""


class Aggregator(Protocol):
    """Answers questions from their votes."""

    @property
    def left(self) -> int:
        """How many more questions may be asked. Follows from public things and released answers."""

    def answer(self, counts: Integers) -> Places:
        """An answer for each row of ``counts``, at most `left` of them; fewer, if it must stop on the way."""


class NoisyMaximum:
    """Every question has an answer."""

    def __init__(self, price: NoisyMaxPrice, ledger: Charges, who: str) -> None:
        self._price, self._ledger, self._who = price, ledger, who
        self._asked = 0

    @property
    def left(self) -> int:
        """What is left of the cap."""
        return self._price.answers - self._asked

    def answer(self, counts: Integers) -> Places:
        """Charge all of them, then draw."""
        event, _ = self._price.charges[0]
        draws = 2 if isinstance(event, DiscreteLaplace) else 1
        self._asked += len(counts)
        receipt = self._ledger.charge(event=event, count=draws * len(counts), who=self._who, why="answers")
        return [noisy_winner(row, receipt=receipt) for row in counts]


class ConfidentMaximum:
    """Questions whose largest count is noisily below the least have no answer, and cost a check only."""

    def __init__(self, price: ConfidentPrice, ledger: Charges, who: str) -> None:
        self._price, self._ledger, self._who = price, ledger, who
        self._checked = self._answered = 0

    @property
    def left(self) -> int:
        """Checks that are left; none when all answers are given."""
        return 0 if self._answered == self._price.answers else self._price.checks - self._checked

    def answer(self, counts: Integers) -> Places:
        """Check all, then answer those that passed, as far as answers are left."""
        (check, _), (event, _) = self._price.charges
        self._checked += len(counts)
        receipt = self._ledger.charge(event=check, count=len(counts), who=self._who, why="answers (checks)")
        tops = counts.max(axis=1).astype(np.float64)
        passed = [place for place, top in enumerate(tops) if self._passes(float(top), receipt)]
        passed = passed[: self._price.answers - self._answered]
        found: Places = [None] * len(counts)
        if passed:
            self._answered += len(passed)
            receipt = self._ledger.charge(event=event, count=len(passed), who=self._who, why="answers")
            for place in passed:
                found[place] = noisy_winner(counts[place], receipt=receipt)
        return found

    def _passes(self, top: float, receipt: object) -> bool:
        return bool(gaussian(top, sensitivity=1.0, receipt=receipt) >= self._price.least)  # type: ignore[arg-type]


class StableAnswer:
    """Algorithm 2: winners of stable questions as they are, until T were unstable."""

    def __init__(self, price: StablePrice, ledger: Charges, who: str) -> None:
        self._price, self._ledger, self._who = price, ledger, who
        self._asked = self._unstable = 0
        self._epochs: SparseVector | None = None

    @property
    def left(self) -> int:
        """What is left of the questions; none after the last unstable one."""
        return 0 if self._unstable == self._price.unstable else self._price.answers - self._asked

    def answer(self, counts: Integers) -> Places:
        """One after the other, up to the last unstable one."""
        epochs = self._begun()
        found: Places = []
        for row, distance in zip(counts, distances(counts), strict=True):
            if not self.left:
                break
            self._asked += 1
            unstable = epochs.above(-float(distance), -self._price.threshold)
            self._unstable += unstable
            found.append(None if unstable else int(row.argmax()))
        return found

    def _begun(self) -> SparseVector:
        """All epochs, and the chance of a mistake, are charged at the first question; the chance once in a campaign."""
        if self._epochs is None:
            (epoch, count), (mistake, once) = self._price.charges
            if once:
                self._ledger.charge(event=mistake, who=self._who, why="answers (chance of a mistake)")
            receipt = self._ledger.charge(event=epoch, count=count, who=self._who, why="answers (unstable)")
            self._epochs = SparseVector(receipt=receipt, sensitivity=1.0)
        return self._epochs


def distances(counts: Integers) -> Integers:
    """How many teachers could change their vote without changing the winner: max(0, ceil(lead/2) - 1)."""
    ordered = np.sort(counts, axis=1)
    leads = ordered[:, -1] - ordered[:, -2]
    return np.asarray(np.maximum(0, -(-leads // 2) - 1), dtype=np.int64)


def build_aggregator(price: VotePrice, ledger: Charges, who: str) -> Aggregator:
    """The way of answering that ``price`` is for."""
    if isinstance(price, NoisyMaxPrice):
        return NoisyMaximum(price, ledger, who)
    if isinstance(price, ConfidentPrice):
        return ConfidentMaximum(price, ledger, who)
    if isinstance(price, StablePrice):
        return StableAnswer(price, ledger, who)
    raise BadInput("an aggregator", f"a {type(price).__name__} is not a price of answers", "Use price_answers")
