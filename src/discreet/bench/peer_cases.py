"""Peers in the same loop: scikit-activeml where nothing is private, Opacus as the trainer where training is.

A problem is played by all of them with the same pool, first labels, sizes of queries, test set and seeds, so that
differences are paired. Everything is a simulation on public sets.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from discreet.bench.campaigns import Campaign, run_case
from discreet.bench.cases import Case
from discreet.bench.methods import Method
from discreet.bench.problems import Pool, Problem, pool_of

Loop = Literal["scikit-activeml", "discreet", "DP-SGD", "Opacus"]
"""Who plays: the first two without privacy; the others train our campaigns."""


@dataclass(frozen=True, kw_only=True)
class PeerMethod:
    """``strategy``: what is asked, in a loop without privacy; ``campaign``: the method of a private campaign."""

    name: str
    loop: Loop
    strategy: str = ""
    campaign: Method | None = None

    def settings(self) -> dict[str, Any]:
        """All that distinguishes it from another."""
        told = None if self.campaign is None else self.campaign.settings()
        return {"name": self.name, "loop": self.loop, "strategy": self.strategy, "campaign": told}


@dataclass(frozen=True, kw_only=True)
class PeerCase:
    """A cell of the grid."""

    problem: Problem
    method: PeerMethod
    seed: int

    @property
    def digest(self) -> str:
        """Names the case: another setting anywhere is another case."""
        told = {"peers": self.problem.settings(), "method": self.method.settings(), "seed": self.seed}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    def names(self) -> dict[str, Any]:
        """Of the problem and the method, the loop, and the seed."""
        method = self.method
        strategy = method.strategy if method.campaign is None else method.campaign.name
        told = {"loop": method.loop, "strategy": strategy}
        return {"problem": self.problem.name, "method": method.name, "seed": self.seed, **told}

    @property
    def _private(self) -> Case | None:
        if self.method.campaign is None:
            return None
        return Case(problem=self.problem, method=self.method.campaign, seed=self.seed)

    def plan_name(self) -> str | None:
        """Of a campaign; other loops have no plan."""
        return None if self._private is None else self._private.plan_name()

    def make_plan(self, data: Path | None, plans: Path) -> None:
        """Of a campaign."""
        if self._private is not None:
            self._private.make_plan(data, plans)

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of a campaign's plan; of other loops, records that are learnt from in all phases."""
        if self._private is not None:
            return self._private.gradients(data, plans)
        sizes = np.cumsum([self.problem.initial, *self.problem.queries])
        return int(sizes.sum())

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """A row a phase."""
        if self._private is not None:
            return run_case(self._private, data, plans, begin=partial(_Timed, loop=self.method.loop))
        from discreet.bench.peer_loops import activeml_query, our_query, run_loop

        pool = _pool(self.problem, self.seed, data)
        made = activeml_query if self.method.loop == "scikit-activeml" else our_query
        query = made(self.method.strategy, self.problem, pool, self.seed)
        told = {"pool_size": len(pool.y), "made_of": pool.made_of}
        return [row | told for row in run_loop(self.problem, pool, self.seed, query)]

    def __str__(self) -> str:
        return f"{self.problem.name}, {self.method.name}, seed {self.seed}"


@lru_cache(maxsize=1)
def _pool(problem: Problem, seed: int, data: Path | None) -> Pool:
    """Strategies of one seed follow each other."""
    return pool_of(problem, seed, data)


class _Timed(Campaign):
    """A campaign that notes whom it asked and how long its steps take, trained by us or by Opacus."""

    def __init__(self, *parts: Any, loop: Loop) -> None:
        super().__init__(*parts)
        self._loop = loop
        self._moments: list[float] = []

    def trainer(self, **further: Any) -> Any:
        """DP-SGD, or Opacus with the same model and settings."""
        watched = {"watch": lambda done, steps: self._moments.append(time.process_time()), **further}
        if self._loop != "Opacus":
            return super().trainer(**watched)
        from discreet.bench.opacus_trainer import OpacusTrainer

        return OpacusTrainer(classes=self.problem.classes, seed=self.case.seed, **self.learning(), **watched)

    def train(self, number: int) -> dict[str, Any]:
        """The row of a phase, with the median CPU time between two steps."""
        self._moments = []
        row = super().train(number)
        return row | {"steps": len(self._moments), "step_seconds": float(np.median(np.diff(self._moments)))}

    def ask(self, number: int, k: int) -> dict[str, Any]:
        """The row of a query, without the histograms of its scores."""
        before = {place for mine in self.cohorts.values() for place in mine}
        row = super().ask(number, k)
        asked = sorted(int(place) for mine in self.cohorts.values() for place in mine if place not in before)
        kept = {name: value for name, value in row.items() if not name.endswith("_counts")}
        return kept | {"asked_places": json.dumps(asked)}
