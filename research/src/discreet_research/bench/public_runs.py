"""The records of one seed of a problem: some play the private ones, some are public, some of those of another set.

Which public records a method asks about, seen with one checkpoint.

What a checkpoint says of the records is computed once for all numbers of labels. Draws are seeded: simulations on
public sets. What near-private pays goes to a ledger all the same.

A DP-SGD run with checkpoints, what a selection near private records costs from each, and fine-tuning from one.

Every draw is seeded: these are simulations on public sets. Charges go to a ledger all the same, so that what is
compared at equal epsilon is what the ledger would certify.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.models import build_model
from discreet.noise import Seeded
from discreet.planning.calibration import least_noise
from discreet.privacy.accounting.pld import pld_epsilons
from discreet.privacy.events import Composed, DiscreteLaplace, Event, Gaussian, PoissonSampledGaussian, Repeated
from discreet.privacy.files import write_whole
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.privacy.plan import TrainingPhase, TrainingStage
from discreet.scorers import EmbeddedRows, build_scorer, pool_scores
from discreet.selectors import (
    DiversePublic,
    GreedyKCentre,
    NearPrivate,
    RandomSelector,
    UncertainPublic,
    charge_selection,
    k_means_public,
)
from discreet.testing.neighbours import AMPLE
from discreet_research.bench.majority import largest_class
from discreet_research.bench.public_cases import PrivateRun, PublicMethod, PublicProblem, Tuning
from discreet_research.bench.sets import digest_of as files_digest
from discreet_research.bench.sets import paths_of, read_set

Rows = NDArray[Any]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Scene:
    """The records of one seed. ``polluted``: which public ones are of another set."""

    private_x: Rows
    private_y: Rows
    public_x: Rows
    public_y: Rows
    polluted: Rows
    test_x: Rows
    test_y: Rows
    made_of: str = ""
    classes: int = 10


def scene_of(problem: PublicProblem, data: Path | None, seed: int) -> Scene:
    """Cut by a public seed; labels of pollution are -1: people would skip it."""
    raw, made_of = _pictures(problem.data, data)
    chance = np.random.default_rng(seed)
    order = chance.permutation(len(raw.y))
    if problem.private + problem.public > len(order):
        raise BadInput(f"the problem {problem.name}", f"{problem.data} has {len(order)} records", "Take fewer")
    private, theirs = order[: problem.private], order[problem.private : problem.private + problem.public]
    x, y = raw.x[theirs], raw.y[theirs]
    polluted = np.zeros(len(y), dtype=bool)
    if problem.polluted_by is not None:
        other, named = _pictures(problem.polluted_by, data)
        made_of += named
        some = chance.permutation(len(other.y))[: problem.pollution]
        x = np.concatenate([x, other.x[some]])
        y = np.concatenate([y, np.full(len(some), -1)])
        polluted = np.concatenate([polluted, np.ones(len(some), dtype=bool)])
    return Scene(
        private_x=_scaled(raw.x[private]),
        private_y=raw.y[private],
        public_x=_scaled(x),
        public_y=y,
        polluted=polluted,
        test_x=_scaled(raw.test_x[: problem.test]),
        test_y=raw.test_y[: problem.test],
        made_of=hashlib.sha256(made_of.encode()).hexdigest()[:16],
    )


@lru_cache(maxsize=4)
def _pictures(name: Any, data: Path | None) -> tuple[Any, str]:
    return read_set(name, data), files_digest(paths_of(name, data))


def _scaled(pictures: Rows) -> Rows:
    """Bytes to [0, 1], with a channel."""
    rows = np.asarray(pictures, dtype=np.float32) / 255
    return rows[:, None] if rows.ndim == 3 else np.moveaxis(rows, -1, 1)


class Seen:
    """The records of ``scene`` as a checkpoint sees them; each part is computed when it is first asked for."""

    def __init__(self, scene: Scene, model: Any, choice: str) -> None:
        self._scene, self._model = scene, model
        self._scorer = build_scorer(
            "logit-difference" if choice == "logit-difference" else "entropy", classes=scene.classes
        )

    @cached_property
    def scores(self) -> Any:
        """Of public records."""
        return pool_scores(self._scorer, self._model, self._scene.public_x)

    @cached_property
    def embeddings(self) -> Rows:
        """Of public records."""
        return np.asarray(EmbeddedRows(self._model, self._scene.public_x)[:])

    @cached_property
    def private(self) -> dict[str, Any]:
        """Scores and embeddings of the records that play the private ones."""
        return {
            "private_scores": pool_scores(self._scorer, self._model, self._scene.private_x),
            "private_embeddings": np.asarray(EmbeddedRows(self._model, self._scene.private_x)[:]),
        }


def chosen(method: PublicMethod, scene: Scene, seen: Seen, count: int, looks: tuple[Event, ...], seed: int) -> Rows:
    """Places of ``count`` public records."""
    ids, source = [str(index) for index in range(len(scene.public_y))], Seeded(seed)
    uncertain = min(len(ids), method.times * count)
    clusters: dict[str, Any] = {"components": method.components, "each": method.each, "seed": seed, "source": source}
    selector: Any
    match method.choice:
        case "random":
            selector = RandomSelector(source=source)
        case "entropy" | "logit-difference":
            selector = UncertainPublic(source=source)
        case "greedy-k-centre":
            selector = GreedyKCentre(components=method.components, source=source)
        case "k-means":
            selector = k_means_public(**clusters)
        case "diverse-public":
            selector = DiversePublic(uncertain=uncertain, **clusters)
        case "near-private":
            selector = _near_private(method, looks, uncertain)
    further: dict[str, Any] = {}
    if method.choice not in ("random", "entropy", "logit-difference"):
        further["embeddings"] = seen.embeddings
    if method.pays:
        ledger = Ledger.create(MemorySink(), adaptive(AMPLE), source=source)
        paid = charge_selection(ledger, selector, k=count, pool_size=len(ids), who="private", why="selection")
        further |= seen.private | {"receipt": paid}
    scores = None if method.choice in ("random", "k-means", "greedy-k-centre") else seen.scores
    selection = selector.select(ids=ids, scores=scores, k=count, **further)
    return np.array([int(name) for name in selection.ids], dtype=np.int64)


def _near_private(method: PublicMethod, looks: tuple[Event, ...], uncertain: int) -> NearPrivate:
    noise, counts = looks
    assert isinstance(noise, Gaussian)
    assert isinstance(counts, DiscreteLaplace)
    return NearPrivate(
        support_epsilon=counts.epsilon,
        noise_multiplier=noise.noise_multiplier,
        uncertain=uncertain,
        components=method.components,
    )


INTERVAL = 1e-3


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

    noise = least_noise(cost, run.epsilon, start=1.5, tolerance=1e-3, smallest=0.3, largest=1e3)
    if noise is None:
        raise BadInput(f"a run for epsilon={run.epsilon}", "no sensible noise is that large", "Give more")
    return PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=noise), epoch


def run_name(problem: PublicProblem, seed: int) -> str:
    """The same for all methods that start from the same run."""
    identity = [asdict(problem.run), problem.data, problem.private, problem.public, seed]
    return f"run-{hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]}"


def checkpoints_of(problem: PublicProblem, scene: Scene, seed: int, cache: Path | None) -> Checkpoints:
    """The run of this seed: trained once, and kept on the cache."""
    from safetensors.torch import load, save

    if cache is None:
        return trained(problem.run, scene, seed)
    path = cache / f"{run_name(problem, seed)}.safetensors"
    noted = path.with_suffix(".json")
    if noted.exists():
        form, tensors = json.loads(noted.read_text()), load(path.read_bytes())
        weights = {
            epochs: save({name.split("/", 1)[1]: v for name, v in tensors.items() if name.startswith(f"{epochs}/")})
            for epochs in form["epochs"]
        }
        step = PoissonSampledGaussian(sampling_rate=form["rate"], noise_multiplier=form["noise"])
        return Checkpoints(step=step, epoch=form["epoch"], weights=weights)
    points = trained(problem.run, scene, seed)
    cache.mkdir(parents=True, exist_ok=True)
    tensors = {f"{epochs}/{n}": v for epochs, content in points.weights.items() for n, v in load(content).items()}
    write_whole(path, save(tensors))
    facts = {"rate": points.step.sampling_rate, "noise": points.step.noise_multiplier, "epoch": points.epoch}
    write_whole(noted, json.dumps(facts | {"epochs": sorted(points.weights)}))
    return points


def trained(run: PrivateRun, scene: Scene, seed: int) -> Checkpoints:
    """DP-SGD, a phase between two checkpoints, each charged."""
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
    cohorts = {"private": CohortRecords(x=scene.private_x, y=scene.private_y)}
    weights: dict[int, bytes] = {}
    model = None
    for number, done in enumerate(range(run.every, run.epochs + 1, run.every)):
        stage = TrainingStage(steps=epoch * run.every, cohorts=(("private", step),))
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
    epochs_of = sorted(points.weights)
    if not method.pays:
        return (epochs_of[-1] if isinstance(method.start, str) else method.start), ()
    noise = Gaussian(noise_multiplier=method.noise)
    if isinstance(method.start, int):
        support = filled(method, points, run) if method.support == "fill" else Decimal(method.support)
        return method.start, (noise, DiscreteLaplace(epsilon=support))
    looks = (noise, DiscreteLaplace(epsilon=Decimal(method.support)))
    for epochs in reversed(epochs_of):
        if total(points, epochs, looks, run.delta) <= run.epsilon:
            return epochs, looks
    raise BadInput(f"the method {method.name}", "no checkpoint leaves room for what it costs", "Lower support")


def filled(method: PublicMethod, points: Checkpoints, run: PrivateRun) -> Decimal:
    """The largest epsilon of counts, to a hundredth, that the checkpoint and the components leave."""
    assert isinstance(method.start, int)
    noise = Gaussian(noise_multiplier=method.noise)
    start = method.start

    def cost(hundredths: int) -> float:
        return total(points, start, (noise, DiscreteLaplace(epsilon=Decimal(hundredths) / 100)), run.delta)

    largest = bisect_right(range(1, int(100 * run.epsilon) + 1), run.epsilon, key=cost)
    if not largest:
        raise BadInput(f"the method {method.name}", "its checkpoint leaves nothing for counts", "Take an earlier one")
    return (Decimal(largest) / 100).quantize(Decimal("0.01"))


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
        "majority": largest_class(scene.test_y),
    }
    rows: list[dict[str, Any]] = [{"labels": 0, "accuracy": before, "polluted": None} | common]
    seen = Seen(scene, model, method.choice)
    for count in labels:
        places = chosen(method, scene, seen, count, looks, seed)
        tuned_model = tuned(start, scene, places, tuning, seed)
        share = float(scene.polluted[places].mean()) if scene.polluted.any() else None
        rows.append({"labels": count, "accuracy": accuracy(tuned_model, scene), "polluted": share} | common)
    return rows
