"""Stopping rules: their algebra, their stored forms, plateaus under noise, and claims that never fall."""

import json
import math
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import create_ledger, open_ledger, plan
from discreet.campaign import (
    AllOf,
    AnyOf,
    Labels,
    Never,
    Phases,
    Plateau,
    Progress,
    Rule,
    SpentBudget,
    check_stop,
    progress_of,
)
from discreet.campaign.stopping_rules import most_gained
from discreet.errors import BadInput
from discreet.noise import Seeded
from discreet.noise.replay_key import charge_training
from discreet.privacy.certificate import certify
from discreet.privacy.events import Gaussian, Laplace
from discreet.privacy.ledger import ChargeReason, Ledger, MemorySink, adaptive
from discreet.privacy.plan import TrainingPhase
from discreet.testing.neighbours import AMPLE
from discreet.trainers.accuracy import Evaluation
from discreet.trainers.dp_sgd import CohortRecords
from discreet.trainers.evaluation import evaluate_paid, evaluate_public, evaluation_event
from discreet.trainers.metrics import Metric

pytestmark = pytest.mark.thorough


def measured(accuracy, half=0.0, kind="public", simulation=False):
    low, high = max(accuracy - half, 0), min(accuracy + half, 1)
    metric = Metric(name="accuracy", value=accuracy, low=low, high=high)
    return Evaluation(kind=kind, metrics=(metric,), epsilon=Decimal("0.5"), simulation=simulation)


def at(labels=0, phases=9, epsilon=0, **given):
    return Progress(labels=labels, phases=phases, epsilon=epsilon, **given)


def after(*accuracies, half=0.0):
    return at(phases=len(accuracies), evaluations={n: measured(a, half) for n, a in enumerate(accuracies)})


# -- single rules


def test_each_rule_is_met_from_its_number_on():
    for rule, before, then, says in (
        (Labels(5000), at(labels=4999), at(labels=5000), "5000 of 5000 labels"),
        (Phases(4), at(phases=3), at(phases=4), "4 of 4 phases"),
        (SpentBudget("2.5"), at(epsilon="2.4999"), at(epsilon="2.5"), "epsilon 2.5 of 2.5"),
        (
            Plateau(phases=2, gain=0.01),
            after(0.8, 0.8, 0.81),
            after(0.8, 0.8, 0.809),
            "gained 0.0090 from phase 0 to 2",
        ),
    ):
        assert not rule.met(before)
        assert rule.met(then)
        assert says in rule.reason(then)
    assert not Never().met(at(labels=10**9, epsilon=10**9))


def test_budgets_are_compared_exactly():
    tenth = [Decimal("0.1")] * 10
    assert SpentBudget(1).met(at(epsilon=sum(tenth)))
    assert SpentBudget(0.1).met(at(epsilon="0.1"))


# -- plateaus


def test_a_plateau_takes_the_upper_end_of_the_gain():
    first, last = measured(0.80, 0.03), measured(0.81, 0.04)
    assert most_gained(first, last) == pytest.approx(0.01 + 0.05)
    known = after(0.80, 0.801)
    rough = after(0.80, 0.801, half=0.02)
    assert Plateau(phases=1, gain=0.01).met(known)
    assert not Plateau(phases=1, gain=0.01).met(rough)  # it may have gained 0.029
    assert Plateau(phases=1, gain=0.03).met(rough)
    assert "at most 0.0293 with 95%: not surely below 0.01" in Plateau(phases=1).reason(rough)
    assert "below 0.03" in Plateau(phases=1, gain=0.03).reason(rough)


def test_a_plateau_compares_with_so_many_phases_ago_or_the_newest_before():
    slow = after(0.6, 0.7, 0.705, 0.71)
    assert Plateau(phases=1).met(slow)
    assert not Plateau(phases=2, gain=0.009).met(slow)
    assert not Plateau(phases=3).met(slow)
    gaps = at(phases=8, evaluations={7: measured(0.71), 0: measured(0.6), 4: measured(0.709)})
    assert Plateau(phases=2).met(gaps)  # 4 and 7, in whatever order they were given
    assert Plateau(phases=3).met(gaps)
    assert not Plateau(phases=4).met(gaps)
    worse = after(0.8, 0.5)
    assert Plateau(phases=1).met(worse)


