"""One private batch: the minimum of a regularised loss with a random linear term (objective perturbation).

    w* = argmin  sum over slots of loss(<w, y x>)  +  (S/2) |w|^2  +  <b, w>,      S = lambda n

b has the density proportional to exp(-beta |b|). Released is w* with a little noise more, which pays for the fact that
a program finds the minimum only nearly (docs/proofs/objective-perturbation.md).

Guarantee: pure epsilon under zero-out, for n public slots. With |x| <= M, slopes at most 1 and curvature at most c,

    beta = (epsilon_1 - ln(1 + c M^2 / S)) / M,     epsilon = epsilon_1 + epsilon_2,

epsilon_2 for the last noise. Being there costs epsilon_1 forward and beta M backward. (Chaudhuri, Monteleoni and
Sarwate 2011 have 2M for M, and twice the logarithm, for records that are replaced.) Where S is too small for epsilon it
is raised, by public numbers alone, as theirs is.

Losses are of a margin z = y <w, x>, with a bounded slope and a bounded curvature:

    Huber's hinge   0 above 1 + h, a straight line below 1 - h, a parabola between: slope at most 1, curvature 1 / (2h)
    logistic        log(1 + e^-z): slope at most 1, curvature 1/4

The hinge itself has no curvature bound; Huber's is the hinge but for 2h around its corner.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from discreet.components import checked_radius
from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import gamma_direction
from discreet.noise.additive_noise import FINENESS
from discreet.privacy.budget import Budget, Number, exact_decimal, exact_minus, float_below, share_of
from discreet.privacy.events import Pure
from discreet.privacy.ledger import ChargeReason, Ledger, Line, Receipt, Terms, committed, request
from discreet.stream.linear_model import Floats
from discreet.stream.parts import set_fields
from discreet_research.bench.stream_baselines import BaselineModel, signed_rows


@dataclass(frozen=True, kw_only=True)
class SmoothLoss:
    """``slope`` (from -1 to 0) and ``bend`` (from 0 to ``curvature``) at margins. Slopes must be at most 1 in size."""

    name: str
    curvature: float
    slope: Callable[[Any], Floats]
    bend: Callable[[Any], Floats]


def huber_hinge(width: float = 0.5) -> SmoothLoss:
    """``width``: h."""
    if not 1e-6 <= width <= 1e6:
        raise BadInput("the width of Huber's hinge", "it is not from 1e-6 to 1e6", "Give one, such as 0.5")

    def slope(z: Any) -> Floats:
        return np.asarray(np.clip((z - 1 - width) / (2 * width), -1.0, 0.0))

    def bend(z: Any) -> Floats:
        return np.asarray(np.where(np.abs(z - 1) <= width, 1 / (2 * width), 0.0))

    return SmoothLoss(name=f"huber-{width:g}", curvature=1 / (2 * width), slope=slope, bend=bend)


def logistic() -> SmoothLoss:
    """The loss of logistic regression."""
    from scipy.special import expit

    def slope(z: Any) -> Floats:
        return np.asarray(-expit(-np.asarray(z)))

    def bend(z: Any) -> Floats:
        return np.asarray(expit(z) * expit(-np.asarray(z)))

    return SmoothLoss(name="logistic", curvature=0.25, slope=slope, bend=bend)


WHO = "batch"
_UNIT = 2.0**-53
_LONGEST = 89.5
"""No exponential that `noise` draws is longer, so b is at most d times this many scales long."""
_RANGE = 2.0**-33
"""Noise keeps values up to its scale over this (`noise.lattice`)."""
_HALVINGS = 40
_STEEPEST = 1e8
"""Of the largest curvature of J over the least; beyond it floats do not find a minimum any more."""
_LAST_PARTS = 100
"""The last noise has one part in so many of epsilon."""


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbation:
    """Every field is public. ``records``: n, the planned number of slots; fewer that come leave nulls."""

    features: int
    records: int
    epsilon: Decimal
    regularization: float
    radius: float = 1.0
    loss: SmoothLoss

    def __init__(
        self,
        *,
        features: int,
        records: int,
        epsilon: Number,
        regularization: float,
        radius: float = 1.0,
        loss: SmoothLoss | None = None,
    ) -> None:
        exact = exact_decimal(epsilon, "epsilon of objective perturbation")
        if not Decimal("1e-3") <= exact <= 1000:
            raise BadInput(f"objective perturbation at epsilon {exact}", "it is not from 0.001 to 1000", "Give another")
        for name, count in (("features", features), ("records", records)):
            if type(count) is not int or not 1 <= count <= 10**9:
                raise BadInput(f"objective perturbation of {name}={count}", "it is not a whole number from 1", "Count")
        if isinstance(regularization, bool) or not 1e-12 <= regularization <= 1e12:
            raise BadInput("the lambda of objective perturbation", "it is not from 1e-12 to 1e12", "Give another")
        set_fields(
            self,
            features=features,
            records=records,
            epsilon=exact,
            regularization=float(regularization),
            radius=checked_radius(radius),
            loss=loss or huber_hinge(),
        )
        if self.loss.curvature * self.radius**2 * records > _STEEPEST * self.strength:
            raise BadInput(
                f"objective perturbation with lambda {regularization:g}",
                "it is so weak that the minimum cannot be found as nearly as is paid for",
                f"Give lambda of at least {self.loss.curvature * self.radius**2 / _STEEPEST:.3g}",
            )

    # -- what it costs

    @property
    def last_event(self) -> Pure:
        """Of the noise on the minimum that was found."""
        return Pure(epsilon=share_of(self.epsilon, _LAST_PARTS, 12))

    @property
    def objective_event(self) -> Pure:
        """Of the linear term."""
        return Pure(epsilon=exact_minus(self.epsilon, self.last_event.epsilon))

    def terms(self) -> Terms:
        """A ledger's, for one batch and nothing else; pure."""
        lines = [Line(who=WHO, event=event) for event in (self.objective_event, self.last_event)]
        return committed(Budget(epsilon=self.epsilon, delta=0), lines)

    def charge(self, ledger: Ledger) -> tuple[Receipt, Receipt]:
        """Both events, durable when this returns, before a record is looked at."""
        named = (("objective", self.objective_event), ("last noise", self.last_event))
        first, second = ledger.charge_all(
            [request({WHO: event}, count=1, why=ChargeReason(purpose=purpose)) for purpose, event in named]
        )
        return first, second

    # -- the constants of the proof

    @property
    def strength(self) -> float:
        """S: lambda n, or as much as leaves half of epsilon_1 to the linear term."""
        asked = self.regularization * self.records
        bend = self.loss.curvature * self.radius**2
        least = bend / math.expm1(float_below(self.objective_event.epsilon) / 2)
        return max(asked, least * (1 + 1e-12))

    @property
    def beta(self) -> float:
        """The rate of the linear term's length, rounded down."""
        bend = math.log1p(self.loss.curvature * self.radius**2 / self.strength)
        left = float_below(self.objective_event.epsilon) - bend * (1 + 1e-12)
        return left / self.radius * (1 - 1e-12)

    @property
    def farthest(self) -> float:
        """No minimum is farther from 0: its gradient is S w + b + at most n M."""
        return (self.records * self.radius + _LONGEST * self.features / self.beta) / self.strength * (1 + 1e-9)

    @property
    def rounding(self) -> float:
        """E: a computed gradient is nearer than this to the true one, wherever a minimum can be."""
        n, d, bound = self.records, self.features, self.radius
        sums = (n + d + 16) * (2 * n * bound + 2 * self.strength * self.farthest)
        slopes = n * self.loss.curvature * bound**2 * (d + 8) * self.farthest
        return 4 * _UNIT * (sums + slopes)

    @property
    def nearness(self) -> float:
        """gamma: what is found is nearer than this to the minimum for an ideal b; public."""
        lattice = math.sqrt(self.features) / self.beta * 2.0**-FINENESS
        distance = (3 * self.rounding + lattice) / self.strength
        return max(distance, float(self.last_event.epsilon) * self.farthest * _RANGE)

    # -- training

    def train(self, vectors: Any, labels: Any, *, receipts: tuple[Receipt, Receipt]) -> BaselineModel:
        """The private model of (n, features) vectors and labels 1 and -1 (0: none came). Audience: public."""
        signed = signed_rows(vectors, labels, records=self.records, features=self.features, radius=self.radius)
        for receipt, event in zip(receipts, (self.objective_event, self.last_event), strict=True):
            if type(receipt) is not Receipt or receipt.charge_of(WHO).event != event:  # the constants are of these
                raise ReceiptRefused(
                    "training by objective perturbation", "it was charged for something else", "Use what charge returns"
                )
        first, second = receipts
        reach = float(self.objective_event.epsilon) / self.beta * (1 + 1e-12)
        tilt = gamma_direction(np.zeros(self.features), sensitivity=reach, receipt=first, who=WHO)
        minimum = self._minimum(signed, tilt)
        weights = gamma_direction(minimum, sensitivity=2 * self.nearness, receipt=second, who=WHO)
        return BaselineModel(
            name="objective perturbation",
            weights=np.asarray(weights, dtype=np.float64),
            private=True,
            claim=f"epsilon {self.epsilon}, delta 0, zero-out, of {self.records} slots",
            simulation=second.simulation,
        )

    def _minimum(self, signed: Floats, tilt: Floats) -> Floats:
        """Where the computed gradient is at most 2 E long: Newton's direction, and along it the lowest point. J falls
        by a fixed share of its distance to the minimum each time, so it ends.
        """
        w = np.zeros(self.features)
        while True:
            margins = signed @ w
            slope = np.asarray(signed.T @ self.loss.slope(margins) + self.strength * w + tilt)
            if float(np.linalg.norm(slope)) <= 2 * self.rounding:
                return w
            way = self._newton(signed, margins, slope)
            w = w - self._lowest(signed @ way, margins, w, way, tilt) * way

    def _newton(self, signed: Floats, margins: Floats, slope: Floats) -> Floats:
        bends = self.loss.bend(margins)
        curved = signed[bends > 0]
        hessian = curved.T @ (curved * bends[bends > 0, None])
        hessian[np.diag_indices(self.features)] += self.strength
        return np.asarray(np.linalg.solve(hessian, slope))

    def _lowest(self, along: Floats, margins: Floats, w: Floats, way: Floats, tilt: Floats) -> float:
        """How far to go: where the slope of J along the way, which never falls, changes its sign."""
        bend, drift = self.strength * float(way @ way), self.strength * float(w @ way) + float(tilt @ way)

        def rising(t: float) -> bool:
            return float(along @ self.loss.slope(margins - t * along)) + drift - t * bend <= 0

        low, high = 0.0, 1.0
        if not rising(1 + 1e-9):
            while not rising(high):
                low, high = high, 2 * high
        elif not rising(1 - 1e-9):  # the usual end: Newton's own step
            return 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if rising(middle) else (middle, high)
        return (low + high) / 2
