"""The rule for settings (`discreet.trainers.dp_sgd.automatic_settings`) beside the best of twelve.

A case is one linear model on features, by DP-SGD under a plan of this package. The twelve are two numbers of steps and
six distances that a class's logit may travel; the best of them is chosen by a set's own test accuracy on some seeds and
measured on others, which nobody may do with private data. All train on the whole batch, with the rule's clip and
average: smaller batches and other clips were no better on the sets of the fit.

The arithmetic is that of the trainer, in 32 bits, with numpy's noise and without a ledger: a simulation, which takes a
tenth of the time. The same settings through `DPClassifier` are beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from discreet.trainers.dp_sgd import AutomaticSettings, Settings, automatic, automatic_settings
from discreet_research.bench.automatic_sets import FeatureSetName, LabelledFeatures, labelled_features
from discreet_research.bench.cases import GridCase
from discreet_research.bench.majority import largest_class
from discreet_research.bench.problems import GridSettings

LARGE: tuple[FeatureSetName, ...] = ("kddcup99 bins", "flights bins", "diamonds bins")
"""With 20,000 labels, too."""
CHECKED: tuple[FeatureSetName, ...] = (
    "mnist scattering",
    "mnist raw",
    "digits raw",
    "pneumonia scattering",
    *LARGE,
    "clinc150 hashed",
)
EPSILONS = ("1", "8")
SEEDS = 2
"""The even ones choose the best of the twelve, the odd ones measure."""
STEPS, TRAVELS = (20, 80), (10, 30, 100, 300, 1000, 3000)
Trainer = Literal["simulated", "DPClassifier"]
_SECONDS_PER_NUMBER = 2e-10
"""CPU seconds of one core of 2026 for a number of a record, a class and a step: what a case says before any has run."""


@dataclass(frozen=True, kw_only=True)
class AutomaticProblem(GridSettings):
    """A set of features, and how many of its labels there are under which budget."""

    name: str
    data: FeatureSetName
    labels: int
    epsilon: str

    @property
    def delta(self) -> str:
        """Below a tenth of 1 / labels."""
        return "1e-5" if self.labels < 10_000 else "1e-6"


@dataclass(frozen=True, kw_only=True)
class AutomaticMethod(GridSettings):
    """``steps`` and ``travel`` of each class's logit; None: by the rule."""

    name: str
    steps: int | None = None
    travel: int | None = None
    trainer: Trainer = "simulated"


RULE = AutomaticMethod(name="auto")
THROUGH_CLASSIFIER = AutomaticMethod(name="DPClassifier", trainer="DPClassifier")
DEFAULTS = AutomaticMethod(name="DPClassifier, defaults", trainer="DPClassifier")
TWELVE = tuple(
    AutomaticMethod(name=f"{steps} steps, travel {travel}", steps=steps, travel=travel)
    for steps in STEPS
    for travel in TRAVELS
)


def _problems(sets: tuple[FeatureSetName, ...], sizes: tuple[int, ...]) -> tuple[AutomaticProblem, ...]:
    return tuple(
        AutomaticProblem(name=f"{data}, {labels:,} labels, eps {epsilon}", data=data, labels=labels, epsilon=epsilon)
        for data in sets
        for labels in sizes
        for epsilon in EPSILONS
        if not (data == "digits raw" and labels > 1_000)  # it has 1,348 records
    )


AUTOMATIC = (
    (_problems(CHECKED, (500, 2_000)), (RULE, *TWELVE)),
    (_problems(("mnist scattering", *LARGE), (2_000,)), (THROUGH_CLASSIFIER, DEFAULTS)),
    (_problems(LARGE, (20_000,)), (RULE, *TWELVE)),
)


@dataclass(frozen=True, kw_only=True)
class AutomaticCase(GridCase):
    """A model."""

    problem: AutomaticProblem
    method: AutomaticMethod
    kind: ClassVar[str] = "automatic settings"

    def identity(self) -> Any:
        """With the constants of the rule, where it is the rule's."""
        return super().identity() | ({"rule": _constants()} if self.method.steps is None else {})

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of single records; the rule's steps are at most `automatic.MOST_STEPS`."""
        return (self.method.steps or automatic.MOST_STEPS) * self.problem.labels

    def expected_seconds(self, gradients: int) -> float:
        """CPU seconds, roughly: sets differ."""
        return 0.5 + _SECONDS_PER_NUMBER * gradients * 20_000

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """One row."""
        records = labelled_features(self.problem.data, data, self.problem.labels, self.seed)
        settings = settings_of(self.problem, self.method, records)
        train = _simulated if self.method.trainer == "simulated" else _by_classifier
        logits = train(records, settings, self.problem, self.seed)
        metric = "auc" if records.classes == 2 else "accuracy"
        measured = score(logits, records)
        about = {"labels": self.problem.labels, "epsilon": float(self.problem.epsilon), "data": self.problem.data}
        by_metric = {"accuracy": measured if metric == "accuracy" else None}
        steps = {"steps": settings.epochs, "majority": largest_class(records.test_y), "made_of": records.made_of}
        return [{"phase": 0, "metric": metric, "score": measured, **by_metric, **about, **steps}]


