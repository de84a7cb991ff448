"""Aggregators: charges before answers, caps, contracts, neighbours, planted mistakes."""

from functools import lru_cache

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier  # it draws nothing, not even a name for itself

from discreet import Budget
from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import SecretKey, Seeded, noisy_winner
from discreet.oracles.data_dependent import data_dependent_epsilon
from discreet.oracles.teachers import TeacherOracle, build_aggregator, distances
from discreet.planning.pate import AGGREGATORS, price_answers
from discreet.privacy.events import DiscreteLaplace, Laplace
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.records import Question, Votes
from discreet.testing import NotPrivate, check_neighbours, check_oracle
from discreet.trainers.teachers import split, train_teachers

pytestmark = pytest.mark.thorough

CLASSES = ("a", "b", "c")
BUDGET = Budget(epsilon=4, delta="1e-6")
K = 4000


def votes_of(rows, prefix="record "):
    return Votes(
        ids=tuple(f"{prefix}{place}" for place in range(len(rows))),
        classes=CLASSES,
        counts=np.array(rows, dtype=np.int64),
        teachers=sum(rows[0]),
    )


@lru_cache
def price_of(aggregator, answers=12, teachers=K, **options):
    return price_answers(
        aggregator, budget=BUDGET, teachers=teachers, classes=3, answers=answers, **({"unstable": 4} | options)
    )


def oracle_of(aggregator, votes, seed=1, **options):
    price = price_of(aggregator, teachers=votes.teachers, **options)
    ledger = Ledger.create(MemorySink(), price.terms(), source=Seeded(seed))
    return TeacherOracle(votes, price=price, ledger=ledger), ledger


CLEAR = votes_of([[K - 10, 5, 5], [3, K - 3, 0], [0, 0, K]] * 4)


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_the_contract_of_oracles(aggregator):
    check_oracle(lambda: oracle_of(aggregator, CLEAR)[0], classes=CLASSES)


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_clear_votes_are_heard_and_charged(aggregator):
    oracle, ledger = oracle_of(aggregator, CLEAR)
    assert oracle.answer(CLEAR.ids[:3]) == ["a", "b", "c"]
    charged = len(ledger)
    assert charged
    assert oracle.answer(["record 1", "record 1"]) == ["b", "b"]  # told again, not paid again
    assert len(ledger) == charged
    assert oracle.left < 24
    with pytest.raises(BadInput, match="did not vote"):
        oracle.answer(["somebody else"])
    assert "4000" in repr(oracle)


@pytest.mark.parametrize("aggregator", ["gaussian", "laplace"])
def test_more_than_was_priced_is_refused_before_a_charge(aggregator):
    oracle, ledger = oracle_of(aggregator, CLEAR, answers=5)
    oracle.answer(CLEAR.ids[:3])
    before = len(ledger)
    with pytest.raises(BadInput, match="2 are left"):
        oracle.answer(CLEAR.ids[3:6])
    assert len(ledger) == before
    oracle.answer(CLEAR.ids[3:5])
    assert oracle.left == 0


def test_unstable_questions_have_no_answer_and_end_it():
    half = K // 2
    votes = votes_of([[half, half, 0], [K, 0, 0]] * 10)
    oracle, ledger = oracle_of("sparse", votes, answers=20)
    found = oracle.answer(votes.ids)
    assert found[:7] == [None, "a"] * 3 + [None]
    assert set(found[7:]) == {None}  # four were unstable
    assert oracle.left == 0
    assert [charge.count for entry in ledger.entries for charge in entry.charges] == [1, 4]


