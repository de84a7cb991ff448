"""A heavy-tailed log of queries, made of CLINC150: what a voice assistant hears, in the shape of the crowd paper's log.

Feyisetan et al. (2019) have 2.5 million rows of 58 thousand distinct queries, about 60% of them seen once. Theirs is
not public, so this one is made, and everything about it is declared here:

texts        CLINC150's 15,000 training queries, and variants of them: one to three of a typed slip (a letter dropped,
             doubled, or swapped with its neighbour), polite words before or after, a small word left out
counts       one power law, c_r = 2 (R/r)^s, over the R values that are seen more than once; s is solved for the number
             of rows. CLINC's own queries have the first places, in random order, variants the others; every value that
             is seen once is a variant
classes      63% of the 150 intents, drawn once, are positive: a model has to learn intents, not a topic
bootstrap    1,000 of CLINC's validation queries; evaluation: its test queries and 500 further ones. Neither is in the
             log

So what the tail adds is spellings and the rarer ones of CLINC's queries, never a new intent. One row is one person's.

Problems and methods of the crowd paper's experiment: a log, a crowd, and settings of the gate.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.gates.values import Normaliser
from discreet_research.bench.sets import digest_of, paths_of

NEGATIVE, POSITIVE = "negative", "positive"
CLASSES = (NEGATIVE, POSITIVE)
POSITIVE_SHARE = 0.63
_CLASS_SEED = 2019
"""Which intents are positive is a public fact of the problem, the same for every seed."""
_BEFORE = (
    "please",
    "hey",
    "ok",
    "hi there",
    "can you",
    "could you please",
    "i want to know",
    "tell me",
    "i need you to",
)
_AFTER = ("please", "thanks", "thank you", "now", "right now", "for me", "if you can", "today", "asap", "ok")
_SMALL = frozenset(
    ("a", "an", "the", "to", "of", "my", "is", "i", "do", "me", "for", "you", "in", "on", "it", "at", "this", "that")
)
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class LogShape:
    """How large the log is: rows, distinct values, the share of those that is seen once; and what is apart from it."""

    rows: int = 2_500_000
    distinct: int = 58_000
    once: float = 0.6
    bootstrap: int = 1_000
    evaluation: int = 5_000


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class QueryLog:
    """Distinct texts with how often each is there and its class, and the labelled texts apart from it."""

    texts: tuple[str, ...]
    counts: Integers
    classes: Integers
    bootstrap: tuple[str, ...]
    bootstrap_classes: Integers
    evaluation: tuple[str, ...]
    evaluation_classes: Integers
    made_of: str


@functools.lru_cache(maxsize=1)
def query_log(data: Path | None, shape: LogShape, seed: int) -> QueryLog:
    """The log of one seed: ranks, variants and the bootstrap are drawn from it."""
    paths = paths_of("clinc150", data)
    held = json.loads(gzip.decompress(paths[0].read_bytes()))
    normal = Normaliser()
    parts = {
        name: {form: intent for text, intent in held[name] if (form := normal.one(text)) is not None}
        for name in ("train", "val", "test")
    }
    positive = _positive(sorted(set(parts["train"].values())))
    chance = np.random.default_rng([_CLASS_SEED, seed])
    apart = [(text, intent) for text, intent in parts["test"].items() if text not in parts["train"]]
    rest = [(text, i) for text, i in parts["val"].items() if text not in parts["train"] and text not in parts["test"]]
    rest = [rest[data] for data in chance.permutation(len(rest)).tolist()]
    missing = shape.evaluation - len(apart)
    evaluation, bootstrap = apart[: shape.evaluation] + rest[: max(missing, 0)], rest[max(missing, 0) :]
    if len(evaluation) < shape.evaluation or len(bootstrap) < shape.bootstrap:
        raise BadInput("a log of CLINC150", "it has too few queries to keep apart", "Ask for a smaller one")
    values = _values(list(parts["train"].items()), shape, chance, taken={text for text, _ in (*evaluation, *bootstrap)})
    return QueryLog(
        texts=tuple(text for text, _ in values),
        counts=counts_of(shape),
        classes=_numbers(values, positive),
        bootstrap=tuple(text for text, _ in bootstrap[: shape.bootstrap]),
        bootstrap_classes=_numbers(bootstrap[: shape.bootstrap], positive),
        evaluation=tuple(text for text, _ in evaluation),
        evaluation_classes=_numbers(evaluation, positive),
        made_of=digest_of(paths)[:16],
    )


def _positive(intents: Sequence[str]) -> frozenset[str]:
    order = np.random.default_rng(_CLASS_SEED).permutation(len(intents))
    return frozenset(intents[index] for index in order[: round(POSITIVE_SHARE * len(intents))].tolist())


def _numbers(values: Sequence[tuple[str, str]], positive: frozenset[str]) -> Integers:
    return np.array([intent in positive for _, intent in values], dtype=np.int64)


def counts_of(shape: LogShape) -> Integers:
    """How often each value is there, largest first: a power law down to 2, then those that are seen once."""
    once = round(shape.once * shape.distinct)
    several, rows = shape.distinct - once, shape.rows - once
    ranks = np.arange(1, several + 1, dtype=np.float64)

    def of(exponent: float) -> NDArray[np.float64]:
        return np.maximum(2.0, np.floor(2 * (several / ranks) ** exponent))

    low, high = 0.0, 5.0
    if not of(low).sum() <= rows <= of(high).sum():
        raise BadInput("a heavy-tailed log", "no power law has so many rows of so many values", "Change one of them")
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle).sum() <= rows else (low, middle)
    counts = of(low)
    counts[0] += rows - counts.sum()
    return np.concatenate([counts, np.ones(once)]).astype(np.int64)


def _values(
    train: Sequence[tuple[str, str]], shape: LogShape, chance: np.random.Generator, taken: set[str]
) -> list[tuple[str, str]]:
    """Distinct texts in the order of their counts: CLINC's own in random order, then variants."""
    values = [train[index] for index in chance.permutation(len(train)).tolist()][: shape.distinct]
    taken = taken | {text for text, _ in values}
    while len(values) < shape.distinct:
        text, intent = train[int(chance.integers(len(train)))]
        changed = variant(text, chance)
        if changed not in taken:
            taken.add(changed)
            values.append((changed, intent))
    return values


