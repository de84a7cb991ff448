"""The functions of torch whose parameters' gradients are known unit by unit, each as it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.modules.utils import _pair

from discreet.trainers.dp_sgd.engine.attention import attend
from discreet.trainers.dp_sgd.engine.convolutions import Convolution
from discreet.trainers.dp_sgd.engine.normalizing import group_gradients, layer_gradients, native_group_norm
from discreet.trainers.dp_sgd.engine.parts import Looked, Part, Whole, square_sums
from discreet.trainers.dp_sgd.engine.patches import Shape, conv_shape
from discreet.trainers.dp_sgd.engine.products import Product
from discreet.trainers.dp_sgd.engine.recording import Layer, Recording, Unknown
from discreet.trainers.dp_sgd.engine.strided import Folding, folds

Found = Mapping[str, Callable[[], Part]]


def linear(run: Recording, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`functional.linear`."""
    out = functional.linear(x, weight.detach(), _still(bias))

    def parts(gradient: Tensor) -> Found:
        b = run.units_of(gradient)
        squares = square_sums(b) if b.shape[1] == 1 else None  # at one place, weight and bias need the same
        return {
            "weight": lambda: Product(run.units_of(x), b, squares=squares),
            "bias": lambda: Whole(_over_places(b), squares=squares),
        }

    return run.watch(out, x, {"weight": weight, "bias": bias}, parts)


