"""One private batch: the density of what is released, by hand; both directions; planted mistakes are caught.

The minimum w for a linear term b is where b = -S w - sum slope(<w, yx>) yx. So the density of w is that of b there
times the determinant of S I + sum bend yx yx', and the loss of one record is known without sampling.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.errors import BadInput, BudgetExceeded, ReceiptRefused
from discreet.noise import OperatingSystem, Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.certificate import certify
from discreet.privacy.events import Pure
from discreet.privacy.ledger import Ledger, MemorySink, adaptive, committed
from discreet.testing.neighbours import AMPLE
from discreet.testing.noise import SURELY, ks_pvalue
from discreet_research.bench.objective_perturbation import ObjectivePerturbation, huber_hinge, logistic
from discreet_research.bench.stream_baselines import signed_rows

pytestmark = pytest.mark.thorough

LOSSES = [huber_hinge(), huber_hinge(0.1), logistic()]


def tilt_at(made, signed, w):
    """b for which w is the minimum."""
    return -(made.strength * w + signed.T @ made.loss.slope(signed @ w))


def log_density(made, signed, w, beta=None):
    """But for a constant that is the same for all records."""
    hessian = made.strength * np.eye(made.features) + signed.T @ (signed * made.loss.bend(signed @ w)[:, None])
    rate = made.beta if beta is None else beta
    return -rate * np.linalg.norm(tilt_at(made, signed, w)) + np.linalg.slogdet(hessian)[1]


def losses_of(made, signed, place, points, beta=None):
    """log density with the record, less that with its null, at each point."""
    null = signed.copy()
    null[place] = 0.0
    return np.array([log_density(made, signed, w, beta) - log_density(made, null, w, beta) for w in points])


def random_rows(chance, n, d, radius):
    rows = chance.normal(size=(n, d))
    lengths = np.where(chance.random((n, 1)) < 0.7, 1.0, chance.random((n, 1)))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * radius * lengths


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("radius", [1.0, 0.5, 3.0])
def test_no_output_tells_more_than_epsilon_in_either_direction(loss, radius):
    chance = np.random.default_rng(1)
    for number in range(12):
        n, d = int(chance.integers(1, 5)), int(chance.integers(1, 4))
        made = ObjectivePerturbation(
            features=d,
            records=n,
            epsilon=["0.3", "1", "4"][number % 3],
            regularization=10.0 ** chance.integers(-3, 2),
            radius=radius,
            loss=loss,
        )
        signed = random_rows(chance, n, d, radius)
        points = chance.normal(size=(400, d)) * 10.0 ** chance.uniform(-2, 2, (400, 1)) / radius
        found = losses_of(made, signed, 0, points)
        most = float(made.objective_event.epsilon)
        assert found.max() <= most + 1e-9
        assert -found.min() <= made.beta * radius + 1e-9 < most


def worst(epsilon="1", strength=4.0):
    """One record of length 1 in one dimension: at w just above 1/2 its slope is -1 and its bend is whole."""
    made = ObjectivePerturbation(features=1, records=1, epsilon=epsilon, regularization=strength)
    return made, np.array([[1.0]]), np.array([[0.5 + 1e-9]])


def test_the_claim_is_tight():
    made, signed, point = worst()
    most = float(made.objective_event.epsilon)
    assert losses_of(made, signed, 0, point)[0] == pytest.approx(most, abs=1e-6)
    backward = losses_of(made, signed, 0, np.array([[-3.0]]))[0]  # no bend there, and the slope points the other way
    assert backward == pytest.approx(-made.beta, abs=1e-9)


@pytest.mark.parametrize(
    ("beta", "mistake"),
    [
        (lambda made: float(made.objective_event.epsilon) / made.radius, "the determinant is forgotten"),
        (lambda made: 2 * made.beta, "noise is halved"),
        (
            lambda made: float(made.objective_event.epsilon) - math.log1p(made.loss.curvature / (2 * made.strength)),
            "curvature is halved",
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_planted_mistakes_are_seen(beta, mistake):
    made, signed, point = worst()
    assert losses_of(made, signed, 0, point, beta(made))[0] > float(made.epsilon) + 0.05, mistake


def test_a_weak_regularization_is_raised_by_public_numbers():
    made = ObjectivePerturbation(features=3, records=100, epsilon=1, regularization=1e-9)
    assert made.strength > 1e-7
    assert made.beta == pytest.approx(float(made.objective_event.epsilon) / 2, rel=1e-6)
    strong = ObjectivePerturbation(features=3, records=100, epsilon=1, regularization=0.5)
    assert strong.strength == 50.0


def exact_minimum(made, signed, tilt):
    """In one dimension, with Huber's hinge: the gradient is made of straight pieces, and fractions are exact."""
    strength, b, h = Fraction(made.strength), Fraction(float(tilt)), Fraction(1, 2)
    rows = [Fraction(float(x)) for x in signed[:, 0]]

    def gradient(w):
        return strength * w + b + sum(x * max(Fraction(-1), min(Fraction(0), (x * w - 1 - h) / (2 * h))) for x in rows)

    corners = sorted({(1 + sign * h) / x for x in rows if x for sign in (-1, 1)})
    ends = [Fraction(-(10**9)), *corners, Fraction(10**9)]
    for low, high in itertools.pairwise(ends):
        if gradient(low) <= 0 <= gradient(high):
            rise = gradient(high) - gradient(low)
            return low - gradient(low) * (high - low) / rise
    raise AssertionError("a gradient that rises has a zero")


