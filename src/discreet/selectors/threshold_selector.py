"""Threshold response: an independent coin a record, p_hi above a threshold, p_lo below it and for a null.

Guarantee (docs/proofs/one-sided-selection.md): being asked costs at most ``asked`` (eps_a), once, forward; being missed
costs at most ``missed`` (eps_n), backward; T phases cost the worst path, not the sum. The caps are committed; coins are
whole numerators, p_hi rounded down and p_lo up, so nothing is lost in floating point.

The threshold comes from a histogram of scores on a fixed grid with discrete Laplace noise (a null is not counted, so
one record changes one count by 1), for ``threshold_epsilon``; or it is declared, and free. From the noisy counts the
threshold is chosen that makes the expected mean score of the asked largest: post-processing.

More fall than k: some are dropped at random, and nobody learns which, or how many. Fewer: fewer are asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.checks import number
from discreet.errors import BadInput
from discreet.noise import discrete_laplace, highest, numerator, random_places, threshold_places
from discreet.parts import Option, Part
from discreet.privacy.budget import Number, exact_decimal, exact_minus
from discreet.privacy.events import DiscreteLaplace, Event, ThresholdResponse
from discreet.privacy.ledger import Receipt
from discreet.records import NoisyHistogram, Selection
from discreet.scorers.score import declared_range
from discreet.selectors.selection_inputs import (
    BINS,
    THRESHOLD_EPSILON,
    SelectorRequest,
    checked,
    chosen,
    histogram_of,
    pure_price,
    several,
    tails_of,
)

ALL_COUNTED, _SPARSEST = 1 << 20, 24
"""Of more scores than this only some are counted for the threshold, every so manyth by place, down to every 24th: that
is public, and enough."""
_PIECE = 1 << 15
"""Scores that stay in the processor's cache."""
_FEW = 25


@dataclass(frozen=True, kw_only=True)
class Coins:
    """What a threshold response tosses: numerators over 2^63."""

    high: int
    low: int


@dataclass(frozen=True, kw_only=True, repr=False)
class Response:
    """Places of the asked, in random order, and which of them are above the threshold. ``dropped`` is the owner's;
    ``histogram`` is what was released to find a threshold.
    """

    places: NDArray[np.int64]
    threshold: float
    above: NDArray[np.bool_]
    dropped: int
    histogram: NoisyHistogram | None = None


