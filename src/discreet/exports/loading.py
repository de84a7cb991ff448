"""An exported model, from its directory alone: no campaign, no store, no pool.

Guarantee: reading runs no code that the directory names. A model of somebody's own (``module:callable``) is built only
if the caller says the same name; weights are safetensors; every file is compared with its hash first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, InvalidCheckpoint
from discreet.exports.model_form import ENCODER, WEIGHTS, check_files, features_in, read_form
from discreet.features import feature_map_from_json
from discreet.features.encoders import FrozenEncoder
from discreet.pools.rows import Scaling
from discreet.pools.schema import Schema
from discreet.recipes.feature_cache import Reader
from discreet.recipes.feature_rows import MapReader, record_shape
from discreet.recipes.specification import CLASSIFIER, STUDENT
from discreet.trainers.layouts import answers_of

if TYPE_CHECKING:
    from discreet.trainers.torch_predictor import TorchPredictor

Labels = list[str] | list[tuple[str, ...]]


class ExportedModel:
    """Predicts as the campaign does that it came from. Made by `load_model`. ``form``: all of its model.json."""

    def __init__(self, predictor: Any, form: dict[str, Any]) -> None:
        self._predictor, self.form = predictor, form
        self.classes: tuple[str, ...] = tuple(form["classes"])
        self.task: str = form["task"]
        self.features = features_in(form)

    @property
    def claim(self) -> dict[str, Any]:
        """Epsilon, delta, unit and relation, as the certificate beside it proves. None of it covers predictions."""
        return dict(self.form["claim"])

    @property
    def reads_text(self) -> bool:
        """Whether records are texts."""
        if self.features is not None:
            return self.features.record_map.reads == "texts"
        return bool({"encoder", "normalisation"} & set(self.form["preprocessing"]))

    @property
    def record_shape(self) -> tuple[int, ...]:
        """The shape of a record of numbers."""
        return tuple(self.form["inputs"]) if self.features is None else record_shape(self.features)

    def predict_proba(self, x: Any, *, raw: bool = False) -> NDArray[np.float32]:
        """(n, C): of each class, or of each label. Texts: a list of strings. ``raw``: scale numbers first, as declared.
        A table (frame, Arrow table, columns by name) is encoded by the model's schema; a null record is zeros.

        What it says of private records is private.
        """
        if self.reads_text:
            texts = [x] if isinstance(x, str) else x
            return np.asarray(self._predictor.predict_proba(self._normalised(texts)), dtype=np.float32)
        is_table = "schema" in self.form["preprocessing"] and not isinstance(x, np.ndarray)
        values = self.scaled(x) if raw or is_table else np.asarray(x)
        inputs = self.record_shape
        if values.shape[1:] != inputs or values.dtype.kind not in "biuf":
            raise BadInput(
                "records to predict", f"a record of this model is numbers of shape {inputs}", "Give a row a record"
            )
        return np.asarray(self._predictor.predict_proba(values), dtype=np.float32)

    def _normalised(self, texts: Any) -> Any:
        """As the gate did it whose released texts the model learnt from; others are taken as they are."""
        steps = self.form["preprocessing"].get("normalisation")
        if steps is None:
            return texts
        from discreet.gates.values import Normaliser

        normal = Normaliser(steps)
        return [normal.one(str(text)) or "" for text in texts]

    def predict(self, x: Any, *, raw: bool = False, threshold: float | Mapping[str, float] | None = None) -> Labels:
        """The likeliest class of each record; of several labels, those above ``threshold`` (one, or one a label).

        Of two classes: the second from ``threshold`` on, the declared one if none is given.
        """
        return self.labels_of(self.predict_proba(x, raw=raw), threshold)

    def labels_of(self, probabilities: NDArray[Any], threshold: float | Mapping[str, float] | None = None) -> Labels:
        """Labels of probabilities."""
        if self.task != "multilabel":
            if threshold is not None and (len(self.classes) != 2 or isinstance(threshold, Mapping)):
                raise BadInput("a threshold", "it is one number, of a model with two classes", "Leave it out")
            limit = self.form.get("threshold") if threshold is None else float(self._limits(threshold)[1])
            return [self.classes[number] for number in answers_of(probabilities, limit).tolist()]
        above = probabilities > self._limits(threshold)
        return [tuple(name for name, holds in zip(self.classes, row, strict=True) if holds) for row in above.tolist()]

    def _limits(self, threshold: float | Mapping[str, float] | None) -> NDArray[np.float64]:
        usual = self.form["threshold"] if threshold is None or isinstance(threshold, Mapping) else threshold
        by_label = dict(threshold) if isinstance(threshold, Mapping) else {}
        if unknown := len(set(by_label) - set(self.classes)):
            raise BadInput("thresholds", f"{unknown} are of labels that this model does not have", "See its classes")
        limits = np.array([by_label.get(name, usual) for name in self.classes], dtype=np.float64)
        if not ((limits >= 0) & (limits <= 1)).all():
            raise BadInput("a threshold", "it is not between 0 and 1", "Try 0.5")
        return limits

    def scaled(self, x: Any) -> NDArray[Any]:
        """Numbers as the campaign's pool scaled them: (value - center) / scale, declared; or a table, by its schema."""
        read = self.form["preprocessing"]
        if "schema" in read:
            rows, readable = Schema.from_json(read["schema"]).encode(x)
            if self.features is not None:  # zeros are a record, too
                rows[~readable] = np.nan
            return rows
        values = np.asarray(x)
        inputs = self.record_shape
        try:
            values = values.reshape(len(values), *inputs)
        except (TypeError, ValueError):
            raise BadInput("records to scale", f"they are not rows of shape {inputs}", "Give a row a record") from None
        return Scaling(read.get("center", 0.0), read.get("scale", 1.0), inputs).applied(values)

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<ExportedModel {self.form['name']}: {self.form['model']['name']}, {len(self.classes)} classes>"


