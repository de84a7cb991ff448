"""The local engine's parts against dictionaries, when memory is short, sketches collide, and threads are many."""

import dataclasses
from collections import Counter
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest
from gate_reference import paid, reference_release
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput
from discreet.gates import CrowdGate, sketches, table_log, text_log
from discreet.gates import local_engine as engine
from discreet.gates.code_storage import CodeTable, Spill
from discreet.gates.contributions import ValueCounts
from discreet.gates.gate import LEAST_MEMORY
from discreet.gates.local_engine import release_locally
from discreet.gates.query_log import TablePart, unwatched
from discreet.noise import SecretKey

pytestmark = pytest.mark.thorough

KEY = SecretKey(bytes(range(32)))


def codes_of(numbers):
    """Codes that share places of a table: their low bits are few."""
    numbers = np.asarray(numbers, dtype=np.uint64)
    return np.column_stack([numbers % np.uint64(7), (numbers << np.uint64(48)) ^ numbers])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(0, 300), max_size=80), max_size=8))
def test_a_table_numbers_codes_as_a_dictionary_does(batches):
    table, known = CodeTable(), {}
    for batch in batches:
        before = table.known(codes_of(batch))
        assert before.tolist() == [known.get(one, -1) for one in batch]
        found = table.numbers(codes_of(batch)).tolist()
        for one, number in zip(batch, found, strict=True):
            assert known.setdefault(one, number) == number
        assert len(table) == len(known) == len(set(known.values()))
    assert np.array_equal(table.codes[list(known.values())], codes_of(list(known)))


def test_a_table_grows():
    table, numbers = CodeTable(), np.random.default_rng(0).integers(0, 2**63, (50_000, 2), dtype=np.uint64)
    found = np.concatenate([table.numbers(numbers[start : start + 7_000]) for start in range(0, 50_000, 7_000)])
    assert np.array_equal(table.known(numbers), found)
    assert np.array_equal(table.codes[found], numbers)
    assert len(table) == 50_000
    assert (table.known(numbers + np.uint64(1)) == -1).all()


@pytest.mark.parametrize("memory", [0, 10_000, 10**9])
@pytest.mark.parametrize("most", [200, 10**9])
def test_what_is_set_aside_comes_back_with_equal_codes_together(tmp_path, memory, most):
    chance = np.random.default_rng(1)
    records = chance.integers(0, 2**63, (500, 3), dtype=np.uint64)[chance.integers(0, 500, 20_000)]
    records[:, 1] <<= np.uint64(1)
    with closing(Spill(words=3, by=1, memory=memory, directory=tmp_path)) as spill:
        for start in range(0, 20_000, 999):
            spill.add(records[start : start + 999])
        assert any(spill._files) == (memory < 10**9)
        assert not list(tmp_path.iterdir())  # nothing has a name
        pieces = [piece.copy() for piece in spill.parts(most)]
    seen = Counter(row.tobytes() for row in records)
    assert Counter(row.tobytes() for piece in pieces for row in piece) == seen
    homes = [{row.tobytes() for row in piece} for piece in pieces]
    assert sum(map(len, homes)) == len(set().union(*homes))


@pytest.mark.parametrize("memory", [0, 1 << 20])
def test_values_are_counted_exactly_however_little_fits(tmp_path, memory):
    """20,000 values, and 4,096 places in the table: the others are counted part by part."""
    chance = np.random.default_rng(2)
    known = chance.integers(0, 2**63, (20_000, 2), dtype=np.uint64)
    drawn = (20_000 * chance.random(100_000) ** 2).astype(np.int64)
    counts = ValueCounts(memory=memory, directory=tmp_path)
    for start in range(0, 100_000, 3_000):
        some = drawn[start : start + 3_000]
        counts.add(known[some], np.full(some.size, 2))
    truth = {known[one].tobytes(): 2 * times for one, times in Counter(drawn.tolist()).items() if 2 * times >= 11}
    codes, times = counts.reached(11)
    assert {code.tobytes(): int(time) for code, time in zip(codes, times, strict=True)} == truth
    assert counts.total == 200_000


