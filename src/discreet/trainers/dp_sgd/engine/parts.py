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
from collections.abc import Iterator

import torch
from torch import Tensor

from discreet.trainers.dp_sgd.engine.patches import Shape, patches_of, weight_gradient
from discreet.trainers.dp_sgd.engine.rounding import BLOCK, BLOCKS, PLACES, TERMS, hidden_share

_CACHED = 1 << 21
"""Numbers that are worked on at once, so that they stay in the cache."""
_REUSED = 1_900_000
"""Numbers in a piece of memory that allocators keep for the next step: larger ones they give back, and page faults cost
as much as the gradients (jemalloc: 8 MiB, glibc: 32 MiB)."""
_ROOMY = 3.5
"""Written-out gradients are kept if they take at most so many times the memory of inputs and gradients; else they are
computed twice."""


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
    def add(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """Add sum_u factors_u g_u to ``total`` (P,), in doubles. Units ``without`` (U,) are not finite: left out."""


class Whole(Part):
    """Gradients that are written out: a tensor (U, P), or several one after the other.

    ``order``: those of a convolution, in the order of its patches.
    """

    def __init__(self, *each: Tensor, order: Shape | None = None, squares: Tensor | None = None) -> None:
        self._each, self._order, self._squares = each, order, squares

    def squares(self) -> Tensor:
        """(U,)."""
        return torch.cat([square_sums(part) for part in self._each]) if self._squares is None else self._squares

    def whole(self) -> Tensor:
        """(U, P)."""
        return in_weight_order(torch.cat(self._each), self._order)

    def add(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """To ``total``."""
        if without is not None:
            gone = torch.split(without, [len(part) for part in self._each])
            self._each = tuple(
                part.masked_fill(left_out[:, None], 0.0) for part, left_out in zip(self._each, gone, strict=True)
            )
        found, start = total if self._order is None else torch.zeros_like(total), 0
        for part in self._each:
            several = max(1, min(BLOCKS, _REUSED // part.shape[1])) * BLOCK
            for piece in pieces(len(part), several):
                own = factors[start : start + piece.stop - piece.start]
                for a, b in _in_blocks(part[piece, None], own[:, None, None], BLOCK):
                    found += torch.bmm(b.transpose(1, 2), a)[:, 0].sum(dim=0)
                start += len(own)
        if found is not total:
            total += in_weight_order(found[None], self._order)[0]


class Product(Part):
    """A linear layer: ``inputs`` (U, L, before), ``gradients`` (U, L, after)."""

    def __init__(self, inputs: Tensor, gradients: Tensor) -> None:
        self._inputs, self._gradients = inputs, gradients
        self._hidden: Tensor | None = None

    def joined(self, other: Product) -> Product:
        """The same parameter used twice: as many places more."""
        return Product(torch.cat([self._inputs, other._inputs], 1), torch.cat([self._gradients, other._gradients], 1))

    def settled(self) -> Part:
        """This one, or what takes less to write out."""
        (_, places, before), after = self._inputs.shape, self._gradients.shape[2]
        return Whole(self.whole()) if writes_out(places, before, after) else self

    def squares(self) -> Tensor:
        """(U,)."""
        if self._inputs.shape[1] == 1:
            return square_sums(self._inputs) * square_sums(self._gradients)
        found, self._hidden = ghost(self._inputs, self._gradients)
        return found

    def hidden(self) -> Tensor | None:
        """(U,), or None."""
        return self._hidden

    def whole(self) -> Tensor:
        """(U, P)."""
        return torch.bmm(self._gradients.transpose(1, 2), self._inputs).flatten(1)

    def add(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """To ``total``."""
        inputs, gradients = self._inputs, self._gradients
        if without is not None:
            inputs, gradients = (part.masked_fill(_along(without, part), 0.0) for part in (inputs, gradients))
        rows = BLOCK if inputs.shape[1] == 1 else max(1, PLACES // inputs.shape[1])
        scaled, matrix = gradients * _along(factors, gradients), total.view(gradients.shape[2], inputs.shape[2])
        several = max(1, min(BLOCKS, _REUSED // total.numel()))
        for piece in pieces(len(inputs), rows * several):
            for a, b in _in_blocks(inputs[piece], scaled[piece], rows):
                matrix += torch.bmm(b.transpose(1, 2), a).sum(dim=0)


class Convolution(Part):
    """A convolution: ``images`` (rows, channels, height, width), ``gradients`` of its output; ``rows`` to a unit."""

    def __init__(self, images: Tensor, gradients: Tensor, weight: Tensor, shape: Shape, *, units: int) -> None:
        self._images, self._gradients, self._weight, self._shape = images, gradients, weight, shape
        self._units, self._rows = units, len(images) // max(units, 1)
        self._hidden: Tensor | None = None

    def settled(self) -> Part:
        """This one, or what takes less to write out and keep."""
        kept = self._rows * (self._images[0].numel() + self._gradients[0].numel())
        if not self._writes_out() or self._weight.numel() > _ROOMY * kept:
            return self
        each, squares = self._written()
        return Whole(*each, order=self._shape, squares=squares)

    def squares(self) -> Tensor:
        """(U,)."""
        found, hidden = [], []
        for piece in self._pieces(self._units):
            inputs, gradients = self._matrices(piece)
            if self._writes_out():
                made = torch.matmul(gradients.transpose(2, 3), inputs)
                found.append(square_sums(made))
                hidden.append(square_sums(inputs) * square_sums(gradients) * hidden_share(0, self._places()))
                continue
            one, other = ghost(inputs.flatten(0, 1), gradients.flatten(0, 1))
            found.append(one.reshape(len(inputs), -1).sum(dim=1))
            hidden.append(other.reshape(len(inputs), -1).sum(dim=1))
        self._hidden = torch.cat(hidden)
        return torch.cat(found)

    def _places(self) -> int:
        return self._rows * math.prod(self._gradients.shape[2:])

    def _writes_out(self) -> bool:
        after, *before = self._weight.shape
        return writes_out(self._places(), math.prod(before), after // self._shape.groups)

    def hidden(self) -> Tensor | None:
        """(U,), or None."""
        return self._hidden

    def whole(self) -> Tensor:
        """(U, P)."""
        return in_weight_order(torch.cat(self._written()[0]), self._shape)

    def add(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """To ``total``."""
        each = factors.repeat_interleave(self._rows)
        out = None if without is None else without.repeat_interleave(self._rows)
        images, gradients = self._images, self._gradients
        if out is not None:
            images, gradients = (part.masked_fill(_along(out, part), 0.0) for part in (images, gradients))

        sums = BlockSum(total.view(self._weight.shape), factors.dtype)
        for piece in pieces(len(images), max(1, PLACES // math.prod(gradients.shape[2:]))):
            scaled = gradients[piece] * _along(each[piece], gradients)
            sums.block = weight_gradient(images[piece], scaled, self._weight, self._shape)
            sums.add()
        sums.end()

    def _pieces(self, units: int) -> Iterator[slice]:
        """Units whose patches fit the cache."""
        patches = math.prod(self._gradients.shape[2:]) * self._weight[0].numel() * self._shape.groups * self._rows
        return pieces(units, max(torch.get_num_threads(), _CACHED // max(patches, 1)))

    def _matrices(self, piece: slice) -> tuple[Tensor, Tensor]:
        """Patches and gradients of some units, (n, groups, L, before) and (n, groups, L, after)."""
        rows = slice(piece.start * self._rows, piece.stop * self._rows)
        inputs = patches_of(self._images[rows], self._shape)
        gradients = _grouped(self._gradients[rows], self._shape.groups)
        if self._rows > 1:
            inputs, gradients = (_by_unit(part, self._rows) for part in (inputs, gradients))
        return inputs, gradients

    def _written(self) -> tuple[list[Tensor], Tensor]:
        """(U, P) in the order of patches, in blocks that an allocator can use again, and squared lengths."""
        groups, (after, *before) = self._shape.groups, self._weight.shape
        each, squares = [], self._images.new_empty(self._units, dtype=torch.float64)
        for block in pieces(self._units, max(1, min(BLOCK, _REUSED // self._weight.numel()))):
            made = self._images.new_empty(block.stop - block.start, groups, after // groups, math.prod(before))
            for piece in self._pieces(len(made)):
                inputs, gradients = self._matrices(slice(block.start + piece.start, block.start + piece.stop))
                out = made[piece].flatten(0, 1)
                torch.bmm(gradients.flatten(0, 1).transpose(1, 2), inputs.flatten(0, 1), out=out)
                squares[block][piece] = square_sums(made[piece])
            each.append(made.flatten(1))
        return each, squares


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
        for piece in pieces(len(self._words), max(1, _CACHED // width)):
            words, gradients = self._words[piece], self._gradients[piece]
            same = words[:, :, None] == words[:, None, :]
            products = torch.bmm(gradients, gradients.transpose(1, 2))
            found.append((products * same).sum(dim=(1, 2)))
            hidden.append(_lost(gradients.norm(dim=2).sum(dim=1), gradients.shape[2], words.shape[1]))
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

    def add(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """To ``total``."""
        gradients = self._gradients
        if without is not None:
            gradients = gradients.masked_fill(_along(without, gradients), 0.0)
        table = total.view(self._shape)
        for piece in pieces(len(gradients), BLOCK):
            scaled = gradients[piece].double() * _along(factors[piece], gradients)
            table.index_add_(0, self._words[piece].reshape(-1), scaled.flatten(0, 1))


def writes_out(places: int, before: int, after: int) -> bool:
    """Whether writing gradients out is less work than *ghost*: as measured, counting products of each."""
    return places > 1 and before * after <= 2 * places * (before + after)


class BlockSum:
    """Adds blocks to ``total``: up to `BLOCKS` in single precision, and those sums in double precision."""

    def __init__(self, total: Tensor, kind: torch.dtype) -> None:
        self._total, self._several, self._count = total, torch.zeros_like(total, dtype=kind), 0
        self.block = torch.empty_like(self._several)
        """To be filled before each `add`."""

    def add(self) -> None:
        """Add the block."""
        self._several += self.block
        self._count += 1
        if self._count == BLOCKS:
            self.end()

    def end(self) -> None:
        """Add what is left."""
        if self._count:
            self._total += self._several
            self._several.zero_()
            self._count = 0


def ghost(inputs: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
    """Squared lengths of sum_l b_l a_l^T, and what rounding may hide of them; for many L, in pieces."""
    units, places, before = inputs.shape
    found, hidden = [], []
    for piece in pieces(units, max(1, _CACHED // (places * (before + 2 * places)))):
        a, b = inputs[piece], gradients[piece]
        one, other = torch.bmm(a, a.transpose(1, 2)), torch.bmm(b, b.transpose(1, 2))
        lengths = one.diagonal(dim1=1, dim2=2) * other.diagonal(dim1=1, dim2=2)
        hidden.append(_lost(lengths.sqrt().sum(dim=1), before + b.shape[2], places))
        found.append(one.mul_(other).sum(dim=(1, 2)))
    return torch.cat(found).clamp_min(0.0), torch.cat(hidden)


def _lost(spread: Tensor, terms: int, places: int) -> Tensor:
    """What rounding may hide of a squared length, for a spread T and inner products of ``terms`` numbers."""
    return spread.square() * hidden_share(terms, places)


def square_sums(each: Tensor) -> Tensor:
    """(U, ...) to (U,): sums of squares, at most `TERMS` of them in single precision."""
    flat = each.flatten(1)
    whole = flat.shape[1] // TERMS * TERMS
    found: Tensor = torch.linalg.vector_norm(flat[:, whole:], dim=1).double().square()
    if whole:
        found += (
            torch.linalg.vector_norm(flat[:, :whole].reshape(len(flat), -1, TERMS), dim=2).double().square().sum(dim=1)
        )
    return found


def in_weight_order(each: Tensor, order: Shape | None) -> Tensor:
    """(n, P): from the order of patches (out, height, width, channel) to that of weights (out, channel, ...)."""
    if order is None or order.kernel == (1, 1):
        return each
    pixels = order.kernel[0] * order.kernel[1]
    split = each.reshape(len(each), -1, pixels, order.channels)
    return split.transpose(2, 3).reshape(len(each), -1)


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


def _by_unit(part: Tensor, rows: int) -> Tensor:
    """(n x rows, groups, L, width) to (n, groups, rows x L, width)."""
    return part.reshape(-1, rows, *part.shape[1:]).transpose(1, 2).flatten(2, 3)


def _grouped(gradients: Tensor, groups: int) -> Tensor:
    """(n, channels, height, width) to (n, groups, places, channels of a group)."""
    count, channels = gradients.shape[:2]
    return gradients.flatten(2).reshape(count, groups, channels // groups, -1).transpose(2, 3)


def _along(values: Tensor, part: Tensor) -> Tensor:
    return values.reshape(-1, *[1] * (part.dim() - 1))
