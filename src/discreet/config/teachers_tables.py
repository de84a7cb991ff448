"""Tables of a campaign that is labelled by teachers: private labelled records, the teachers, how votes become answers,
and the student that asks.

Everything is declared by the owner and public: how many teachers there are, how many questions each phase may ask, with
which aggregator. What the private records hold is read once, after all of it is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from discreet.config.data_tables import MOST_SEED
from discreet.config.keys import key
from discreet.config.learning_tables import MOST_QUERIES
from discreet.config.values import choice, listed, number, options, place, text, truth, whole

AGGREGATORS = ("gaussian", "gaussian-paper", "laplace", "laplace-paper", "confident", "sparse", "sparse-paper")
TEACHERS = ("logistic", "tree", "forest")
STUDENTS = ("logistic", "voting", "tree", "forest")
WAYS = ("margin", "passive", "disagreement")
UNSTABLE = ("dropped", "arbitrary", "pseudo-label")
_PATH = text(what="a path")
_WORD = text(what="a word", most=200)
_SHARE = number(0, 1, open_ends=True, such_as="0.5")


def _named(*names: str) -> Any:
    """One of these, or somebody's own ``module:callable``."""
    return lambda value: place(value) if isinstance(value, str) and ":" in value else choice(*names)(value)


@dataclass(frozen=True, kw_only=True)
class LabelledConfig:
    """Private records with labels, read as the pool's are. They are read once, when the campaign is created.

    path      a file or folder of the pool's kind
    size      how many records there are: declared, never counted
    labels    a CSV or JSONL file with columns record and label; a record without one teaches nobody
    person    the column (array) that says whose record it is, where persons are protected
    persons   how many persons there are, about: for the warning that delta is too large
    """

    path: str = key(_PATH, add="path = 'private.parquet'")
    size: int = key(whole(), add="size = 40000, the number of private records: it is declared, never counted")
    labels: str = key(_PATH, add="labels = 'labels.csv'")
    person: str | None = key(_WORD, None)
    persons: int | None = key(whole(), None)


@dataclass(frozen=True, kw_only=True)
class TeachersTable:
    """K models on disjoint parts of the private records.

    count       K: more of them hide more, and know less each
    name        one of `TEACHERS`, or ``module:callable`` that makes a classifier with fit, predict and get_params
    options     of that classifier
    processes   how many are trained at once
    """

    count: int = key(whole(2, 100_000), add="count = 250")
    name: str = key(_named(*TEACHERS), "logistic")
    options: Mapping[str, Any] = key(options, {})
    processes: int = key(whole(1, 1024), 1)


@dataclass(frozen=True, kw_only=True)
class VotesConfig:
    """How votes become answers.

    aggregator        one of `AGGREGATORS`
    unstable          of a sparse vector: how many questions of a phase may be unstable, T
    answered_share    of confident: the share of a phase's questions that may be answered
    check_share       of confident: the part of the budget that checks take
    confident_share   of confident: the share of teachers that the winner must have, noisily
    """

    aggregator: str = key(choice(*AGGREGATORS), "gaussian")
    unstable: int | None = key(whole(most=10**6), None)
    answered_share: float | None = key(_SHARE, None)
    check_share: float | None = key(_SHARE, None)
    confident_share: float | None = key(_SHARE, None)


@dataclass(frozen=True, kw_only=True)
class TeacherPlanConfig:
    """How many public records teachers are asked about in each phase; the sum is what the budget is spent on."""

    queries: tuple[int, ...] = key(
        listed(whole(), least=1, most=MOST_QUERIES, such_as="[50, 100, 150]"), add="queries = [50, 100, 150]"
    )


@dataclass(frozen=True, kw_only=True)
class StudentConfig:
    """Who asks, and learns from the answers. All of it is free: public records and paid answers.

    ask             ``margin``: where it is torn; ``passive``: at random; ``disagreement``: where models that fit the
                    answers still disagree, labelling the rest itself
    name            one of `STUDENTS`, or ``module:callable`` that makes a classifier
    options         of that classifier
    unstable        what becomes of a question without an answer
    pseudo_labels   learn from unasked records, too, where the student is sure of them itself
    random_share    of margin: the share of a phase's questions that is drawn at random
    oracle          of disagreement: how it is found out whether models disagree
    caution         of disagreement: how much worse a model may fit and still be thought of
    seed            public: orders and first weights
    """

    ask: str = key(choice(*WAYS), "margin")
    name: str = key(_named(*STUDENTS), "logistic")
    options: Mapping[str, Any] = key(options, {})
    unstable: Literal["dropped", "arbitrary", "pseudo-label"] = key(choice(*UNSTABLE), "dropped")
    pseudo_labels: bool = key(truth, False)
    random_share: float | None = key(number(0, 1, such_as="0.2"), None)
    oracle: str | None = key(choice("quadratic", "committee", "refit"), None)
    caution: float | None = key(number(0, 1e6, open_ends=True, such_as="0.1"), None)
    seed: int = key(whole(0, MOST_SEED), 0)


@dataclass(frozen=True, kw_only=True)
class TeacherEvaluationConfig:
    """Accuracy on public labelled records, declared as the pool's are, after every phase; or none."""

    kind: str = key(choice("public", "none"), "none")
    path: str | None = key(_PATH, None)
    labels: str | None = key(_PATH, None)
