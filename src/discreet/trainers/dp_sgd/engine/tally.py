"""What a backward pass leaves behind: for every parameter its parts, and for every unit the length of its gradient."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from discreet.trainers.dp_sgd.engine.convolutions import Convolution
from discreet.trainers.dp_sgd.engine.parts import Part, Whole
from discreet.trainers.dp_sgd.engine.products import Product


class Tally:
    """Parts by parameter, of ``units`` units."""

    def __init__(self, units: int, device: torch.device) -> None:
        self.units = units
        self._squares = torch.zeros(units, dtype=torch.float64, device=device)
        self._uses: dict[str, int] = defaultdict(int)
        self._waiting: dict[str, list[Part]] = defaultdict(list)
        self._parts: dict[str, Part] = {}

    def expect(self, name: str) -> None:
        """The forward pass uses parameter ``name`` (once more)."""
        self._uses[name] += 1

    def take(self, name: str, part: Part) -> None:
        """The backward pass came to a use of ``name``. Used once, it is settled at once, and memory set free."""
        if self._uses[name] == 1:
            self._settle(name, part)
        else:
            self._waiting[name].append(part)

    def lengths(self) -> Tensor:
        """(U,): the length of every unit's gradient over all parameters, rounded up where rounding could hide some."""
        for name in list(self._waiting):
            self._settle(name, _joined(self._waiting.pop(name)))
        return self._squares.sqrt()

    def put(self, name: str, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """Write parameter ``name``'s weighted sum to ``total``: zeros, if no gradient came to it."""
        if name in self._parts:
            self._parts.pop(name).put(factors, total, without=without)
        else:
            total.zero_()

    def _settle(self, name: str, part: Part) -> None:
        settled = part.settled() if isinstance(part, (Product, Convolution)) else part
        self._squares += settled.squares()
        hidden = settled.hidden()
        if hidden is not None:
            self._squares += hidden
        self._parts[name] = settled


def _joined(parts: Sequence[Part]) -> Part:
    """A parameter used several times: its gradients add up before they have a length."""
    first, *others = parts
    if isinstance(first, Product) and all(isinstance(part, Product) for part in others):
        for part in others:
            assert isinstance(part, Product)
            first = first.joined(part)
        return first
    total = first.whole()
    for part in others:
        total = total + part.whole()
    return Whole(total)
