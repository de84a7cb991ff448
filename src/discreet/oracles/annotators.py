"""Annotators: how far each is to be trusted, and labels by votes that are weighted so.

Confusion matrices say how often an annotator answers l when the truth is c. Estimated over the pool they would let
every record have a say in every other's label, which no claim allows. From *gold* questions (public records whose
labels are known) they are public, and fixed beforehand. `weighted_vote` then gives the likeliest label of a question:

    log P(c | answers) = log prior(c) + sum over annotators a of log M_a[c, answer of a] + constant

Guarantee: as for `majority`, a label depends on its own record's answers and on public things alone.
Assumption: the gold records are public, or of nobody. Annotators err independently of each other, given the class.

`dawid_skene` learns labels and matrices from each other, by EM (Dawid and Skene, Applied Statistics 28 (1979) 20-28;
there smoothing is 0). Every record has a say in how far an annotator is trusted, and so in every other record's label,
which the claims of private recipes do not allow. Where the records *were released before they were shown* (the crowd
recipe), this is free post-processing. Nothing here can know which it is, so the caller declares it.

    E   P(c | answers to q)  ~  prior(c) * product over answers of M_a[c, l]
    M   M_a[c, l]  ~  smoothing + sum of P(c | q) over the questions to which a answered l;  prior(c) likewise

It climbs log-likelihood + smoothing * (sum log M + sum log prior), which never falls from one round to the next. With
few answers a person EM does worse than counting votes; ``believed`` and ``accuracy`` are a Dirichlet prior against
that: of ``believed`` answers a share ``accuracy`` would be right, the others wrong alike. ``even`` holds the prior
at alike: a classifier that is trained on the labels learns how common classes are from the texts.
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
from discreet.oracles.answers import checked_classes, coin_key, current_answers, first_of, fits
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
        matrix = counts.setdefault(annotator, np.zeros((size, size)))
        matrix[names.index(gold[question]), names.index(label)] += 1
    total = sum(counts.values(), np.zeros((size, size)))
    return AnnotatorMatrices(
        classes=names,
        matrices={annotator: _rows(matrix + smoothing) for annotator, matrix in counts.items()},
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
    secret, answer_list = coin_key(key=key, seed=seed, asked="a weighted vote"), list(answers)
    weights = _prior(prior, len(matrices.classes))
    logs = {annotator: np.log(matrices.of(annotator)) for annotator in {answer.annotator for answer in answer_list}}
    votes_on: dict[str, list[tuple[str, str]]] = {}
    for question, annotator, label in single_votes(answer_list, matrices.classes):
        votes_on.setdefault(question, []).append((annotator, label))
    return {
        question: _likeliest(question, votes_on.get(question, []), logs, weights, matrices.classes, secret)
        for question in current_answers(answer_list)
    }


def single_votes(answers: Iterable[Answer], classes: Sequence[str]) -> list[tuple[str, str, str]]:
    """(question, annotator, class) of every annotator's last word, without skips; BadInput for anything else."""
    votes, known = [], frozenset(classes)
    for question, by_annotator in current_answers(answers).items():
        for annotator, value in by_annotator.items():
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
    votes: list[tuple[str, str]],
    logs: Mapping[str, Floats],
    weights: list[float],
    classes: tuple[str, ...],
    key: SecretKey,
) -> str | None:
    if not votes:
        return None
    scores = [  # fsum: the same sum in whatever order people answered, so that ties are ties
        fsum([weights[number], *(float(logs[annotator][number, classes.index(label)]) for annotator, label in votes)])
        for number in range(len(classes))
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
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


Indices = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DawidSkene:
    """What the answers of a crowd say together. ``objective``: what EM climbed, a number a round.

    posterior   (questions, classes), rows in the order of ``questions``
    converged   False: it stopped after the allowed rounds
    """

    questions: tuple[str, ...]
    classes: tuple[str, ...]
    posterior: Floats
    prior: Floats
    annotators: AnnotatorMatrices
    objective: tuple[float, ...]
    converged: bool

    def labels(self, *, key: SecretKey | None = None, seed: int | None = None) -> dict[str, str]:
        """The likeliest class of every question; ties fall by the question's own coin."""
        secret = coin_key(key=key, seed=seed, asked="labels by Dawid-Skene")
        labels = {}
        for question, row in zip(self.questions, self.posterior, strict=True):
            tied = [name for name, share in zip(self.classes, row, strict=True) if share >= row.max() - _TIED]
            labels[question] = first_of(secret, "tie", question, tied)
        return labels

    def __repr__(self) -> str:
        """Sizes alone."""
        return f"DawidSkene(questions={len(self.questions)}, rounds={len(self.objective)}, converged={self.converged})"


def dawid_skene(
    answers: Iterable[Answer],
    *,
    classes: Sequence[str],
    records_released: bool,
    smoothing: float = 0.01,
    rounds: int = 500,
    tolerance: float = 1e-9,
    believed: float = 0.0,
    accuracy: float = 0.7,
    even: bool = False,
) -> DawidSkene:
    """EM over all questions that got an answer.

    ``believed`` answers of everybody, a share ``accuracy`` of them right, are thought of beforehand. ``even``: classes
    are held to be equally common.

    ``records_released=True`` declares that what the annotators saw had been released, and paid for, before. Labels of
    records that are still private must not be made this way, and anything else than True is refused.
    """
    if records_released is not True:
        raise BadInput(
            "Dawid-Skene over records that were not released",
            "it lets records decide each other's labels, and no private claim covers that",
            "Use majority, or weighted_vote with matrices of public gold questions",
        )
    if not smoothing >= 0 or not rounds >= 1:
        raise BadInput(f"smoothing={smoothing}, rounds={rounds}", "they are below 0 or 1", "Give more")
    names = checked_classes(classes)
    votes = single_votes(answers, names)
    if not votes:
        raise BadInput("Dawid-Skene", "there is no answer that is not a skip", "Collect answers first")
    questions = tuple(dict.fromkeys(question for question, _, _ in votes))
    people = tuple(dict.fromkeys(annotator for _, annotator, _ in votes))
    places = tuple({name: number for number, name in enumerate(part)} for part in (questions, people, names))
    table = np.array([[places[axis][vote[axis]] for axis in range(3)] for vote in votes], dtype=np.intp)
    posterior, prior, matrices, objective, converged = climb(
        table,
        len(names),
        smoothing=smoothing,
        rounds=rounds,
        tolerance=tolerance,
        thought=thought_of(len(names), believed, accuracy),
        even=even,
    )
    pooled = np.bincount(table[:, 1]) @ matrices.reshape(len(people), -1) / len(votes)
    return DawidSkene(
        questions=questions,
        classes=names,
        posterior=posterior,
        prior=prior,
        annotators=AnnotatorMatrices(
            classes=names, matrices=dict(zip(people, matrices, strict=True)), pooled=pooled.reshape(len(names), -1)
        ),
        objective=tuple(objective),
        converged=converged,
    )


def thought_of(classes: int, believed: float, accuracy: float) -> Floats:
    """Answers by true class that are thought of beforehand, for each true class as many."""
    if not believed >= 0 or not 0 < accuracy < 1:
        raise BadInput(f"believed={believed}, accuracy={accuracy}", "below 0, or no share", "Give 10 and 0.7, or 0")
    wrong = (1 - accuracy) / (classes - 1)
    return np.asarray(believed / classes * np.where(np.eye(classes, dtype=bool), accuracy, wrong))


def trust_in(posterior: Floats) -> Floats:
    """How far the likeliest class of each row is to be trusted: 1 if it is sure, 0 if all are alike."""
    size = posterior.shape[1]
    return np.asarray(np.clip((posterior.max(axis=1) - 1 / size) / (1 - 1 / size), 0, 1))


def climb(
    votes: Indices,
    classes: int,
    *,
    smoothing: float,
    rounds: int,
    tolerance: float,
    thought: Floats | None = None,
    even: bool = False,
) -> tuple[Floats, Floats, Floats, list[float], bool]:
    """EM from the shares of votes. ``votes``: rows of (question, annotator, class), numbered from 0 without gaps.

    ``thought``: of `thought_of`, added to everybody's counts.
    """
    cells = np.full((classes, classes), float(smoothing)) + (0.0 if thought is None else thought)
    posterior = np.zeros((votes[:, 0].max() + 1, classes))
    np.add.at(posterior, (votes[:, 0], votes[:, 2]), 1.0)
    posterior /= posterior.sum(axis=1, keepdims=True)
    objective: list[float] = []
    while True:
        prior, matrices = _most_likely(votes, posterior, smoothing, cells)
        prior = np.full(classes, 1 / classes) if even else prior
        posterior, height = _expected(votes, prior, matrices, smoothing, cells)
        objective.append(height)
        still = len(objective) > 1 and height - objective[-2] <= tolerance * max(1.0, abs(height))
        if still or len(objective) == rounds:
            return posterior, prior, matrices, objective, still


def _most_likely(votes: Indices, posterior: Floats, smoothing: float, cells: Floats) -> tuple[Floats, Floats]:
    """The M step: the prior, and matrices (annotators, true class, answered class)."""
    size = posterior.shape[1]
    counts = np.tile(cells, (votes[:, 1].max() + 1, 1, 1))
    np.add.at(counts.swapaxes(1, 2), (votes[:, 1], votes[:, 2]), posterior[votes[:, 0]])
    rows = counts.sum(axis=2, keepdims=True)
    matrices = np.divide(counts, rows, out=np.full_like(counts, 1 / size), where=rows > 0)
    prior = posterior.sum(axis=0) + smoothing
    return prior / prior.sum(), matrices


def _expected(votes: Indices, prior: Floats, matrices: Floats, smoothing: float, cells: Floats) -> tuple[Floats, float]:
    """The E step, and how high the parameters stand."""
    with np.errstate(divide="ignore"):  # log 0 = -inf is meant: never, and no class loses its last answer to it
        log_prior, log_matrices = np.log(prior), np.log(matrices)
    joint = np.tile(log_prior, (votes[:, 0].max() + 1, 1))
    np.add.at(joint, votes[:, 0], log_matrices[votes[:, 1], :, votes[:, 2]])
    top = joint.max(axis=1, keepdims=True)
    shares = np.exp(joint - top)
    total = shares.sum(axis=1, keepdims=True)
    height = float((top + np.log(total)).sum())
    if smoothing:
        height += smoothing * float(log_prior.sum())
    if cells.any():
        height += float((cells * log_matrices)[:, cells > 0].sum())
    return shares / total, height
