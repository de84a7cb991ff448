"""A twin of a private-pool campaign, attacked: the same code, planned at a small epsilon, on a pool of canaries.

The twin is a whole campaign through the durable loop: plan, store, ledger, enrolment, selection, questions, answers,
cohorts, training, models. Only its pool is made up. It takes plain gradient steps, so that the difference of two
released models is the sum of the noisy gradients between them. The attacker sees what the world sees: who was asked
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.attacks import GUESSED, Attack, found_by
from discreet.audit.canaries import CLASSES, Canaries
from discreet.audit.planted import Models, Plant, counted_batches, planted
from discreet.audit.verdict import LEVEL, Finding
from discreet.privacy.training_phase import TrainingPhase

if TYPE_CHECKING:
    from discreet.campaign import Campaign

Array = NDArray[np.float64]
FREE = ("random", "exact", "hidden-threshold")
UNSCORED = ("random", "k-centre")
PRICED = dict.fromkeys(("laplace", "clipped-laplace", "exponential", "k-centre"), "paper")
PRICED |= {"gaussian": "apart", "subsampled-gaussian": "apart", "hidden-threshold": "hidden"}
"""How selectors are priced that are not one-sided."""
THRESHOLD = "0.05"
"""What a hidden threshold costs."""
Watch = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class PoolTwin:
    """How the twin is planned. All public.

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
    plant: Plant | None = None

    def __post_init__(self) -> None:
        if self.plant == "uncharged-selection":
            object.__setattr__(self, "selector", "exact")

    @property
    def selection_cost(self) -> float:
        """Of one query; what choosing exactly or by lot costs is another matter."""
        return 1.0 if self.selector == "exact" else float(self.selection_epsilon)

    def tables(self, seed: int) -> dict[str, dict[str, Any]]:
        """The tables of its campaign's file."""
        from discreet.recipes import private_pool

        many = self.canaries
        paid = self.asked > 0 and self.selector not in FREE
        hidden = self.asked > 0 and self.selector == "hidden-threshold"
        asking = {"selection": self.selection or PRICED.get(self.selector, "one-sided")} if paid or hidden else {}
        return private_pool(
            classes=CLASSES,
            task="binary",
            initial=round(self.initial * many),
            queries=[round(self.asked * many / self.queries)] * self.queries if self.asked else [],
            batch=round(self.batch * many),
            epochs=self.epochs,
            selection_epsilon=self.selection_epsilon if paid else 0,
            selector=self.selector if self.asked else "random",
            scorer="entropy" if self.asked and self.selector not in UNSCORED else "random",
            threshold_epsilon=THRESHOLD if hidden else None,
            model="linear",
            trainer={"learning_rate": self.learning_rate, "micro_batch": 512, "device": "cpu"},
            plan={"accountant": "rdp", "schedule": self.schedule, **asking},
            simulation={"seed": seed},
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Seen:
    """What a run of the twin shows the world.

    asked     who was asked in the query
    by_lot    who was asked before it, by lot: that says nothing of anybody
    moved     for each phase, how far the model went along each canary's axis, in clipped gradients
    pulls     for each phase and cohort: by how many gradients a canary of it is expected to pull, and the noise's
              standard deviation
    """

    claimed: float
    asked: NDArray[np.bool_]
    by_lot: NDArray[np.bool_]
    cohorts: Mapping[str, NDArray[np.bool_]]
    moved: tuple[Array, ...]
    pulls: tuple[Mapping[str, tuple[float, float]], ...]
    counts: tuple[tuple[int, int, float], ...]
    """Of every step and cohort: how many took part, of how many, and the rate. Not for the world: for the auditor."""

    def noise_alone(self, coins: NDArray[np.bool_]) -> Array:
        """How far models moved where no canary took part, each by its planned standard deviation."""
        found = []
        for moved, pulls in zip(self.moved, self.pulls, strict=True):
            noise = next(iter(pulls.values()))[1]
            found.append(moved[~coins] / noise)
        return np.concatenate(found)


def run_twin(twin: PoolTwin, canaries: Canaries, *, seed: int, watch: Watch | None = None) -> Seen:
    """Run the campaign from its plan to its last model."""
    from discreet.campaign.recipe import unwatched
    from discreet.campaign.running import run
    from discreet.config import config_from_json
    from discreet.oracles import SimulatedOracle
    from discreet.pools import ArrayPool
    from discreet.recipes.opening import create

    with tempfile.TemporaryDirectory() as place:
        form = {
            "format": "discreet.campaign/1",
            "name": "twin",
            "pool": {"path": "in memory", "kind": "arrays", "size": canaries.count},
            "budget": {"epsilon": twin.epsilon, "delta": twin.delta},
            "storage": {"url": str(Path(place) / "twin.db")},
            **twin.tables(seed),
        }
        config = config_from_json(form, name="a twin", directory=Path(place))
        pool = ArrayPool(ids=canaries.ids, x=canaries.rows())
        campaign = create(config, pool=pool, watch=watch or unwatched)
        counts: list[tuple[int, int, float]] = []
        further: Models = []
        with planted(twin.plant, further), counted_batches(counts):
            run(campaign, SimulatedOracle(canaries.truth(), classes=CLASSES, seed=seed))
        return _seen(twin, canaries, campaign, further, counts)


def _seen(
    twin: PoolTwin,
    canaries: Canaries,
    campaign: Campaign,
    further: Models,
    counts: Sequence[tuple[int, int, float]],
) -> Seen:
    from discreet.recipes.learning import model_of

    recipe: Any = campaign.recipe
    members = campaign.store.cohort_members()
    cohorts = {label: np.isin(canaries.ids, list(mine)) for label, mine in members.items()}
    first = {cohort.label for cohort in recipe.plan.cohorts if cohort.phase == 0}
    hidden = recipe.plan.selection.hidden is not None
    if hidden:  # anybody who was not asked by lot may have been asked
        by_lot = _union(canaries, [mine for label, mine in cohorts.items() if label in first])
        cohorts = {label: mine if label in first else ~by_lot for label, mine in cohorts.items()}
    phases = [TrainingPhase.of(recipe.plan, number) for number in range(recipe.phases)]
    before, moved, pulls = _weights(model_of(recipe.config, recipe.inputs)), [], []
    for phase in phases:
        own: Any = campaign.predictor(phase.number)
        shown = [_weights(own.module), *(_weights(module) for number, module in further if number == phase.number)]
        moved.append(canaries.along(np.mean(shown, axis=0) - before) * phase.batch / twin.learning_rate)
        pulls.append(_pulls(phase, shown=len(shown)))
        before = shown[0]
    return Seen(
        claimed=float(recipe.plan.claim),
        asked=_union(canaries, [mine for label, mine in cohorts.items() if label not in first and not hidden]),
        by_lot=_union(canaries, [mine for label, mine in cohorts.items() if label in first]),
        cohorts=cohorts,
        moved=tuple(moved),
        pulls=tuple(pulls),
        counts=tuple(counts),
    )


def _union(canaries: Canaries, parts: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.logical_or.reduce([np.zeros(canaries.count, dtype=bool), *parts])
    return found


def _weights(module: Any) -> Array:
    found: Array = module.head.linear.weight.detach().double().cpu().numpy()
    return found


def _pulls(phase: TrainingPhase, *, shown: int) -> dict[str, tuple[float, float]]:
    """Of all stages together: expected gradients of a canary, by cohort, and the noise of their sum; of the mean of
    several models, if more than one is shown.
    """
    noise = math.sqrt(sum(stage.steps * stage.noise_multiplier**2 for stage in phase.stages) / shown)
    found: dict[str, float] = dict.fromkeys(phase.labels, 0.0)
    for stage in phase.stages:
        for label, event in stage.cohorts:
            found[label] += stage.steps * event.sampling_rate
    return {label: (pull, noise) for label, pull in found.items()}


def of_training(seen: Seen) -> Array:
    """For each canary, how much likelier its models are if it takes part; 0 for one that nobody trained on."""
    ratio = np.zeros(seen.asked.size)
    for moved, pulls in zip(seen.moved, seen.pulls, strict=True):
        for label, (pull, noise) in pulls.items():
            mine = seen.cohorts.get(label)
            if mine is not None:
                ratio[mine] += pull * (moved[mine] - pull / 2) / noise**2
    return ratio


def of_asking(seen: Seen, *, asked: float, missed: float) -> Array:
    """The same, of who was asked in the query; whoever was asked by lot before it shows nothing."""
    ratio = np.where(seen.asked, asked, -missed)
    ratio[seen.by_lot] = 0.0
    return ratio


def attack(twin: PoolTwin, canaries: Canaries, seen: Seen, *, level: float = LEVEL) -> tuple[Finding, ...]:
    """All attacks on one run, which share the level: whatever is true, all of them are right with chance 1 - level."""
    asking = of_asking(seen, asked=twin.selection_cost, missed=twin.selection_cost)
    training = of_training(seen)
    some = round(GUESSED * canaries.count)
    tried = {"trained": Attack(scores=training, made=some)}
    if seen.asked.any():  # of those who were not asked, most were not there to be asked, or had bad luck
        tried["asked"] = Attack(scores=asking, made=int(seen.asked.sum()), low=False)
        tried["both"] = Attack(scores=asking + training, made=some)
    return found_by(
        tried, canaries.coins, claimed=seen.claimed, delta=float(twin.delta), seed=canaries.seed, level=level
    )
