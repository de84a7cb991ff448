"""When a campaign stops: small rules, joined by ``|`` (any of them) and ``&`` (all of them).

    Labels(5000) | Phases(4) & Plateau(phases=2, gain=0.01)

Guarantee: a rule reads a `Progress`, and a `Progress` holds nothing that is not public or paid for, so stopping is
post-processing and costs nothing. It lowers no claim either: that a run stopped is an output, too
(`discreet.campaign.stopping_record`).

`Plateau` reads accuracies, and only from an `Evaluation`, public or paid. It does not trust their last digits: an
evaluation states where the true accuracy a is, [l, h] with 95%. The gain from the older (1) to the newer (2) is then,
with 95%, at most

    a2 - a1 + sqrt((h2 - a2)^2 + (a1 - l1)^2)

(two independent errors, squared and added; both evaluations use the same held-out records, whose errors go together, so
in truth it is less). The rule is met when even that is below ``gain``: a campaign goes on while it may be improving.

What there is not: a rule that is always met (it stops before it begins), a negation (it would stop first and go on
later), a truth value (``a or b`` would silently be a).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from discreet.campaign.stopping_progress import Progress, checked_count
from discreet.errors import BadInput
from discreet.privacy.exact import Number, exact_decimal, json_number

if TYPE_CHECKING:
    from discreet.trainers.accuracy import Evaluation

MOST_PARTS = 100


class Rule(ABC):
    """When to stop. ``a | b``: when either says so; ``a & b``: when both do."""

    kind: ClassVar[str]

    @abstractmethod
    def met(self, progress: Progress) -> bool:
        """Whether to stop now."""

    @abstractmethod
    def reason(self, progress: Progress) -> str:
        """Where it stands, in words; of a rule that is met, why."""

    def __or__(self, other: Rule) -> Rule:
        return _joined(AnyOf, (self, other)) if isinstance(other, Rule) else NotImplemented

    def __and__(self, other: Rule) -> Rule:
        if not isinstance(other, Rule):
            return NotImplemented
        return Never() if Never() in (self, other) else _joined(AllOf, (self, other))

    def __bool__(self) -> bool:
        raise BadInput("the truth of a stopping rule", "it depends on the progress", "Join rules by | and &, ask met()")

    def __repr__(self) -> str:
        names: list[str] = [one.name for one in fields(self)] if is_dataclass(self) else []
        given = [(name, getattr(self, name)) for name in names]
        shown = [(name, repr(json_number(value) if isinstance(value, Decimal) else value)) for name, value in given]
        inside = shown[0][1] if len(shown) == 1 else ", ".join(f"{name}={value}" for name, value in shown)
        return f"{type(self).__name__}({inside})"

    def to_json(self) -> dict[str, Any]:
        """The stored form (`discreet.campaign.stopping_forms`)."""
        from discreet.campaign.stopping_forms import rule_to_json

        return rule_to_json(self)

    @staticmethod
    def from_json(form: Any) -> Rule:
        """The rule a stored form names; only those of this module can be."""
        from discreet.campaign.stopping_forms import rule_from_json

        return rule_from_json(form)


@dataclass(frozen=True, repr=False)
class Never(Rule):
    """The empty rule: the campaign goes on until its plan or budget ends. ``Never() | a`` is a."""

    kind: ClassVar[str] = "never"

    def met(self, progress: Progress) -> bool:
        """No."""
        return False

    def reason(self, progress: Progress) -> str:
        """Always the same."""
        return "nothing stops it but its plan"


@dataclass(frozen=True, repr=False)
class Labels(Rule):
    """When ``count`` labels were asked for."""

    count: int
    kind: ClassVar[str] = "labels"

    def __post_init__(self) -> None:
        checked_count(self.count, "labels", least=1)

    def met(self, progress: Progress) -> bool:
        """As many, or more."""
        return progress.labels >= self.count

    def reason(self, progress: Progress) -> str:
        """So many of so many."""
        return f"{progress.labels} of {self.count} labels asked for"


@dataclass(frozen=True, repr=False)
class Phases(Rule):
    """When ``count`` phases are finished."""

    count: int
    kind: ClassVar[str] = "phases"

    def __post_init__(self) -> None:
        checked_count(self.count, "phases", least=1)

    def met(self, progress: Progress) -> bool:
        """As many, or more."""
        return progress.phases >= self.count

    def reason(self, progress: Progress) -> str:
        """So many of so many."""
        return f"{progress.phases} of {self.count} phases finished"


@dataclass(frozen=True, repr=False)
class SpentBudget(Rule):
    """When the ledger's gauge is at ``epsilon``. It lowers no claim; what is too much a ledger refuses by itself."""

    epsilon: Number
    kind: ClassVar[str] = "spent-budget"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_decimal(self.epsilon, "epsilon"))
        if exact_decimal(self.epsilon, "epsilon") <= 0:
            raise BadInput(f"stopping at epsilon={self.epsilon}", "it must be above 0", "Give what may be spent")

    def met(self, progress: Progress) -> bool:
        """As much, or more."""
        return progress.epsilon >= exact_decimal(self.epsilon, "epsilon")

    def reason(self, progress: Progress) -> str:
        """So much of so much."""
        return f"epsilon {progress.epsilon:.6g} of {self.epsilon} spent"


