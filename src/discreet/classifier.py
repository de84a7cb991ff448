"""`DPClassifier`: private training under scikit-learn's habits: ``fit``, ``predict``, ``predict_proba``.

One `fit` is one campaign without questions: a plan made from public numbers, a ledger committed to it, training, a
`certificate`. Every fit on the same people spends anew; a grid search over private data spends once a
cell and fold.

What differs from other estimators, because data must not decide it:

- ``epsilon`` and ``delta`` have no default.
- ``classes`` are declared. ``classes="from-labels"`` says that the set of labels in ``y`` is public knowledge.
- Nothing is scaled by statistics of ``X``: declare ``center`` and ``scale``.
- A DataFrame keeps its column names. With ``schema`` (`discreet.pools.Schema`) its columns are numbers, dates and
  categories as declared, with gaps and unknown values as declared; other columns of it are not read. Without one all
  columns are numbers, and a record with a cell that is none is a null: leave out columns of words.
- A record with NaN or infinite values, or with a label that was not declared, is trained as a null, silently; an error
  would tell that it was there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from discreet.errors import BadInput, BudgetExceeded, LedgerUnavailable, alternatives
from discreet.features import FEATURES, FeatureMap, TableMap, build_feature_map
from discreet.planning import PlanRequest
from discreet.pools.schema import Schema
from discreet.privacy.budget import Budget, Number
from discreet.privacy.plan import Plan

if TYPE_CHECKING:
    from discreet.privacy.ledger import Ledger, Sink, Terms
    from discreet.trainers.dp_sgd import Settings

AUTO, FROM_LABELS, LINEAR = "auto", "from-labels", "linear"
PHASE = 0
LEAST_PICTURE = 8
"""Rows and columns of a picture that is scattered unasked."""


class DPClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A torch model trained by DP-SGD, as an estimator.

    Parameters: ``epsilon``, ``delta`` (the guarantee); ``classes``; ``model`` (a name of `discreet.models`, or
    ``module:callable``) with ``model_options``; ``inputs`` (the shape of one record, if not a row of numbers);
    ``batch`` (expected), ``epochs``; ``settings``: ``auto`` (a rule chooses those of a linear model, and ``batch`` and
    ``epochs`` where they are None, from public numbers), a dict of the choices of `discreet.trainers.dp_sgd.Settings`
    that are made already, or `Settings`; ``center`` and ``scale`` (public), or ``schema`` (of the columns of a
    DataFrame); ``features``: ``auto`` (for a linear model ``bins`` with a ``schema``, ``scattering`` of records whose
    ``inputs`` are pictures, else none), None, or a map of `discreet.features` or its name, with ``feature_options``:
    the model learns from features of each record alone; ``class_weight`` (a dict of declared
    weights of classes, 1 where it names none; only their ratios matter); ``accountant``; ``unit`` with ``fit(X, y,
    persons=...)``; ``ledger`` (a file that keeps the account; without one it lives as long as `fit`) and
    ``checkpoints`` (a directory: a killed `fit` goes on); ``simulation_seed`` (a number makes it a *simulation*,
    which protects nobody; it is not called random_state, because ensembles set that by themselves); ``watch(done,
    steps)``.
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
        batch: int | None = None,
        epochs: int | None = None,
        settings: Any = AUTO,
        center: Any = 0.0,
        scale: Any = 1.0,
        accountant: str = PlanRequest.accountant,
        unit: str = Budget.unit,
        ledger: Path | str | None = None,
        checkpoints: Path | str | None = None,
        simulation_seed: int | None = None,
        watch: Any = None,
        schema: Any = None,
        features: Any = AUTO,
        feature_options: dict[str, Any] | None = None,
        class_weight: Any = None,
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
        self.schema = schema
        self.features = features
        self.feature_options = feature_options
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, persons: Any = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Plan, charge, train, certify. ``persons`` says whose record each row is, where the unit is the person."""
        from discreet.privacy.ledger import terms_of
        from discreet.privacy.plan import TrainingPhase

        check_parameters(self, persons)
        data = private_data(self, X, y, persons)
        batch, epochs, settings = chosen_settings(self, data)
        plan = _planned(
            str(self.epsilon), str(self.delta), data.records.units, batch, epochs, str(self.accountant), self.unit
        )
        trainer = trainer_for(self, data, settings)
        phase, cohorts = TrainingPhase.of(plan, PHASE), {"initial": data.records}
        trainer.check(phase=phase, cohorts=cohorts)
        sink, opened = open_ledger(self, terms_of(plan))
        with opened as ledger:
            predictor = self._charged_and_trained(trainer, phase, cohorts, ledger)
            self.simulation_, self.account_ = ledger.simulation, sink.read()
        self.classes_, self.plan_, self.predictor_, self.n_iter_ = data.classes, plan, predictor, phase.steps
        return self

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Probabilities in the order of ``classes_``."""
        check_is_fitted(self)
        probabilities = self.predictor_.predict_proba(_shaped(self, rows_in(self, X)))
        probabilities[~np.isfinite(probabilities).all(axis=1)] = 1 / len(self.classes_)  # of a record that says nothing
        return probabilities

    def predict(self, X: Any) -> Any:  # noqa: N803
        """The likeliest of ``classes_``."""
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def certificate(self) -> dict[str, Any]:
        """What this fit guarantees, for anybody to check, bound to the weights that ``predictor_.save`` stores.

        See `discreet.privacy.certificate`. Audience: public.
        """
        from discreet.privacy.certificate import bound, certify, with_parts
        from discreet.privacy.ledger import Ledger, MemorySink

        check_is_fitted(self)
        identity = None if self.feature_map_ is None else self.feature_map_.identity()
        certificate = with_parts(certify(Ledger.open(MemorySink(list(self.account_)))), [], identity)
        return bound(certificate, self.predictor_.weights())

    def __sklearn_tags__(self) -> Any:
        """NaN is taken (as a null), never refused."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.simulation_seed is None
        return tags

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


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivateData:
    """What is trained on: ``records`` with the numbers of their classes, the declared ``classes``, how many
    ``columns`` a record came with, and how long one can be, if features or a schema tell.
    """

    records: Any
    classes: Any
    columns: int
    norm_bound: float | None


