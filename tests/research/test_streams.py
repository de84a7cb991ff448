"""Streams in the bench, on tiny files: the paper's preparation, splits that do not meet, tuning, cases, answers."""

import gzip
import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from discreet.cli.app import run
from discreet.errors import BadInput
from discreet.simulation.results import Store
from discreet.simulation.runner import run_cases
from discreet.stream.columns import ChoiceColumn
from discreet_research.bench import EXPERIMENTS
from discreet_research.bench.kdd99 import CHOICES, FILE, LEFT_OUT, NAMES, SCHEMA, TEST_EVERY
from discreet_research.bench.parts import costs_of, part_of
from discreet_research.bench.sets import read_set
from discreet_research.bench.stream_methods import (
    AS_PRINTED,
    BERNOULLI,
    FIG_3,
    KDD,
    KDD_SHORT,
    MNIST,
    MNIST_PAID,
    NOT_PRIVATE,
    ONE_BATCH,
    OURS,
    OURS_FREE,
    papers,
    shrinking,
)
from discreet_research.bench.stream_runs import Part, Run, StreamCase, axis, learned, tuned, tuned_name
from discreet_research.bench.stream_sets import stream_set
from discreet_research.bench.stream_tables import ProblemRows, answer, claim_of, difference, spread_difference

pytestmark = pytest.mark.thorough


def connection(chance, attack):
    """A line of the file; attacks are icmp, and send more."""
    values = dict.fromkeys(NAMES, "0")
    values |= {"protocol_type": "icmp" if attack else "tcp", "service": "ecr_i" if attack else "http", "flag": "SF"}
    values |= {"src_bytes": str(chance.integers(500, 2000) if attack else chance.integers(0, 300)), "dst_bytes": "7"}
    values |= {"count": str(chance.integers(300, 511) if attack else chance.integers(1, 20)), "same_srv_rate": "1.00"}
    return ",".join({**values, "label": "smurf." if attack else "normal."}.values())


def write_kdd(place, count=400):
    chance = np.random.default_rng(0)
    lines = [connection(chance, chance.random() < 0.6) for _ in range(count)]
    (place / "kddcup99").mkdir()
    (place / "kddcup99" / FILE).write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))


def write_mnist(place, train=300, test=80):
    """Zeros are rings and nines are bars, with noise; sevens are not taken."""
    chance = np.random.default_rng(1)
    (place / "mnist").mkdir()
    for part, count in (("train", train), ("t10k", test)):
        labels = chance.choice([0, 7, 9], count).astype(np.uint8)
        pictures = chance.integers(0, 60, (count, 28, 28)).astype(np.uint8)
        pictures[labels == 0, 5:23, 5:8] = 200
        pictures[labels == 9, 5:8, 5:23] = 200
        for kind, values in (("images-idx3", pictures), ("labels-idx1", labels)):
            head = bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
            (place / "mnist" / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + values.tobytes()))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    found = tmp_path_factory.mktemp("public")
    write_kdd(found)
    write_mnist(found)
    return found


SMALL_KDD = replace(KDD, name="small kdd", labels=40, updates=8, marks=(20, 40), arrivals=200, public=100)
SMALL_MNIST = replace(
    MNIST, name="small mnist", components=5, labels=30, updates=6, marks=(30,), arrivals=90, public=60
)


# -- sets


def test_kdd_has_the_papers_120_features():
    assert len(NAMES) == 42
    assert SCHEMA.width == 120
    assert sum(len(values) for values in CHOICES.values()) == 88
    assert not set(LEFT_OUT) & {column.name for column in SCHEMA.columns}


FEATURES = [
    feature
    for column in SCHEMA.columns
    for feature in (
        [f"{column.name}={value}" for value in column.values] if isinstance(column, ChoiceColumn) else [column.name]
    )
]


