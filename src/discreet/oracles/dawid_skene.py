"""Dawid-Skene: the labels of many records and the errors of their annotators, from each other, by EM.

Every record has a say in how far an annotator is trusted, and so in every other record's label. A label then depends on
more than its own record, which the claims of private recipes do not allow: there use `majority`, or `weighted_vote`
with matrices of public gold questions. Where the records *were released before they were shown* (the crowd recipe: a
gate paid for what the crowd sees), answers are made of released things and this is free post-processing. Nothing here
can know which it is, so the caller declares it.

    E   P(c | answers to q)  ~  prior(c) * product over answers of M_a[c, l]
    M   M_a[c, l]  ~  smoothing + sum of P(c | q) over the questions to which a answered l;  prior(c) likewise

It climbs log-likelihood + smoothing * (sum log M + sum log prior), which never falls from one round to the next.
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
) -> DawidSkene:
    """EM over all questions that got an answer.

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
        table, len(names), smoothing=smoothing, rounds=rounds, tolerance=tolerance
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


def climb(
    votes: Whole, classes: int, *, smoothing: float, rounds: int, tolerance: float
) -> tuple[Floats, Floats, Floats, list[float], bool]:
    """EM from the shares of votes. ``votes``: rows of (question, annotator, class), numbered from 0 without gaps."""
    posterior = np.zeros((votes[:, 0].max() + 1, classes))
    np.add.at(posterior, (votes[:, 0], votes[:, 2]), 1.0)
    posterior /= posterior.sum(axis=1, keepdims=True)
    objective: list[float] = []
    while True:
        prior, matrices = _most_likely(votes, posterior, smoothing)
        posterior, height = _expected(votes, prior, matrices, smoothing)
        objective.append(height)
        still = len(objective) > 1 and height - objective[-2] <= tolerance * max(1.0, abs(height))
        if still or len(objective) == rounds:
            return posterior, prior, matrices, objective, still


def _most_likely(votes: Whole, posterior: Floats, smoothing: float) -> tuple[Floats, Floats]:
    """The M step: the prior, and matrices (annotators, true class, answered class)."""
    size = posterior.shape[1]
    counts = np.full((votes[:, 1].max() + 1, size, size), float(smoothing))
    np.add.at(counts.swapaxes(1, 2), (votes[:, 1], votes[:, 2]), posterior[votes[:, 0]])
    rows = counts.sum(axis=2, keepdims=True)
    matrices = np.divide(counts, rows, out=np.full_like(counts, 1 / size), where=rows > 0)
    prior = posterior.sum(axis=0) + smoothing
    return prior / prior.sum(), matrices


def _expected(votes: Whole, prior: Floats, matrices: Floats, smoothing: float) -> tuple[Floats, float]:
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
        height += smoothing * float(log_matrices.sum() + log_prior.sum())
    return shares / total, height
