"""What a private search costs, before anything is read: the noise of its runs, and what it guarantees.

A search trains K times, K drawn from a public law, each time with a setting drawn at random from a public list, and
releases the best run alone. `price_search` finds the noise multiplier at which the *whole search* keeps the budget.

Guarantee: zero-out relation, both directions, by Rényi divergences (docs/proofs/private-tuning.md). Settings may differ
in batch and epochs, which have prices: each kind gets the noise at which it costs about what the others do, and the
search is priced by the dearest at every order. Learning rates, clips and models cost nothing in themselves.

Everything here follows from public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np

from discreet.errors import BadInput, InfeasiblePlan
from discreet.planning.calibration import least_noise
from discreet.planning.request import plan_request
from discreet.privacy.accounting.filters import best_order
from discreet.privacy.accounting.rdp import ORDERS, Array, epsilon_at, rdp_curve, rdp_epsilon, sampled_gaussian_rdp
from discreet.privacy.budget import Budget, float_below, rounded_up, shown_up
from discreet.privacy.events import DiscreteLaplace, Event, PoissonSampledGaussian, Repeated
from discreet.privacy.tuned import RunLaw, Tuned

FORMAT = "discreet.tuning-price/1"
LEAST_SIGMA, MOST_SIGMA = 0.2, 1e4
_ROOM = 1 - 1e-7
"""A filter rounds every addition up; this is far more than it rounds."""
_FLOOR = Context(prec=60, rounding=ROUND_FLOOR)
_TABLE = np.geomspace(LEAST_SIGMA, MOST_SIGMA, 120)
_COARSE: Array = ORDERS[::6]


@dataclass(frozen=True, order=True)
class RunShape:
    """What of a setting has a price: the expected batch and the epochs."""

    batch: int
    epochs: int


@dataclass(frozen=True, kw_only=True)
class PricedRun:
    """A run of one shape: how its steps are sampled and hidden."""

    shape: RunShape
    steps: int
    step: PoissonSampledGaussian

    @property
    def event(self) -> Repeated:
        """All of the run's training, as one event."""
        return Repeated(event=self.step, count=self.steps)


@dataclass(frozen=True, kw_only=True)
class TuningPrice:
    """A priced search. Audience: public.

    ``epsilon``      what the whole search guarantees, at the budget's delta
    ``one_run``      what one of its runs would cost if it alone were done and released (the dearest shape)
    ``all_settings`` what releasing one run of every setting would cost with the same noise: search by composition
    ``alone``        the noise multiplier of one single run that had the whole budget (the first shape)
    ``score``        what scoring costs a held-out record in one run; None where scores are public
    """

    budget: Budget
    units: int
    settings: int
    law: RunLaw
    runs: tuple[PricedRun, ...]
    epsilon: float
    one_run: float
    all_settings: float
    alone: float
    order: float
    score: DiscreteLaplace | None = None

    @property
    def training(self) -> Tuned:
        """What a training record is charged."""
        return Tuned(events=tuple(run.event for run in self.runs), runs=self.law)

    @property
    def scoring(self) -> Tuned | None:
        """What a held-out record is charged."""
        return None if self.score is None else Tuned(events=(self.score,), runs=self.law)

    def run_of(self, shape: RunShape) -> PricedRun:
        """The run of this shape."""
        return next(run for run in self.runs if run.shape == shape)

    def sentence(self) -> str:
        """The price in words."""
        sigma = self.runs[0].step.noise_multiplier
        return (
            f"a search over {self.settings} settings with {self.law.mean:.4g} runs on average costs epsilon "
            f"{shown_up(self.epsilon)} at delta {self.budget.delta} where one of its runs costs "
            f"{shown_up(self.one_run)}, and all settings one after the other {shown_up(self.all_settings)}. "
            f"Its runs have noise multiplier {sigma:.4g}; one run with the whole budget would have {self.alone:.4g}"
        )

    def to_json(self) -> dict[str, Any]:
        """A form for ``--json`` and reports."""
        return {
            "format": FORMAT,
            "simulation": False,
            "audience": "public",
            "budget": self.budget.to_json(),
            "units": self.units,
            "settings": self.settings,
            "runs": self.law.to_json()
            | {"mean": self.law.mean, "median": self.law.quantile(0.5), "most_of_99": self.law.quantile(0.99)},
            "epsilon": self.epsilon,
            "one_run": self.one_run,
            "all_settings": self.all_settings,
            "noise_alone": self.alone,
            "order": self.order,
            "shapes": [
                {
                    "batch": run.shape.batch,
                    "epochs": run.shape.epochs,
                    "steps": run.steps,
                    "sampling_rate": run.step.sampling_rate,
                    "noise_multiplier": run.step.noise_multiplier,
                }
                for run in self.runs
            ],
            "score_epsilon": None if self.score is None else str(self.score.epsilon),
        }


