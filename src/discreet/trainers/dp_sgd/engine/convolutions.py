"""Convolutions: gradients that are written out from patches, or ghosts of them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from discreet.trainers.dp_sgd.engine.native import Kernels, takes
from discreet.trainers.dp_sgd.engine.parts import (
    CACHED,
    REUSED,
    Part,
    Total,
    Whole,
    along,
    in_weight_order,
    pieces,
    square_sums,
)
from discreet.trainers.dp_sgd.engine.patches import Shape, patch_products, patches_of, shares_pixels, weight_gradient
from discreet.trainers.dp_sgd.engine.products import ghost, ghost_of, writes_out
from discreet.trainers.dp_sgd.engine.rounding import BLOCK, BLOCKS, PLACES, hidden_share

_ROOMY = 3.5
"""Written-out gradients are kept if they take at most so many times the memory of inputs and gradients; else they are
computed twice."""


class Convolution(Part):
    """A convolution: ``images`` (rows, channels, height, width), ``gradients`` of its output; ``rows`` to a unit."""

    def __init__(
        self,
        images: Tensor,
        gradients: Tensor,
        weight: Tensor,
        shape: Shape,
        *,
        units: int,
        kernels: Kernels | None = None,
    ) -> None:
        self._images, self._gradients, self._weight, self._shape = images, gradients, weight, shape
        usable = kernels is not None and takes(images, gradients, groups=shape.groups)
        self._kernels = kernels if usable else None
        self._units, self._rows = units, len(images) // max(units, 1)
        self._hidden: Tensor | None = None

    def settled(self) -> Part:
        """This one, or what takes less to write out and keep."""
        kept = self._rows * (self._images[0].numel() + self._gradients[0].numel())
        if not self._writes_out() or self._weight.numel() > _ROOMY * kept:
            return self
        each, squares = self._written()
        return Whole(*each, order=self._shape, last=self._kernels is not None, squares=squares)

    def squares(self) -> Tensor:
        """(U,)."""
        found, hidden = [], []
        if not self._writes_out() and shares_pixels(self._shape, *self._images.shape[2:]):
            return self._squares_of_pixels()
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

    def _squares_of_pixels(self) -> Tensor:
        found, hidden = [], []
        most = self._rows * self._images[0].numel() + 2 * self._places() ** 2
        for piece in pieces(self._units, max(1, CACHED // most)):
            rows = slice(piece.start * self._rows, piece.stop * self._rows)
            products = patch_products(self._images[rows], self._shape, self._rows)
            gradients = _by_unit(_grouped(self._gradients[rows], 1), self._rows)
            one, other = ghost_of(products, gradients[:, 0], self._weight[0].numel())
            found.append(one)
            hidden.append(other)
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
        return in_weight_order(torch.cat(self._written()[0]), self._shape, last=self._kernels is not None)

    def put(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """To ``total``."""
        each = factors.repeat_interleave(self._rows)
        out = None if without is None else without.repeat_interleave(self._rows)
        images, gradients = self._images, self._gradients
        if out is not None:
            images, gradients = (part.masked_fill(along(out, part), 0.0) for part in (images, gradients))

        sums, rows = Total(total), max(1, PLACES // math.prod(gradients.shape[2:]))
        for blocks in pieces(len(images), BLOCKS * rows):
            several: Tensor | None = None
            for start in range(blocks.start, blocks.stop, rows):
                piece = slice(start, min(start + rows, blocks.stop))
                scaled = gradients[piece] * along(each[piece], gradients)
                block = weight_gradient(images[piece], scaled, self._weight, self._shape)
                several = block if several is None else several.add_(block)
            assert several is not None
            sums.add(several)

    def _pieces(self, units: int) -> Iterator[slice]:
        """Units whose patches fit the cache."""
        patches = math.prod(self._gradients.shape[2:]) * self._weight[0].numel() * self._shape.groups * self._rows
        return pieces(units, max(torch.get_num_threads(), CACHED // max(patches, 1)))

    def _matrices(self, piece: slice) -> tuple[Tensor, Tensor]:
        """Patches and gradients of some units, (n, groups, L, before) and (n, groups, L, after)."""
        rows = slice(piece.start * self._rows, piece.stop * self._rows)
        inputs = patches_of(self._images[rows], self._shape)
        gradients = _grouped(self._gradients[rows], self._shape.groups)
        if self._rows > 1:
            inputs, gradients = (_by_unit(part, self._rows) for part in (inputs, gradients))
        return inputs, gradients

    def _written(self) -> tuple[list[Tensor], Tensor]:
        """(U, P) in the order of patches (by a kernel: the outputs last), in blocks that an allocator can use again,
        and squared lengths.
        """
        groups, (after, *before) = self._shape.groups, self._weight.shape
        each, squares = [], self._images.new_empty(self._units, dtype=torch.float64)
        for block in pieces(self._units, max(1, min(BLOCK, REUSED // self._weight.numel()))):
            if self._kernels is not None:
                rows = slice(block.start * self._rows, block.stop * self._rows)
                images, gradients = self._images[rows], self._gradients[rows]
                each.append(self._kernels.written(images, gradients, self._shape, self._rows, squares[block]))
                continue
            made = self._images.new_empty(block.stop - block.start, groups, after // groups, math.prod(before))
            for piece in self._pieces(len(made)):
                inputs, gradients = self._matrices(slice(block.start + piece.start, block.start + piece.stop))
                out = made[piece].flatten(0, 1)
                torch.bmm(gradients.flatten(0, 1).transpose(1, 2), inputs.flatten(0, 1), out=out)
                squares[block][piece] = square_sums(made[piece])
            each.append(made.flatten(1))
        return each, squares


def _by_unit(part: Tensor, rows: int) -> Tensor:
    """(n x rows, groups, L, width) to (n, groups, rows x L, width)."""
    return part.reshape(-1, rows, *part.shape[1:]).transpose(1, 2).flatten(2, 3)


def _grouped(gradients: Tensor, groups: int) -> Tensor:
    """(n, channels, height, width) to (n, groups, places, channels of a group)."""
    count, channels = gradients.shape[:2]
    return gradients.flatten(2).reshape(count, groups, channels // groups, -1).transpose(2, 3)
