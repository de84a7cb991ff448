"""When a campaign stops: small rules, joined by ``|`` (any of them) and ``&`` (all of them).

    Labels(5000) | Phases(4) & Plateau(phases=2, gain=0.01)

Guarantee: a rule reads a `Progress`, and a `Progress` holds nothing that is not public or paid for, so stopping is
post-processing and costs nothing. It lowers no claim either: that a run stopped is an output, too
(`discreet.campaign.stopping_rules`).

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast

from discreet.errors import BadInput
from discreet.privacy.budget import Number, exact_decimal, json_number
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger.terms import Mode

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
        names: list[str] = [part.name for part in fields(self)] if is_dataclass(self) else []
        shown = [(name, repr(_plain(getattr(self, name)))) for name in names]
        inside = shown[0][1] if len(shown) == 1 else ", ".join(f"{name}={value}" for name, value in shown)
        return f"{type(self).__name__}({inside})"

    def to_json(self) -> dict[str, Any]:
        """A plain form that `from_json` reads back to an equal rule."""
        return {"format": RULE_FORMAT} | _form(self, MAX_DEPTH)

    @staticmethod
    def from_json(form: Any) -> Rule:
        """The rule that a stored form names, one of this module, or `BadInput`."""
        if not isinstance(form, dict) or form.get("format") != RULE_FORMAT:
            raise _broken(f"it is not a form of {RULE_FORMAT}")
        try:
            rule = _read({key: value for key, value in form.items() if key != "format"}, MAX_DEPTH)
        except BadInput as error:
            raise _broken(error.fact) from None
        if rule.to_json() != form:
            raise _broken("it is not in the one form we write")
        return rule


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
        gained, possible = last.accuracy - first.accuracy, most_gained(first, last)
        compared = "below" if possible < float(self.gain) else "not surely below"
        return (
            f"{last.kind} accuracy gained {gained:.4f} from phase {older} to {newer}, "
            f"at most {possible:.4f} with 95%: {compared} {self.gain}"
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


def _check_parts(rule: Rule, rules: Any) -> None:
    parts = rules if isinstance(rules, tuple) else ()
    if any(not isinstance(part, Rule) or isinstance(part, (type(rule), Never)) for part in parts):
        raise BadInput("joining stopping rules", "a part is no rule, or one that adds nothing", "Join rules by | and &")
    if not 2 <= len(parts) <= MOST_PARTS or len(set(parts)) != len(parts):
        raise BadInput("joining stopping rules", f"it takes 2 to {MOST_PARTS} different rules", "Join rules by | and &")


# Progress: all that a stopping rule may read. Guarantee: numbers that are public or paid for, and nothing else. An
# accuracy comes as the `Evaluation` that says how it was measured; a bare number is refused, and so is a simulated
# one in a production campaign.


MOST = 10**15


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a campaign has come, in numbers that are public or paid for. Audience: public.

    labels       labels asked for so far (asked, not answered: who answers may depend on the record); of a hidden
                 selection as many as were planned, for how many were asked is private there
    phases       phases that are finished; after the first training, 1
    epsilon      what was spent so far, by the ledger's gauge
    evaluations  by phase (0 is the first): an `Evaluation`, public or paid. A bare number is refused
    simulation   whether the campaign is one; a production campaign reads no simulated evaluation
    """

    labels: int
    phases: int
    epsilon: Decimal = Decimal(0)
    evaluations: Mapping[int, Evaluation] = field(default_factory=dict)
    simulation: bool = False

    def __post_init__(self) -> None:
        for name in ("labels", "phases"):
            checked_count(getattr(self, name), name, least=0)
        object.__setattr__(self, "epsilon", _spent(self.epsilon))
        for phase, evaluation in self.evaluations.items():
            checked_count(phase, "the phase of an evaluation", least=0)
            if phase >= self.phases:
                raise BadInput(f"an evaluation of phase {phase}", f"{self.phases} are finished", "They count from 0")
            _paid_for(evaluation, simulation=self.simulation)
        object.__setattr__(self, "evaluations", MappingProxyType(dict(sorted(self.evaluations.items()))))


def _spent(value: Any) -> Decimal:
    """A ledger's total as it is, however many digits its exact sum has; other numbers as their writer meant them."""
    spent = value if isinstance(value, Decimal) else exact_decimal(value, "epsilon spent")
    if not spent.is_finite() or spent < 0:
        raise BadInput("epsilon spent", "it is a finite number from 0", "Give the ledger's total")
    return spent


def checked_count(value: Any, name: str, *, least: int) -> None:
    """Raise `BadInput` unless ``value`` is a whole number from ``least``."""
    if type(value) is not int or not least <= value <= MOST:
        raise BadInput(name, f"they are counted by a whole number from {least}", "Count again")


def _paid_for(evaluation: Any, *, simulation: bool) -> None:
    """An accuracy is read from an evaluation that says how it came to be, or not at all."""
    from discreet.trainers.accuracy import Evaluation

    if type(evaluation) is not Evaluation or evaluation.kind not in ("public", "paid"):
        raise BadInput(
            "an accuracy to stop by",
            "nothing says that it was public or paid for",
            "Give the Evaluation of evaluate_public or evaluate_paid",
        )
    if evaluation.simulation and not simulation:
        raise BadInput("an accuracy to stop by", "it was simulated: its noise hides nobody", "Pay for an evaluation")
    if not all(0 <= end <= 1 for end in (evaluation.accuracy, evaluation.low, evaluation.high)):  # NaN is not
        raise BadInput("an accuracy to stop by", "it is not a share with an interval", "Evaluate again")


