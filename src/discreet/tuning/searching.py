"""`tune`: a private search over settings, charged before it begins; the best run is released, and nothing else.

    found = discreet.tune(DPClassifier(epsilon=8, ...), {"learning_rate": [0.1, 0.5, 2]}, X, y, public=(X_p, y_p))
    found.classifier, found.setting, found.score, found.baseline, found.price.sentence()

Guarantee (zero-out relation, the estimator's unit): the classifier, its setting and its score together keep the
estimator's epsilon and delta (docs/proofs/private-tuning.md). One entry of the ledger pays for all runs, is durable
before the number of runs is drawn, and claims the same whatever that number is.

Not released: how many runs there were, their settings, scores and models. How long `tune` took tells about the first,
so that is for the owner's eyes; the public sees what `SearchResult` holds.

Settings are a public list, written before data is touched. A grid ``{"learning_rate": [0.1, 0.5], "clip": [0.5, 1.0]}``
is every combination; a list of dicts is itself. Names are fields of `discreet.trainers.dp_sgd.Settings`, or ``batch``,
``epochs``, ``model``, ``model_options`` of `DPClassifier`.

With a ``ledger`` file on the estimator the draws are sealed: after a crash the same call repeats the same runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from sklearn.base import clone

from discreet.classifier import (
    AUTO,
    PHASE,
    DPClassifier,
    check_parameters,
    chosen_settings,
    labels_in,
    open_ledger,
    private_data,
    records_of,
    rows_in,
    trainer_for,
)
from discreet.errors import BadInput, BudgetExceeded, LedgerUnavailable
from discreet.privacy.budget import Budget, Number
from discreet.privacy.ledger import ChargeReason, PathSegment, adaptive, request
from discreet.privacy.ledger import Path as RecordPath
from discreet.privacy.plan import TrainingPhase, TrainingStage
from discreet.privacy.tuned import runs_of
from discreet.trainers.accuracy import METRICS, Evaluation
from discreet.trainers.layouts import Layout
from discreet.trainers.metric_words import LOWER_IS_BETTER
from discreet.tuning.pricing import PricedRun, RunShape, TuningPrice, price_search

TRAINED, HELD_OUT, PURPOSE = "initial", "held-out", "private search"
OF_THE_CLASSIFIER = ("batch", "epochs", "model", "model_options")
MOST_SETTINGS = 10_000
Setting = dict[str, Any]
Pair = tuple[Any, Any]


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What a search releases. ``evaluation`` is the best run's, of several: paid for, and better than on new records.

    ``classifier`` is fitted; its `certificate` is the search's. Audience: public.
    """

    classifier: DPClassifier
    setting: Setting
    metric: str
    evaluation: Evaluation
    price: TuningPrice
    simulation: bool

    @property
    def score(self) -> float | None:
        """The metric that runs were compared by; None where the records cannot tell it."""
        return self.evaluation.metric(self.metric).value

    @property
    def baseline(self) -> float | None:
        """What a constant answer has, by the class shares (of accuracy: the majority); None if not counted."""
        return self.evaluation.metric(self.metric).baseline


def tune(
    estimator: DPClassifier,
    candidates: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
    X: Any,  # noqa: N803 - scikit-learn's name
    y: Any,
    *,
    public: Pair | None = None,
    held_out: Pair | None = None,
    metric: str = "accuracy",
    runs: Number = 10,
    eta: Number = 1,
    law: str = "negative-binomial",
    persons: Any = None,
) -> SearchResult:
    """Train a random number of times, ``runs`` on average, each with a random one of ``candidates``; keep the best.

    The estimator's epsilon and delta are for the whole search. Runs are compared by ``metric``, one of
    `discreet.trainers.accuracy.METRICS`, on ``public`` records (free), or with noise on private ``held_out`` records
    of other people (paid by them). ``eta`` and ``law``: see `discreet.privacy.tuned`.
    """
    search = _Search(estimator, candidates, X, y, public=public, held_out=held_out, metric=metric, persons=persons)
    price = search.priced(runs_of(mean=runs, eta=eta, law=law))
    return search.done(price)


