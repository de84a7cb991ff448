"""The audit target of the release gate: the real gate, its ledger and keys, on a log of canaries and of made-up others.

Every canary has values of its own, and so many others have each of them that the output swings:

    middle    about k / beta others: the canary's coin decides as often as anybody's can
    edge      k - 1 others, and everybody repeats it: with the coin of a person it is next to never shown; without
              coins, or with one an occurrence, whenever the canary is there
    alone     nobody else, and the canary repeats it often: never shown, unless occurrences are counted

A log of rows is released twice, as it is and after canaries were appended, each release charged and with coins of its
own. A log of persons is released once. One that does not take part is a row without a text.

    shown       which of a canary's values are shown, as log likelihood ratio
    edge        everybody is there whose value at the edge is shown
    alone       everybody is there whose value is shown though they alone have it
    appeared    everybody is there whose value is in the later release and not in the earlier one
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.findings import GUESSED, Array, Attack, findings_of, shown_only
from discreet.audit.results import NO_FAULT, Fault, TargetResult
from discreet.gates import CrowdGate, QueryLog, table_log
from discreet.gates.calibration import outputs
from discreet.noise import Seeded
from discreet.planning.pate.vote_noise import claimed
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, Line, MemorySink, committed

REPEATS, OFTEN = 12, 100
EDGE, ALONE = 0.2, 0.1
"""Of the canaries."""
WHO = "log"
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class GateTarget:
    """How the target is planned. All public. ``values``: of a person."""

    persons: bool = True
    k: int = 24
    beta: float = 0.3
    values: int = 4
    delta: str = "1e-8"
    canaries: int = 5000
    fault: Fault = NO_FAULT

    def audit(self, name: str, seed: int) -> TargetResult:
        """Release once, or twice, and attack what is shown."""
        log, claim = CanaryLog(target=self), self.claim()
        coins = np.random.default_rng([seed, self.canaries]).random(self.canaries) < 0.5
        shown = run_gate(self, log, coins, seed=seed)
        attacks = {
            "shown": Attack(scores=of_shown(self, log, shown[-1]), count=round(GUESSED * self.canaries)),
            "edge": shown_only((log.others == self.k - 1) & shown[-1].any(axis=1)),
        }
        if self.persons:
            attacks["alone"] = shown_only((log.others == 0) & shown[-1].any(axis=1))
        if self.releases > 1:
            attacks["appeared"] = shown_only(np.asarray((shown[-1] & ~shown[0]).any(axis=1)))
        findings = findings_of(attacks, coins, claimed=claim, delta=float(self.delta), seed=seed)
        return TargetResult(target=name, claimed=claim, findings=findings)

    @property
    def releases(self) -> int:
        """Rows are released twice."""
        return 1 if self.persons else 2

    def gate(self) -> CrowdGate:
        """The gate of each release."""
        return CrowdGate(k=self.k, beta=self.beta, values=self.values if self.persons else 1, persons=self.persons)

    def claim(self) -> float:
        """What all releases together cost a unit at ``delta``."""
        budget = Budget(epsilon=1000, delta=self.delta)
        return float(claimed(((self.gate().price(), self.releases),), budget))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CanaryLog:
    """Who has which value. Values of canary i are numbers i * values, ...; others have one value each."""

    target: GateTarget

    @cached_property
    def others(self) -> Integers:
        """How many others have each canary's values."""
        target, count = self.target, self.target.canaries
        others = np.full(count, round(target.k / target.beta) - 1, dtype=np.int64)
        others[: round(EDGE * count)] = target.k - 1
        if target.persons:
            others[: round(ALONE * count)] = 0
        return others

    @cached_property
    def repeats(self) -> Integers:
        """How often everybody says each canary's values."""
        repeats = np.ones(self.target.canaries, dtype=np.int64)
        if self.target.persons:
            repeats[self.others == self.target.k - 1] = REPEATS
            repeats[self.others == 0] = OFTEN
        return repeats

    def of_others(self) -> Any:
        """Rows of everybody who is no canary."""
        values = self.target.gate().values
        times = np.repeat(self.others * self.repeats, values)
        value = np.repeat(np.arange(times.size), times)
        person = np.concatenate([[0], np.cumsum(np.repeat(self.others, values))])[:-1]
        within = np.arange(value.size) - np.repeat(np.cumsum(times) - times, times)
        return _rows(value, person[value] + within // self.repeats[value // values], "o")

    def of_canaries(self, coins: NDArray[np.bool_]) -> Any:
        """Rows of canaries; of one that is not there, without a text."""
        values = self.target.gate().values
        value = np.repeat(np.arange(self.target.canaries * values), np.repeat(self.repeats, values))
        return _rows(value, value // values, "c", present=coins[value // values])


def _rows(value: Integers, person: Integers, name: str, present: NDArray[np.bool_] | None = None) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    texts = compute.binary_join_element_wise("value", pa.array(value).cast(pa.string()), " ")
    if present is not None:
        texts = compute.if_else(pa.array(present), texts, pa.scalar(None, pa.string()))
    persons = compute.binary_join_element_wise(name, pa.array(person).cast(pa.string()), "-")
    return pa.table({"text": texts, "person": persons})


def run_gate(target: GateTarget, log: CanaryLog, coins: NDArray[np.bool_], *, seed: int) -> list[NDArray[np.bool_]]:
    """Of each release, which values were shown, (canaries, values)."""
    import pyarrow as pa

    gate, unit = target.gate(), "person" if target.persons else "record"
    budget = Budget(epsilon=1000, delta=target.delta, unit=unit)  # type: ignore[arg-type]
    terms = committed(budget, [Line(who=WHO, event=gate.price(), count=target.releases)])
    ledger = Ledger.create(MemorySink(), terms, source=Seeded(seed))
    others = log.of_others()
    tables = [*[others] * (target.releases - 1), pa.concat_tables([others, log.of_canaries(coins)])]
    shown = []
    with target.fault.inject():
        for table in tables:
            receipt = ledger.charge(event=gate.price(), who=WHO, why="release")
            rows = table_log(table, text="text", person="person" if target.persons else None)
            shown.append(_shown(gate, rows, receipt, target.canaries))
    return shown


def _shown(gate: CrowdGate, rows: QueryLog, receipt: Any, canaries: int) -> NDArray[np.bool_]:
    release = gate.release(rows, receipt=receipt, threads=1)
    shown = np.zeros(canaries * gate.values, dtype=bool)
    shown[[int(text.split(" ")[1]) for text in release.texts.to_pylist()]] = True
    return shown.reshape(canaries, gate.values)


def of_shown(target: GateTarget, log: CanaryLog, shown: NDArray[np.bool_]) -> Array:
    """For each canary, how much likelier what is shown is if it is there."""
    ratio = np.zeros(target.canaries)
    for others in np.unique(log.others).tolist():
        with_it, without = outputs(target.k, target.beta, int(others))
        canaries = log.others == others
        yes = math.log(with_it[1] / without[1]) if without[1] > 0 else 50.0
        no = math.log(with_it[0] / without[0])
        ratio[canaries] = np.where(shown[canaries], yes, no).sum(axis=1)
    return ratio