def price_search(
    *,
    budget: Budget,
    units: int,
    settings: int,
    shapes: Sequence[RunShape],
    law: RunLaw,
    held_out: bool = False,
) -> TuningPrice:
    """The search that spends ``budget`` on ``units`` training units; ``settings`` is how long the public list is.

    ``held_out``: scores are noisy counts of private records kept apart, which may spend the whole budget on them.
    """
    if budget.delta == 0 or type(settings) is not int or settings < 1 or not shapes:
        raise BadInput("a private search", "it has no settings, or a delta of 0", "Give settings, and a delta above 0")
    bare = [_bare(budget, units, shape) for shape in dict.fromkeys(shapes)]
    delta = float_below(budget.delta)

    def cost(sigma: float) -> float:
        return epsilon_at(rdp_curve(_tuned(bare, equalised(sigma), law)), delta)

    equalised = _Equalised(bare, delta)
    sigma = least_noise(
        cost, float_below(budget.epsilon) * _ROOM, start=4.0, tolerance=1e-6, smallest=LEAST_SIGMA, largest=MOST_SIGMA
    )
    if sigma is None:
        raise InfeasiblePlan(
            f"a private search within epsilon {budget.epsilon}",
            f"{law.mean:.3g} runs on average cost more, whatever their noise",
            "Search with fewer runs, or raise epsilon",
            {"runs": "2"},
        )
    runs = tuple(
        PricedRun(shape=shape, steps=steps, step=PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=noise))
        for (shape, rate, steps), noise in zip(bare, equalised(sigma), strict=True)
    )
    tuned = Tuned(events=tuple(run.event for run in runs), runs=law)
    order = best_order(tuned, delta)
    return TuningPrice(
        budget=budget,
        units=units,
        settings=settings,
        law=law,
        runs=runs,
        epsilon=rounded_up(epsilon_at(rdp_curve(tuned), delta)),
        one_run=rounded_up(max(rdp_epsilon(run.event, delta) for run in runs)),
        all_settings=rounded_up(rdp_epsilon(Repeated(event=runs[0].event, count=settings), delta)),
        alone=_alone(bare[0], budget),
        order=order,
        score=_score(budget, law, order) if held_out else None,
    )


Bare = tuple[RunShape, float, int]
"""A shape, its sampling rate, its steps."""


def _bare(budget: Budget, units: int, shape: RunShape) -> Bare:
    """As a plan of one phase would train it."""
    ask = plan_request(
        epsilon=budget.epsilon,
        delta=budget.delta,
        initial=units,
        batch=min(shape.batch, units),
        epochs=shape.epochs,
        unit=budget.unit,
        accountant="rdp",
    )
    return shape, ask.naive_rate(0), ask.naive_steps(0)


def _tuned(bare: Sequence[Bare], sigmas: Sequence[float], law: RunLaw) -> Tuned:
    steps = [
        Repeated(event=PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=sigma), count=count)
        for (_, rate, count), sigma in zip(bare, sigmas, strict=True)
    ]
    return Tuned(events=tuple(dict.fromkeys(steps)), runs=law)


class _Equalised:
    """From the first shape's noise to everybody's, so that all cost about the same: read off tables at few orders.

    About is enough: the search is priced with the noise that comes out.
    """

    def __init__(self, bare: Sequence[Bare], delta: float) -> None:
        self._logs = [] if len(bare) == 1 else [self._table(shape, delta) for shape in bare]

    @staticmethod
    def _table(shape: Bare, delta: float) -> Array:
        rate, steps = np.array([shape[1]]), shape[2]
        epsilons = [epsilon_at(steps * sampled_gaussian_rdp(rate, s, _COARSE)[0], delta, _COARSE) for s in _TABLE]
        # strictly falling, so that it can be read backwards
        return np.asarray(np.log(np.maximum(epsilons, 1e-12)) - 1e-9 * np.arange(_TABLE.size))

    def __call__(self, sigma: float) -> list[float]:
        """A noise multiplier for each shape."""
        if not self._logs:
            return [sigma]
        price = np.interp(math.log(sigma), np.log(_TABLE), self._logs[0])
        others = [float(np.exp(np.interp(price, log[::-1], np.log(_TABLE)[::-1]))) for log in self._logs[1:]]
        return [sigma, *others]


def _alone(shape: Bare, budget: Budget) -> float:
    """The noise of a single run with the whole budget, by the same accountant."""
    delta = float_below(budget.delta)

    def cost(sigma: float) -> float:
        return epsilon_at(shape[2] * sampled_gaussian_rdp(np.array([shape[1]]), sigma, ORDERS)[0], delta)

    multiplier = least_noise(
        cost, float_below(budget.epsilon), start=2.0, tolerance=1e-6, smallest=LEAST_SIGMA, largest=MOST_SIGMA
    )
    return math.inf if multiplier is None else multiplier


def _score(budget: Budget, law: RunLaw, order: float) -> DiscreteLaplace:
    """A held-out record is in no training: it may pay the whole budget for being counted."""
    factor = law.pure_factor()
    if factor is not None:
        return DiscreteLaplace(epsilon=_down(_FLOOR.divide(budget.epsilon, factor)))
    delta = float_below(budget.delta)

    def cost(scale: float) -> float:
        event: Event = Tuned(events=(DiscreteLaplace(epsilon=_down(Decimal(repr(1 / scale)))),), runs=law)
        return epsilon_at(rdp_curve(event, np.array([order])), delta, np.array([order]))

    scale = least_noise(
        cost, float_below(budget.epsilon) * _ROOM, start=4.0, tolerance=1e-4, smallest=1e-2, largest=1e5
    )
    if scale is None:
        raise InfeasiblePlan(
            f"scoring {law.mean:.3g} runs on average within epsilon {budget.epsilon}",
            "the number of runs alone costs more, whatever the noise",
            "Search with fewer runs, score on public records, or raise epsilon",
            {"runs": "2"},
        )
    return DiscreteLaplace(epsilon=_down(Decimal(repr(1 / scale))))


def _down(epsilon: Decimal) -> Decimal:
    """Nine decimals, rounded down."""
    return epsilon.quantize(Decimal("1e-9"), rounding=ROUND_FLOOR).normalize()