class _Search:
    """Everything that is checked before the charge, and what follows it."""

    def __init__(
        self,
        estimator: DPClassifier,
        candidates: Any,
        x: Any,
        y: Any,
        *,
        public: Pair | None,
        held_out: Pair | None,
        metric: str,
        persons: Any,
    ) -> None:
        _check(estimator, public, held_out, metric)
        estimator = clone(estimator)  # the caller's own stays unfitted
        self.estimator, self.settings = estimator, settings_of(candidates)
        self.variants = [with_setting(estimator, setting) for setting in self.settings]
        for variant in self.variants:
            check_parameters(variant, persons)
        self.data = private_data(estimator, x, y, persons)
        for variant in self.variants:
            variant.batch, variant.epochs, variant.settings = chosen_settings(variant, self.data)
        self.public = public is not None
        pair = public if public is not None else held_out
        assert pair is not None  # checked
        self.scored = self._scored(*pair)
        self.metric, self.layout = metric, _layout(metric, len(self.data.classes), public=self.public)

    def _scored(self, x: Any, y: Any) -> Any:
        try:
            rows = rows_in(self.estimator, x)
        except (TypeError, ValueError):
            raise BadInput(
                "the records to score on", "they do not have the columns of X", "Give the same ones"
            ) from None
        labels = labels_in(y)
        if len(labels) != len(rows) or not labels:
            raise BadInput("the records to score on", "there are none, or not as many labels", "Give one label a row")
        return records_of(self.estimator, rows, labels, self.data.classes)

    def priced(self, law: Any) -> TuningPrice:
        """The price, from public numbers."""
        promised: dict[str, Any] = {name: getattr(self.estimator, name) for name in ("epsilon", "delta", "unit")}
        budget = Budget(**promised)
        units = self.data.records.units + (0 if self.public else self.scored.units)
        budget.warn_if_loose(units)
        return price_search(
            budget=budget,
            units=self.data.records.units,
            settings=len(self.settings),
            shapes=[_shape(variant) for variant in self.variants],
            law=law,
            held_out=not self.public,
        )

    def done(self, price: TuningPrice) -> SearchResult:
        """Charge, run, keep the best."""
        cohorts = {TRAINED: self.data.records}
        phases = [_phase(price.run_of(_shape(variant)), price) for variant in self.variants]
        trainers = [trainer_for(variant, self.data, variant.settings) for variant in self.variants]
        for trainer, phase in zip(trainers, phases, strict=True):
            trainer.check(phase=phase, cohorts=cohorts)
        sink, opened = open_ledger(self.estimator, _terms(price))
        with opened as ledger, ExitStack() as sealed:
            runs = self._charged(ledger, price, sealed)
            best: tuple[float, int, Any, Evaluation] | None = None
            for number, choice in enumerate(runs.choices):
                run = price.run_of(_shape(self.variants[choice]))
                with runs.ledger(number, _events(run, price), unit=price.budget.unit) as run_ledger:
                    predictor, evaluation = self._run(trainers[choice], phases[choice], cohorts, run_ledger, price)
                score = self._score_of(evaluation)
                if best is None or score > best[0]:  # the first of equals: docs/proofs/private-tuning.md
                    best = (score, choice, predictor, evaluation)
            assert best is not None  # there is at least one run
            simulation, account = ledger.simulation, sink.read()
        _, choice, predictor, evaluation = best
        chosen = self.variants[choice]
        chosen.classes_, chosen.predictor_, chosen.n_iter_ = self.data.classes, predictor, phases[choice].steps
        if hasattr(self.estimator, "feature_names_in_"):
            chosen.feature_names_in_ = self.estimator.feature_names_in_
        chosen.feature_map_ = self.estimator.feature_map_
        chosen.n_features_in_, chosen.simulation_, chosen.account_ = self.data.columns, simulation, account
        return SearchResult(
            classifier=chosen,
            setting=self.settings[choice],
            metric=self.metric,
            evaluation=evaluation,
            price=price,
            simulation=simulation,
        )

    def _score_of(self, evaluation: Evaluation) -> float:
        value = evaluation.metric(self.metric).value
        if value is None:
            return -math.inf
        return -value if self.metric in LOWER_IS_BETTER else value

    def _charged(self, ledger: Any, price: TuningPrice, sealed: ExitStack) -> Any:
        """One entry for all runs, then their number and settings."""
        from discreet.noise import SealedPhase, charge_once, same_inputs, tuned_runs

        where = ledger
        if self.estimator.ledger is not None and not ledger.simulation:
            keys = Path(self.estimator.ledger).parent
            where = sealed.enter_context(SealedPhase(ledger, phase=PHASE, directory=keys))
        events: dict[str, Any] = {TRAINED: price.training}
        if price.scoring is not None:
            events[HELD_OUT] = price.scoring
        try:
            [receipt] = charge_once(where, [request(events, why=ChargeReason(phase=PHASE, purpose=PURPOSE))])
        except BudgetExceeded:
            raise LedgerUnavailable(
                "searching with this ledger", "it paid for something else", "Give every search a ledger of its own"
            ) from None
        same_inputs(receipt, repr([self.metric, *map(_named, self.variants)]))
        return tuned_runs(receipt, settings=len(self.settings))

    def _run(
        self, trainer: Any, phase: TrainingPhase, cohorts: Any, run_ledger: Any, price: TuningPrice
    ) -> tuple[Any, Evaluation]:
        """One run: train, evaluate."""
        from discreet.trainers.dp_sgd import charge_training
        from discreet.trainers.evaluation import evaluate_paid, evaluate_public

        predictor = trainer.train(phase=phase, cohorts=cohorts, receipt=charge_training(run_ledger, phase))
        measured: dict[str, Any] = {"classes": len(self.data.classes), "layout": self.layout}
        if price.score is None:
            return predictor, evaluate_public(predictor, self.scored.x, self.scored.y, **measured)
        receipt = run_ledger.charge(event=price.score, who=HELD_OUT, why="score")
        return predictor, evaluate_paid(predictor, self.scored, receipt=receipt, **measured)


