"""How far annotators agree with each other on questions that several of them answered.

Raw agreement is the share of pairs of answers that are the same. Kappa takes away what would agree by chance: 1 is full
agreement, 0 what guessing by the same frequencies gives. Two people: Cohen's (each with their own frequencies); all of
them together: Fleiss', a question with n answers counting by its n(n-1) ordered pairs, so that questions may have
different numbers of answers. An answer with several labels agrees with the same set alone. A skip is no answer.

Audience: owner. Nobody paid for it, so it may not be published, and nothing of it says who is right.

References: Cohen (1960), Fleiss (1971), in the form of Gwet (2014) for unequal numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from discreet.records import Answer

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
    said: By = {}
    for one in answers:
        if one.value is not None and one.annotator not in without:
            value = one.value if isinstance(one.value, str) else tuple(sorted(one.value))
            said.setdefault(one.question_id, {})[one.annotator] = value
    several = {question: mine for question, mine in said.items() if len(mine) > 1}
    counts = [Counter(mine.values()) for mine in several.values()]
    return Agreement(
        questions=len(several),
        raw=raw_agreement(counts) if counts else None,
        kappa=fleiss_kappa(counts) if counts else None,
        pairs=_pairs(several),
    )


def raw_agreement(counts: Sequence[Mapping[Hashable, int]]) -> float:
    """The mean over questions of the share of pairs of answers that are the same. ``counts``: answers by class."""
    return sum(_same_pairs(one) for one in counts) / len(counts)


def fleiss_kappa(counts: Sequence[Mapping[Hashable, int]]) -> float | None:
    """Fleiss' kappa of answers by class, a mapping a question. None: everybody always said the same one class."""
    shares: Counter[Hashable] = Counter()
    for one in counts:
        whole = sum(one.values())
        for value, times in one.items():
            shares[value] += times / whole / len(counts)  # type: ignore[assignment]
    return _above_chance(raw_agreement(counts), sum(share**2 for share in shares.values()))


def cohen_kappa(said: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Cohen's kappa of two people's answers to the same questions. None: both always said the same one class."""
    n = len(said)
    first, second = Counter(one for one, _ in said), Counter(other for _, other in said)
    chance = sum(first[value] * second[value] for value in first) / n**2
    return _above_chance(sum(one == other for one, other in said) / n, chance)


def _pairs(several: By) -> tuple[PairAgreement, ...]:
    both: dict[tuple[str, str], list[tuple[Hashable, Hashable]]] = {}
    for mine in several.values():
        for first, second in combinations(sorted(mine), 2):
            both.setdefault((first, second), []).append((mine[first], mine[second]))
    found = [
        PairAgreement(
            first=first,
            second=second,
            questions=len(said),
            raw=sum(one == other for one, other in said) / len(said),
            kappa=cohen_kappa(said),
        )
        for (first, second), said in both.items()
    ]
    return tuple(sorted(found, key=lambda pair: (-pair.questions, pair.first, pair.second)))


def _same_pairs(counts: Mapping[Hashable, int]) -> float:
    whole = sum(counts.values())
    return sum(times * (times - 1) for times in counts.values()) / (whole * (whole - 1))


def _above_chance(raw: float, chance: float) -> float | None:
    return None if chance >= 1 else (raw - chance) / (1 - chance)
