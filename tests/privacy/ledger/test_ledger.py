"""What a ledger promises about itself: refusal before change, receipts, totals, both modes, both sinks."""

import copy
import json
import os
import pickle
import threading
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import (
    BadInput,
    BudgetExceeded,
    InvalidLedger,
    LedgerUnavailable,
    ReceiptRefused,
)
from discreet.noise import OperatingSystem, Seeded, laplace
from discreet.privacy.accounting.rdp import rdp_epsilon
from discreet.privacy.budget import Budget
from discreet.privacy.certificate.verification import verify_ledger
from discreet.privacy.events import (
    Composed,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PmfFamily,
    PoissonSampledGaussian,
    Pure,
    Repeated,
    ThresholdResponse,
)
from discreet.privacy.ledger import (
    ChargeReason,
    FileSink,
    Ledger,
    Line,
    MemorySink,
    Path,
    PathSegment,
    Receipt,
    Request,
    adaptive,
    committed,
)
from discreet.privacy.ledger.charges import Charge, sealed, unsealed
from discreet.privacy.ledger.high_water_mark import HighWaterMark
from discreet.privacy.ledger.paths import covers
from discreet.privacy.ledger.receipts import issue

ONE = Budget(epsilon=1, delta="1e-6")
TENTH = Laplace(epsilon="0.1")
STEP = PoissonSampledGaussian(sampling_rate=0.1, noise_multiplier=2.0)


def new(terms=None, **options):
    return Ledger.create(MemorySink(), terms or adaptive(ONE), **options)


# -- refusal before change


def test_ten_tenths_fit_exactly_and_the_eleventh_is_refused_before_anything_changes():
    ledger = new()
    for _ in range(10):
        ledger.charge(event=TENTH, who="pool", why="count")
    head, total = ledger.head, ledger.total("everyone")
    assert total.epsilon == 1
    assert total.remaining == 0
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge(event=TENTH, who="pool", why="count")
    assert (caught.value.requested, caught.value.remaining, caught.value.total) == (Decimal("0.1"), 0, 1)
    assert (ledger.head, len(ledger), ledger.total("everyone")) == (head, 10, total)


def test_a_price_spends_nothing_and_is_what_a_charge_then_costs():
    ledger = new()
    ledger.charge(event=TENTH, who="pool", why="count")
    price = ledger.price(event=STEP, count=2, who="pool")
    assert price.fits
    assert len(ledger) == 1
    before = ledger.total("everyone").epsilon
    ledger.charge(event=STEP, count=2, who="pool", why="train")
    assert ledger.total("everyone").epsilon - before == price.requested
    refused = ledger.price(event=Pure(epsilon=2), who="pool")
    assert not refused.fits
    assert refused.requested > refused.remaining
    assert len(ledger) == 2


def test_several_charges_at_once_are_all_or_none():
    ledger = new()
    requests = [Request(charges=(Charge(who="pool", event=TENTH),), why=ChargeReason(purpose="count"))] * 11
    with pytest.raises(BudgetExceeded):
        ledger.charge_all(requests)
    assert len(ledger) == 0
    receipts = ledger.charge_all(requests[:10])
    assert [receipt.entry.sequence for receipt in receipts] == list(range(1, 11))
    assert ledger.total("everyone").remaining == 0


def test_delta_zero_takes_pure_events_only():
    ledger = new(adaptive(Budget(epsilon=1, delta=0)))
    ledger.charge(event=TENTH, count=9, who="pool", why="count")
    with pytest.raises(BudgetExceeded):
        ledger.charge(event=Gaussian(noise_multiplier=100.0), who="pool", why="mean")
    ledger.charge(event=TENTH, who="pool", why="count")
    assert ledger.total("everyone").remaining == 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.7, 10), st.integers(1, 20)), max_size=20))
def test_whatever_an_adaptive_ledger_took_keeps_the_budget(steps):
    ledger = new(adaptive(Budget(epsilon=3, delta="1e-5")))
    for rate, sigma, count in steps:
        event = PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=sigma)
        try:
            ledger.charge(event=event, count=count, who="pool", why="train")
        except BudgetExceeded as refused:
            assert refused.requested > refused.remaining
    taken = tuple(Repeated(event=line.event, count=line.count) for line in ledger.charged())
    assert rdp_epsilon(Composed(events=taken), 1e-5) <= 3
    assert ledger.total("everyone").epsilon <= 3


# -- paths

PATHS = [
    Path(name="asked-1", stays=(PathSegment(who="pool", last=1, choice="asked"), PathSegment(who="phase-1", first=1))),
    Path(name="asked-2", stays=(PathSegment(who="pool", last=2, choice="asked"), PathSegment(who="phase-2", first=2))),
    Path(name="missed", stays=(PathSegment(who="pool", choice="missed"),)),
]
ASK = ThresholdResponse(asked="1", missed="0.25")
LINES = [
    Line(who="pool", phase=1, event=ASK),
    Line(who="pool", phase=2, event=ASK),
    Line(who="phase-1", phase=1, event=STEP, count=20),
    Line(who="phase-1", phase=2, event=STEP, count=20),
    Line(who="phase-2", phase=2, event=STEP, count=20),
]
TERMS = committed(Budget(epsilon=5, delta="1e-5"), LINES, paths=PATHS)