@dataclass(frozen=True, kw_only=True)
class ThresholdSelector:
    """``asked``, ``missed``: the caps. ``threshold``: declared; or None, and found for ``threshold_epsilon``.

    ``share_above``: the share of the pool that shall be above the threshold; None: what makes the sum of the asked
    scores largest. A larger one asks more evenly among the high scores, which can teach more than the very highest do.

    ``tells_dropped``: selections say how many were dropped. Then a query costs what it costs by itself,
    max(asked, missed), and nothing is saved on a path.
    """

    asked: Number
    missed: Number | None = None
    threshold_epsilon: Number = Decimal("0.05")
    threshold: float | None = None
    range: tuple[float, float] = (0.0, 1.0)
    bins: int = 64
    share_above: float | None = None
    tells_dropped: bool = False
    name = "threshold-response"

    def __post_init__(self) -> None:
        object.__setattr__(self, "range", declared_range(self.range))
        caps = {"asked": self.asked, "missed": self.asked if self.missed is None else self.missed}
        tau = 0 if self.threshold is not None else self.threshold_epsilon
        for name, value in (*caps.items(), ("threshold_epsilon", tau)):
            object.__setattr__(self, name, exact_decimal(value, name))
        if self.threshold is None and self.threshold_epsilon == 0:
            raise BadInput(
                "a threshold response", "nothing pays for its threshold", "Give threshold_epsilon or threshold"
            )
        if type(self.bins) is not int or not 2 <= self.bins <= 4096:
            raise BadInput(f"{self.bins} bins", "a grid has 2 to 4096", "Try 64")
        if self.share_above is not None and (self.threshold is not None or not 0 < self.share_above < 1):
            raise BadInput(
                f"a share of {self.share_above} above the threshold",
                "it is between 0 and 1, and only for a threshold that is found",
                "Try 0.2",
            )

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """The threshold, if it is not declared, and the response: a receipt for each."""
        response = ThresholdResponse(asked=self.asked, missed=self.missed or 0)
        return (
            (response,) if self.threshold is not None else (DiscreteLaplace(epsilon=self.threshold_epsilon), response)
        )

    def select(
        self, *, ids: Any, scores: Any, k: int, receipt: Receipt | Sequence[Receipt], phase: int = 0
    ) -> Selection:
        """About k records, many of them from above the threshold."""
        names, values, count = checked(ids, scores, k, self.range)
        paid = several(receipt)
        response = self.respond(values, count, paid)
        return Selection(
            ids=chosen(names, response.places),
            mechanism=self.name,
            simulation=paid[-1].simulation,
            epsilon=pure_price(*paid),
            threshold=response.threshold,
            above=frozenset(chosen(names, response.places[response.above])),
            dropped=response.dropped if self.tells_dropped else None,
            histogram=response.histogram,
        )

    def decide(self, tails: NDArray[np.float64] | None, count: int, pool: int) -> tuple[float, Coins]:
        """The threshold and the coins that ask about ``count`` of ``pool``, from noisy tails: post-processing."""
        asked, missed = exact_decimal(self.asked, "asked"), exact_decimal(self.missed or 0, "missed")
        if tails is None:
            assert self.threshold is not None
            tau, high = float(self.threshold), expected_above(self.range, self.threshold, pool)
        elif self.share_above is None:
            tau, high = best_threshold(tails, self.range, count, pool, float(asked), float(missed))
        else:
            tau, high = threshold_at(tails, self.range, self.share_above * pool)
        doubt = 0 if tails is None else self._doubt(tau, pool)
        return tau, coins_for(ample(count), pool, high - doubt, asked=asked, missed=missed)

    def _doubt(self, tau: float, pool: int) -> int:
        """One standard deviation of the noise in the number above ``tau``: coins are made for fewer, so that seldom too
        few are asked. Who is too many is dropped at random, which costs nothing.
        """
        bottom, top = self.range
        bins = self.bins * (top - tau) / (top - bottom)
        return round(_stride(pool) * math.sqrt(2 * bins) / float(exact_decimal(self.threshold_epsilon, "eps")))

    def respond(self, scores: NDArray[Any], count: int, paid: Sequence[Receipt]) -> Response:
        """The same for an array of floats, which is read where it is: places of about ``count`` of them.

        A score outside its range counts as the end of it; one that is no number, as the bottom.
        """
        if scores.ndim != 1 or scores.dtype.kind != "f":
            raise BadInput("a threshold response", "the scores are not a list of floats", "Give one float a record")
        if len(paid) != len(self.price(count, scores.size)):
            raise BadInput(
                "a threshold response", "it does not have a receipt for each of its charges", "Charge its price"
            )
        tails, released = None, None
        if self.threshold is None:
            noisy = noisy_counts(scores, self.range, self.bins, paid[0])
            tails = tails_of(noisy, scores.size)
            released = histogram_of(noisy, self.range, self.threshold_epsilon, every=_stride(scores.size))
        tau, coins = self.decide(tails, count, scores.size)
        above = is_above(scores, tau, self.range)
        fell = threshold_places(above, high=coins.high, low=coins.low, receipt=paid[-1])
        places = fell[random_places(fell.size, count, where=paid[-1])]
        return Response(
            places=places,
            threshold=tau,
            above=above[places],
            dropped=fell.size - places.size,
            histogram=released,
        )


def ample(k: int) -> int:
    """How many shall fall on average so that seldom fewer than k do. Of few, the more would cost more than it brings:
    coins that fall often tell little apart.
    """
    return k + round(2 * math.sqrt(k)) if k >= _FEW else k


def coins_for(k: int, pool: int, above: int, *, asked: Decimal, missed: Decimal) -> Coins:
    """Coins that ask k of ``pool`` records on average, if ``above`` of them are above the threshold."""
    high = min(max(above, 0), pool)
    low = numerator(min(1.0, response_low(k, pool, high, float(asked), float(missed))), up=True)
    return Coins(low=low, high=highest(low, asked=asked, missed=missed))


def response_low(k: int, pool: int, above: int, asked: float, missed: float) -> float:
    """p_lo with above p_hi + (pool - above) p_lo = k, for p_hi = min(e^asked p_lo, 1 - (1 - p_lo) e^-missed)."""
    if pool == 0 or k >= pool:
        return 1.0
    below = pool - above
    if missed == 0:
        return k / pool
    grow, keep = math.exp(asked), math.exp(-missed)
    by_asked = k / (above * grow + below)
    crossing = (1 - keep) / (grow - keep) if grow > keep else 1.0
    if by_asked <= crossing:
        return by_asked
    return min(max((k - above * (1 - keep)) / (above * keep + below), 0.0), 1.0)


def is_above(scores: NDArray[Any], threshold: float, limits: tuple[float, float]) -> NDArray[np.bool_]:
    """Who is at the threshold or above, and above the bottom: a null never is, nor what is no number.

    Scores of fewer bits are compared with a bar of their own kind, rounded so that it divides them in the same way.
    """
    bottom, top = limits
    kind = scores.dtype.type
    if threshold > top:
        return np.zeros(scores.size, dtype=bool)
    if threshold <= bottom:
        bar = kind(bottom)
        return np.asarray(scores > (bar if float(bar) <= bottom else np.nextafter(bar, kind(-np.inf))))
    bar = kind(threshold)
    return np.asarray(scores >= (bar if float(bar) >= threshold else np.nextafter(bar, kind(np.inf))))


