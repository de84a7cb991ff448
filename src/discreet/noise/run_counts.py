"""How many runs: exact samplers of the laws of `discreet.privacy.tuned`, by integer arithmetic alone.

Guarantee: the number has exactly the law that was priced; no rounding stands between them
(docs/proofs/private-tuning.md, "Drawing K").

Negative binomial: walk k = 1, 2, ... A coin of gamma stops the walk at k, which is the number. If it does not stop, a
coin of (k + eta) / (k + 1) lets it go on to k + 1; else everything begins anew. A walk ends at k with probability
proportional to gamma (1-gamma)^(k-1) times the product of the second coins: the law.

Poisson: the sum of n numbers of rate t = rate / n <= 1/2. One of them: k with probability 2^-(k+1), kept with
probability (2t)^k / k! by k coins of 2t/i.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, ldexp

import numpy as np

from discreet.errors import UnsupportedEvent
from discreet.noise.stream import Stream
from discreet.privacy.tuned import NegativeBinomialRuns, PoissonRuns, RunLaw

_AT_ONCE = 512


def run_count(stream: Stream, law: RunLaw) -> int:
    """A number of runs, from 1."""
    if isinstance(law, NegativeBinomialRuns):
        return _negative_binomial(_Words(stream), law)
    if isinstance(law, PoissonRuns):
        return _poisson(_Words(stream), law)
    raise UnsupportedEvent("drawing a number of runs", "there is no exact sampler for this law", "Use another law")


class _Words:
    """Random words one by one, made many at once."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._ready = stream, list[int]()

    def coin(self, over: int, under: int) -> bool:
        """Falls with probability over / under, exactly; ``under`` is at most 2^63."""
        limit = (1 << 64) - (1 << 64) % under  # words from here on would favour small results
        while (word := self._next()) >= limit:
            pass
        return word % under < over

    def _next(self) -> int:
        if not self._ready:
            self._ready = np.asarray(self._stream.words(_AT_ONCE)).tolist()[::-1]
        return self._ready.pop()


def _negative_binomial(words: _Words, law: NegativeBinomialRuns) -> int:
    stop, one = int(ldexp(law.gamma, 63)), 1 << 63
    over, under = Fraction(law.eta).as_integer_ratio()
    while True:
        count = 1
        while not words.coin(stop, one):
            if not words.coin(count * under + over, (count + 1) * under):
                break
            count += 1
        else:
            return count


def _poisson(words: _Words, law: PoissonRuns) -> int:
    rate = Fraction(law.rate)
    parts = ceil(2 * rate)
    over, under = (2 * rate / parts).as_integer_ratio()
    while True:
        total = sum(_small_poisson(words, over, under) for _ in range(parts))
        if total:
            return total


def _small_poisson(words: _Words, over: int, under: int) -> int:
    """A Poisson number of rate t = over / under / 2 <= 1/2."""
    while True:
        count = 0
        while words.coin(1, 2):
            count += 1
        if all(words.coin(over, under * place) for place in range(1, count + 1)):
            return count