def test_confident_votes_check_first():
    votes = votes_of([[K, 0, 0], [K // 3, K // 3, K - 2 * (K // 3)]] * 10)
    oracle, ledger = oracle_of("confident", votes, answers=8, checks=20)
    found = oracle.answer(votes.ids)
    assert found == (["a", None] * 8) + [None] * 4  # eight answers were priced
    assert oracle.left == 0
    assert [charge.count for entry in ledger.entries for charge in entry.charges] == [20, 8]


def test_distances_to_instability():
    counts = np.array([[5, 5, 0], [6, 4, 0], [7, 3, 0], [7, 2, 1], [10, 0, 0]])
    assert distances(counts).tolist() == [0, 0, 1, 2, 4]
    rng = np.random.default_rng(0)
    for _ in range(300):  # one vote moved: one more or less, and at distance 1 the winner stays
        row = rng.multinomial(9, [0.5, 0.3, 0.2])
        give, take = rng.choice(3, 2, replace=False)
        if row[give]:
            moved = row.copy()
            moved[give] -= 1
            moved[take] += 1
            before, after = distances(np.array([row, moved]))
            assert abs(before - after) <= 1
            assert not before or row.argmax() == moved.argmax()


def test_votes_are_drawn_for_what_was_charged():
    ledger = Ledger.create(MemorySink(), adaptive(Budget(epsilon=100, delta="1e-6")), source=Seeded(1))
    odd = ledger.charge(event=DiscreteLaplace(epsilon="0.5"), count=1, who="private", why="answers")
    with pytest.raises(ReceiptRefused):
        noisy_winner(np.array([1, 2]), receipt=odd)  # an answer takes two
    wide = ledger.charge(event=DiscreteLaplace(epsilon="0.5", sensitivity=2), count=2, who="private", why="answers")
    with pytest.raises(ReceiptRefused, match="sensitivity"):
        noisy_winner(np.array([1, 2]), receipt=wide)
    other = ledger.charge(event=Laplace(epsilon="0.5"), count=2, who="private", why="answers")
    with pytest.raises(ReceiptRefused):
        noisy_winner(np.array([1, 2]), receipt=other)
    with pytest.raises(BadInput):
        noisy_winner(np.array([0.5, 0.5]), receipt=wide)


# -- neighbours: one record is with one teacher, and moves one vote a question

RNG = np.random.default_rng(5)
RECORDS = [
    (float(a), float(b), "abc"[code]) for code, (a, b) in enumerate(RNG.normal(size=(90, 2)) * 2) for code in [code % 3]
]
PUBLIC = RNG.normal(size=(8, 2)) * 2
KEY = SecretKey(b"n" * 32)
NULL = (0.0, 0.0, None)


@lru_cache
def generous(aggregator, teachers=12):
    return price_answers(
        aggregator,
        budget=Budget(epsilon=200, delta="1e-3"),
        teachers=teachers,
        classes=3,
        answers=8,
        unstable=4,
    )


def campaign(aggregator, *, votes=None, service=None):
    """Teachers of these records, and answers to a few questions."""

    def run(records, ledger):
        made = (votes or taught)(records)
        price = generous(aggregator, made.teachers)
        oracle = TeacherOracle(made, price=price, ledger=ledger)
        if service:
            oracle._aggregator = service(price, ledger)
        return oracle.answer(made.ids)

    return run


def taught(records, of=None):
    x = np.array([record[:2] for record in records])
    return train_teachers(
        x,
        [record[2] for record in records],
        units=[f"unit {place}" for place in range(len(records))],
        public=PUBLIC,
        public_ids=[str(place) for place in range(len(PUBLIC))],
        classes=CLASSES,
        teachers=12,
        estimator=RidgeClassifier(),
        key=KEY,
    )


@pytest.mark.parametrize("aggregator", ["gaussian", "laplace", "confident", "sparse"])
def test_one_record_moves_one_vote(aggregator):
    terms = generous(aggregator).terms()
    report = check_neighbours(campaign(aggregator), RECORDS, null=NULL, most=4, terms=terms)
    assert report.releases >= 4


def test_one_record_changes_one_teacher():
    of = split([f"unit {place}" for place in range(90)], teachers=12, key=KEY)
    before = taught(RECORDS).counts
    moved = 0
    for place in range(0, 90, 9):
        after = taught([NULL if number == place else record for number, record in enumerate(RECORDS)]).counts
        assert np.abs(before - after).sum(axis=1).max() <= 2
        moved += (before != after).any()
    assert moved
    assert len(set(of.tolist())) == 12


def test_planted_two_teachers_that_share_a_record_are_caught():
    def shared(records):
        """Every record is taught to two teachers: units are cut once more, by another key."""
        first, x = taught(records), np.array([record[:2] for record in records])
        again = train_teachers(
            x,
            [record[2] for record in records],
            units=[f"unit {place}" for place in range(len(records))],
            public=PUBLIC,
            public_ids=first.ids,
            classes=CLASSES,
            teachers=12,
            estimator=RidgeClassifier(alpha=3.0),
            key=KEY.derive("second"),
        )
        return Votes(ids=first.ids, classes=CLASSES, counts=first.counts + again.counts, teachers=24)

    with pytest.raises(NotPrivate, match="more than one vote"):
        check_neighbours(campaign("gaussian", votes=shared), RECORDS, null=NULL, most=12)


def test_planted_answers_without_noise_are_caught():
    class Plain:
        left = 100

        def __init__(self, price, ledger):
            self.inner = build_aggregator(price, ledger, "private")

        def answer(self, counts):
            self.inner.answer(counts)
            return [int(row.argmax()) for row in counts]

    with pytest.raises(NotPrivate, match="output"):
        check_neighbours(campaign("gaussian", service=Plain), RECORDS, null=NULL, most=12)


def test_planted_unstable_answers_uncounted_are_caught():
    """A service that goes on after T unstable answers needs epochs that nobody paid for."""

    class Endless:
        left = 100

        def __init__(self, price, ledger):
            self.inner = build_aggregator(price, ledger, "private")

        def answer(self, counts):
            self.inner._price = type("Endless", (), {"threshold": 1e3, "unstable": 10**9, "answers": 10**9})()
            self.inner._epochs = None
            self.inner._price.charges = generous("sparse").charges
            return self.inner.answer(counts)

    with pytest.raises(NotPrivate, match="draw-without-charge"):
        check_neighbours(
            campaign("sparse", service=Endless), RECORDS, null=NULL, most=1, terms=generous("sparse").terms()
        )


def test_the_owners_epsilon_is_below_the_claim_where_teachers_agree():
    price = price_of("gaussian", answers=500)
    agreed = data_dependent_epsilon(np.tile([[K, 0, 0]], (500, 1)), price=price)
    split_votes = data_dependent_epsilon(np.tile([[K // 2, K // 2, 0]], (500, 1)), price=price)
    assert agreed.audience == "owner"
    assert agreed.on_these_votes < 0.5 * agreed.claimed
    assert split_votes.on_these_votes == pytest.approx(split_votes.claimed)
    assert agreed.claimed == pytest.approx(4, rel=0.1)  # RDP's, a little above the PLD's
    with pytest.raises(BadInput):
        data_dependent_epsilon(np.array([[1, 2, 3]]), price=price_of("laplace"))


def test_a_price_for_others_is_refused():
    price = price_of("gaussian", teachers=17)
    ledger = Ledger.create(MemorySink(), price.terms(), source=Seeded(1))
    with pytest.raises(BadInput, match="17"):
        TeacherOracle(CLEAR, price=price, ledger=ledger)
    oracle, _ = oracle_of("gaussian", CLEAR)
    with pytest.raises(BadInput):
        oracle.ask([Question(id="q", record="nobody", phase=0, place=0)])
