"""PersonCounts: so many records of each are looked at, later ones are nulls; attacked exactly, both directions."""

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
from small_streams import SEEDED, TEXT, config_in, label, record, state_of, taken
from stream_scenes import plain, records

from discreet.errors import BadInput, InvalidConfig, ReceiptRefused
from discreet.noise import RecordingSource, Seeded
from discreet.noise.stream import ONE
from discreet.privacy.budget import Budget
from discreet.privacy.certificate import certify
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.stream import (
    AskEverything,
    BernoulliAsking,
    DriftWatch,
    GammaNoise,
    GaussianNoise,
    Immediate,
    MiniBatch,
    OneSidedAsking,
    SlidingWindow,
    StreamLearner,
    StreamSettings,
    gaussian_noise_for,
    stream_price,
    stream_terms,
)
from discreet.stream.pending_labels import PersonCounts
from discreet.stream.service import StreamService
from discreet.stream.stream_directory import verify_stream
from discreet.testing.neighbours import NotPrivate, check_neighbours

pytestmark = pytest.mark.thorough

MOST = 3
BERNOULLI, GAMMA = BernoulliAsking(epsilon="0.5"), GammaNoise(epsilon=1)
BUDGET = Budget(epsilon=30, delta="1e-3", unit="person")


def settings(**parts):
    start = {"features": 2, "asking": BERNOULLI, "noise": GAMMA, "window": MiniBatch(2), "person_records": MOST}
    return StreamSettings(**(start | parts))


# -- the price


def test_bits_are_charged_a_record_and_updates_once():
    price = stream_price(delta=0, asking=BERNOULLI, noise=GAMMA, person_records=MOST)
    assert price.epsilon == Decimal("2.5")  # 3 x 0.5 + 1
    assert price.in_words().startswith("A person loses at most epsilon=2.5 ")
    few = OneSidedAsking(asked="0.2", low=0.05)
    assert few.price().missed < few.price().asked
    price = stream_price(delta=0, asking=few, noise=GAMMA, person_records=MOST)
    assert price.epsilon == Decimal("1.6")
    watch = DriftWatch(epsilon="0.25", window=10, most=0.4)
    assert stream_price(delta=0, asking=few, noise=GAMMA, drift=watch, person_records=MOST).epsilon == Decimal("1.85")


def test_gaussian_noise_is_found_for_persons_and_certified():
    budget = Budget(epsilon=3, delta="1e-6", unit="person")
    noise = gaussian_noise_for(budget, asking=BERNOULLI, person_records=MOST)
    alone = gaussian_noise_for(Budget(epsilon="1.5", delta="1e-6"), asking=AskEverything())
    assert noise.noise_multiplier == pytest.approx(alone.noise_multiplier, rel=1e-3)  # what bits leave
    terms = stream_terms(budget, asking=BERNOULLI, noise=noise, person_records=MOST)
    assert certify(Ledger.create(MemorySink(), terms))["budget"]["unit"] == "person"


@pytest.mark.parametrize("unit", ["record", "person"])
def test_unit_and_cap_belong_together(unit):
    budget = Budget(epsilon=9, delta=0, unit=unit)
    with pytest.raises(BadInput, match="how many records of a person"):
        stream_terms(budget, asking=BERNOULLI, noise=GAMMA, person_records=None if unit == "person" else 3)
    for each in (0, True, 1.5, 1 << 20):
        with pytest.raises(BadInput):
            settings(person_records=each)
    with pytest.raises(BadInput, match="held out may arrive"):
        stream_terms(
            BUDGET,
            asking=BERNOULLI,
            noise=GAMMA,
            person_records=3,
            preparation=[GaussianNoise(noise_multiplier=4).event()],
        )


def test_a_ledger_for_one_unit_does_not_pay_for_the_other():
    records_of = StreamSettings(features=2, asking=BERNOULLI, noise=GAMMA)
    for_persons = Ledger.create(
        MemorySink(), stream_terms(BUDGET, asking=BERNOULLI, noise=GAMMA, person_records=3), source=Seeded(1)
    )
    with pytest.raises(ReceiptRefused, match="protects the unit person"):
        StreamLearner.of(records_of, ledger=for_persons)
    assert len(for_persons) == 0
    with pytest.raises(ReceiptRefused):
        StreamLearner.of(
            settings(person_records=2), receipt=StreamLearner.of(settings(), ledger=for_persons).live_state.receipt
        )


# -- the attack, exactly


class Uncapped(PersonCounts):
    """The planted mistake: everybody is looked at for ever."""

    def looks_at(self, person):
        return True