def test_paths_pay_once_for_being_asked_and_each_time_for_being_missed():
    first, second, missed = TERMS.trajectories()
    assert (first.forward, first.backward) == (1, 0)
    assert (second.forward, second.backward) == (1, Decimal("0.25"))
    assert (missed.forward, missed.backward) == (0, Decimal("0.5"))
    assert [part.count for part in first.training] == [40]
    assert [part.count for part in second.training] == [20]
    assert not missed.training


def test_running_totals_of_a_committed_ledger_end_at_the_committed_trajectories():
    ledger = new(TERMS)
    for line in sorted(LINES, key=lambda line: line.phase):
        ledger.charge(
            event=line.event, count=line.count, who=line.who, why=ChargeReason(phase=line.phase, purpose="run")
        )
    for total, path in zip(ledger.totals(), TERMS.trajectories(), strict=True):
        assert (total.forward, total.backward) == (path.forward, path.backward)
        assert float(total.epsilon) == pytest.approx(path.rdp(1e-5), rel=1e-3)
    assert [rest for _, rest in ledger.lines_left()] == [0] * len(LINES)


def test_two_responses_in_one_phase_get_no_one_sided_price():
    """Which of the two asked it is unknown, so a missed one may hide behind an asked one: both caps, both ways."""
    twice = committed(Budget(epsilon=9, delta="1e-5"), [LINES[0], LINES[0]], paths=PATHS)
    asked = twice.trajectories()[0]
    assert (asked.forward, asked.backward) == (2, 2)


def test_a_committed_ledger_takes_its_lines_cheaper_ones_and_nothing_else():
    ledger = new(TERMS)
    why = ChargeReason(phase=1, purpose="train")
    ledger.charge(event=STEP, count=15, who="phase-1", why=why)
    quieter = PoissonSampledGaussian(sampling_rate=0.05, noise_multiplier=2.5)
    ledger.charge(event=quieter, count=4, who="phase-1", why=why)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge(event=STEP, count=2, who="phase-1", why=why)
    assert "more than is left" in str(caught.value)
    assert caught.value.remaining < caught.value.requested
    for event in (
        PoissonSampledGaussian(sampling_rate=0.1, noise_multiplier=1.9),
        PoissonSampledGaussian(sampling_rate=0.2, noise_multiplier=2.0),
        Gaussian(noise_multiplier=50.0),
    ):
        with pytest.raises(BudgetExceeded, match="not committed"):
            ledger.charge(event=event, who="phase-1", why=why)
    with pytest.raises(BadInput):
        ledger.charge(event=STEP, who="phase-2", why=why)  # its training begins in phase 2
    assert len(ledger) == 2


def test_groups_nobody_is_in_are_refused():
    ledger = new(TERMS)
    with pytest.raises(BadInput, match="no declared path"):
        ledger.charge(event=ASK, who="poool", why=ChargeReason(phase=1, purpose="ask"))
    with pytest.raises(BadInput):
        ledger.total("asked-3")


def test_terms_that_break_their_own_budget_create_nothing():
    sink = MemorySink()
    with pytest.raises(BudgetExceeded, match="asked-1"):
        Ledger.create(sink, committed(Budget(epsilon="1.5", delta="1e-5"), LINES, paths=PATHS))
    assert sink.read() == []


def test_a_mechanism_without_pure_loss_cannot_stand_before_a_branch():
    lines = [Line(who="pool", phase=1, event=Gaussian(noise_multiplier=5.0)), *LINES]
    with pytest.raises(BadInput, match="pure"):
        Ledger.create(MemorySink(), committed(Budget(epsilon=8, delta="1e-5"), lines, paths=PATHS))


def test_every_outcome_of_a_choice_needs_a_path():
    """A claim is the worst of all paths: one that was left out could be the worst."""
    below = Path(name="low", stays=(PathSegment(who="pool", last=1, choice="asked-below"),))
    asked = Path(name="high", stays=(PathSegment(who="pool", last=1, choice="asked"),))
    missed = Path(name="missed", stays=(PathSegment(who="pool", choice="missed"),))
    line = Line(who="pool", phase=1, event=ThresholdResponse(asked=50, missed=50))
    for paths in ([below], [asked], [missed], [below, missed], [asked, below]):
        with pytest.raises(BadInput, match="no declared path"):
            committed(Budget(epsilon="0.01", delta="1e-6"), [line], paths=paths)
    committed(Budget(epsilon="0.01", delta="1e-6"), [line], paths=[below, asked, missed])


