"""A parameter's share of every unit's gradient: how long it is, and how it is added up with weights.

A layer multiplies vectors a_l of ``before`` numbers into vectors of ``after``, at L places of a unit (pixels of its
maps, words, views); b_l is the gradient of what comes out. A unit's gradient is sum_l b_l a_l^T. Three ways, chosen by
shapes alone:

- *outer*: at one place, its length is |a| |b|;
- *whole*: the gradient of every unit is written out and kept;
- *ghost*: |sum_l b_l a_l^T|^2 = sum_lm (a_l a_m)(b_l b_m), two L x L products instead (Li et al. 2022).

*Outer* and *ghost* keep a and b, and are added up in one weighted product at the end: no second backward pass.

Rounding (`rounding`): sums over units are in single precision over a bounded number of units and in double precision
beyond. Places that are added up without being written out may cancel; what is rounded away is then
relative to the *spread* T = sum_l |a_l| |b_l|, not to the length. `hidden` says how much of the squared length that may
be, and the engine lengthens the unit by it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from discreet.trainers.dp_sgd.engine.patches import Shape

CACHED = 1 << 21
"""Numbers that are worked on at once, so that they stay in the cache."""
REUSED = 1_900_000
"""Numbers in a piece of memory that allocators keep for the next step: larger ones they give back, and page faults cost
as much as the gradients (jemalloc: 8 MiB, glibc: 32 MiB)."""
_MADE = 1_700_000
"""Numbers in sums of blocks before they are added up."""
_SHORT, _NARROW = 64, 64


class GradientPart(ABC):
    """One use of one parameter, in U units."""

    _hidden: Tensor | None = None

    @abstractmethod
    def squares(self) -> Tensor:
        """(U,): the squared length of every unit's gradient."""

    def hidden(self) -> Tensor | None:
        """(U,): what rounding may hide of the squared length, known after `squares`; None: nothing to speak of."""
        return self._hidden

    def settled(self) -> GradientPart:
        """This one, or what takes less to write out and keep."""
        return self

    def joined(self, others: Sequence[GradientPart]) -> GradientPart:
        """The same parameter used several times: its gradients add up before they have a length."""
        return Whole(sum((part.whole() for part in others), start=self.whole()))

    @abstractmethod
    def whole(self) -> Tensor:
        """(U, P): every unit's gradient, in the parameter's own order."""

    @abstractmethod
    def put(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """Write sum_u factors_u g_u to ``total`` (P,), in doubles. Units ``without`` (U,) are not finite: left out."""


class Whole(GradientPart):
    """Gradients that are written out: a tensor (U, P), or several one after the other.

    ``order``: those of a convolution, in the order of its patches; ``last``: with its outputs last.
    """

    def __init__(
        self, *each: Tensor, order: Shape | None = None, last: bool = False, squares: Tensor | None = None
    ) -> None:
        self._each, self._order, self._last, self._squares = each, order, last, squares

    def squares(self) -> Tensor:
        """(U,)."""
        return torch.cat([square_sums(part) for part in self._each]) if self._squares is None else self._squares

    def whole(self) -> Tensor:
        """(U, P)."""
        return in_weight_order(torch.cat(self._each), self._order, last=self._last)

    def put(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """To ``total``."""
        if without is not None:
            gone = torch.split(without, [len(part) for part in self._each])
            self._each = tuple(cleared(part, rows) for part, rows in zip(self._each, gone, strict=True))
        ordered = total if self._order is None else torch.empty_like(total)
        sums = RunningSum(ordered)
        for part, share in zip(self._each, torch.split(factors, [len(part) for part in self._each]), strict=True):
            sums.add_products(part[:, None], share[:, None, None], BLOCK)
        if ordered is not total:
            total.copy_(in_weight_order(ordered[None], self._order, last=self._last)[0])


class Looked(GradientPart):
    """Rows of a table looked up: ``words`` (U, L), ``gradients`` (U, L, width)."""

    def __init__(self, words: Tensor, gradients: Tensor, shape: torch.Size) -> None:
        self._words, self._gradients, self._shape = words, gradients, shape

    def squares(self) -> Tensor:
        """(U,)."""
        if self._words.shape[1] == 1:
            return square_sums(self._gradients)
        squares, hidden = [], []
        width = self._words.shape[1] * (self._words.shape[1] + self._gradients.shape[2])
        for piece in pieces(len(self._words), max(1, CACHED // width)):
            words, gradients = self._words[piece], self._gradients[piece]
            same = words[:, :, None] == words[:, None, :]
            products = torch.bmm(gradients, gradients.transpose(1, 2))
            squares.append((products * same).sum(dim=(1, 2)))
            hidden.append(lost(gradients.norm(dim=2).sum(dim=1), gradients.shape[2], words.shape[1]))
        self._hidden = torch.cat(hidden)
        return torch.cat(squares)

    def whole(self) -> Tensor:
        """(U, P)."""
        each = self._gradients.new_zeros(len(self._words), *self._shape)
        places = self._words[:, :, None].expand(self._gradients.shape)
        return each.scatter_add_(1, places, self._gradients).flatten(1)

    def put(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """To ``total``."""
        gradients = cleared(self._gradients, without)
        table = total.zero_().view(self._shape)
        for piece in pieces(len(gradients), BLOCK):
            scaled = gradients[piece].double() * along(factors[piece], gradients)
            table.index_add_(0, self._words[piece].reshape(-1), scaled.flatten(0, 1))


class RunningSum:
    """A sum in doubles that is written to ``out`` (P,): the first piece is copied, others are added."""

    def __init__(self, out: Tensor) -> None:
        self._out, self._empty = out, True

    def add(self, piece: Tensor) -> None:
        """Add one more."""
        total = self._out.view(piece.shape)
        if self._empty:
            total.copy_(piece)
        else:
            total.add_(piece)
        self._empty = False

    def add_products(self, inputs: Tensor, gradients: Tensor, rows: int, factors: Tensor | None = None) -> None:
        """Add the products of (n, L, before) and (n, L, after), by ``factors`` (n,), over n and L: blocks of ``rows``
        of the n, and up to `BLOCKS` of them, in single precision.
        """
        several = max(1, _MADE // (inputs.shape[2] * gradients.shape[2]))
        short = several > _SHORT  # then doubles cost nothing
        for piece in pieces(len(inputs), rows * (several if short else min(BLOCKS, several))):
            weighted = gradients[piece] if factors is None else gradients[piece] * along(factors[piece], gradients)
            for a, b in _in_blocks(inputs[piece], weighted, rows):
                self._add_blocks(torch.bmm(b.transpose(1, 2), a).flatten(1), short=short)

    def _add_blocks(self, blocks: Tensor, *, short: bool) -> None:
        """(blocks, P)."""
        if len(blocks) == 1:
            self.add(blocks[0])
        elif short:
            self.add(blocks.sum(dim=0, dtype=torch.float64))
        else:
            self.add(torch.mv(blocks.t(), blocks.new_ones(len(blocks))))


def lost(spread: Tensor, terms: int, places: int) -> Tensor:
    """What rounding may hide of a squared length, for a spread T and inner products of ``terms`` numbers."""
    return spread.square() * hidden_share(terms, places)


def square_sums(each: Tensor) -> Tensor:
    """(U, ...) to (U,): sums of squares, at most `TERMS` of them in single precision."""
    flat = each.flatten(1)
    if flat.shape[1] <= _NARROW:  # torch's norms of short rows are slow
        return flat.square().sum(dim=1, dtype=torch.float64) + flat.shape[1] * LOST
    even = flat.shape[1] // TERMS * TERMS
    squares: Tensor = torch.linalg.vector_norm(flat[:, even:], dim=1).double().square()
    if even:
        squares += (
            torch.linalg.vector_norm(flat[:, :even].reshape(len(flat), -1, TERMS), dim=2).double().square().sum(dim=1)
        )
    return squares + flat.shape[1] * LOST


def in_weight_order(each: Tensor, order: Shape | None, *, last: bool = False) -> Tensor:
    """(n, P): from the order of patches (out, height, width, channel), or (height, width, channel, out) if outputs are
    ``last``, to that of weights (out, channel, ...).
    """
    if order is None or (order.kernel == (1, 1) and not last):
        return each
    pixels = order.kernel[0] * order.kernel[1]
    if last:
        split = each.reshape(len(each), pixels, order.channels, -1).permute(0, 3, 2, 1)
    else:
        split = each.reshape(len(each), -1, pixels, order.channels).transpose(2, 3)
    return split.reshape(len(each), -1)


def pieces(count: int, size: int) -> Iterator[slice]:
    """0 to ``count`` in pieces of at most ``most``."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _in_blocks(inputs: Tensor, gradients: Tensor, rows: int) -> Iterator[tuple[Tensor, Tensor]]:
    """(n, L, width) each, as blocks of ``rows`` units, (blocks, rows x L, width), and then the rest."""
    even = len(inputs) // rows * rows
    if even:
        blocks = even // rows
        yield (
            inputs[:even].reshape(blocks, -1, inputs.shape[2]),
            gradients[:even].reshape(blocks, -1, gradients.shape[2]),
        )
    if even < len(inputs):
        yield inputs[even:].flatten(0, 1)[None], gradients[even:].flatten(0, 1)[None]


def cleared(part: Tensor, without: Tensor | None) -> Tensor:
    """``part`` with zeros for the units ``without``, if there are any."""
    return part if without is None else part.masked_fill(along(without, part), 0.0)


def along(values: Tensor, part: Tensor) -> Tensor:
    """One value a unit, to be multiplied with its ``part``."""
    return values.reshape(-1, *[1] * (part.dim() - 1))


# How far single precision may carry two neighbours' sums apart (docs/proofs/clipping-engine.md).
#
# Lengths and sums are taken in single precision over a bounded number of terms and in double precision beyond:
#
# - a sum of n vectors of length C, in any order, is off by at most u C (1 + 2 + ... + n): blocks of `BLOCK` units, and
#   `BLOCKS` of them. That is worst case, for each of the neighbours;
# - a length is off by at most `TERMS` u of itself. Worst case, too;
# - where the places of a unit are added without being written out, errors are taken to be independent of each
# other. The
#   bound is then for sums of `PLACES` places, of units that are lengthened by `hidden_share` of their spread.


SINGLE = 2.0**-24
"""u: half a unit in the last place of single precision."""
LOST = 2.0**-126
"""What a product may lose that is too small for single precision, with or without numbers below its normal ones."""
BLOCK, BLOCKS, PLACES, TERMS = 256, 8, 2048, 4096
_GHOSTS = 2.0**-9


def margin(units: int) -> float:
    """What single precision may add to a unit's C, as a share of it, in micro-batches of ``units`` units."""
    block, blocks = min(units, BLOCK), min(math.ceil(units / BLOCK), BLOCKS)
    sums = block * (block + 1) / 2 + block * blocks * (blocks + 1) / 2
    return 2 * SINGLE * sums + TERMS * SINGLE + _GHOSTS


def hidden_share(terms: int, places: int) -> float:
    """What rounding may hide of a squared length, as a share of T^2, T = sum_l |a_l| |b_l| over ``places``; inner
    products have ``terms`` terms.
    """
    return SINGLE * (8 + 4 * math.sqrt(terms) / places)


@contextmanager
def single_precision() -> Iterator[None]:
    """Products are rounded as is said here, also where a program asked torch for shorter and faster ones."""
    backends: Any = torch.backends
    choices = [backends.mkldnn.matmul, backends.mkldnn.conv, backends.cuda.matmul, backends.cudnn.conv]
    asked = [backend.fp32_precision for backend in choices]
    for backend in choices:
        backend.fp32_precision = "ieee"
    try:
        yield
    finally:
        for backend, precision in zip(choices, asked, strict=True):
            backend.fp32_precision = precision


# Linear layers: outer products, or ghosts of them.


class Product(GradientPart):
    """A linear layer: ``inputs`` (U, L, before), ``gradients`` (U, L, after)."""

    def __init__(self, inputs: Tensor, gradients: Tensor, *, squares: Tensor | None = None) -> None:
        """``squares``: those of ``gradients``, where they are known."""
        self._inputs, self._gradients, self._squares = inputs, gradients, squares

    def joined(self, others: Sequence[GradientPart]) -> GradientPart:
        """As many places more, if all uses are products."""
        parts = [self, *(part for part in others if isinstance(part, Product))]
        if len(parts) <= len(others):
            return super().joined(others)
        return Product(
            torch.cat([part._inputs for part in parts], 1), torch.cat([part._gradients for part in parts], 1)
        )

    def settled(self) -> GradientPart:
        """This one, or what takes less to write out."""
        (_, places, before), after = self._inputs.shape, self._gradients.shape[2]
        return Whole(self.whole()) if writes_out(places, before, after) else self

    def squares(self) -> Tensor:
        """(U,)."""
        if self._inputs.shape[1] == 1:
            of_gradients = square_sums(self._gradients) if self._squares is None else self._squares
            return square_sums(self._inputs) * of_gradients
        squares, self._hidden = ghost(self._inputs, self._gradients)
        return squares

    def whole(self) -> Tensor:
        """(U, P)."""
        return torch.bmm(self._gradients.transpose(1, 2), self._inputs).flatten(1)

    def put(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """To ``total``."""
        inputs, gradients = cleared(self._inputs, without), cleared(self._gradients, without)
        rows = BLOCK if inputs.shape[1] == 1 else max(1, PLACES // inputs.shape[1])
        RunningSum(total).add_products(inputs, gradients, rows, factors)


def writes_out(places: int, before: int, after: int) -> bool:
    """Whether writing gradients out is less work than *ghost*: as measured, counting products of each."""
    return places > 1 and before * after <= 2 * places * (before + after)


def ghost(inputs: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
    """Squared lengths of sum_l b_l a_l^T, and what rounding may hide of them; for many L, in pieces."""
    units, places, before = inputs.shape
    cached = pieces(units, max(1, CACHED // (places * (before + 2 * places))))
    pairs = ((torch.bmm(inputs[piece], inputs[piece].transpose(1, 2)), gradients[piece]) for piece in cached)
    squares, hidden = zip(*(ghost_of(products, part, before) for products, part in pairs), strict=True)
    return torch.cat(squares), torch.cat(hidden)


def ghost_of(inputs: Tensor, gradients: Tensor, before: int) -> tuple[Tensor, Tensor]:
    """As `ghost`, of the products of inputs with each other, (n, L, L), each a sum of ``before`` terms."""
    other, after = torch.bmm(gradients, gradients.transpose(1, 2)), gradients.shape[2]
    a, b = (part.diagonal(dim1=1, dim2=2).clamp_min(0.0).double().sqrt() for part in (inputs, other))
    hidden = lost((a * b).sum(dim=1), before + after, inputs.shape[1])
    under = math.sqrt(LOST * before) * b.sum(dim=1) + math.sqrt(LOST * after) * a.sum(dim=1)  # squares that were 0
    hidden = hidden + 4 * (under.square() + inputs.shape[1] ** 2 * LOST)
    return inputs.mul_(other).sum(dim=(1, 2)).clamp_min_(0.0), hidden
