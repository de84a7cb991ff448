"""A stream that stops and goes on is the stream that did not stop, to the bit."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from stream_scenes import WINDOWS, learner, plain, records, settings

from discreet.errors import BadInput, InvalidCheckpoint, ReceiptRefused
from discreet.noise import OperatingSystem, SealedPhase, Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import FileSink, Ledger, MemorySink
from discreet.stream import (
    BalancedSlab,
    DriftWatch,
    MiniBatch,
    ShrinkingSlab,
    StreamLearner,
    charge_stream,
    stream_terms,
)
from discreet.stream.terms import STREAM

SETTINGS = settings(
    window=MiniBatch(5), slab=ShrinkingSlab(), drift=DriftWatch(epsilon=1, window=30, most=0.45), patience=60
)


def stored(state):
    """Through JSON, arrays beside it as bytes: what a snapshot on disk is."""

    def pack(value):
        if isinstance(value, np.ndarray):
            return {"dtype": value.dtype.str, "shape": list(value.shape), "hex": value.tobytes().hex()}
        return {key: pack(one) for key, one in value.items()} if isinstance(value, dict) else value

    def unpack(value):
        if isinstance(value, dict) and set(value) == {"dtype", "shape", "hex"}:
            return np.frombuffer(bytes.fromhex(value["hex"]), dtype=value["dtype"]).reshape(value["shape"])
        return {key: unpack(one) for key, one in value.items()} if isinstance(value, dict) else value

    return unpack(json.loads(json.dumps(pack(state))))


def run(made, x, y, start, end, known):
    """Records with labels that come seven records late, and some that never do."""
    bits = []
    for place in range(start, end):
        bits.append(made.ask(x[place], id=f"r{place}"))
        if bits[-1] and place % 5:
            known.append(place)
        while known and known[0] <= place - 7:
            due = known.pop(0)
            made.learn_late(f"r{due}", int(y[due]))
    return bits


@hypothesis_settings(max_examples=30, deadline=None)
@given(cut=st.integers(0, 300), seed=st.integers(0, 100), window=st.sampled_from(sorted(WINDOWS)))
def test_a_resumed_stream_equals_an_uninterrupted_one(cut, seed, window):
    made = settings(window=WINDOWS[window], slab=SETTINGS.slab, drift=SETTINGS.drift, patience=60)
    x, y = records(300, seed=seed)
    straight = StreamLearner.simulated(made, seed=seed)
    known = []
    wanted = run(straight, x, y, 0, 300, known)
    first, known = StreamLearner.simulated(made, seed=seed), []
    bits = run(first, x, y, 0, cut, known)
    second = StreamLearner.simulated(made, seed=seed, state=stored(first.state()))
    bits += run(second, x, y, cut, 300, known)
    assert bits == wanted
    assert plain(second.state()) == plain(straight.state())
    assert second.model().to_json()["weights"] == straight.model().to_json()["weights"]


def test_a_changed_slab_and_a_due_update_are_kept():
    made = learner(window=MiniBatch(3))
    made.change_slab(BalancedSlab(0.3, [0.7, 0.3]))
    while not made.live_state.due:
        made.ask([0.1, 0.1, 0.1, 0.1])
    again = StreamLearner.simulated(made.settings, seed=1, state=made.state())
    assert again.slab == made.slab
    assert again.live_state.due
    made.update()
    again.update()
    assert plain(again.state()) == plain(made.state())


def test_in_production_the_sealed_key_goes_on_and_nobody_else(tmp_path):
    terms = stream_terms(Budget(epsilon=9, delta=0), asking=SETTINGS.asking, noise=SETTINGS.noise, drift=SETTINGS.drift)
    x, y = records(200)
    place = tmp_path / "stream.ledger"

    def opened():
        source = OperatingSystem()
        return (
            Ledger.open(FileSink(place), source=source)
            if place.exists()
            else Ledger.create(FileSink(place), terms, source=source)
        )

    with opened() as ledger:
        phase = SealedPhase(ledger, phase=STREAM, directory=tmp_path)
        straight = StreamLearner.of(SETTINGS, ledger=phase)
        assert not straight.simulation
        known = []
        wanted = run(straight, x, y, 0, 90, known)
        state, late = stored(straight.state()), list(known)
        wanted += run(straight, x, y, 90, 200, known)
        final = plain(straight.state())
    with opened() as ledger:
        phase = SealedPhase(ledger, phase=STREAM, directory=tmp_path)
        receipt = charge_stream(phase, asking=SETTINGS.asking, noise=SETTINGS.noise, drift=SETTINGS.drift)
        resumed = StreamLearner.from_state(state, receipt=receipt)
        assert run(resumed, x, y, 90, 200, late) == wanted[90:]
        assert plain(resumed.state()) == final
        assert len(ledger) == 1
        with pytest.raises(ReceiptRefused, match="spent"):
            StreamLearner.from_state(state, receipt=receipt)
    with Ledger.create(FileSink(tmp_path / "b.ledger"), terms, source=OperatingSystem()) as other:
        receipt = charge_stream(other, asking=SETTINGS.asking, noise=SETTINGS.noise, drift=SETTINGS.drift)
        with pytest.raises(InvalidCheckpoint, match="another ledger"):
            StreamLearner.from_state(state, receipt=receipt)


def test_a_state_that_is_not_one_is_refused():
    made = StreamLearner.simulated(SETTINGS, seed=3)
    for _ in range(40):
        made.ask([0.1, 0.2, 0.3, 0.1])
    state = made.state()
    assert state["audience"] == "owner"
    broken = [
        {"format": "discreet.stream-state/9"},
        {"settings": {}},
        {"weights": state["weights"][:2]},
        {"sums": np.zeros((2, 4), dtype=np.int64)},
        {"counters": {}},
        {"counters": state["counters"] | {"arrived": "7"}},
        {"due": 1},
        {"waiting": {}},
        {"slab": {}},
    ]
    for part in broken:
        with pytest.raises((InvalidCheckpoint, BadInput)):
            StreamLearner.simulated(SETTINGS, seed=3, state=state | part)
    with pytest.raises(InvalidCheckpoint):
        StreamLearner.simulated(SETTINGS, seed=3, state=[])


def test_a_simulation_goes_on_in_a_ledger_that_was_opened_again(tmp_path):
    terms = stream_terms(Budget(epsilon=9, delta=0), asking=SETTINGS.asking, noise=SETTINGS.noise, drift=SETTINGS.drift)
    place = tmp_path / "s.ledger"
    with Ledger.create(FileSink(place), terms, source=Seeded(5)) as ledger:
        made = StreamLearner.of(SETTINGS, ledger=ledger)
        first = [made.ask([0.1, 0.1, 0.0, 0.0]) for _ in range(100)]
        state = made.state()
        wanted = [made.ask([0.1, 0.1, 0.0, 0.0]) for _ in range(100)]
    with Ledger.open(FileSink(place), source=Seeded(5)) as ledger:
        again = StreamLearner.from_state(state, ledger=ledger)
        assert [again.ask([0.1, 0.1, 0.0, 0.0]) for _ in range(100)] == wanted
        assert len(ledger) == 1
    assert any(first)
    ledger = Ledger.create(MemorySink(), terms, source=Seeded(5))
    assert len(ledger) == 0
