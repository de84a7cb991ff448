"""Dawid-Skene: the labels of many records and the errors of their annotators, from each other, by EM.

Every record has a say in how far an annotator is trusted, and so in every other record's label. A label then depends on
more than its own record, which the claims of private recipes do not allow: there use `majority`, or `weighted_vote`
with matrices of public gold questions. Where the records *were released before they were shown* (the crowd recipe: a
gate paid for what the crowd sees), answers are made of released things and this is free post-processing. Nothing here
can know which it is, so the caller declares it.

    E   P(c | answers to q)  ~  prior(c) * product over answers of M_a[c, l]
    M   M_a[c, l]  ~  smoothing + sum of P(c | q) over the questions to which a answered l;  prior(c) likewise

It climbs log-likelihood + smoothing * (sum log M + sum log prior), which never falls from one round to the next.

With few answers a person EM believes in people who were lucky, and does worse than counting votes. ``believed`` and
``accuracy`` say what is thought of everybody beforehand: that of ``believed`` answers a share ``accuracy`` would be
right, the others wrong alike. They are added to the counts of M like smoothing (a Dirichlet prior), and the same law
holds. They are declared, or come from public gold questions.

``even`` holds the prior at alike. Whoever trains a classifier on the labels wants that: it learns how common classes
are from the texts, and a prior in every single label would count it twice, and turn rare classes into common ones.
Reference: Dawid and Skene, Applied Statistics 28 (1979) 20-28; there smoothing is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise import SecretKey
from discreet.oracles.annotators import AnnotatorMatrices, Floats, single_votes
from discreet.oracles.fair_coins import coin_key, first_of
from discreet.oracles.values import checked_classes
from discreet.records import Answer

Whole = NDArray[np.intp]
_TIED = 1e-9


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
        found = {}
        for question, row in zip(self.questions, self.posterior, strict=True):
            tied = [name for name, share in zip(self.classes, row, strict=True) if share >= row.max() - _TIED]
            found[question] = first_of(secret, "tie", question, tied)
        return found

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
    places = tuple({name: place for place, name in enumerate(part)} for part in (questions, people, names))
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
    found: Floats = believed / classes * np.where(np.eye(classes, dtype=bool), accuracy, wrong)
    return found


def trust_in(posterior: Floats) -> Floats:
    """How far the likeliest class of each row is to be trusted: 1 if it is sure, 0 if all are alike."""
    size = posterior.shape[1]
    found: Floats = np.clip((posterior.max(axis=1) - 1 / size) / (1 - 1 / size), 0, 1)
    return found


def climb(
    votes: Whole,
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


def _most_likely(votes: Whole, posterior: Floats, smoothing: float, cells: Floats) -> tuple[Floats, Floats]:
    """The M step: the prior, and matrices (annotators, true class, answered class)."""
    size = posterior.shape[1]
    counts = np.tile(cells, (votes[:, 1].max() + 1, 1, 1))
    np.add.at(counts.swapaxes(1, 2), (votes[:, 1], votes[:, 2]), posterior[votes[:, 0]])
    rows = counts.sum(axis=2, keepdims=True)
    matrices = np.divide(counts, rows, out=np.full_like(counts, 1 / size), where=rows > 0)
    prior = posterior.sum(axis=0) + smoothing
    return prior / prior.sum(), matrices


def _expected(votes: Whole, prior: Floats, matrices: Floats, smoothing: float, cells: Floats) -> tuple[Floats, float]:
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
