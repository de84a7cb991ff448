"""One draw that has no end: the coins and the noise of a stream, each known by its number.

A stream is charged once, whatever its length: every record is met by one coin and teaches in one update. So one draw is
taken off the receipt, and from then on coin k and noise j are functions of the draw's secret key and their numbers. A
batch and single records get the same coins, and a stream that is gone on with from the same key (a seed, a sealed key)
gets the same draw for the same number.

Guarantee: coin k falls with exactly its numerator over 2^63, moved silently into [null, high], which must keep the caps
that were charged. Noise j is that of `discreet.noise.additive_noise`, `gamma_direction` or `discrete_laplace`.
What the caller owes: **a number is used once**. The same coin for two records, or the same noise for two sums, shows
what they hide; after a crash a number may be used again only for what nobody has seen (docs/proofs/streams.md).

A source that records or replays (`Source.watches`) sees each use as a call of its own.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise.additive_noise import gamma_steps, gaussian_steps
from discreet.noise.coins import caps_of, highest
from discreet.noise.sources import Source, Streams, paid_epsilon, paid_event, paid_events, positive, release
from discreet.noise.stream import BLOCK_WORDS, ONE, Floats, Integers, Stream, Words
from discreet.privacy.events import MOST_SCALE, DiscreteLaplace, Event, Gaussian, Pure
from discreet.privacy.ledger.receipts import Receipt

ENDLESS = "endless"
_ROW_WORDS = 1 << 13
"""Noise is made for several updates at once, about this many words; how many depends on the size of the sum alone."""
_MOST_STEPS = 2.0**61
_BUFFERED: weakref.WeakSet[IndexedCoins] = weakref.WeakSet()


class _Draw:
    """The one draw of a receipt, and the key that everything is made of."""

    def __init__(self, receipt: Receipt, who: str, mechanism: str) -> None:
        self.receipt, self.who, self.mechanism = receipt, who, mechanism
        self.ticket = receipt.take(ENDLESS, who)
        source = receipt.source
        assert isinstance(source, Source)  # checked with the events
        self.watched = source.watches
        self._key = b"" if self.watched else self.use(_key_of, inputs=None, measure="none", sensitivity=0.0)

    def use(self, sampler: Any, *, inputs: Any, measure: str, sensitivity: float, **parameters: Any) -> Any:
        """Tell the source of one use of the draw."""
        self.receipt.check()
        return release(
            self.receipt,
            self.mechanism,
            sampler,
            inputs=inputs,
            measure=measure,
            sensitivity=sensitivity,
            parameters=parameters,
            ticket=self.ticket,
        )

    def stream(self, number: int, streams: Streams | None = None) -> Stream:
        """The words of part ``number``."""
        if streams is None:
            self.receipt.check()
        return Stream(self._key if streams is None else _key_of(streams), str(number).encode())


def _key_of(streams: Streams) -> bytes:
    return streams(0).words(4).tobytes()


class IndexedCoins:
    """A coin for each record of a stream, by its number."""

    def __init__(self, receipt: Receipt, *, who: str) -> None:
        self._asked, self._missed = caps_of(receipt, who)
        self._draw = _Draw(receipt, who, "stream-coins")
        self._watched, self._receipt = self._draw.watched, receipt
        self._checked: set[tuple[int, int]] = set()
        self._first, self._words = 0, np.empty(0, dtype=np.uint64)
        self._list: list[int] = []
        _BUFFERED.add(self)

    @property
    def caps(self) -> tuple[Decimal, Decimal]:
        """What being asked and being missed may cost."""
        return self._asked, self._missed

    @property
    def watched(self) -> bool:
        """Whether each toss is seen by a source that records or replays."""
        return self._draw.watched

    def check(self, null: int, high: int) -> None:
        """Refuse ends of chances (public) that cost more than what was charged."""
        if (null, high) in self._checked:
            return
        if type(null) is not int or type(high) is not int or not 0 <= null <= high <= ONE:
            raise BadInput("the chances of a stream", "0 <= null <= high <= 2^63 does not hold", "Use numerator")
        if high > highest(null, asked=self._asked, missed=self._missed):
            raise BadInput(
                "the chances of a stream",
                f"they cost more than the asked={self._asked}, missed={self._missed} that were charged",
                "Lower high, raise null, or charge what they cost",
            )
        self._checked.add((null, high))

    def toss(self, number: int, numerator: int, null: int, high: int) -> bool:
        """Whether the coin of record ``number`` falls; ``numerator`` may depend on that record alone."""
        if self._watched:
            numerators = np.array([min(max(numerator, 0), ONE)], dtype=np.uint64)
            return bool(self.toss_many(number, numerators, null, high)[0])
        if (null, high) not in self._checked:
            self.check(null, high)
        offset = number - self._first
        if not 0 <= offset < len(self._list) or self._receipt.closed:
            self._refill(number, 1)
            offset = number - self._first
        return self._list[offset] < (null if numerator < null else min(numerator, high))

    def toss_many(self, first: int, numerators: Words, null: int, high: int) -> NDArray[np.bool_]:
        """The same for records ``first``, ``first`` + 1, ..."""
        self.check(null, high)
        values = np.minimum(np.maximum(numerators, np.uint64(null)), np.uint64(high))
        if not self._watched:
            return np.asarray(self._at(first, values.size) < values)

        def sampler(streams: Streams) -> NDArray[np.bool_]:
            return np.asarray(self._made(first, values.size, streams) < values)

        fell: NDArray[np.bool_] = self._draw.use(
            sampler,
            inputs=values,
            measure="one-record",
            sensitivity=float(high - null),
            null=null,
            highest=high,
            first=first,
            records=values.size,
        )
        return fell

    def near(self, first: int, count: int, *, high: int) -> tuple[NDArray[np.int64], Words]:
        """Of ``count`` records, the places of those whose coin is below ``high``, and these coins: 63 secret bits. A
        coin falls when it is below its record's chance, so the others miss, whatever theirs is.

        For deciding many records between [null, high] that were checked. Not where tosses are `watched`.
        """
        words = self._at(first, count)
        (places,) = (words < np.uint64(high)).nonzero()
        return places, words[places]

    def _at(self, first: int, count: int) -> Words:
        offset = first - self._first
        if not 0 <= offset <= offset + count <= self._words.size or self._receipt.closed:
            self._refill(first, count)
            offset = first - self._first
        return self._words[offset : offset + count]

    def _refill(self, first: int, count: int) -> None:
        if type(first) is not int or first < 0:
            raise BadInput("a coin of a stream", "its number is not a whole number", "Count records from 0")
        self._first = first - first % BLOCK_WORDS
        blocks = -(-(first + count - self._first) // BLOCK_WORDS)
        self._words = self._made(self._first, blocks * BLOCK_WORDS)
        self._list = self._words[:BLOCK_WORDS].tolist()

    def _made(self, first: int, count: int, streams: Streams | None = None) -> Words:
        """The upper 63 bits of these words."""
        start = first // BLOCK_WORDS
        stream = self._draw.stream(0, streams)
        blocks = range(start, -(-(first + count) // BLOCK_WORDS))
        words = np.frombuffer(b"".join(map(stream.block, blocks)), dtype="<u8") >> np.uint64(1)
        return words[first - start * BLOCK_WORDS :][:count]

    def forget(self) -> None:
        """Drop what was made ahead: a forked child must not toss its parent's coins."""
        self._list, self._words = [], np.empty(0, dtype=np.uint64)


