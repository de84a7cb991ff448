"""Linear layers: outer products, or ghosts of them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from discreet.trainers.dp_sgd.engine.parts import CACHED, Part, Total, Whole, along, lost, pieces, square_sums
from discreet.trainers.dp_sgd.engine.rounding import BLOCK, LOST, PLACES


class Product(Part):
    """A linear layer: ``inputs`` (U, L, before), ``gradients`` (U, L, after)."""

    def __init__(self, inputs: Tensor, gradients: Tensor, *, squares: Tensor | None = None) -> None:
        """``squares``: those of ``gradients``, where they are known."""
        self._inputs, self._gradients, self._squares = inputs, gradients, squares
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
            own = square_sums(self._gradients) if self._squares is None else self._squares
            return square_sums(self._inputs) * own
        found, self._hidden = ghost(self._inputs, self._gradients)
        return found

    def hidden(self) -> Tensor | None:
        """(U,), or None."""
        return self._hidden

    def whole(self) -> Tensor:
        """(U, P)."""
        return torch.bmm(self._gradients.transpose(1, 2), self._inputs).flatten(1)

    def put(self, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """To ``total``."""
        inputs, gradients = self._inputs, self._gradients
        if without is not None:
            inputs, gradients = (part.masked_fill(along(without, part), 0.0) for part in (inputs, gradients))
        rows = BLOCK if inputs.shape[1] == 1 else max(1, PLACES // inputs.shape[1])
        Total(total).add_products(inputs, gradients, rows, factors)


def writes_out(places: int, before: int, after: int) -> bool:
    """Whether writing gradients out is less work than *ghost*: as measured, counting products of each."""
    return places > 1 and before * after <= 2 * places * (before + after)


def ghost(inputs: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
    """Squared lengths of sum_l b_l a_l^T, and what rounding may hide of them; for many L, in pieces."""
    units, places, before = inputs.shape
    found, hidden = [], []
    for piece in pieces(units, max(1, CACHED // (places * (before + 2 * places)))):
        a = inputs[piece]
        one, other = ghost_of(torch.bmm(a, a.transpose(1, 2)), gradients[piece], before)
        found.append(one)
        hidden.append(other)
    return torch.cat(found), torch.cat(hidden)


def ghost_of(inputs: Tensor, gradients: Tensor, before: int) -> tuple[Tensor, Tensor]:
    """As `ghost`, of the products of inputs with each other, (n, L, L), each a sum of ``before`` terms."""
    other, after = torch.bmm(gradients, gradients.transpose(1, 2)), gradients.shape[2]
    a, b = (part.diagonal(dim1=1, dim2=2).clamp_min(0.0).double().sqrt() for part in (inputs, other))
    hidden = lost((a * b).sum(dim=1), before + after, inputs.shape[1])
    under = math.sqrt(LOST * before) * b.sum(dim=1) + math.sqrt(LOST * after) * a.sum(dim=1)  # squares that were 0
    hidden = hidden + 4 * (under.square() + inputs.shape[1] ** 2 * LOST)
    return inputs.mul_(other).sum(dim=(1, 2)).clamp_min_(0.0), hidden
