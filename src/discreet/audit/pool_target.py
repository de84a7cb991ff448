"""The audit target of the private pool: the same code, planned at a small epsilon, on a pool of canaries.

The target is a whole campaign through the durable loop: plan, store, ledger, enrolment, selection, questions, answers,
cohorts, training, models. Only its pool is made up. It takes plain gradient steps, so that the difference of two
released models is the sum of the noisy gradients between them. The attacker sees what the public sees: who was asked
(where that is released), and the model after every phase.

    asked       of who was asked in a query: a null scores lowest, so the asked are rather there
    trained     of how far the models moved along a canary's axis, in every phase
    both        the sum of the two log likelihood ratios

Log likelihood ratios are of the plan's own noise, and only serve to put canaries in an order: were they wrong, the
attack would be weaker, and its bound as true.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.checks import batch_variance, noise_variance
from discreet.audit.findings import GUESSED, Array, Attack, Finding, findings_of
from discreet.audit.results import NO_FAULT, Fault, ShownModels, TargetResult
from discreet.parts import Part
from discreet.privacy.plan import TrainingPhase
from discreet.selectors import SELECTORS

if TYPE_CHECKING:
    from discreet.campaign import Campaign

THRESHOLD = "0.05"
"""What a hidden threshold costs."""
LENGTH = 20.0
"""Long enough that its gradient is clipped, and that the share of it that goes to the bias is lost (1 in 800)."""
CLASSES = ("no", "yes")
HIDDEN = ("hidden",)
"""The prices of a selector that never says whom it asks: its asked sets cannot be attacked."""


def pays_by_query(selector: str) -> bool:
    """Whether being chosen has a price: not at random, exactly, or under hidden selection."""
    return SELECTORS.get(selector).prices not in ((), HIDDEN)


@dataclass(frozen=True, kw_only=True)
class Canaries:
    """Canaries of a white-box attack on a linear model; coins and labels come from ``seed``.

    Record i is a long vector along axis i, so its clipped gradient points along that axis, in a direction that is known
    beforehand, with the full length C; no other record moves the weights there. A sum of noisy gradients then shows
    every canary separately, in noise of exactly the planned size: no attack on one canary sees more of it. In place of
    a canary that does not take part there is a null: a row that no reader can use, which a pool keeps as such.

    coins     the secret: true where a canary takes part
    """

    count: int
    seed: int
    coins: NDArray[np.bool_] = field(init=False, repr=False)
    labels: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, self.count])
        object.__setattr__(self, "coins", rng.random(self.count) < 0.5)
        object.__setattr__(self, "labels", rng.integers(0, 2, self.count))

    @cached_property
    def ids(self) -> list[str]:
        """Names of the canaries."""
        return [f"canary-{number:05d}" for number in range(self.count)]

    def rows(self) -> NDArray[np.float32]:
        """A row a canary; one that does not take part is not a number."""
        rows = np.zeros((self.count, self.count), dtype=np.float32)
        np.fill_diagonal(rows, LENGTH)
        rows[~self.coins] = np.nan
        return rows

    def truth(self) -> dict[str, str]:
        """What annotators say. Of a null they would say something, too: it teaches nothing."""
        return {name: CLASSES[label] for name, label in zip(self.ids, self.labels.tolist(), strict=True)}

    def along(self, weights: Any) -> NDArray[np.float64]:
        """How far (2, count) weights went in the direction that each canary pulls."""
        table = np.asarray(weights, dtype=np.float64)
        return np.asarray(np.where(self.labels == 1, 1.0, -1.0) * (table[1] - table[0]) / math.sqrt(2.0))


@dataclass(frozen=True, kw_only=True)
class PoolTarget:
    """How the target is planned. All public.

    epsilon, delta      what it claims
    canaries            records of its pool, all of them canaries
    selection_epsilon   of that, what choosing may cost; with ``selector`` random, exact or hidden-threshold: 0
    selection           how it is priced; by default as the selector needs it
    """

    epsilon: str = "1"
    delta: str = "1e-6"
    canaries: int = 5000
    initial: float = 0.3
    asked: float = 0.3
    queries: int = 1
    batch: float = 0.1
    epochs: int = 10
    selector: str = "threshold-response"
    selection_epsilon: str = "0.5"
    selection: str | None = None
    schedule: str = "step-amplification"
    learning_rate: float = 0.01
    fault: Fault = NO_FAULT

    def audit(self, name: str, seed: int) -> TargetResult:
        """Run the campaign once and attack it."""
        canaries = Canaries(count=self.canaries, seed=seed)
        seen = run_campaign(self, canaries, seed=seed)
        return TargetResult(
            target=name,
            claimed=seen.claimed,
            findings=attack(self, canaries, seen),
            variances=(noise_variance(seen.noise_alone(canaries.coins)), batch_variance(seen.counts)),
        )

    @property
    def declared(self) -> Part:
        """What its selector declares."""
        return SELECTORS.get(self.selector)

    @property
    def selection_cost(self) -> float:
        """The epsilon of one query in the attack's scores; selection that is exact or free has none of its own."""
        return float(self.selection_epsilon) if self.declared.private else 1.0

    def tables(self, seed: int) -> dict[str, dict[str, Any]]:
        """The tables of its campaign's file."""
        from discreet.recipes import private_pool

        paid = self.asked > 0 and pays_by_query(self.selector)
        hidden = self.asked > 0 and self.declared.prices == HIDDEN
        price = self.selection or (*self.declared.prices, "one-sided")[0]
        return private_pool(
            classes=CLASSES,
            task="binary",
            initial=round(self.initial * self.canaries),
            queries=[round(self.asked * self.canaries / self.queries)] * self.queries if self.asked else [],
            batch=round(self.batch * self.canaries),
            epochs=self.epochs,
            selection_epsilon=self.selection_epsilon if paid else 0,
            selector=self.selector if self.asked else "random",
            scorer="entropy" if self.asked and "scores" in self.declared.reads else "random",
            threshold_epsilon=THRESHOLD if hidden else None,
            model="linear",
            trainer={"learning_rate": self.learning_rate, "micro_batch": 512, "device": "cpu"},
            plan={"accountant": "rdp", "schedule": self.schedule, **({"selection": price} if paid or hidden else {})},
            simulation={"seed": seed},
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Seen:
    """What a run of the target shows the public.

    asked     who was asked in the query
    initial   who was asked before it, uniformly at random: that shows nothing of any record
    moved     for each phase, how far the model went along each canary's axis, in clipped gradients
    pulls     for each phase and cohort: by how many gradients a canary of it is expected to pull, and the noise's
              standard deviation
    """

    claimed: float
    asked: NDArray[np.bool_]
    initial: NDArray[np.bool_]
    cohorts: Mapping[str, NDArray[np.bool_]]
    moved: tuple[Array, ...]
    pulls: tuple[Mapping[str, tuple[float, float]], ...]
    counts: tuple[tuple[int, int, float], ...]
    """Of every step and cohort: how many took part, of how many, and the rate. Not for the public: for the auditor."""

    def noise_alone(self, coins: NDArray[np.bool_]) -> Array:
        """How far models moved where no canary took part, each by its planned standard deviation."""
        scales = [next(iter(pulls.values()))[1] for pulls in self.pulls]
        return np.concatenate([moved[~coins] / scale for moved, scale in zip(self.moved, scales, strict=True)])


def run_campaign(target: PoolTarget, canaries: Canaries, *, seed: int) -> Seen:
    """Run the campaign from its plan to its last model."""
    from discreet.campaign.loop import run
    from discreet.config import CampaignConfig
    from discreet.oracles import SimulatedOracle
    from discreet.pools import ArrayPool
    from discreet.recipes.opening import create

    with tempfile.TemporaryDirectory() as directory:
        form = {
            "format": "discreet.campaign/1",
            "name": "audit-target",
            "pool": {"path": "in memory", "kind": "arrays", "size": canaries.count},
            "budget": {"epsilon": target.epsilon, "delta": target.delta},
            "storage": {"url": str(Path(directory) / "target.db")},
            **target.tables(seed),
        }
        config = CampaignConfig.from_json(form, name="an audit target", directory=Path(directory))
        pool = ArrayPool(ids=canaries.ids, x=canaries.rows())
        campaign = create(config, pool=pool)
        counts: list[tuple[int, int, float]] = []
        with target.fault.inject() as further, _counted_batches(counts):
            run(campaign, SimulatedOracle(canaries.truth(), classes=CLASSES, seed=seed))
        return _seen(target, canaries, campaign, further or (), counts)


def _counted_batches(counts: list[tuple[int, int, float]]) -> AbstractContextManager[Any]:
    """Note of every step and cohort of a simulation: how many take part, of how many, and the planned rate."""
    from unittest import mock

    from discreet.trainers.dp_sgd import cohorts

    poisson_mask = vars(cohorts)["poisson_mask"]

    def counted(slots: int, *, receipt: Any, who: str | None = None) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = poisson_mask(slots, receipt=receipt, who=who)
        if receipt.simulation:
            rate = next(charge.event.sampling_rate for charge in receipt.entry.charges if charge.who == who)
            counts.append((int(mask.sum()), slots, rate))
        return mask

    return mock.patch.object(cohorts, "poisson_mask", counted)


def _seen(
    target: PoolTarget,
    canaries: Canaries,
    campaign: Campaign,
    further: ShownModels,
    counts: Sequence[tuple[int, int, float]],
) -> Seen:
    from discreet.recipes.learning import model_of

    recipe: Any = campaign.recipe
    members = campaign.store.cohort_members()
    cohorts = {label: np.isin(canaries.ids, list(ids)) for label, ids in members.items()}
    first = {cohort.label for cohort in recipe.plan.cohorts if cohort.phase == 0}
    hidden = recipe.plan.selection.hidden is not None
    if hidden:  # everybody who was not in the initial query may have been asked
        initial = _union(canaries, [cohort for label, cohort in cohorts.items() if label in first])
        cohorts = {label: cohort if label in first else ~initial for label, cohort in cohorts.items()}
    phases = [TrainingPhase.of(recipe.plan, number) for number in range(recipe.phases)]
    before, moved, pulls = _weights(model_of(recipe.config, recipe.inputs)), [], []
    for phase in phases:
        trained: Any = campaign.predictor(phase.number)
        shown = [_weights(trained.module), *(_weights(module) for number, module in further if number == phase.number)]
        moved.append(canaries.along(np.mean(shown, axis=0) - before) * phase.batch / target.learning_rate)
        pulls.append(_pulls(phase, shown=len(shown)))
        before = shown[0]
    return Seen(
        claimed=float(recipe.plan.claim),
        asked=_union(canaries, [cohort for label, cohort in cohorts.items() if label not in first and not hidden]),
        initial=_union(canaries, [cohort for label, cohort in cohorts.items() if label in first]),
        cohorts=cohorts,
        moved=tuple(moved),
        pulls=tuple(pulls),
        counts=tuple(counts),
    )


def _union(canaries: Canaries, parts: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    return np.asarray(np.logical_or.reduce([np.zeros(canaries.count, dtype=bool), *parts]))


def _weights(module: Any) -> Array:
    return np.asarray(module.head.linear.weight.detach().double().cpu().numpy())


def _pulls(phase: TrainingPhase, *, shown: int) -> dict[str, tuple[float, float]]:
    """Of all stages together: expected gradients of a canary, by cohort, and the noise of their sum; of the mean of
    several models, if more than one is shown.
    """
    noise = math.sqrt(sum(stage.steps * stage.noise_multiplier**2 for stage in phase.stages) / shown)
    pulls: dict[str, float] = dict.fromkeys(phase.labels, 0.0)
    for stage in phase.stages:
        for label, event in stage.cohorts:
            pulls[label] += stage.steps * event.sampling_rate
    return {label: (pull, noise) for label, pull in pulls.items()}


def of_training(seen: Seen) -> Array:
    """For each canary, how much likelier its models are if it takes part; 0 for one that nobody trained on."""
    ratio = np.zeros(seen.asked.size)
    for moved, pulls in zip(seen.moved, seen.pulls, strict=True):
        for label, (pull, noise) in pulls.items():
            cohort = seen.cohorts.get(label)
            if cohort is not None:
                ratio[cohort] += pull * (moved[cohort] - pull / 2) / noise**2
    return ratio


def of_asking(seen: Seen, cost: float) -> Array:
    """The same, of who was asked in the query; whoever was asked in the initial query shows nothing."""
    ratio = np.where(seen.asked, cost, -cost)
    ratio[seen.initial] = 0.0
    return ratio


def attack(target: PoolTarget, canaries: Canaries, seen: Seen) -> tuple[Finding, ...]:
    """All attacks on one run."""
    asking = of_asking(seen, target.selection_cost)
    training = of_training(seen)
    count = round(GUESSED * canaries.count)
    attacks = {"trained": Attack(scores=training, count=count)}
    if seen.asked.any():  # of those who were not asked, most were absent, or missed at random
        attacks["asked"] = Attack(scores=asking, count=int(seen.asked.sum()), guess_absent=False)
        attacks["both"] = Attack(scores=asking + training, count=count)
    return findings_of(attacks, canaries.coins, claimed=seen.claimed, delta=float(target.delta), seed=canaries.seed)