def test_a_choice_is_never_composed_with_what_it_decides():
    """Stays left open would put the selection into each path's PLD, whose worst is no bound (true delta 1.10e-5)."""
    ask, lost = ThresholdResponse(asked=2, missed=2), 0.999e-5
    lines = [
        Line(who="pool", phase=1, event=ask),
        Line(who="pool", phase=2, event=ask),
        Line(who="c1", phase=1, event=Gaussian(noise_multiplier=0.75956)),
        Line(who="c2", phase=2, event=PmfFamily(present=((1 - lost, lost),), absent=((1.0, 0.0),))),
    ]
    paths = [
        Path(name="one", stays=(PathSegment(who="pool", last=1), PathSegment(who="c1", first=1))),
        Path(name="two", stays=(PathSegment(who="pool", last=2), PathSegment(who="c2", first=2))),
        Path(name="never", stays=(PathSegment(who="pool"),)),
    ]
    with pytest.raises(BadInput, match="does not say how it was chosen"):
        committed(Budget(epsilon=8, delta="1e-5"), lines, paths=paths)


def test_phases_go_forward_and_choices_come_before_training():
    """Charged backwards, a record missed at 3 and 2 and asked at 1 would be on a path whose price knows no misses."""
    ledger = new(TERMS)
    ledger.charge(event=ASK, who="pool", why=ChargeReason(phase=1, purpose="ask"))
    ledger.charge(event=STEP, count=5, who="phase-1", why=ChargeReason(phase=1, purpose="train"))
    with pytest.raises(BadInput, match="Choose first"):
        ledger.charge(event=ASK, who="pool", why=ChargeReason(phase=1, purpose="ask"))
    with pytest.raises(BadInput, match="Choose first"):  # in one entry nobody could tell which came first
        ledger.charge_together({"pool": ASK, "phase-1": STEP}, why=ChargeReason(phase=2, purpose="both"))
    ledger.charge(event=ASK, who="pool", why=ChargeReason(phase=2, purpose="ask"))
    with pytest.raises(BadInput, match="after phase 2"):
        ledger.charge(event=STEP, who="phase-1", why=ChargeReason(phase=1, purpose="train"))
    ledger.charge(event=STEP, who="phase-1", why=ChargeReason(phase=2, purpose="train"))
    assert len(ledger) == 4
    sites = [Path(name=name, stays=(PathSegment(who=name),)) for name in ("north", "south")]
    lines = [Line(who="north", phase=2, event=TENTH), Line(who="south", phase=1, event=TENTH)]
    apart = new(committed(ONE, lines, paths=sites))
    for line in lines:  # where nothing is chosen there is no order to keep
        apart.charge(event=line.event, who=line.who, why=ChargeReason(phase=line.phase, purpose="count"))


def test_an_adaptive_ledger_goes_forward_where_records_move_on():
    """A record asked in a phase 1 that came after phase 2 was in the pool in both; its path knows of one."""
    ledger = new(adaptive(Budget(epsilon=1, delta="1e-6"), paths=PATHS))
    ledger.charge(event=TENTH, who="pool", why=ChargeReason(phase=2, purpose="ask"))
    with pytest.raises(BadInput, match="after phase 2"):
        ledger.charge(event=TENTH, who="pool", why=ChargeReason(phase=1, purpose="ask"))


def test_a_forged_order_is_not_read():
    sink = MemorySink()
    with Ledger.create(sink, TERMS) as ledger:
        for phase in (1, 2):
            ledger.charge(event=ASK, who="pool", why=ChargeReason(phase=phase, purpose="ask"))

    def swapped(forms):
        forms[1]["phase"], forms[2]["phase"] = 2, 1
        return forms

    with pytest.raises(InvalidLedger, match="terms do not allow"):
        Ledger.open(MemorySink(rewritten(sink.read(), swapped)))


def test_every_combination_of_outcomes_needs_a_path():
    """Asked in both pools loses 4 where each declared path loses 2."""
    lines = [
        Line(who=who, phase=phase, event=ThresholdResponse(asked=2, missed=1)) for phase, who in ((1, "a"), (2, "b"))
    ]

    def path(first, second):
        stays = [
            PathSegment(who=who, last=n, choice="asked") if was == "asked" else PathSegment(who=who, choice="missed")
            for n, who, was in ((1, "a", first), (2, "b", second))
        ]
        return Path(name=f"{first}-{second}", stays=tuple(stays))

    ways = [("asked", "missed"), ("missed", "asked"), ("asked", "asked"), ("missed", "missed")]
    for count in (1, 2, 3):
        with pytest.raises(BadInput, match="no declared path"):
            committed(Budget(epsilon=2, delta="1e-6"), lines, paths=[path(*way) for way in ways[:count]])
    whole = committed(Budget(epsilon=2, delta="1e-6"), lines, paths=[path(*way) for way in ways])
    with pytest.raises(BudgetExceeded, match="asked-asked"):
        whole.check_claim()


