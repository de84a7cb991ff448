"""What a convolution multiplies its weights with: patches of the input, as rows of a matrix.

A patch is laid out (height, width, channel): in channels-last memory the pixels of a kernel row, with all their
channels, are one run, and copying runs is what this costs. Contiguous input is brought to that order on the way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """A convolution over (height, width): its kernel, and how it is moved over the padded input."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    """before and after in height, before and after in width"""
    groups: int
    channels: int
    """of a group"""

    def places(self, height: int, width: int) -> tuple[int, int]:
        """The size of the output."""
        top, bottom, left, right = self.padding
        sides = (height + top + bottom, width + left + right)
        sizes = [
            (side - step * (size - 1) - 1) // stride + 1
            for side, size, step, stride in zip(sides, self.kernel, self.dilation, self.stride, strict=True)
        ]
        return sizes[0], sizes[1]

    @property
    def symmetric(self) -> bool:
        """Whether torch's own convolution takes this padding."""
        top, bottom, left, right = self.padding
        return top == bottom and left == right


def patches_of(images: Tensor, shape: Shape) -> Tensor:
    """(n, channels, height, width) to (n, groups, places, kernel height x kernel width x channels of a group)."""
    count, channels, height, width = images.shape
    rows, columns = shape.places(height, width)
    pixels = padded(images.permute(0, 2, 3, 1), shape.padding)
    apart, down, right, along = pixels.stride()
    view = pixels.as_strided(
        (count, rows, columns, *shape.kernel, channels),
        (
            apart,
            shape.stride[0] * down,
            shape.stride[1] * right,
            shape.dilation[0] * down,
            shape.dilation[1] * right,
            along,
        ),
        pixels.storage_offset(),
    )
    if shape.groups == 1:
        return view.reshape(count, 1, rows * columns, -1)
    split = view.reshape(count, rows * columns, shape.kernel[0] * shape.kernel[1], shape.groups, -1)
    return split.permute(0, 3, 1, 2, 4).reshape(count, shape.groups, rows * columns, -1)


def shares_pixels(shape: Shape, height: int, width: int) -> bool:
    """Whether `patch_products` takes fewer multiplications than patches that are multiplied with each other."""
    top, bottom, left, right = shape.padding
    pixels = (height + top + bottom) * (width + left + right)
    return shape.groups == 1 and pixels**2 < math.prod(shape.places(height, width)) ** 2 * math.prod(shape.kernel)


def patch_products(images: Tensor, shape: Shape, rows: int) -> Tensor:
    """The products of all patches of a unit with each other, (n, L, L), of ``rows`` images each and one group: sums of
    products of pixels, each of which is computed once.
    """
    pixels = padded(images.permute(0, 2, 3, 1), shape.padding)
    high, wide, channels = pixels.shape[1:]
    units, size, (down, along) = len(pixels) // rows, rows * high * wide, shape.places(*images.shape[2:])
    flat = pixels.reshape(units, size, channels)
    each = torch.bmm(flat, flat.transpose(1, 2))
    places = (rows, down, along)
    steps = (high * wide, shape.stride[0] * wide, shape.stride[1])
    products = each.new_zeros(units, *places, *places)
    for row in range(shape.kernel[0]):
        for column in range(shape.kernel[1]):
            first = row * shape.dilation[0] * wide + column * shape.dilation[1]
            products += each.as_strided(
                products.shape, (size * size, *(size * step for step in steps), *steps), first * (size + 1)
            )
    return products.reshape(units, math.prod(places), -1)


def padded(pixels: Tensor, padding: tuple[int, int, int, int]) -> Tensor:
    """``pixels`` (n, height, width, channels), zeros around, in memory in that order."""
    top, bottom, left, right = padding
    if not any(padding):
        return pixels.contiguous()
    count, height, width, channels = pixels.shape
    around = pixels.new_zeros(count, height + top + bottom, width + left + right, channels)
    around[:, top : top + height, left : left + width] = pixels
    return around


def conv_shape(
    weight: Tensor,
    stride: tuple[int, int],
    padding: str | tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> Shape:
    """From the arguments of ``conv2d``."""
    kernel = (weight.shape[2], weight.shape[3])
    if padding == "valid":
        around = (0, 0, 0, 0)
    elif isinstance(padding, str):
        total = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
        around = (total[0] // 2, total[0] - total[0] // 2, total[1] // 2, total[1] - total[1] // 2)
    else:
        around = (padding[0], padding[0], padding[1], padding[1])
    return Shape(
        kernel=kernel, stride=stride, dilation=dilation, padding=around, groups=groups, channels=weight.shape[1]
    )


def weight_gradient(images: Tensor, gradients: Tensor, weight: Tensor, shape: Shape) -> Tensor:
    """The gradient of a convolution's weights over all rows, by torch's own kernel."""
    top, bottom, left, right = shape.padding
    if not shape.symmetric:
        images, top, left = functional.pad(images, (left, right, top, bottom)), 0, 0
    gradient: Tensor = torch.ops.aten.convolution_backward(
        gradients,
        images,
        weight,
        None,
        list(shape.stride),
        [top, left],
        list(shape.dilation),
        False,
        [0, 0],
        shape.groups,
        [False, True, False],
    )[1]
    return gradient
