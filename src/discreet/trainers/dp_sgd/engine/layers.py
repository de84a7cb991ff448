"""The functions of torch whose parameters' gradients are known unit by unit, each as it is called."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.modules.utils import _pair, _single

from discreet.trainers.dp_sgd.engine.convolutions import Convolution, Folding, folds
from discreet.trainers.dp_sgd.engine.native import Kernels, takes
from discreet.trainers.dp_sgd.engine.parts import GradientPart, Looked, Product, Whole, pieces, square_sums
from discreet.trainers.dp_sgd.engine.patches import conv_shape
from discreet.trainers.dp_sgd.engine.recording import Layer, ModelRecording, Unknown

PartsByRole = Mapping[str, Callable[[], GradientPart]]


def linear(run: ModelRecording, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`functional.linear`."""
    out = functional.linear(x, weight.detach(), _still(bias))

    def parts(gradient: Tensor) -> PartsByRole:
        b = run.units_of(gradient)
        squares = square_sums(b) if b.shape[1] == 1 else None  # at one place, weight and bias need the same
        return {
            "weight": lambda: Product(run.units_of(x), b, squares=squares),
            "bias": lambda: Whole(_over_places(b), squares=squares),
        }

    return run.watch(out, x, {"weight": weight, "bias": bias}, parts)