def test_a_choice_by_any_mechanism_decides_a_missed_path():
    """What came before a choice by Laplace noise must be pure on the path that was missed, too (true delta 1.3e-3)."""
    lines = [
        Line(who="all", phase=0, event=Gaussian(noise_multiplier=3.0)),
        Line(who="pool", phase=1, event=Laplace(epsilon="0.1")),
        Line(who="a", phase=1, event=STEP),
        Line(who="b", phase=1, event=STEP),
    ]
    everybody = PathSegment(who="all")
    paths = [
        Path(
            name="asked",
            stays=(PathSegment(who="pool", last=1, choice="asked"), everybody, PathSegment(who="a", first=1)),
        ),
        Path(name="missed", stays=(PathSegment(who="pool", choice="missed"), everybody, PathSegment(who="b", first=1))),
    ]
    for budget in (Budget(epsilon=6, delta="1e-3"),):
        with pytest.raises(BadInput, match="pure"):
            committed(budget, lines, paths=paths).trajectories()
    asked, missed = committed(Budget(epsilon=6, delta="1e-3"), lines[1:], paths=paths).trajectories()
    assert asked.forward == missed.forward == Decimal("0.1")


@pytest.mark.parametrize("wrapped", [Repeated(event=ASK, count=1), Composed(events=(ASK,))])
def test_a_response_cannot_hide_in_another_event(wrapped):
    with pytest.raises(BadInput, match="wraps"):
        new().charge(event=wrapped, who="pool", why="ask")
    with pytest.raises(BadInput, match="wraps"):
        committed(Budget(epsilon=5, delta="1e-5"), [Line(who="pool", phase=1, event=wrapped)], paths=PATHS)


def test_a_sum_a_hair_above_the_budget_is_refused():
    hair = Pure(epsilon="0.3000000000000000000001")
    choice = [Path(name="p", stays=(PathSegment(who="pool", choice="touched"),))]
    composes = [Path(name="p", stays=(PathSegment(who="pool"),))]  # where a delta of 1e-6 would pay for the hair
    for paths, delta in ((choice, "1e-6"), (choice, "1e-30"), (composes, "1e-30"), (choice, "0"), (composes, "0")):
        with pytest.raises(BudgetExceeded):
            new(committed(Budget(epsilon="0.3", delta=delta), [Line(who="pool", event=hair)], paths=paths))


def test_what_may_decide_a_path_must_be_a_pure_loss():
    """Phase 1 touches everybody and phase 2 chooses by its output: composing it with the path's training would claim
    (1.5, .135) where the truth is (1.5, .154)."""
    first = PmfFamily(present=((0.8, 0.2),), absent=((0.2, 0.8),))
    nothing = ThresholdResponse(asked=0, missed=0)
    lines = [
        Line(who="all", phase=1, event=first),
        Line(who="pool", phase=2, event=nothing),
        Line(who="a", phase=3, event=PmfFamily(present=((0.6, 0.4),), absent=((0.4, 0.6),))),
    ]
    everybody = PathSegment(who="all")
    paths = [
        Path(
            name="asked",
            stays=(PathSegment(who="pool", last=2, choice="asked"), everybody, PathSegment(who="a", first=3)),
        ),
        Path(name="missed", stays=(PathSegment(who="pool", choice="missed"), everybody)),
    ]
    with pytest.raises(BadInput, match="pure"):
        committed(Budget(epsilon="1.5", delta="0.2"), lines, paths=paths).trajectories()
    pure = [Line(who="all", phase=1, event=Pure(epsilon="0.5")), *lines[1:]]
    asked, missed = committed(Budget(epsilon="1.5", delta="0.2"), pure, paths=paths).trajectories()
    assert (asked.forward, asked.backward, len(asked.training)) == (Decimal("0.5"), Decimal("0.5"), 1)
    assert (missed.forward, missed.backward, len(missed.training)) == (Decimal("0.5"), Decimal("0.5"), 0)


def test_lines_are_used_up_by_their_equals_first_and_a_charge_may_span_them():
    loud, quiet = Gaussian(noise_multiplier=10.0), Gaussian(noise_multiplier=20.0)
    lines = [Line(who="p", event=loud), Line(who="p", event=quiet), Line(who="p", event=quiet)]
    ledger = new(committed(Budget(epsilon=5, delta="1e-5"), lines))
    ledger.charge(event=quiet, count=2, who="p", why="quiet")
    ledger.charge(event=loud, who="p", why="loud")
    assert [rest for _, rest in ledger.lines_left()] == [0, 0, 0]


