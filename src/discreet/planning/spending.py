"""What each cohort has spent so far, by RDP, while a plan is being made."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from discreet.planning.rates import Guess, largest_rates
from discreet.planning.request import PlanRequest
from discreet.privacy.accounting.rdp import ORDERS, conversion, epsilon_at
from discreet.privacy.accounting.sampled_gaussian import Array, sampled_gaussian_rdp
from discreet.privacy.exact import float_above
from discreet.privacy.plan import Cohort, Stage, build_trajectories


@dataclass
class Spending:
    """RDP histories of all cohorts (cohorts x orders) with their selection losses."""

    cohorts: tuple[Cohort, ...]
    losses: Array
    delta: float
    orders: Array = field(default_factory=lambda: ORDERS)
    history: Array = field(init=False)

    def __post_init__(self) -> None:
        self.history = np.zeros((len(self.cohorts), self.orders.size))
        self._conversion = conversion(self.delta, self.orders)

    @classmethod
    def for_request(cls, ask: PlanRequest, credit: Array | None = None) -> Spending:
        """Nothing spent in training yet; selection losses as committed (the worse direction), less any ``credit``."""
        paths = build_trajectories(ask.terms, ask.cohorts, ())
        losses = np.array([float_above(max(path.forward, path.backward)) for path in paths[:-1]])
        return cls(ask.cohorts, losses if credit is None else losses - credit, float(ask.accounted.delta))

    def entered(self, phase: int) -> int:
        """How many cohorts train in ``phase`` (cohorts are in order of entry)."""
        return sum(cohort.phase <= phase for cohort in self.cohorts)

    def sizes(self, phase: int) -> Array:
        """Planned sizes of the cohorts that train in ``phase``."""
        return np.array([cohort.size for cohort in self.cohorts[: self.entered(phase)]])

    def rates_to(self, target: float, phase: int, steps: float, sigma: float, start: Guess) -> Guess:
        """Each cohort's largest rate that leaves it at ``target`` or below after ``steps`` more."""
        count = self.entered(phase)
        allowance = target - self.losses[:count, None] - self._conversion - self.history[:count]
        return Guess(*largest_rates(allowance, steps, sigma, self.orders, start))

    def spend(self, stage: Stage) -> None:
        """Add a stage to the histories."""
        count = len(stage.rates)
        step = sampled_gaussian_rdp(np.array(stage.rates), stage.noise_multiplier, self.orders)
        self.history[:count] += stage.steps * step

    def epsilon(self, cohort: int) -> float:
        """Where a cohort stands, selection included."""
        return float(self.losses[cohort]) + epsilon_at(self.history[cohort], self.delta, self.orders)
