"""A DP-SGD run with checkpoints, what a selection near private records costs from each, and fine-tuning from one.

Every draw is seeded: these are simulations on public sets. Charges go to a ledger all the same, so that what is
compared at equal epsilon is what the ledger would certify.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from discreet.bench.public_choosing import Seen, chosen
from discreet.bench.public_problems import PrivateRun, PublicMethod, PublicProblem, Tuning
from discreet.bench.public_scenes import Rows, Scene
from discreet.errors import BadInput
from discreet.noise import Seeded
from discreet.planning.search import least_noise
from discreet.privacy.accounting.pld import pld_epsilons
from discreet.privacy.events import Composed, DiscreteLaplace, Event, Gaussian, PoissonSampledGaussian, Repeated
from discreet.privacy.files import write_whole
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.privacy.training_phase import TrainingPhase, TrainingStage
from discreet.testing.neighbours import AMPLE

INTERVAL = 1e-3
_WHO = "private"


# -- the private run


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """Of one run: its step, how many steps an epoch has, and weights by the number of epochs."""

    step: PoissonSampledGaussian
    epoch: int
    weights: dict[int, bytes]

    def event(self, epochs: int) -> Repeated:
        """What the checkpoint after ``epochs`` cost."""
        return Repeated(event=self.step, count=self.epoch * epochs)


@lru_cache(maxsize=64)
def step_of(run: PrivateRun, private: int) -> tuple[PoissonSampledGaussian, int]:
    """The step whose ``run.epochs`` epochs cost ``run.epsilon``, and the steps of an epoch."""
    rate, epoch = run.batch / private, max(1, round(private / run.batch))

    def cost(noise: float) -> float:
        step = PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=noise)
        return max(pld_epsilons(Repeated(event=step, count=epoch * run.epochs), run.delta, interval=INTERVAL))

    noise = least_noise(cost, run.epsilon, start=1.5, tolerance=1e-3, least=0.3, most=1e3)
    if noise is None:
        raise BadInput(f"a run for epsilon={run.epsilon}", "no sensible noise is that large", "Give more")
    return PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=noise), epoch


def run_name(problem: PublicProblem, seed: int) -> str:
    """The same for all methods that start from the same run."""
    told = [asdict(problem.run), problem.data, problem.private, problem.public, seed]
    return f"run-{hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]}"


def checkpoints_of(problem: PublicProblem, scene: Scene, seed: int, shelf: Path | None) -> Checkpoints:
    """The run of this seed: trained once, and kept on the shelf."""
    from safetensors.torch import load, save

    place = None if shelf is None else shelf / f"{run_name(problem, seed)}.safetensors"
    noted = None if place is None else place.with_suffix(".json")
    if place is not None and noted is not None and noted.exists():
        form, tensors = json.loads(noted.read_text()), load(place.read_bytes())
        weights = {
            epochs: save({name.split("/", 1)[1]: v for name, v in tensors.items() if name.startswith(f"{epochs}/")})
            for epochs in form["epochs"]
        }
        step = PoissonSampledGaussian(sampling_rate=form["rate"], noise_multiplier=form["noise"])
        return Checkpoints(step=step, epoch=form["epoch"], weights=weights)
    made = trained(problem.run, scene, seed)
    if place is not None and noted is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        tensors = {f"{epochs}/{n}": v for epochs, content in made.weights.items() for n, v in load(content).items()}
        write_whole(place, save(tensors))
        facts = {"rate": made.step.sampling_rate, "noise": made.step.noise_multiplier, "epoch": made.epoch}
        write_whole(noted, json.dumps(facts | {"epochs": sorted(made.weights)}))
    return made


def trained(run: PrivateRun, scene: Scene, seed: int) -> Checkpoints:
    """DP-SGD, a phase between two checkpoints, each charged."""
    from discreet.models import build_model
    from discreet.recipes.learning import to_bytes
    from discreet.trainers.dp_sgd import DPSGD, CohortRecords, Settings, charge_training

    step, epoch = step_of(run, len(scene.private_y))
    shape = tuple(scene.private_x.shape[1:])
    settings = Settings(clip=run.clip, learning_rate=run.learning_rate, micro_batch=1024, engine="compiled")
    trainer = DPSGD(
        lambda: build_model(run.model, inputs=shape, classes=scene.classes, seed=seed),
        classes=scene.classes,
        settings=settings,
    )
    ledger = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(seed))
    cohorts = {_WHO: CohortRecords(x=scene.private_x, y=scene.private_y)}
    weights: dict[int, bytes] = {}
    model = None
    for number, done in enumerate(range(run.every, run.epochs + 1, run.every)):
        stage = TrainingStage(steps=epoch * run.every, cohorts=((_WHO, step),))
        phase = TrainingPhase(number=number, batch=run.batch, unit="record", stages=(stage,))
        model = trainer.train(phase=phase, cohorts=cohorts, start=model, receipt=charge_training(ledger, phase))
        weights[done] = to_bytes(model.module)
    return Checkpoints(step=step, epoch=epoch, weights=weights)


# -- prices


def total(points: Checkpoints, epochs: int, looks: tuple[Event, ...], delta: float) -> float:
    """Epsilon of a checkpoint and of looking, by PLD."""
    return _epsilon(Composed(events=(points.event(epochs), *looks)), delta)


@lru_cache(maxsize=4096)
def _epsilon(event: Composed, delta: float) -> float:
    """Computed once for all cases of a process: it is the same in every seed."""
    return max(pld_epsilons(event, delta, interval=INTERVAL))


def start_of(method: PublicMethod, points: Checkpoints, run: PrivateRun) -> tuple[int, tuple[Event, ...]]:
    """The checkpoint a method starts from, in epochs, and what it pays to look; within the run's epsilon, unless the
    method names a checkpoint and a price.
    """
    kept = sorted(points.weights)
    if not method.pays:
        return (kept[-1] if isinstance(method.start, str) else method.start), ()
    noise = Gaussian(noise_multiplier=method.noise)
    if isinstance(method.start, int):
        support = filled(method, points, run) if method.support == "fill" else Decimal(method.support)
        return method.start, (noise, DiscreteLaplace(epsilon=support))
    looks = (noise, DiscreteLaplace(epsilon=Decimal(method.support)))
    for epochs in reversed(kept):
        if total(points, epochs, looks, run.delta) <= run.epsilon:
            return epochs, looks
    raise BadInput(f"the method {method.name}", "no checkpoint leaves room for what it costs", "Lower support")


def filled(method: PublicMethod, points: Checkpoints, run: PrivateRun) -> Decimal:
    """The largest epsilon of counts, to a hundredth, that the checkpoint and the components leave."""
    assert isinstance(method.start, int)
    noise = Gaussian(noise_multiplier=method.noise)
    low, high = 0, int(100 * run.epsilon)
    while high > low:
        middle = (low + high + 1) // 2
        looks = (noise, DiscreteLaplace(epsilon=Decimal(middle) / 100))
        fits = total(points, method.start, looks, run.delta) <= run.epsilon
        low, high = (middle, high) if fits else (low, middle - 1)
    if not low:
        raise BadInput(f"the method {method.name}", "its checkpoint leaves nothing for counts", "Take an earlier one")
    return (Decimal(low) / 100).quantize(Decimal("0.01"), rounding=ROUND_FLOOR)


# -- learning from what was chosen


def tuned(start: Any, scene: Scene, places: Rows, tuning: Tuning, seed: int) -> Any:
    """The checkpoint after ordinary training on what people said of these records; pollution is skipped."""
    from discreet.trainers.dp_sgd import MISSING, CohortRecords, RandomShift, Settings
    from discreet.trainers.fine_tune import FineTuning

    settings = Settings(
        learning_rate=tuning.learning_rate,
        optimizer_options={"momentum": tuning.momentum},
        schedule=tuning.schedule,
        augment=(RandomShift(tuning.shift),) if tuning.shift else (),
    )
    learner = FineTuning(
        settings=settings,
        epochs=tuning.epochs_for(max(1, int((scene.public_y[places] != MISSING).sum()))),
        batch=tuning.batch,
        seed=seed,
        recall=tuning.recall,
    )
    rest = np.setdiff1d(np.arange(len(scene.public_y)), places)
    return learner.train(
        start,
        CohortRecords(x=scene.public_x[places], y=scene.public_y[places]),
        pool=CohortRecords(x=scene.public_x[rest], y=np.full(len(rest), MISSING)),
    )


def accuracy(model: Any, scene: Scene) -> float:
    """On the test set."""
    return float((model.predict(scene.test_x) == scene.test_y).mean())


def rows_of(
    method: PublicMethod,
    scene: Scene,
    points: Checkpoints,
    run: PrivateRun,
    tuning: Tuning,
    labels: tuple[int, ...],
    seed: int,
) -> list[dict[str, Any]]:
    """A row for the checkpoint that a method starts from, and one a number of labels."""
    from discreet.models import build_model
    from discreet.recipes.learning import from_bytes
    from discreet.trainers.torch_predictor import TorchPredictor

    epochs, looks = start_of(method, points, run)
    shape = tuple(scene.public_x.shape[1:])
    start = from_bytes(points.weights[epochs], build_model(run.model, inputs=shape, classes=scene.classes, seed=seed))
    model = TorchPredictor(start)
    before = accuracy(model, scene)
    counts = [look.epsilon for look in looks if isinstance(look, DiscreteLaplace)]
    common = {
        "epochs": epochs,
        "checkpoint": before,
        "checkpoint_epsilon": total(points, epochs, (), run.delta),
        "epsilon": total(points, epochs, looks, run.delta),
        "support_epsilon": float(counts[0]) if counts else None,
        "made_of": scene.made_of,
    }
    rows: list[dict[str, Any]] = [{"labels": 0, "accuracy": before, "polluted": None} | common]
    seen = Seen(scene, model, method.choice)
    for count in labels:
        places = chosen(method, scene, seen, count, looks, seed)
        made = tuned(start, scene, places, tuning, seed)
        share = float(scene.polluted[places].mean()) if scene.polluted.any() else None
        rows.append({"labels": count, "accuracy": accuracy(made, scene), "polluted": share} | common)
    return rows
