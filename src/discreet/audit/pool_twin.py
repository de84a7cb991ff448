"""A twin of a private-pool campaign, attacked: the same code, planned at a small epsilon, on a pool of canaries.

The twin is a whole campaign through the durable loop: plan, store, ledger, enrolment, selection, questions, answers,
cohorts, training, models. Only its pool is made up. It takes plain gradient steps, so that the difference of two
released models is the sum of the noisy gradients between them. The attacker sees what the world sees: who was asked, and
the model after every phase.

    asked       of who was asked in a query: a null scores lowest, so the asked are rather there
    trained     of how far the models moved along a canary's axis, in every phase
    both        the sum of the two log likelihood ratios

Log likelihood ratios are of the plan's own noise, and only serve to put canaries in an order: were they wrong, the attack
would be weaker, and its bound as true.
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

from discreet.audit.canaries import CLASSES, Canaries
from discreet.audit.guesses import guess
from discreet.audit.verdict import Finding
from discreet.privacy.training_phase import TrainingPhase

if TYPE_CHECKING:
    from discreet.campaign import Campaign

Array = NDArray[np.float64]
Watch = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class PoolTwin:
    """How the twin is planned. All public.

    epsilon, delta      what it claims
    canaries            records of its pool, all of them canaries
    selection_epsilon   of that, what choosing may cost; with ``selector`` random or exact: 0
    """

    epsilon: str = "1"
    delta: str = "1e-5"
    canaries: int = 5000
    initial: float = 0.3
    asked: float = 0.3
    batch: float = 0.1
    epochs: int = 10
    selector: str = "threshold-response"
    selection_epsilon: str = "0.5"
    schedule: str = "step-amplification"
    learning_rate: float = 0.01

    def tables(self, seed: int) -> dict[str, dict[str, Any]]:
        """The tables of its campaign's file."""
        from discreet.recipes import private_pool

        many = self.canaries
        paid = self.selector not in ("random", "exact")
        return private_pool(
            classes=CLASSES,
            task="binary",
            initial=round(self.initial * many),
            queries=[round(self.asked * many)],
            batch=round(self.batch * many),
            epochs=self.epochs,
            selection_epsilon=self.selection_epsilon if paid else 0,
            selector=self.selector,
            scorer="random" if self.selector == "random" else "entropy",
            model="linear",
            trainer={"learning_rate": self.learning_rate, "micro_batch": 512, "device": "cpu"},
            plan={"accountant": "rdp", "schedule": self.schedule},
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


def run_twin(twin: PoolTwin, canaries: Canaries, *, seed: int, watch: Watch | None = None) -> Seen:
    """Run the campaign from its plan to its last model."""
    from discreet.api import create_campaign
    from discreet.campaign.running import run
    from discreet.oracles import SimulatedOracle
    from discreet.pools import ArrayPool

    with tempfile.TemporaryDirectory() as place:
        campaign = create_campaign(
            "twin",
            storage=Path(place) / "twin.db",
            pool=ArrayPool(ids=canaries.ids, x=canaries.rows()),
            budget={"epsilon": twin.epsilon, "delta": twin.delta},
            recipe=twin.tables(seed),
            watch=watch,
        )
        run(campaign, SimulatedOracle(canaries.truth(), classes=CLASSES, seed=seed))
        return _seen(twin, canaries, campaign)


def _seen(twin: PoolTwin, canaries: Canaries, campaign: Campaign) -> Seen:
    from discreet.recipes.learning import model_of

    recipe: Any = campaign.recipe
    members = campaign.store.cohort_members()
    cohorts = {label: np.isin(canaries.ids, list(mine)) for label, mine in members.items()}
    first = {cohort.label for cohort in recipe.plan.cohorts if cohort.phase == 0}
    models = [model_of(recipe.config, recipe.inputs)]
    models += [_module(campaign.predictor(number)) for number in range(recipe.phases)]
    weights = [one.head.linear.weight.detach().double().numpy() for one in models]
    phases = [TrainingPhase.of(recipe.plan, number) for number in range(recipe.phases)]
    steps = zip(weights[:-1], weights[1:], phases, strict=True)
    return Seen(
        claimed=float(recipe.plan.claim),
        asked=_union(canaries, [mine for label, mine in cohorts.items() if label not in first]),
        by_lot=_union(canaries, [mine for label, mine in cohorts.items() if label in first]),
        cohorts=cohorts,
        moved=tuple(canaries.along(b - a) * phase.batch / twin.learning_rate for a, b, phase in steps),
        pulls=tuple(_pulls(phase) for phase in phases),
    )


def _union(canaries: Canaries, parts: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    return np.logical_or.reduce([np.zeros(canaries.count, dtype=bool), *parts])


def _module(predictor: Any) -> Any:
    return predictor.module


def _pulls(phase: TrainingPhase) -> dict[str, tuple[float, float]]:
    """Of all stages together: expected gradients of a canary, by cohort, and the noise of their sum."""
    noise = math.sqrt(sum(stage.steps * stage.noise_multiplier**2 for stage in phase.stages))
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


def attack(twin: PoolTwin, canaries: Canaries, seen: Seen, *, share: float = 0.1) -> list[Finding]:
    """Three attacks on one run; ``share``: of the canaries, how many are guessed by their models."""
    asking, training = of_asking(seen, asked=1.0, missed=0.5), of_training(seen)
    made = {"asked": (asking, int(seen.asked.sum()), False)} if seen.asked.any() else {}
    many = round(share * canaries.count)
    made |= {"trained": (training, many, True), "both": (asking * float(twin.selection_epsilon) + training, many, False)}
    return [
        Finding(
            attack=name,
            epsilon=seen.claimed,
            delta=float(twin.delta),
            guesses=guess(score, canaries.coins, made=count, low=low, seed=canaries.seed),
        )
        for name, (score, count, low) in made.items()
    ]
