"""NearPrivate: one record changes one count by one, and is seen if it does more; noise of the size that was charged."""

import numpy as np
import pytest

from discreet.components import ROWS
from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import RecordingSource, Seeded
from discreet.privacy.events import DiscreteLaplace, Gaussian
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.selectors import NearPrivate, charge_selection
from discreet.selectors import near_private as room
from discreet.selectors.near_private import coordinates, nearest, whole_components
from discreet.testing.neighbours import AMPLE, NotPrivate, check_neighbours
from discreet.testing.noise import SURELY, chi_square_pvalue, discrete_laplace_pmf

pytestmark = pytest.mark.thorough

PUBLIC, PRIVATE, WIDTH = 80, 60, 6
IDS = [f"p{number}" for number in range(PUBLIC)]
CHANCE = np.random.default_rng(4)
ROWS_PUBLIC = CHANCE.normal(size=(PUBLIC, WIDTH))
SCORES_PUBLIC = np.linspace(0.1, 0.9, PUBLIC)
SELECTOR = NearPrivate(support_epsilon="0.5", noise_multiplier=4.0, uncertain=40, components=3, norm=2.0)


def private_table(seed=0):
    """A row a record: its score, then its embedding. A null is all zeros."""
    chance = np.random.default_rng(seed)
    return np.hstack([chance.random((PRIVATE, 1)), chance.normal(size=(PRIVATE, WIDTH))])


def charged(ledger, selector=SELECTOR):
    return charge_selection(ledger, selector, k=8, pool_size=PUBLIC, who="private", why="near private")


def supported(table, ledger, selector=SELECTOR, embed=lambda rows: rows):
    found = selector.support(
        ids=IDS,
        scores=SCORES_PUBLIC,
        k=8,
        receipt=charged(ledger, selector),
        embeddings=ROWS_PUBLIC,
        private_scores=table[:, 0],
        private_embeddings=embed(table[:, 1:]),
    )
    return found.ids, found.counts, found.threshold, found.norm


def selected(table, ledger):
    return SELECTOR.select(
        ids=IDS,
        scores=SCORES_PUBLIC,
        k=8,
        receipt=charged(ledger),
        embeddings=ROWS_PUBLIC,
        private_scores=table[:, 0],
        private_embeddings=table[:, 1:],
    ).ids


def ample(seed=0, source=None):
    return Ledger.create(MemorySink(), adaptive(AMPLE), source=source or Seeded(seed))


# -- the replay kit, through all of it


def strange():
    table = private_table()
    table[0, 1:] = 1e12
    table[1, 3] = np.nan
    table[2, 0] = np.nan
    table[3, 0] = np.inf
    return table


@pytest.mark.parametrize("released", [supported, selected])
def test_neighbours_differ_by_one_count(released):
    report = check_neighbours(released, strange(), null=np.zeros(1 + WIDTH), most=PRIVATE)
    assert (report.pairs, report.charges) == (PRIVATE, 2)


def test_a_norm_from_public_records_is_free():
    free = NearPrivate(support_epsilon="0.5", noise_multiplier=4.0, uncertain=40, components=3)

    def released(table, ledger):
        return supported(table, ledger, free)

    assert check_neighbours(released, strange(), null=np.zeros(1 + WIDTH)).releases == 2


def top_k_form(table, ledger, k=20):
    """The paper's Algorithm 2: the k most uncertain *private* records count. One in pushes another out."""
    scores = table[:, 0].copy()
    kept = np.argsort(-np.nan_to_num(scores, nan=-1.0), kind="stable")[:k]
    own = np.zeros(len(scores))
    own[kept] = 1.0  # they count, whatever the threshold is
    changed = table.copy()
    changed[:, 0] = own
    return supported(changed, ledger)


def test_the_papers_top_k_of_private_records_has_sensitivity_two():
    table = private_table(seed=3)
    with pytest.raises(NotPrivate, match="sensitivity") as caught:
        check_neighbours(top_k_form, table, null=np.zeros(1 + WIDTH), most=PRIVATE)
    assert {finding.kind for finding in caught.value.findings} == {"sensitivity"}


def test_how_far_each_form_moves_the_counts():
    """Exactly: over all records, at most 1 by the public threshold, and 2 by the paper's form."""
    table = private_table(seed=3)
    ours, papers = [], []
    for mechanism, moved in ((supported, ours), (top_k_form, papers)):
        first = before_noise(mechanism, table)
        for place in range(PRIVATE):
            other = table.copy()
            other[place] = 0.0
            moved.append(np.abs(before_noise(mechanism, other) - first).sum())
    assert max(ours) == 1
    assert max(papers) == 2


