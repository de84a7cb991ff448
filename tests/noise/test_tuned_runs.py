"""The runs of a search: drawn after the charge, each at most once, the same again from a sealed key, and exact."""

import math
from itertools import islice

import numpy as np
import pytest
from scipy import stats

from discreet.errors import BadInput, LedgerUnavailable, ReceiptRefused
from discreet.noise import OperatingSystem, SealedPhase, Seeded, gaussian, tuned_runs
from discreet.noise.stream import Stream
from discreet.noise.tuned import run_count
from discreet.privacy.budget import Budget
from discreet.privacy.events import DiscreteLaplace, Gaussian
from discreet.privacy.ledger import FileSink, Ledger, MemorySink, adaptive
from discreet.privacy.tuned import Tuned, runs_of

STEP, OTHER = Gaussian(noise_multiplier=4.0), Gaussian(noise_multiplier=5.0)
LAW = runs_of(mean=4, eta=1)
TERMS = adaptive(Budget(epsilon=50, delta="1e-5"))


def charged(ledger, *events):
    return ledger.charge(event=Tuned(events=events or (STEP,), runs=LAW), who="all", why="search")


def outcome(runs, value=0.0):
    """What a tiny search would compare: one noisy number a run."""
    found = []
    for number, choice in enumerate(runs.choices):
        with runs.ledger(number, {"all": STEP}, unit="record") as own:
            receipt = own.charge(event=STEP, who="all", why="run")
            found.append((choice, gaussian(value, sensitivity=1.0, receipt=receipt)))
    return found


@pytest.fixture
def ledger():
    with Ledger.create(MemorySink(), TERMS, source=OperatingSystem()) as made:
        yield made


def test_runs_are_paid_for_and_none_is_done_twice_or_beyond_the_last(ledger):
    receipt = charged(ledger)
    runs = tuned_runs(receipt, settings=3)
    assert len(runs.choices) >= 1
    assert set(runs.choices) <= {0, 1, 2}
    found = outcome(runs)
    assert len({noisy for _, noisy in found}) == len(found)
    with pytest.raises(ReceiptRefused):  # equal noise on another value would show the difference
        runs.ledger(0, {"all": STEP}, unit="record")
    with pytest.raises(BadInput):
        runs.ledger(len(runs.choices), {"all": STEP}, unit="record")
    with pytest.raises(ReceiptRefused):  # the number of runs is drawn once
        tuned_runs(receipt, settings=3)


def test_a_run_does_what_was_priced_and_no_more(ledger):
    runs = tuned_runs(charged(ledger), settings=1)
    for events in ({"all": OTHER}, {}, {"all": STEP, "others": STEP}):
        with pytest.raises(ReceiptRefused):
            runs.ledger(0, events, unit="record")
    with runs.ledger(0, {"all": STEP}, unit="record") as own:
        own.charge(event=STEP, who="all", why="run")
        with pytest.raises(Exception, match="more than is left|not committed"):
            own.charge(event=STEP, who="all", why="run")


def test_a_closed_ledger_ends_its_runs():
    ledger = Ledger.create(MemorySink(), TERMS, source=OperatingSystem())
    runs = tuned_runs(charged(ledger), settings=1)
    own = runs.ledger(0, {"all": STEP}, unit="record")
    receipt = own.charge(event=STEP, who="all", why="run")
    ledger.close()
    with pytest.raises(ReceiptRefused):
        gaussian(0.0, sensitivity=1.0, receipt=receipt)


def test_only_a_search_pays_for_runs_and_all_groups_have_one_law(ledger):
    with pytest.raises(ReceiptRefused):
        tuned_runs(ledger.charge(event=STEP, who="all", why="no search"), settings=2)
    two = {
        "all": Tuned(events=(STEP,), runs=LAW),
        "held-out": Tuned(events=(DiscreteLaplace(epsilon=1),), runs=runs_of(mean=5)),
    }
    with pytest.raises(ReceiptRefused, match="different laws"):
        tuned_runs(ledger.charge_together(two, why="search"), settings=2)
    with pytest.raises(BadInput):
        tuned_runs(charged(ledger), settings=0)
    twice = ledger.charge(event=Tuned(events=(STEP,), runs=LAW), count=2, who="all", why="search")
    with pytest.raises(ReceiptRefused, match="several searches"):  # they would share their noise
        tuned_runs(twice, settings=2)


def test_nothing_shows_how_many_runs_there_are(ledger):
    runs = tuned_runs(charged(ledger), settings=2)
    with runs.ledger(0, {"all": STEP}, unit="record") as own:
        shown = repr(runs) + repr(own.source) + repr(own)
    assert str(runs.choices) not in shown
    assert "RunSource()" in shown


def test_a_seed_repeats_a_search():
    found = []
    for _ in range(2):
        with Ledger.create(MemorySink(), TERMS, source=Seeded(5)) as made:
            found.append(outcome(tuned_runs(charged(made), settings=9)))
    assert found[0] == found[1]


def test_a_sealed_redo_has_the_same_runs_and_is_refused_other_values(tmp_path):
    place, seen = tmp_path / "ledger", []

    def search(value, *, fail):
        sink = FileSink(place)
        ledger = Ledger.create(sink, TERMS, source=OperatingSystem()) if not seen else Ledger.open(
            sink, source=OperatingSystem()
        )  # fmt: skip
        with ledger, SealedPhase(ledger, phase=0, directory=tmp_path) as sealed:
            receipt = sealed.charge(event=Tuned(events=(STEP,), runs=LAW), who="all", purpose="search")
            seen.append(None)
            found = outcome(tuned_runs(receipt, settings=9), value)
            if fail:
                seen[-1] = found
                raise KeyboardInterrupt
            assert len(ledger) == 1  # charged once
            return found

    with pytest.raises(KeyboardInterrupt):
        search(0.25, fail=True)
    with pytest.raises(LedgerUnavailable, match="hid something else"):
        search(0.75, fail=False)
    assert search(0.25, fail=False) == seen[0]


@pytest.mark.parametrize("law", [runs_of(mean=3, eta="-0.5"), runs_of(mean=3), LAW, runs_of(mean=3, law="poisson")])
def test_the_number_of_runs_has_its_law(law):
    stream = Stream(b"k" * 32, law.name.encode())
    drawn = np.array([run_count(stream, law) for _ in range(1500)])
    few = np.array(list(islice(law.probabilities(), 7)))
    expected = np.append(few, 1 - few.sum()) * drawn.size
    counts = np.append(np.bincount(drawn, minlength=8)[1:8], (drawn > 7).sum())
    assert stats.chisquare(counts, expected).pvalue > 1e-4
    wrong = np.array(list(islice(runs_of(mean=4, law=law.name).probabilities(), 7)))  # another mean is found
    assert stats.chisquare(counts, np.append(wrong, 1 - wrong.sum()) * drawn.size).pvalue < 1e-4
    assert math.isclose(drawn.mean(), law.mean, rel_tol=0.25)
