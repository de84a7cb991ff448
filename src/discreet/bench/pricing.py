"""From a problem and a method to a plan, a ledger and selectors: what a campaign would have, with a seed for chance."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path as Place

from discreet.bench.far_apart import ExactKCentre
from discreet.bench.methods import Method
from discreet.bench.plans import plan_of
from discreet.bench.problems import Problem
from discreet.noise import Seeded
from discreet.planning.search import least_noise
from discreet.privacy.budget import Budget
from discreet.privacy.events import Event, Gaussian, PoissonSampledGaussian, Pure, Repeated
from discreet.privacy.exact import exact_decimal, share_of
from discreet.privacy.ledger import Ledger, Line, MemorySink, Path, Stay, committed, terms_of
from discreet.privacy.ledger.plan_terms import POOL, pool_of
from discreet.privacy.plan import Plan
from discreet.roles import Selector
from discreet.scorers.build import PAPER_CLIPS, build_scorer
from discreet.scorers.own import RandomScore
from discreet.scorers.score import Score
from discreet.selectors import (
    ExactTopK,
    ExponentialSelector,
    GaussianTopK,
    HiddenThresholdSelector,
    KCentreSelector,
    LaplaceTopK,
    RandomSelector,
    ThresholdSelector,
)
from discreet.selectors.named import PAPER_CLIP, PAPER_SUBSAMPLE

_APART_SEED = 1_000_003
"""Keeps the draws of a selection ledger apart from those of the plan's ledger."""


@dataclass(frozen=True, kw_only=True)
class Priced:
    """A committed campaign of a simulation. ``selection``: the ledger that selection charges; ``claimed_rdp``: of a
    plan by the authors' rules, what it costs by RDP, as they account.
    """

    plan: Plan
    ledger: Ledger
    selection: Ledger
    scorer: Score | RandomScore
    selectors: tuple[Selector, ...]
    claimed: float
    selection_claimed: float
    claimed_rdp: float | None = None

    def pool_at(self, query: int) -> str:
        """The group that a query touches."""
        return POOL if self.selection is not self.ledger else pool_of(self.plan.selection, query)


def priced(problem: Problem, method: Method, pool_size: int, seed: int, shelf: Place | None = None) -> Priced:
    """Plan it (or take the plan from its shelf), and open its books."""
    plan = plan_of(problem, method, pool_size, shelf)
    source = Seeded(seed)
    ledger = Ledger.create(MemorySink(), terms_of(plan), source=source)
    scorer = build_scorer(method.score or problem.score, classes=problem.classes)
    claimed, selection = plan.claim, ledger
    if method.pricing == "apart":
        events = [_apart(problem, method, k) for k in problem.queries]
        selection = _own_book(problem, method, events, seed)
        selectors: tuple[Selector, ...] = tuple(_apart_selector(method, event, scorer.range) for event in events)
        spent = float(method.selection_epsilon)
        claimed += spent
    else:
        selectors = tuple(_selector(method, plan, query, scorer, source) for query in range(1, len(plan.phases)))
        spent = max((float(max(path.forward, path.backward)) for path in plan.trajectories), default=0.0)
    return Priced(
        plan=plan,
        ledger=ledger,
        selection=selection,
        scorer=scorer,
        selectors=selectors,
        claimed=claimed,
        selection_claimed=spent,
        claimed_rdp=None if method.certified else max(path.epsilon_rdp or 0.0 for path in plan.trajectories),
    )


def _selector(method: Method, plan: Plan, query: int, scorer: Score | RandomScore, source: Seeded) -> Selector:
    terms, limits = plan.selection, scorer.range
    if method.mechanism == "random":
        return RandomSelector(source=source)
    if method.mechanism == "exact":
        return ExactTopK(range=limits, source=source)
    if method.mechanism == "exact-k-centre":
        return ExactKCentre(source=source)
    if method.mechanism == "k-centre":
        return KCentreSelector(epsilon=terms.per_query(), radius=1.0)
    if method.pricing in ("paper", "authors"):
        usual = {"clipped-laplace": PAPER_CLIP, "authors-laplace": 1.0}
        clip = PAPER_CLIPS.get(scorer.name, usual[method.mechanism]) if method.mechanism in usual else 1.0
        bottom, top = limits
        reach = (bottom, bottom + clip * (top - bottom))
        return LaplaceTopK(epsilon=terms.per_query(), range=reach, name=method.mechanism)
    if method.pricing == "hidden":
        return HiddenThresholdSelector.of_plan(plan, query, range=limits)
    return ThresholdSelector(
        asked=terms.epsilon,
        missed=terms.missed[query - 1],
        threshold_epsilon=terms.threshold_epsilon,
        range=limits,
        share_above=method.above,
    )


def _apart(problem: Problem, method: Method, k: int) -> Event:
    """What one of the T queries costs, so that all of them cost selection_epsilon at half of delta."""
    total, queries = exact_decimal(method.selection_epsilon, "selection epsilon"), len(problem.queries)
    if method.mechanism == "exponential":
        return Repeated(event=Pure(epsilon=share_of(share_of(total, queries), k)), count=k)
    rate = PAPER_SUBSAMPLE if method.mechanism == "subsampled-gaussian" else 1.0
    sigma = _gaussian_noise(float(total), float(Decimal(problem.delta) / 2), queries, rate)
    return _gaussian(sigma, rate)


@lru_cache(maxsize=64)
def _gaussian_noise(epsilon: float, delta: float, queries: int, rate: float) -> float:
    from discreet.privacy.accounting.pld import pld_epsilons

    def cost(sigma: float) -> float:
        return max(pld_epsilons(Repeated(event=_gaussian(sigma, rate), count=queries), delta))

    sigma = least_noise(cost, epsilon * (1 - 1e-4), start=2.0, tolerance=1e-3, least=1e-1, most=1e4)
    assert sigma is not None  # epsilons of experiments are ordinary
    return sigma


def _gaussian(sigma: float, rate: float) -> Event:
    if rate == 1:
        return Gaussian(noise_multiplier=sigma)
    return PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=sigma)


def _own_book(problem: Problem, method: Method, events: list[Event], seed: int) -> Ledger:
    lines = []
    for phase, event in enumerate(events, start=1):
        each, count = (event.event, event.count) if isinstance(event, Repeated) else (event, 1)
        lines.append(Line(who=POOL, phase=phase, event=each, count=count))
    pure = method.mechanism == "exponential"
    budget = Budget(epsilon=method.selection_epsilon, delta=0 if pure else Decimal(problem.delta) / 2)
    paths = [Path(name=POOL, stays=(Stay(who=POOL),))]
    return Ledger.create(MemorySink(), committed(budget, lines, paths=paths), source=Seeded(seed + _APART_SEED))


def _apart_selector(method: Method, event: Event, limits: tuple[float, float]) -> Selector:
    if isinstance(event, Repeated):
        assert isinstance(event.event, Pure)
        return ExponentialSelector(epsilon=event.event.epsilon * event.count, range=limits)
    if isinstance(event, PoissonSampledGaussian):
        return GaussianTopK(noise_multiplier=event.noise_multiplier, range=limits, subsample=event.sampling_rate)
    assert isinstance(event, Gaussian)
    return GaussianTopK(noise_multiplier=event.noise_multiplier, range=limits)