def noisy_counts(values: NDArray[Any], limits: tuple[float, float], bins: int, receipt: Receipt) -> NDArray[np.float64]:
    """How many scores are in each bin of a fixed grid, noisily: a bin may have less than none. A score at the bottom,
    as a null has, is not counted.
    """
    step = _stride(values.size)
    counts = np.zeros(bins, dtype=np.int64)
    for start in range(0, values.size, step * _PIECE):
        counts += _counted(values[start : start + step * _PIECE : step], limits, bins)
    noisy = np.asarray(discrete_laplace(counts, receipt=receipt), dtype=np.float64)
    return noisy * step


def _stride(pool: int) -> int:
    return min(-(-pool // ALL_COUNTED) or 1, _SPARSEST)


def _counted(seen: NDArray[Any], limits: tuple[float, float], bins: int) -> NDArray[np.int64]:
    bottom, top = limits
    with np.errstate(all="ignore"):  # a warning would tell how large a score is
        raised = np.subtract(seen, bottom, dtype=np.float64) if bottom else seen.astype(np.float64)
        raised *= bins / (top - bottom)
        if not (raised.min() >= 0 and raised.max() < bins):  # some at or beyond an end, or no number
            np.minimum(np.fmax(raised, 0.0, out=raised), bins - 1, out=raised)
    counts = np.bincount(raised.astype(np.int64), minlength=bins)
    counts[0] -= raised.size - np.count_nonzero(raised > 0)
    return counts


def best_threshold(
    tails: NDArray[np.float64], limits: tuple[float, float], k: int, pool: int, asked: float, missed: float
) -> tuple[float, int]:
    """The edge of the grid that makes the expected sum of the asked scores largest, and about how many are above it."""
    bottom, top = limits
    bins = len(tails)
    edges = bottom + (top - bottom) * np.arange(bins) / bins
    middles = edges + (top - bottom) / (2 * bins) - bottom
    each = -np.diff(tails, append=0.0)
    sums = np.cumsum((each * middles)[::-1])[::-1]
    gains = [
        _gain(k, pool, tail, above, float(sums[0]), asked, missed)
        for tail, above in zip(tails.tolist(), sums.tolist(), strict=True)
    ]
    best = int(np.argmax(gains))
    return float(edges[best]), int(tails[best])


def threshold_at(tails: NDArray[np.float64], limits: tuple[float, float], above: float) -> tuple[float, int]:
    """The edge of the grid that has about ``above`` records above it, and how many those are."""
    bottom, top = limits
    best = int(np.argmin(np.abs(tails - above)))
    return float(bottom + (top - bottom) * best / len(tails)), int(tails[best])


def _gain(k: int, pool: int, tail: float, above: float, total: float, asked: float, missed: float) -> float:
    """The expected sum of scores of the asked, above their bottom."""
    low = response_low(k, pool, int(tail), asked, missed)
    high = min(math.exp(asked) * low, 1 - (1 - low) * math.exp(-missed))
    return float(above * high + (total - above) * low)


def expected_above(limits: tuple[float, float], threshold: float, pool: int) -> int:
    """For a declared threshold: as if scores were even over their range. Coins keep their caps whatever is so."""
    bottom, top = limits
    return round(pool * min(max((top - threshold) / (top - bottom), 0.0), 1.0))


def _built(request: SelectorRequest) -> ThresholdSelector:
    if request.plan is not None:
        terms = request.plan.selection
        options = {
            "asked": terms.epsilon,
            "missed": terms.missed[request.query - 1],
            "threshold_epsilon": terms.threshold_epsilon,
            **{name: value for name, value in request.options.items() if name != "threshold_epsilon"},
        }
        return ThresholdSelector(range=request.range, **options)
    options = dict(request.options)
    if "threshold" in options:
        raise BadInput("a declared threshold for one query", "only a campaign takes one", "Give threshold_epsilon")
    if (tau := options.pop("threshold_epsilon", None)) is None:  # of pools of thousands a fortieth, or 0.05, is enough
        tau = min(Decimal("0.05"), (request.epsilon / 40).quantize(Decimal("1e-6"))) or Decimal("1e-6")
    tau = exact_decimal(tau, "eps")
    if not 0 < tau < request.epsilon:
        fact = f"it must be above 0 and below epsilon={request.epsilon}"
        raise BadInput(f"a threshold for {tau}", fact, "Give less for it")
    asked = exact_minus(request.epsilon, tau)
    return ThresholdSelector(asked=asked, threshold_epsilon=tau, range=request.range, tells_dropped=True, **options)


PARTS = (
    Part(
        kind="selector",
        name="threshold-response",
        summary="threshold response (randomised response on 'score above threshold'): "
        "once, when it is asked; caps for misses",
        build=_built,
        options=(
            THRESHOLD_EPSILON,
            Option(
                name="threshold",
                check=number(-1e30, 1e30),
                type="number",
                meaning="a declared threshold, which is free",
            ),
            Option(
                name="share_above",
                check=number(0, 1, open_ends=True, such_as="0.2"),
                type="number",
                meaning="the share of the pool above the threshold",
            ),
            BINS,
        ),
        prices=("one-sided", "shards"),
        one_query=True,
    ),
)