def test_an_adaptive_ledger_guards_every_path_and_gives_no_choice_for_less():
    ledger = new(adaptive(Budget(epsilon=1, delta="1e-6"), paths=PATHS))
    ledger.charge(
        event=ThresholdResponse(asked="0.5", missed="0.5"), who="pool", why=ChargeReason(phase=1, purpose="ask")
    )
    assert {total.epsilon for total in ledger.totals()} == {Decimal("0.5")}
    ledger.charge(event=Laplace(epsilon="0.5"), who="phase-1", why=ChargeReason(phase=1, purpose="train"))
    assert ledger.total("asked-1").remaining == 0
    assert ledger.total("missed").remaining == Decimal("0.5")
    with pytest.raises(BudgetExceeded, match="asked-1"):
        ledger.charge(event=TENTH, who="phase-1", why=ChargeReason(phase=1, purpose="train"))
    ledger.charge(
        event=TENTH, who="pool", why=ChargeReason(phase=2, purpose="ask")
    )  # asked-1 has left the pool by then
    assert ledger.total("asked-1").epsilon == 1


@pytest.mark.parametrize(
    ("line", "event", "fits"),
    [
        (Laplace(epsilon=1), Laplace(epsilon="0.9"), True),
        (Laplace(epsilon=1), Laplace(epsilon="1.1"), False),
        (Laplace(epsilon=1), Pure(epsilon=1), False),
        (DiscreteLaplace(epsilon=1), DiscreteLaplace(epsilon=1, sensitivity=2), False),
        (ThresholdResponse(asked=2, missed=1), ThresholdResponse(asked=2, missed="0.5"), True),
        (ThresholdResponse(asked=2, missed=1), ThresholdResponse(asked=1, missed=2), False),
        (Gaussian(noise_multiplier=2.0), Gaussian(noise_multiplier=3.0), True),
        (Repeated(event=TENTH, count=2), Repeated(event=TENTH, count=1), False),
    ],
)
def test_covering_is_never_dearer(line, event, fits):
    assert covers(line, event) is fits
    if fits:
        assert rdp_epsilon(event, 1e-6) <= rdp_epsilon(line, 1e-6) + 1e-12


# -- receipts


def test_receipts_are_issued_by_ledgers_alone_and_cannot_be_copied_or_stored():
    ledger = new(source=Seeded(1))
    receipt = ledger.charge(event=TENTH, who="pool", why="count")
    with pytest.raises(ReceiptRefused):
        Receipt(object(), ledger=ledger, entry=receipt.entry, source=ledger.source)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ReceiptRefused):
            attempt(receipt)
    assert ledger.owns(receipt)
    assert not new(source=Seeded(1)).owns(receipt)
    assert "0.1" not in repr(receipt)


def test_nobody_can_forge_a_receipt_or_swap_its_randomness():
    ledger = new(source=OperatingSystem())
    receipt = ledger.charge(event=TENTH, who="pool", why="count")
    laplace(0.0, sensitivity=1.0, receipt=receipt)
    for forged in (issue(ledger=ledger, entry=receipt.entry, source=ledger.source), object.__new__(Receipt)):
        with pytest.raises((ReceiptRefused, AttributeError)):
            laplace(0.0, sensitivity=1.0, receipt=forged)
    for target, name in ((ledger, "source"), (receipt, "source"), (receipt, "entry"), (ledger, "closed")):
        with pytest.raises(AttributeError):
            setattr(target, name, None)


class Cheap(Laplace):
    """A subclass that says it costs nothing."""

    def pure_epsilon(self):
        return Decimal(0)


def test_only_events_of_the_registry_that_read_back_are_charged():
    nested = Pure(epsilon="0.01")
    for _ in range(20):
        nested = Repeated(event=nested, count=1)
    for event in (Cheap(epsilon=5), nested):
        ledger = new()
        with pytest.raises(BadInput, match="stored form"):
            ledger.charge(event=event, who="pool", why="count")
        with pytest.raises(BadInput):
            committed(ONE, [Line(who="pool", event=event)])


def test_an_over_committed_ledger_is_not_opened_for_drawing():
    sink = MemorySink()
    Ledger.create(sink, committed(ONE, [Line(who="pool", event=TENTH)], accountant="rdp")).close()

    def dearer(forms):
        forms[0]["terms"]["lines"][0][2]["epsilon"] = "1000"
        return forms

    made = rewritten(sink.read(), dearer)
    with pytest.raises(BudgetExceeded):
        Ledger.open(MemorySink(made), source=OperatingSystem())


def test_a_receipt_is_worthless_after_its_ledger_closed():
    ledger = new(source=Seeded(1))
    receipt = ledger.charge(event=TENTH, who="pool", why="count")
    ledger.close()
    with pytest.raises(ReceiptRefused, match="closed"):
        laplace(0.0, sensitivity=1.0, receipt=receipt)
    with pytest.raises(LedgerUnavailable):
        ledger.charge(event=TENTH, who="pool", why="count")


