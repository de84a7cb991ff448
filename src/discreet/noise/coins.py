"""Biased coins by integer comparison: who is asked, who is in a batch, and random order.

A probability is a whole numerator over 2^63 and a coin is one comparison with a random integer, so its probability is
exactly what was checked: no floating point stands between the guarantee and the draw (docs/proofs/coins.md).

`random_places` and `random_coins` read no private data: the order in which questions are shown, who is asked at random.
With a receipt they come from the ledger's source, so that a redo repeats them: one draw of its own kind each time.
Without one they come from a source, and cost nothing.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.inversion import fallen_far
from discreet.noise.sources import Source, Streams, paid_event, paid_events, release
from discreet.noise.stream import ONE, Stream, Words
from discreet.privacy.events import Event, PoissonSampledGaussian, Pure, ThresholdResponse
from discreet.privacy.ledger.receipts import Receipt

_PRECISE = Context(prec=60, traps=[InvalidOperation])
_BELOW = _PRECISE.subtract(Decimal(1), Decimal("1e-50"))
_ABOVE = _PRECISE.add(Decimal(1), Decimal("1e-50"))
_ENOUGH = Decimal(100)
"""e^100 is far above 2^63: a larger epsilon allows no more."""
MASK = "mask"
MANY = 1 << 16
"""Coins from which on the gaps between those that fall are drawn, instead of each."""
_FEW = 6
"""Coins below 2^-6 are faster tossed for all than for a list of some."""


def numerator(probability: float | Decimal | Fraction, *, up: bool) -> int:
    """``probability`` as a numerator over 2^63, rounded up or down; exact for anything that fits."""
    try:
        exact = Fraction(probability)
    except (TypeError, ValueError, OverflowError):
        raise BadInput("a probability", "it is not a number", "Give a number from 0 to 1") from None
    if not 0 <= exact <= 1:
        raise BadInput("a probability", "it is not in [0, 1]", "Give a number from 0 to 1")
    scaled = exact * ONE
    return -(-scaled.numerator // scaled.denominator) if up else scaled.numerator // scaled.denominator


def highest(null: int, *, asked: Decimal, missed: Decimal) -> int:
    """The largest numerator a record may have when its null has ``null``: p <= e^asked p0 (being asked) and
    1 - p0 <= e^missed (1 - p) (being missed), rounded down.
    """
    grow = _PRECISE.multiply(_PRECISE.exp(min(asked, _ENOUGH)), _BELOW)
    keep = _PRECISE.multiply(_PRECISE.exp(_PRECISE.minus(min(missed, _ENOUGH))), _ABOVE)
    by_asked = int(min(_PRECISE.multiply(grow, Decimal(null)), Decimal(ONE)).to_integral_value(ROUND_FLOOR))
    # being missed keeps some probability, or its absence would tell: rounded up, and never to 0
    by_missed = ONE - int(_PRECISE.multiply(keep, Decimal(ONE - null)).to_integral_value(ROUND_CEILING))
    return max(null, min(by_asked, by_missed))


def coins(numerators: Any, *, null: int, receipt: Receipt, who: str | None = None) -> NDArray[np.bool_]:
    """One coin a record, each with its own probability: its null's or more, up to what was charged.

    ``numerators`` (over 2^63) may depend on each record alone; ``null`` is public. A numerator outside
    [null, highest] is moved to its end silently: an error would say that it was there.
    """
    asked, missed = caps_of(receipt, who)
    if type(null) is not int or not 0 <= null <= ONE:
        raise BadInput("the null's probability", "it is not a numerator over 2^63", "Use numerator(p, up=True)")
    top = highest(null, asked=asked, missed=missed)
    values = np.clip(_numerators(numerators), np.uint64(null), np.uint64(top))

    def sampler(streams: Streams) -> NDArray[np.bool_]:
        return streams(0).bernoulli(values)

    return release(
        receipt,
        "coins",
        sampler,
        inputs=values,
        measure="one-record",
        sensitivity=float(top - null),
        parameters={"null": null, "highest": top, "records": values.size},
        who=who,
    )


def _numerators(values: Any) -> NDArray[np.uint64]:
    """Numerators as unsigned words; a negative one is 0. (numpy alone would read a list with 2^63 in it as floats.)"""
    if isinstance(values, (list, tuple)) and all(type(value) is int for value in values):
        values = np.array([min(max(value, 0), ONE) for value in values], dtype=np.uint64)
    numerators = np.asarray(values)
    if numerators.ndim != 1 or numerators.dtype.kind not in "iu":
        raise BadInput("probabilities", "they are not a list of numerators over 2^63", "Use numerator(p, up=False)")
    return numerators.astype(np.uint64) if numerators.dtype.kind == "u" else np.maximum(numerators, 0).astype(np.uint64)


def threshold_coins(above: Any, *, high: int, low: int, receipt: Receipt, who: str | None = None) -> NDArray[np.bool_]:
    """A threshold response: coins of ``high`` for records above a threshold, of ``low`` for others and for the null.

    ``high`` and ``low`` are public, so a pair that breaks the caps that were charged is refused.
    """
    fell = np.zeros(np.size(above), dtype=bool)
    fell[threshold_places(above, high=high, low=low, receipt=receipt, who=who)] = True
    return fell


def threshold_places(above: Any, *, high: int, low: int, receipt: Receipt, who: str | None = None) -> NDArray[np.int64]:
    """The same coins: the places of those that fell, in order. For many records it is much faster than a mask."""
    asked, missed = caps_of(receipt, who)
    if type(high) is not int or type(low) is not int or not 0 <= low <= high <= ONE:
        raise BadInput("the coins of a threshold response", "0 <= low <= high <= 2^63 does not hold", "Use numerator")
    if high > highest(low, asked=asked, missed=missed):
        raise BadInput(
            "the coins of a threshold response",
            f"they cost more than the asked={asked}, missed={missed} that were charged",
            "Lower high, raise low, or charge what they cost",
        )
    bits = np.asarray(above)
    if bits.ndim != 1 or bits.dtype != np.bool_:
        raise BadInput("the records above a threshold", "they are not a list of true and false", "Give booleans")

    def sampler(streams: Streams) -> NDArray[np.int64]:
        toss = fallen_far if bits.size >= MANY else Stream.fallen
        lows = toss(streams(0), low, bits.size)
        below = lows[~bits[lows]]  # records above toss other coins
        if bits.size >= MANY and high < ONE >> _FEW:  # so few that everybody may toss, and those above are picked out
            highs = toss(streams(1), high, bits.size)
            highs = highs[bits[highs]]
        else:
            places = np.flatnonzero(bits)
            highs = places[toss(streams(1), high, places.size)]
        return np.sort(np.concatenate([below, highs]), kind="stable")  # two runs in order: merged in one pass

    return release(
        receipt,
        "threshold-coins",
        sampler,
        inputs=bits,
        measure="one-record",
        sensitivity=1.0,
        parameters={"null": 0, "low": low, "high": high, "records": bits.size},
        who=who,
    )


def caps_of(receipt: Receipt, who: str | None) -> tuple[Decimal, Decimal]:
    """What being asked and being missed may cost: the least over the groups that are served at once."""
    events = paid_events(receipt, (ThresholdResponse, Pure), "coin", who)
    asked = min(event.asked if isinstance(event, ThresholdResponse) else _pure(event) for event in events)
    missed = min(event.missed if isinstance(event, ThresholdResponse) else _pure(event) for event in events)
    return asked, missed


def _pure(event: Event) -> Decimal:
    epsilon = event.pure_epsilon()
    assert epsilon is not None  # its kind was checked
    return epsilon


def poisson_mask(slots: int, *, receipt: Receipt, who: str | None = None) -> NDArray[np.bool_]:
    """Who takes part in this step: each of ``slots`` (a public number) with the rate that was charged for ``who``.

    The rate is rounded down to a numerator over 2^63. A mask is secret; each step has one a group.
    """
    group = who or (receipt.charge_of().who if type(receipt) is Receipt else None)
    event = paid_event(receipt, PoissonSampledGaussian, "Poisson", group)
    if type(slots) is not int or slots < 0:
        raise BadInput("a Poisson mask", "the number of slots is not a whole number", "Give the planned size")
    rate = numerator(event.sampling_rate, up=False)

    def sampler(streams: Streams) -> NDArray[np.bool_]:
        return streams(0).bernoulli(np.full(slots, rate, dtype=np.uint64))

    return release(
        receipt,
        "poisson-mask",
        sampler,
        inputs=None,
        measure="none",
        sensitivity=0.0,
        parameters={"rate": event.sampling_rate, "slots": slots},
        who=group,
        slot=MASK,
    )


def masked_groups(receipt: Receipt, who: str | None) -> list[str]:
    """The groups whose step is priced as a sampled batch: its noise comes after their masks."""
    return [
        charge.who
        for charge in receipt.entry.charges
        if who in (None, charge.who) and isinstance(charge.event, PoissonSampledGaussian)
    ]


# -- randomness that reads no private data


def random_places(size: int, count: int, *, where: Receipt | Source, kind: str = "order") -> NDArray[np.int64]:
    """``count`` of ``size`` places without repetition, in random order; all of them, if there are fewer.

    ``kind``: what they are for. A receipt gives one draw a kind.
    """
    if min(size, count) < 0:
        raise BadInput("places at random", "a number of places is negative", "Give 0 or more")
    if isinstance(where, Source):
        return _drawn(where.free(f"{kind}\0{size}\0{count}"), size, count)

    def sampler(streams: Streams) -> NDArray[np.int64]:
        return _drawn(streams(0), size, count)

    return release(
        where,
        "random-places",
        sampler,
        inputs=None,
        measure="none",
        sensitivity=0.0,
        parameters={"kind": kind},  # how many there are may be private
        slot=kind,
    )


def random_coins(size: int, chance: int, *, where: Receipt, kind: str = "coins") -> NDArray[np.bool_]:
    """``size`` independent coins that fall with probability ``chance`` over 2^63, which is public. They read nothing,
    and are secret: what they decide must not be released (docs/proofs/hidden-selection.md).
    """
    if type(chance) is not int or not 0 <= chance <= ONE or size < 0:
        raise BadInput("coins at random", "their chance is no numerator over 2^63", "Use numerator(p, up=False)")

    def sampler(streams: Streams) -> NDArray[np.bool_]:
        return streams(0).bernoulli(np.full(size, chance, dtype=np.uint64))

    return release(
        where,
        "random-coins",
        sampler,
        inputs=None,
        measure="none",
        sensitivity=0.0,
        parameters={"kind": kind, "chance": chance},
        slot=kind,
    )


def _drawn(stream: Stream, size: int, count: int) -> NDArray[np.int64]:
    """By random words in order; equal words, one pair in 2^64, keep the places' own order."""
    if 8 * count >= size:
        return _in_order(stream.words(size))[:count]
    chosen: dict[int, None] = {}  # few of many: drawn one by one
    while len(chosen) < count:
        for position in stream.below(np.full(count - len(chosen), size, dtype=np.int64)).tolist():
            chosen[position] = None
    return np.fromiter(chosen, dtype=np.int64, count=count)


def _in_order(words: Words) -> NDArray[np.int64]:
    """The stable order, which any order is where no two are equal; that one is found much faster."""
    order = np.argsort(words)
    ranked = words[order]
    return np.argsort(words, kind="stable") if (ranked[1:] == ranked[:-1]).any() else order
