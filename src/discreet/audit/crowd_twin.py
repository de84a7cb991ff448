"""A twin of the release gate, attacked: the real gate, its ledger and keys, on a log of canaries and of made-up others.

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

from discreet.audit.attacks import GUESSED, Array, Attack, found_by, shown_only
from discreet.audit.audited import Audited
from discreet.audit.crowd_mistakes import CrowdPlant, planted_in_gate
from discreet.gates import CrowdGate
from discreet.gates.profile import outputs
from discreet.gates.query_log import QueryLog, table_log
from discreet.noise import Seeded
from discreet.planning.teachers.claims import claimed
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, Line, MemorySink, committed

REPEATS, OFTEN = 12, 100
EDGE, ALONE = 0.2, 0.1
"""Of the canaries."""
WHO = "log"
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class CrowdTwin:
    """How the twin is planned. All public. ``values``: of a person."""

    persons: bool = True
    k: int = 24
    beta: float = 0.3
    values: int = 4
    delta: str = "1e-8"
    canaries: int = 5000
    plant: CrowdPlant | None = None

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
class Log:
    """Who has which value. Values of canary i are numbers i * values, ...; others have one value each."""

    twin: CrowdTwin

    @cached_property
    def others(self) -> Integers:
        """How many others have each canary's values."""
        twin, count = self.twin, self.twin.canaries
        found = np.full(count, round(twin.k / twin.beta) - 1, dtype=np.int64)
        found[: round(EDGE * count)] = twin.k - 1
        if twin.persons:
            found[: round(ALONE * count)] = 0
        return found

    @cached_property
    def repeats(self) -> Integers:
        """How often everybody says each canary's values."""
        found = np.ones(self.twin.canaries, dtype=np.int64)
        if self.twin.persons:
            found[self.others == self.twin.k - 1] = REPEATS
            found[self.others == 0] = OFTEN
        return found

    def of_others(self) -> Any:
        """Rows of everybody who is no canary."""
        values = self.twin.gate().values
        times = np.repeat(self.others * self.repeats, values)
        value = np.repeat(np.arange(times.size), times)
        person = np.concatenate([[0], np.cumsum(np.repeat(self.others, values))])[:-1]
        within = np.arange(value.size) - np.repeat(np.cumsum(times) - times, times)
        return _rows(value, person[value] + within // self.repeats[value // values], "o")

    def of_canaries(self, coins: NDArray[np.bool_]) -> Any:
        """Rows of canaries; of one that is not there, without a text."""
        values = self.twin.gate().values
        value = np.repeat(np.arange(self.twin.canaries * values), np.repeat(self.repeats, values))
        return _rows(value, value // values, "c", there=coins[value // values])


def _rows(value: Integers, person: Integers, name: str, there: NDArray[np.bool_] | None = None) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    texts = compute.binary_join_element_wise("value", pa.array(value).cast(pa.string()), " ")
    if there is not None:
        texts = compute.if_else(pa.array(there), texts, pa.scalar(None, pa.string()))
    persons = compute.binary_join_element_wise(name, pa.array(person).cast(pa.string()), "-")
    return pa.table({"text": texts, "person": persons})


def run_gate(twin: CrowdTwin, log: Log, coins: NDArray[np.bool_], *, seed: int) -> list[NDArray[np.bool_]]:
    """Of each release, which values were shown, (canaries, values)."""
    import pyarrow as pa

    gate, unit = twin.gate(), "person" if twin.persons else "record"
    budget = Budget(epsilon=1000, delta=twin.delta, unit=unit)  # type: ignore[arg-type]
    terms = committed(budget, [Line(who=WHO, event=gate.price(), count=twin.releases)])
    ledger = Ledger.create(MemorySink(), terms, source=Seeded(seed))
    before, whole = log.of_others(), None
    found = []
    with planted_in_gate(twin.plant):
        for number in range(twin.releases):
            if number == twin.releases - 1:
                whole = pa.concat_tables([before, log.of_canaries(coins)])
            rows = before if whole is None else whole
            receipt = ledger.charge(event=gate.price(), who=WHO, why="release")
            found.append(_shown(gate, _log(rows, persons=twin.persons), receipt, twin.canaries))
    return found


def _log(rows: Any, *, persons: bool) -> QueryLog:
    return table_log(rows, text="text", person="person" if persons else None)


def _shown(gate: CrowdGate, rows: QueryLog, receipt: Any, canaries: int) -> NDArray[np.bool_]:
    found = gate.release(rows, receipt=receipt, threads=1)
    shown = np.zeros(canaries * gate.values, dtype=bool)
    shown[[int(text.split(" ")[1]) for text in found.texts.to_pylist()]] = True
    return shown.reshape(canaries, gate.values)


def of_shown(twin: CrowdTwin, log: Log, shown: NDArray[np.bool_]) -> Array:
    """For each canary, how much likelier what is shown is if it is there."""
    ratio = np.zeros(twin.canaries)
    for others in np.unique(log.others).tolist():
        with_it, without = outputs(twin.k, twin.beta, int(others))
        mine = log.others == others
        yes = math.log(with_it[1] / without[1]) if without[1] > 0 else 50.0
        no = math.log(with_it[0] / without[0])
        ratio[mine] = np.where(shown[mine], yes, no).sum(axis=1)
    return ratio


def audit_crowd_twin(name: str, twin: CrowdTwin, seed: int) -> Audited:
    """Release once, or twice, and attack what is shown."""
    log = Log(twin=twin)
    coins = np.random.default_rng([seed, twin.canaries]).random(twin.canaries) < 0.5
    seen, claim = run_gate(twin, log, coins, seed=seed), twin.claim()
    tried = {
        "shown": Attack(scores=of_shown(twin, log, seen[-1]), made=round(GUESSED * twin.canaries)),
        "edge": shown_only((log.others == twin.k - 1) & seen[-1].any(axis=1)),
    }
    if twin.persons:
        tried["alone"] = shown_only((log.others == 0) & seen[-1].any(axis=1))
    if twin.releases > 1:
        tried["appeared"] = shown_only(np.asarray((seen[-1] & ~seen[0]).any(axis=1)))
    findings = found_by(tried, coins, claimed=claim, delta=float(twin.delta), seed=seed)
    return Audited(twin=name, claimed=claim, findings=findings)
