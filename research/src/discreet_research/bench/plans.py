"""The plan of a case: made once, kept beside the results, and shared by all seeds and by all scores of one price.

A plan is public and depends on no seed. By privacy loss distributions it takes seconds to a minute, as long as a small
campaign itself.

k-centre in the bench: the greedy choice itself, which is not private, and what it reads.

From a problem and a method to a plan, a ledger and selectors: what a campaign would have, with a seed for chance.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.api import plan_request
from discreet.errors import InvalidPlan
from discreet.noise import Seeded, Source, random_places
from discreet.planning import make_plan
from discreet.planning.calibration import least_gaussian
from discreet.planning.selection import response_probabilities
from discreet.privacy.budget import Budget, exact_decimal, share_of
from discreet.privacy.events import Event, Gaussian, PoissonSampledGaussian, Pure, Repeated
from discreet.privacy.ledger import Ledger, Line, MemorySink, PathSegment, Receipt, committed, terms_of
from discreet.privacy.ledger import Path as LedgerPath
from discreet.privacy.ledger.plan_terms import POOL, pool_of
from discreet.privacy.plan import Plan
from discreet.privacy.plan_files import read_plan, write_plan
from discreet.records import Selection
from discreet.roles import Selector
from discreet.scorers import RandomScore, Score, build_scorer
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
from discreet.selectors.top_k import PAPER_CLIP, PAPER_SUBSAMPLE
from discreet_research.bench.authors_rules import authors_plan
from discreet_research.bench.problems import Method, Problem

PASSIVE = 2 / 3
"""Epochs without active learning, to those of all phases with it: the DP-AL paper's 100 to 150."""


def plan_of(problem: Problem, method: Method, pool_size: int, plan_cache: Path | None = None) -> Plan:
    """The plan of a campaign; ``plan_cache`` is the directory where plans are kept."""
    return _kept(_terms(problem, method, pool_size), plan_cache)


def gradients_of(plan: Plan, phases: int | None = None) -> int:
    """Gradients of single records that training computes (in the first ``phases``), as expected before it runs."""
    return round(
        sum(
            stage.steps * stage.expected_batch(plan.cohorts) for phase in plan.phases[:phases] for stage in phase.stages
        )
    )


def same_plan(problem: Problem, method: Method) -> str:
    """The same text for cases that share a plan."""
    of_problem = {name: value for name, value in problem.settings().items() if name not in _NO_MATTER}
    of_method = {name: value for name, value in method.settings().items() if name not in _NO_MATTER}
    alike = {"free": "free", "paper": "k-centre" if method.mechanism == "k-centre" else "paper"}
    return json.dumps(
        [of_problem, of_method | {"mechanism": alike.get(method.pricing, method.mechanism)}], sort_keys=True
    )


_NO_MATTER = ("name", "score", "above", "travel", "ema", "model", "features", "pictures")


_PLANNER, AUTHORS = "planner", "authors"
"""Named among a plan's terms where it is not ours, so that plans of ours keep their names."""


_Terms = tuple[tuple[str, Any], ...]
"""Arguments of a plan's request, sorted: what a plan depends on, and nothing else."""


@lru_cache(maxsize=64)
def _kept(terms: _Terms, plan_cache: Path | None) -> Plan:
    digest = hashlib.sha256(json.dumps(terms, default=str).encode()).hexdigest()[:16]
    path = None if plan_cache is None else plan_cache / f"{digest}.json"
    if path is not None and path.exists():
        try:
            return read_plan(path, certify=False)  # it was certified when it was made
        except InvalidPlan:
            path.unlink()  # broken: it is made again
    asked = dict(terms)
    planner = authors_plan if asked.pop(_PLANNER, "") == AUTHORS else make_plan
    plan = planner(plan_request(**asked))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_plan(plan, path)
    return plan


def campaign_of(problem: Problem, method: Method) -> Problem:
    """The problem as the method runs it: one that asks nothing has all labels at the beginning."""
    if not method.passive:
        return problem
    epochs = round(PASSIVE * problem.epochs * (1 + len(problem.queries)))
    return replace(problem, initial=problem.labels, queries=(), epochs=epochs)


def _terms(whole_problem: Problem, method: Method, pool_size: int) -> _Terms:
    problem = campaign_of(whole_problem, method)
    epsilon, delta = Decimal(problem.epsilon), Decimal(problem.delta)
    if method.pricing == "apart":
        epsilon, delta = epsilon - Decimal(method.selection_epsilon), delta / 2
    terms = {
        "epsilon": epsilon,
        "delta": delta,
        "initial": problem.initial,
        "queries": problem.queries,
        "batch": problem.batch,
        "epochs": problem.epochs,
        "pool_size": pool_size,
        "accountant": problem.accountant,
        "schedule": method.schedule,
    }
    return tuple(sorted((terms | _selection(problem, method, pool_size)).items()))


def _selection(problem: Problem, method: Method, pool_size: int) -> dict[str, Any]:
    if method.pricing == "paper":
        terms: dict[str, Any] = {"selection": "paper", "selection_epsilon": method.selection_epsilon}
        # k-centre looks at labelled records, too: everybody pays every query
        further = {"mechanism": "k-centre", "reads_training_data": True}
        return terms | (further if method.mechanism == "k-centre" else {})
    if method.pricing == "authors":
        return {_PLANNER: AUTHORS, "selection": "paper", "selection_epsilon": method.selection_epsilon}
    if method.pricing == "hidden":
        return {"selection": "hidden", "threshold_epsilon": method.threshold_epsilon}
    if method.pricing != "one-sided":
        return {}
    tau = Decimal(method.threshold_epsilon)
    asked = Decimal(method.selection_epsilon) - tau * len(problem.queries)
    terms = {"selection_epsilon": asked, "threshold_epsilon": tau, "individual_rates": method.individual_rates}
    return terms | ({"missed": strict_caps(problem, pool_size, asked)} if method.strict else {})


