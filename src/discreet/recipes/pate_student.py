"""What a student asks in a phase of PATE, and what it learns from the answers: `discreet.trainers.students`, a phase
at a time. Also teachers and students by the name in a campaign's file, or one's own: anything with fit, predict,
get_params.

Free: it reads public records, and answers that were paid for.

Everything is a function of the file's public seed, of public records and of answers, so that a redo asks the same. What
disagreement inferred earlier is inferred again by the newest model: a student that learnt better labels better.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.campaign.recipe import PhaseContext
from discreet.config import PateConfig
from discreet.errors import BadInput
from discreet.pools import Pool, open_pool
from discreet.pools.rows import readable_rows
from discreet.recipes.feature_cache import Reader
from discreet.recipes.feature_rows import MapReader, rows_read
from discreet.recipes.labelled_records import file_labels
from discreet.records import Value
from discreet.trainers.accuracy import Evaluation
from discreet.trainers.layouts import Layout, measure
from discreet.trainers.students.disagreement import CAUTION, GROWTH, decided, disagreeing, says_one_class
from discreet.trainers.students.stored import StudentModel, flattened
from discreet.trainers.students.student import RANDOM_SHARE, ActiveStudent, Integers, margins, with_pseudo_labels

SEEN = "seen"
"""Public fact of a query by disagreement: how many records, in the student's order, were looked at."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RecordStudent(StudentModel):
    """A student on features, which takes records: ``reader`` computes their features first."""

    reader: Reader

    @property
    def on_features(self) -> StudentModel:
        """The same student, which takes features."""
        return StudentModel(model=self.model, classes=self.classes, ids=self.ids, codes=self.codes, flat=self.flat)

    def predict_proba(self, x: Any) -> Any:
        """Of every declared class, of records as a pool gives them."""
        return super().predict_proba(rows_read(self.reader, x)[:])


def of_records(student: StudentModel, reader: Reader | None) -> StudentModel:
    """The student as it takes records: through ``reader``, where it learnt from features."""
    return student if reader is None else RecordStudent(**vars(student), reader=reader)


def reader_of(config: PateConfig) -> Reader | None:
    """What makes rows of records: the feature map; None where rows are records as they are."""
    return None if config.features is None or config.features.fitted is None else MapReader(config.features.fitted)


def rows_of(config: PateConfig, pool: Pool) -> Any:
    """Records as teachers and students take them, read when they are asked for."""
    reader = reader_of(config)
    return pool.x if reader is None else reader.rows(pool.text if reader.reads == "texts" else pool.x)


def public_rows(config: PateConfig, pool: Pool, table: str = "student") -> Any:
    """All public records; a withdrawn one is zeros, and never used."""
    rows = np.array(readable_rows(rows_of(config, pool), slice(0, len(pool)))[0], dtype=np.float32)
    rows[[position for position, name in enumerate(pool.ids) if name in pool.withdrawn]] = 0.0
    return flattened(rows) if is_flat(config, table) else rows


