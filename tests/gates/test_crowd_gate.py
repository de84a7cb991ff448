"""The gate lets out what a dead-simple one would, under the same key; and nothing that fewer than k kept."""

import dataclasses

import pyarrow as pa
import pytest
from gate_reference import paid, reference_release
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput, InvalidEvent, ReceiptRefused
from discreet.gates import CrowdGate, QueryLog, table_log, text_log
from discreet.noise import SecretKey, release_key

pytestmark = pytest.mark.thorough

TEXTS = st.sampled_from(
    ["a", "A ", "b", "ß", "SS", "ﬁn", "fin", "", " ", "日本", "\U0001f600", "e\u0301", "é", "a" * 40]
)
NAMES = st.sampled_from(["ann", "bob", "cy", "dee", "", "é", "1", "x" * 33])
MASTER = SecretKey(bytes(range(32)))


def key_of(gate, seed=1):
    """The key that the same charge from the same seed gives."""
    receipt, _ledger = paid(gate, seed)
    return release_key(receipt)


def released(gate, log, seed=1, **options):
    receipt, _ledger = paid(gate, seed)
    return gate.release(log, receipt=receipt, **options)


def as_dict(found):
    return dict(zip(found.texts.to_pylist(), [int(count) for count in found.counts], strict=True))


GATES = st.builds(
    CrowdGate,
    k=st.integers(1, 4),
    beta=st.sampled_from([0.1, 0.5, 0.9]),
    values=st.integers(1, 3),
    counts=st.just(True),
    normalisation=st.sampled_from(["nfkc,case,whitespace", "none", "case"]),
)


@settings(deadline=None, max_examples=150)
@given(gate=GATES, rows=st.lists(st.tuples(st.none() | NAMES, st.none() | TEXTS), max_size=60), seed=st.integers(0, 9))
def test_persons_as_the_reference_has_them(gate, rows, seed):
    rows = [("somebody", None), *rows]  # the reference tells from a name that there are some
    log = text_log([text for _, text in rows], [unit for unit, _ in rows])
    found = released(gate, log, seed)
    assert as_dict(found) == reference_release(gate, key_of(gate, seed), [rows])
    assert found.texts.to_pylist() == sorted(found.texts.to_pylist(), key=str.encode)


@settings(deadline=None, max_examples=100)
@given(gate=GATES, texts=st.lists(st.none() | TEXTS, max_size=60), seed=st.integers(0, 9))
def test_rows_as_the_reference_has_them(gate, texts, seed):
    gate = dataclasses.replace(gate, persons=False, values=1)
    found = released(gate, text_log(texts), seed)
    assert as_dict(found) == reference_release(gate, key_of(gate, seed), [[(None, text) for text in texts]])


@settings(deadline=None, max_examples=60)
@given(gate=GATES, rows=st.lists(st.tuples(NAMES, TEXTS), max_size=60))
def test_a_row_id_that_repeats_is_one_unit(gate, rows):
    gate = dataclasses.replace(gate, persons=False, values=1)
    table = pa.table({"q": [text for _, text in rows], "id": [unit for unit, _ in rows]}, _TWO)
    found = released(gate, table_log(table, text="q", row_id="id"))
    assert as_dict(found) == reference_release(gate, key_of(gate), [[("-", None), *rows]])


_TWO = pa.schema([("q", pa.string()), ("id", pa.string())])


def test_columns_of_other_types_are_the_same_log():
    gate = CrowdGate(k=2, beta=0.9, values=2, counts=True)
    rows = [(str(number % 7), f"word {number % 5}") for number in range(200)]
    plain = as_dict(released(gate, text_log([text for _, text in rows], [unit for unit, _ in rows])))
    assert plain
    for text in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())):
        for person in (pa.int64(), pa.uint8(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
            names = pa.array([unit for unit, _ in rows])
            kind = person.value_type if pa.types.is_dictionary(person) else person
            names = names.cast(kind).dictionary_encode() if pa.types.is_dictionary(person) else names.cast(kind)
            column = pa.array([text for _, text in rows])
            column = column.dictionary_encode() if pa.types.is_dictionary(text) else column.cast(text)
            assert (
                as_dict(released(gate, table_log(pa.table({"q": column, "p": names}), text="q", person="p"))) == plain
            )


def test_a_master_key_and_the_entry_make_the_key():
    gate = CrowdGate(k=1, beta=0.5, counts=True)
    log = text_log([f"{number}" for number in range(300)], [f"p{number}" for number in range(300)])
    receipt, ledger = paid(gate)
    once = gate.release(log, receipt=receipt, master=MASTER)
    assert set(as_dict(once)) != set(as_dict(released(gate, log)))
    other, _ledger = paid(gate)
    assert set(as_dict(gate.release(log, receipt=other, master=MASTER))) != set(as_dict(once))  # another entry
    assert not ledger.closed


def test_a_receipt_serves_one_batch_of_the_gate_it_was_charged_for():
    gate = CrowdGate(k=2, beta=0.5)
    log = text_log(["a"], ["p"])
    receipt, _ledger = paid(gate)
    with pytest.raises(ReceiptRefused, match="another gate"):
        CrowdGate(k=1, beta=0.5).release(log, receipt=receipt)
    rows = dataclasses.replace(gate, persons=False)
    of_rows, _other = paid(rows)
    with pytest.raises(ReceiptRefused, match="records"):
        gate.release(log, receipt=of_rows)
    gate.release(log, receipt=receipt)
    with pytest.raises(ReceiptRefused, match="spent"):
        gate.release(log, receipt=receipt)
    with pytest.raises(ReceiptRefused, match="no receipt"):
        gate.release(log, receipt=None)


def test_what_is_refused():
    for wrong in ({"k": 0}, {"beta": 1.0}, {"values": 0}, {"normalisation": "magic"}, {"persons": False, "values": 2}):
        with pytest.raises((BadInput, InvalidEvent)):
            CrowdGate(**{"k": 2, "beta": 0.5, **wrong})
    gate = CrowdGate(k=2, beta=0.5)
    receipt, _ledger = paid(gate)
    with pytest.raises(BadInput, match="person column"):
        gate.release(text_log(["a"]), receipt=receipt)
    with pytest.raises(BadInput, match="engine"):
        gate.release(text_log(["a"], ["p"]), receipt=receipt, engine="abacus")
    with pytest.raises(BadInput, match="equally long"):
        text_log(["a"], [])
    table = pa.table({"q": ["a"], "when": [1.5]})
    for columns in ({"text": "no"}, {"text": "when"}, {"text": "q", "person": "when"}, {"text": "q", "person": "q"}):
        with pytest.raises(BadInput):
            table_log(table, **columns)
    with pytest.raises(BadInput, match="Give one"):
        QueryLog(parts=[], text="q", person="a", row_id="b")


def test_nothing_of_a_log_is_in_a_repr():
    log = text_log(["secret"] * 30, [f"person {number}" for number in range(30)])
    gate = CrowdGate(k=1, beta=0.9)
    receipt, _ledger = paid(gate)
    found = gate.release(log, receipt=receipt)
    assert found.texts.to_pylist() == ["secret"]
    for shown in (repr(log), repr(found), str(found), repr(log.parts[0])):
        assert "secret" not in shown
        assert "person" not in shown