class CountsAsked(StreamLearner):
    """The planted mistake: asked records count, and those that were missed do not."""

    def ask(self, x, id=None, person=None):  # noqa: A002
        before = dict(self.live_state.persons.counts)
        asked = super().ask(x, id, person)
        if not asked:
            self.live_state.persons.counts = before
        return asked


def chances(made, rows, bits):
    """The numerators of a person's coins, when coins fall as ``bits``."""
    seen, falls = [], iter(bits)

    def toss(number, numerator, null, high):
        seen.append(min(max(numerator, null), high))
        return next(falls)

    made.live_state.coins.toss = toss
    for row in rows:
        made.ask(row, person="c1")
    return seen


def worst_ratios(asking, kind=StreamLearner, persons=None, count=6):
    """The largest log-likelihood ratios of all patterns of bits, forward and backward, of ``count`` records of one
    person, each the worst there is, against nulls. The model stays 0: everybody is inside.
    """
    forward = backward = 0.0
    for bits in itertools.product([False, True], repeat=count):
        worlds = []
        for rows in ([[0.5, 0.5]] * count, [None] * count):
            made = kind.simulated(settings(asking=asking, window=SlidingWindow(1 << 30)), seed=1)
            if persons is not None:
                made.live_state.persons = persons(MOST)
            worlds.append(chances(made, rows, bits))
        ratio = sum(
            math.log((p if bit else ONE - p) / (q if bit else ONE - q)) for p, q, bit in zip(*worlds, bits, strict=True)
        )
        forward, backward = max(forward, ratio), max(backward, -ratio)
    return forward, backward


ASKINGS = {
    "bernoulli": BERNOULLI,
    "one-sided": OneSidedAsking(asked=1, missed="0.4"),
    "few": OneSidedAsking(asked=1, low=0.05),
}


@pytest.mark.parametrize("name", ASKINGS)
def test_all_bits_of_a_person_cost_as_often_as_they_are_looked_at_and_no_more(name):
    asking = ASKINGS[name]
    price = asking.price()
    forward, backward = worst_ratios(asking)
    assert forward <= MOST * float(price.asked) * (1 + 1e-12)
    assert backward <= MOST * float(price.missed) * (1 + 1e-12)
    if name == "bernoulli":
        assert (forward, backward) == pytest.approx((1.5, 1.5))  # and all of it is used


def test_planted_mistakes_cost_more():
    assert worst_ratios(BERNOULLI, persons=Uncapped)[0] == pytest.approx(3.0)
    forward, backward = worst_ratios(BERNOULLI, kind=CountsAsked)
    assert forward == pytest.approx(1.5)
    assert backward == pytest.approx(3.0)  # a cap on asked ones alone: misses go on


def lessons(rows, labels, *, delay, persons=None, **parts):
    """The sums that noise hides, when every record is asked and labels come ``delay`` records later."""
    made = settings(asking=AskEverything(), **parts)
    terms = stream_terms(BUDGET, **made.paid)
    tape = RecordingSource(Seeded(2))
    learner = StreamLearner.of(made, ledger=Ledger.create(MemorySink(), terms, source=tape))
    if persons is not None:
        learner.live_state.persons = persons(MOST)
    for place, row in enumerate(rows):
        learner.ask(row[1], id=str(place), person=row[0])
        if place >= delay:
            learner.learn_late(str(place - delay), labels[place - delay])
    learner.update()
    calls = [call for call, _ in tape.tape.calls if call.mechanism == "stream-noise"]
    return [call.inputs for call in calls], learner


@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize("window", [MiniBatch(1), MiniBatch(3), MiniBatch(8), SlidingWindow(5)])
@pytest.mark.parametrize("persons", [None, Uncapped])
def test_all_that_a_person_teaches_together_is_within_the_reach_of_the_noise(window, delay, persons):
    """Eight records of one person among others; in other worlds they are nulls. Models are frozen at 0."""
    longest = [1.0, 0.0]
    rows = [("c1", longest), ("c2", [0.1, 0.3])] * 8
    nulls = [(who, None if who == "c1" else row) for who, row in rows]
    here, learner = lessons(rows, [1] * 16, delay=delay, window=window, persons=persons, step=Tiny(), ball=1e-9)
    there, _ = lessons(nulls, [1] * 16, delay=delay, window=window, persons=persons, step=Tiny(), ball=1e-9)
    moved = sum(float(np.linalg.norm(a - b)) for a, b in zip(here, there, strict=True))
    assert learner.live_state.noise.reach == MOST
    if persons is None:
        assert moved <= MOST
        assert moved >= MOST - 1.001 * (delay > 0 or window == SlidingWindow(5))
    else:
        assert moved > MOST


class Tiny:
    """A step that leaves the model where it is."""

    def __new__(cls):
        from discreet.stream import ConstantStep

        return ConstantStep(1e-300)


