"""Private components as a tool of its own: in pieces, for any groups, joined to every path of a training."""

import numpy as np
import pytest

from discreet import Budget, plan
from discreet.components import (
    charge_components,
    private_components,
    public_components,
    reach,
    second_moment_event,
)
from discreet.errors import BadInput, BudgetExceeded, ReceiptRefused
from discreet.noise import RecordingSource, Seeded
from discreet.privacy.accounting.pld import pld_epsilons
from discreet.privacy.certificate import certify
from discreet.privacy.events import Composed, DiscreteLaplace, PoissonSampledGaussian, Repeated, Stated
from discreet.privacy.ledger import Ledger, Line, MemorySink, adaptive, committed, terms_of
from discreet.privacy.ledger.plan_terms import RELEASED, joined, joining_phase
from discreet.testing.neighbours import AMPLE, NotPrivate, check_neighbours

SIGMA = 3.0


def records(n=60, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * [3, 2, 1, 0.5, 0.1]


def ample(source=None):
    return Ledger.create(MemorySink(), adaptive(AMPLE), source=source or Seeded(3))


def found(rows, ledger, *, count=3, norm=1.0):
    return private_components(rows, count=count, norm=norm, receipt=charge_components(ledger, SIGMA, who="private"))


class Lazy:
    """Rows that are made when they are asked for; remembers the longest slice."""

    def __init__(self, rows):
        self.rows, self.shape, self.longest = rows, rows.shape, 0

    def __getitem__(self, key):
        piece = self.rows[key]
        self.longest = max(self.longest, len(piece))
        return piece.astype(np.float32)


def test_components_are_orthonormal():
    made = found(records(), ample())
    assert made.components @ made.components.T == pytest.approx(np.eye(3), abs=1e-12)
    assert made.spectrum.shape == (3,)


def test_rows_are_read_in_pieces_and_give_the_same_moment():
    rows = records(n=9000).astype(np.float32)
    whole, lazy, tapes = rows.astype(np.float64), Lazy(rows), []
    for given in (whole, lazy):
        source = RecordingSource(Seeded(0))
        found(given, ample(source))
        tapes.append(source.tape.calls[0][0].inputs)
    assert lazy.longest <= 4096
    assert tapes[0] == pytest.approx(tapes[1], rel=1e-12)


def test_neighbours_by_replay_and_a_forgotten_clip_that_is_seen():
    far = records()
    far[0], far[1] = 1e9, np.nan

    def released(rows, ledger):
        made = found(rows, ledger)
        return made.components, made.spectrum

    def unclipped(rows, ledger):
        with pytest.MonkeyPatch().context() as patch:
            patch.setattr("discreet.components.into_ball", lambda piece, bound: np.nan_to_num(piece))
            return released(rows, ledger)

    assert check_neighbours(released, far, null=np.zeros(5)).releases == 1
    with pytest.raises(NotPrivate, match="sensitivity"):
        check_neighbours(unclipped, far, null=np.zeros(5))


def test_one_charge_serves_every_group_whose_records_are_read():
    ledger = ample()
    receipt = charge_components(ledger, SIGMA, who=["initial", "query-1", "pool"])
    assert private_components(records(), count=1, norm=1.0, receipt=receipt).noise_multiplier == SIGMA
    with pytest.raises(ReceiptRefused):
        private_components(records(), count=1, norm=1.0, receipt=receipt)


@pytest.mark.parametrize("broken", [[1.0, 2.0], "rows", np.zeros((3, 0)), [["a"]]])
def test_what_is_not_rows_is_refused_before_a_draw(broken):
    ledger = ample()
    receipt = charge_components(ledger, SIGMA, who="private")
    with pytest.raises(BadInput):
        private_components(broken, count=1, norm=1.0, receipt=receipt)
    private_components(records(), count=1, norm=1.0, receipt=receipt)


def test_public_components_are_those_of_the_centered_rows():
    rows = records(n=5000) + 100
    ours = public_components(rows, 3)
    theirs = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][:3]
    assert np.abs((ours * theirs).sum(axis=1)) == pytest.approx(np.ones(3), abs=1e-6)
    with pytest.raises(BadInput, match="not finite"):
        public_components([[1.0, np.inf], [0.0, 1.0]], 1)


def test_the_reach_covers_what_the_pieces_round():
    assert reach(1.0, records=10**6) < 1 + 1e-3


# -- on every path

EVENTS = [second_moment_event(20.0), DiscreteLaplace(epsilon="0.2")]