def _constants() -> dict[str, float]:
    names = ("CLIP", "NOISE", "MOST_TRAVEL", "STEPS", "LEAST_STEPS", "MOST_STEPS", "AVERAGE")
    return {name: float(getattr(automatic, name)) for name in names}


def settings_of(problem: AutomaticProblem, method: AutomaticMethod, records: LabelledFeatures) -> AutomaticSettings:
    """By the rule, the rule's with other steps and another learning rate, or the defaults."""
    chosen = automatic_settings(
        labels=problem.labels,
        epsilon=float(problem.epsilon),
        delta=float(problem.delta),
        classes=records.classes,
        dimension=records.x.shape[1],
        norm_bound=records.norm_bound,
        linear=method != DEFAULTS,
    )
    if method.steps is None or method.travel is None:
        return chosen
    clip = chosen.settings.clip
    longest = clip / automatic.CLIP
    rate = method.travel * records.classes / (method.steps * clip * longest)
    settings = Settings(clip=clip, learning_rate=rate, ema=chosen.settings.ema)
    return AutomaticSettings(batch=chosen.batch, epochs=method.steps, settings=settings)


def score(logits: Any, records: LabelledFeatures) -> float:
    """The accuracy on the test records, or for two classes the AUC."""
    from sklearn.metrics import roc_auc_score

    if records.classes == 2:
        return float(roc_auc_score(records.test_y, logits[:, 1] - logits[:, 0]))
    return float((logits.argmax(axis=1) == records.test_y).mean())


@lru_cache(maxsize=256)
def _noise_multiplier(epsilon: str, delta: str, labels: int, epochs: int) -> float:
    """Of a plan in which every record is in every step."""
    from discreet.api import plan
    from discreet.privacy.plan import TrainingPhase

    planned = plan(epsilon=epsilon, delta=delta, initial=labels, batch=labels, epochs=epochs, accountant="rdp")
    (stage,) = TrainingPhase.of(planned, 0).stages
    assert stage.steps == epochs
    return stage.noise_multiplier


def _simulated(records: LabelledFeatures, chosen: AutomaticSettings, problem: AutomaticProblem, seed: int) -> Any:
    """Logits of the test records by the trainer's arithmetic."""
    import torch

    from discreet.models import build_model
    from discreet.trainers.dp_sgd.optimization import average_into

    settings = chosen.settings
    assert settings.ema is not None
    sigma = _noise_multiplier(problem.epsilon, problem.delta, problem.labels, chosen.epochs)
    first = build_model("linear", inputs=(records.x.shape[1],), classes=records.classes).state_dict()
    weights = torch.cat([first["head.linear.weight"], first["head.linear.bias"][:, None]], dim=1).T.clone()
    x, test_x = (torch.from_numpy(_with_one(rows)) for rows in (records.x, records.test_x))
    each, y, lengths = torch.arange(len(x)), torch.from_numpy(records.y), x.norm(dim=1)
    noise, averages = torch.Generator().manual_seed(1_000 + seed), {"weights": weights.clone()}
    for step in range(chosen.epochs):
        errors = torch.softmax(x @ weights, dim=1)
        errors[each, y] -= 1
        errors *= (settings.clip / (errors.norm(dim=1) * lengths).clamp_min(1e-12)).clamp_max(1)[:, None]
        noisy = x.T @ errors + sigma * settings.clip * torch.randn(weights.shape, generator=noise)
        weights -= settings.learning_rate / chosen.batch * noisy
        average_into(averages, {"weights": weights}, settings.ema, step + 1)
    return (test_x @ averages["weights"]).numpy()


def _with_one(rows: Any) -> Any:
    return np.concatenate([rows, np.ones((len(rows), 1), dtype=np.float32)], axis=1)


def _by_classifier(records: LabelledFeatures, chosen: AutomaticSettings, problem: AutomaticProblem, seed: int) -> Any:
    """Logarithms of the classifier's probabilities."""
    from discreet import DPClassifier

    model = DPClassifier(
        epsilon=problem.epsilon,
        delta=problem.delta,
        classes=range(records.classes),
        batch=chosen.batch,
        epochs=chosen.epochs,
        settings=chosen.settings,
        accountant="rdp",
        simulation_seed=seed,
    ).fit(records.x, records.y)
    return np.log(np.maximum(model.predict_proba(records.test_x), 1e-30))