def test_what_is_found_is_as_near_to_the_minimum_as_the_last_noise_pays_for():
    chance = np.random.default_rng(4)
    for regularization in (1e-3, 1e-1, 10.0):
        made = ObjectivePerturbation(features=1, records=6, epsilon=1, regularization=regularization)
        for _ in range(20):
            signed = random_rows(chance, 6, 1, 1.0)
            tilt = chance.normal(size=1) * 10.0 ** chance.uniform(-3, 2)
            found = Fraction(float(made._minimum(signed, tilt)[0]))
            apart = abs(found - exact_minimum(made, signed, tilt[0]))
            assert apart <= Fraction(made.nearness)
            assert abs(found) <= Fraction(made.farthest)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_in_many_dimensions_the_gradient_is_nothing_but_rounding(loss):
    chance = np.random.default_rng(5)
    made = ObjectivePerturbation(features=30, records=400, epsilon=1, regularization=1e-3, loss=loss)
    signed = random_rows(chance, 400, 30, 1.0)
    tilt = chance.normal(size=30) * 20
    w = made._minimum(signed, tilt)
    wide = np.longdouble
    slope = signed.astype(wide).T @ loss.slope(signed.astype(wide) @ w.astype(wide))
    gradient = slope + wide(made.strength) * w + tilt
    assert np.linalg.norm(gradient.astype(float)) / made.strength <= made.nearness
    assert made.nearness < 1e-6


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize(("epsilon", "regularization"), [("0.001", 1e-12), ("1", 1e-6), ("1000", 1e-5), ("1000", 1e3)])
def test_the_minimum_is_found_in_a_few_steps_however_strange_the_settings(loss, epsilon, regularization, monkeypatch):
    steps = []
    newton = ObjectivePerturbation._newton

    def counted(self, *given):
        steps.append(1)
        assert len(steps) < 200, "it does not settle"
        return newton(self, *given)

    monkeypatch.setattr(ObjectivePerturbation, "_newton", counted)
    chance = np.random.default_rng(8)
    for radius, length in ((1e-3, 0.0), (1.0, 1.0), (1e3, 80.0)):
        settings = {"features": 10, "records": 300, "epsilon": epsilon, "radius": radius, "loss": loss}
        made = ObjectivePerturbation(regularization=max(regularization * radius**2, 1e-12), **settings)
        signed = random_rows(chance, 300, 10, radius)
        signed[:100] = signed[0]
        tilt = chance.normal(size=10)
        w = made._minimum(signed, tilt / np.linalg.norm(tilt) * length * 10 / made.beta)
        assert np.linalg.norm(w) <= made.farthest
        steps.clear()


def test_a_lambda_so_weak_that_floats_do_not_find_the_minimum_is_refused():
    with pytest.raises(BadInput, match="Give lambda of at least 1e-08"):
        ObjectivePerturbation(features=2, records=50, epsilon=1000, regularization=1e-10)


# -- the program itself


def trained(made, rows, labels, source):
    ledger = Ledger.create(MemorySink(), made.terms(), source=source)
    return made.train(rows, labels, receipts=made.charge(ledger))


def test_what_is_released_has_the_density_of_the_proof():
    """1,500 models of one tiny batch, against the integral of the density; noise that is halved is seen."""
    made = ObjectivePerturbation(features=1, records=2, epsilon="1.5", regularization=0.6)
    rows, labels = np.array([[1.0], [0.8]]), np.array([1, -1])
    ledger = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(11))
    drawn = [made.train(rows, labels, receipts=made.charge(ledger)).weights[0] for _ in range(1500)]
    signed = signed_rows(rows, labels, records=2, features=1, radius=1.0)
    grid = np.linspace(-25, 25, 20_001)

    def cdf_at(rate):
        density = np.exp([log_density(made, signed, np.array([w]), rate) for w in grid])
        whole = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
        return lambda w: np.interp(w, grid, whole / whole[-1])

    assert ks_pvalue(drawn, cdf_at(made.beta)) > SURELY
    assert ks_pvalue(drawn, cdf_at(made.beta * 2)) < SURELY
    assert ks_pvalue(drawn, cdf_at(made.beta / 2)) < SURELY