def log_of(rows, pieces=1):
    """Several parts, as of several files."""
    table = pa.table({"q": [text for _, text in rows], "p": [who for who, _ in rows]})
    size = -(-len(rows) // pieces)
    log = table_log(table, text="q", person="p")
    return dataclasses.replace(log, parts=[TablePart(table.slice(start, size)) for start in range(0, len(rows), size)])


def made_rows(units=9_000, rows=12_000):
    chance = np.random.default_rng(3)
    who = (units * chance.random(rows) ** 1.5).astype(int)
    what = (3_000 * chance.random(rows) ** 3).astype(int)
    return [(f"p{a}", f"text {b}") for a, b in zip(who, what, strict=True)]


def found_by(gate, log, **options):
    texts, counts, figures = release_locally(
        gate.price(), log, coin=gate.coin, key=KEY, progress=unwatched, **({"memory": None} | options)
    )
    return dict(zip(texts.to_pylist(), counts.tolist(), strict=True)), figures


@pytest.mark.parametrize("values", [1, 2, 12])
def test_units_that_do_not_fit_into_memory(tmp_path, monkeypatch, values):
    gate, rows = CrowdGate(k=5, beta=0.6, values=values, counts=True), made_rows()
    truth = reference_release(gate, KEY, [rows])
    plain, figures = found_by(gate, log_of(rows, 3))
    assert plain == truth
    assert figures.units == len({who for who, _ in rows})
    monkeypatch.setattr(engine, "DEFAULT_MEMORY", 1 << 20)
    tight, again = found_by(gate, log_of(rows, 7), scratch=tmp_path, threads=3)
    assert tight == truth
    assert again == figures


class Crowded:
    """A sketch of one place a row: everything collides with everything."""

    def __init__(self, width, depth, key):
        self.total = 0

    def add(self, codes, counts=1):
        self.total += int(np.sum(np.broadcast_to(counts, len(codes))))

    def upper(self, codes):
        return np.full(len(codes), self.total)


@pytest.mark.parametrize("persons", [True, False])
@pytest.mark.parametrize("collide", [False, True, "narrow"])
def test_a_sketch_lets_out_nothing_else(monkeypatch, persons, collide):
    gate, rows = CrowdGate(k=5, beta=0.6, counts=True, persons=persons), made_rows()
    if not persons:
        rows = [(None, text) for _, text in rows]
    log = log_of(rows, 3) if persons else text_log([text for _, text in rows])
    if collide == "narrow":
        real = sketches.CountMin
        monkeypatch.setattr(sketches, "CountMin", lambda width, depth, key: real(16, depth, key))
    elif collide:
        monkeypatch.setattr(sketches, "CountMin", Crowded)
    found, _ = found_by(gate, log, memory=LEAST_MEMORY)
    assert found == reference_release(gate, KEY, [rows])


def test_a_sketch_that_under_counts_would_lose_values(monkeypatch):
    """The sketch matters: one that says too little is seen in the output."""
    gate, rows = CrowdGate(k=5, beta=0.6, counts=True), made_rows()
    monkeypatch.setattr(sketches.CountMin, "upper", lambda self, codes: np.zeros(len(codes)))
    assert found_by(gate, log_of(rows), memory=LEAST_MEMORY)[0] == {}


def test_too_little_memory_is_refused():
    gate = CrowdGate(k=5, beta=0.6)
    receipt, _ledger = paid(gate)
    with pytest.raises(BadInput, match="1000 bytes"):
        gate.release(log_of(made_rows(rows=10)), receipt=receipt, memory=1000)


def test_no_rows_no_values():
    for gate, log in (
        (CrowdGate(k=1, beta=0.9), text_log([], [])),
        (CrowdGate(k=1, beta=0.9, persons=False), text_log([])),
        (CrowdGate(k=1, beta=0.9), text_log([None, "", " "], ["a", "b", None])),
    ):
        assert found_by(gate, log)[0] == {}
        assert found_by(gate, log, memory=LEAST_MEMORY)[0] == {}


def test_an_error_in_a_thread_ends_the_release():
    gate = CrowdGate(k=1, beta=0.9)
    log = log_of(made_rows(rows=100), 5)

    class Broken:
        def pieces(self, number, text, unit):
            raise BadInput("reading x", "it is broken", "Mend it")
            yield

        def check_readable(self, text, unit):
            pass

        def check_unchanged(self):
            pass

    with pytest.raises(BadInput, match="broken"):
        found_by(gate, dataclasses.replace(log, parts=[*log.parts, Broken()]))


@pytest.mark.parametrize("persons", [True, False])
def test_progress_says_nothing_of_the_size_of_a_log(persons):
    """A size in bytes, or how many parts were filled, is a number of the log that nobody paid for."""
    said = []
    for size in (50, 3_000):
        log = text_log(["word" * size] * size, [f"p{number}" for number in range(size)] if persons else None)
        wholes = set()
        gate = CrowdGate(k=3, beta=0.5, values=2 if persons else 1, persons=persons)
        release_locally(
            gate.price(),
            log,
            coin=gate.coin,
            key=KEY,
            memory=None,
            progress=lambda what, done, of, seen=wholes: seen.add((what, of)),
        )
        said.append(wholes)
    assert said[0] == said[1]
    assert said[0]


def test_a_machine_with_very_much_memory_has_a_sketch_still(monkeypatch):
    made = []
    monkeypatch.setattr(sketches, "CountMin", lambda width, depth, key: made.append(width))
    engine.make_sketch(1 << 45, KEY)
    assert made == [1 << 31]
