"""The whole tool under attack: rates of what is shown, with the unit and without it, against what was claimed.

One release of many values that nobody shares is many trials of one: each value has the same number of others, and a
unit of its own that is there or is not. Planted mistakes must be found by the same attack.
"""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gate_reference import paid
from scipy.stats import binom

from discreet.gates import CrowdGate, Profile, open_log, table_log
from discreet.gates import gate as gate_room
from discreet.gates.contributions import SmallestValues, UnitValues, ValueCounts
from discreet.noise import SecretKey
from discreet.privacy.accounting.release_gate import largest_loss, release_delta
from discreet.testing.noise import SURELY

pytestmark = pytest.mark.thorough

TRIALS = 4000


def log_with(others, *, present, repeats=1, trials=TRIALS):
    """Every value has ``others`` units of its own, and a target that brings it ``repeats`` times, or is null."""
    value = np.repeat(np.arange(trials), others)
    unit = np.arange(value.size)
    if present:
        value = np.concatenate([value, np.repeat(np.arange(trials), repeats)])
        unit = np.concatenate([unit, -1 - np.repeat(np.arange(trials), repeats)])
    order = np.random.default_rng(0).permutation(value.size)
    table = pa.table({"q": [f"v{one}" for one in value[order]], "p": unit[order]})
    return table_log(table, text="q", person="p")


def shown(gate, log, seed):
    receipt, _ledger = paid(gate, seed)
    return {int(text[1:]) for text in gate.release(log, receipt=receipt).texts.to_pylist()}


def rates(gate, others, repeats=1):
    with_it = len(shown(gate, log_with(others, present=True, repeats=repeats), 1))
    without = len(shown(gate, log_with(others, present=False), 2))
    return with_it, without


def surely_above(count, chance):
    """Whether so many of the trials are too many for a chance."""
    return binom.sf(count - 1, TRIALS, chance) < SURELY


def divergence_exceeds(gate, epsilon, with_it, without):
    """Whether the counts prove more than the claim, forward or backward: by exact intervals of both rates."""
    from scipy.stats import beta

    low = [beta.ppf(SURELY, count, TRIALS - count + 1) if count else 0.0 for count in (with_it, without)]
    high = [beta.ppf(1 - SURELY, count + 1, TRIALS - count) if count < TRIALS else 1.0 for count in (with_it, without)]
    claim, factor = Profile(k=gate.k, beta=gate.beta, values=gate.values), math.exp(epsilon)
    forward, backward = claim.deltas(epsilon)
    return low[0] - factor * high[1] > forward or (1 - high[1]) - factor * (1 - low[0]) > backward


SETTINGS = [(3, 0.5, 0.1), (3, 0.5, 0.6), (5, 0.3, 0.3), (8, 0.7, 0.2)]


@pytest.mark.parametrize(("k", "beta", "epsilon"), SETTINGS)
@pytest.mark.parametrize("repeats", [1, 12])
def test_at_the_worst_number_of_others_rates_are_the_claimed_ones(k, beta, epsilon, repeats):
    gate = CrowdGate(k=k, beta=beta)
    for way in ("forward", "backward"):
        worst = release_delta(k, beta, epsilon, way)
        with_it, without = rates(gate, worst.others, repeats)
        for count, units in ((with_it, worst.others + 1), (without, worst.others)):
            chance = binom.sf(k - 1, units, beta)
            assert binom.cdf(count, TRIALS, chance) > SURELY
            assert not surely_above(count, chance)
        assert not divergence_exceeds(gate, epsilon, with_it, without)


def test_at_k_minus_one_others_nothing_is_shown_without_the_unit():
    gate = CrowdGate(k=3, beta=0.5)
    with_it, without = rates(gate, 2)
    assert without == 0
    assert abs(with_it / TRIALS - 0.5**3) < 6 * math.sqrt(0.125 * 0.875 / TRIALS)


def test_several_values_of_a_person_are_cut_before_their_coins():
    """Targets that bring five values, and may bring two: each value is theirs with chance 2/5, then kept by a coin."""
    k, beta, groups = 2, 0.5, 4000
    gate = CrowdGate(k=k, beta=beta, values=2)
    value = np.arange(5 * groups)
    unit = value // 5
    others = np.concatenate([value, value])  # two others for every value
    table = pa.table(
        {
            "q": [f"v{one}" for one in np.concatenate([value, others])],
            "p": np.concatenate([unit, 10**6 + np.arange(others.size)]),
        }
    )
    seen = len(shown(gate, table_log(table, text="q", person="p"), 3))
    chance = 0.4 * binom.sf(k - 1, 3, beta) + 0.6 * binom.sf(k - 1, 2, beta)
    assert binom.cdf(seen, value.size, chance) > SURELY
    assert binom.sf(seen - 1, value.size, chance) > SURELY


