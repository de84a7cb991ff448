"""What a student asks in a phase, and what it learns from the answers: `discreet.trainers.students`, a phase at a time.

Free: it reads public records, and answers that were paid for.

Everything is a function of the file's public seed, of public records and of answers, so that a redo asks the same. What
disagreement inferred earlier is inferred again by the newest model: a student that learnt better labels better.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet.campaign.recipe import Desk
from discreet.config import TeachersConfig
from discreet.pools import Pool
from discreet.recipes.teacher_estimators import is_flat, student_of
from discreet.records import Value
from discreet.trainers.students.asking import Integers, Pupil
from discreet.trainers.students.disagreement import CAUTION, GROWTH, decided, disagreeing, says_one_class
from discreet.trainers.students.inferring import margins, with_pseudo_labels
from discreet.trainers.students.margin import RANDOM_SHARE
from discreet.trainers.students.stored import StudentModel, flattened

SEEN = "seen"
"""Public fact of a query by disagreement: how many records, in the student's order, were looked at."""


def public_rows(config: TeachersConfig, pool: Pool, table: str = "student") -> Any:
    """All public records; a withdrawn one is zeros, and never used."""
    rows = np.array(pool.rows(slice(None)), dtype=np.float32)
    rows[[place for place, name in enumerate(pool.ids) if name in pool.withdrawn]] = 0.0
    return flattened(rows) if is_flat(config, table) else rows


def asked_next(config: TeachersConfig, desk: Desk, count: int) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Ids of at most ``count`` records to ask about, and public facts."""
    ids, asked = desk.pool.ids, desk.asked
    order = _order(config, desk.pool)
    left = np.array([place for place in order if ids[place] not in asked], dtype=np.int64)
    if desk.phase == 0 or config.student.ask == "passive" or not isinstance(desk.model, StudentModel):
        return _named(ids, left[:count]), {SEEN: count}
    rows = public_rows(config, desk.pool)
    if config.student.ask == "margin":
        return _named(ids, _torn(config, desk, rows, left, count)), {}
    return _disputed(config, desk, rows, order, count)


def _torn(config: TeachersConfig, desk: Desk, rows: Any, left: Integers, count: int) -> Integers:
    assert isinstance(desk.model, StudentModel)
    share = RANDOM_SHARE if config.student.random_share is None else config.student.random_share
    rng = np.random.default_rng([config.student.seed, 3, desk.phase])
    drawn = left[: int(count * share)]  # the next of a random order
    rest = rng.permutation(left[len(drawn) :])  # ties fall at random
    torn = rest[np.argsort(margins(desk.model.model, rows[rest]), kind="stable")[: count - len(drawn)]]
    return np.concatenate([drawn, torn])


def _disputed(
    config: TeachersConfig, desk: Desk, rows: Any, order: Integers, count: int
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The next records of the order on which models still disagree; those between them are left to the student."""
    assert isinstance(desk.model, StudentModel)
    seen = int(desk.facts[desk.phase - 1][SEEN])
    pupil = _pupil(config, desk.pool, rows, desk.phase)
    place = {name: number for number, name in enumerate(desk.pool.ids)}
    pupil.asked, pupil.heard = [place[name] for name in desk.model.ids], desk.model.codes.tolist()
    table, model = config.student, desk.model.model
    disagrees = disagreeing(table.oracle, table.caution or CAUTION, pupil.estimator, len(config.task.classes))
    open_to_all = says_one_class(model, rows[order[:seen]])
    found: list[int] = []
    while len(found) < count and seen < len(order):
        batch = order[seen : max(seen + 1, int(seen * GROWTH))]
        region = np.ones(len(batch), dtype=bool) if open_to_all else disagrees(pupil, model, batch)
        wanted = np.flatnonzero(region)[: count - len(found)]
        found += batch[wanted].tolist()
        seen += len(batch) if len(found) < count else int(wanted[-1]) + 1
    return _named(desk.pool.ids, found), {SEEN: seen}


def learnt(config: TeachersConfig, desk: Desk, labels: Mapping[str, Value]) -> tuple[StudentModel, bytes]:
    """The student of all answers so far, and its bytes."""
    rows = public_rows(config, desk.pool)
    pupil = _pupil(config, desk.pool, rows, desk.phase)
    place = {name: number for number, name in enumerate(desk.pool.ids)}
    code = {name: number for number, name in enumerate(config.task.classes)}
    for name in (one for mine in desk.members.values() for one in mine if one not in desk.pool.withdrawn):
        said = labels.get(name)
        pupil.asked.append(place[name])
        pupil.heard.append(code[said] if isinstance(said, str) else None)
    if config.student.ask == "disagreement":
        model = _with_inferred(config, desk, pupil, rows)
    else:
        model = pupil.model()
        if config.student.pseudo_labels:
            model = with_pseudo_labels(pupil, model, there=_order(config, desk.pool))
    places, codes = pupil.lessons()
    made = StudentModel(
        model=model,
        classes=len(config.task.classes),
        ids=_named(desk.pool.ids, places),
        codes=codes,
        flat=is_flat(config, "student"),
    )
    return made, made.to_bytes(rows[places])


def _with_inferred(config: TeachersConfig, desk: Desk, pupil: Pupil, rows: Any) -> Any:
    """What was looked at and not asked is labelled by the model before this one."""
    seen = _order(config, desk.pool)[: int(desk.facts[desk.phase][SEEN])]
    if isinstance(desk.model, StudentModel):
        rest = np.setdiff1d(seen, pupil.asked)
        if len(rest):
            pupil.inferred |= dict(zip(rest.tolist(), desk.model.model.predict(rows[rest]).tolist(), strict=True))
    return decided(pupil, seen)[0]


def _order(config: TeachersConfig, pool: Pool) -> Integers:
    """All records that may be asked about, in the student's random order: public, the same in every phase."""
    drawn = np.random.default_rng([config.student.seed, 2]).permutation(len(pool))
    return np.array([place for place in drawn.tolist() if pool.ids[place] not in pool.withdrawn], dtype=np.int64)


def _pupil(config: TeachersConfig, pool: Pool, rows: Any, phase: int) -> Pupil:
    def nobody(places: Any) -> list[str | None]:
        raise AssertionError("questions go through the campaign")

    return Pupil(
        x=rows,
        ask=nobody,
        classes=config.task.classes,
        estimator=student_of(config),
        seed=config.student.seed,
        unstable=config.student.unstable,
    )


def _named(ids: list[str], places: Any) -> tuple[str, ...]:
    return tuple(ids[place] for place in np.asarray(places, dtype=np.int64).tolist())
