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
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from discreet.trainers.dp_sgd.engine.patches import Shape, patches_of, weight_gradient
from discreet.trainers.dp_sgd.engine.rounding import BLOCK, BLOCKS, PLACES, TERMS, hidden_share

_CACHED = 1 << 19
"""Numbers that are worked on at once, so that they stay in the cache."""
_GHOSTLY, _ROOMY = 16, 3.5
"""How much more a product costs *ghost* than a written number costs *whole*, as measured; and how much more than inputs
and gradients the written numbers may take to keep."""


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
    """Gradients that are written out. ``order``: those of a convolution, in the order of its patches."""

    def __init__(self, each: Tensor, order: Shape | None = None, squares: Tensor | None = None) -> None:
        self._each, self._order, self._squares = each, order, squares

    def squares(self) -> Tensor:
        """(U,)."""
        return square_sums(self._each) if self._squares is None else self._squares

    def whole(self) -> Tensor:
        """(U, P)."""
        return in_weight_order(self._each, self._order)

    def add(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """To ``total``."""
        each = self._each if without is None else self._each.masked_fill(_along(without, self._each), 0.0)
        found = total if self._order is None else torch.zeros_like(total)
        add_blocks((factors[piece] @ each[piece] for piece in pieces(len(each), BLOCK)), found)
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
        return Whole(self.whole()) if writes_out(places, before, after, kept=places * (before + after)) else self

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
        scaled = gradients * _along(factors, gradients)
        rows = BLOCK if inputs.shape[1] == 1 else max(1, PLACES // inputs.shape[1])
        blocks = (scaled[piece].flatten(0, 1).t() @ inputs[piece].flatten(0, 1) for piece in pieces(len(inputs), rows))
        add_blocks(blocks, total.view(gradients.shape[2], inputs.shape[2]))


class Convolution(Part):
    """A convolution: ``images`` (rows, channels, height, width), ``gradients`` of its output; ``rows`` to a unit."""

    def __init__(self, images: Tensor, gradients: Tensor, weight: Tensor, shape: Shape, *, units: int) -> None:
        self._images, self._gradients, self._weight, self._shape = images, gradients, weight, shape
        self._units, self._rows = units, len(images) // max(units, 1)
        self._hidden: Tensor | None = None

    def settled(self) -> Part:
        """This one, or what takes less to write out."""
        places, (after, *before) = self._rows * math.prod(self._gradients.shape[2:]), self._weight.shape
        kept = self._rows * (self._images[0].numel() + self._gradients[0].numel())
        if not writes_out(places, math.prod(before), after, kept=kept):
            return self
        each, squares = self._written()
        return Whole(each, order=self._shape, squares=squares)

    def squares(self) -> Tensor:
        """(U,)."""
        found, hidden = [], []
        for piece in self._pieces():
            inputs, gradients = self._matrices(piece)
            one, other = ghost(inputs.flatten(0, 1), gradients.flatten(0, 1))
            found.append(one.reshape(len(inputs), -1).sum(dim=1))
            hidden.append(other.reshape(len(inputs), -1).sum(dim=1))
        self._hidden = torch.cat(hidden)
        return torch.cat(found)

    def hidden(self) -> Tensor | None:
        """(U,), or None."""
        return self._hidden

    def whole(self) -> Tensor:
        """(U, P)."""
        return in_weight_order(self._written()[0], self._shape)

    def add(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """To ``total``."""
        each = factors.repeat_interleave(self._rows)
        out = None if without is None else without.repeat_interleave(self._rows)
        images, gradients = self._images, self._gradients
        if out is not None:
            images, gradients = (part.masked_fill(_along(out, part), 0.0) for part in (images, gradients))

        def sums() -> Iterator[Tensor]:
            for piece in pieces(len(images), max(1, PLACES // math.prod(gradients.shape[2:]))):
                scaled = gradients[piece] * _along(each[piece], gradients)
                yield weight_gradient(images[piece], scaled, self._weight, self._shape)

        add_blocks(sums(), total.view(self._weight.shape))

    def _pieces(self) -> Iterator[slice]:
        """Units whose patches fit the cache."""
        patches = math.prod(self._gradients.shape[2:]) * self._weight[0].numel() * self._shape.groups * self._rows
        return pieces(self._units, max(1, _CACHED // max(patches, 1)))

    def _matrices(self, piece: slice) -> tuple[Tensor, Tensor]:
        """Patches and gradients of some units, (n, groups, L, before) and (n, groups, L, after)."""
        rows = slice(piece.start * self._rows, piece.stop * self._rows)
        inputs = patches_of(self._images[rows], self._shape)
        gradients = _grouped(self._gradients[rows], self._shape.groups)
        if self._rows > 1:
            inputs, gradients = (_by_unit(part, self._rows) for part in (inputs, gradients))
        return inputs, gradients

    def _written(self) -> tuple[Tensor, Tensor]:
        """(U, P) in the order of patches, and its squared lengths."""
        groups, (after, *before) = self._shape.groups, self._weight.shape
        each = self._images.new_empty(self._units, groups, after // groups, math.prod(before))
        squares = self._images.new_empty(self._units, dtype=torch.float64)
        for piece in self._pieces():
            inputs, gradients = self._matrices(piece)
            out = each[piece].flatten(0, 1)
            torch.bmm(gradients.flatten(0, 1).transpose(1, 2), inputs.flatten(0, 1), out=out)
            squares[piece] = square_sums(each[piece])
        return each.flatten(1), squares


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


def writes_out(places: int, before: int, after: int, *, kept: int) -> bool:
    """Whether *whole* beats *ghost*, which keeps ``kept`` numbers a unit."""
    size = before * after
    return places > 1 and size <= _ROOMY * kept and _GHOSTLY * size <= places**2 * (before + after)


def add_blocks(blocks: Iterable[Tensor], total: Tensor) -> None:
    """Add ``blocks`` to ``total``: up to `BLOCKS` in single precision, those sums in double."""
    several: Tensor | None = None
    for number, block in enumerate(blocks):
        if several is None or number % BLOCKS == 0:
            if several is not None:
                total += several
            several = block
        else:
            several += block
    if several is not None:
        total += several


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


def _by_unit(part: Tensor, rows: int) -> Tensor:
    """(n x rows, groups, L, width) to (n, groups, rows x L, width)."""
    return part.reshape(-1, rows, *part.shape[1:]).transpose(1, 2).flatten(2, 3)


def _grouped(gradients: Tensor, groups: int) -> Tensor:
    """(n, channels, height, width) to (n, groups, places, channels of a group)."""
    count, channels = gradients.shape[:2]
    return gradients.flatten(2).reshape(count, groups, channels // groups, -1).transpose(2, 3)


def _along(values: Tensor, part: Tensor) -> Tensor:
    return values.reshape(-1, *[1] * (part.dim() - 1))