def test_connections_are_read_by_columns_and_the_test_is_kept_apart(place):
    raw = read_set("kddcup99", place)
    assert (len(raw.x), len(raw.test_x)) == (400 - 400 // TEST_EVERY, 400 // TEST_EVERY)
    rows = raw.x.rows(np.arange(20))
    assert rows.shape == (20, 120)
    icmp = FEATURES.index("protocol_type=icmp")
    assert rows[:, icmp].tolist() == raw.y[:20].tolist()
    assert rows[:, FEATURES.index("land=0")].all()
    assert rows[:, FEATURES.index("src_bytes")].max() > 500


@pytest.mark.parametrize("content", [b"", b"1,2,3\n", b"no gzip"])
def test_broken_connections_are_refused_in_one_line(tmp_path, content):
    (tmp_path / "kddcup99").mkdir()
    packed = content if content == b"no gzip" else gzip.compress(content)
    (tmp_path / "kddcup99" / FILE).write_bytes(packed)
    with pytest.raises(BadInput, match="not what they should be"):
        read_set("kddcup99", tmp_path)


def test_a_service_that_was_not_declared_gives_zeros(place, tmp_path):
    (tmp_path / "kddcup99").mkdir()
    lines = gzip.decompress((place / "kddcup99" / FILE).read_bytes()).decode().replace(",http,", ",unheard_of,")
    (tmp_path / "kddcup99" / FILE).write_bytes(gzip.compress(lines.encode()))
    rows = read_set("kddcup99", tmp_path).x.rows(np.arange(50))
    start = FEATURES.index("service=IRC")
    assert set(rows[:, start : start + 66].sum(axis=1)) == {0.0, 1.0}


@pytest.mark.parametrize("problem", [SMALL_KDD, SMALL_MNIST])
def test_public_records_arrive_in_no_stream(place, problem):
    data = stream_set(problem.data, place, public=problem.public, components=problem.components)
    assert len(data.public_y) == problem.public
    everything = stream_set(problem.data, place, public=problem.public, components=problem.components)
    assert everything is data  # read once
    x, y = data.stream(3, 50)
    again, _ = data.stream(3, 60)
    assert np.array_equal(again[:50], x)
    assert not np.array_equal(data.stream(4, 50)[0], x)
    assert len(y) == 50
    assert set(y.tolist()) == {0, 1}
    assert np.linalg.norm(x, axis=1).max() <= 1
    raw = read_set("kddcup99" if problem is SMALL_KDD else "mnist", place)
    total = len(raw.y) if problem is SMALL_KDD else np.isin(raw.y, (0, 9)).sum()
    assert len(set(data.places.tolist())) + problem.public == total
    assert len(data.last(0, 7)) == 7


def test_digits_are_zeros_and_nines_in_few_numbers(place):
    data = stream_set("mnist-0-9", place, public=60, components=5)
    assert data.test_x.shape[1] == 5
    assert data.preparation.components_origin == "public"
    assert set(data.test_y.tolist()) == {0, 1}
    with pytest.raises(BadInput, match="public records"):
        stream_set("mnist-0-9", place, public=5, components=5)


# -- runs


def separable(n=400, seed=0):
    chance = np.random.default_rng(seed)
    x = chance.normal(size=(n, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = (x[:, 0] > 0).astype(np.int64)
    return Part(x=x[: n // 2], y=y[: n // 2], test_x=x[n // 2 :], test_y=y[n // 2 :])


def test_a_run_counts_what_was_asked_and_errs_less_without_noise():
    problem = replace(SMALL_KDD, labels=60, updates=10)
    quiet = replace(BERNOULLI, update="10000", name="quiet")
    loud = replace(BERNOULLI, update="0.01", name="loud")
    runs = {
        method.name: learned(problem, method, separable(), step=1.0, regularization=0.001, seed=1)
        for method in (quiet, loud)
    }
    for found in runs.values():
        assert found.asked[0] == found.arrived[0] == 0
        assert np.diff(found.asked).tolist() == [5] * (len(found.asked) - 1)
        assert found.asked_by_arrival[found.arrived[-1] - 1] == found.asked[-1]
    assert runs["quiet"].errors[-1] < 0.1 < runs["loud"].errors[-1]


def test_axes_are_read_between_updates_and_not_beyond_the_last():
    found = Run(
        arrived=np.array([0, 9, 20]),
        asked=np.array([0, 4, 8]),
        errors=np.array([0.5, 0.3, 0.1]),
        asked_by_arrival=np.arange(20),
    )
    assert found.error_at_labels([0, 2, 4, 6, 8]).tolist() == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1])
    assert np.isnan(found.error_at_labels([8.1])[0])
    assert found.error_at_updates([0.5, 2]).tolist() == pytest.approx([0.4, 0.1])
    assert axis(40).tolist() == list(range(1, 41))
    assert found.mean_error(replace(SMALL_KDD, labels=16)) == pytest.approx(
        np.mean([*np.interp(axis(16)[:20], [0, 4, 8], [0.5, 0.3, 0.1]), *[0.1] * 20])
    )


@pytest.mark.parametrize("method", [BERNOULLI, shrinking(BERNOULLI), OURS_FREE, ONE_BATCH, NOT_PRIVATE])
def test_a_case_is_the_same_twice_and_has_its_axes(place, tmp_path, method, monkeypatch):
    monkeypatch.setattr("discreet_research.bench.stream_runs.STEPS", (0.3, 1.0))
    monkeypatch.setattr("discreet_research.bench.stream_runs.LAMBDAS", (1e-3,))
    monkeypatch.setattr("discreet_research.bench.stream_runs.BATCH_LAMBDAS", (1e-2, 1e-1))
    monkeypatch.setattr("discreet_research.bench.stream_runs.ORDERS", 2)
    case = StreamCase(problem=SMALL_KDD, method=method, seed=3)
    rows = case.run(place, tmp_path)
    assert case.run(place, tmp_path) == rows
    kinds = {row["axis"] for row in rows}
    if method.kind == "stream":
        assert kinds == {"labels", "updates", "arrivals"}
        assert {20.0, 40.0} <= {row["at"] for row in rows if row["axis"] == "labels"}
        assert all(0 <= row["error"] <= 1 for row in rows if row["error"] is not None)
        assert {row["step"] for row in rows} <= {0.3, 1.0}
    elif method is ONE_BATCH:
        assert [(row["axis"], row["at"]) for row in rows] == [("labels", 20.0), ("labels", 40.0)]
    else:
        assert kinds == {"all"}
        assert rows[0]["error"] < 0.2
    told = case.names()
    assert told["private"] is (method is not NOT_PRIVATE)
    assert (told["epsilon"] is None) is (method is NOT_PRIVATE)
    json.dumps(rows)


def test_tuning_looks_at_the_public_part_alone_and_is_done_once(place, tmp_path, monkeypatch):
    data = stream_set("kdd99", place, public=100, components=0)
    seen = []

    def counted(problem, method, part, *, step, regularization, seed):
        seen.append(part)
        return Run(
            arrived=np.array([0]),
            asked=np.array([0]),
            errors=np.array([abs(step - 0.3) + regularization]),
            asked_by_arrival=np.array([0]),
        )

    monkeypatch.setattr("discreet_research.bench.stream_runs.learned", counted)
    problem = replace(SMALL_KDD, labels=41)
    found = tuned(problem, BERNOULLI, data, tmp_path)
    assert (found.step, found.regularization) == (0.3, (1e-3,))
    public = {row.tobytes() for row in data.public_x}
    for part in seen:
        assert {row.tobytes() for row in (*part.x, *part.test_x)} <= public
        assert len(part.y) + len(part.test_y) == 100
    count = len(seen)
    assert tuned(problem, BERNOULLI, data, tmp_path) == found
    assert len(seen) == count
    (path,) = tmp_path.glob("*.json")
    path.write_text("{")  # broken: made again, from memory
    assert tuned(problem, BERNOULLI, data, tmp_path) == found
    assert tuned_name(problem, BERNOULLI) == tuned_name(problem, replace(BERNOULLI, name="other"))
    assert tuned_name(problem, BERNOULLI) != tuned_name(problem, OURS)


def test_components_are_paid_by_records_that_never_arrive(place, tmp_path, monkeypatch):
    monkeypatch.setattr("discreet_research.bench.stream_runs.STEPS", (1.0,))
    monkeypatch.setattr("discreet_research.bench.stream_runs.ORDERS", 1)
    from discreet.privacy.certificate import certify
    from discreet_research.bench.stream_runs import paid_part

    paid = replace(SMALL_MNIST, name="small paid", arrivals=60, paid=60)
    rows = StreamCase(problem=paid, method=OURS, seed=0).run(place, tmp_path)
    assert {row["axis"] for row in rows} == {"labels", "updates", "arrivals"}
    data = stream_set("mnist-0-9", place, public=60, components=5)
    part, ledger = paid_part(paid, OURS, data, 0)
    assert part.x.shape == (60, 5)
    assert certify(ledger)["claim"]["epsilon"] <= 2
    assert [charge.who for charge in ledger.entries[0].charges] == ["prepared"]
    with pytest.raises(BadInput, match="held-out"):
        paid_part(replace(paid, paid=10_000), OURS, data, 0)
    with pytest.raises(BadInput, match="no delta"):
        paid_part(paid, BERNOULLI, data, 0)


# -- what is claimed


def test_claims_are_what_the_methods_cost():
    from discreet.stream import stream_price

    assert BERNOULLI.zero_out() == Decimal("1.5")
    assert papers("bernoulli", "flmb", relation="zero-out").zero_out() == 2
    assert OURS.zero_out() == 2
    for problems, methods in FIG_3:
        assert problems
        for method in methods:
            if method.kind == "stream":
                price = stream_price(delta=method.delta, asking=method.rule(), noise=method.noise())
                assert price.epsilon <= Decimal("2.000001"), method.name
    assert AS_PRINTED.rule().check(AS_PRINTED.slab(), classes=2, radius=1.0) is None
    with pytest.raises(BadInput, match="it costs 1.171"):  # at the paper's own slab
        AS_PRINTED.rule().check(BERNOULLI.slab(), classes=2, radius=1.0)
    assert (MNIST_PAID.paid + MNIST_PAID.arrivals) <= 7_872
    with pytest.raises(BadInput, match="no such way"):
        replace(BERNOULLI, asking="loudly").rule()


def test_experiments_have_cases_of_their_own_and_a_cost(place, tmp_path):
    assert {name for name in EXPERIMENTS if name.startswith("stream-")} == {
        "stream-fig-2",
        "stream-fig-3",
        "stream-fig-4",
        "stream-fig-5",
        "stream-questions",
    }
    for name in ("stream-fig-3", "stream-questions"):
        cases = EXPERIMENTS[name].cases([0, 1])
        assert len({case.digest for case in cases}) == len(cases)
    some = part_of(EXPERIMENTS["stream-fig-4"], problems=["kdd99"], methods=["of 20"], seeds="2")
    assert {case.problem.name for case in some} == {KDD_SHORT.name}
    assert len(some) == 3 * 2
    costs = costs_of(Store(tmp_path, "stream-fig-4"), some, place)
    assert {cost.gradients for cost in costs} == {200}


# -- answers


def rows_of(method, errors, axis_name="labels", at=20.0):
    common = {"problem": "p", "method": method, "private": True, "epsilon": "2", "delta": "0", "relation": "zero-out"}
    return [
        common | {"seed": seed, "axis": axis_name, "at": at, "error": error, "asked": None, "zero_out_epsilon": 2.0}
        for seed, error in enumerate(errors)
    ]


def test_differences_are_paired_and_answered_by_their_intervals():
    chance = np.random.default_rng(0)
    hard = chance.random(10) * 0.4
    found = ProblemRows("p", (*rows_of("a", hard + 0.05), *rows_of("b", hard), *rows_of("c", hard[::-1])))
    gap = difference(found.errors("a", 20), found.errors("b", 20))
    assert gap.value == pytest.approx(0.05)
    assert answer(gap) == "yes"
    assert answer(difference(found.errors("b", 20), found.errors("a", 20))) == "the opposite"
    assert answer(difference(found.errors("b", 20), found.errors("c", 20))) == "not shown"
    assert answer(difference(found.errors("a", 20), found.errors("nobody", 20))) == "not shown"
    assert found.both("a", "b", "mean") == found.both("a", "b", 20)
    further = ProblemRows("p", (*found.rows, *rows_of("a", hard, at=40.0)))  # b has no such point: it does not count
    assert further.both("a", "b", "mean") == found.both("a", "b", 20)
    assert further.share_asked("a") is None


def test_spread_is_told_apart_from_the_mean():
    chance = np.random.default_rng(2)
    wide, narrow = 0.3 + 0.1 * chance.normal(size=40), 0.4 + 0.01 * chance.normal(size=40)
    as_found = [dict(enumerate(values)) for values in (wide, narrow)]
    assert answer(spread_difference(*as_found)) == "yes"
    assert answer(spread_difference(*reversed(as_found))) == "the opposite"
    assert answer(difference(*as_found)) == "the opposite"
    assert spread_difference({0: 0.1}, {0: 0.2}) is None


def test_claims_in_tables():
    row = {"private": True, "epsilon": "2", "delta": "1e-6", "relation": "zero-out", "zero_out_epsilon": 2.0}
    assert claim_of(row) == "2, 1e-6"
    assert claim_of(row | {"delta": "0"}) == "2"
    assert claim_of(row | {"relation": "replace-one", "zero_out_epsilon": 1.5}) == "2 replace-one (1.5)"
    assert claim_of(row | {"private": False}) == "none"


def made_up(experiment):
    """Rows as cases have them, without running any."""
    chance = np.random.default_rng(5)
    rows = []
    for case in EXPERIMENTS[experiment].cases(range(3)):
        points = [("all", 1.0)] if case.method is NOT_PRIVATE else [("labels", float(at)) for at in case.problem.marks]
        points += [("updates", 7.5), ("arrivals", 1000.0), ("arrivals", 250.0), ("arrivals", 500.0)]
        for name, at in points:
            error = None if name == "arrivals" else float(chance.random())
            asked = float(chance.integers(1, 99)) if name == "arrivals" else None
            rows.append(case.names() | {"axis": name, "at": at, "error": error, "asked": asked})
    return rows


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.startswith("stream-")])
def test_tables_and_charts_are_made_of_rows_alone(name, tmp_path):
    from discreet.simulation.results import draw

    rows = made_up(name)
    tables = EXPERIMENTS[name].tables(rows)
    assert tables
    for table in tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert "nan" not in table.markdown()
    for number, chart in enumerate(EXPERIMENTS[name].charts(rows)):
        draw(chart, tmp_path / f"{number}.png")
    assert EXPERIMENTS[name].charts([]) == []


def test_a_run_from_the_command_line_makes_a_page(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("discreet_research.bench.stream_runs.STEPS", (1.0,))
    monkeypatch.setattr("discreet_research.bench.stream_runs.LAMBDAS", (1e-3,))
    monkeypatch.setattr("discreet_research.bench.stream_runs.ORDERS", 1)
    small = replace(EXPERIMENTS["stream-fig-2"], blocks=(((replace(SMALL_KDD, name="kdd99"),), (BERNOULLI, OURS)),))
    monkeypatch.setitem(EXPERIMENTS, "stream-fig-2", small)
    part = ["--results", str(tmp_path)]
    assert run(["bench", "run", "stream-fig-2", "--data", str(place), "--seeds", "2", "--processes", "1", *part]) == 0
    assert run(["bench", "table", "stream-fig-2", "--charts", str(tmp_path / "charts"), *part]) == 0
    shown = capsys.readouterr().out
    assert "### kdd99: error rates" in shown
    assert BERNOULLI.name in shown
    assert (tmp_path / "charts" / "stream-fig-2.png").exists()


def test_a_run_is_resumed_case_by_case(place, tmp_path, monkeypatch):
    monkeypatch.setattr("discreet_research.bench.stream_runs.STEPS", (1.0,))
    monkeypatch.setattr("discreet_research.bench.stream_runs.LAMBDAS", (1e-3,))
    monkeypatch.setattr("discreet_research.bench.stream_runs.ORDERS", 1)
    store = Store(tmp_path, "trial")
    cases = [StreamCase(problem=SMALL_KDD, method=BERNOULLI, seed=seed) for seed in range(2)]
    assert not run_cases(store, cases[:1], data=place, processes=1, progress=lambda done, of: None)
    first = store.rows(cases[:1])
    assert not run_cases(store, cases, data=place, processes=1, progress=lambda done, of: None)
    assert store.rows(cases[:1]) == first
    assert {row["seed"] for row in store.rows(cases)} == {0, 1}
