"""Watches a model run, and keeps for every use of a trained parameter what its gradients are made of.

Functions of torch are seen as they are called (`TorchFunctionMode`), so it does not matter whether a layer is a module,
a function, or an operator. One that uses a trained parameter (`layers`) runs with a copy that autograd does not follow:
the backward pass computes gradients of data only, and the gradient of each output is taken as it passes by.

Rows of a batch are records, or views of them, along the first axis; a unit is some rows in a row. A use of a parameter
that is not known here ends with `Unknown`; so does one whose first axis is not rows. `trial` tries a model on made-up
records before it is trusted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from discreet.trainers.dp_sgd.engine.native import Kernels
from discreet.trainers.dp_sgd.engine.parts import GradientPart, Whole

Layer = Callable[..., Any]
Parts = Callable[[Tensor], Mapping[str, Callable[[], GradientPart]]]
"""From the gradient of an output to the parts of the parameters that were used, by their roles."""


class Unknown(Exception):
    """A parameter is used in a way that is not known here."""


class _Anchor(torch.autograd.Function):
    """Makes autograd follow the first layer's output, and copies of parameters."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, anchor: Tensor) -> Tensor:
        ctx.mark_dirty(value)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[None, None]:
        return None, None


class ModelRecording(TorchFunctionMode):
    """A run of a model over ``rows`` rows that belong to ``units`` units, in order.

    ``names``: trained parameters by id. ``layers``: what to call instead of a function that uses one of them.
    ``kernels``: compiled ones.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        layers: Mapping[Any, Layer],
        *,
        rows: int,
        units: int,
        anchor: Tensor,
        kernels: Kernels | None = None,
    ) -> None:
        super().__init__()
        self.kernels = kernels
        self._names, self._layers, self._rows, self._anchor = names, layers, rows, anchor
        self.units, self.tally = units, Tally(units, anchor.device)

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Called by torch for every function while this is entered."""
        options = dict(kwargs or {})
        if not self._holds_trained(args) and not self._holds_trained(options.values()):
            return func(*args, **options)
        if func in self._layers:
            return self._layers[func](self, *args, **options)
        outcome = func(*args, **options)
        if _holds_tensor(outcome):
            raise Unknown(getattr(func, "__name__", "an unnamed function"))
        return outcome

    def watch(self, out: Tensor, data: Tensor, weights: Mapping[str, Tensor | None], parts: Parts) -> Tensor:
        """``out``, computed of ``data``; when its gradient comes, ``parts`` of those ``given`` that are trained."""
        trained = {role: self._names[id(part)] for role, part in weights.items() if self.trained(part)}
        computed = [part for part in weights.values() if part is not None and not self.trained(part)]
        if self.trained(data) or not self.by_rows(data) or any(part.requires_grad for part in computed):
            raise Unknown("a layer over something else than rows, or with weights that are computed")
        for name in trained.values():
            self.tally.expect(name)
        held = [(data, data._version, parts)]

        def take(gradient: Tensor) -> None:
            used, version, parts_of = held.pop()  # the pass goes on, and its memory is not held here
            if used._version != version:
                raise Unknown("a layer whose input is overwritten")
            with torch.no_grad():
                by_role = parts_of(gradient)
                for role, name in trained.items():
                    self.tally.take(name, by_role[role]())

        return self._hooked(out, take)

    def copies(self, parameter: Tensor, each: Tensor) -> Tensor:
        """``each``, copies of ``parameter``, one or several a row, whose gradients are the parameter's."""
        if not self.trained(parameter) or not self.by_rows(each):
            raise Unknown("copies of a parameter that are not one a row")
        name, shape = self._names[id(parameter)], parameter.shape
        self.tally.expect(name)

        def take(gradient: Tensor) -> None:
            self.tally.take(name, Whole(_summed(self.over_rows(gradient), shape)))

        return self._hooked(each, take)

    def units_of(self, part: Tensor) -> Tensor:
        """(rows, ..., width) to (units, places, width)."""
        return part.detach().reshape(self.units, -1, part.shape[-1])

    def over_rows(self, part: Tensor) -> Tensor:
        """(rows, ...) to (units, ...): sums."""
        each = part.reshape(self.units, -1, *part.shape[1:])
        return each[:, 0] if each.shape[1] == 1 else each.sum(dim=1)

    def by_rows(self, part: Tensor) -> bool:
        """Whether the first axis can be rows, or several places of each."""
        return part.dim() > 0 and len(part) > 0 and len(part) % self._rows == 0

    def trained(self, part: Any) -> bool:
        """Whether ``part`` is a trained parameter."""
        return id(part) in self._names

    def _hooked(self, out: Tensor, take: Callable[[Tensor], None]) -> Tensor:
        followed: Tensor = out if out.requires_grad else _Anchor.apply(out, self._anchor)  # type: ignore[no-untyped-call]
        followed.register_hook(take)  # type: ignore[no-untyped-call]
        return followed

    def _holds_trained(self, parts: Any) -> bool:
        return any(
            id(part) in self._names or (isinstance(part, (list, tuple)) and self._holds_trained(part)) for part in parts
        )


def _summed(each: Tensor, shape: torch.Size) -> Tensor:
    """(U, ...) gradients of expanded copies to (U, P)."""
    sizes = (1,) * (each.dim() - 1 - len(shape)) + tuple(shape)
    sizes = sizes[1:] if len(sizes) > each.dim() - 1 else sizes  # the parameter's first axis, of one, became the rows
    wide = [axis + 1 for axis, size in enumerate(sizes) if size == 1 and each.shape[axis + 1] != 1]
    return (each.sum(dim=wide, keepdim=True) if wide else each).flatten(1)


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, (list, tuple)) and any(map(_holds_tensor, value)))


# What a backward pass leaves behind: for every parameter its parts, and for every unit the length of its gradient.


class Tally:
    """Parts by parameter, of ``units`` units."""

    def __init__(self, units: int, device: torch.device) -> None:
        self.units = units
        self._squares = torch.zeros(units, dtype=torch.float64, device=device)
        self._uses: dict[str, int] = defaultdict(int)
        self._waiting: dict[str, list[GradientPart]] = defaultdict(list)
        self._parts: dict[str, GradientPart] = {}

    def expect(self, name: str) -> None:
        """The forward pass uses parameter ``name`` (once more)."""
        self._uses[name] += 1

    def take(self, name: str, part: GradientPart) -> None:
        """The backward pass came to a use of ``name``. Used once, it is settled at once, and memory set free."""
        if self._uses[name] == 1:
            self._settle(name, part)
        else:
            self._waiting[name].append(part)

    def lengths(self) -> Tensor:
        """(U,): the length of every unit's gradient over all parameters, rounded up where rounding could hide some."""
        for name in list(self._waiting):
            first, *others = self._waiting.pop(name)
            self._settle(name, first.joined(others))
        return self._squares.sqrt()

    def put(self, name: str, factors: Tensor, total: Tensor, *, without: Tensor | None) -> None:
        """Write parameter ``name``'s weighted sum to ``total``: zeros, if no gradient came to it."""
        if name in self._parts:
            self._parts.pop(name).put(factors, total, without=without)
        else:
            total.zero_()

    def _settle(self, name: str, part: GradientPart) -> None:
        settled = part.settled()
        self._squares += settled.squares()
        hidden = settled.hidden()
        if hidden is not None:
            self._squares += hidden
        self._parts[name] = settled
