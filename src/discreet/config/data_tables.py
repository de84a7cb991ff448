"""Tables of a campaign's file that say what there is: the pool, the task, who answers, how quality is measured, where
state is kept. What is learnt, and what it may cost, is in `discreet.config.learning_tables`.

Everything here is declared by the owner and public. Nothing is found out by looking at records: not the classes, not a
scale, not the size of the pool.
"""

# ruff: noqa: RUF009 - `key` is dataclasses.field with a check
from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from discreet.config.keys import key
from discreet.config.values import address, choice, either, exact, listed, number, place, text, truth, whole

POOL_KINDS = ("images", "parquet", "arrow", "csv", "npz", "npy", "arrays")
"""``arrays`` are given in Python, and never named by a file."""
TASKS = ("binary", "multiclass", "multilabel")
ORACLES = ("simulated", "files", "callable", "web", "label-studio", "teachers")
EVALUATIONS = ("public", "paid", "none")
CHOSEN = ("uniformly", "by-public-rule")
MOST_SEED = 2**63 - 1
_WORD = text(what="a word", most=200)
_PATH = text(what="a path")
_CENTER, _SCALE = number(-1e30, 1e30, such_as="0"), number(1e-30, 1e30, such_as="255")
_MANY = (list, tuple)


@dataclass(frozen=True, kw_only=True)
class PoolConfig:
    """People's records.

    path            a file or folder, from where the campaign's file is
    kind            how to read it: one of `POOL_KINDS`
    size            how many records there are
    id              the column (array) with the ids, or ``position``
    columns, text   the columns with numbers, or the one with text
    array           of an npz file: the name of the array with the records
    person          the column (array) that says whose record it is
    persons         how many persons there are, where they are protected
    shape           of one record
    further         where the files are now that joined the pool later, in their order, if they were moved
    center, scale   public numbers: a value v is used as (v - center) / scale; one for all, or one a column
    """

    path: str = key(_PATH, add="path = 'pool.parquet'")
    kind: str = key(choice(*POOL_KINDS), add="kind = 'parquet'")
    size: int = key(whole(), add="size = 20000, the number of records in the pool: it is declared, never counted")
    id: str | None = key(_WORD, None)
    columns: tuple[str, ...] | None = key(listed(_WORD, least=1, distinct=True, such_as="['age', 'dose']"), None)
    text: str | None = key(_WORD, None)
    array: str | None = key(_WORD, None)
    person: str | None = key(_WORD, None)
    persons: int | None = key(whole(), None)
    shape: tuple[int, ...] | None = key(listed(whole(most=10**6), least=1, most=4, such_as="[1, 28, 28]"), None)
    further: tuple[str, ...] | None = key(listed(_PATH, least=1, such_as="['july.parquet']"), None)
    center: float | tuple[float, ...] = key(either(listed(_CENTER, least=1), _MANY, _CENTER), 0.0)
    scale: float | tuple[float, ...] = key(either(listed(_SCALE, least=1), _MANY, _SCALE), 1.0)


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """What is asked: one of two classes, one of several, or several labels at once. Classes are declared, in order."""

    kind: str = key(choice(*TASKS), add="kind = 'multiclass'")
    classes: tuple[str, ...] = key(
        listed(text(what="a class in quotes", most=200), least=1, distinct=True, such_as="['no', 'yes']"),
        add="classes = ['no', 'yes']",
    )


@dataclass(frozen=True, kw_only=True)
class InitialConfig:
    """Labels that are there already, for phase 0. The promise rests on how their records were ``chosen``."""

    path: str = key(_PATH, add="path = 'labels.csv'")
    chosen: str = key(choice(*CHOSEN), add="chosen = 'uniformly', if they were drawn by lot")


@dataclass(frozen=True, kw_only=True)
class OracleConfig:
    """Who answers.

    name            one of `ORACLES`
    per_question    how many people answer each question
    path            of true labels (``simulated``), or of a folder for questions and answers
    function        ``module:callable``, for ``callable``
    separator       what stands between several labels in a cell of a file
    per_annotator   the most questions that one named annotator is shown in the whole campaign; not with a hidden
                    selection, where everybody who is asked is labelled
    annotators, label_noise, skip, late     of ``simulated``: how many people; shares of answers that are wrong, that
                    are skips, that come late
    url, project    of ``label-studio``: where the server is; the number of a project, if not one of its own
    token_file      of ``label-studio``: a file with the token, for its owner alone; else it is in the environment
    plain_http      of ``label-studio``: that token and records may go through a network unencrypted
    accuracy        of ``simulated``, instead of label_noise: mean and standard deviation of people's own shares of
                    right answers
    """

    name: str = key(choice(*ORACLES), add="name = 'files'")
    per_question: int = key(whole(most=1000), 1)
    path: str | None = key(_PATH, None)
    function: str | None = key(place, None)
    separator: str | None = key(text(what="a sign such as '|'", most=10), None)
    annotators: int | None = key(whole(most=1000), None)
    label_noise: float | None = key(number(0, 1, such_as="0.05"), None)
    skip: float | None = key(number(0, 1, such_as="0.05"), None)
    late: float | None = key(number(0, 1, such_as="0.05"), None)
    accuracy: tuple[float, ...] | None = key(
        listed(number(0, 1, such_as="0.65"), least=2, most=2, such_as="[0.65, 0.01]"), None
    )
    per_annotator: int | None = key(whole(), None)
    url: str | None = key(address, None)
    project: int | None = key(whole(), None)
    token_file: str | None = key(_PATH, None)
    plain_http: bool = key(truth, False)


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """How good the model is, and who pays for knowing.

    kind        ``public``: on public records; ``paid``: on private ones kept apart, for ``epsilon`` a time; ``none``
    path        of those records, declared as the pool's are
    labels      of a file with their labels: columns record and label
    every       after every so manyth phase, and after the last one
    by_class    paid: every class by itself, with noise in as many places
    """

    kind: str = key(choice(*EVALUATIONS), "none")
    path: str | None = key(_PATH, None)
    labels: str | None = key(_PATH, None)
    epsilon: Decimal | None = key(exact(zero=False, such_as="'0.1'"), None)
    every: int = key(whole(most=1000), 1)
    by_class: bool = key(truth, False)


@dataclass(frozen=True, kw_only=True)
class StorageConfig:
    """Where the campaign's state is kept; None: in a file beside this one, called by the campaign's name.

    url         of a SQLite file or a PostgreSQL database; a password is not part of it
    directory   of a database: where this host has keys, checkpoints and copies of files
    mark        the directory for the high-water mark of the ledger; None: beside the keys. Hosts that share a database
                name the same one
    """

    url: str | None = key(address, None)
    directory: str | None = key(_PATH, None)
    mark: str | None = key(_PATH, None)


@dataclass(frozen=True, kw_only=True)
class SimulationConfig:
    """Chance from a seed, so that a run can be repeated. It protects nobody, and everything it makes says so."""

    seed: int = key(whole(0, MOST_SEED), add="seed = 0")