def test_it_learns_and_says_what_it_claims():
    chance = np.random.default_rng(0)
    way = chance.normal(size=5)
    rows = random_rows(chance, 3000, 5, 1.0)
    labels = np.where(rows @ way > 0, 1, -1)
    made = ObjectivePerturbation(features=5, records=3000, epsilon=1, regularization=0.01)
    model = trained(made, rows, labels, Seeded(3))
    assert np.mean(model.predict_many(rows) != labels) < 0.1
    assert model.private
    assert model.simulation
    assert "epsilon 1, delta 0, zero-out, of 3000 slots" in repr(model)
    assert not trained(made, rows, labels, OperatingSystem()).simulation


def test_records_without_labels_and_broken_ones_are_nulls():
    rows, labels = np.array([[1.0, 0.0], [np.nan, 1.0], [0.0, 9.0], [0.5, 0.5]]), [1, 1, -1, 0]
    signed = signed_rows(rows, labels, records=6, features=2, radius=2.0)
    assert signed[[1, 3, 4, 5]].tolist() == [[0.0, 0.0]] * 4
    assert signed[2] == pytest.approx([0.0, -2.0])
    made = ObjectivePerturbation(features=2, records=6, epsilon=1, regularization=0.1)
    full, empty = (trained(made, part, part_labels, Seeded(1)).weights for part, part_labels in _same(rows, labels))
    assert full.tobytes() == empty.tobytes()


def _same(rows, labels):
    kept = np.where(np.isfinite(rows), rows, 0.0) * (np.abs(labels) == 1)[:, None]
    kept[1] = 0.0
    return (rows, labels), (np.concatenate([kept, np.zeros((2, 2))]), [*labels[:3], 1, 1, 1])


def test_it_is_charged_before_it_draws_and_once():
    made = ObjectivePerturbation(features=2, records=4, epsilon="0.5", regularization=0.1)
    ledger = Ledger.create(MemorySink(), made.terms(), source=Seeded(0))
    assert certify(ledger)["claim"] == {"epsilon": 0.5, "delta": 0, "trajectory": "everyone"}
    receipts = made.charge(ledger)
    made.train(np.zeros((4, 2)), np.zeros(4), receipts=receipts)
    with pytest.raises(ReceiptRefused):
        made.train(np.zeros((4, 2)), np.zeros(4), receipts=receipts)
    with pytest.raises(BudgetExceeded):
        made.charge(ledger)
    dear = ObjectivePerturbation(features=2, records=4, epsilon="0.6", regularization=0.1)
    with pytest.raises(BudgetExceeded):
        dear.charge(Ledger.create(MemorySink(), made.terms(), source=Seeded(0)))


def test_receipts_of_another_epsilon_are_refused():
    """Noise scales with what was charged: a receipt of less or more would not be what the constants say."""
    made = ObjectivePerturbation(features=2, records=4, epsilon="0.5", regularization=0.1)
    ledger = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(0))
    other = [ledger.charge(event=Pure(epsilon=9), who="batch", why="other") for _ in range(2)]
    with pytest.raises(ReceiptRefused, match="charged"):
        made.train(np.zeros((4, 2)), np.zeros(4), receipts=tuple(other))


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0},
        {"epsilon": "1e-9"},
        {"features": 0},
        {"records": 2.0},
        {"regularization": 0.0},
        {"regularization": math.nan},
        {"radius": -1.0},
    ],
)
def test_settings_that_mean_nothing_are_refused(options):
    with pytest.raises(BadInput):
        ObjectivePerturbation(**({"features": 2, "records": 5, "epsilon": 1, "regularization": 0.1} | options))


def test_a_batch_that_does_not_fit_its_slots_is_refused():
    made = ObjectivePerturbation(features=2, records=2, epsilon=1, regularization=0.1)
    for rows, labels in ((np.ones((3, 2)), [1, 1, 1]), (np.ones((2, 3)), [1, 1]), (np.ones((2, 2)), [1])):
        with pytest.raises(BadInput, match="at most 2 rows of 2 numbers"):
            trained(made, rows, labels, Seeded(0))


def test_terms_are_pure():
    made = ObjectivePerturbation(features=2, records=2, epsilon=2, regularization=0.1)
    assert made.terms() == committed(Budget(epsilon=2, delta=0), made.terms().lines)
    assert sum(line.event.epsilon for line in made.terms().lines) == 2
    with pytest.raises(BadInput, match="width"):
        huber_hinge(0.0)