# -- planted mistakes


def test_one_too_few_is_found(monkeypatch):
    reached = ValueCounts.reached
    monkeypatch.setattr(ValueCounts, "reached", lambda self, k: reached(self, k - 1))
    gate = CrowdGate(k=5, beta=0.7)
    assert divergence_exceeds(gate, largest_loss(5, 0.7), *rates(gate, 3))


def test_occurrences_sampled_before_persons_are_found(monkeypatch):
    add, chance = SmallestValues.add, np.random.default_rng(4)

    def sampled(self, units, values, words):
        rows = chance.random(len(units)) < 0.1
        return add(self, units[rows], values[rows], words[rows])

    monkeypatch.setattr(SmallestValues, "add", sampled)
    monkeypatch.setattr(UnitValues, "_fell", lambda self, units, values: values)
    gate = CrowdGate(k=5, beta=0.1)
    others = release_delta(5, 0.1, 0.25, "forward").others
    assert divergence_exceeds(gate, 0.25, *rates(gate, others, repeats=100))
    assert not divergence_exceeds(gate, 0.25, *rates(gate, others, repeats=1))  # it takes somebody who wrote much


def test_a_key_used_again_on_a_grown_log_is_found(monkeypatch):
    """Seen twice: hidden first and shown then. With fresh keys that has its own chance, with or without the unit."""
    gate, others = CrowdGate(k=20, beta=0.3), 63

    def both(present):
        first = shown(gate, log_with(others, present=False), 1)
        return len(shown(gate, log_with(others, present=present), 2) - first)

    def proves(with_it, without, epsilon=1.0):
        from scipy.stats import beta

        low, high = beta.ppf(SURELY, with_it, TRIALS), beta.ppf(1 - SURELY, without + 1, TRIALS)
        claim = 2 * Profile(k=20, beta=0.3).delta(epsilon / 2)
        return low - math.exp(epsilon) * high > claim

    assert not proves(both(True), both(False))
    monkeypatch.setattr(gate_room, "release_key", lambda receipt, *, master: SecretKey(bytes(32)))
    assert both(False) == 0
    assert proves(both(True), both(False))


# -- nothing below k


def never_below(gate, path, rows, memory=None):
    """Every released value was kept by at least k units, by an independent count of the released ones alone."""
    import duckdb

    receipt, _ledger = paid(gate)
    log = open_log(path, text="q", person="p" if gate.persons else None)
    found = gate.release(log, receipt=receipt, memory=memory)
    assert found.figures.rows == rows
    assert len(found) > 10
    assert min(found.counts) >= gate.k
    having = "count(distinct p)" if gate.persons else "count(*)"
    known = duckdb.sql(f"select q, {having} from '{path}' group by q").fetchall()
    most = dict(known)
    assert all(most[text] >= count for text, count in zip(found.texts.to_pylist(), found.counts, strict=True))
    certain = binom.isf(1 - 1e-12, np.array(list(most.values())), gate.beta)  # kept by so many, surely
    if not gate.persons:
        sure = {text for text, low in zip(most, certain, strict=True) if low >= gate.k}
        assert sure <= set(found.texts.to_pylist())


def write_log(path, rows):
    writer, chance = None, np.random.default_rng(5)
    for start in range(0, rows, 1 << 20):
        size = min(1 << 20, rows - start)
        texts = pa.array((rows // 20 * chance.random(size) ** 8).astype(np.int64)).cast(pa.string())
        table = pa.table({"q": texts, "p": (rows // 10 * chance.random(size) ** 2).astype(np.int64)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()
    return path


@pytest.mark.parametrize("persons", [True, False])
@pytest.mark.parametrize("memory", [None, 32 << 20])
def test_a_million_rows(tmp_path, persons, memory):
    gate = CrowdGate(k=20, beta=0.3, counts=True, persons=persons)
    never_below(gate, write_log(tmp_path / "log.parquet", 10**6), 10**6, memory)


@pytest.mark.long
@pytest.mark.parametrize("persons", [True, False])
@pytest.mark.parametrize("memory", [None, 32 << 20])
def test_a_hundred_million_rows(tmp_path, persons, memory):
    gate = CrowdGate(k=20, beta=0.3, counts=True, persons=persons)
    never_below(gate, write_log(tmp_path / "log.parquet", 10**8), 10**8, memory)
