"""Answers: whether they fit the task, one label a question by majority vote, and how far annotators agree.

`check_answers` takes a list of answers as one or refuses it as one, unless the caller says otherwise. The refusal
counts, and points: at lines, and at the ids of questions that were asked, which are public. It never repeats a value,
nor an id that nobody asked about: that cell may hold anything.

Guarantee of `majority`: the label of a question is a function of the answers to this question and of a keyed hash of
its id, or of its record's id (``coins``). No other record has a say, so a label depends on its own record and on things
that are independent of all records, as every claim assumes (docs/proofs/index.md).

Ties are broken by keyed hashes of public ids: the random number belongs to what is decided (a question, an annotator, a
class) and to a key, never to the order of asking or to earlier ties, so a restart repeats it. A campaign gives its own
secret key. A seed is for simulations.

`agreement_of` (audience: owner): raw agreement is the share of pairs of answers that are the same. Kappa takes away
what would agree by chance: 1 is full agreement, 0 what guessing by the same frequencies gives. Cohen's for two people;
Fleiss' for all, a question with n answers counting by its n(n-1) ordered pairs. An answer with several labels agrees
with the same set alone; a skip is no answer. Cohen (1960), Fleiss (1971), in the form of Gwet (2014).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from discreet.errors import BadInput
from discreet.noise import SecretKey
from discreet.records import Answer, Question, Value


def checked_classes(classes: Sequence[str], *, multilabel: bool = False) -> tuple[str, ...]:
    """Declared classes, or BadInput."""
    if isinstance(classes, str) or not all(isinstance(name, str) and name for name in classes):
        raise BadInput("the classes of a task", "they are not a list of texts", 'Declare them, like ["cat", "dog"]')
    least = 1 if multilabel else 2
    if len(classes) < least or len(set(classes)) < len(classes):
        raise BadInput(
            f"a task of {len(classes)} classes", f"it needs {least} or more, each named once", "Declare all of them"
        )
    return tuple(classes)


def fits(value: object, known: Container[str], *, multilabel: bool) -> bool:
    """Whether it is a skip, a known class or, for several labels, a tuple of them."""
    if value is None:
        return True
    if not multilabel:
        return isinstance(value, str) and value in known
    return isinstance(value, tuple) and all(isinstance(label, str) and label in known for label in value)


def in_order(value: Value, classes: Sequence[str]) -> Value:
    """Several labels in the order of the classes, each once: two people who mean the same say the same."""
    if not isinstance(value, tuple):
        return value
    return tuple(name for name in classes if name in value)


_SHOWN = 5


@dataclass(frozen=True, kw_only=True, repr=False)
class Accepted:
    """Answers, sorted by what can be done with them. Audience: owner.

    valid     to take; several labels stand in the order of the classes, each once
    unknown   to questions that were not asked
    outside   not of the declared classes, or of the wrong kind: one label for several, several for one
    """

    valid: tuple[Answer, ...]
    unknown: tuple[Answer, ...] = ()
    outside: tuple[Answer, ...] = ()

    def __repr__(self) -> str:
        """Counts alone."""
        return f"Accepted(valid={len(self.valid)}, unknown={len(self.unknown)}, outside={len(self.outside)})"


def check_answers(
    answers: Iterable[Answer],
    *,
    questions: Iterable[Question],
    classes: Sequence[str],
    multilabel: bool = False,
    lines: Sequence[int] | None = None,
    strict: bool = True,
) -> Accepted:
    """Sort ``answers``; with ``strict``, refuse all of them if one is unknown or outside.

    ``lines``: where each answer stands in its file, to point at it; without them its number in the list is told.
    """
    answer_list, asked = list(answers), {question.id for question in questions}
    names = checked_classes(classes, multilabel=multilabel)
    known = frozenset(names)
    kinds = [_kind(answer, number, asked, known, multilabel) for number, answer in enumerate(answer_list, 1)]
    if strict and any(kinds):
        raise _refusal(
            answer_list, kinds, range(1, len(answer_list) + 1) if lines is None else lines, lines is not None
        )
    return Accepted(
        valid=tuple(
            replace(answer, value=in_order(answer.value, names))
            for answer, kind in zip(answer_list, kinds, strict=True)
            if not kind
        ),
        unknown=tuple(answer for answer, kind in zip(answer_list, kinds, strict=True) if kind == "unknown"),
        outside=tuple(answer for answer, kind in zip(answer_list, kinds, strict=True) if kind == "outside"),
    )


def _kind(answer: object, number: int, asked: Container[str], known: Container[str], multilabel: bool) -> str:
    """Whether it is "unknown", "outside" or "" (valid). What is no answer at all is refused: the caller is mistaken."""
    subject = f"answer number {number}"
    if not isinstance(answer, Answer):
        raise BadInput(subject, f"it is a {type(answer).__name__}", "Give Answer(question_id=..., value=...)")
    if not isinstance(answer.question_id, str) or not isinstance(answer.annotator, str):
        raise BadInput(subject, "its question_id or annotator is not text", "Ids are texts everywhere")
    if answer.at is not None and answer.at.tzinfo is None:
        raise BadInput(subject, "its time has no time zone", "Give one, such as datetime.now(timezone.utc), or None")
    if answer.question_id not in asked:
        return "unknown"
    return "" if fits(answer.value, known, multilabel=multilabel) else "outside"


def _refusal(answers: list[Answer], kinds: list[str], places: Sequence[int], in_file: bool) -> BadInput:
    word = "line" if in_file else "number"
    unknown = [f"{word} {line}" for line, kind in zip(places, kinds, strict=True) if kind == "unknown"]
    outside = [
        f"{word} {line} (question {answer.question_id})"
        for answer, line, kind in zip(answers, places, kinds, strict=True)
        if kind == "outside"
    ]
    facts = []
    if unknown:
        facts.append(f"{len(unknown)} to questions that were not asked: {_first(unknown)}")
    if outside:
        facts.append(f"{len(outside)} outside the declared classes: {_first(outside)}")
    return BadInput(f"{len(answers)} answers", "; ".join(facts), "None was taken. Correct these and tell all again")


def _first(places: list[str]) -> str:
    more = len(places) - _SHOWN
    return ", ".join(places[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def seeded_key(seed: int) -> SecretKey:
    """The key of a simulation."""
    if type(seed) is not int:
        raise BadInput("a simulation seed", "it is not a whole number", "Give a seed such as 7")
    return SecretKey(hashlib.blake2b(str(seed).encode(), digest_size=32, person=b"simulated oracle").digest())


def coin_key(*, key: SecretKey | None, seed: int | None, asked: str) -> SecretKey:
    """The one that was given of the two."""
    if key is not None and seed is None:
        return key
    if seed is not None and key is None:
        return seeded_key(seed)
    raise BadInput(asked, "ties are broken by a key or by a seed", "Give key=SecretKey(...), or seed= in a simulation")


def chance(key: SecretKey, use: str, *parts: str) -> float:
    """A number in [0, 1) for these parts, unrelated to that of any others."""
    return (_word(key, use, parts) >> 11) * 2.0**-53


def first_of(key: SecretKey, use: str, question_id: str, tied: Iterable[str]) -> str:
    """One of ``tied``, each as likely as the others, whatever their order."""
    return min(tied, key=lambda name: (_word(key, use, (question_id, name)), name))


def _word(key: SecretKey, use: str, parts: tuple[str, ...]) -> int:
    text = json.dumps(parts)  # one text for one list of parts; plain ASCII whatever is in them
    return int(key.words([text], use)[0])


def current_answers(answers: Iterable[Answer]) -> dict[str, dict[str, Value]]:
    """By question and annotator: one annotator has one voice, and the last that they said counts.

    Answers without an annotator's name are all of one, unnamed annotator.
    """
    latest: dict[str, dict[str, Value]] = {}
    for answer in answers:
        latest.setdefault(answer.question_id, {})[answer.annotator] = answer.value
    return latest


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
        question: _one_question(question, named.get(question, question), list(by_annotator.values()), secret)
        for question, by_annotator in current_answers(answers).items()
    }


def _one_question(question: str, coin: str, answers: list[Value], key: SecretKey) -> Value:
    votes = [value for value in answers if value is not None]
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
        if 2 * counts[label] > len(votes)
        or (2 * counts[label] == len(votes) and chance(key, "tie", question, label) < 0.5)
    )


By = dict[str, dict[str, Hashable]]
"""What was said, by question and annotator."""


@dataclass(frozen=True, kw_only=True)
class PairAgreement:
    """Of two annotators on ``questions`` that both answered. ``kappa``: None where chance alone would agree fully."""

    first: str
    second: str
    questions: int
    raw: float
    kappa: float | None


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Of all annotators on ``questions`` that two or more answered. ``pairs``: those with most questions first."""

    questions: int
    raw: float | None
    kappa: float | None
    pairs: tuple[PairAgreement, ...]


