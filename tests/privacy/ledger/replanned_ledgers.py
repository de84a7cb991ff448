"""Small ledgers of a plan, begun and re-planned."""

from decimal import Decimal

from discreet import plan
from discreet.planning.replanning import Rest, continued_plan
from discreet.privacy.ledger import ChargeReason, Ledger, MemorySink, terms_of
from discreet.privacy.ledger.admission import filter_order
from discreet.privacy.ledger.terms import Continued, continued_budget

SHAPE = {"epsilon": 8, "delta": "1e-5", "initial": 400, "queries": (100, 100), "batch": 100, "epochs": 4}
PLAN = plan(**SHAPE, selection_epsilon=2, threshold_epsilon="0.05", accountant="rdp", pool_size=4000)


def begun(made=PLAN, done=1):
    """The ledger of a plan whose first phases are charged, and its lines."""
    lines = []
    ledger = Ledger.create(MemorySink(lines), terms_of(made))
    charge(ledger, [line for line in ledger.terms.lines if line.phase < done])
    return ledger, lines


def charge(ledger, lines):
    for line in lines:
        ledger.charge(
            event=line.event, count=line.count, who=line.who, why=ChargeReason(phase=line.phase, purpose="a charge")
        )


def rest_of(ledger, done, queries, *, because="outside", epsilon=None, made=PLAN):
    terms = ledger.terms
    wanted = made.budget.epsilon if epsilon is None else Decimal(epsilon)
    budget, kept = continued_budget(terms.budget, wanted, because, first=terms.continued is None)
    orders = terms.orders or (filter_order(ledger.opening.terms, wanted),)
    kept = kept if terms.continued is None else terms.continued.kept
    why = Continued(because=because, kept=kept)
    return Rest(
        plan=made, done=done, queries=queries, budget=budget, orders=orders, continued=why, entries=ledger.entries,
        pool=4000,
    )  # fmt: skip


def replanned(done=1, queries=(80, 80, 80), **options):
    ledger, lines = begun(done=done)
    made, terms = continued_plan(rest_of(ledger, done, queries, **options))
    ledger.amend(terms, phase=done)
    return ledger, made, lines