def _forget_all() -> None:
    for coins in list(_BUFFERED):
        coins.forget()


os.register_at_fork(after_in_child=_forget_all)


class IndexedNoise:
    """Noise for each sum of a stream, by its number: Gaussian or of Gamma length, whichever was charged."""

    def __init__(self, receipt: Receipt, *, size: int, sensitivity: float, who: str) -> None:
        self.reach = positive(sensitivity, "sensitivity")
        if type(size) is not int or size < 1:
            raise BadInput("the noise of a stream", "its sums have no size", "Give how many numbers a sum has")
        self.event = _update_event(receipt, who)
        self._size = size
        if isinstance(self.event, Gaussian):
            self._lattice, self._steps = gaussian_steps(self.event.noise_multiplier, self.reach, size)
        else:
            epsilon = float(paid_epsilon(receipt, (Pure,), "Gamma-length", who))
            self._lattice, self._steps = gamma_steps(epsilon, self.reach, size)
        self._draw = _Draw(receipt, who, "stream-noise")
        self._watched, self._finer = self._draw.watched, 1.0 / self._lattice.step  # a power of two
        self._rows = max(1, _ROW_WORDS // size)
        self._block, self._noise = -1, np.empty((0, size), dtype=np.int64)
        self._listed: list[Floats] = []

    def hide(self, number: int, values: Floats) -> Floats:
        """``values`` with noise number ``number``."""
        if values.shape != (self._size,):
            raise BadInput("a sum of a stream", "it does not have the declared size", "Give one number a weight")
        if not self._watched:
            self._draw.receipt.check()
            return self._hidden(number, values)
        hidden: Floats = self._draw.use(
            lambda streams: self._hidden(number, values, streams),
            inputs=values,
            measure="l2",
            sensitivity=self.reach,
            number=number,
            scale=self._steps,
            shape=values.shape,
        )
        return hidden

    @property
    def step(self) -> float:
        """Of the lattice, a power of two."""
        return self._lattice.step

    @property
    def most_steps(self) -> float:
        """How far from 0 noise is expected to be at most, in steps of the lattice: forty times its scale, and of Gamma
        length as many times as a sum has numbers.
        """
        return 40.0 * self._steps * (1 if isinstance(self.event, Gaussian) else self._size)

    def check(self) -> None:
        """Refuse a receipt that may not be used here and now; `hide_parts` does not look again."""
        self._draw.receipt.check()

    def hide_parts(self, number: int, parts: Sequence[tuple[bool, Floats]], out: Floats) -> None:
        """The same for a sum of a few parts, each added or (False) taken away, in whole steps of the lattice, into
        ``out``, in steps, too. As whole numbers below 2^52 they and the noise add up exactly, in any order.

        Not where uses are `watched`. The caller has called `check`.
        """
        block, row = divmod(number, self._rows)
        if block != self._block or not self._listed:
            self._noise, self._block = self._made(block, None), block
            self._listed = list(self._noise.astype(np.float64))
        noise = self._listed[row]
        if not parts:
            out[:] = noise
        for added, part in parts:
            (np.add if added else np.subtract)(noise, part, out)
            noise = out

    def _hidden(self, number: int, values: Floats, streams: Streams | None = None) -> Floats:
        block, row = divmod(number, self._rows)
        if streams is not None or block != self._block:
            self._noise, self._block, self._listed = self._made(block, streams), block, []
        steps = np.floor(np.minimum(np.maximum(values * self._finer, -_MOST_STEPS), _MOST_STEPS))
        return np.asarray((steps.astype(np.int64) + self._noise[row]) * self._lattice.step)

    def _made(self, block: int, streams: Streams | None) -> Integers:
        """Rows of noise in whole steps: Gaussian, or of Gamma length."""
        stream = self._draw.stream(block, streams)
        normals = stream.normals(self._rows * self._size).reshape(self._rows, self._size)
        if not isinstance(self.event, Gaussian):
            lengths = stream.exponentials(self._rows * self._size).reshape(self._rows, self._size).sum(axis=1)
            normals *= (lengths / np.sqrt(np.einsum("ij,ij->i", normals, normals)))[:, None]
        return np.rint(normals * self._steps).astype(np.int64)


class IndexedCounts:
    """Two-sided geometric noise for each count of a stream, by its number."""

    def __init__(self, receipt: Receipt, *, who: str) -> None:
        self._epsilon = paid_epsilon(receipt, (DiscreteLaplace,), "discrete Laplace", who)
        self._reach = paid_event(receipt, DiscreteLaplace, "discrete Laplace", who).sensitivity
        if self._reach / self._epsilon > MOST_SCALE:
            raise BadInput("discrete Laplace noise", "its scale is above 2^40", "Charge more")
        self._draw = _Draw(receipt, who, "stream-count")

    def hide(self, number: int, count: int) -> int:
        """``count`` with noise number ``number``."""
        scale = self._reach / self._epsilon

        def sampler(streams: Streams | None) -> int:
            noise = self._draw.stream(number, streams).discrete_laplace(scale.numerator, scale.denominator, 1)
            return int(count) + int(noise[0])

        if not self._draw.watched:
            return sampler(None)
        return int(
            self._draw.use(
                sampler,
                inputs=np.array(count),
                measure="l1",
                sensitivity=float(self._reach),
                number=number,
                epsilon=self._epsilon,
            )
        )


def _update_event(receipt: Receipt, who: str) -> Event:
    (event,) = paid_events(receipt, (Gaussian, Pure), "update", who)
    if event.pure_epsilon() == 0:
        raise ReceiptRefused("the noise of a stream", "it was charged epsilon=0", "Charge more than 0")
    return event