def before_noise(mechanism, table):
    """The counts that noise is added to, with the components frozen to what they are without records."""
    with pytest.MonkeyPatch().context() as patch:
        axes = np.eye(3, WIDTH)
        patch.setattr(room, "private_components", frozen(axes))
        source = RecordingSource(Seeded(0))
        mechanism(table, ample(source=source))
    return next(call.inputs for call, _ in source.tape.calls if call.mechanism == "discrete-laplace")


def frozen(axes):
    def made(rows, *, count, norm, receipt):
        from discreet.components import PaidComponents

        return PaidComponents(components=axes, spectrum=np.ones(3), norm=norm, noise_multiplier=4.0, simulation=True)

    return made


# -- planted mistakes


def planted(name, value):
    def released(table, ledger):
        with pytest.MonkeyPatch().context() as patch:
            patch.setattr(room, name, value)
            return supported(table, ledger)

    return released


def a_private_norm(table, ledger):
    norm = float(np.linalg.norm(np.nan_to_num(table[:, 1:]), axis=1).max()) or 1.0
    return supported(table, ledger, NearPrivate(support_epsilon="0.5", noise_multiplier=4.0, uncertain=40, norm=norm))


def a_private_threshold(table, ledger):
    limit = np.sort(table[:, 0])[-20]
    changed = table.copy()
    changed[:, 0] = np.where(table[:, 0] >= limit, 1.0, 0.0)
    return supported(changed, ledger)


def centered_by_the_private_mean(table, ledger):
    return supported(table, ledger, embed=lambda rows: rows - rows.mean(axis=0))


def two_votes_each(points, rows, counted, components, norm):
    return 2 * room_counts(points, rows, counted, components, norm)


room_counts = room.counts_near
PLANTS = {
    "counts without noise": (planted("discrete_laplace", lambda counts, receipt: counts), "output"),
    "two votes each": (planted("counts_near", two_votes_each), "sensitivity"),
    "a norm of private records": (a_private_norm, "parameter"),
    "a threshold of private records": (a_private_threshold, "sensitivity"),
    "centered by the private mean": (centered_by_the_private_mean, "sensitivity"),
    "components without noise": (
        planted(
            "private_components",
            lambda rows, **options: frozen(np.linalg.eigh(rows.T @ rows)[1][:3])(rows, **options),
        ),
        "sensitivity",
    ),
}


@pytest.mark.parametrize("name", PLANTS)
def test_planted_mistakes_are_caught(name):
    released, kind = PLANTS[name]
    most = PRIVATE if name == "a norm of private records" else 16  # the longest one alone moves that
    with pytest.raises(NotPrivate) as caught:
        check_neighbours(released, private_table(seed=3), null=np.zeros(1 + WIDTH), most=most)
    assert kind in {finding.kind for finding in caught.value.findings}


# -- whole coordinates


def test_a_nearest_neighbour_does_not_depend_on_the_other_rows():
    """Bit for bit, alone, among others and in any order; points on a grid make ties."""
    chance = np.random.default_rng(0)
    axes = whole_components(np.linalg.qr(chance.normal(size=(64, 16)))[0].T.copy())
    rows = chance.normal(size=(3000, 64)).round(1)
    points = coordinates(chance.normal(size=(5000, 64)).round(1), axes, 4.0)
    among = nearest(coordinates(rows, axes, 4.0), points)
    order = chance.permutation(3000)
    assert np.array_equal(nearest(coordinates(rows[order], axes, 4.0), points), among[order])
    for place in range(0, 3000, 300):
        alone = coordinates(rows[place : place + 1], axes, 4.0)
        assert np.array_equal(alone[0], coordinates(rows, axes, 4.0)[place])
        assert nearest(alone, points)[0] == among[place]


def test_whole_numbers_are_exact_and_the_nearest_is_the_true_one():
    chance = np.random.default_rng(1)
    axes = whole_components(np.linalg.qr(chance.normal(size=(512, 64)))[0].T.copy())
    long = chance.normal(size=(300, 512)) * 50  # all on the edge of the ball
    queries, points = coordinates(long[:100], axes, 1.0), coordinates(long[100:], axes, 1.0)
    assert np.array_equal(queries, np.trunc(queries))
    exact = [[int(one) for one in row] for row in queries[:20]], [[int(one) for one in row] for row in points]
    found = nearest(queries, points)
    for place, row in enumerate(exact[0]):
        squares = [sum((a - b) ** 2 for a, b in zip(row, other, strict=True)) for other in exact[1]]
        assert found[place] == squares.index(min(squares))
    assert np.linalg.norm(queries, axis=1).max() <= 1.001 * 2**24