def strict_caps(problem: Problem, pool_size: int, asked: Decimal) -> tuple[Decimal, ...]:
    """Caps on misses that together stay within ``asked``: then selection alone costs that on every path."""
    left, needs = pool_size - problem.initial, []
    for k in problem.queries:
        high, low = response_probabilities(k, left, min(2 * k, left), float(asked))
        needs.append(math.log((1 - low) / (1 - high)) if high < 1 else float(asked))
        left -= k
    scale = min(1.2, float(asked) / sum(needs))
    return tuple(Decimal(repr(need * scale)).quantize(Decimal("1e-6"), rounding=ROUND_DOWN) for need in needs)


DIMENSIONS = 32
"""Longer embeddings are projected to so many numbers by a public random map: thousands of draws from tens of thousands
of records take minutes then, not hours, and distances keep their order but for some noise."""
_SEED = 30_000


def projected(embeddings: NDArray[Any]) -> NDArray[np.float64]:
    """(n, d) to (n, at most 32), of length at most 1."""
    points = np.asarray(embeddings, dtype=np.float64)
    if points.shape[1] > DIMENSIONS:
        chance = np.random.default_rng(_SEED)
        points = points @ (chance.normal(size=(points.shape[1], DIMENSIONS)) / np.sqrt(DIMENSIONS))
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.maximum(lengths, 1e-12))


@dataclass(frozen=True, kw_only=True)
class ExactKCentre:
    """The farthest record, k times: **not private**, for simulations."""

    source: Source
    name = "exact-k-centre"

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """There is none: no finite epsilon holds."""
        return ()

    def select(
        self,
        *,
        ids: Any,
        scores: Any,
        k: int,
        receipt: Receipt | Sequence[Receipt] = (),
        phase: int = 0,
        centres: Any = None,
    ) -> Selection:
        """k of ``ids``, each the farthest from all before it and from ``centres``."""
        points = np.asarray(scores, dtype=np.float64)
        nearest = np.full(len(points), np.inf)
        for centre in () if centres is None else centres:
            nearest = np.minimum(nearest, _squares(points, centre))
        places: list[int] = []
        for _ in range(min(k, len(points))):
            index = int(nearest.argmax())
            places.append(index)
            nearest = np.minimum(nearest, _squares(points, points[index]))
            nearest[index] = -1.0
        order = random_places(len(places), len(places), where=self.source, kind=f"{self.name} order {phase}")
        return Selection(
            ids=tuple(ids[places[at]] for at in order.tolist()),
            mechanism=self.name,
            private=False,
            simulation=self.source.simulation,
            epsilon=Decimal("Infinity"),
        )


def _squares(points: NDArray[np.float64], centre: NDArray[np.float64]) -> NDArray[np.float64]:
    apart = points - centre
    return np.asarray(np.einsum("ij,ij->i", apart, apart))


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


def priced(problem: Problem, method: Method, pool_size: int, seed: int, plan_cache: Path | None = None) -> Priced:
    """Plan it (or take the plan from its plan_cache), and open its books."""
    plan = plan_of(problem, method, pool_size, plan_cache)
    source = Seeded(seed)
    ledger = Ledger.create(MemorySink(), terms_of(plan), source=source)
    scorer = build_scorer(method.score or problem.score, classes=problem.classes)
    claimed, selection = plan.claim, ledger
    if method.pricing == "apart":
        events = [_apart(problem, method, k) for k in problem.queries]
        selection = _own_book(problem, method, events, seed)
        selectors: tuple[Selector, ...] = tuple(_apart_selector(event, scorer.range) for event in events)
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
        clip = (scorer.usual_clip or usual[method.mechanism]) if method.mechanism in usual else 1.0
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
    return _gaussian(float(total), float(Decimal(problem.delta) / 2), queries, rate)


@lru_cache(maxsize=64)
def _gaussian(epsilon: float, delta: float, queries: int, rate: float) -> Event:
    from discreet.privacy.accounting.pld import pld_epsilons

    def price(query: Event) -> float:
        return max(pld_epsilons(Repeated(event=query, count=queries), delta))

    query = least_gaussian(price, epsilon * (1 - 1e-4), rate=rate, limits=(1e-1, 1e4))
    assert query is not None  # epsilons of experiments are ordinary
    return query


def _own_book(problem: Problem, method: Method, events: list[Event], seed: int) -> Ledger:
    parts = ((event.event, event.count) if isinstance(event, Repeated) else (event, 1) for event in events)
    lines = [Line(who=POOL, phase=phase, event=each, count=count) for phase, (each, count) in enumerate(parts, start=1)]
    pure = method.mechanism == "exponential"
    budget = Budget(epsilon=method.selection_epsilon, delta=0 if pure else Decimal(problem.delta) / 2)
    paths = [LedgerPath(name=POOL, stays=(PathSegment(who=POOL),))]
    return Ledger.create(MemorySink(), committed(budget, lines, paths=paths), source=Seeded(seed + _APART_SEED))


def _apart_selector(event: Event, limits: tuple[float, float]) -> Selector:
    if isinstance(event, Repeated):
        assert isinstance(event.event, Pure)
        return ExponentialSelector(epsilon=event.event.epsilon * event.count, range=limits)
    assert isinstance(event, Gaussian | PoissonSampledGaussian)
    rate = event.sampling_rate if isinstance(event, PoissonSampledGaussian) else 1.0
    return GaussianTopK(noise_multiplier=event.noise_multiplier, range=limits, subsample=rate)
