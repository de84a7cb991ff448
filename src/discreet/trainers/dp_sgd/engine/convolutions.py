"""Convolutions: gradients that are written out from patches, or ghosts of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from discreet.trainers.dp_sgd.engine.native import Kernels, takes
from discreet.trainers.dp_sgd.engine.parts import (
    BLOCK,
    BLOCKS,
    CACHED,
    PLACES,
    REUSED,
    GradientPart,
    RunningSum,
    Whole,
    along,
    cleared,
    ghost,
    ghost_of,
    hidden_share,
    in_weight_order,
    pieces,
    square_sums,
    writes_out,
)
from discreet.trainers.dp_sgd.engine.patches import Shape, patch_products, patches_of, shares_pixels, weight_gradient

_ROOMY = 3.5
"""Written-out gradients are kept if they take at most so many times the memory of inputs and gradients; else they are
computed twice."""


class Convolution(GradientPart):
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

    def settled(self) -> GradientPart:
        """This one, or what takes less to write out and keep."""
        numbers = self._rows * (self._images[0].numel() + self._gradients[0].numel())
        if not self._writes_out() or self._weight.numel() > _ROOMY * numbers:
            return self
        each, squares = self._written()
        return Whole(*each, order=self._shape, last=self._kernels is not None, squares=squares)

    def squares(self) -> Tensor:
        """(U,)."""
        if not self._writes_out() and shares_pixels(self._shape, *self._images.shape[2:]):
            pairs = [self._ghosts_of_pixels(piece) for piece in self._pieces_of_pixels()]
        else:
            squares_of = self._written_squares if self._writes_out() else self._ghosts
            pairs = [squares_of(*self._matrices(piece)) for piece in self._pieces(self._units)]
        squares, hidden = zip(*pairs, strict=True)
        self._hidden = torch.cat(hidden)
        return torch.cat(squares)

    def _written_squares(self, inputs: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
        hidden = square_sums(inputs) * square_sums(gradients) * hidden_share(0, self._places())
        return square_sums(torch.matmul(gradients.transpose(2, 3), inputs)), hidden

    def _ghosts(self, inputs: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
        squares, hidden = ghost(inputs.flatten(0, 1), gradients.flatten(0, 1))
        return squares.reshape(len(inputs), -1).sum(dim=1), hidden.reshape(len(inputs), -1).sum(dim=1)

    def _pieces_of_pixels(self) -> Iterator[slice]:
        return pieces(self._units, max(1, CACHED // (self._rows * self._images[0].numel() + 2 * self._places() ** 2)))

    def _ghosts_of_pixels(self, piece: slice) -> tuple[Tensor, Tensor]:
        rows = slice(piece.start * self._rows, piece.stop * self._rows)
        products = patch_products(self._images[rows], self._shape, self._rows)
        gradients = _by_unit(_grouped(self._gradients[rows], 1), self._rows)
        return ghost_of(products, gradients[:, 0], self._weight[0].numel())

    def _places(self) -> int:
        return self._rows * math.prod(self._gradients.shape[2:])

    def _writes_out(self) -> bool:
        after, *before = self._weight.shape
        return writes_out(self._places(), math.prod(before), after // self._shape.groups)

    def whole(self) -> Tensor:
        """(U, P)."""
        return in_weight_order(torch.cat(self._written()[0]), self._shape, last=self._kernels is not None)

    def put(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """To ``total``."""
        each = factors.repeat_interleave(self._rows)
        gone = None if without is None else without.repeat_interleave(self._rows)
        images, gradients = cleared(self._images, gone), cleared(self._gradients, gone)

        sums, rows = RunningSum(total), max(1, PLACES // math.prod(gradients.shape[2:]))
        for blocks in pieces(len(images), BLOCKS * rows):
            starts = range(blocks.start, blocks.stop, rows)
            parts = (slice(start, min(start + rows, blocks.stop)) for start in starts)
            scaled = ((images[part], gradients[part] * along(each[part], gradients)) for part in parts)
            sums_of_blocks = (weight_gradient(*pair, self._weight, self._shape) for pair in scaled)
            sums.add(functools.reduce(Tensor.add_, sums_of_blocks))

    def _pieces(self, units: int) -> Iterator[slice]:
        """Units whose patches fit the cache."""
        patches = math.prod(self._gradients.shape[2:]) * self._weight[0].numel() * self._shape.groups * self._rows
        return pieces(units, max(torch.get_num_threads(), CACHED // max(patches, 1)))

    def _matrices(self, piece: slice) -> tuple[Tensor, Tensor]:
        """Patches and gradients of some units, (n, groups, L, before) and (n, groups, L, after)."""
        rows = slice(piece.start * self._rows, piece.stop * self._rows)
        inputs = patches_of(self._images[rows], self._shape)
        gradients = _grouped(self._gradients[rows], self._shape.groups)
        return _by_unit(inputs, self._rows), _by_unit(gradients, self._rows)

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
            products = self._images.new_empty(block.stop - block.start, groups, after // groups, math.prod(before))
            for piece in self._pieces(len(products)):
                inputs, gradients = self._matrices(slice(block.start + piece.start, block.start + piece.stop))
                out = products[piece].flatten(0, 1)
                torch.bmm(gradients.flatten(0, 1).transpose(1, 2), inputs.flatten(0, 1), out=out)
                squares[block][piece] = square_sums(products[piece])
            each.append(products.flatten(1))
        return each, squares


def _by_unit(part: Tensor, rows: int) -> Tensor:
    """(n x rows, groups, L, width) to (n, groups, rows x L, width)."""
    return part if rows == 1 else part.reshape(-1, rows, *part.shape[1:]).transpose(1, 2).flatten(2, 3)


def _grouped(gradients: Tensor, groups: int) -> Tensor:
    """(n, channels, height, width) to (n, groups, places, channels of a group)."""
    count, channels = gradients.shape[:2]
    return gradients.flatten(2).reshape(count, groups, channels // groups, -1).transpose(2, 3)


# Convolutions that step by more than one pixel, with a faster gradient of their input.
#
# A kernel whose sides are multiples of the step s does to an image what a smaller kernel with step 1 does to the image
# folded into s x s times as many channels. Torch's kernels for the gradient of the input are three times as fast on the
# folded image. Forward pass and values are torch's own.

_CACHED = 1 << 20


def folds(shape: Shape) -> bool:
    """Whether this convolution can be folded, and gains by it."""
    step = shape.stride[0]
    multiple = all(size % step == 0 for size in shape.kernel)
    return step > 1 and shape.stride == (step, step) and multiple and shape.dilation == (1, 1) and shape.groups == 1


class Folding(torch.autograd.Function):
    """conv2d, whose input's gradient is computed on the folded image; weight and bias have none here."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, shape: Shape, padding: Any) -> Tensor:
        """conv2d."""
        ctx.save_for_backward(weight)
        ctx.shape, ctx.size = shape, x.shape
        return functional.conv2d(x, weight, bias, shape.stride, padding)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, None, None, None, None]:
        """The gradient of ``x``."""
        (weight,) = ctx.saved_tensors
        return _input_gradient(gradients[0], weight, ctx.shape, ctx.size), None, None, None, None


