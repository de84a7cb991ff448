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

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from discreet.trainers.dp_sgd.engine.patches import Shape
from discreet.trainers.dp_sgd.engine.rounding import BLOCK, BLOCKS, LOST, TERMS, hidden_share

CACHED = 1 << 21
"""Numbers that are worked on at once, so that they stay in the cache."""
REUSED = 1_900_000
"""Numbers in a piece of memory that allocators keep for the next step: larger ones they give back, and page faults cost
as much as the gradients (jemalloc: 8 MiB, glibc: 32 MiB)."""
_MADE = 1_700_000
"""Numbers in sums of blocks before they are added up."""
_SHORT, _NARROW = 64, 64


class Part(ABC):
    """One use of one parameter, in U units."""

    @abstractmethod
    def squares(self) -> Tensor:
        """(U,): the squared length of every unit's gradient."""

    def hidden(self) -> Tensor | None:
        """(U,): what rounding may hide of the squared length, known after `squares`; None: nothing to speak of."""
        return None

    @abstractmethod
    def whole(self) -> Tensor:
        """(U, P): every unit's gradient, in the parameter's own order."""

    @abstractmethod
    def put(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """Write sum_u factors_u g_u to ``total`` (P,), in doubles. Units ``without`` (U,) are not finite: left out."""


class Whole(Part):
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
            self._each = tuple(
                part.masked_fill(left_out[:, None], 0.0) for part, left_out in zip(self._each, gone, strict=True)
            )
        found, start = total if self._order is None else torch.empty_like(total), 0
        sums = Total(found)
        for part in self._each:
            own = factors[start : start + len(part)]
            sums.add_products(part[:, None], own[:, None, None], BLOCK)
            start += len(part)
        if found is not total:
            total.copy_(in_weight_order(found[None], self._order, last=self._last)[0])


class Looked(Part):
    """Rows of a table looked up: ``words`` (U, L), ``gradients`` (U, L, width)."""

    def __init__(self, words: Tensor, gradients: Tensor, shape: torch.Size) -> None:
        self._words, self._gradients, self._shape = words, gradients, shape
        self._hidden: Tensor | None = None

    def squares(self) -> Tensor:
        """(U,)."""
        if self._words.shape[1] == 1:
            return square_sums(self._gradients)
        found, hidden = [], []
        width = self._words.shape[1] * (self._words.shape[1] + self._gradients.shape[2])
        for piece in pieces(len(self._words), max(1, CACHED // width)):
            words, gradients = self._words[piece], self._gradients[piece]
            same = words[:, :, None] == words[:, None, :]
            products = torch.bmm(gradients, gradients.transpose(1, 2))
            found.append((products * same).sum(dim=(1, 2)))
            hidden.append(lost(gradients.norm(dim=2).sum(dim=1), gradients.shape[2], words.shape[1]))
        self._hidden = torch.cat(hidden)
        return torch.cat(found)

    def hidden(self) -> Tensor | None:
        """(U,), or None."""
        return self._hidden

    def whole(self) -> Tensor:
        """(U, P)."""
        each = self._gradients.new_zeros(len(self._words), *self._shape)
        places = self._words[:, :, None].expand(self._gradients.shape)
        return each.scatter_add_(1, places, self._gradients).flatten(1)

    def put(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """To ``total``."""
        gradients = self._gradients
        if without is not None:
            gradients = gradients.masked_fill(along(without, gradients), 0.0)
        table = total.zero_().view(self._shape)
        for piece in pieces(len(gradients), BLOCK):
            scaled = gradients[piece].double() * along(factors[piece], gradients)
            table.index_add_(0, self._words[piece].reshape(-1), scaled.flatten(0, 1))


class Total:
    """A sum in doubles that is written to ``out`` (P,): the first piece is copied, others are added."""

    def __init__(self, out: Tensor) -> None:
        self._out, self._empty = out, True

    def add(self, piece: Tensor) -> None:
        """Add one more."""
        mine = self._out.view(piece.shape)
        if self._empty:
            mine.copy_(piece)
        else:
            mine.add_(piece)
        self._empty = False

    def add_products(self, inputs: Tensor, gradients: Tensor, rows: int, factors: Tensor | None = None) -> None:
        """Add the products of (n, L, before) and (n, L, after), by ``factors`` (n,), over n and L: blocks of ``rows``
        of the n, and up to `BLOCKS` of them, in single precision.
        """
        several = max(1, _MADE // (inputs.shape[2] * gradients.shape[2]))
        short = several > _SHORT  # then doubles cost nothing
        for piece in pieces(len(inputs), rows * (several if short else min(BLOCKS, several))):
            own = gradients[piece] if factors is None else gradients[piece] * along(factors[piece], gradients)
            for a, b in _in_blocks(inputs[piece], own, rows):
                self._add_blocks(torch.bmm(b.transpose(1, 2), a).flatten(1), short=short)

    def _add_blocks(self, made: Tensor, *, short: bool) -> None:
        """(blocks, P)."""
        if len(made) == 1:
            self.add(made[0])
        elif short:
            self.add(made.sum(dim=0, dtype=torch.float64))
        else:
            self.add(torch.mv(made.t(), made.new_ones(len(made))))


def lost(spread: Tensor, terms: int, places: int) -> Tensor:
    """What rounding may hide of a squared length, for a spread T and inner products of ``terms`` numbers."""
    return spread.square() * hidden_share(terms, places)


def square_sums(each: Tensor) -> Tensor:
    """(U, ...) to (U,): sums of squares, at most `TERMS` of them in single precision."""
    flat = each.flatten(1)
    if flat.shape[1] <= _NARROW:  # torch's norms of short rows are slow
        return flat.square().sum(dim=1, dtype=torch.float64) + flat.shape[1] * LOST
    whole = flat.shape[1] // TERMS * TERMS
    found: Tensor = torch.linalg.vector_norm(flat[:, whole:], dim=1).double().square()
    if whole:
        found += (
            torch.linalg.vector_norm(flat[:, :whole].reshape(len(flat), -1, TERMS), dim=2).double().square().sum(dim=1)
        )
    return found + flat.shape[1] * LOST


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


def pieces(count: int, most: int) -> Iterator[slice]:
    """0 to ``count`` in pieces of at most ``most``."""
    return (slice(start, min(start + most, count)) for start in range(0, count, most))


def _in_blocks(inputs: Tensor, gradients: Tensor, rows: int) -> Iterator[tuple[Tensor, Tensor]]:
    """(n, L, width) each, as blocks of ``rows`` units, (blocks, rows x L, width), and then the rest."""
    whole = len(inputs) // rows * rows
    if whole:
        blocks = whole // rows
        yield (
            inputs[:whole].reshape(blocks, -1, inputs.shape[2]),
            gradients[:whole].reshape(blocks, -1, gradients.shape[2]),
        )
    if whole < len(inputs):
        yield inputs[whole:].flatten(0, 1)[None], gradients[whole:].flatten(0, 1)[None]


def along(values: Tensor, part: Tensor) -> Tensor:
    """One value a unit, to be multiplied with its ``part``."""
    return values.reshape(-1, *[1] * (part.dim() - 1))
