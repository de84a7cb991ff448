"""Pictures learned from their scattering: DP-SGD of one linear layer at (3, 1e-5); the test set chooses no setting.

`CHOICE` compares settings on a fixed 10,000 records of the training set, trained on the other records. `PICTURES`
trains each set's best settings (`CHOSEN`, which a test compares with the rows of `CHOICE`) on the whole training set,
and measures each model once on the test set.

Every draw is seeded: a simulation on public sets.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discreet_research.bench.cases import GridCase
from discreet_research.bench.embeddings import scattering_of
from discreet_research.bench.majority import largest_class
from discreet_research.bench.problems import GridSettings
from discreet_research.bench.sets import SOURCES, Data, digest_of, paths_of, read_set

if TYPE_CHECKING:
    from torch import nn

EPSILON, DELTA = "3", "1e-5"
HELD_OUT = 10_000
_SPLIT_SEED = 17
PictureModel = Literal["linear", "CNN", "CNN, 1 x 1 first"]
_WINDOWS = {"CNN": 3, "CNN, 1 x 1 first": 1}
_MICRO_BATCH: dict[PictureModel, int] = {"linear": 1_024, "CNN": 256, "CNN, 1 x 1 first": 256}
_SIDE = 8
"""Of maps of a picture of 32 x 32."""
_SECONDS_PER_GRADIENT = {
    (False, "linear"): 1.4e-5,
    (True, "linear"): 5e-5,
    (True, "CNN"): 6e-4,
    (True, "CNN, 1 x 1 first"): 2e-4,
}
"""CPU seconds of one record's gradient, of 3,969 or (CIFAR-10) 15,552 features, on one core of 2026: what a case says
before any has run."""


@dataclass(frozen=True, kw_only=True)
class PictureProblem(GridSettings):
    """``held_out``: so many records of the training set are measured on instead of the test set; 0: the test set.

    ``groups``: of channels, which scattering normalises together; None: three channels a group.
    """

    name: str
    data: Data
    held_out: int = 0
    epsilon: str = EPSILON
    delta: str = DELTA
    groups: int | None = None
    later: ClassVar = {"groups": None}


@dataclass(frozen=True, kw_only=True)
class PictureMethod(GridSettings):
    """Scattering with its own defaults (J = 2, L = 8), and DP-SGD of one linear layer, or of a small CNN."""

    name: str
    batch: int
    epochs: int
    learning_rate: float
    ema: float | None = None
    clip: float = 0.1
    momentum: float = 0.9
    model: PictureModel = "linear"
    later: ClassVar = {"model": "linear"}


def picture_method(
    batch: int, epochs: int, learning_rate: float, ema: float | None = None, model: PictureModel = "linear"
) -> PictureMethod:
    """Named by its settings."""
    ends = [model] * (model != "linear") + ([] if ema is None else [f"averaged {ema:g}"])
    name = ", ".join([f"batch {batch}, {epochs} epochs, rate {learning_rate:g}", *ends])
    return PictureMethod(name=name, batch=batch, epochs=epochs, learning_rate=learning_rate, ema=ema, model=model)


def scattering_cnn(*, inputs: tuple[int, ...], classes: int, window: int = 3, width: int = 64) -> nn.Module:
    """Two convolutions on maps of scattering, the first with so large a window; with 3 the network of Tramer and Boneh
    2021, of 187,000 parameters on 243 x 8 x 8; with 1 it has 63,000, and takes a quarter of the time.
    """
    from torch import nn

    channels, height, width_of_maps = inputs
    return nn.Sequential(
        nn.Conv2d(channels, width, window, padding=window // 2),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, width, 3, padding=1),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(width * (height // 2) * (width_of_maps // 2), classes),
    )


@dataclass(frozen=True, kw_only=True)
class PictureCase(GridCase):
    """A model."""

    problem: PictureProblem
    method: PictureMethod
    kind = "features of pictures"

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of single records, as expected."""
        return self.method.epochs * (len(_labels(self.problem.data, data)[0]) - self.problem.held_out)

    def expected_seconds(self, gradients: int) -> float:
        """CPU seconds, features aside."""
        return _SECONDS_PER_GRADIENT[self.problem.data == "cifar10", self.method.model] * gradients

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """One row."""
        problem, method = self.problem, self.method
        (x, y), (test_x, test_y) = _parts(problem, data)
        model, plan = _trained(problem, method, x, y, self.seed)
        (stage,) = plan.phases[0].stages
        return [
            {
                "accuracy": float((model.predict_proba(_records(test_x, method)).argmax(axis=1) == test_y).mean()),
                "majority": largest_class(test_y),
                "records": len(y),
                "measured_on": "training set" if problem.held_out else "test set",
                "batch": method.batch,
                "epochs": method.epochs,
                "learning_rate": method.learning_rate,
                "ema": method.ema,
                "model": method.model,
                "steps": stage.steps,
                "noise_multiplier": stage.noise_multiplier,
                "claimed_epsilon": float(problem.epsilon),
                "made_of": digest_of(paths_of(problem.data, data))[:16],
            }
        ]


