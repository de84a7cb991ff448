"""Tables of a crowd campaign's file that a private pool does not have: the log, the gate, gold labels, the plan of
questions, one label of several answers, the model of texts.

Everything is declared by the owner and public. What the log holds is not looked at before it is paid for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from discreet.config.data_tables import MOST_SEED
from discreet.config.keys import key
from discreet.config.learning_tables import MOST_QUERIES
from discreet.config.values import Wrong, choice, listed, number, shown, text, whole
from discreet.privacy.release_gate import MOST_K, MOST_VALUES, PLAIN

AGGREGATIONS = ("dawid-skene", "majority")
ORDERS = ("least-confident", "shuffled")
SCORES = ("entropy", "least-confidence", "margin", "predictive-variance", "bald", "variation-ratio", "random")
_PATH = text(what="a path")
_WORD = text(what="a word", most=200)


def _public(value: Any) -> bool:
    if value is not True:
        raise Wrong(
            f"{shown(value)}: private labels are trained on here without noise, and nothing pays for them",
            "Give public ones and write public = true; private ones belong into a private-pool campaign",
        )
    return True


@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """People's queries: a file or a directory of Parquet, CSV or JSONL (also .gz, .zst).

    text, person, row_id   names of columns. Without ``person`` a row is hidden, and a person with many rows is not
    units                  how many persons (or rows) there are, about: for the warning that delta is too large
    """

    path: str = key(_PATH, add="path = 'queries.parquet'")
    text: str = key(_WORD, add="text = 'query'")
    person: str | None = key(_WORD, None)
    row_id: str | None = key(_WORD, None)
    units: int | None = key(whole(), None)


@dataclass(frozen=True, kw_only=True)
class GateConfig:
    """What may be shown to the crowd: a text that ``k`` units kept, each by a coin of ``beta``.

    values          different texts that one person brings, at most
    normalisation   what texts are brought to before they are counted; released are those forms
    """

    k: int = key(whole(2, MOST_K), add="k = 100")
    beta: float = key(number(0, 1, open_ends=True, such_as="0.3"), add="beta = 0.3")
    values: int = key(whole(1, MOST_VALUES), 1)
    normalisation: str = key(text(what="steps with commas between", most=200), PLAIN)


@dataclass(frozen=True, kw_only=True)
class GoldConfig:
    """Labelled texts that the first model is made of: a CSV or JSONL file with columns ``text`` and ``label``.

    They must be public: declared by ``public = true``.
    """

    path: str = key(_PATH, add="path = 'gold.csv'")
    public: bool = key(_public, add="public = true, if these texts and labels are nobody's")


@dataclass(frozen=True, kw_only=True)
class CrowdPlanConfig:
    """How many texts are asked about in each phase; phase 0 trains on the gold labels alone."""

    queries: tuple[int, ...] = key(
        listed(whole(), least=1, most=MOST_QUERIES, such_as="[500, 500]"), add="queries = [500, 500]"
    )


@dataclass(frozen=True, kw_only=True)
class AnswersConfig:
    """One label of several answers, and how far it is trusted.

    aggregation   ``dawid-skene``: people who are right more often count for more; ``majority``: all alike
    accuracy      the share of right answers that is expected of everybody beforehand
    believed      so many answers each is that expectation worth
    """

    aggregation: Literal["dawid-skene", "majority"] = key(choice(*AGGREGATIONS), "dawid-skene")
    accuracy: float = key(number(0, 1, open_ends=True, such_as="0.7"), 0.7)
    believed: float = key(number(0, 1e9, such_as="50"), 50.0)


@dataclass(frozen=True, kw_only=True)
class CrowdScorerConfig:
    """What is asked first."""

    name: str = key(choice(*SCORES), "entropy")
    draws: int | None = key(whole(2, 10_000), None)


@dataclass(frozen=True, kw_only=True)
class TextModelConfig:
    """A classifier of hashed words and letters (`discreet.trainers.text_classifier`). ``order``: of training."""

    name: str = key(choice("text"), "text")
    features: int = key(whole(2, 2**24), 2**17)
    epochs: int = key(whole(1, 10_000), 10)
    regularization: float = key(number(0, 1, open_ends=True, such_as="1e-4"), 1e-4)
    dropout: float = key(number(0, 0.999, such_as="0.3"), 0.3)
    order: Literal["least-confident", "shuffled"] = key(choice(*ORDERS), "least-confident")
    seed: int = key(whole(0, MOST_SEED), 0)


@dataclass(frozen=True, kw_only=True)
class CrowdEvaluationConfig:
    """Accuracy on public labelled texts, a file like that of the gold labels, after every phase; or none."""

    kind: str = key(choice("public", "none"), "none")
    path: str | None = key(_PATH, None)
