"""K teachers on disjoint parts of the private data, and their votes on public records.

Guarantee: one unit is with one teacher (`splitting`), and a teacher's votes are a function of its own records, of
public things and of secret keys. So one unit moves at most one vote a question: the premise of every aggregator's price
(docs/proofs/teachers.md). The votes themselves are paid for by nobody: audience owner.

Records that cannot be used (a label that is no declared class, a row that is not finite) are nulls: their teacher
learns without them, and nobody is told.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.keyed import SecretKey
from discreet.records import Votes
from discreet.trainers.teachers.cache import TeacherCache, hash_of, settings_of
from discreet.trainers.teachers.fitting import Lesson, Taught, seeded, teach_one
from discreet.trainers.teachers.linear import LinearVoter, linear_counts
from discreet.trainers.teachers.splitting import split

Progress = Callable[[int, int], None]
"""Called with how many teachers are done, of how many. Both are public."""
_TOGETHER = 16
"""Teachers of one task for a process: they are small."""


def train_teachers(
    x: Any,
    y: Sequence[str | None] | NDArray[Any],
    *,
    units: Sequence[str],
    public: Any,
    public_ids: Sequence[str],
    classes: Sequence[str],
    teachers: int,
    estimator: Any,
    key: SecretKey,
    unit: Literal["record", "person"] = "record",
    processes: int = 1,
    cache: Path | None = None,
    progress: Progress = lambda done, of: None,
) -> Votes:
    """Votes of ``teachers`` copies of ``estimator`` (with scikit-learn's fit, predict, get_params) on ``public``.

    units       the unit's id of each private record: the record's own, or its person's
    unit        which of the two: what a ledger must protect that answers from these votes
    classes     the declared class names; a label that is none of them makes its record a null
    key         secret: splits units, seeds teachers, names cached files
    processes   how many train at once; private records go to them through pipes, never to files
    cache       a directory of the owner, where teachers are kept: an interrupted training goes on
    """
    rows, codes = _private(x, y, units, classes)
    public_rows = _public(public, public_ids, rows)
    rehearse(estimator, public_rows, len(classes))
    of = split(units, teachers=teachers, key=key)
    seeds = (key.derive("teacher seeds").words([str(k) for k in range(teachers)]) >> np.uint64(33)).tolist()
    usable = np.flatnonzero(codes >= 0)
    order = usable[np.argsort(of[usable], kind="stable")]
    ends = np.searchsorted(of[order], np.arange(teachers + 1))
    lessons = (
        Lesson(place=k, x=rows[order[ends[k] : ends[k + 1]]], y=codes[order[ends[k] : ends[k + 1]]], seed=int(seeds[k]))
        for k in range(teachers)
    )
    kept = None
    if cache is not None:
        settings = f"{settings_of(estimator)} of {len(classes)} classes"
        kept = TeacherCache(cache, key=key, settings=settings, public=hash_of(public_rows))
    taught = _all_taught(estimator, lessons, public_rows, len(classes), processes, kept)
    counts = _counted(taught, public_rows, len(classes), teachers, progress)
    return Votes(ids=tuple(public_ids), classes=tuple(classes), counts=counts, teachers=teachers, unit=unit)


def _private(x: Any, y: Any, units: Sequence[str], classes: Sequence[str]) -> tuple[Any, NDArray[np.int64]]:
    if isinstance(y, np.ndarray) and y.dtype.kind not in "OUT":  # of its type alone: what it holds is private
        raise BadInput("labels for teachers", "they are an array of numbers", "Give class names, as text")
    rows, labels = np.asarray(x), list(y)
    if rows.ndim < 2 or rows.dtype.kind not in "fiub" or not len(rows) == len(labels) == len(units):
        raise BadInput("private records for teachers", "rows, labels and units are not as many", "Give one each")
    if len(set(classes)) != len(classes) or len(classes) < 2:
        raise BadInput("the classes of teachers", "there are fewer than two, or one twice", "Declare each once")
    place = {name: number for number, name in enumerate(classes)}
    codes = np.array([place.get(label, -1) if isinstance(label, str) else -1 for label in labels], dtype=np.int64)
    if rows.dtype.kind == "f":
        codes[~np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)] = -1
    return rows, codes


def _public(public: Any, ids: Sequence[str], private: Any) -> Any:
    rows = np.asarray(public)
    if rows.shape[1:] != private.shape[1:] or len(rows) != len(ids) or not len(rows):
        raise BadInput(
            f"{len(ids)} public records for teachers",
            "they are not an id a row, or not of the private records' shape",
            "Prepare both in the same way",
        )
    if rows.dtype.kind not in "fiub" or (rows.dtype.kind == "f" and not np.isfinite(rows).all()):
        raise BadInput(
            "public records for teachers", "a number is missing or not finite", "Fill it in, or drop the row"
        )
    return rows


def rehearse(estimator: Any, public: Any, classes: int) -> None:
    """Fit made-up records of the public ones' shape: an estimator that cannot work is refused before any teacher is."""
    rng = np.random.default_rng(0)
    y = np.arange(max(40, 4 * classes)) % classes
    x = rng.normal(size=(len(y), *public.shape[1:])).astype(public.dtype if public.dtype.kind == "f" else np.float64)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = np.asarray(seeded(estimator, 0).fit(x, y).predict(x))
    except Exception as problem:  # noqa: BLE001 - whatever a stranger's estimator raises
        raise BadInput(
            "an estimator for teachers",
            f"fitting it to made-up records of this shape raised {type(problem).__name__}",
            "Give a classifier with fit, predict and get_params that takes these records",
        ) from None
    if found.shape != y.shape or not np.isin(found, y).all():
        raise BadInput("an estimator for teachers", "it does not predict a class a row", "Give a classifier")


def _all_taught(
    estimator: Any, lessons: Iterator[Lesson], public: Any, classes: int, processes: int, kept: TeacherCache | None
) -> Iterator[Taught]:
    def found() -> Iterator[tuple[Lesson, Taught | None]]:
        for lesson in lessons:
            yield lesson, None if kept is None else kept.find(lesson)

    if processes == 1:
        for lesson, known in found():
            taught = known or teach_one(estimator, lesson, public, classes)
            if known is None and kept is not None:
                kept.keep(lesson, taught)
            yield taught
        return
    missing: list[Lesson] = []
    for lesson, known in found():
        if known is None:
            missing.append(lesson)
        else:
            yield known
    yield from _in_processes(estimator, missing, public, classes, processes, kept)


def _in_processes(
    estimator: Any, missing: list[Lesson], public: Any, classes: int, processes: int, kept: TeacherCache | None
) -> Iterator[Taught]:
    from joblib import Parallel, delayed

    # max_nbytes=None: no array is put into a file that other processes could map
    pool = Parallel(n_jobs=processes, return_as="generator_unordered", max_nbytes=None, batch_size=1)
    tasks = [missing[start : start + _TOGETHER] for start in range(0, len(missing), _TOGETHER)]
    by_place = {lesson.place: lesson for lesson in missing}
    for some in pool(delayed(_teach_some)(estimator, task, public, classes) for task in tasks):
        for taught in some:
            if kept is not None:
                kept.keep(by_place[taught.place], taught)
            yield taught


def _teach_some(estimator: Any, lessons: Sequence[Lesson], public: Any, classes: int) -> list[Taught]:
    return [teach_one(estimator, lesson, public, classes) for lesson in lessons]


def _counted(
    taught: Iterator[Taught], public: Any, classes: int, teachers: int, progress: Progress
) -> NDArray[np.int64]:
    """Votes of all. Linear teachers stand in their own places, whoever was done first: products round by the place of a
    column, and one teacher's records must not move another's vote.
    """
    counts = np.zeros((len(public), classes), dtype=np.int64)
    linear: dict[int, LinearVoter] = {}
    rows = np.arange(len(public))
    for done, one in enumerate(taught, start=1):
        if one.linear is not None:
            linear[one.place] = one.linear
        elif one.votes is not None:
            counts[rows, one.votes] += 1
        progress(done, teachers)
    if linear:
        counts += linear_counts([linear[place] for place in sorted(linear)], public, classes)
    return counts