def variant(text: str, chance: np.random.Generator) -> str:
    """The same query as another person types it: one to three changes."""
    words = text.split()
    for _ in range(int(chance.integers(1, 4))):
        kind = int(chance.integers(5))
        if kind == 0:
            words = [*_BEFORE[int(chance.integers(len(_BEFORE)))].split(), *words]
        elif kind == 1:
            words = [*words, *_AFTER[int(chance.integers(len(_AFTER)))].split()]
        elif kind == 2:
            small = [index for index, word in enumerate(words) if word in _SMALL]
            if small and len(words) > 2:
                words.pop(small[int(chance.integers(len(small)))])
        else:
            words = _slipped(words, chance)
    return " ".join(words)


def _slipped(words: list[str], chance: np.random.Generator) -> list[str]:
    """A letter of a longer word is dropped, doubled or swapped with the next."""
    long = [index for index, word in enumerate(words) if len(word) >= 4]
    if not long:
        return words
    which = long[int(chance.integers(len(long)))]
    word, changed = words[which], list(words)
    at, kind = int(chance.integers(len(word) - 1)), int(chance.integers(3))
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    changed[which] = (word[:at] + word[at + 1 :], word[: at + 1] + word[at:], swapped)[kind]
    return changed


Aggregation = Literal["dawid-skene", "majority"]
KS = (1, 20, 100, 200, 500)
BETAS = (0.1, 0.3, 0.6, 0.9)


@dataclass(frozen=True, kw_only=True)
class CrowdProblem:
    """What is learned, and who answers.

    people         of the crowd; ``per_question`` of them answer each question
    right, spread  mean and standard deviation of a Gaussian that each of them draws their own accuracy from, clipped
                   to [0, 1]
    rounds         in which the released texts are asked about, most uncertain first
    asked          at most so many questions; 0: all that was released
    """

    name: str
    shape: LogShape = field(default_factory=LogShape)
    people: int = 30
    per_question: int = 3
    right: float = 0.65
    spread: float = 0.01
    aggregation: Aggregation = "dawid-skene"
    rounds: int = 5
    asked: int = 0

    def settings(self) -> dict[str, Any]:
        """Everything that a result depends on."""
        return {key: value for key, value in asdict(self).items() if key != "name"}


@dataclass(frozen=True, kw_only=True)
class CrowdMethod:
    """A setting of the gate, and a score. ``beta = 1`` tosses no coin: it is in simulations alone, and not private."""

    name: str
    k: int
    beta: float
    scorer: str = "entropy"
    order: str = "least-confident"

    @property
    def private(self) -> bool:
        """Whether there is a promise that says anything: with k = 1 a value of one person is shown with chance beta."""
        return self.beta < 1 and self.k > 1

    def settings(self) -> dict[str, Any]:
        """Everything that a result depends on."""
        return {"k": self.k, "beta": self.beta, "scorer": self.scorer, "order": self.order}


def gated(k: int, beta: float, **others: Any) -> CrowdMethod:
    """With the usual score."""
    return CrowdMethod(name=gate_name(k, beta), k=k, beta=beta, **others)


def gate_name(k: int, beta: float) -> str:
    """As tables name it."""
    return f"k={k}, beta={beta:g}"


BASELINE = gated(1, 1.0)
GRID = (BASELINE, *(gated(k, beta) for k in KS for beta in BETAS))
PAPER = CrowdProblem(name="CLINC150 log, accuracy N(.65, sd .01)")
GATE = (((PAPER,), GRID),)

SCORES = ("entropy", "least-confidence", "predictive-variance", "random")
_GATES = ((20, 0.6), (1, 1.0))
ASKING = CrowdProblem(name="CLINC150 log, 2,000 questions", rounds=10, asked=2_000)
"""At k = 20, beta = 0.6 about 2,400 texts are released: nearly all are asked in the end, whatever the order."""
WIDE = CrowdProblem(name="the same, accuracy N(.65, sd .1)", rounds=10, asked=2_000, spread=0.1)
VOTED = CrowdProblem(
    name="the same, accuracy N(.65, sd .1), majority", rounds=10, asked=2_000, spread=0.1, aggregation="majority"
)
MAJORITY = CrowdProblem(
    name="the same, accuracy N(.65, sd .01), majority", rounds=10, asked=2_000, aggregation="majority"
)
SCORED = tuple(
    CrowdMethod(name=f"{gate_name(k, beta)}, {scorer}", k=k, beta=beta, scorer=scorer)
    for k, beta in _GATES
    for scorer in SCORES
)
SHUFFLED = tuple(
    CrowdMethod(name=f"{gate_name(k, beta)}, entropy, trained in random order", k=k, beta=beta, order="shuffled")
    for k, beta in _GATES
)
ORDERS = (((ASKING,), (*SCORED, *SHUFFLED)), ((WIDE, VOTED, MAJORITY), (SCORED[0], SCORED[4])))