def private_data(estimator: DPClassifier, x: Any, y: Any, persons: Any) -> PrivateData:
    """``x`` and ``y`` as the estimator trains on them."""
    rows, labels = _validated(estimator, x, y)
    classes = _classes(estimator, labels)
    estimator.feature_map_ = _feature_map(estimator)
    records = records_of(estimator, rows, labels, classes, persons)
    columns, feature_map = estimator.n_features_in_, estimator.feature_map_
    bound = None if estimator.schema is None else math.sqrt(columns)
    if feature_map is not None:
        bound = feature_map.norm_bound
    return PrivateData(records=records, classes=classes, columns=columns, norm_bound=bound)


def _feature_map(estimator: DPClassifier) -> FeatureMap | None:
    """The declared map, for records of the declared shape or schema. It sees no record."""
    wanted, options = estimator.features, estimator.feature_options or {}
    asked = "features of a classifier"
    if isinstance(wanted, str) and wanted == AUTO:
        wanted = _usual_features(estimator)
    if wanted is None or isinstance(wanted, FeatureMap):
        if options:
            fact = "they are options of a map that is named, and none is"
            raise BadInput("feature_options", fact, "Give features='scattering', or leave them out")
        made = wanted
    elif isinstance(wanted, str):
        shape = estimator.inputs or (estimator.n_features_in_,)
        schema = None if estimator.schema is None else Schema.of(estimator.schema)
        made = build_feature_map(wanted, **{"shape": shape, "schema": schema} | options)
    else:
        fact = f"a {type(wanted).__name__} is neither a map nor a name"
        raise BadInput(asked, fact, f"Give one of {', '.join(FEATURES.names())}")
    if made is None:
        return None
    lowest = made.record_map
    if lowest.reads == "texts":
        fact = "they are of texts, and X holds numbers or a table"
        raise BadInput(asked, fact, "Give their features as X: HashedText().transform(texts)")
    if isinstance(lowest, TableMap) and (estimator.schema is None or lowest.schema != Schema.of(estimator.schema)):
        raise BadInput(asked, "they are of a table with another schema, or none is given", "Give its schema, too")
    return made