# The record of a stop. A claim is never lower because a campaign stopped. *Committed*: the worst path of the whole
# plan. *Adaptive*: the whole budget of the filter. When a run stops is decided by what it released, so a claim that
# depends on it would be chosen by the outputs (docs/proofs/ledger.md, docs/proofs/adaptive-filters.md). Guarantee:
# `Stop.claimed_epsilon` is the epsilon of the certificate that `certify` gives of the same ledger.


STOP_FORMAT = "discreet.stop/1"


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Audience: public. ``claimed_epsilon`` and ``claimed_delta`` are the guarantee, ``spent_epsilon`` is a gauge."""

    rule: Rule
    reason: str
    labels: int
    phases: int
    mode: Mode
    claimed_epsilon: Decimal
    claimed_delta: Decimal
    spent_epsilon: Decimal
    simulation: bool

    def to_json(self) -> dict[str, Any]:
        """A form for ``--json`` and reports."""
        return {
            "format": STOP_FORMAT,
            "simulation": self.simulation,
            "audience": "public",
            "rule": self.rule.to_json(),
            "reason": self.reason,
            "labels": self.labels,
            "phases": self.phases,
            "mode": self.mode,
            "claim": {"epsilon": json_number(self.claimed_epsilon), "delta": json_number(self.claimed_delta)},
            "spent_epsilon": json_number(self.spent_epsilon),
        }


def progress_of(
    ledger: Ledger, *, labels: int, phases: int, evaluations: Mapping[int, Evaluation] | None = None
) -> Progress:
    """Progress of a campaign under ``ledger``: its gauge is that of the path that spent most."""
    return Progress(
        labels=labels,
        phases=phases,
        epsilon=max(total.epsilon for total in ledger.totals()),
        evaluations=evaluations or {},
        simulation=ledger.simulation,
    )


def check_stop(rule: Rule, progress: Progress, *, ledger: Ledger) -> Stop | None:
    """A record of stopping now, with its claim, if ``rule`` is met; else None. Charges nothing, changes nothing.

    The claim is computed as for a certificate: seconds, where PLD is the accountant.
    """
    from discreet.privacy.certificate import certify

    if progress.simulation != ledger.simulation:
        raise BadInput("stopping a campaign", "one of progress and ledger is a simulation and the other is not",
                       "Use progress_of(ledger, ...)")  # fmt: skip
    if not rule.met(progress):
        return None
    claim = certify(ledger)["claim"]
    return Stop(
        rule=rule,
        reason=rule.reason(progress),
        labels=progress.labels,
        phases=progress.phases,
        mode=ledger.terms.mode,
        claimed_epsilon=Decimal(str(claim["epsilon"])),
        claimed_delta=Decimal(str(claim["delta"])),
        spent_epsilon=progress.epsilon,
        simulation=ledger.simulation,
    )


# The stored form of rules: a closed registry. Reading is strict: `Rule.from_json` accepts what `Rule.to_json` writes,
# and nothing else. No class is looked up by a stored name, and nothing is unpickled.


RULE_FORMAT = "discreet.stopping/1"
REGISTRY: dict[str, type[Rule]] = {
    cls.kind: cls for cls in cast("list[type[Rule]]", [AllOf, AnyOf, Labels, Never, Phases, Plateau, SpentBudget])
}
MAX_DEPTH = 16
"""Rules nest; a stored one that nests deeper than this is not one of ours."""


def _form(rule: Rule, depth: int) -> dict[str, Any]:
    if REGISTRY.get(getattr(rule, "kind", "")) is not type(rule) or depth == 0:
        raise BadInput("storing a stopping rule", "it nests too deep, or is of a kind of your own", "Use those we have")
    form: dict[str, Any] = {"kind": rule.kind}
    for part in fields(rule):  # type: ignore[arg-type]
        value = getattr(rule, part.name)
        if isinstance(value, tuple):
            form[part.name] = [_form(part, depth - 1) for part in value]
        else:
            form[part.name] = _plain(value)
    return form


def _plain(value: Any) -> Any:
    return json_number(value) if isinstance(value, Decimal) else value


def _read(form: Any, depth: int) -> Rule:
    kind = form.get("kind") if isinstance(form, dict) else None
    cls = REGISTRY.get(kind) if isinstance(kind, str) else None
    if cls is None or depth == 0:
        raise _broken("its kind is not in the registry, or it nests too deep")
    names = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    if set(form) != names | {"kind"}:
        raise _broken(f"the keys of {kind} are not {sorted(names)}")
    return cls(**{name: _value(form[name], depth) for name in names})


def _value(value: Any, depth: int) -> Any:
    if isinstance(value, list):
        return tuple(_read(part, depth - 1) for part in value)
    if not isinstance(value, (int, float, str)):
        raise _broken("a part is of the wrong type")
    return value


def _broken(fact: str) -> BadInput:
    return BadInput("a stored stopping rule", fact, "Restore the file, or upgrade discreet")