def _layout(metric: str, classes: int, *, public: bool) -> Layout:
    """The table with the fewest cells that tells the metric: fewer cells, less noise."""
    if metric in ("accuracy", "balanced-accuracy", "f1"):  # of two classes accuracy comes with its baseline
        return Layout(classes=classes, table="accuracy" if metric == "accuracy" and classes > 2 else "confusion")
    layout = Layout(classes=classes, table="scores")
    if not public and layout.sensitivity != 1:
        raise BadInput(
            f"tuning by {metric} on held-out records",
            f"a record of one of {classes} classes would be counted {layout.sensitivity} times, and is paid for once",
            "Choose accuracy, balanced-accuracy or f1, or score on public records",
        )
    return layout


def _check(estimator: Any, public: Any, held_out: Any, metric: str) -> None:
    if metric not in METRICS:
        raise BadInput(f"the metric {metric}", "there is none of that name", f"Choose of {', '.join(METRICS)}")
    if not isinstance(estimator, DPClassifier):
        raise BadInput("tuning", "what is tuned is not a DPClassifier", "Give DPClassifier(epsilon=..., ...)")
    if (public is None) == (held_out is None):
        raise BadInput(
            "tuning",
            "runs are compared by a score, on public records or on private ones kept apart",
            "Give public=(X, y) or held_out=(X, y)",
        )
    pair = public if public is not None else held_out
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise BadInput("the records to score on", "they are not records and labels", "Give a pair (X, y)")
    if estimator.watch is not None or estimator.checkpoints is not None:
        raise BadInput(
            "tuning with watch or checkpoints",
            "they would tell how many runs there were, which is secret",
            "Drop them; with a ledger a killed search is repeated by the same call",
        )
    if estimator.unit == "person" and held_out is not None:
        raise BadInput("scoring on held-out persons", "only records can be kept apart here", "Score on public records")