def load_model(
    directory: Path | str, *, model: str | None = None, encoder: Path | str | None = None, device: str = "auto"
) -> ExportedModel:
    """The model in a directory that `discreet export` wrote.

    model     of somebody's own model: its ``module:callable``, as a sign that you want that code to run
    encoder   where the public encoder is (a path, or module:callable), if the export has no copy of it
    """
    export = Path(directory)
    form = read_form(export)
    check_files(export, form)
    weights = form.get("weights")
    if weights == CLASSIFIER:
        from discreet.trainers.text_classifier import TextClassifier

        if encoder is not None or model is not None:
            raise BadInput("loading a model of texts", "it has no encoder, and no code of its own", "Leave it out")
        return ExportedModel(TextClassifier.from_bytes((export / CLASSIFIER).read_bytes()), form)
    if weights == STUDENT:
        return ExportedModel(_student(export, form, model), form)
    try:
        read, described = form["preprocessing"], form["model"]
        name, inputs, classes = described["name"], tuple(form["inputs"]), len(form["classes"])
        options, dropout, task = dict(described["options"]), described["dropout"], form["task"]
        _check_own(name, model)
        folder = _encoder(export, read, encoder)
        if folder is not None and "encoder" in read and not {"path", "config"} & set(options):
            options["path"] = folder
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        if isinstance(problem, BadInput):
            raise
        raise InvalidCheckpoint(
            f"the model in {export.name}", "its model.json does not say what it is", "Export it again"
        ) from None
    from discreet.models import build_model
    from discreet.recipes.learning import from_bytes

    module = build_model(name, inputs=inputs, classes=classes, dropout=dropout, **options)
    filled = from_bytes((export / WEIGHTS).read_bytes(), module)
    return ExportedModel(_predictor(filled, task, device, form, folder), form)


def _student(export: Path, form: dict[str, Any], wanted: str | None) -> Any:
    """Of teachers. A linear one is its weights; another one is fitted again to what it learnt from."""
    from discreet.recipes.pate_student import estimator_named, of_records
    from discreet.trainers.students.stored import student_from_bytes

    try:
        described = form["model"]
        name, options, seed = str(described["name"]), dict(described["options"]), int(described["seed"])
    except (KeyError, TypeError, ValueError):
        raise InvalidCheckpoint(
            f"the model in {export.name}", "its model.json does not say what it is", "Export it again"
        ) from None
    _check_own(name, wanted)
    content, features = (export / STUDENT).read_bytes(), features_in(form)
    student = student_from_bytes(content, estimator=estimator_named(name, options), seed=seed)
    return of_records(student, None if features is None else MapReader(features))


def _predictor(module: Any, task: Any, device: str, form: dict[str, Any], folder: Path | str | None) -> TorchPredictor:
    from discreet.recipes.record_predictor import RecordPredictor
    from discreet.trainers.torch_predictor import TorchPredictor

    features = features_in(form)
    reader: Reader | None = None
    if features is not None:
        reader = MapReader(features if folder is None else features.located(folder))
    elif folder is not None:
        reader = _text_reader(form["preprocessing"]["encoder"], folder)
    if reader is None:
        return TorchPredictor(module, task=task, device=device)
    return RecordPredictor(module, reader=reader, task=task, device=device)


def _text_reader(words: dict[str, Any], folder: Path | str) -> Reader:
    from discreet.recipes.texts import MAX_LENGTH, TokenReader

    return TokenReader(Path(folder), max_length=words["max_length"] or MAX_LENGTH)


def _check_own(name: str, wanted: str | None) -> None:
    """Code of somebody's runs only if it is asked for by name."""
    foreign = ":" in name and not name.startswith("timm:")
    if wanted is not None and wanted != name:
        raise BadInput(f"the model {wanted}", f"the export is of {name}", "Name that one, or leave it out")
    if foreign and wanted is None:
        raise BadInput(
            f"loading a model of {name}", "that is code of its maker's, and would be run", f"Say so: model={name!r}"
        )


def _encoder(export: Path, read: dict[str, Any], given: Path | str | None) -> Path | str | None:
    """Where the encoder is: in the export, or where the caller says. A function of its maker's runs if it is named."""
    features = feature_map_from_json(read["features"]).record_map if "features" in read else None
    if "encoder" not in read and not isinstance(features, FrozenEncoder):
        return None
    if given is not None:
        return given
    if (export / ENCODER).is_dir():
        return features.place_in(export / ENCODER) if isinstance(features, FrozenEncoder) else export / ENCODER
    name = next(iter(features.files)) if isinstance(features, FrozenEncoder) else read["encoder"]["name"]
    raise BadInput(
        "loading a model that reads records by an encoder",
        f"its encoder, {name}, is not in the export",
        "Give its place, or its module:callable: encoder=... (--encoder)",
    )