def agreement_of(answers: Iterable[Answer], *, without: Sequence[str] = ()) -> Agreement:
    """Of answers as they stand; those ``without`` are no people: labels that were there before."""
    answers_by_question: By = {}
    for answer in answers:
        if answer.value is not None and answer.annotator not in without:
            value = answer.value if isinstance(answer.value, str) else tuple(sorted(answer.value))
            answers_by_question.setdefault(answer.question_id, {})[answer.annotator] = value
    several = {
        question: by_annotator for question, by_annotator in answers_by_question.items() if len(by_annotator) > 1
    }
    counts = [Counter(by_annotator.values()) for by_annotator in several.values()]
    return Agreement(
        questions=len(several),
        raw=raw_agreement(counts) if counts else None,
        kappa=fleiss_kappa(counts) if counts else None,
        pairs=_pairs(several),
    )


def raw_agreement(counts: Sequence[Mapping[Hashable, int]]) -> float:
    """The mean over questions of the share of pairs of answers that are the same. ``counts``: answers by class."""
    return sum(_same_pairs(question_counts) for question_counts in counts) / len(counts)


def fleiss_kappa(counts: Sequence[Mapping[Hashable, int]]) -> float | None:
    """Fleiss' kappa of answers by class, a mapping a question. None: everybody always said the same one class."""
    shares: Counter[Hashable] = Counter()
    for question_counts in counts:
        total = sum(question_counts.values())
        for value, times in question_counts.items():
            shares[value] += times / total / len(counts)  # type: ignore[assignment]
    return _above_chance(raw_agreement(counts), sum(share**2 for share in shares.values()))


