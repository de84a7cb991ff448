"""A committed ledger that goes on adaptively: what may follow, what is refused, and what it says of itself."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from replanned_ledgers import PLAN, SHAPE, begun, charge, replanned, rest_of

from discreet import plan
from discreet.errors import BadInput, BudgetExceeded, InvalidLedger
from discreet.planning.replanning import continued_plan
from discreet.privacy.budget import Budget
from discreet.privacy.certificate import certify
from discreet.privacy.certificate.statement import dump_certificate
from discreet.privacy.certificate.verification import verify_certificate
from discreet.privacy.events import PoissonSampledGaussian, ThresholdResponse
from discreet.privacy.ledger import ChargeReason, Ledger, MemorySink, Path, PathSegment, adaptive, entries
from discreet.privacy.ledger.plan_terms import lines_of
from discreet.privacy.ledger.terms import Continued, continued_budget

# -- nothing is forgotten


def test_the_filter_counts_what_was_charged_before_and_refuses_what_goes_past():
    ledger, made, _ = replanned()
    before = ledger.total("initial").epsilon
    assert before > 4  # phase 0 was charged under the old terms
    charge(ledger, lines_of(made, first=1))
    assert Decimal("7.99") < max(total.epsilon for total in ledger.totals()) <= 8
    step = made.phases[-1].last
    event = PoissonSampledGaussian(sampling_rate=step.rates[0], noise_multiplier=step.noise_multiplier)
    with pytest.raises(BudgetExceeded):
        ledger.charge(event=event, count=20, who="initial", why=ChargeReason(phase=3, purpose="one more"))


def test_paths_that_forget_are_refused_when_written_and_when_read():
    ledger, lines = begun(done=2)
    _, terms = continued_plan(rest_of(ledger, 2, (50,)))
    innocent = Path(name="phase-1", stays=(PathSegment(who="phase-1", first=9),))
    forged = replace(terms, paths=tuple(innocent if path.name == "phase-1" else path for path in terms.paths))
    dropped = replace(terms, paths=tuple(path for path in terms.paths if path.name != "phase-1"))
    for wrong in (forged, dropped):
        before = len(lines)
        with pytest.raises(BadInput, match="forget"):
            ledger.amend(wrong, phase=2)
        assert len(lines) == before
        line, _ = entries.write_line(
            sequence=len(ledger) + 1,
            at="2026-01-31T09:30:00.000000Z",
            why=ChargeReason(phase=2, purpose=entries.REPLANNING),
            previous=ledger.head,
            terms=wrong,
        )
        with pytest.raises(InvalidLedger, match="re-plans"):
            Ledger.open(MemorySink([*lines, line]))


def test_an_order_budget_or_delta_that_was_not_fixed_beforehand_is_refused():
    ledger, _ = begun()
    _, terms = continued_plan(rest_of(ledger, 1, (80,)))
    less, more = Budget(epsilon=7, delta="1e-5"), Budget(epsilon=8, delta="2e-5")
    for wrong in (
        replace(terms, orders=(2.0,)),
        replace(terms, orders=(*terms.orders, 64.0)),
        replace(terms, budget=less),
        replace(terms, budget=more),
        replace(terms, continued=Continued(because="released")),
        replace(terms, continued=None),
    ):
        with pytest.raises(BadInput):
            ledger.amend(wrong, phase=1)
    assert ledger.terms.mode == "committed"
    ledger.amend(terms, phase=1)
    with pytest.raises(BadInput):  # a second one keeps the order
        ledger.amend(replace(terms, orders=(2.0,)), phase=1)
    free = Ledger.create(MemorySink(), adaptive(PLAN.budget))
    with pytest.raises(BadInput, match="once"):
        free.amend(terms, phase=1)


def test_what_was_released_may_not_raise_epsilon_and_doubles_delta_once():
    with pytest.raises(BadInput, match="outputs choose"):
        continued_budget(PLAN.budget, Decimal(9), "released", first=True)
    with pytest.raises(BadInput, match="promised"):
        continued_budget(PLAN.budget, Decimal(7), "outside", first=True)
    ledger, _, _ = replanned(because="released")
    assert ledger.terms.budget.delta == Decimal("2e-5")
    assert ledger.terms.accounted.delta == Decimal("1e-5")
    _, again = continued_plan(rest_of(ledger, 1, (50,), because="released"))
    ledger.amend(again, phase=1)
    assert ledger.terms.budget.delta == Decimal("2e-5")


def test_private_reasons_have_no_word():
    for because in ("answers", "labels", "", None):
        with pytest.raises(BadInput, match="private facts"):
            Continued(because=because)
    with pytest.raises(BadInput, match="public"):
        Continued(because="outside", note="two\nlines")


def test_receipts_from_before_are_void():
    ledger, _ = begun(done=0)
    line = ledger.terms.lines[0]
    paid = ledger.charge(event=line.event, count=line.count, who=line.who, why=ChargeReason(purpose="phase 0"))
    _, terms = continued_plan(rest_of(ledger, 1, (50,)))
    ledger.amend(terms, phase=1)
    assert not ledger.owns(paid)


def test_a_choice_is_made_once_a_phase_on_declared_outcomes():
    ledger, made, _ = replanned()
    response = next(line for line in lines_of(made, first=1) if isinstance(line.event, ThresholdResponse))
    charge(ledger, [response])
    with pytest.raises(BadInput, match="there was one before"):
        charge(ledger, [response])
    with pytest.raises(BadInput, match="no declared path"):
        ledger.charge(event=response.event, who="pool", why=ChargeReason(phase=9, purpose="nobody can be asked"))


def test_hidden_and_apart_are_refused():
    hidden = plan(**SHAPE, selection="hidden", threshold_epsilon="0.5", accountant="rdp", pool_size=4000)
    apart = plan(**SHAPE, selection="separate-budget", mechanism="gaussian", selection_epsilon=2, accountant="rdp")
    for made in (hidden, apart):
        ledger, _ = begun(made)
        with pytest.raises(BadInput, match="committed together"):
            continued_plan(rest_of(ledger, 1, (50,), made=made))


# -- what it says of itself


def test_its_certificate_is_adaptive_tells_the_history_and_is_checked():
    ledger, made, lines = replanned(because="released")
    charge(ledger, lines_of(made, first=1))
    form = certify(ledger)
    assert (form["mode"], form["accountant"], form["claim"]["epsilon"]) == ("adaptive", "rdp-filter", 8)
    assert form["claim"]["delta"] == 2e-5
    (step,) = form["replanned"]
    assert (step["phase"], step["because"], step["before"]["mode"]) == (1, "released", "committed")
    assert step["before"]["budget"]["delta"] == 1e-5
    text = dump_certificate(form).encode()
    assert verify_certificate(text, lines=lines).ok
    for edit in (
        {"kept": 0},
        {"because": "outside"},
        {"before": {**step["before"], "budget": {**step["before"]["budget"], "delta": 2e-5}}},
    ):
        changed = json.loads(text) | {"replanned": [{**step, **edit}]}
        assert not verify_certificate(dump_certificate(signed_anew(changed)).encode()).ok
    hidden = {key: value for key, value in json.loads(text).items() if key != "replanned"}
    assert not verify_certificate(dump_certificate(signed_anew(hidden)).encode()).ok


def signed_anew(form):
    from discreet.privacy.certificate.statement import digest_of

    return {**form, "digest": digest_of(form), "signature": None}


def test_a_plan_that_goes_on_reads_back():
    from discreet.privacy.plan_files import plan_from_json

    ledger, made, _ = replanned(2, ())
    assert made.phases[-1].size == made.phases[1].size
    assert plan_from_json(json.loads(json.dumps(made.to_json()))) == made
    assert made.claim == 8
    with pytest.raises(BadInput):  # nobody is asked after a last training
        rest_of(ledger, 3, (10,), made=made)
