"""The continual schedule: the new cohort alone until it has caught up, then everyone at the naive rate (DP-AL, D.1).

A baseline: the model forgets while it sees only new records, and with a new cohort smaller than b the catching-up
batches are smaller than b.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.planning.equalised import MOST_AMPLIFICATION
from discreet.planning.naive import calibrated, phases_at
from discreet.planning.request import PlanRequest
from discreet.planning.spending import Spending
from discreet.privacy.accounting.rdp import conversion
from discreet.privacy.accounting.sampled_gaussian import sampled_gaussian_rdp
from discreet.privacy.plan import Phase, Stage


def continual_phases(ask: PlanRequest) -> tuple[Phase, ...]:
    """Phases whose worst cohort reaches the budget by RDP."""
    sigma = calibrated(ask, lambda s: _run(ask, s)[1])
    return _run(ask, sigma)[0]


def _run(ask: PlanRequest, sigma: float) -> tuple[tuple[Phase, ...], float]:
    spending = Spending.for_request(ask)
    phases: list[Phase] = []
    for i, joint in enumerate(phases_at(ask, sigma)):
        stages = joint.stages
        if i:
            catch_up = _catch_up(ask, spending, i, sigma)
            spending.spend(catch_up)
            stages = (catch_up, *stages) if catch_up.steps else stages
        spending.spend(joint.last)
        phases.append(Phase(size=joint.size, stages=stages))
    return tuple(phases), max(spending.epsilon(c) for c in range(len(spending.cohorts)))


def _catch_up(ask: PlanRequest, spending: Spending, i: int, sigma: float) -> Stage:
    """As many steps of the new cohort alone as leave it at or below the first cohort's loss."""
    newest = spending.entered(i) - 1
    rate = min(1.0, ask.batch / spending.cohorts[newest].size)
    room = spending.epsilon(0) - spending.losses[newest] - conversion(spending.delta, spending.orders)
    step = sampled_gaussian_rdp(np.array([rate]), sigma, spending.orders)[0]
    steps = math.floor(max(0.0, float(np.max(room / step))) * (1 - 1e-12))
    steps = min(steps, MOST_AMPLIFICATION * ask.naive_steps(i))
    rates = (0.0,) * newest + (rate,)
    return Stage(steps=steps, noise_multiplier=sigma, rates=rates)