def asked_next(config: PateConfig, context: PhaseContext, count: int) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Ids of at most ``count`` records to ask about, and public facts."""
    ids, asked = context.pool.ids, context.asked
    order = _order(config, context.pool)
    left = np.array([position for position in order if ids[position] not in asked], dtype=np.int64)
    if context.phase == 0 or config.student.ask == "passive" or not isinstance(context.model, StudentModel):
        return _named(ids, left[:count]), {SEEN: count}
    rows = public_rows(config, context.pool)
    if config.student.ask == "margin":
        return _named(ids, _torn(config, context, rows, left, count)), {}
    return _disputed(config, context, rows, order, count)


def _torn(config: PateConfig, context: PhaseContext, rows: Any, left: Integers, count: int) -> Integers:
    assert isinstance(context.model, StudentModel)
    share = RANDOM_SHARE if config.student.random_share is None else config.student.random_share
    rng = np.random.default_rng([config.student.seed, 3, context.phase])
    drawn = left[: int(count * share)]  # the next of a random order
    rest = rng.permutation(left[len(drawn) :])  # ties fall at random
    torn = rest[np.argsort(margins(context.model.model, rows[rest]), kind="stable")[: count - len(drawn)]]
    return np.concatenate([drawn, torn])


def _disputed(
    config: PateConfig, context: PhaseContext, rows: Any, order: Integers, count: int
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The next records of the order on which models still disagree; those between them are left to the student."""
    assert isinstance(context.model, StudentModel)
    seen = int(context.facts[context.phase - 1][SEEN])
    student = _student(config, context.pool, rows, context.phase)
    row_of = {name: number for number, name in enumerate(context.pool.ids)}
    student.asked, student.heard = [row_of[name] for name in context.model.ids], context.model.codes.tolist()
    table, model = config.student, context.model.model
    disagrees = disagreeing(table.oracle, table.caution or CAUTION, student.estimator, len(config.task.classes))
    open_to_all = says_one_class(model, rows[order[:seen]])
    disputed: list[int] = []
    while len(disputed) < count and seen < len(order):
        batch = order[seen : max(seen + 1, int(seen * GROWTH))]
        region = np.ones(len(batch), dtype=bool) if open_to_all else disagrees(student, model, batch)
        wanted = np.flatnonzero(region)[: count - len(disputed)]
        disputed += batch[wanted].tolist()
        seen += len(batch) if len(disputed) < count else int(wanted[-1]) + 1
    return _named(context.pool.ids, disputed), {SEEN: seen}


def learnt(config: PateConfig, context: PhaseContext, labels: Mapping[str, Value]) -> tuple[StudentModel, bytes]:
    """The student of all answers so far, and its bytes."""
    rows = public_rows(config, context.pool)
    student = _student(config, context.pool, rows, context.phase)
    row_of = {name: number for number, name in enumerate(context.pool.ids)}
    code = {name: number for number, name in enumerate(config.task.classes)}
    for name in (
        record for records in context.members.values() for record in records if record not in context.pool.withdrawn
    ):
        label = labels.get(name)
        student.asked.append(row_of[name])
        student.heard.append(code[label] if isinstance(label, str) else None)
    if config.student.ask == "disagreement":
        model = _with_inferred(config, context, student, rows)
    else:
        model = student.model()
        if config.student.pseudo_labels:
            model = with_pseudo_labels(student, model, records=_order(config, context.pool))
    places, codes = student.training_set()
    trained = StudentModel(
        model=model,
        classes=len(config.task.classes),
        ids=_named(context.pool.ids, places),
        codes=codes,
        flat=is_flat(config, "student"),
    )
    return trained, trained.to_bytes(rows[places])


def _with_inferred(config: PateConfig, context: PhaseContext, student: ActiveStudent, rows: Any) -> Any:
    """What was looked at and not asked is labelled by the model before this one."""
    seen = _order(config, context.pool)[: int(context.facts[context.phase][SEEN])]
    if isinstance(context.model, StudentModel):
        rest = np.setdiff1d(seen, student.asked)
        if len(rest):
            student.inferred |= dict(zip(rest.tolist(), context.model.model.predict(rows[rest]).tolist(), strict=True))
    return decided(student, seen)[0]


def _order(config: PateConfig, pool: Pool) -> Integers:
    """All records that may be asked about, in the student's random order: public, the same in every phase."""
    drawn = np.random.default_rng([config.student.seed, 2]).permutation(len(pool))
    return np.array(
        [position for position in drawn.tolist() if pool.ids[position] not in pool.withdrawn], dtype=np.int64
    )


def _student(config: PateConfig, pool: Pool, rows: Any, phase: int) -> ActiveStudent:
    def nobody(places: Any) -> list[str | None]:
        raise AssertionError("questions go through the campaign")

    return ActiveStudent(
        x=rows,
        ask=nobody,
        classes=config.task.classes,
        estimator=student_of(config),
        seed=config.student.seed,
        unstable=config.student.unstable,
    )


