"""How far each annotator is to be trusted, learnt from public gold questions, and votes weighed by it.

A confusion matrix says how often an annotator answers l when the truth is c. Estimated over the pool it would let every
record have a say in every other's label, which no claim allows. From *gold* questions (public records whose labels are
known) it is a public thing: fixed beforehand, it turns the answers to one question into the posterior of its label,

    log P(c | answers) = log prior(c) + sum over annotators a of log M_a[c, answer of a] + constant

Guarantee: as for `majority`, a label depends on its own record's answers and on public things alone.
Assumption: the gold records are public, or of nobody. Annotators err independently of each other, given the class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise import SecretKey
from discreet.oracles.fair_coins import coin_key, first_of
from discreet.oracles.values import checked_classes, fits
from discreet.oracles.voting import current_answers
from discreet.records import Answer, Value

Floats = NDArray[np.float64]
_TIED = 1e-9


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class AnnotatorMatrices:
    """Confusion matrices, rows the true class, columns the answered one, in the order of ``classes``.

    ``pooled`` is that of all annotators together; it stands for one who was not seen before.
    """

    classes: tuple[str, ...]
    matrices: Mapping[str, Floats]
    pooled: Floats

    def of(self, annotator: str) -> Floats:
        """The annotator's own, or the pooled one."""
        return self.matrices.get(annotator, self.pooled)

    def __repr__(self) -> str:
        """Sizes alone: an annotator's errors are between them and the owner."""
        return f"AnnotatorMatrices(classes={len(self.classes)}, annotators={len(self.matrices)})"


def annotator_matrices(
    answers: Iterable[Answer], *, gold: Mapping[str, str], classes: Sequence[str], smoothing: float = 1.0
) -> AnnotatorMatrices:
    """Matrices from answers to gold questions: ``gold`` maps the question's id to its known class.

    ``smoothing`` is added to every cell: nobody is believed to never err because of a few good answers.
    """
    names = checked_classes(classes)
    if not smoothing > 0:
        raise BadInput(f"smoothing={smoothing}", "one answer would then outweigh everything", "Give more than 0")
    votes = single_votes(answers, names)
    if not votes or not all(question in gold and gold[question] in names for question, _, _ in votes):
        raise BadInput(
            "annotators' matrices",
            "there is no answer, or one to a question that is not gold or has an unknown class",
            "Give answers to public gold questions alone: others would let records decide each other's labels",
        )
    size = len(names)
    counts: dict[str, Floats] = {}
    for question, annotator, label in votes:
        own = counts.setdefault(annotator, np.zeros((size, size)))
        own[names.index(gold[question]), names.index(label)] += 1
    total = sum(counts.values(), np.zeros((size, size)))
    return AnnotatorMatrices(
        classes=names,
        matrices={annotator: _rows(own + smoothing) for annotator, own in counts.items()},
        pooled=_rows(total + smoothing),
    )


def weighted_vote(
    answers: Iterable[Answer],
    matrices: AnnotatorMatrices,
    *,
    prior: Sequence[float] | None = None,
    key: SecretKey | None = None,
    seed: int | None = None,
) -> dict[str, Value]:
    """The likeliest class of every question; None where all skipped.

    ``prior``: how common the classes are, declared or public, in their order; alike if not given.
    """
    secret, given = coin_key(key=key, seed=seed, asked="a weighted vote"), list(answers)
    weights = _prior(prior, len(matrices.classes))
    logs = {annotator: np.log(matrices.of(annotator)) for annotator in {answer.annotator for answer in given}}
    said: dict[str, list[tuple[str, str]]] = {}
    for question, annotator, label in single_votes(given, matrices.classes):
        said.setdefault(question, []).append((annotator, label))
    return {
        question: _likeliest(question, said.get(question, []), logs, weights, matrices.classes, secret)
        for question in current_answers(given)
    }


def single_votes(answers: Iterable[Answer], classes: Sequence[str]) -> list[tuple[str, str, str]]:
    """(question, annotator, class) of every annotator's last word, without skips; BadInput for anything else."""
    votes, known = [], frozenset(classes)
    for question, said in current_answers(answers).items():
        for annotator, value in said.items():
            if not fits(value, known, multilabel=False):
                raise BadInput(
                    f"the votes on question {question}",
                    "one is not of the classes, or is several labels",
                    "Check the answers first; for several labels take majority",
                )
            if isinstance(value, str):
                votes.append((question, annotator, value))
    return votes


def _likeliest(
    question: str,
    said: list[tuple[str, str]],
    logs: Mapping[str, Floats],
    weights: list[float],
    classes: tuple[str, ...],
    key: SecretKey,
) -> str | None:
    if not said:
        return None
    scores = [  # fsum: the same sum in whatever order people answered, so that ties are ties
        fsum([weights[place], *(float(logs[annotator][place, classes.index(label)]) for annotator, label in said)])
        for place in range(len(classes))
    ]
    top = max(scores)
    return first_of(key, "tie", question, [n for n, s in zip(classes, scores, strict=True) if s >= top - _TIED])


def _prior(prior: Sequence[float] | None, size: int) -> list[float]:
    if prior is None:
        return [0.0] * size
    if len(prior) != size or not all(share > 0 for share in prior) or abs(fsum(prior) - 1) > 1e-6:
        raise BadInput(
            "a prior of classes", f"it is not {size} shares above 0 with sum 1", "Correct it or leave it out"
        )
    return [log(share) for share in prior]


def _rows(counts: Any) -> Floats:
    found: Floats = counts / counts.sum(axis=1, keepdims=True)
    return found