def streamed(made, kind=StreamLearner, persons=None):
    def mechanism(rows, ledger):
        learner = kind.of(made, ledger=ledger)
        if persons is not None:
            learner.live_state.persons = persons(MOST)
        bits, models = [], []
        for place in range(max(len(row) for row in rows)):
            for who, theirs in enumerate(rows):
                if place < len(theirs):
                    x, y = theirs[place]
                    bits.append(learner.ask(x, id=f"r{who}-{place}", person=f"c{who}"))
                    models.append(learner.model().weights)
                    if bits[-1]:
                        learner.learn_late(f"r{who}-{place}", y)
        learner.update()
        return bits, models, learner.version

    return mechanism


def data(count=4, each=5):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(count, each, 2))
    x *= 1.5 / np.linalg.norm(x, axis=2)[:, :, None]
    return [[(row, int(rng.integers(2))) for row in theirs] for theirs in x]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"asking": AskEverything()},
        {"asking": OneSidedAsking(asked=1, low=0.3)},
        {"noise": GaussianNoise(noise_multiplier=2.0)},
        {"window": SlidingWindow(6)},
        {"drift": DriftWatch(epsilon=1, window=4, most=0.4), "asking": AskEverything()},
        {"loss": "logistic"},
    ],
)
def test_nothing_else_depends_on_a_person(parts):
    made = settings(**({"window": MiniBatch(4)} | parts))
    terms = stream_terms(BUDGET, **made.paid)
    rows = data()
    report = check_neighbours(streamed(made), rows, null=[(None, None)] * 5, terms=terms, seed=3)
    assert report.charges == 1
    assert report.pairs == 4


def test_the_kit_finds_a_person_without_a_cap():
    made = settings(asking=AskEverything(), window=MiniBatch(20))
    terms = stream_terms(BUDGET, **made.paid)
    with pytest.raises(NotPrivate) as found:
        check_neighbours(streamed(made, persons=Uncapped), data(), null=[(None, None)] * 5, terms=terms, seed=3)
    assert "sensitivity" in {finding.kind for finding in found.value.findings}


# -- the learner


def whose(n, people=40, seed=3):
    return [f"c{number}" for number in np.random.default_rng(seed).integers(people, size=n)]


@pytest.mark.parametrize("window", [MiniBatch(5), SlidingWindow(7), Immediate()])
def test_batches_decide_as_single_records_do(window):
    x, y = records(n=400)
    persons = whose(400)
    made = StreamSettings(features=4, asking=BERNOULLI, noise=GAMMA, window=window, person_records=MOST)
    one, many, late = (StreamLearner.simulated(made, seed=4) for _ in range(3))
    bits = []
    for row, code, person in zip(x, y.tolist(), persons, strict=True):
        bits.append(one.ask(row, person=person))
        if bits[-1]:
            one.learn_one(row, code)
    parts = [slice(start, start + 57) for start in range(0, 400, 57)]
    found = np.concatenate([many.ask_and_learn_many(x[part], y[part], persons=persons[part]) for part in parts])
    assert found.tolist() == bits
    assert plain(one.state()) | {"waiting": None} == plain(many.state()) | {"waiting": None}
    asked = late.ask_many(x[:100], persons=persons[:100])
    assert late.learn_many(x[:100][asked], y[:100][asked]) == asked.sum()
    assert max(many.live_state.persons.counts.values()) == MOST


def test_a_state_goes_on_with_its_persons():
    x, y = records(n=200)
    persons = whose(200)
    whole = StreamLearner.simulated(settings(features=4), seed=4)
    bits = whole.ask_and_learn_many(x, y, persons=persons)
    part = StreamLearner.simulated(settings(features=4), seed=4)
    first = part.ask_and_learn_many(x[:90], y[:90], persons=persons[:90])
    again = StreamLearner.simulated(part.settings, seed=4, state=part.state())
    rest = again.ask_and_learn_many(x[90:], y[90:], persons=persons[90:])
    assert [*first, *rest] == bits.tolist()
    assert plain(again.state()) == plain(whole.state())


def test_a_person_is_said_where_persons_are_protected_and_only_there():
    made = StreamLearner.simulated(settings(), seed=1)
    for wrong in (None, "", 7):
        with pytest.raises(BadInput, match="whose it is"):
            made.ask([0.1, 0.2], person=wrong)
    with pytest.raises(BadInput, match="whose it is"):
        made.ask_many([[0.1, 0.2]])
    with pytest.raises(BadInput, match="not one for each"):
        made.ask_many([[0.1, 0.2]], persons=["a", "b"])
    with pytest.raises(BadInput):
        made.ask([0.1, 0.2, 0.3], person="a")
    assert made.live_state.persons.counts == {}
    assert made.arrived == 0
    other = StreamLearner.simulated(StreamSettings(features=2, asking=BERNOULLI, noise=GAMMA), seed=1)
    with pytest.raises(BadInput, match="protects records"):
        other.ask([0.1, 0.2], person="a")
    with pytest.raises(BadInput, match="protects records"):
        other.ask_many([[0.1, 0.2]], persons=["a"])


