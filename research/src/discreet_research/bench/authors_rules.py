"""The DP-AL authors' planner, restated from their published code, mistakes included: a baseline, never a claim.

What it does (https://github.com/kschwethelm/DPAL, `modes.py` and `dp_utils.py`; the paper's Figs. 2 and 5):

sigma       one for all phases, so that the naive schedule in whole batches costs epsilon by RDP; the safe side
targets     eps_i is what the first cohort has spent after phase i, if phase i were naive; the newest cohort gets
            eps_i - i eps_sel / T (basic composition of the selections it went through)
rates       two a phase: `old` for everybody who trained before, found with the first cohort's history standing for
            all of them, and `new`. Bisection to 0.1%; **the end that costs more than the target** is returned
steps       bisected until the expected batch is within two records of b; **the upper end of the bracket** is returned,
            whatever number of steps the rates were found for
remainder   sigma of the phase is lowered until the batch fits, for the steps of the last probe, or one fewer

So cohorts may pass epsilon in three ways: rates and steps from the wrong end; old cohorts whose history is not the
first one's; and targets that are counted from a history that has passed its own target already. What such a plan
costs is priced by our accountants, cohort by cohort (`priced_anew`); a plan is never certified here at what it was
asked for, only at what it turns out to cost.

What the authors' rules cost and give: a plan by their code beside ours, for the same selection and epsilon.

On banking77, by entropy. *Laplace* is their selection in a plan of ours, certified by privacy loss distributions;
*authors' rules* is the same selection in a plan of theirs, which is priced anew and claims what it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache

import numpy as np

from discreet.errors import BadInput
from discreet.planning.request import PlanRequest
from discreet.privacy.accounting.rdp import Array, epsilon_at, sampled_gaussian_rdp
from discreet.privacy.budget import rounded_up
from discreet.privacy.plan import Phase, Plan, Stage
from discreet.simulation.results import Row, Table
from discreet_research.bench.paper_problems import (
    AUTHORS,
    BANKING,
    LAPLACE,
    authors_rules,
    baselines,
    laplace,
    summary_table,
    with_epsilon,
)
from discreet_research.bench.paper_tables import SELECTION_EPSILONS, Blocks
from discreet_research.bench.rows import values_in

ORDERS: Array = np.array([1 + x / 10 for x in range(1, 100)] + list(range(12, 64)), dtype=np.float64)
"""Opacus's, with which the authors account."""
EPSILON_ERROR = 0.01
RATE_PRECISION = 0.001
BATCH_ERROR = 2
MOST_STEPS = 3
LEAST_SIGMA = 0.6
"""Of the first sigma: how far the remainder may lower a phase's."""


@dataclass(kw_only=True)
class _History:
    """What the first cohort went through, and its divergences: it stands for every old cohort."""

    delta: float
    stages: list[tuple[float, float, int]] = field(default_factory=list)

    def epsilon(self, sigma: float, rate: float, steps: int, *, alone: bool = False) -> float:
        """After so many further steps; ``alone``: of a cohort that has no history."""
        curve = steps * _step(rate, sigma)
        past = [] if alone else [count * _step(q, s) for s, q, count in self.stages]
        return epsilon_at(np.sum([curve, *past], axis=0), self.delta, ORDERS)

    def rate(self, target: float, sigma: float, steps: int, *, alone: bool) -> float:
        """At which the target is passed, by a thousandth of the rate at most."""
        low, high = 1e-9, 1.0
        while low / high < 1 - RATE_PRECISION:
            middle = (low + high) / 2
            if self.epsilon(sigma, middle, steps, alone=alone) < target:
                low = middle
            else:
                high = middle
        return high


@lru_cache(maxsize=20_000)
def _step(rate: float, sigma: float) -> Array:
    return np.asarray(sampled_gaussian_rdp(np.array([rate]), sigma, ORDERS)[0])


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """One phase's question: two groups, their targets and sizes."""

    history: _History
    targets: tuple[float, float]
    sizes: tuple[int, int]
    batch: int

    def rates(self, sigma: float, steps: int) -> tuple[float, float]:
        old, new = self.targets
        return (
            self.history.rate(old, sigma, steps, alone=False),
            self.history.rate(new, sigma, steps, alone=True),
        )

    def expected(self, rates: tuple[float, float]) -> float:
        return rates[0] * self.sizes[0] + rates[1] * self.sizes[1]

    def fits(self, rates: tuple[float, float]) -> bool:
        return abs(self.expected(rates) - self.batch) <= BATCH_ERROR


