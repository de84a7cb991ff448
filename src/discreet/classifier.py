"""`DPClassifier`: private training under scikit-learn's habits: ``fit``, ``predict``, ``predict_proba``.

One `fit` is one campaign without questions: a plan made from public numbers, a ledger committed to it, training, a
`certificate`. Every fit on the same people spends anew; a grid search over private data spends once a
cell and fold.

What differs from other estimators, because data must not decide it:

- ``epsilon`` and ``delta`` have no default.
- ``classes`` are declared. ``classes="from-labels"`` says that the set of labels in ``y`` is public knowledge.
- Nothing is scaled by statistics of ``X``: declare ``center`` and ``scale``.
- A record with NaN or infinite values, or with a label that was not declared, is trained as a null, silently; an error
  would tell that it was there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from discreet.errors import BadInput, BudgetExceeded, LedgerUnavailable
from discreet.privacy.exact import Number
from discreet.privacy.plan import Plan

FROM_LABELS = "from-labels"
PHASE = 0


class DPClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A torch model trained by DP-SGD, as an estimator.

    Parameters: ``epsilon``, ``delta`` (the promise); ``classes``; ``model`` (a name of `discreet.models`, or
    ``module:callable``) with ``model_options``; ``inputs`` (the shape of one record, if not a row of numbers);
    ``batch`` (expected), ``epochs``; the choices of `discreet.trainers.dp_sgd.Settings` in ``settings``;
    ``center`` and ``scale`` (public); ``accountant``; ``unit`` with ``fit(X, y, persons=...)``; ``ledger`` (a file that
    keeps the account; without one it lives as long as `fit`) and ``checkpoints`` (a directory: a killed `fit` goes on);
    ``simulation_seed`` (a number makes it a *simulation*, which protects nobody; it is not called random_state, because
    ensembles set that by themselves); ``watch(done, steps)``.
    """

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        classes: Sequence[Any] | str | None = None,
        model: str = "linear",
        model_options: dict[str, Any] | None = None,
        inputs: tuple[int, ...] | None = None,
        batch: int = 256,
        epochs: int = 20,
        settings: Any = None,
        center: Any = 0.0,
        scale: Any = 1.0,
        accountant: str = "pld",
        unit: str = "record",
        ledger: Path | str | None = None,
        checkpoints: Path | str | None = None,
        simulation_seed: int | None = None,
        watch: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.model = model
        self.model_options = model_options
        self.inputs = inputs
        self.batch = batch
        self.epochs = epochs
        self.settings = settings
        self.center = center
        self.scale = scale
        self.accountant = accountant
        self.unit = unit
        self.ledger = ledger
        self.checkpoints = checkpoints
        self.simulation_seed = simulation_seed
        self.watch = watch

    def fit(self, X: Any, y: Any, persons: Any = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Plan, charge, train, certify. ``persons`` says whose record each row is, where the unit is the person."""
        self._check_parameters(persons)
        x, labels = self._validated(X, y)
        classes = self._classes(labels)
        records = self._records(x, _numbers(labels, classes), persons)
        size, epochs = int(self.batch), int(self.epochs)
        made = _planned(
            str(self.epsilon), str(self.delta), records.units, size, epochs, str(self.accountant), self.unit
        )
        self._train(records, classes, made)
        return self

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Probabilities in the order of ``classes_``."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, ensure_all_finite=False, reset=False)  # noqa: N806
        found = self.predictor_.predict_proba(self._shaped(X))
        found[~np.isfinite(found).all(axis=1)] = 1 / len(self.classes_)  # of a record that says nothing
        return found

    def predict(self, X: Any) -> Any:  # noqa: N803
        """The likeliest of ``classes_``."""
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def certificate(self) -> dict[str, Any]:
        """What this fit promises, for anybody to check, bound to the weights that ``predictor_.save`` stores.

        See `discreet.privacy.certificate`. Audience: world.
        """
        from discreet.privacy.certificate import bound, certify
        from discreet.privacy.ledger import Ledger, MemorySink

        check_is_fitted(self)
        return bound(certify(Ledger.open(MemorySink(list(self.account_)))), self.predictor_.weights())

    def __sklearn_tags__(self) -> Any:
        """NaN is taken (as a null), never refused."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.simulation_seed is None
        return tags

    # -- inside

    def _check_parameters(self, persons: Any) -> None:
        if self.epsilon is None or self.delta is None:
            raise BadInput("fitting a private classifier", "epsilon or delta is missing", "Declare both: the promise")
        if self.checkpoints is not None and self.ledger is None:
            raise BadInput("checkpoints", "a fit goes on only with the ledger that paid for it", "Give ledger, too")
        if (self.unit == "person") != (persons is not None):
            raise BadInput(
                f"fitting for the {self.unit}",
                "persons are named, and not protected, or the other way round",
                'Use unit="person" with fit(X, y, persons=...)',
            )
        for name in ("batch", "epochs"):
            if isinstance(getattr(self, name), bool) or not isinstance(getattr(self, name), (int, np.integer)):
                raise BadInput(f"{name}={getattr(self, name)!r}", "it is not a whole number", "Count again")
        try:
            center, scale = np.asarray(self.center, dtype=np.float64), np.asarray(self.scale, dtype=np.float64)
        except (TypeError, ValueError):
            raise BadInput("center or scale", "they are not numbers", "Give public constants") from None
        if not (np.isfinite(center).all() and np.isfinite(scale).all() and (scale != 0).all()):
            raise BadInput("center or scale", "a scale is 0, or one is not finite", "Give public constants")

    def _validated(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Shapes and types are checked, values are not: whether a record is in order is private.

        Where the set of labels is public, labels are checked as scikit-learn does.
        """
        public = isinstance(self.classes, str) and self.classes == FROM_LABELS
        try:
            with np.errstate(all="ignore"):
                if public:
                    x, y = validate_data(self, x, y, dtype=np.float32, ensure_all_finite=False)
                else:
                    x = validate_data(self, x, dtype=np.float32, ensure_all_finite=False)
        except (TypeError, ValueError) as refused:
            kind = TypeError if isinstance(refused, TypeError) else ValueError
            raise kind(_without_data(str(refused))) from None
        if public:
            check_classification_targets(y)
            return x, column_or_1d(y).tolist()
        labels = _items(y)
        if len(labels) != len(x):
            raise BadInput("fitting a classifier", "X and y are not equally long", "Give one label a row")
        return x, labels

    def _classes(self, y: Any) -> Any:
        if self.classes is None:
            raise BadInput(
                "fitting a private classifier",
                "its classes are not declared, and the labels of private records must not name them",
                'Give classes=[...], or classes="from-labels" if the set of labels is public',
            )
        public = isinstance(self.classes, str) and self.classes == FROM_LABELS
        declared = np.iterable(self.classes) and not isinstance(self.classes, str)
        found = np.unique(y) if public else np.asarray(list(self.classes) if declared else 0)
        if found.ndim != 1 or len(set(found.tolist())) != len(found):
            raise BadInput("classes", "they are not a list of different labels of one kind", "Give each class once")
        if len(found) < 2:
            raise BadInput("fitting a classifier", "there is only one class", "Declare at least 2 classes")
        return found

    def _records(self, x: Any, numbers: Any, persons: Any) -> Any:
        from discreet.trainers.dp_sgd import MISSING, CohortRecords

        shaped = self._shaped(x)
        broken = ~np.isfinite(shaped).reshape(len(shaped), -1).all(axis=1)
        numbers = np.where(broken, MISSING, numbers)
        whose = persons if self.unit == "person" else None
        return CohortRecords(x=np.where(_rows(broken, shaped), np.float32(0), shaped), y=numbers, persons=whose)

    def _shaped(self, x: Any) -> Any:
        with np.errstate(all="ignore"):
            try:
                moved = ((x - self.center) / self.scale).astype(np.float32)
            except ValueError:
                raise BadInput(
                    "center or scale", "they do not fit the columns of X", "Give one number a column"
                ) from None
        if moved.shape != x.shape:
            raise BadInput("center or scale", "they do not fit the columns of X", "Give one number a column")
        if self.inputs is None:
            return moved
        if int(np.prod(self.inputs)) != x.shape[1]:
            raise BadInput(f"inputs={self.inputs}", f"records have {x.shape[1]} numbers", "Give a shape of that size")
        return moved.reshape(len(moved), *self.inputs)

    def _trainer(self, records: Any, classes: Any) -> Any:
        from discreet.models import build_model
        from discreet.trainers.dp_sgd import DPSGD

        module = build_model(
            self.model,
            inputs=tuple(records.x.shape[1:]),
            classes=len(classes),
            **(self.model_options or {}),
        )
        return DPSGD(
            module,
            classes=len(classes),
            settings=self.settings,
            checkpoints=self.checkpoints,
            watch=self.watch,
        )

    def _train(self, records: Any, classes: Any, made: Plan) -> None:
        from discreet.privacy.ledger import terms_of
        from discreet.privacy.training_phase import TrainingPhase

        trainer = self._trainer(records, classes)
        phase, cohorts = TrainingPhase.of(made, PHASE), {"initial": records}
        trainer.check(phase=phase, cohorts=cohorts)
        sink = self._sink()
        with self._ledger_in(sink, terms_of(made)) as ledger:
            predictor = self._charged_and_trained(trainer, phase, cohorts, ledger)
            self.simulation_, self.account_ = ledger.simulation, sink.read()
        self.classes_, self.plan_, self.predictor_, self.n_iter_ = classes, made, predictor, phase.steps

    def _charged_and_trained(self, trainer: Any, phase: Any, cohorts: Any, ledger: Any) -> Any:
        from discreet.noise import SealedPhase
        from discreet.trainers.dp_sgd import charge_training

        try:
            if self.checkpoints is None or ledger.simulation:
                return trainer.train(phase=phase, cohorts=cohorts, receipt=charge_training(ledger, phase))
            assert self.ledger is not None  # checked with the parameters
            with SealedPhase(ledger, phase=PHASE, directory=Path(self.ledger).parent) as sealed:
                return trainer.train(phase=phase, cohorts=cohorts, receipt=charge_training(sealed, phase))
        except BudgetExceeded:
            raise LedgerUnavailable(
                "fitting with this ledger", "it paid for a fit that is over", "Give every fit a ledger of its own"
            ) from None

    def _sink(self) -> Any:
        from discreet.privacy.ledger import FileSink, MemorySink

        if self.ledger is None:
            return MemorySink()
        if not Path(self.ledger).parent.is_dir():
            raise BadInput(f"ledger={self.ledger}", "its directory does not exist", "Create it first")
        return FileSink(self.ledger)

    def _ledger_in(self, sink: Any, terms: Any) -> Any:
        from discreet.noise import OperatingSystem, Seeded
        from discreet.privacy.ledger import Ledger

        source: Any = OperatingSystem() if self.simulation_seed is None else Seeded(self.simulation_seed)
        if not sink.read():
            return Ledger.create(sink, terms, source=source)
        ledger = Ledger.open(sink, source=source)
        if ledger.terms != terms:
            ledger.close()
            raise LedgerUnavailable(
                "fitting with this ledger", "it is committed to another plan", "Give every fit a ledger of its own"
            )
        return ledger


def _numbers(labels: list[Any], classes: Any) -> Any:
    """The number of each label's class, each label looked at by itself; `MISSING` for one that was not declared."""
    from discreet.trainers.dp_sgd import MISSING

    known = {label: number for number, label in enumerate(classes.tolist())}
    return np.array([known.get(label, MISSING) if _hashable(label) else MISSING for label in labels], dtype=np.int64)


def _hashable(label: Any) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


def _items(y: Any) -> list[Any]:
    """Labels one by one. numpy would make one type of all of them, and one odd label would change the others."""
    if hasattr(y, "iloc"):
        y = y.to_numpy()
    if isinstance(y, np.ndarray):
        return list((y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y).tolist())
    if not np.iterable(y) or isinstance(y, str):
        raise BadInput("fitting a classifier", "y is not a list of labels", "Give one label a row")
    return [label.item() if isinstance(label, np.generic) else label for label in y]


def _without_data(message: str) -> str:
    """scikit-learn's words without what they quote of the data."""
    plain = re.sub(r"\[.*\]", "[...]", message, flags=re.DOTALL)
    return re.sub(r"'[^']*'", "'...'", plain)


def _rows(broken: Any, x: Any) -> Any:
    return broken.reshape(-1, *[1] * (x.ndim - 1))


@lru_cache(maxsize=64)
def _planned(epsilon: str, delta: str, units: int, batch: int, epochs: int, accountant: Any, unit: Any) -> Plan:
    """A plan follows from public numbers alone, so the same fit is planned once."""
    from discreet.api import plan

    return plan(
        epsilon=epsilon,
        delta=delta,
        initial=units,
        batch=min(batch, units),
        epochs=epochs,
        accountant=accountant,
        unit=unit,
    )
