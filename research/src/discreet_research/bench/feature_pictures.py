"""Pictures learned from their scattering: DP-SGD of one linear layer at (3, 1e-5); the test set chooses no setting.

`CHOICE` compares settings on a fixed 10,000 records of the training set, trained on the other records. `PICTURES`
trains each set's best settings (`CHOSEN`, which a test compares with the rows of `CHOICE`) on the whole training set,
and measures each model once on the test set.

Features are computed once for each file of data, and kept as .npy in ``features`` of the directory of data; their names
say the map, the part and the files. Every draw is seeded: a simulation on public sets.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet_research.bench.cases import GridCase
from discreet_research.bench.majority import largest_class
from discreet_research.bench.problems import GridSettings
from discreet_research.bench.sets import SOURCES, Data, digest_of, paths_of, read_set

EPSILON, DELTA = "3", "1e-5"
HELD_OUT = 10_000
_SPLIT_SEED = 17
_PICTURES_AT_ONCE = 2_048
_MICRO_BATCH = 1_024
_SECONDS_PER_GRADIENT = 1.4e-5
"""CPU seconds of one record's gradient, of 3,969 features, on one core of 2026: what a case says before any has run."""


@dataclass(frozen=True, kw_only=True)
class PictureProblem(GridSettings):
    """``held_out``: so many records of the training set are measured on instead of the test set; 0: the test set."""

    name: str
    data: Data
    held_out: int = 0
    epsilon: str = EPSILON
    delta: str = DELTA


@dataclass(frozen=True, kw_only=True)
class PictureMethod(GridSettings):
    """Scattering with its own defaults (J = 2, L = 8), and DP-SGD of one linear layer."""

    name: str
    batch: int
    epochs: int
    learning_rate: float
    ema: float | None = None
    clip: float = 0.1
    momentum: float = 0.9


def picture_method(batch: int, epochs: int, learning_rate: float, ema: float | None = None) -> PictureMethod:
    """Named by its settings."""
    averaged = "" if ema is None else f", averaged {ema:g}"
    name = f"batch {batch}, {epochs} epochs, rate {learning_rate:g}{averaged}"
    return PictureMethod(name=name, batch=batch, epochs=epochs, learning_rate=learning_rate, ema=ema)


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
        return _SECONDS_PER_GRADIENT * gradients

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """One row."""
        from discreet import DPClassifier
        from discreet.trainers.dp_sgd import Settings

        problem, method = self.problem, self.method
        (x, y), (test_x, test_y) = _parts(problem, data)
        model = DPClassifier(
            epsilon=problem.epsilon,
            delta=problem.delta,
            classes=list(range(SOURCES[problem.data].classes)),
            batch=method.batch,
            epochs=method.epochs,
            settings=Settings(
                clip=method.clip,
                learning_rate=method.learning_rate,
                optimizer_options={"momentum": method.momentum},
                ema=method.ema,
                micro_batch=_MICRO_BATCH,
            ),
            simulation_seed=self.seed,
        ).fit(x, y)
        return [
            {
                "accuracy": float((model.predict(test_x) == test_y).mean()),
                "majority": largest_class(test_y),
                "records": len(y),
                "measured_on": "training set" if problem.held_out else "test set",
                "batch": method.batch,
                "epochs": method.epochs,
                "learning_rate": method.learning_rate,
                "ema": method.ema,
                "steps": model.n_iter_,
                "noise_multiplier": model.plan_.phases[0].stages[0].noise_multiplier,
                "claimed_epsilon": float(problem.epsilon),
                "made_of": digest_of(paths_of(problem.data, data))[:16],
            }
        ]


def _parts(problem: PictureProblem, data: Path | None) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Features and classes: to learn from, and to measure on."""
    y, test_y = _labels(problem.data, data)
    x = scattering_of(problem.data, data, "train")
    if not problem.held_out:
        return (x, y), (scattering_of(problem.data, data, "test"), test_y)
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(y))
    held_out, rest = np.sort(order[: problem.held_out]), np.sort(order[problem.held_out :])
    return (x[rest], y[rest]), (x[held_out], y[held_out])


@lru_cache(maxsize=2)
def _labels(name: Data, data: Path | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    held = read_set(name, data)
    return held.y, held.test_y


def scattering_of(name: Data, data: Path | None, part: str) -> NDArray[np.float32]:
    """Scattering of the part ``train`` or ``test``, one row a picture: computed once, kept in the directory of data."""
    from discreet.features import build_feature_map

    held = read_set(name, data)
    pictures = held.x if part == "train" else held.test_x
    pictures = pictures if pictures.ndim == 3 else np.moveaxis(pictures, -1, 1)
    scattering = build_feature_map("scattering", shape=pictures.shape[1:])
    made_of = {"map": scattering.identity()["sha256"], "part": part, "files": digest_of(paths_of(name, data))}
    named = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]
    assert data is not None  # paths_of
    path = Path(data) / "features" / f"{name}-scattering-{part}-{named}.npy"
    if not path.exists():
        _write_features(path, scattering, pictures)
    stored: NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
    return stored


def _write_features(path: Path, scattering: Any, pictures: NDArray[Any]) -> None:
    draft = path.with_name(f".{path.name}")
    shape = (len(pictures), scattering.output_size)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = np.lib.format.open_memmap(draft, mode="w+", dtype=np.float32, shape=shape)
    except OSError:
        raise BadInput(
            "features of pictures",
            "the directory of data cannot be written, and they are kept in it",
            "Give --data a directory of links to the data",
        ) from None
    for start in range(0, len(pictures), _PICTURES_AT_ONCE):
        piece = np.asarray(pictures[start : start + _PICTURES_AT_ONCE], dtype=np.float32) / np.float32(255)
        rows[start : start + len(piece)] = scattering.transform(piece).reshape(len(piece), -1)
    rows.flush()
    draft.replace(path)


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


def settings_of(method: PictureMethod) -> dict[str, Any]:
    """As the rows of a case have them."""
    return {
        name: value for name, value in asdict(method).items() if name in ("batch", "epochs", "learning_rate", "ema")
    }
