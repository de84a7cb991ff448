"""K teachers on disjoint parts of the private data, and their votes on public records.

Guarantee: one unit is with one teacher (`splitting`), and a teacher's votes are a function of its own records, of
public things and of secret keys. So one unit moves at most one vote a question: the premise of every aggregator's price
(docs/proofs/teachers.md). The votes themselves are paid for by nobody: audience owner.

Records that cannot be used (a label that is no declared class, a row that is not finite) are nulls: their teacher
learns without them, and nobody is told.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.keys import SecretKey
from discreet.pools.array_files import array_bytes, arrays_in
from discreet.privacy.budget import exact_minus, exact_times, share_of
from discreet.records import Votes
from discreet.trainers.teachers.fitting import (
    LinearVoter,
    TeacherTask,
    TrainedTeacher,
    fit_teacher,
    linear_counts,
    seeded,
)

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
    tasks = (
        TeacherTask(
            number=k, x=rows[order[ends[k] : ends[k + 1]]], y=codes[order[ends[k] : ends[k + 1]]], seed=int(seeds[k])
        )
        for k in range(teachers)
    )
    cached = None
    if cache is not None:
        settings = f"{settings_of(estimator)} of {len(classes)} classes"
        cached = TeacherCache(cache, key=key, settings=settings, public=hash_of(public_rows))
    taught = _all_taught(estimator, tasks, public_rows, len(classes), processes, cached)
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
    code_of = {name: number for number, name in enumerate(classes)}
    codes = np.array([code_of.get(label, -1) if isinstance(label, str) else -1 for label in labels], dtype=np.int64)
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
            predicted = np.asarray(seeded(estimator, 0).fit(x, y).predict(x))
    except Exception as problem:  # noqa: BLE001 - whatever a stranger's estimator raises
        raise BadInput(
            "an estimator for teachers",
            f"fitting it to made-up records of this shape raised {type(problem).__name__}",
            "Give a classifier with fit, predict and get_params that takes these records",
        ) from None
    if predicted.shape != y.shape or not np.isin(predicted, y).all():
        raise BadInput("an estimator for teachers", "it does not predict a class a row", "Give a classifier")


def _all_taught(
    estimator: Any,
    tasks: Iterator[TeacherTask],
    public: Any,
    classes: int,
    processes: int,
    cache: TeacherCache | None,
) -> Iterator[TrainedTeacher]:
    missing: list[TeacherTask] = []
    for task in tasks:
        taught = None if cache is None else cache.find(task)
        if taught is None and processes > 1:
            missing.append(task)
            continue
        if taught is None:
            taught = fit_teacher(estimator, task, public, classes)
            if cache is not None:
                cache.keep(task, taught)
        yield taught
    if missing:
        yield from _in_processes(estimator, missing, public, classes, processes, cache)


def _in_processes(
    estimator: Any, missing: list[TeacherTask], public: Any, classes: int, processes: int, cache: TeacherCache | None
) -> Iterator[TrainedTeacher]:
    from joblib import Parallel, delayed

    # max_nbytes=None: no array is put into a file that other processes could map
    pool = Parallel(n_jobs=processes, return_as="generator_unordered", max_nbytes=None, batch_size=1)
    groups = [missing[start : start + _TOGETHER] for start in range(0, len(missing), _TOGETHER)]
    by_number = {task.number: task for task in missing}
    for some in pool(delayed(_teach_some)(estimator, group, public, classes) for group in groups):
        for taught in some:
            if cache is not None:
                cache.keep(by_number[taught.number], taught)
            yield taught


def _teach_some(estimator: Any, tasks: Sequence[TeacherTask], public: Any, classes: int) -> list[TrainedTeacher]:
    return [fit_teacher(estimator, task, public, classes) for task in tasks]


def _counted(
    taught: Iterator[TrainedTeacher], public: Any, classes: int, teachers: int, progress: Progress
) -> NDArray[np.int64]:
    """Votes of all. Linear teachers stand in their own places, whoever was done first: products round by the place of a
    column, and one teacher's records must not move another's vote.
    """
    counts = np.zeros((len(public), classes), dtype=np.int64)
    linear: dict[int, LinearVoter] = {}
    rows = np.arange(len(public))
    for done, teacher in enumerate(taught, start=1):
        if teacher.linear is not None:
            linear[teacher.number] = teacher.linear
        elif teacher.votes is not None:
            counts[rows, teacher.votes] += 1
        progress(done, teachers)
    if linear:
        counts += linear_counts([linear[number] for number in sorted(linear)], public, classes)
    return counts


# Which teacher learns from which unit: a keyed hash of the unit's id, and nothing else.
#
# Guarantee: all records of a unit are with one teacher, whatever else is in the data, and no unit is with two. The
# split
# tells nothing: it is a function of ids, which are public, and of a secret key (docs/proofs/keyed-hashing.md).


MOST_TEACHERS = 100_000


def split(units: Sequence[str], *, teachers: int, key: SecretKey) -> NDArray[np.int64]:
    """The teacher, from 0, of each of ``units`` (the unit's id of each record)."""
    if type(teachers) is not int or not 2 <= teachers <= MOST_TEACHERS:
        raise BadInput(
            f"{teachers} teachers", f"it is no whole number from 2 to {MOST_TEACHERS}", "Give one, such as 250"
        )
    if not all(isinstance(unit, str) for unit in units):
        raise BadInput(
            "splitting units among teachers", "an id is not text", "Give every record its unit's id, as text"
        )
    each = share_of(Decimal(1), teachers, places=18)
    last = exact_minus(Decimal(1), exact_times(each, teachers - 1))
    return key.derive("teachers").shards(units, [each] * (teachers - 1) + [last])


# Teachers that were trained before, by a keyed hash of everything they were trained from. For the owner alone.
#
# A file is named by PRF(key, hash of the estimator's settings, the records, the seed and the public records), so that
# its name says nothing to others, and holds arrays only: no code is ever read from it. Readable by its owner alone.


UNREADABLE = (OSError, ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""What a file of arrays that was cut off or overwritten may raise."""


class TeacherCache:
    """A directory of teachers. ``settings`` names the estimator, ``public`` hashes the public records."""

    def __init__(self, directory: Path, *, key: SecretKey, settings: str, public: str) -> None:
        self._directory, self._key = directory, key.derive("teacher cache")
        self._about = f"{settings}\0{public}".encode()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def find(self, task: TeacherTask) -> TrainedTeacher | None:
        """The teacher of this task, if it was kept; a file that cannot be read is as good as none."""
        try:
            with arrays_in(self._path(task).read_bytes()) as held:
                if "votes" in held:
                    return TrainedTeacher(number=task.number, votes=held["votes"].astype(np.int64))
                return TrainedTeacher(
                    number=task.number, linear=LinearVoter(weights=held["weights"], offsets=held["offsets"])
                )
        except UNREADABLE:
            return None

    def keep(self, task: TeacherTask, taught: TrainedTeacher) -> None:
        """Write it whole or not at all. One that failed is not kept: it may do better the next time."""
        if taught.failed:
            return
        parts: dict[str, Any] = {}
        if taught.linear is not None:
            parts = {"weights": taught.linear.weights, "offsets": taught.linear.offsets}
        elif taught.votes is not None:
            parts = {"votes": taught.votes.astype(np.int16)}
        handle, name = tempfile.mkstemp(dir=self._directory, suffix=".part")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **parts)
            Path(name).replace(self._path(task))
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _path(self, task: TeacherTask) -> Path:
        digest = hashlib.sha256(self._about)
        for part in (np.ascontiguousarray(task.x), np.ascontiguousarray(task.y)):
            digest.update(f"{part.shape}{part.dtype}".encode())
            digest.update(part.tobytes())
        digest.update(str(task.seed).encode())
        return self._directory / f"{self._key.derive(digest.hexdigest()).fingerprint}.npz"


def settings_of(estimator: Any) -> str:
    """An estimator by its class, its parameters and its library's version."""
    import sklearn

    kind = type(estimator)
    settings = sorted((name, repr(value)) for name, value in estimator.get_params().items())
    return f"{kind.__module__}.{kind.__qualname__} {settings} scikit-learn {sklearn.__version__}"


def hash_of(rows: Any) -> str:
    """Names the content of an array."""
    held = np.ascontiguousarray(rows)
    return hashlib.sha256(f"{held.shape}{held.dtype}".encode() + held.tobytes()).hexdigest()


# Votes in a file: arrays alone, readable by their owner alone. Audience: owner.


_FORMAT = "discreet.votes/1"


def write_votes(votes: Votes, path: Path | str) -> None:
    """Write ``votes`` to a new file of mode 0600."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(votes_to_bytes(votes))


def votes_to_bytes(votes: Votes) -> bytes:
    """The same, for a store that keeps files by their hash. Audience: owner."""
    return array_bytes(
        np.savez_compressed,
        format=np.array(_FORMAT),
        ids=np.array(votes.ids, dtype=np.str_),
        classes=np.array(votes.classes, dtype=np.str_),
        counts=votes.counts.astype(np.int32),
        teachers=np.array(votes.teachers),
        unit=np.array(votes.unit),
    )


def read_votes(path: Path | str) -> Votes:
    """The votes in a file."""
    try:
        with arrays_in(Path(path).read_bytes()) as held:
            if str(held["format"]) != _FORMAT:
                raise KeyError
            return Votes(
                ids=tuple(held["ids"].tolist()),
                classes=tuple(held["classes"].tolist()),
                counts=held["counts"].astype(np.int64),
                teachers=int(held["teachers"]),
                unit="person" if str(held["unit"]) == "person" else "record",
            )
    except FileNotFoundError:
        raise BadInput(f"votes in {Path(path).name}", "there is no such file", "Check the path") from None
    except (*UNREADABLE, TypeError) as problem:
        if isinstance(problem, BadInput):
            raise
        raise BadInput(
            f"votes in {Path(path).name}", "they are not in the form we write", "Train the teachers again"
        ) from None