# -- the service

PERSONS = [
    ("[budget]   ", '[budget]\nunit = "person"\nrecords = 3 '),
    ("[records]   ", '[records]\nperson = "customer" '),
]
PERSONS += [('asked = "1"', 'asked = "0.25"'), ("low = 0.3", "low = 0.3")]


def persons_in(place, text=SEEDED, *changes):
    return config_in(place, text, *PERSONS, *changes)


def of(number, people=15):
    return record(number, customer=f"customer-{number * 7 % people}")


@pytest.mark.parametrize("text", [SEEDED, TEXT], ids=["simulation", "production"])
def test_a_stream_for_persons_is_verified_and_goes_on_with_its_counts(tmp_path, text):
    config = persons_in(tmp_path, text)
    decided = []
    for start in range(0, 90, 30):
        with StreamService(config) as service:
            decided += taken(service, [of(number) for number in range(start, start + 30)], batch=11)
            taken(service, [label(number) for number in range(start, start + 30)])
            codes = [service.parts.key.person(f"customer-{number}") for number in range(15)]
            assert set(service.store.persons(codes).values()) == {min(3, (start + 30) // 15)}
    assert len(decided) == 90
    with StreamService(config) as service:
        assert certify(service.parts.ledger)["budget"]["unit"] == "person"
        assert taken(service, [of(number) for number in range(90)]) == decided  # what comes again counts not
        kept = service.store.open_questions()
        taken(service, [of(number) for number in range(200, 400)])
        new = [one for one in service.store.open_questions() if one not in kept]
        assert new
        assert all(one[2] is None for one in new)  # beyond the cap
    assert verify_stream(config).ok
    data = b"".join(path.read_bytes() for path in (tmp_path / "payments.stream").rglob("*") if path.is_file())
    assert b"customer-14" not in data  # persons stand there by keyed codes


def test_batches_change_nothing(tmp_path):
    ends = []
    for batch in (1, 7, 1000):
        with StreamService(persons_in(tmp_path / str(batch))) as service:
            forms = [form for number in range(80) for form in (of(number), label(number))]
            ends.append((taken(service, forms, batch=batch), *state_of(service), service.counts()))
    assert ends[0] == ends[1] == ends[2]


@pytest.mark.parametrize("customer", [None, "", 7, "x" * 1001, "a\nb", ["c1"]])
def test_a_record_without_its_person_is_no_line_of_ours(tmp_path, customer):
    from discreet.stream.lines import Malformed

    with StreamService(persons_in(tmp_path)) as service, pytest.raises(Malformed, match="person is missing"):
        taken(service, [record(1, customer=customer)])
    with StreamService(persons_in(tmp_path)) as service:
        taken(service, [label(1)])  # a label needs none


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (TEXT.replace("[budget]   ", '[budget]\nunit = "person" '), "a person's price grows"),
        (TEXT.replace("[budget]   ", '[budget]\nunit = "person"\nrecords = 3 '), "whose a record is"),
        (TEXT.replace("[budget]   ", "[budget]\nrecords = 3 "), "it is for the unit person"),
        (TEXT.replace("[records]   ", '[records]\nperson = "customer" '), "as many times as much"),
        (TEXT.replace("[records]   ", '[records]\nperson = "hour" '), "a feature has this name"),
    ],
)
def test_files_that_contradict_themselves_are_refused_at_the_line(tmp_path, text, match):
    with pytest.raises(InvalidConfig, match=match):
        config_in(tmp_path, text)


def test_the_cap_cannot_change_under_way(tmp_path):
    StreamService(persons_in(tmp_path)).close()
    with pytest.raises(InvalidConfig, match="nothing of this can change"):
        StreamService(persons_in(tmp_path, SEEDED, ("records = 3 ", "records = 2 ")))


def test_what_a_file_leaves_open_is_divided_among_a_persons_records(tmp_path):
    config = persons_in(tmp_path, SEEDED, ("low = 0.3", ""), ('asked = "0.25"', ""))
    with StreamService(config) as service:
        asking = service.learner.settings.asking
        assert asking.price().asked == asking.price().missed
        assert float(asking.price().asked) == pytest.approx(2 / 6)
        assert float(certify(service.parts.ledger)["claim"]["epsilon"]) == pytest.approx(2, abs=1e-6)