def authors_phases(ask: PlanRequest) -> tuple[Phase, ...]:
    """Step amplification as the authors' code plans it, in phases of ours; every old cohort has the old rate."""
    delta, queries = float(ask.budget.delta), len(ask.queries)
    rates = [1 / max(1, size // ask.batch) for size in ask.sizes]
    naive = [ask.epochs * max(1, size // ask.batch) for size in ask.sizes]
    sigma = _first_sigma(float(ask.budget.epsilon), delta, rates, naive)
    history = _History(delta=delta, stages=[(sigma, rates[0], naive[0])])
    phases = [_phase(ask, 0, sigma, naive[0], (rates[0], rates[0]))]
    for i in range(1, queries + 1):
        if ask.sizes[i] < 2 * ask.batch:
            raise BadInput(
                f"the authors' plan of a phase with {ask.sizes[i]} records",
                f"their rules need two batches of {ask.batch} in every phase after the first",
                "Lower the batch",
            )
        target = history.epsilon(sigma, rates[i], naive[i])
        charged = float(ask.terms.epsilon) * i / queries
        turn = _Turn(
            history=history,
            targets=(target, target - charged),
            sizes=(ask.sizes[i - 1], ask.queries[i - 1]),
            batch=ask.batch,
        )
        phase_sigma, steps, phase_rates = _amplified(turn, sigma, naive[i])
        history.stages.append((phase_sigma, phase_rates[0], steps))
        phases.append(_phase(ask, i, phase_sigma, steps, phase_rates))
    return tuple(phases)


def _phase(ask: PlanRequest, i: int, sigma: float, steps: int, rates: tuple[float, float]) -> Phase:
    each = (*(rates[0],) * i, rates[1])
    return Phase(size=ask.sizes[i], batch=ask.batch, stages=(Stage(steps=steps, noise_multiplier=sigma, rates=each),))


def _first_sigma(epsilon: float, delta: float, rates: list[float], steps: list[int]) -> float:
    """At which the naive schedule costs epsilon or up to 0.01 less."""

    def cost(sigma: float) -> float:
        curves = [count * _step(rate, sigma) for rate, count in zip(rates, steps, strict=True)]
        return epsilon_at(np.sum(curves, axis=0), delta, ORDERS)

    low, high = 0.0, 20.0
    reached = cost(high)
    while reached > epsilon:
        high *= 2
        reached = cost(high)
    while epsilon - reached > EPSILON_ERROR:
        middle = (low + high) / 2
        spent = cost(middle)
        if spent < epsilon:
            high, reached = middle, spent
        else:
            low = middle
    return high


def _amplified(turn: _Turn, sigma: float, naive: int) -> tuple[float, int, tuple[float, float]]:
    """sigma, steps and the two rates of a phase."""
    low, high = naive, MOST_STEPS * naive
    rates, steps = turn.rates(sigma, high), 0
    while not turn.fits(rates):
        before, steps = steps, round((high + low) / 2)
        if steps == before:  # no whole number of steps fits: the rest is up to sigma
            probed = steps - 1 if turn.expected(rates) < turn.batch else steps
            phase_sigma, rates = _lowered(turn, sigma, probed)
            return phase_sigma, high, rates
        rates = turn.rates(sigma, steps)
        if turn.expected(rates) > turn.batch:
            low = steps
        else:
            high = steps
    return sigma, high, rates


def _lowered(turn: _Turn, sigma: float, steps: int) -> tuple[float, tuple[float, float]]:
    low, high = LEAST_SIGMA * sigma, sigma
    rates = turn.rates(high, steps)
    while not turn.fits(rates):
        before, middle = turn.expected(rates), (low + high) / 2
        rates = turn.rates(middle, steps)
        if turn.expected(rates) > turn.batch:
            high = middle
        else:
            low = middle
        if round(turn.expected(rates), 1) == round(before, 1):
            break
    return high, rates


def authors_plan(ask: PlanRequest) -> Plan:
    """Their phases, priced anew: its budget is what was asked, or what it costs where that is more."""
    return priced_anew(
        Plan(
            budget=ask.budget,
            schedule="step-amplification",
            accountant=ask.accountant,
            batch=ask.batch,
            epochs=ask.epochs,
            selection=ask.terms,
            cohorts=ask.cohorts,
            phases=authors_phases(ask),
        )
    )


def priced_anew(plan: Plan) -> Plan:
    """Every path by our accountants; a budget that it passes is raised to what it costs, so that a ledger opens."""
    certified = plan.with_paths().certified()
    if certified.claim <= float(plan.budget.epsilon):
        return certified
    return replace(certified, budget=replace(plan.budget, epsilon=Decimal(repr(rounded_up(certified.claim)))))


AUTHORS_BLOCKS: Blocks = tuple(
    (
        (with_epsilon(BANKING, epsilon),),
        (baselines()[0], baselines()[2], laplace("entropy", selection), authors_rules("entropy", selection)),
    )
    for epsilon, selection in SELECTION_EPSILONS.items()
)


def authors_tables(rows: Sequence[Row]) -> list[Table]:
    """Costs, then accuracies."""
    return [_costs(rows), summary_table(rows, "Accuracy")]


def _costs(rows: Sequence[Row]) -> Table:
    lines = []
    for problem in values_in(rows, "problem"):
        asked = problem.rpartition("eps ")[2]
        for row in {row["method"]: row for row in rows if row["problem"] == problem}.values():
            if LAPLACE in row["method"] or AUTHORS in row["method"]:
                costs = (_cost(row.get(column), float(asked)) for column in ("claimed_rdp", "claimed_epsilon"))
                lines.append((problem, row["method"], asked, *costs))
    return Table(
        title="What the plans cost",
        columns=("problem", "method", "asked for", "by RDP, as the authors account", "by PLD"),
        rows=tuple(lines),
        note="The worst cohort, selection included. The authors' code plans by RDP and passes what it was asked for by "
        "its own accounting; it is not certified. PLD is tighter than RDP, and what it leaves over may hide that. "
        "Plans of ours are made to end at the budget by PLD.",
    )


def _cost(epsilon: float | None, asked: float) -> str:
    if epsilon is None:
        return "-"
    return f"{epsilon:.3f}{' **passes it**' if epsilon > asked else ''}"
