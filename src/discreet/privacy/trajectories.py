"""A record's path through a campaign, and what it costs.

    never asked:       threshold and selection events of every phase, no training
    asked in phase j:  the events up to its question, then training from phase j on

Theorem (docs/proofs/trajectories.md). With pure losses l (forward) and l' (backward) of everything that touches the
record before its last branch, and training fixed by the branch,

    H_{e^eps}(P || Q) <= sum_path P(path) H_{e^(eps - l(path))}(training | path),

and the same with P and Q exchanged and l'. So each path is certified alone, by the PLD of its *training* at
eps - l(path), and the claim is the worst path. A selection event is never put into a path's PLD: its outcome is
correlated with the path, and the worst path of joint PLDs is not a bound (a test keeps the counterexample).

What is not pure stands before a branch as a `BlockEvent` of (epsilon, delta) alone: its epsilon is a loss in both
directions, and training is certified at what is left of delta (docs/proofs/apart.md). What a block says is computed
again from its events; if they cost more, the path pays more.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self

from discreet.errors import InvalidEvent, InvalidPlan
from discreet.privacy.accounting.pld import FINEST_INTERVAL, PLANNING_INTERVAL, pld_epsilons
from discreet.privacy.accounting.rdp import UNBOUNDED, rdp_epsilon
from discreet.privacy.budget import Budget, exact_minus, exact_sum, float_above, float_below, json_number, rounded_up
from discreet.privacy.event_forms import from_json, to_json
from discreet.privacy.events import BlockEvent, Composed, Event, PoissonSampledGaussian, Repeated, ThresholdResponse


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A selection event and, for a threshold response, whether this path was asked there.

    ``below``: the record was asked from below the threshold, where its null answers with the same probability, so
    forward it lost nothing (its own score is no secret from itself: the promise compares it with its null).
    """

    event: Event
    asked: bool | None = None
    below: bool = False

    def __post_init__(self) -> None:
        if self.event.pure_epsilon() is None and not isinstance(self.event, BlockEvent):
            raise InvalidEvent(
                f"a {self.event.kind} event before a branch", "only pure losses can stand there", "Use a pure mechanism"
            )
        if isinstance(self.event, ThresholdResponse) and self.asked is None:
            raise InvalidEvent("a threshold response on a path", "asked or missed?", "Set asked")

    @property
    def forward(self) -> Decimal:
        """What the record, being present, may reveal here."""
        if isinstance(self.event, ThresholdResponse):
            return self.event.asked if self.asked and not self.below else Decimal(0)
        return self._pure

    @property
    def backward(self) -> Decimal:
        """What its null may reveal here."""
        if isinstance(self.event, ThresholdResponse):
            return Decimal(0) if self.asked else self.event.missed
        return self._pure

    @property
    def _pure(self) -> Decimal:
        pure = self.event.epsilon if isinstance(self.event, BlockEvent) else self.event.pure_epsilon()
        assert pure is not None  # checked in __post_init__
        return pure

    def to_json(self) -> dict[str, Any]:
        """The event, and what happened to this path at it where that matters."""
        form: dict[str, Any] = {"event": to_json(self.event)}
        if self.asked is not None:
            form["asked"] = self.asked
        return form | {"below": True} if self.below else form

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        asked, below = data.get("asked"), data.get("below", False)
        if not (asked is None or isinstance(asked, bool)) or not isinstance(below, bool):
            raise InvalidPlan("a stored branch", "asked and below are true or false", "Restore the file")
        return cls(event=from_json(data["event"]), asked=asked, below=below)


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """One path: the branches before training, the training after them, and its certified epsilons."""

    name: str
    selection: tuple[Branch, ...] = ()
    training: tuple[Repeated, ...] = ()
    epsilon_pld: float | None = None
    epsilon_rdp: float | None = None

    @property
    def forward(self) -> Decimal:
        """l: exact sum of the forward losses before the last branch."""
        return exact_sum(branch.forward for branch in self.selection)

    @property
    def backward(self) -> Decimal:
        """l': exact sum of the backward losses before the last branch."""
        return exact_sum(branch.backward for branch in self.selection)

    @property
    def selection_loss(self) -> float:
        """The worse of l and l' as the float nearest to that decimal: what a path without training costs."""
        return float(max(self.forward, self.backward))

    @property
    def trained(self) -> Composed:
        """The training of this path as one event."""
        return Composed(events=self.training)

    def with_noise_times(self, factor: float) -> Self:
        """This path, uncertified, with every noise multiplier of its training times ``factor``."""
        return replace(self, training=tuple(map(_scaler(factor), self.training)), epsilon_pld=None, epsilon_rdp=None)

    def interval(self, budget: float) -> float:
        """Discretisation fine enough for what selection leaves this path of ``budget``, and for how long it trains.

        Connect-the-dots costs about 0.8 x steps x interval^2 of epsilon (docs/proofs/pld.md); keep that under a
        thousandth of what is left.
        """
        left = budget - self.selection_loss
        steps = sum(part.count for part in self.training)
        fine = min(left / 2000, math.sqrt(max(left, 0.0) / 1000 / max(steps, 1)))
        return min(PLANNING_INTERVAL, max(FINEST_INTERVAL, fine))

    @property
    def blocks(self) -> tuple[BlockEvent, ...]:
        """What is not pure before the branch."""
        return tuple(branch.event for branch in self.selection if isinstance(branch.event, BlockEvent))

    @property
    def block_delta(self) -> Decimal:
        """The part of delta that blocks take."""
        return exact_sum(block.delta for block in self.blocks)

    def rdp(self, delta: float) -> float:
        """Claim by RDP, both directions, rounded up."""
        left, over = self._after_blocks(delta, by_pld=False)
        if not self.training:
            return rounded_up(self.selection_loss + over) if over else self.selection_loss
        if self.blocks and left <= 0:
            return math.inf
        return rounded_up(float_above(max(self.forward, self.backward)) + over + rdp_epsilon(self.trained, left))

    def pld(self, delta: float, interval: float = PLANNING_INTERVAL) -> float:
        """Claim by PLD: the worse direction, each with its own selection losses, rounded up."""
        left, over = self._after_blocks(delta, by_pld=True)
        if not self.training:
            return rounded_up(self.selection_loss + over) if over else self.selection_loss
        if self.blocks and left <= 0:
            return math.inf
        forward, backward = pld_epsilons(self.trained, left, interval=interval)
        return rounded_up(max(float_above(self.forward) + forward, float_above(self.backward) + backward) + over)

    def _after_blocks(self, delta: float, *, by_pld: bool) -> tuple[float, float]:
        """What blocks leave of delta, and by how much their events cost more than they say; infinite, if they take more
        than there is.
        """
        if not self.blocks:
            return delta, 0.0
        left = float_below(exact_minus(Decimal(delta), self.block_delta))
        over = sum(max(0.0, block_epsilon(block, by_pld=by_pld) - float_below(block.epsilon)) for block in self.blocks)
        return left, math.inf if left < 0 else over

    def certified(self, delta: float, *, budget: float, pld: bool) -> Self:
        """This path with its claims filled in."""
        by_pld = self.pld(delta, self.interval(budget)) if pld else None
        return replace(self, epsilon_rdp=self.rdp(delta), epsilon_pld=by_pld)

    def to_json(self) -> dict[str, Any]:
        """Name, losses and claims first, then the events they follow from."""
        return {
            "name": self.name,
            "forward": json_number(self.forward),
            "backward": json_number(self.backward),
            "epsilon_pld": self.epsilon_pld,
            "epsilon_rdp": self.epsilon_rdp,
            "selection": [b.to_json() for b in self.selection],
            "training": [to_json(part) for part in self.training],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_json`; the losses are computed anew and must agree."""
        training = tuple(from_json(part) for part in data["training"])
        if not all(isinstance(part, Repeated) for part in training):
            raise InvalidPlan("a stored trajectory", "its training is not a list of repeated steps", "Restore the file")
        path = cls(
            name=data["name"],
            selection=tuple(Branch.from_json(b) for b in data["selection"]),
            training=tuple(part for part in training if isinstance(part, Repeated)),
            epsilon_pld=data.get("epsilon_pld"),
            epsilon_rdp=data.get("epsilon_rdp"),
        )
        if not all(_epsilon_or_none(claim) for claim in (path.epsilon_pld, path.epsilon_rdp)):
            raise InvalidPlan("a stored trajectory", "an epsilon is not a finite number", "Restore the file")
        if [json_number(path.forward), json_number(path.backward)] != [data["forward"], data["backward"]]:
            raise InvalidPlan("a stored trajectory", "its losses do not follow from its events", "Restore the file")
        return path


def cost_of(path: Trajectory, budget: Budget, *, by_pld: bool) -> Decimal:
    """What ``path`` costs by one accountant, at the budget's delta; exactly, where it is a sum of pure losses."""
    if not path.training and not path.blocks:
        return max(path.forward, path.backward)
    delta = float(budget.delta)
    claim = path.pld(delta, path.interval(float(budget.epsilon))) if by_pld else path.rdp(delta)
    return Decimal(repr(claim)) if math.isfinite(claim) else UNBOUNDED


@functools.lru_cache(maxsize=256)
def block_epsilon(block: BlockEvent, *, by_pld: bool) -> float:
    """What a block's events cost at its delta, by one accountant, rounded up."""
    delta = float_below(block.delta)
    return rounded_up(max(pld_epsilons(block.event, delta)) if by_pld else rdp_epsilon(block.event, delta))


def _epsilon_or_none(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and abs(value) < math.inf)


def _scaler(factor: float) -> Callable[[Repeated], Repeated]:
    def scaled(part: Repeated) -> Repeated:
        step = part.event
        assert isinstance(step, PoissonSampledGaussian), "training is made of sampled Gaussian steps"
        return replace(part, event=replace(step, noise_multiplier=step.noise_multiplier * factor))

    return scaled
