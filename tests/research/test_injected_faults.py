"""Faults that are injected into gates, votes, streams and near-private do not touch a production run of the process."""

import math
from contextlib import nullcontext

import numpy as np
import pytest

from discreet.audit.near_private_target import Draws, _noted
from discreet.gates import CrowdGate
from discreet.gates.query_log import text_log
from discreet.noise import IndexedCoins, IndexedNoise, OperatingSystem, Seeded, SparseVector
from discreet.oracles import teachers as aggregation
from discreet.oracles.teachers import build_aggregator
from discreet.planning.pate import price_answers
from discreet.privacy.budget import Budget
from discreet.privacy.events import DiscreteLaplace, Gaussian
from discreet.privacy.ledger import Ledger, Line, MemorySink, adaptive, committed
from discreet.selectors import NearPrivate
from discreet.stream import ConstantStep, FixedSlab, GammaNoise, Immediate, OneSidedAsking, StreamLearner
from discreet_research.injected_faults import FAULTS

SOURCES = [
    pytest.param(OperatingSystem, False, id="production"),
    pytest.param(lambda: Seeded(1), True, id="simulation"),
]
sources = pytest.mark.parametrize(("source", "simulation"), SOURCES)


def injected(recipe, name):
    return FAULTS[recipe][name].inject() if name else nullcontext()


def ledger_of(source, unit="record"):
    return Ledger.create(MemorySink(), adaptive(Budget(epsilon=10**9, delta="1e-9", unit=unit)), source=source)


def gate_ledger(source, gate, times=1):
    budget = Budget(epsilon=1000, delta="1e-5", unit=gate.unit)
    return Ledger.create(
        MemorySink(), committed(budget, [Line(who="log", event=gate.price(), count=times)]), source=source
    )


def stream_of(source):
    parts = {"asking": OneSidedAsking(asked="0.5", missed="1"), "noise": GammaNoise(epsilon="0.5")}
    from discreet.stream import stream_terms

    ledger = Ledger.create(MemorySink(), stream_terms(Budget(epsilon=1, delta=0), **parts), source=source)
    return StreamLearner(
        features=1, slab=FixedSlab(0.9), window=Immediate(), step=ConstantStep(2.0**-10), ledger=ledger, **parts
    )


@sources
def test_noise_of_a_stream(source, simulation):
    learner = stream_of(source())
    with injected("stream", "no-noise"):
        while not learner.ask([0.5]):
            pass
        learner.learn_one([0.5], 1)
        learner.update()
    exact = math.isclose(learner.model().weights[0], 0.5 * 2.0**-10, rel_tol=1e-3)
    assert exact == simulation


@sources
@pytest.mark.parametrize("plant", ["uncharged-asking", "skipped-nulls"])
def test_coins_of_a_stream(source, simulation, plant):
    learner = stream_of(source())
    with injected("stream", plant):
        nulls = sum(learner.ask([math.nan]) for _ in range(100))
    assert (nulls == 0) == simulation


@sources
def test_coins_of_a_gate(source, simulation):
    gate = CrowdGate(k=20, beta=0.3)
    receipt = gate_ledger(source(), gate).charge(event=gate.price(), who="log", why="release")
    log = text_log(["a"] * 20, [f"p{number}" for number in range(20)])
    with injected("crowd", "no-subsampling"):
        found = gate.release(log, receipt=receipt)
    assert (len(found.texts) == 1) == simulation  # by its coins it would be shown once in 3e10 times


@sources
@pytest.mark.parametrize("plant", ["occurrence-coins", "occurrences-counted"])
def test_occurrences_at_a_gate(source, simulation, plant):
    gate = CrowdGate(k=20, beta=0.3)
    receipt = gate_ledger(source(), gate).charge(event=gate.price(), who="log", why="release")
    log = text_log(["a"] * 2000, [f"p{number % 20}" for number in range(2000)])
    with injected("crowd", plant):
        found = gate.release(log, receipt=receipt)
    assert (len(found.texts) == 1) == simulation


@sources
def test_keys_of_a_gate(source, simulation):
    gate = CrowdGate(k=20, beta=0.5, persons=False)
    ledger = gate_ledger(source(), gate, 2)
    log = text_log([f"v{number // 40}" for number in range(8000)])
    with injected("crowd", "reused-coins"):
        first, second = (
            gate.release(log, receipt=ledger.charge(event=gate.price(), who="log", why="release")).texts.to_pylist()
            for _ in range(2)
        )
    assert (first == second) == simulation


@sources
def test_noise_of_votes(source, simulation):
    ledger = ledger_of(source(), "person")
    receipt = ledger.charge(event=Gaussian(noise_multiplier=50.0), count=60, who="private", why="answers")
    with injected("pate", "no-noise"):
        won = {vars(aggregation)["noisy_winner"](np.array([50, 51]), receipt=receipt) for _ in range(60)}
    assert (won == {1}) == simulation


@sources
def test_unstable_answers(source, simulation):
    budget = Budget(epsilon=1, delta="1e-6", unit="person")
    price = price_answers("sparse", budget=budget, teachers=5000, answers=100, unstable=2)
    ledger = Ledger.create(MemorySink(), price.terms(), source=source())
    with injected("pate", "uncounted-unstable"):
        found = build_aggregator(price, ledger, "private").answer(np.full((100, 2), 2500, dtype=np.int64))
    assert (len(found) > 2) == simulation


def looked(source, plant):
    selector = NearPrivate(support_epsilon="0.1", noise_multiplier=1.0, components=2, norm=1.0)
    ledger, noted = ledger_of(source), Draws()
    events = (Gaussian(noise_multiplier=1.0), DiscreteLaplace(epsilon="0.1"))
    paid = [ledger.charge(event=event, who="private", why="looking") for event in events]
    rows = np.repeat(np.eye(2) * 5, 200, axis=0)
    with _noted(noted), injected("public-data", plant):
        found = selector.support(
            ids=["a", "b"],
            scores=[0.5, 0.5],
            k=2,
            receipt=paid,
            embeddings=np.eye(2),
            private_scores=np.full(400, 0.9),
            private_embeddings=rows,
        )
    return dict(zip(found.ids, found.counts, strict=True)), noted


@sources
@pytest.mark.parametrize(("plant", "wanted"), [("no-noise", (200, 200)), ("private-top", None)])
def test_counts_near_private_records(source, simulation, plant, wanted):
    found, noted = looked(source(), plant)
    assert (noted.counted.size > 0) == simulation  # a production run is not even noted
    if wanted is None:
        near = abs(sum(found.values()) - 400) < 200
        assert near != simulation  # a quarter of the records counts, as planted
    else:
        assert (tuple(sorted(found.values())) == wanted) == simulation


def test_nothing_stays_planted():
    import discreet.components as private
    from discreet.gates import gate
    from discreet.selectors import near_private

    def all_of():
        return (
            IndexedCoins.toss,
            IndexedNoise.hide,
            CrowdGate.release,
            SparseVector.above,
            NearPrivate.support,
            vars(gate)["release_key"],
            vars(private)["gaussian"],
            vars(near_private)["private_components"],
            vars(aggregation)["noisy_winner"],
        )

    before = all_of()
    for recipe in ("stream", "crowd", "pate", "public-data"):
        for fault in FAULTS[recipe].values():
            with fault.inject():
                pass
    assert all_of() == before