def test_without_two_evaluations_of_a_kind_there_is_no_plateau():
    for progress in (at(), after(0.8), at(evaluations={0: measured(0.8), 1: measured(0.8, kind="paid")})):
        assert not Plateau(phases=1).met(progress)
        assert "no two evaluations" in Plateau(phases=1).reason(progress)
    mixed = {0: measured(0.8, kind="paid"), 1: measured(0.1), 2: measured(0.8, kind="paid")}
    assert "paid accuracy gained 0.0000 from phase 0 to 2" in Plateau(phases=1).reason(at(evaluations=mixed))


class Says:
    def predict_proba(self, x):
        return np.stack([x <= 0, x > 0], axis=1).astype(float)


def paid(truth, seed, count=4000, epsilon="0.5"):
    """A paid evaluation of a model that is right with ``truth``; records, and noise, of ``seed``."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count)
    y = ((x > 0) ^ (rng.random(count) > truth)).astype(int)
    ledger = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(seed))
    receipt = ledger.charge(event=evaluation_event(epsilon=epsilon), who="held-out", why="evaluation")
    return evaluate_paid(Says(), CohortRecords(x=x, y=y), classes=2, receipt=receipt)


def test_a_campaign_that_still_improves_is_hardly_ever_stopped_and_one_that_does_not_is():
    rule, stopped = Plateau(phases=1, gain=0.04), {0.04: 0, 0.0: 0}
    for true_gain in stopped:
        for seed in range(100):
            pair = {0: paid(0.8, 2 * seed), 1: paid(0.8 + true_gain, 2 * seed + 1)}
            stopped[true_gain] += rule.met(at(phases=2, evaluations=pair, simulation=True))
    assert stopped[0.04] <= 4  # measured 2 of 300; a rule that compares the two numbers alone stops 151
    assert stopped[0.0] >= 85  # measured 294 of 300


def test_an_accuracy_that_nobody_paid_for_is_refused():
    public = evaluate_public(Says(), np.ones(50), np.ones(50, int), classes=2)
    assert not Plateau(phases=1).met(at(phases=2, evaluations={0: measured(0.9), 1: public}))
    assert Plateau(phases=1).met(at(phases=2, evaluations={0: measured(0.995), 1: public}))
    for made_up in (0.8, None, "0.8", {"accuracy": 0.8, "kind": "paid"}, measured(0.8, kind="none")):
        with pytest.raises(BadInput, match="public or paid for") as refused:
            at(evaluations={0: made_up})
        assert "0.8" not in str(refused.value)
    with pytest.raises(BadInput, match="not a share"):
        at(evaluations={0: measured(math.nan)})


def test_a_production_campaign_does_not_read_simulated_accuracies():
    simulated = {0: measured(0.8, kind="paid", simulation=True)}
    assert at(evaluations=simulated, simulation=True).evaluations[0].accuracy == 0.8
    with pytest.raises(BadInput, match="hides nobody"):
        at(evaluations=simulated)


def test_progress_cannot_be_changed_afterwards():
    given_ = {0: measured(0.8)}
    progress = at(evaluations=given_)
    given_[1] = 0.9
    assert list(progress.evaluations) == [0]
    with pytest.raises(TypeError):
        progress.evaluations[1] = 0.9


# -- joined rules

SINGLE = st.one_of(
    st.builds(Labels, st.integers(1, 60)),
    st.builds(Phases, st.integers(1, 6)),
    st.builds(SpentBudget, st.decimals("0.01", 8, places=3)),
    st.builds(Plateau, st.integers(1, 4), st.decimals("0.001", "0.5", places=4)),
    st.just(Never()),
)
RULES = st.recursive(
    SINGLE,
    lambda inner: st.builds(lambda a, b, either: a | b if either else a & b, inner, inner, st.booleans()),
    max_leaves=8,
)
PROGRESS = st.builds(
    lambda labels, epsilon, found: at(
        labels=labels, phases=len(found), epsilon=epsilon, evaluations={n: measured(a) for n, a in enumerate(found)}
    ),
    st.integers(0, 60),
    st.decimals(0, 8, places=3),
    st.lists(st.floats(0, 1), max_size=6),
)


@given(RULES, RULES, RULES, PROGRESS)
@settings(max_examples=150, deadline=None)
def test_the_algebra_of_rules(a, b, c, progress):
    assert (a | b).met(progress) == (a.met(progress) or b.met(progress))
    assert (a & b).met(progress) == (a.met(progress) and b.met(progress))
    assert (a | b) | c == a | (b | c)
    assert (a & b) & c == a & (b & c)
    assert a | a == a & a == a
    assert Never() | a == a | Never() == a
    assert Never() & a == a & Never() == Never()
    assert isinstance((a | b).reason(progress), str)


@given(RULES)
@settings(max_examples=150, deadline=None)
def test_a_rule_is_read_back_from_its_form_and_from_its_repr(rule):
    assert Rule.from_json(json.loads(json.dumps(rule.to_json()))) == rule
    assert eval(repr(rule)) == rule


def test_how_joined_rules_look_and_why_they_stop():
    rule = Labels(5000) | Phases(4) & Plateau(phases=2, gain="0.01")
    assert repr(rule) == "Labels(5000) | Phases(4) & Plateau(phases=2, gain=0.01)"
    assert repr((Labels(1) | Phases(2)) & SpentBudget(3)) == "(Labels(1) | Phases(2)) & SpentBudget(3)"
    assert rule.reason(at(labels=5000, phases=4)) == "5000 of 5000 labels asked for"
    waiting = rule.reason(at(labels=7, phases=4))
    assert waiting == "7 of 5000 labels asked for; there are no two evaluations 2 phases apart"
    both = Labels(5) & Phases(2)
    assert both.reason(at(labels=6, phases=2)) == "6 of 5 labels asked for and 2 of 2 phases finished"
    assert both.reason(at(labels=6, phases=1)) == "1 of 2 phases finished"


def test_a_rule_has_no_truth_and_no_negation():
    for mistaken in (lambda: Labels(1) or Phases(1), lambda: Labels(1) and Phases(1), lambda: not Never()):
        with pytest.raises(BadInput, match="depends on the progress"):
            mistaken()
    with pytest.raises(TypeError):
        ~Labels(1)
    for other in (True, None, 5000):
        with pytest.raises(TypeError):
            Labels(1) | other
        with pytest.raises(TypeError):
            Labels(1) & other


@pytest.mark.parametrize(
    "make",
    [
        lambda: Labels(-1),
        lambda: Labels(0),
        lambda: Labels(2.5),
        lambda: Labels(True),
        lambda: Labels("5"),
        lambda: Phases(0),
        lambda: SpentBudget(0),
        lambda: SpentBudget("-1"),
        lambda: SpentBudget("many"),
        lambda: SpentBudget(math.inf),
        lambda: Plateau(0),
        lambda: Plateau(2, 0),
        lambda: Plateau(2, -0.1),
        lambda: Plateau(2, 1),
        lambda: Plateau(2, math.nan),
        lambda: AnyOf(()),
        lambda: AllOf(()),
        lambda: AllOf((Labels(1),)),
        lambda: AnyOf((Labels(1), Labels(1))),
        lambda: AnyOf((Labels(1), Never())),
        lambda: AnyOf((Labels(1), AnyOf((Phases(1), Phases(2))))),
        lambda: AnyOf([Labels(1), Labels(2)]),
        lambda: AnyOf((Labels(1), lambda progress: True)),
        lambda: at(labels=-1),
        lambda: at(phases=1.0),
        lambda: at(epsilon=-1),
        lambda: at(epsilon=Decimal("NaN")),
        lambda: at(phases=1, evaluations={1: measured(0.5)}),
        lambda: at(phases=1, evaluations={"0": measured(0.5)}),
    ],
)
def test_nonsense_is_refused(make):
    with pytest.raises(BadInput):
        make()


def deep(levels):
    form = {"kind": "labels", "count": 1}
    for level in range(levels):
        form = {"kind": ("any", "all")[level % 2], "rules": [form, {"kind": "phases", "count": level + 1}]}
    return form


@pytest.mark.parametrize(
    "form",
    [
        None,
        [],
        {"kind": "labels", "count": 5},
        {"format": "discreet.stopping/2", "kind": "labels", "count": 5},
        {"format": "discreet.stopping/1", "kind": "os.system", "count": 5},
        {"format": "discreet.stopping/1", "kind": ["labels"], "count": 5},
        {"format": "discreet.stopping/1", "kind": "labels"},
        {"format": "discreet.stopping/1", "kind": "labels", "count": "5"},
        {"format": "discreet.stopping/1", "kind": "labels", "count": None},
        {"format": "discreet.stopping/1", "kind": "labels", "count": 5, "more": 1},
        {"format": "discreet.stopping/1", "kind": "labels", "count": [{"kind": "never"}]},
        {"format": "discreet.stopping/1", "kind": "spent-budget", "epsilon": "1.50"},
        {"format": "discreet.stopping/1", "kind": "any", "rules": []},
        {"format": "discreet.stopping/1", "kind": "any", "rules": "never"},
        {"format": "discreet.stopping/1", "kind": "any", "rules": [{"kind": "never"}, {"kind": "labels", "count": 1}]},
        {"format": "discreet.stopping/1"} | deep(16),
        {"format": "discreet.stopping/1"} | deep(5000),
    ],
)
def test_a_form_that_we_did_not_write_is_refused(form):
    with pytest.raises(BadInput, match="a stored stopping rule"):
        Rule.from_json(form)


def test_rules_of_your_own_join_and_are_not_stored():
    class Friday(Rule):
        def met(self, progress):
            return True

        def reason(self, progress):
            return "friday"

    assert repr(Labels(1) | Friday()) == "Labels(1) | Friday()"
    assert (Friday() & Labels(1)).reason(at(labels=1)) == "friday and 1 of 1 labels asked for"
    for rule in (Friday(), Labels(1) | Friday()):
        with pytest.raises(BadInput, match="of your own"):
            rule.to_json()
    assert Rule.from_json({"format": "discreet.stopping/1"} | deep(15)).met(at(labels=1, phases=99))


def test_rules_need_nothing_heavy():
    code = (
        "import sys; from discreet.campaign import *\n"
        "assert (Labels(3) | Phases(2)).met(Progress(labels=3, phases=0))\n"
        "print([name for name in ('torch', 'scipy', 'dp_accounting') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- the claim


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_a_committed_campaign_that_stops_early_claims_its_whole_plan(tmp_path, accountant):
    shape = {"epsilon": 1, "delta": "1e-5", "initial": 200, "queries": [50, 50], "batch": 50, "epochs": 2}
    made = plan(**shape, selection_epsilon="0.2", accountant=accountant)
    with create_ledger(tmp_path / "a.ledger", plan=made) as ledger:
        rule = Labels(250) | Phases(3)
        assert check_stop(rule, progress_of(ledger, labels=200, phases=0), ledger=ledger) is None
        charge_training(ledger, TrainingPhase.of(made, 0))
        for line in (line for line in ledger.terms.lines if line.who == "pool" and line.phase == 1):
            ledger.charge(event=line.event, who="pool", why=ChargeReason(phase=1, purpose="query"))
        charge_training(ledger, TrainingPhase.of(made, 1))
        stop = check_stop(rule, progress_of(ledger, labels=250, phases=2), ledger=ledger)
        entries = len(ledger)
    with open_ledger(tmp_path / "a.ledger") as ledger:  # the last phase was never charged
        assert len(ledger) == entries
        assert any(line.phase == 2 and rest == line.count for line, rest in ledger.lines_left())
        claim = certify(ledger)["claim"] if accountant == "pld" else {"epsilon": made.claim}
    assert stop.claimed_epsilon == Decimal(str(claim["epsilon"]))
    assert float(stop.claimed_epsilon) == pytest.approx(made.claim, rel=1e-4)  # PLD on a finer grid than the plan's
    assert stop.spent_epsilon < Decimal("0.95") < stop.claimed_epsilon  # it is the gauge that is lower, not the claim
    assert (stop.mode, stop.claimed_delta, stop.simulation) == ("committed", Decimal("0.00001"), False)
    assert stop.reason == "250 of 250 labels asked for"
    form = json.loads(json.dumps(stop.to_json()))
    assert (form["format"], form["simulation"], form["claim"]["epsilon"]) == (
        "discreet.stop/1",
        False,
        claim["epsilon"],
    )
    assert Rule.from_json(form["rule"]) == rule


def test_an_adaptive_campaign_claims_its_budget_and_shows_what_was_spent(tmp_path):
    with create_ledger(tmp_path / "a.ledger", epsilon=3, delta="1e-6", seed=1) as ledger:
        assert progress_of(ledger, labels=0, phases=0).epsilon == 0
        ledger.charge(event=Gaussian(noise_multiplier=20.0), who="pool", why="training")
        ledger.charge(event=Laplace(epsilon="0.25"), who="pool", why="query")
        progress = progress_of(ledger, labels=10, phases=1)
        stop = check_stop(SpentBudget("0.3"), progress, ledger=ledger)
        assert stop.claimed_epsilon == Decimal(certify(ledger)["claim"]["epsilon"]) == 3
        assert Decimal("0.3") < stop.spent_epsilon == ledger.totals()[0].epsilon < 1
        assert (stop.mode, stop.simulation) == ("adaptive", True)
        assert ledger.price(event=Laplace(epsilon=2), who="pool").fits  # what is left may still be spent here
        with pytest.raises(BadInput, match="simulation and the other is not"):
            check_stop(SpentBudget("0.3"), at(epsilon=1), ledger=ledger)
