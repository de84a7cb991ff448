"""The plan of a case: made once, kept beside the results, and shared by all seeds and by all scores of one price.

A plan is public and depends on no seed. By privacy loss distributions it takes seconds to a minute, as long as a small
campaign itself.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from discreet.api import plan_request
from discreet.bench.authors_rules import authors_plan
from discreet.bench.methods import Method
from discreet.bench.problems import Problem
from discreet.errors import InvalidPlan
from discreet.planning import make_plan
from discreet.planning.selection import response_probabilities
from discreet.privacy.plan import Plan
from discreet.privacy.plan_forms import read_plan, write_plan

PASSIVE = 2 / 3
"""Epochs without active learning, to those of all phases with it: the DP-AL paper's 100 to 150."""


def plan_of(problem: Problem, method: Method, pool_size: int, shelf: Path | None = None) -> Plan:
    """The plan of a campaign; ``shelf`` is the directory where plans are kept."""
    return _kept(_terms(problem, method, pool_size), shelf)


def gradients_of(plan: Plan) -> int:
    """Gradients of single records that training computes, as expected: known before anything runs."""
    return round(
        sum(stage.steps * stage.expected_batch(plan.cohorts) for phase in plan.phases for stage in phase.stages)
    )


def same_plan(problem: Problem, method: Method) -> str:
    """The same text for cases that share a plan."""
    told = {name: value for name, value in problem.settings().items() if name not in _NO_MATTER}
    mine = {name: value for name, value in method.settings().items() if name not in _NO_MATTER}
    alike = {"free": "free", "paper": "k-centre" if method.mechanism == "k-centre" else "paper"}
    return json.dumps([told, mine | {"mechanism": alike.get(method.pricing, method.mechanism)}], sort_keys=True)


_NO_MATTER = ("name", "score", "above", "travel", "ema", "model", "features", "pictures")


_PLANNER, AUTHORS = "planner", "authors"
"""Named among a plan's terms where it is not ours, so that plans of ours keep their names."""


class _Terms(tuple[tuple[str, Any], ...]):
    """Arguments of a plan's request, sorted: what a plan depends on, and nothing else."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self, default=str).encode()).hexdigest()[:16]


@lru_cache(maxsize=64)
def _kept(terms: _Terms, shelf: Path | None) -> Plan:
    path = None if shelf is None else shelf / f"{terms.digest}.json"
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


def _terms(given: Problem, method: Method, pool_size: int) -> _Terms:
    problem = campaign_of(given, method)
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
    return _Terms(sorted((terms | _selection(problem, method, pool_size)).items()))


def _selection(problem: Problem, method: Method, pool_size: int) -> dict[str, Any]:
    if method.pricing == "paper":
        told: dict[str, Any] = {"selection": "paper", "selection_epsilon": method.selection_epsilon}
        # k-centre looks at labelled records, too: everybody pays every query
        further = {"mechanism": "k-centre", "reads_training_data": True}
        return told | (further if method.mechanism == "k-centre" else {})
    if method.pricing == "authors":
        return {_PLANNER: AUTHORS, "selection": "paper", "selection_epsilon": method.selection_epsilon}
    if method.pricing == "hidden":
        return {"selection": "hidden", "threshold_epsilon": method.threshold_epsilon}
    if method.pricing != "one-sided":
        return {}
    tau = Decimal(method.threshold_epsilon)
    asked = Decimal(method.selection_epsilon) - tau * len(problem.queries)
    told = {"selection_epsilon": asked, "threshold_epsilon": tau, "individual_rates": method.individual_rates}
    return told | ({"missed": strict_caps(problem, pool_size, asked)} if method.strict else {})


def strict_caps(problem: Problem, pool_size: int, asked: Decimal) -> tuple[Decimal, ...]:
    """Caps on misses that together stay within ``asked``: then selection alone costs that on every path."""
    left, needs = pool_size - problem.initial, []
    for k in problem.queries:
        high, low = response_probabilities(k, left, min(2 * k, left), float(asked))
        needs.append(math.log((1 - low) / (1 - high)) if high < 1 else float(asked))
        left -= k
    scale = min(1.2, float(asked) / sum(needs))
    return tuple(Decimal(repr(need * scale)).quantize(Decimal("1e-6"), rounding=ROUND_DOWN) for need in needs)