def campaign(**options):
    shape = {"epsilon": 4, "delta": "1e-5", "initial": 1000, "queries": [200], "batch": 100, "epochs": 3}
    return plan(**shape, selection_epsilon=1, accountant="rdp", **options)


def test_events_join_every_path_of_a_plan():
    terms = terms_of(campaign())
    larger = joined(committed_with(terms, "5"), EVENTS)
    before = {path.name: path for path in terms.trajectories()}
    for path in larger.trajectories():
        assert {part.event for part in path.training} == {p.event for p in before[path.name].training} | set(EVENTS)
        assert (path.forward, path.backward) == (before[path.name].forward, before[path.name].backward)
        assert path.rdp(1e-5) > before[path.name].rdp(1e-5)
    assert joining_phase(terms) == 2
    ledger = Ledger.create(MemorySink(), larger, source=Seeded(1))
    for line in terms.lines:
        ledger.charge(event=line.event, count=line.count, who=line.who, why=why(line.phase))
    receipt = charge_components(ledger, 20.0, who=RELEASED, phase=2)
    assert private_components(records(), count=2, norm=1.0, receipt=receipt).components.shape == (2, 5)


def committed_with(terms, epsilon):
    return committed(
        Budget(epsilon=epsilon, delta="1e-5"), terms.lines, paths=terms.paths, accountant="rdp", plan=terms.plan
    )


def why(phase):
    from discreet.privacy.ledger import ChargeReason

    return ChargeReason(phase=phase, purpose="step")


def test_a_budget_without_room_is_refused_before_anything_is_written():
    sink = MemorySink()
    with pytest.raises(BudgetExceeded):
        Ledger.create(sink, joined(terms_of(campaign()), EVENTS))
    assert not sink.read()


def test_held_out_paths_may_stay_apart():
    terms = committed_with(terms_of(campaign(), held_out=DiscreteLaplace(epsilon="0.1")), "6")
    paths = {path.name: path for path in joined(terms, EVENTS, apart=["held-out"]).trajectories()}
    assert not {part.event for part in paths["held-out"].training} & set(EVENTS)
    with pytest.raises(BadInput):
        joined(terms, EVENTS, apart=["nobody"])
    with pytest.raises(BadInput):
        joined(terms, [])
    with pytest.raises(BadInput):
        joined(adaptive(AMPLE), EVENTS)


def test_joined_events_cost_what_their_composition_costs_by_pld():
    step = PoissonSampledGaussian(sampling_rate=0.01, noise_multiplier=1.2)
    terms = committed(Budget(epsilon=5, delta="1e-5"), [Line(who="private", event=step, count=300)])
    (path,) = joined_open(terms)
    wanted = max(pld_epsilons(Composed(events=(Repeated(event=step, count=300), *EVENTS)), 1e-5, interval=1e-4))
    assert path == pytest.approx(wanted, rel=2e-3)


def joined_open(terms):
    """The one path of a ledger without declared paths touches every group."""
    larger = committed(terms.budget, (*terms.lines, *(Line(who="private", phase=1, event=e) for e in EVENTS)))
    form = certify(Ledger.create(MemorySink(), larger))
    return [form["claim"]["epsilon"]]


# -- a promise that is all one knows


def test_a_stated_promise_composes_by_pld_and_never_by_rdp():
    stated = Stated(epsilon="2", delta="1e-6")
    alone = max(pld_epsilons(stated, 1e-5, interval=1e-4))
    assert alone == pytest.approx(2.0, abs=1e-3)
    assert pld_epsilons(stated, 5e-7, interval=1e-4)[0] == np.inf
    both = max(pld_epsilons(Composed(events=(stated, *EVENTS)), 1e-5, interval=1e-4))
    second = max(pld_epsilons(Composed(events=tuple(EVENTS)), 9e-6, interval=1e-4))
    assert both <= 2 + second + 1e-3  # never worse than adding the two up
    terms = committed(Budget(epsilon=3, delta="1e-5"), [Line(who="private", event=stated)])
    ledger = Ledger.create(MemorySink(), terms)
    ledger.charge(event=stated, who="private", why="checkpoint")
    assert certify(ledger)["claim"]["epsilon"] == pytest.approx(2, abs=2e-3)
    with pytest.raises(BadInput, match="committed"):
        Ledger.create(MemorySink(), adaptive(Budget(epsilon=3, delta="1e-5"))).charge(
            event=stated, who="private", why="checkpoint"
        )