def test_a_forked_child_can_neither_draw_nor_charge():
    ledger = new(source=OperatingSystem())
    receipt = ledger.charge(event=TENTH, who="pool", why="count")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        outcome = []
        for attempt in (
            lambda: laplace(0.0, sensitivity=1.0, receipt=receipt),
            lambda: ledger.charge(event=TENTH, who="pool", why="count"),
        ):
            try:
                attempt()
                outcome.append("done")
            except (ReceiptRefused, LedgerUnavailable):
                outcome.append("refused")
        os.write(write, " ".join(outcome).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    assert os.read(read, 100) == b"refused refused"
    os.close(read)
    laplace(0.0, sensitivity=1.0, receipt=receipt)


def test_threads_share_one_purse():
    ledger = new(source=Seeded(1))
    receipt = ledger.charge(event=Laplace(epsilon="0.001"), count=200, who="pool", why="count")
    outcomes = []

    def draw():
        for _ in range(100):
            try:
                laplace(0.0, sensitivity=1.0, receipt=receipt)
                outcomes.append(1)
            except ReceiptRefused:
                outcomes.append(0)

    workers = [threading.Thread(target=draw) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sum(outcomes) == 200
    assert len(outcomes) == 400


def test_threads_cannot_overspend():
    ledger = new()
    taken = []

    def spend():
        for _ in range(10):
            try:
                taken.append(ledger.charge(event=TENTH, who="pool", why="count").entry.sequence)
            except BudgetExceeded:
                return

    workers = [threading.Thread(target=spend) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(taken) == list(range(1, 11))


def test_a_group_is_served_by_itself_or_with_all_never_both():
    ledger = new(source=Seeded(1))
    receipt = ledger.charge(event=TENTH, who=["shard-1", "shard-2"], why="count")
    laplace(0.0, sensitivity=1.0, receipt=receipt, who="shard-1")
    with pytest.raises(ReceiptRefused):
        laplace(0.0, sensitivity=1.0, receipt=receipt)
    laplace(0.0, sensitivity=1.0, receipt=receipt, who="shard-2")
    with pytest.raises(ReceiptRefused, match="spent"):
        laplace(0.0, sensitivity=1.0, receipt=receipt, who="shard-2")
    with pytest.raises(ReceiptRefused):
        laplace(0.0, sensitivity=1.0, receipt=receipt, who="shard-3")


def test_a_simulation_and_production_never_mix():
    ledger = new(source=Seeded(1))
    assert ledger.simulation
    with pytest.raises(BadInput, match="simulation"):
        ledger.charge(event=TENTH, who="pool", why="count", source=OperatingSystem())
    lines = MemorySink()
    Ledger.create(lines, adaptive(ONE), source=OperatingSystem())
    with pytest.raises(BadInput, match="simulation"):
        Ledger.open(lines, source=Seeded(1))


@pytest.mark.parametrize(
    "bad",
    [
        {"event": "laplace", "who": "pool", "why": "count"},
        {"event": TENTH, "who": "", "why": "count"},
        {"event": TENTH, "who": [], "why": "count"},
        {"event": TENTH, "who": ["a", "a"], "why": "count", "count": 0},
        {"event": TENTH, "who": "pool\n", "why": "count"},
        {"event": TENTH, "who": "pool", "why": "x" * 500},
        {"event": TENTH, "who": "pool", "why": "count", "count": 1.5},
        {"event": TENTH, "who": "pool", "why": "count", "count": True},
        {"event": TENTH, "who": "pool", "why": "count", "count": -1},
    ],
)
def test_nonsense_is_refused_and_changes_nothing(bad):
    ledger = new()
    with pytest.raises(BadInput):
        ledger.charge(**bad)
    assert len(ledger) == 0


# -- sinks and reading


def test_a_ledger_reads_back_as_it_stood(tmp_path):
    with Ledger.create(FileSink(tmp_path / "a"), TERMS) as ledger:
        ledger.charge(event=ASK, who="pool", why=ChargeReason(phase=1, purpose="ask"))
        ledger.charge_together({"phase-1": STEP}, count=3, why=ChargeReason(phase=1, purpose="train"))
        stood = ledger.head, ledger.totals(), ledger.entries, ledger.lines_left()
    with Ledger.open(FileSink(tmp_path / "a", must_exist=True)) as again:
        assert (again.head, again.totals(), again.entries, again.lines_left()) == stood
        assert again.terms == TERMS


def test_every_prefix_of_a_file_is_read_as_its_whole_lines(tmp_path):
    with Ledger.create(FileSink(tmp_path / "a"), adaptive(ONE)) as ledger:
        for _ in range(3):
            ledger.charge(event=TENTH, who="pool", why="count")
        hashes = [entry.hash for entry in ledger.entries]
    data = (tmp_path / "a").read_bytes()
    ends = [i for i, byte in enumerate(data) if byte == 10]  # a line that lacks only its newline is whole
    place = tmp_path / "b"
    for size in range(len(data) + 1):
        place.write_bytes(data[:size])
        (tmp_path / "b.mark").unlink(missing_ok=True)  # as a process left it that died before it moved the mark
        HighWaterMark.beside(place).create()
        whole = sum(end <= size for end in ends)
        if whole == 0:
            sink = FileSink(place)
            assert sink.read() == []
            sink.close()
            continue
        with Ledger.open(FileSink(place)) as ledger:
            assert [entry.hash for entry in ledger.entries] == hashes[: whole - 1]
            if size % 50 == 0:  # and it can go on from there
                ledger.charge(event=TENTH, who="pool", why="after")
        if size % 50 == 0:
            with Ledger.open(FileSink(place)) as ledger:
                assert len(ledger) == whole


@pytest.fixture
def two_entries(tmp_path):
    with Ledger.create(FileSink(tmp_path / "a"), adaptive(ONE)) as ledger:
        for _ in range(2):
            ledger.charge(event=TENTH, who="pool", why="count")
    return (tmp_path / "a").read_bytes()


def test_a_changed_line_is_not_forgiven(tmp_path, two_entries):
    (tmp_path / "a").write_bytes(two_entries.replace(b'"count":1', b'"count":2'))
    with pytest.raises(InvalidLedger):
        Ledger.open(FileSink(tmp_path / "a"))


def test_no_byte_of_the_last_line_can_make_it_a_torn_tail(tmp_path, two_entries):
    """A charge that is dropped is a budget that is spent twice: NUL bytes, flipped bits, and the newline itself."""
    place, last = tmp_path / "a", two_entries.rstrip(b"\n").rfind(b"\n") + 1
    holes = two_entries[:-40] + b"\0" * 39 + b"\n"
    changed = [
        two_entries[:index] + bytes([other]) + two_entries[index + 1 :]
        for index in range(last, len(two_entries))
        for other in {0, *(two_entries[index] ^ (1 << bit) for bit in range(8))}
    ]
    for data in [holes, *changed]:
        place.write_bytes(data)
        with pytest.raises(InvalidLedger), Ledger.open(FileSink(place)):
            pass
        assert not verify_ledger(data).ok
        assert place.read_bytes() == data


@pytest.mark.parametrize("content", [b"three years of work without newline", b"line one\nline two", b"{}", b"\n"])
def test_a_file_that_is_no_ledger_is_left_as_it_is(tmp_path, content):
    place = tmp_path / "thesis.txt"
    place.write_bytes(content)
    with pytest.raises(InvalidLedger):
        Ledger.open(FileSink(place))
    with pytest.raises(LedgerUnavailable):
        Ledger.create(FileSink(place), adaptive(ONE))
    assert place.read_bytes() == content


def test_a_lost_newline_loses_no_entry(tmp_path):
    with Ledger.create(FileSink(tmp_path / "a"), adaptive(ONE)) as ledger:
        for _ in range(3):
            ledger.charge(event=TENTH, who="pool", why="count")
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes().rstrip(b"\n"))
    with Ledger.open(FileSink(tmp_path / "a")) as ledger:
        assert len(ledger) == 3
        ledger.charge(event=TENTH, who="pool", why="count")
    with Ledger.open(FileSink(tmp_path / "a")) as ledger:
        assert len(ledger) == 4


def test_a_failed_start_and_a_living_child_hold_no_lock(tmp_path):
    place = tmp_path / "a"
    with pytest.raises(BudgetExceeded):
        Ledger.create(FileSink(place), committed(ONE, [Line(who="p", event=Pure(epsilon=2))], accountant="rdp"))
    ledger = Ledger.create(FileSink(place), adaptive(ONE))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # a worker that lives on
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    with pytest.raises(LedgerUnavailable):
        FileSink(place)
    ledger.charge(event=TENTH, who="pool", why="count")
    ledger.close()
    with Ledger.open(FileSink(place)) as again:
        assert len(again) == 1
    os.close(write)
    os.close(read)
    os.waitpid(child, 0)


def test_one_writer_at_a_time_and_nobody_else_touches_the_file(tmp_path):
    place = tmp_path / "a"
    ledger = Ledger.create(FileSink(place), adaptive(ONE))
    with pytest.raises(LedgerUnavailable, match="another process"):
        FileSink(place)
    with place.open("ab") as file:
        file.write(b"x")
    with pytest.raises(LedgerUnavailable):
        ledger.charge(event=TENTH, who="pool", why="count")
    ledger.close()
    with Ledger.open(FileSink(place)) as again:
        again.charge(event=TENTH, who="pool", why="count")
        place.rename(tmp_path / "b")
        place.write_bytes(b"")
        with pytest.raises(LedgerUnavailable):
            again.charge(event=TENTH, who="pool", why="count")
    assert place.stat().st_size == 0
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600


def test_nothing_returns_before_fsync_and_nothing_goes_on_after_it_failed(tmp_path, monkeypatch):
    order = []
    write, fsync = os.write, os.fsync
    monkeypatch.setattr(os, "write", lambda *a: order.append("write") or write(*a))
    monkeypatch.setattr(os, "fsync", lambda *a: order.append("fsync") or fsync(*a))
    pwrite, fdatasync = os.pwrite, os.fdatasync
    monkeypatch.setattr(os, "pwrite", lambda *a: order.append("pwrite") or pwrite(*a))
    monkeypatch.setattr(os, "fdatasync", lambda *a: order.append("fdatasync") or fdatasync(*a))
    ledger = Ledger.create(FileSink(tmp_path / "a"), adaptive(ONE))
    mark = ["pwrite", "fdatasync"]
    assert order == ["fsync", "fsync", "write", "fsync", "fsync", *mark]  # a mark of no lines; the file; its directory
    order.clear()
    ledger.charge(event=TENTH, who="pool", why="count")
    assert order == ["write", "fsync", *mark]

    def broken(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input"):
        ledger.charge(event=TENTH, who="pool", why="count")
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(LedgerUnavailable):
        ledger.charge(event=TENTH, who="pool", why="count")
    ledger.close()
    with Ledger.open(FileSink(tmp_path / "a")) as again:
        assert len(again) == 2  # the write had landed: it counts as spent


def test_a_write_in_pieces_is_one_line(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))
    with Ledger.create(FileSink(tmp_path / "a"), adaptive(ONE)) as ledger:
        ledger.charge(event=TENTH, who="pool", why="count")
    monkeypatch.undo()
    with Ledger.open(FileSink(tmp_path / "a")) as again:
        assert len(again) == 1


def rewritten(lines, change):
    """The lines after ``change``, with every hash made right again: what a forger would do."""
    forms = change([json.loads(line) for line in lines])
    made, previous = [], None
    for number, form in enumerate(forms):
        form.pop("hash", None)
        if number:
            form["previous"], form["sequence"] = previous, number
        line, previous = sealed(form)
        made.append(line)
    return made


def test_a_forged_chain_must_still_keep_the_terms():
    sink = MemorySink()
    with Ledger.create(sink, adaptive(ONE)) as ledger:
        for _ in range(10):
            ledger.charge(event=TENTH, who="pool", why="count")
    lines = sink.read()
    assert len(Ledger.open(MemorySink(rewritten(lines, lambda forms: forms)))) == 10

    def dearer(forms):
        forms[5]["charges"][0]["count"] = 2
        return forms

    with pytest.raises(InvalidLedger, match="terms do not allow"):
        Ledger.open(MemorySink(rewritten(lines, dearer)))
    for swapped in (
        [*lines[:2], lines[3], lines[2], *lines[4:]],
        lines[1:],
        [lines[0], *lines[2:]],
        lines + lines[-1:],
    ):
        with pytest.raises(InvalidLedger):
            Ledger.open(MemorySink(list(swapped)))


@given(st.binary(max_size=200))
def test_any_line_is_read_or_refused(data):
    with pytest.raises(InvalidLedger):
        unsealed(data + b"\n")


# -- what was released


def test_a_release_is_named_costs_nothing_and_is_read_back():
    sink = MemorySink()
    ledger = Ledger.create(sink, adaptive(ONE))
    ledger.charge(event=TENTH, who="pool", why="count")
    before = ledger.totals()
    named = ledger.record_release({"model": "a" * 64, "texts": "b" * 64}, phase=3)
    ledger.charge(event=TENTH, who="pool", why="count")
    again = Ledger.open(MemorySink(sink.read()))
    (found,) = again.releases
    assert (found.released, found.why.phase, found.charges) == ({"model": "a" * 64, "texts": "b" * 64}, 3, ())
    assert found == named
    assert again.head == ledger.head
    assert [total.epsilon for total in before] == [Decimal("0.1")]
    assert again.total("everyone").epsilon == Decimal("0.2")


@pytest.mark.parametrize("wrong", [{}, {"model": "a" * 63}, {"model": "A" * 64}, {"a\nb": "a" * 64}, {"model": None}])
def test_a_release_holds_names_and_hashes_alone(wrong):
    ledger = new()
    with pytest.raises(BadInput):
        ledger.record_release(wrong, phase=0)
    assert len(ledger) == 0
    ledger.record_release({"model": "a" * 64}, phase=0)


@pytest.mark.parametrize(
    "change",
    [
        {"released": {}},
        {"released": {"model": "x"}},
        {"released": ["model"]},
        {"purpose": "count"},
        {"phase": -1},
        {"charges": []},
        {"key": ""},
        {"terms": {}},
        {"previous": 5},
    ],
)
def test_a_line_of_a_release_is_read_strictly(change):
    sink = MemorySink()
    Ledger.create(sink, adaptive(ONE)).record_release({"model": "a" * 64}, phase=0)
    first, last = sink.read()
    line, _ = sealed({**unsealed(last), **change})
    with pytest.raises(InvalidLedger):
        Ledger.open(MemorySink([first, line]))