def matmul(run: Recording, x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight``."""
    if not run.trained(weight) or weight.dim() != 2 or x.dim() < 2:
        raise Unknown("matmul")
    out = torch.matmul(x, weight.detach())
    return run.watch(
        out, x, {"weight": weight}, lambda b: {"weight": lambda: Product(run.units_of(b), run.units_of(x))}
    )


def conv2d(
    run: Recording,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """`functional.conv2d`."""
    kept, around = weight.detach(), padding if isinstance(padding, str) else _pair(padding)
    shape = conv_shape(kept, _pair(stride), around, _pair(dilation), groups)
    if x.requires_grad and folds(shape):
        out = Folding.apply(x, kept, _still(bias), shape, around)  # type: ignore[no-untyped-call]
    else:
        out = functional.conv2d(x, kept, _still(bias), _pair(stride), around, _pair(dilation), groups)
    return _convolved(run, out, x, weight, bias, shape)


def conv1d(
    run: Recording,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """`functional.conv1d`: a convolution of images of one row of pixels."""
    out = functional.conv1d(x, weight.detach(), _still(bias), stride, padding, dilation, groups)
    around = padding if isinstance(padding, str) else (0, _single(padding))
    shape = conv_shape(weight.detach()[:, :, None], (1, _single(stride)), around, (1, _single(dilation)), groups)
    return _convolved(run, out, x, weight, bias, shape)


def _convolved(run: Recording, out: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, shape: Shape) -> Tensor:
    if x.dim() != weight.dim():
        raise Unknown("a convolution without an axis of rows")
    axis = weight.dim() - 2

    def flat(part: Tensor) -> Tensor:
        return part.detach() if axis > 1 else part.detach()[:, :, None]

    def parts(gradient: Tensor) -> Found:
        return {
            "weight": lambda: Convolution(
                flat(x), flat(gradient), flat(weight), shape, units=run.units, kernels=run.kernels
            ),
            "bias": lambda: Whole(run.over_rows(gradient.flatten(2).sum(dim=2))),
        }

    return run.watch(out, x, {"weight": weight, "bias": bias}, parts)


def embedding(
    run: Recording,
    words: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """`functional.embedding`."""
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise Unknown("an embedding that changes its table, counts words over records, or is sparse")
    out = functional.embedding(words, weight.detach(), padding_idx)

    def parts(gradient: Tensor) -> Found:
        places = words.reshape(run.units, -1)
        each = gradient.reshape(*places.shape, weight.shape[1])
        if padding_idx is not None:
            each = each.masked_fill((places == padding_idx % len(weight))[..., None], 0.0)
        return {"weight": lambda: Looked(places, each, weight.shape)}

    return run.watch(out, words, {"weight": weight}, parts)


def group_norm(
    run: Recording,
    x: Tensor,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """`functional.group_norm`."""
    out, used, mean, scale = native_group_norm(x, groups, _still(weight), _still(bias), eps)

    def parts(gradient: Tensor) -> Found:
        slopes, shifts = group_gradients(used.detach(), gradient, mean, scale, units=run.units, kernels=run.kernels)
        return {"weight": lambda: Whole(slopes), "bias": lambda: Whole(shifts)}

    return run.watch(out, x, {"weight": weight, "bias": bias}, parts)


def layer_norm(
    run: Recording,
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """`functional.layer_norm`."""
    if x.dim() <= len(shape):
        raise Unknown("layer normalisation over rows")
    out, mean, scale = torch.native_layer_norm(x, list(shape), _still(weight), _still(bias), eps)

    def parts(gradient: Tensor) -> Found:
        slopes, shifts = layer_gradients(x.detach(), gradient, mean, scale, units=run.units)
        return {"weight": lambda: Whole(slopes), "bias": lambda: Whole(shifts)}

    return run.watch(out, x, {"weight": weight, "bias": bias}, parts)


def rms_norm(
    run: Recording, x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Any:
    """`functional.rms_norm`."""
    return elementwise(torch.mul, run, functional.rms_norm(x, list(shape), None, eps), weight)


def attention(run: Recording, *args: Any, **given: Any) -> Any:
    """`functional.multi_head_attention_forward`."""
    made = attend(partial(linear, run), *args, **given)
    if made is None:
        raise Unknown("attention of this kind")
    return made


def expand(run: Recording, parameter: Tensor, *sizes: Any) -> Tensor:
    """`Tensor.expand`: a copy of a parameter for every row."""
    wanted = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    made = parameter.detach().expand(*wanted)
    if made.dim() == 0 or (made.dim() == parameter.dim() and parameter.shape[0] != 1):
        raise Unknown("expand")
    return run.copies(parameter, made)


def elementwise(func: Callable[..., Any], run: Recording, *args: Any, **given: Any) -> Any:
    """x * p, x + p, p - x: the parameter gets a copy a row, and autograd finds each one's gradient."""
    mine = [part for part in args if run.trained(part)]
    others = [part for part in args if isinstance(part, Tensor) and not run.trained(part)]
    if given or len(args) != 2 or len(mine) != 1 or len(others) != 1 or not run.by_rows(others[0]):
        raise Unknown(getattr(func, "__name__", "an operator"))
    shape = (*[1] * (others[0].dim() - mine[0].dim()), *mine[0].shape)
    if len(shape) > others[0].dim() or shape[0] != 1:
        raise Unknown("an operator with a parameter that has rows")
    copies = run.copies(mine[0], mine[0].detach().reshape(shape).expand(len(others[0]), *shape[1:]))
    return func(*(copies if part is mine[0] else part for part in args))


def detach(run: Recording, parameter: Tensor) -> Tensor:
    """`Tensor.detach`: what the model itself does not train."""
    return parameter.detach()


def _over_places(part: Tensor) -> Tensor:
    return part[:, 0] if part.shape[1] == 1 else part.sum(dim=1)


def _still(part: Tensor | None) -> Tensor | None:
    """A parameter that autograd does not follow."""
    return None if part is None else part.detach()


def _single(value: Any) -> int:
    return int(value[0]) if isinstance(value, (list, tuple)) else int(value)


LAYERS: dict[Any, Layer] = {
    functional.linear: linear,
    functional.conv1d: conv1d,
    functional.conv2d: conv2d,
    functional.embedding: embedding,
    functional.group_norm: group_norm,
    functional.layer_norm: layer_norm,
    functional.rms_norm: rms_norm,
    functional.multi_head_attention_forward: attention,
    torch.matmul: matmul,
    Tensor.matmul: matmul,
    Tensor.__matmul__: matmul,
    Tensor.expand: expand,
    Tensor.detach: detach,
}
for _place in (torch, Tensor):
    for _name in ("add", "sub", "mul", "div", "true_divide", "__add__", "__radd__", "__mul__", "__rmul__", "__sub__"):
        if hasattr(_place, _name):
            LAYERS[getattr(_place, _name)] = partial(elementwise, getattr(_place, _name))