def _named(ids: list[str], places: Any) -> tuple[str, ...]:
    return tuple(ids[position] for position in np.asarray(places, dtype=np.int64).tolist())


# -- estimators


def teacher_of(config: PateConfig) -> Any:
    """The estimator that each teacher is a copy of."""
    return _built(config, "teachers", {"max_iter": 1000})


def student_of(config: PateConfig) -> Any:
    """The estimator that the student is."""
    return _built(config, "student", {"C": 0.1, "max_iter": 1000})


def is_flat(config: PateConfig, table: str) -> bool:
    """Whether records are rows of numbers to it; one's own estimator takes them in their shape."""
    return ":" not in getattr(config, table).name


def estimator_named(name: str, options: Mapping[str, Any]) -> Any:
    """By its name, or ``module:callable``, with its options."""
    maker = _maker(name)
    try:
        return maker(**options)
    except (TypeError, ValueError) as problem:
        raise BadInput(
            f"the estimator {name}", f"it does not take these options ({type(problem).__name__})", "Check their names"
        ) from None


def _built(config: PateConfig, table: str, usual: dict[str, Any]) -> Any:
    settings = getattr(config, table)
    options = dict(settings.options)
    with config.pointing(f"{table}.options" if options else f"{table}.name"):
        return estimator_named(settings.name, usual | options if settings.name == "logistic" else options)


def _maker(name: str) -> Callable[..., Any]:
    if ":" in name:
        try:
            maker: Callable[..., Any] = pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError):
            raise BadInput(f"the estimator {name}", "it cannot be imported", "Put its module on PYTHONPATH") from None
        return maker
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    from discreet.trainers.students import voting_student

    known: dict[str, Callable[..., Any]] = {
        "logistic": LogisticRegression,
        "tree": DecisionTreeClassifier,
        "forest": RandomForestClassifier,
        "voting": lambda **options: voting_student(**{"rounds": 100, **options}),
    }
    return known[name]


# -- public records in other files


def records_like(
    config: PateConfig, path: str, key: str, *, size: int | None = None, person: str | None = None
) -> Pool:
    """Records in another file that is declared as the pool is."""
    table = config.pool
    with config.pointing(key):
        return open_pool(
            config.resolve(path),
            kind=table.kind,  # type: ignore[arg-type]
            id=table.id,
            columns=table.columns,
            text=table.text,
            person=person,
            array=table.array,
            shape=table.shape,
            center=table.center,
            scale=table.scale,
            size=size,
            schema=table.schema,
        )


def evaluated(config: PateConfig, model: Any) -> Evaluation | None:
    """On public labelled records, if there are some."""
    records = evaluation_records(config)
    if records is None:
        return None
    rows, codes = records
    layout = Layout(classes=len(config.task.classes), threshold=config.task.threshold)
    return measure(model.predict_proba(rows), codes, layout)


def evaluation_records(config: PateConfig) -> tuple[Any, Any] | None:
    """Rows as a student takes them, and class numbers."""
    table = config.evaluation
    if table.path is None or table.labels is None:
        return None
    pool = records_like(config, table.path, "evaluation.path")
    labels = file_labels(config, table.labels, "evaluation.labels")
    code = {name: number for number, name in enumerate(config.task.classes)}
    known = [(position, code[str(labels[name])]) for position, name in enumerate(pool.ids) if labels.get(name) in code]
    if not known:
        raise config.error("evaluation.labels", "none of them is of a record in evaluation.path", "Check the ids")
    places, codes = np.array(known, dtype=np.int64).T
    stored, fine = readable_rows(rows_of(config, pool), places)
    rows = np.asarray(stored, dtype=np.float32)
    fine &= np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)
    return rows[fine], codes[fine]