@dataclass(frozen=True, repr=False)
class Plateau(Rule):
    """When accuracy surely gained less than ``gain`` over the last ``phases`` phases. See the module for *surely*.

    The newest evaluation is compared with the newest that is at least so many phases older, of the same kind (public
    with public: other records have another accuracy). Without two such it is not met.
    """

    phases: int
    gain: Number = Decimal("0.01")
    kind: ClassVar[str] = "plateau"

    def __post_init__(self) -> None:
        checked_count(self.phases, "the phases of a plateau", least=1)
        object.__setattr__(self, "gain", exact_decimal(self.gain, "gain"))
        if not 0 < float(self.gain) < 1:
            raise BadInput(f"a gain of {self.gain}", "accuracy is between 0 and 1", "Give one such as 0.01")

    def met(self, progress: Progress) -> bool:
        """Whether even the upper end of the gain is too small."""
        pair = self._pair(progress)
        return pair is not None and most_gained(*pair[1:]) < float(self.gain)

    def reason(self, progress: Progress) -> str:
        """From which phase to which, how much, and how much at most."""
        pair = self._pair(progress)
        if pair is None:
            return f"there are no two evaluations {self.phases} phases apart"
        (older, newer), first, last = pair
        gained, most = last.accuracy - first.accuracy, most_gained(first, last)
        compared = "below" if most < float(self.gain) else "not surely below"
        return (
            f"{last.kind} accuracy gained {gained:.4f} from phase {older} to {newer}, "
            f"at most {most:.4f} with 95%: {compared} {self.gain}"
        )

    def _pair(self, progress: Progress) -> tuple[tuple[int, int], Evaluation, Evaluation] | None:
        newer = max(progress.evaluations, default=-1)
        last = progress.evaluations.get(newer)
        for older in reversed(list(progress.evaluations)):
            first = progress.evaluations[older]
            if last is not None and older <= newer - self.phases and first.kind == last.kind:
                return (older, newer), first, last
        return None


@dataclass(frozen=True, repr=False)
class AnyOf(Rule):
    """``a | b``: when one of ``rules`` is met."""

    rules: tuple[Rule, ...]
    kind: ClassVar[str] = "any"

    def __post_init__(self) -> None:
        _check_parts(self, self.rules)

    def met(self, progress: Progress) -> bool:
        """One or more."""
        return any(rule.met(progress) for rule in self.rules)

    def reason(self, progress: Progress) -> str:
        """Of those that are met; of all, while none is."""
        met = [rule for rule in self.rules if rule.met(progress)]
        return "; ".join(rule.reason(progress) for rule in met or self.rules)

    def __repr__(self) -> str:
        return " | ".join(repr(rule) for rule in self.rules)


@dataclass(frozen=True, repr=False)
class AllOf(Rule):
    """``a & b``: when all ``rules`` are met."""

    rules: tuple[Rule, ...]
    kind: ClassVar[str] = "all"

    def __post_init__(self) -> None:
        _check_parts(self, self.rules)

    def met(self, progress: Progress) -> bool:
        """Every one."""
        return all(rule.met(progress) for rule in self.rules)

    def reason(self, progress: Progress) -> str:
        """Of all; while one is missing, of those that are."""
        missing = [rule for rule in self.rules if not rule.met(progress)]
        return " and ".join(rule.reason(progress) for rule in missing or self.rules)

    def __repr__(self) -> str:
        return " & ".join(f"({rule!r})" if isinstance(rule, AnyOf) else repr(rule) for rule in self.rules)


def most_gained(first: Evaluation, last: Evaluation) -> float:
    """The upper end of the 95% interval of how much accuracy was gained from ``first`` to ``last``."""
    above, below = max(last.high - last.accuracy, 0.0), max(first.accuracy - first.low, 0.0)
    return last.accuracy - first.accuracy + math.hypot(above, below)


def _joined(cls: type[AnyOf] | type[AllOf], rules: Iterable[Rule]) -> Rule:
    """Flat, each rule once, without the empty one: there is one form of what means the same."""
    flat = [part for rule in rules for part in (rule.rules if isinstance(rule, cls) else (rule,))]
    parts = tuple(part for part in dict.fromkeys(flat) if part != Never())
    return cls(parts) if len(parts) > 1 else (parts or (Never(),))[0]


def _check_parts(whole: Rule, rules: Any) -> None:
    parts = rules if isinstance(rules, tuple) else ()
    if any(not isinstance(part, Rule) or isinstance(part, (type(whole), Never)) for part in parts):
        raise BadInput("joining stopping rules", "a part is no rule, or one that adds nothing", "Join rules by | and &")
    if not 2 <= len(parts) <= MOST_PARTS or len(set(parts)) != len(parts):
        raise BadInput("joining stopping rules", f"it takes 2 to {MOST_PARTS} different rules", "Join rules by | and &")