def _shape(variant: DPClassifier) -> RunShape:
    assert variant.batch is not None  # chosen with the data
    assert variant.epochs is not None
    return RunShape(batch=variant.batch, epochs=variant.epochs)


def _named(variant: DPClassifier) -> tuple[Any, ...]:
    """A setting in words that are the same in every process. (Records are compared by each draw.)"""
    return variant.settings.digest(), variant.batch, variant.epochs, variant.model, variant.model_options


def _phase(run: PricedRun, price: TuningPrice) -> TrainingPhase:
    stage = TrainingStage(steps=run.steps, cohorts=((TRAINED, run.step),))
    batch = min(run.shape.batch, price.units)
    return TrainingPhase(number=PHASE, batch=batch, unit=price.budget.unit, stages=(stage,))


def _events(run: PricedRun, price: TuningPrice) -> dict[str, Any]:
    scored = {} if price.score is None else {HELD_OUT: price.score}
    return {TRAINED: run.event, **scored}


def _terms(price: TuningPrice) -> Any:
    """A filter at the order the search is priced at: no loss distribution of a search is known."""
    groups = [TRAINED] if price.score is None else [TRAINED, HELD_OUT]
    paths = [RecordPath(name=who, stays=(PathSegment(who=who),)) for who in groups]
    return adaptive(price.budget, orders=(price.order,), paths=paths)


# -- the settings of a search


def settings_of(candidates: Any) -> tuple[Setting, ...]:
    """Every setting, in order."""
    if isinstance(candidates, Mapping):
        lists = {name: _values(name, values) for name, values in candidates.items()}
        settings = [dict(zip(lists, row, strict=True)) for row in itertools.product(*lists.values())]
    elif isinstance(candidates, Sequence) and not isinstance(candidates, str):
        if not all(isinstance(setting, Mapping) for setting in candidates):
            raise _refusal()
        settings = [dict(setting) for setting in candidates]
    else:
        raise _refusal()
    if not 1 <= len(settings) <= MOST_SETTINGS:
        raise BadInput(
            f"a search over {len(settings)} settings", f"it needs 1 to {MOST_SETTINGS}", "Give a shorter list"
        )
    return tuple(settings)


def _values(name: str, values: Any) -> list[Any]:
    if isinstance(values, (str, Mapping)) or not isinstance(values, Sequence) or not values:
        raise BadInput(f"the settings of {name}", "they are not a list", "Give a list of values to try")
    return list(values)


def _refusal() -> BadInput:
    return BadInput(
        "the settings of a search", "they are neither a grid nor a list of dicts", 'Try {"learning_rate": [0.1, 0.5]}'
    )


def with_setting(estimator: DPClassifier, setting: Setting) -> DPClassifier:
    """A copy of ``estimator`` that has this setting."""
    from discreet.trainers.dp_sgd import Settings

    names = {field.name for field in fields(Settings)}
    for name in setting:
        if name not in names and name not in OF_THE_CLASSIFIER:
            raise BadInput(
                f"searching over {name}",
                "it is not a setting that a search may change",
                f"Choose of {', '.join((*OF_THE_CLASSIFIER, *sorted(names)))}",
            )
    changed: DPClassifier = clone(estimator)
    changed.set_params(**{name: value for name, value in setting.items() if name in OF_THE_CLASSIFIER})
    of_training = {name: value for name, value in setting.items() if name in names}
    if of_training and (changed.settings == AUTO or isinstance(changed.settings, Mapping)):
        chosen = {} if changed.settings == AUTO else changed.settings
        changed.set_params(settings={**chosen, **of_training})  # the rule chooses the rest
    elif of_training:
        changed.set_params(settings=replace(changed.settings or Settings(), **of_training))
    return changed