def cohen_kappa(answer_pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Cohen's kappa of two people's answers to the same questions. None: both always said the same one class."""
    n = len(answer_pairs)
    first, second = Counter(own_answer for own_answer, _ in answer_pairs), Counter(other for _, other in answer_pairs)
    chance = sum(first[value] * second[value] for value in first) / n**2
    return _above_chance(sum(own_answer == other for own_answer, other in answer_pairs) / n, chance)


def _pairs(several: By) -> tuple[PairAgreement, ...]:
    both: dict[tuple[str, str], list[tuple[Hashable, Hashable]]] = {}
    for by_annotator in several.values():
        for first, second in combinations(sorted(by_annotator), 2):
            both.setdefault((first, second), []).append((by_annotator[first], by_annotator[second]))
    agreements = [
        PairAgreement(
            first=first,
            second=second,
            questions=len(answer_pairs),
            raw=sum(own_answer == other for own_answer, other in answer_pairs) / len(answer_pairs),
            kappa=cohen_kappa(answer_pairs),
        )
        for (first, second), answer_pairs in both.items()
    ]
    return tuple(sorted(agreements, key=lambda pair: (-pair.questions, pair.first, pair.second)))


def _same_pairs(counts: Mapping[Hashable, int]) -> float:
    total = sum(counts.values())
    return sum(times * (times - 1) for times in counts.values()) / (total * (total - 1))


def _above_chance(raw: float, chance: float) -> float | None:
    return None if chance >= 1 else (raw - chance) / (1 - chance)