def _input_gradient(gradient: Tensor, weight: Tensor, shape: Shape, size: torch.Size) -> Tensor:
    step, (rows, columns), (after, before) = shape.stride[0], shape.kernel, weight.shape[:2]
    folded = weight.reshape(after, before, rows // step, step, columns // step, step).permute(0, 3, 5, 1, 2, 4)
    folded = folded.reshape(after, step * step * before, rows // step, columns // step)
    folded = folded.contiguous(memory_format=torch.channels_last)
    pixels = gradient.new_empty(len(gradient), *size[2:], before)
    for piece in pieces(len(gradient), max(1, _CACHED // max(1, pixels[0].numel()))):
        deep = functional.conv_transpose2d(gradient[piece], folded).permute(0, 2, 3, 1)
        _unfold(deep, pixels[piece], step, shape.padding)
    return pixels.permute(0, 3, 1, 2)


def _unfold(deep: Tensor, pixels: Tensor, step: int, padding: tuple[int, int, int, int]) -> None:
    """(n, height, width, step x step x before) to the pixels of (n, step x height, step x width, before) that are not
    padding. The last ones of ``made`` may not have been looked at: zeros.
    """
    count, height, width, _ = deep.shape
    before, (top, _, left, _) = pixels.shape[3], padding
    wide = deep.reshape(count, height, width, step, step * before).transpose(2, 3)
    rows, columns = (
        min(size, step * covered - first)
        for size, covered, first in zip(pixels.shape[1:3], (height, width), (top, left), strict=True)
    )
    if (rows, columns) == (step * height, step * width) == tuple(pixels.shape[1:3]):
        pixels.view(wide.shape).copy_(wide)
        return
    pixels[:, rows:] = 0.0
    pixels[:, :, columns:] = 0.0
    unfolded = wide.reshape(count, step * height, step * width, before)
    pixels[:, :rows, :columns] = unfolded[:, top : top + rows, left : left + columns]