def matmul(run: ModelRecording, x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight``."""
    if not run.trained(weight) or weight.dim() != 2 or x.dim() < 2:
        raise Unknown("matmul")
    out = torch.matmul(x, weight.detach())
    return run.watch(
        out, x, {"weight": weight}, lambda b: {"weight": lambda: Product(run.units_of(b), run.units_of(x))}
    )


def convolution(
    run: ModelRecording,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """`functional.conv1d` and `functional.conv2d`: the first is a convolution of images of one row of pixels."""
    if x.dim() != weight.dim():
        raise Unknown("a convolution without an axis of rows")
    flat = weight.dim() == 3

    def images(part: Tensor) -> Tensor:
        return part.detach()[:, :, None] if flat else part.detach()

    def sides(value: Any, height: int) -> tuple[int, int]:
        return (height, _single(value)[0]) if flat else _pair(value)

    around = padding if isinstance(padding, str) else sides(padding, 0)
    shape = conv_shape(images(weight), sides(stride, 1), around, sides(dilation, 1), groups)
    if not flat and x.requires_grad and folds(shape):
        out = Folding.apply(x, weight.detach(), _still(bias), shape, around)  # type: ignore[no-untyped-call]
    else:
        torchs = functional.conv1d if flat else functional.conv2d
        out = torchs(x, weight.detach(), _still(bias), stride, padding, dilation, groups)

    def parts(gradient: Tensor) -> PartsByRole:
        return {
            "weight": lambda: Convolution(
                images(x), images(gradient), images(weight), shape, units=run.units, kernels=run.kernels
            ),
            "bias": lambda: Whole(run.over_rows(gradient.flatten(2).sum(dim=2))),
        }

    return run.watch(out, x, {"weight": weight, "bias": bias}, parts)


def embedding(
    run: ModelRecording,
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

    def parts(gradient: Tensor) -> PartsByRole:
        places = words.reshape(run.units, -1)
        each = gradient.reshape(*places.shape, weight.shape[1])
        if padding_idx is not None:
            each = each.masked_fill((places == padding_idx % len(weight))[..., None], 0.0)
        return {"weight": lambda: Looked(places, each, weight.shape)}

    return run.watch(out, words, {"weight": weight}, parts)


def group_norm(
    run: ModelRecording,
    x: Tensor,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """`functional.group_norm`."""
    used = x if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last) else x.contiguous()
    rows, channels, places = *x.shape[:2], math.prod(x.shape[2:])
    out, mean, scale = torch.native_group_norm(used, _still(weight), _still(bias), rows, channels, places, groups, eps)

    def parts(gradient: Tensor) -> PartsByRole:
        slopes, shifts = group_gradients(used.detach(), gradient, mean, scale, units=run.units, kernels=run.kernels)
        return {"weight": lambda: Whole(slopes), "bias": lambda: Whole(shifts)}

    return run.watch(out, x, {"weight": weight, "bias": bias}, parts)


def layer_norm(
    run: ModelRecording,
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

    def parts(gradient: Tensor) -> PartsByRole:
        slopes, shifts = layer_gradients(x.detach(), gradient, mean, scale, units=run.units)
        return {"weight": lambda: Whole(slopes), "bias": lambda: Whole(shifts)}

    return run.watch(out, x, {"weight": weight, "bias": bias}, parts)


def rms_norm(
    run: ModelRecording, x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Any:
    """`functional.rms_norm`."""
    return elementwise(torch.mul, run, functional.rms_norm(x, list(shape), None, eps), weight)


def expand(run: ModelRecording, parameter: Tensor, *sizes: Any) -> Tensor:
    """`Tensor.expand`: a copy of a parameter for every row."""
    wanted = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    copies = parameter.detach().expand(*wanted)
    if copies.dim() == 0 or (copies.dim() == parameter.dim() and parameter.shape[0] != 1):
        raise Unknown("expand")
    return run.copies(parameter, copies)


def elementwise(func: Callable[..., Any], run: ModelRecording, *args: Any, **options: Any) -> Any:
    """x * p, x + p, p - x: the parameter gets a copy a row, and autograd finds each one's gradient."""
    parameters = [part for part in args if run.trained(part)]
    others = [part for part in args if isinstance(part, Tensor) and not run.trained(part)]
    if options or len(args) != 2 or len(parameters) != 1 or len(others) != 1 or not run.by_rows(others[0]):
        raise Unknown(getattr(func, "__name__", "an operator"))
    parameter, other = parameters[0], others[0]
    shape = (*[1] * (other.dim() - parameter.dim()), *parameter.shape)
    if len(shape) > other.dim() or shape[0] != 1:
        raise Unknown("an operator with a parameter that has rows")
    copies = run.copies(parameter, parameter.detach().reshape(shape).expand(len(other), *shape[1:]))
    return func(*(copies if part is parameter else part for part in args))


def detach(run: ModelRecording, parameter: Tensor) -> Tensor:
    """`Tensor.detach`: what the model itself does not train."""
    return parameter.detach()


def _over_places(part: Tensor) -> Tensor:
    return part[:, 0] if part.shape[1] == 1 else part.sum(dim=1)


def _still(part: Tensor | None) -> Tensor | None:
    """A parameter that autograd does not follow."""
    return None if part is None else part.detach()


def attention(
    run: ModelRecording,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """`functional.multi_head_attention_forward` of one sequence with itself, rows first, so that its projections are
    seen row by row.
    """
    odd = (bias_k, bias_v, static_k, static_v)
    odd_choices = add_zero_attn or use_separate_proj_weight or any(part is not None for part in odd)
    if odd_choices or in_proj_weight is None or not query is key is value or query.dim() != 3:
        raise Unknown("attention of this kind")
    words = query.transpose(0, 1)
    rows, length, width = words.shape
    projected = linear(run, words, in_proj_weight, in_proj_bias).reshape(rows, length, 3, num_heads, -1)
    queries, keys, values = projected.permute(2, 0, 3, 1, 4).unbind(0)
    mask = _mask(attn_mask, key_padding_mask, rows, num_heads, length, query.dtype)
    dropout = dropout_p if training else 0.0
    weights: Tensor | None = None
    if need_weights:
        scores = queries @ keys.transpose(2, 3) / math.sqrt(width // num_heads)
        shares = functional.dropout((scores if mask is None else scores + mask).softmax(dim=-1), dropout)
        mixed, weights = shares @ values, shares.mean(dim=1) if average_attn_weights else shares
    else:
        mixed = functional.scaled_dot_product_attention(queries, keys, values, mask, dropout)
    out = linear(run, mixed.transpose(1, 2).flatten(2), out_proj_weight, out_proj_bias)
    return out.transpose(0, 1), weights


def _mask(
    attn_mask: Tensor | None, padding: Tensor | None, rows: int, heads: int, length: int, kind: torch.dtype
) -> Tensor | None:
    """What is added to scores, (rows or 1, heads or 1, length or 1, length)."""
    masks = []
    if attn_mask is not None:
        each = _additive(attn_mask, kind)
        masks.append(each[None, None] if each.dim() == 2 else each.reshape(rows, heads, length, -1))
    if padding is not None:
        masks.append(_additive(padding, kind)[:, None, None, :])
    return functools.reduce(torch.add, masks) if masks else None


def _additive(mask: Tensor, kind: torch.dtype) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(kind)
    return torch.zeros_like(mask, dtype=kind).masked_fill_(mask, -math.inf)


# Normalisation: the gradients of scale and shift, unit by unit, from what torch's own kernels leave.

_CACHED = 1 << 18


def group_gradients(
    x: Tensor, gradients: Tensor, mean: Tensor, scale: Tensor, *, units: int, kernels: Kernels | None = None
) -> tuple[Tensor, Tensor]:
    """(U, channels) each: sum b (x - mean) / deviation, and sum b, over the places of a unit."""
    rows, channels = x.shape[:2]
    spread = channels // mean.reshape(rows, -1).shape[1]
    if kernels is not None and x.dim() > 2 and takes(x, gradients):
        slopes, shifts = kernels.normalized(x, gradients)
    else:
        slopes, shifts = _sums(x, gradients)
    each, scales = (part.reshape(rows, -1).repeat_interleave(spread, dim=1) for part in (mean, scale))
    slopes = (slopes - each * shifts) * scales
    return _by_unit(slopes, units), _by_unit(shifts, units)


def _sums(x: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
    """(rows, channels) each: sums of products, and of gradients, over places."""
    if x.dim() == 2:
        return gradients * x, gradients
    slopes, shifts = x.new_empty(x.shape[:2]), x.new_empty(x.shape[:2])
    for piece in pieces(len(x), max(1, _CACHED // max(1, x[0].numel()))):
        b = gradients[piece].flatten(2)
        shifts[piece] = b.sum(dim=2)
        slopes[piece] = (b * x[piece].flatten(2)).sum(dim=2)
    return slopes, shifts


def layer_gradients(x: Tensor, gradients: Tensor, mean: Tensor, scale: Tensor, *, units: int) -> tuple[Tensor, Tensor]:
    """(U, normalised numbers) each: sum b (x - mean) / deviation, and sum b, over the places of a unit."""
    slopes, shifts = [], []
    rows = len(x) // units
    for piece in pieces(units, max(1, _CACHED // max(1, rows * x[0].numel()))):
        part = slice(piece.start * rows, piece.stop * rows)
        products = (x[part] - mean[part]).mul_(scale[part]).mul_(gradients[part])
        places = (piece.stop - piece.start, -1, x.numel() // mean.numel())
        slopes.append(products.reshape(places).sum(dim=1))
        shifts.append(gradients[part].reshape(places).sum(dim=1))
    return torch.cat(slopes), torch.cat(shifts)


def _by_unit(part: Tensor, units: int) -> Tensor:
    return part.reshape(units, -1, part.shape[1]).sum(dim=1)


LAYERS: dict[Any, Layer] = {
    functional.linear: linear,
    functional.conv1d: convolution,
    functional.conv2d: convolution,
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
            LAYERS[getattr(_place, _name)] = functools.partial(elementwise, getattr(_place, _name))