def _usual_features(estimator: DPClassifier) -> str | None:
    """The map for a linear model of records as they are declared: of a table by a schema, of pictures by a shape."""
    if estimator.model != LINEAR:
        return None
    if estimator.schema is not None:
        return "bins"
    shape = estimator.inputs or ()
    is_picture = len(shape) in (2, 3) and min(shape[-2:]) >= LEAST_PICTURE
    return "scattering" if is_picture else None


def rows_in(estimator: DPClassifier, x: Any) -> Any:
    """The numbers of records as those that ``estimator`` was fitted to, columns by name; NaN in one that is a null."""
    if estimator.schema is not None:
        return _encoded(estimator, x)
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and hasattr(x, "columns") and sorted(map(str, x.columns)) == sorted(names):
        x = x[list(names)]
    return validate_data(estimator, _numeric(x), dtype=np.float32, ensure_all_finite=False, reset=False)


def _encoded(estimator: DPClassifier, x: Any) -> Any:
    from discreet.pools.frames import schema_table

    schema = Schema.of(estimator.schema)
    if schema.text is not None:
        raise BadInput("the schema of a classifier", f"column {schema.text!r} is text", "Declare it as a category")
    rows, readable = schema.encode(schema_table(x, schema, asked="reading X"))
    rows[~readable] = np.nan
    return rows


def _numeric(x: Any) -> Any:
    """A DataFrame with its columns as numbers, NaN in a cell that is none. A column that has no numeric type is read
    cell by cell: one cell is enough for that type, so an error would tell of it.
    """
    from discreet.pools.frames import numbers_in

    if not (hasattr(x, "dtypes") and hasattr(x, "columns")):
        return x
    kinds = dict(zip(x.columns, x.dtypes, strict=True))
    if len(kinds) < len(x.columns):
        raise BadInput("reading X", "two columns have one name", "Name each column once")
    if all(_is_numeric(kind) for kind in kinds.values()):
        return x
    return type(x)({name: x[name] if _is_numeric(kind) else numbers_in(x, name) for name, kind in kinds.items()})


def _is_numeric(kind: Any) -> bool:
    """A type of numpy, pandas or polars."""
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric()) or str(kind) == "Boolean"
    return getattr(kind, "kind", "O") in "biuf"


