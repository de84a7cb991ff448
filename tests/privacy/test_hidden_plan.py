"""A plan with hidden selection: what it pays, what it keeps of delta, what it says of itself, and what it refuses."""

import copy
from decimal import Decimal

import pytest

from discreet import plan
from discreet.errors import BadInput, InvalidPlan
from discreet.noise import Seeded
from discreet.privacy.certificate import certify
from discreet.privacy.certificate.statement import digest_of, dump_certificate
from discreet.privacy.certificate.verification import verify_certificate, verify_ledger
from discreet.privacy.events import DiscreteLaplace, PoissonSampledGaussian
from discreet.privacy.ledger import ChargeReason, Ledger, MemorySink, terms_of
from discreet.privacy.plan import TrainingPhase
from discreet.privacy.plan_files import plan_from_json

BASE = {"epsilon": 4, "delta": "1e-5", "initial": 1000, "queries": [200, 300], "batch": 200, "epochs": 3}
HIDDEN = plan(**BASE, selection="hidden", threshold_epsilon="0.05", accountant="rdp")
SMALL = plan(**BASE | {"queries": [200], "epochs": 1}, selection="hidden", threshold_epsilon="0.05", accountant="rdp")


def test_only_thresholds_are_paid_for():
    losses = {path.name: (path.forward, path.backward) for path in HIDDEN.trajectories}
    tau = Decimal("0.05")
    assert losses == {
        "initial": (0, 0),
        "phase-1": (tau, tau),
        "phase-2": (2 * tau, 2 * tau),
        "never-asked": (2 * tau, 2 * tau),
    }
    events = [line.event for line in terms_of(HIDDEN).lines if not isinstance(line.event, PoissonSampledGaussian)]
    assert events == [DiscreteLaplace(epsilon=tau)] * 2


def test_a_part_of_delta_is_kept_for_the_slots_and_paths_are_certified_at_the_rest():
    assert HIDDEN.selection.overflow == Decimal("1e-8")
    assert HIDDEN.accounted.delta == Decimal("9.99e-6")
    assert HIDDEN.budget.delta == Decimal("1e-5")
    for path in HIDDEN.trajectories:
        assert path.epsilon_rdp == path.rdp(9.99e-6)
    assert HIDDEN.trajectories[1].epsilon_rdp > HIDDEN.trajectories[1].rdp(1e-5)


def test_it_trains_nearly_as_much_as_records_asked_at_random():
    free = plan(**BASE, accountant="rdp")
    dear = plan(**BASE, accountant="rdp", selection_epsilon=1)
    steps = [sum(phase.steps for phase in one.phases) for one in (free, HIDDEN, dear)]
    assert steps[0] >= steps[1] > 0.95 * steps[0] > steps[2]


def test_phases_carry_the_slots_of_the_cohorts_that_have_entered():
    slots = HIDDEN.selection.hidden.slots
    assert TrainingPhase.of(HIDDEN, 0).slots == ()
    assert TrainingPhase.of(HIDDEN, 2).slots == (("phase-1", slots[0]), ("phase-2", slots[1]))
    assert TrainingPhase.of(plan(**BASE, accountant="rdp"), 2).slots == ()


def test_plans_of_before_keep_their_digest():
    """Ledgers name their plan by it: the keys of hidden selections are in no other plan and in no other terms."""
    form = plan(**BASE, accountant="rdp", selection_epsilon=1).to_json()
    assert "hidden" not in form["selection"]
    assert set(terms_of(plan(**BASE, accountant="rdp")).to_json()) == {
        *("mode", "budget", "accountant", "paths", "lines", "orders", "plan")
    }


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"selection_epsilon": 1}, "being asked or missed costs nothing"),
        ({"threshold_epsilon": 0}, "Give a threshold epsilon"),
        ({"missed": ("0.1", "0.1")}, "being asked or missed costs nothing"),
        ({"shards": ("0.5", "0.5")}, "being asked or missed costs nothing"),
        ({"individual_rates": True}, "one-sided prices"),
        ({"reads_training_data": True}, "read training records"),
        ({"unit": "person"}, "proven for records"),
        ({"queries": []}, "slots"),
        ({"bins": 1}, "2 to 4096"),
        ({"delta": 0}, "slots"),
    ],
)
def test_what_does_not_go_with_it_is_refused(options, says):
    with pytest.raises(BadInput, match=says):
        plan(**{**BASE, "selection": "hidden", "threshold_epsilon": "0.05", "accountant": "rdp"} | options)


@pytest.mark.parametrize(
    ("key", "value"), [("slots", [1, 1]), ("slots", [10**6] * 2), ("bins", 640), ("overflow", 1e-9)]
)
def test_a_stored_plan_with_other_slots_is_refused(key, value):
    form = copy.deepcopy(HIDDEN.to_json())
    form["selection"]["hidden"][key] = value
    with pytest.raises(InvalidPlan):
        plan_from_json(form)


@pytest.fixture(scope="module")
def books():
    sink = MemorySink()
    ledger = Ledger.create(sink, terms_of(SMALL), source=Seeded(0))
    for line in ledger.terms.lines[:3]:
        ledger.charge(
            event=line.event, count=line.count, who=line.who, why=ChargeReason(phase=line.phase, purpose="run")
        )
    return sink.read(), certify(ledger)


def test_certificate_and_verdict_say_that_asked_sets_are_not_released(books):
    lines, form = books
    assert form["not_released"] == {
        "what": "asked sets are not released",
        "overflow": 1e-8,
        "releases": [],
        "time": "time is not covered",
    }
    assert form["claim"]["delta"] == 1e-5
    verdict = verify_certificate(dump_certificate(form).encode(), lines=lines)
    assert verdict.ok, [check for check in verdict.checks if not check.ok]
    assert verdict.not_released == verify_ledger(b"".join(lines)).not_released == "asked sets are not released"
    paths = {path["name"]: path for path in form["trajectories"]}
    for path in SMALL.trajectories:
        assert paths[path.name]["epsilon_rdp"] == pytest.approx(path.epsilon_rdp, rel=1e-8)


@pytest.mark.parametrize(
    "change",
    [
        lambda form: form.pop("not_released"),  # as if the asked sets were public, at the same price
        lambda form: form["not_released"].update(overflow=1e-12),
        lambda form: form["not_released"].update(what="nothing"),
        lambda form: form["not_released"].update(overflow=0),
    ],
)
def test_a_certificate_that_says_otherwise_does_not_hold(books, change):
    lines, form = books
    edited = copy.deepcopy(form)
    change(edited)
    edited["digest"] = digest_of(edited)
    assert not verify_certificate(dump_certificate(edited).encode(), lines=lines).ok