def test_floating_point_is_why():
    """Planted: plain products. A row's coordinates then depend on the rows beside it."""
    chance = np.random.default_rng(0)
    rows, axes = chance.normal(size=(4096, 512)), np.linalg.qr(chance.normal(size=(512, 32)))[0]
    whole = rows @ axes
    differs = any(not np.array_equal(rows[place : place + 1] @ axes, whole[place : place + 1]) for place in range(64))
    exact = whole_components(np.ascontiguousarray(axes.T))
    inside = coordinates(rows, exact, 30.0)
    assert differs
    assert all(np.array_equal(coordinates(rows[p : p + 1], exact, 30.0)[0], inside[p]) for p in range(64))


def test_memory_holds_one_piece_of_private_records():
    class Lazy:
        shape = (3 * ROWS, WIDTH)
        longest = 0

        def __getitem__(self, key):
            size = len(range(self.shape[0])[key])
            Lazy.longest = max(Lazy.longest, size)
            return np.random.default_rng(0).normal(size=(size, WIDTH))

    SELECTOR.support(
        ids=IDS,
        scores=SCORES_PUBLIC,
        k=8,
        receipt=charged(ample()),
        embeddings=ROWS_PUBLIC,
        private_scores=np.ones(3 * ROWS),
        private_embeddings=Lazy(),
    )
    assert Lazy.longest <= ROWS


# -- what is drawn


def test_counts_have_the_noise_that_was_charged():
    """Of no records at all the counts are noise; a scale ten percent off is rejected."""
    names = [f"p{number}" for number in range(60_000)]
    rows = np.random.default_rng(0).normal(size=(60_000, 2))
    selector = NearPrivate(support_epsilon="0.5", noise_multiplier=4.0, uncertain=60_000, components=1, norm=1.0)
    ledger = ample(seed=11)
    found = selector.support(
        ids=names,
        scores=np.ones(60_000),
        k=8,
        receipt=charge_selection(ledger, selector, k=8, pool_size=60_000, who="private", why="near"),
        embeddings=rows,
        private_scores=np.zeros(10),
        private_embeddings=np.zeros((10, 2)),
    )
    counts = np.array(found.counts)
    assert chi_square_pvalue(counts, discrete_laplace_pmf(0.5)) > SURELY
    assert chi_square_pvalue(counts, discrete_laplace_pmf(0.55)) < SURELY
    assert chi_square_pvalue(counts, discrete_laplace_pmf(0.45)) < SURELY


def test_records_near_a_crowd_are_found():
    chance = np.random.default_rng(2)
    public = np.concatenate([chance.normal(size=(100, 4)), chance.normal(size=(100, 4)) + 8])
    private = chance.normal(size=(20_000, 4)) * 1.0
    selector = NearPrivate(support_epsilon=1, noise_multiplier=5.0, uncertain=200, components=4, norm=20.0)
    ledger = ample()
    found = selector.select(
        ids=[f"p{number}" for number in range(200)],
        scores=np.ones(200),
        k=50,
        receipt=charge_selection(ledger, selector, k=50, pool_size=200, who="private", why="near"),
        embeddings=public,
        private_scores=np.ones(20_000),
        private_embeddings=private,
    )
    assert sum(int(one[1:]) < 100 for one in found.ids) == 50
    assert (found.mechanism, found.simulation, found.threshold) == ("near-private", True, 1.0)


# -- what is refused, before anything is drawn


def test_the_price_is_both_events():
    assert SELECTOR.price(8, PUBLIC) == (Gaussian(noise_multiplier=4.0), DiscreteLaplace(epsilon="0.5"))


@pytest.mark.parametrize(
    "broken",
    [
        {"private_scores": np.ones(3)},
        {"private_scores": ["x"] * PRIVATE},
        {"private_embeddings": np.ones((PRIVATE, WIDTH + 1))},
        {"private_embeddings": None},
        {"embeddings": np.ones((3, WIDTH))},
        {"embeddings": np.full((PUBLIC, WIDTH), np.nan)},
        {"k": 41},
    ],
)
def test_what_does_not_fit_is_refused_and_costs_no_draw(broken):
    table, paid = private_table(), charged(ample())
    given = {
        "ids": IDS,
        "scores": SCORES_PUBLIC,
        "k": 8,
        "receipt": paid,
        "embeddings": ROWS_PUBLIC,
        "private_scores": table[:, 0],
        "private_embeddings": table[:, 1:],
    }
    with pytest.raises(BadInput):
        SELECTOR.support(**(given | broken))
    SELECTOR.support(**given)
    with pytest.raises(ReceiptRefused):
        SELECTOR.support(**given)
    with pytest.raises(BadInput, match="receipts"):
        SELECTOR.support(**(given | {"receipt": paid[0]}))


def test_odd_settings_are_refused():
    for options in ({"norm": -1.0}, {"components": 0}, {"support_epsilon": "much"}):
        with pytest.raises(BadInput):
            NearPrivate(**({"support_epsilon": 1, "noise_multiplier": 1.0} | options))