def check_parameters(estimator: DPClassifier, persons: Any) -> None:
    """Refuse parameters that no fit could have, before any data is looked at."""
    if estimator.epsilon is None or estimator.delta is None:
        raise BadInput("fitting a private classifier", "epsilon or delta is missing", "Declare both: the guarantee")
    if estimator.checkpoints is not None and estimator.ledger is None:
        raise BadInput("checkpoints", "a fit goes on only with the ledger that paid for it", "Give ledger, too")
    if (estimator.unit == "person") != (persons is not None):
        raise BadInput(
            f"fitting for the {estimator.unit}",
            "persons are named, and not protected, or the other way round",
            'Use unit="person" with fit(X, y, persons=...)',
        )
    for name in ("batch", "epochs"):
        value = getattr(estimator, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer))):
            raise BadInput(f"{name}={value!r}", "it is not a whole number", "Count again")
    try:
        center, scale = np.asarray(estimator.center, dtype=np.float64), np.asarray(estimator.scale, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("center or scale", "they are not numbers", "Give public constants") from None
    if estimator.schema is not None and (center.any() or (scale != 1).any()):
        raise BadInput("center and scale", "the schema declares what numbers become", "Leave them out")
    if not (np.isfinite(center).all() and np.isfinite(scale).all() and (scale != 0).all()):
        raise BadInput("center or scale", "a scale is 0, or one is not finite", "Give public constants")


def _validated(estimator: DPClassifier, x: Any, y: Any) -> tuple[Any, Any]:
    """Shapes and types are checked, values are not: whether a record is in order is private.

    Where the set of labels is public, labels are checked as scikit-learn does.
    """
    public = isinstance(estimator.classes, str) and estimator.classes == FROM_LABELS
    x = _numeric(x) if estimator.schema is None else _encoded(estimator, x)
    try:
        with np.errstate(all="ignore"):
            if public:
                x, y = validate_data(estimator, x, y, dtype=np.float32, ensure_all_finite=False)
            else:
                x = validate_data(estimator, x, dtype=np.float32, ensure_all_finite=False)
    except (TypeError, ValueError) as refused:
        kind = TypeError if isinstance(refused, TypeError) else ValueError
        raise kind(_without_data(str(refused))) from None
    if estimator.schema is not None:
        estimator.feature_names_in_ = np.array(Schema.of(estimator.schema).names, dtype=object)
        estimator.n_features_in_ = len(estimator.feature_names_in_)
    if public:
        check_classification_targets(y)
        return x, column_or_1d(y).tolist()
    labels = labels_in(y)
    if len(labels) != len(x):
        raise BadInput("fitting a classifier", "X and y are not equally long", "Give one label a row")
    return x, labels


def _classes(estimator: DPClassifier, y: Any) -> Any:
    if estimator.classes is None:
        raise BadInput(
            "fitting a private classifier",
            "its classes are not declared, and the labels of private records must not name them",
            'Give classes=[...], or classes="from-labels" if the set of labels is public',
        )
    public = isinstance(estimator.classes, str) and estimator.classes == FROM_LABELS
    declared = np.iterable(estimator.classes) and not isinstance(estimator.classes, str)
    classes = np.unique(y) if public else np.asarray(list(estimator.classes) if declared else 0)
    if classes.ndim != 1 or len(set(classes.tolist())) != len(classes):
        raise BadInput("classes", "they are not a list of different labels of one kind", "Give each class once")
    if len(classes) < 2:
        raise BadInput("fitting a classifier", "there is only one class", "Declare at least 2 classes")
    return classes


def records_of(estimator: DPClassifier, x: Any, labels: list[Any], classes: Any, persons: Any = None) -> Any:
    """Records for the trainer. One that is not finite, or whose label was not declared, is a null."""
    from discreet.trainers.dp_sgd import MISSING, CohortRecords

    shaped = _shaped(estimator, x)
    broken = ~np.isfinite(shaped).reshape(len(shaped), -1).all(axis=1)
    shaped = np.where(broken.reshape(-1, *[1] * (shaped.ndim - 1)), np.float32(0), shaped)
    whose = persons if estimator.unit == "person" else None
    return CohortRecords(x=shaped, y=np.where(broken, MISSING, _numbers(labels, classes)), persons=whose)


def _shaped(estimator: DPClassifier, x: Any) -> Any:
    with np.errstate(all="ignore"):
        try:
            moved = ((x - estimator.center) / estimator.scale).astype(np.float32)
        except ValueError:
            raise BadInput("center or scale", "they do not fit the columns of X", "Give one number a column") from None
    if moved.shape != x.shape:
        raise BadInput("center or scale", "they do not fit the columns of X", "Give one number a column")
    if estimator.inputs is not None:
        if int(np.prod(estimator.inputs)) != x.shape[1]:
            fact = f"records have {x.shape[1]} numbers"
            raise BadInput(f"inputs={estimator.inputs}", fact, "Give a shape of that size")
        moved = moved.reshape(len(moved), *estimator.inputs)
    feature_map = estimator.feature_map_ if hasattr(estimator, "feature_map_") else _feature_map(estimator)
    if feature_map is None:
        return moved
    features, readable = feature_map.of_inputs(moved)
    features[~readable] = np.nan  # a null, as of records without features
    return features


def chosen_settings(estimator: DPClassifier, data: PrivateData) -> tuple[int, int, Settings]:
    """Batch, epochs and the trainer's settings: those given, the rest by default or by the rule for public numbers."""
    from discreet.trainers.dp_sgd import Settings, automatic_settings

    wanted = Settings() if estimator.settings is None else estimator.settings
    if isinstance(wanted, str) and wanted != AUTO:
        raise BadInput(f"settings={wanted!r}", "it is not Settings", f'Give Settings(...), or "{AUTO}"')
    known = {part.name for part in fields(Settings)}
    given = dict(wanted) if isinstance(wanted, Mapping) else {}
    if strange := [name for name in given if name not in known]:
        raise BadInput(f"settings with {strange[0]!r}", "it is none of Settings", alternatives(str(strange[0]), known))
    budget = Budget(epsilon=estimator.epsilon, delta=estimator.delta, unit=estimator.unit)  # type: ignore[arg-type]
    rule = automatic_settings(
        labels=data.records.units,
        epsilon=float(budget.epsilon),
        delta=float(budget.delta),
        classes=len(data.classes),
        dimension=math.prod(data.records.x.shape[1:]),
        norm_bound=data.norm_bound,
        linear=estimator.model == LINEAR and not isinstance(wanted, Settings),
        weighted=estimator.class_weight is not None,
        batch=None if estimator.batch is None else int(estimator.batch),
        epochs=None if estimator.epochs is None else int(estimator.epochs),
        given=given,
    )
    return rule.batch, rule.epochs, wanted if isinstance(wanted, Settings) else rule.settings


def trainer_for(estimator: DPClassifier, data: PrivateData, settings: Settings) -> Any:
    """A new model for these records, in its trainer."""
    from discreet.models import build_model
    from discreet.trainers.dp_sgd import DPSGD, WeightedCrossEntropy

    inputs, count = tuple(data.records.x.shape[1:]), len(data.classes)
    if estimator.class_weight is not None:
        settings = replace(settings, loss=WeightedCrossEntropy(_class_weights(estimator, data.classes, settings)))
    return DPSGD(
        build_model(estimator.model, inputs=inputs, classes=count, **(estimator.model_options or {})),
        classes=count,
        settings=settings,
        checkpoints=estimator.checkpoints,
        watch=estimator.watch,
    )


def _class_weights(estimator: DPClassifier, classes: Any, settings: Settings) -> list[float]:
    """In the order of the classes."""
    weights, known = estimator.class_weight, classes.tolist()
    if isinstance(weights, str):
        raise BadInput(f"class_weight={weights!r}", "it would count private labels", "Declare a number for each class")
    if not isinstance(weights, Mapping) or not set(weights) <= set(known):
        raise BadInput("class_weight", "it is not a dict of declared classes", 'Give e.g. {"no": 1, "yes": 8}')
    if any(isinstance(weight, bool) or not isinstance(weight, (int, float, np.number)) for weight in weights.values()):
        raise BadInput("class_weight", "a weight is not a number", 'Give e.g. {"no": 1, "yes": 8}')
    if settings.loss != "cross-entropy":
        raise BadInput("class_weight", "weights are for the usual loss", "Leave loss out of settings")
    return [float(weights.get(name, 1)) for name in known]


def open_ledger(estimator: DPClassifier, terms: Terms) -> tuple[Sink, Ledger]:
    """The ledger that pays, committed to ``terms``: in the estimator's file, or in memory; and where its lines are."""
    from discreet.noise import source_of
    from discreet.privacy.ledger import FileSink, Ledger, MemorySink

    if estimator.ledger is not None and not Path(estimator.ledger).parent.is_dir():
        raise BadInput(f"ledger={estimator.ledger}", "its directory does not exist", "Create it first")
    sink: Sink = MemorySink() if estimator.ledger is None else FileSink(estimator.ledger)
    source = source_of(estimator.simulation_seed)
    if not sink.read():
        return sink, Ledger.create(sink, terms, source=source)
    ledger = Ledger.open(sink, source=source)
    if ledger.terms != terms:
        ledger.close()
        raise LedgerUnavailable(
            "fitting with this ledger", "it is committed to another plan", "Give every fit a ledger of its own"
        )
    return sink, ledger


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


def labels_in(y: Any) -> list[Any]:
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
