"""One label a record from several annotators: the majority of that record's own answers.

Guarantee: the label of a question is a function of the answers to this question and of a keyed hash of its id, or of
its record's id (``coins``). No other record has a say, so that a label depends on its own record and on things that are
independent of all records, as every claim assumes (docs/proofs/index.md). Ties fall at random, the same way whenever
and in whatever order they are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from discreet.errors import BadInput
from discreet.noise import SecretKey
from discreet.oracles.fair_coins import chance, coin_key, first_of
from discreet.records import Answer, Value


def current_answers(answers: Iterable[Answer]) -> dict[str, dict[str, Value]]:
    """By question and annotator: one annotator has one voice, and the last that they said counts.

    Answers without an annotator's name are all of one, unnamed annotator.
    """
    found: dict[str, dict[str, Value]] = {}
    for answer in answers:
        found.setdefault(answer.question_id, {})[answer.annotator] = answer.value
    return found


def majority(
    answers: Iterable[Answer],
    *,
    key: SecretKey | None = None,
    seed: int | None = None,
    coins: Mapping[str, str] | None = None,
) -> dict[str, Value]:
    """The label of every question that was answered; None where all skipped. Skips have no vote.

    Of several labels, each is decided by itself: it holds if more than half of the voters say so. ``coins``: by
    question, the id whose coin decides its ties, such as its record's; without it, the question's own.
    """
    secret, named = coin_key(key=key, seed=seed, asked="a majority"), coins or {}
    return {
        question: _one_question(question, named.get(question, question), list(said.values()), secret)
        for question, said in current_answers(answers).items()
    }


def _one_question(question: str, coin: str, said: list[Value], key: SecretKey) -> Value:
    votes = [value for value in said if value is not None]
    single = [value for value in votes if isinstance(value, str)]
    several = [value for value in votes if isinstance(value, tuple)]
    if single and several:
        raise BadInput(
            f"the votes on question {question}", "some are one label, some several", "Check the answers first"
        )
    if several:
        return _label_by_label(coin, several, key)
    return most_voted(coin, Counter(single), key) if single else None


def most_voted(question: str, weights: Counter[str], key: SecretKey) -> str:
    """The name with most votes; among equals, by the question's own coin."""
    top = max(weights.values())
    return first_of(key, "tie", question, (name for name, count in weights.items() if count == top))


def _label_by_label(question: str, votes: list[tuple[str, ...]], key: SecretKey) -> tuple[str, ...]:
    counts = Counter(label for value in votes for label in set(value))
    return tuple(
        label
        for label in sorted(counts)
        if 2 * counts[label] > len(votes) or (2 * counts[label] == len(votes) and _heads(key, question, label))
    )


def _heads(key: SecretKey, question: str, label: str) -> bool:
    return chance(key, "tie", question, label) < 0.5