def _trained(problem: PictureProblem, method: PictureMethod, x: Any, y: Any, seed: int) -> tuple[Any, Any]:
    """A model, and its plan. As `DPClassifier` trains, without its copies of the records, which are of 4 GB."""
    from discreet.api import plan
    from discreet.models import build_model
    from discreet.noise import Seeded
    from discreet.privacy.ledger import Ledger, MemorySink, terms_of
    from discreet.privacy.plan import TrainingPhase
    from discreet.trainers.dp_sgd import DPSGD, CohortRecords, Settings, charge_training

    settings = Settings(
        clip=method.clip,
        learning_rate=method.learning_rate,
        optimizer_options={"momentum": method.momentum},
        ema=method.ema,
        micro_batch=_MICRO_BATCH[method.model],
    )
    planned = plan(
        epsilon=problem.epsilon,
        delta=problem.delta,
        initial=len(y),
        batch=min(method.batch, len(y)),
        epochs=method.epochs,
    )
    phase = TrainingPhase.of(planned, 0)
    records = CohortRecords(x=_records(x, method), y=y)
    classes = SOURCES[problem.data].classes
    shape = {"inputs": records.x.shape[1:], "classes": classes}
    if method.model == "linear":
        module = build_model("linear", **shape)
    else:
        module = build_model(f"{__name__}:scattering_cnn", window=_WINDOWS[method.model], **shape)
    ledger = Ledger.create(MemorySink(), terms_of(planned), source=Seeded(seed))
    paid = charge_training(ledger, phase)
    trainer = DPSGD(module, classes=classes, settings=settings)
    return trainer.train(phase=phase, cohorts={"initial": records}, receipt=paid), planned


def _records(rows: Any, method: PictureMethod) -> Any:
    """Features of pictures as the model takes them: in a row, or as maps."""
    if method.model == "linear":
        return rows
    return rows.reshape(len(rows), -1, _SIDE, _SIDE)


def _parts(problem: PictureProblem, data: Path | None) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Features and classes: to learn from, and to measure on."""
    y, test_y = _labels(problem.data, data)
    x = scattering_of(problem.data, data, "train", problem.groups)
    if not problem.held_out:
        return (x, y), (scattering_of(problem.data, data, "test", problem.groups), test_y)
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(y))
    held_out, rest = np.sort(order[: problem.held_out]), np.sort(order[problem.held_out :])
    return (x[rest], y[rest]), (x[held_out], y[held_out])


@lru_cache(maxsize=2)
def _labels(name: Data, data: Path | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    held = read_set(name, data)
    return held.y, held.test_y


def _problem(data: Data, held_out: int = 0) -> PictureProblem:
    return PictureProblem(name=f"{data}, held out" if held_out else data, data=data, held_out=held_out)


_RATES: dict[tuple[int, int], tuple[tuple[float, float | None], ...]] = {
    (4096, 40): ((8.0, None), (8.0, 0.97), (16.0, None)),
    (8192, 40): ((8.0, None), (16.0, None), (16.0, 0.97), (24.0, 0.97)),
    (8192, 60): ((8.0, None),),
}
"""By batch and epochs: learning rates, and the decay of the average of the weights."""
GRID = tuple(
    picture_method(batch, epochs, learning_rate, ema)
    for (batch, epochs), rates in _RATES.items()
    for learning_rate, ema in rates
)
CHOICE = ((tuple(_problem(data, HELD_OUT) for data in ("mnist", "fashion-mnist")), GRID),)
CHOSEN: dict[Data, PictureMethod] = {
    "mnist": picture_method(8192, 60, 8.0),
    "fashion-mnist": picture_method(8192, 40, 16.0),
}
"""The best of `GRID` on the records that were held out."""
PICTURES = tuple(((_problem(data),), (method,)) for data, method in CHOSEN.items())


_CIFAR_GROUPS = 27
"""As Tramer and Boneh 2021."""


def _cifar(held_out: int = 0) -> PictureProblem:
    return replace(_problem("cifar10", held_out), groups=_CIFAR_GROUPS)


CIFAR_GRID = (
    *(picture_method(8192, 60, rate) for rate in (2.0, 4.0, 8.0)),
    picture_method(8192, 40, 4.0, model="CNN, 1 x 1 first"),
    picture_method(8192, 40, 2.0, model="CNN, 1 x 1 first"),
)
CIFAR_CHOICE = (((_cifar(HELD_OUT),), CIFAR_GRID),)
CIFAR_CHOSEN = (picture_method(8192, 60, 4.0),)
"""Batch, epochs and learning rate of Tramer and Boneh 2021, fixed before anything was measured."""
CIFAR = (((_cifar(),), CIFAR_CHOSEN),)


def settings_of(method: PictureMethod) -> dict[str, Any]:
    """As the rows of a case have them."""
    return {
        name: value for name, value in asdict(method).items() if name in ("batch", "epochs", "learning_rate", "ema")
    }
