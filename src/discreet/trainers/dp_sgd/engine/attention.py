"""Self-attention of `torch.nn.MultiheadAttention`, rows first, so that its projections are seen row by row."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

Linear = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def attend(
    linear: Linear,
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
) -> tuple[Tensor, Tensor | None] | None:
    """`functional.multi_head_attention_forward` of one sequence with itself; None for what is not that."""
    odd = (bias_k, bias_v, static_k, static_v)
    if any(part is not None for part in odd) or add_zero_attn or use_separate_proj_weight or in_proj_weight is None:
        return None
    if not (query is key and key is value) or query.dim() != 3:
        return None
    words = query.transpose(0, 1)
    rows, length, width = words.shape
    projected = linear(words, in_proj_weight, in_proj_bias).reshape(rows, length, 3, num_heads, -1)
    queries, keys, values = projected.permute(2, 0, 3, 1, 4).unbind(0)
    mask = _mask(attn_mask, key_padding_mask, rows, num_heads, length, query.dtype)
    dropout = dropout_p if training else 0.0
    weights: Tensor | None = None
    if need_weights:
        scores = queries @ keys.transpose(2, 3) / math.sqrt(width // num_heads)
        kept = functional.dropout((scores if mask is None else scores + mask).softmax(dim=-1), dropout)
        mixed, weights = kept @ values, kept.mean(dim=1) if average_attn_weights else kept
    else:
        mixed = functional.scaled_dot_product_attention(queries, keys, values, mask, dropout)
    out = linear(mixed.transpose(1, 2).flatten(2), out_proj_weight, out_proj_bias)
    return out.transpose(0, 1), weights


def _mask(
    attn_mask: Tensor | None, padding: Tensor | None, rows: int, heads: int, length: int, kind: torch.dtype
) -> Tensor | None:
    """What is added to scores, (rows or 1, heads or 1, length or 1, length)."""
    found = []
    if attn_mask is not None:
        each = _additive(attn_mask, kind)
        found.append(each[None, None] if each.dim() == 2 else each.reshape(rows, heads, length, -1))
    if padding is not None:
        found.append(_additive(padding, kind)[:, None, None, :])
    if not found:
        return None
    return found[0] if len(found) == 1 else found[0] + found[1]


def _additive(mask: Tensor, kind: torch.dtype) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(kind)
    return torch.zeros_like(mask, dtype=kind).masked_fill_(mask, -math.inf)
