"""Public data in the bench, on tiny files: scenes, runs that are kept, prices that are equal, tables."""

import gzip
import struct
from statistics import fmean

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.simulation.results import Store
from discreet.simulation.runner import run_cases
from discreet_research.bench import EXPERIMENTS
from discreet_research.bench.public_cases import PrivateRun, PublicCase, PublicMethod, PublicProblem, Tuning
from discreet_research.bench.public_runs import checkpoints_of, run_name, scene_of, start_of, total
from discreet_research.bench.public_tables import (
    checkpoint_charts,
    checkpoint_tables,
    cluster_charts,
    cluster_tables,
    label_charts,
    label_tables,
)

pytestmark = pytest.mark.thorough

RUN = PrivateRun(epsilon=8.0, batch=40, epochs=3, model="linear")
PROBLEM = PublicProblem(
    name="tiny",
    private=200,
    public=100,
    polluted_by="fashion-mnist",
    pollution=40,
    labels=(20, 40),
    run=RUN,
    tuning=Tuning(epochs=2),
    test=50,
)
CHOICES = ["random", "entropy", "logit-difference", "k-means", "greedy-k-centre", "diverse-public", "near-private"]
PAIR = ("NearPrivate", "random")


def idx(path, array):
    head = bytes([0, 0, 0x08, array.ndim]) + b"".join(struct.pack(">I", size) for size in array.shape)
    path.write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes()))


def pictures(count, seed, row):
    """Digits are bars at a height of their own; the other set's are columns."""
    chance = np.random.default_rng(seed)
    y = chance.integers(0, 10, count)
    x = chance.integers(0, 60, (count, 28, 28))
    for place, one in enumerate(y):
        if row:
            x[place, 2 * one + 3] = 250
        else:
            x[place, :, 2 * one + 3] = 250
    return x, y


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    for name, row in (("mnist", True), ("fashion-mnist", False)):
        (place / name).mkdir()
        for part, count, seed in (("train", 400, 0), ("t10k", 60, 1)):
            x, y = pictures(count, seed, row)
            idx(place / name / f"{part}-images-idx3-ubyte.gz", x)
            idx(place / name / f"{part}-labels-idx1-ubyte.gz", y)
    return place


def method(choice, **options):
    return PublicMethod(name=choice, choice=choice, **({"start": "fits"} if choice == "near-private" else {}) | options)


def test_a_scene_keeps_its_parts_apart(data):
    scene = scene_of(PROBLEM, data, 0)
    assert (len(scene.private_y), len(scene.public_y), len(scene.test_y)) == (200, 140, 50)
    assert scene.polluted.sum() == 40
    assert (scene.public_y[scene.polluted] == -1).all()
    rows = {one.tobytes() for one in scene.private_x}
    assert not rows & {one.tobytes() for one in scene.public_x}
    with pytest.raises(BadInput, match="has 400"):
        scene_of(PublicProblem(name="large", public=300, private=200), data, 0)


def test_a_run_is_made_once_and_kept(data, tmp_path):
    scene = scene_of(PROBLEM, data, 0)
    first = checkpoints_of(PROBLEM, scene, 0, tmp_path)
    assert sorted(first.weights) == [1, 2, 3]
    assert total(first, 3, (), RUN.delta) == pytest.approx(8, rel=2e-3)
    again = checkpoints_of(PROBLEM, scene, 0, tmp_path)
    assert again.step == first.step
    assert again.weights.keys() == first.weights.keys()
    assert len(list(tmp_path.glob(f"{run_name(PROBLEM, 0)}*"))) == 2


def test_looking_starts_from_an_earlier_checkpoint_at_the_same_epsilon(data, tmp_path):
    points = checkpoints_of(PROBLEM, scene_of(PROBLEM, data, 0), 0, tmp_path)
    epochs, looks = start_of(method("near-private"), points, RUN)
    assert epochs < 3
    assert total(points, epochs, looks, RUN.delta) <= 8 < total(points, epochs + 1, looks, RUN.delta)
    _, filled = start_of(method("near-private", start=1, support="fill"), points, RUN)
    assert 7.9 < total(points, 1, filled, RUN.delta) <= 8
    with pytest.raises(BadInput, match="leaves nothing"):
        start_of(method("near-private", start=3, support="fill", noise=1.0), points, RUN)
    with pytest.raises(BadInput, match="no checkpoint"):
        start_of(method("near-private", support="9"), points, RUN)


@pytest.fixture(scope="module")
def rows(data, tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("results"), "tiny")
    cases = [PublicCase(problem=PROBLEM, method=named(one), seed=seed) for seed in range(2) for one in CHOICES]
    assert run_cases(store, cases, data=data, processes=1, progress=lambda *_: None) == []
    assert run_cases(store, cases, data=data, processes=1, progress=lambda *_: None) == []
    return store.rows(cases)


def named(choice):
    names = {"diverse-public": "DiversePublic", "near-private": "NearPrivate"}
    made = method(choice)
    return PublicMethod(name=names.get(choice, choice), choice=made.choice, start=made.start)


def test_every_way_of_choosing_runs_and_is_stored(rows):
    assert len(rows) == 2 * len(CHOICES) * 3
    for row in rows:
        assert row["epsilon"] <= 8
        assert 0 <= row["accuracy"] <= 1
    assert {row["labels"] for row in rows} == {0, 20, 40}


def test_tables_and_charts_are_made_of_rows_alone(rows):
    tables = label_tables(rows)
    assert [table.title.split(": ")[1] for table in tables] == [
        "accuracy by labels",
        "share of labels spent on pollution",
        "who spends less on pollution",
        "who leads",
    ]
    shares = {(line[0], line[1]): line[2] for line in tables[2].rows}
    own, others = ([row["polluted"] for row in rows if row["method"] == name and row["labels"] == 20] for name in PAIR)
    assert shares["NearPrivate below random", "20 labels"].split()[0] == f"{100 * (fmean(others) - fmean(own)):+.1f}"
    for pair in ("NearPrivate over DiversePublic", "NearPrivate over random", "DiversePublic over random"):
        assert any(pair in line[0] for line in tables[3].rows)
    assert all(table.markdown() for table in tables)
    assert label_charts(rows)[0].panels[0].series
    clusters = [row | {"method": "5 of each cluster"} for row in rows if row["method"] == "DiversePublic"]
    assert [line[:3] for line in cluster_tables(clusters)[0].rows] == [("4", "5", "20"), ("8", "5", "40")]
    assert cluster_charts(clusters)[0].panels
    assert checkpoint_tables([row for row in rows if row["method"] == "NearPrivate"])[0].rows
    assert len(checkpoint_charts(rows)[0].panels) == 2


def test_the_experiments_are_those_of_the_paper():
    shapes = {name: len(EXPERIMENTS[name].cases()) for name in EXPERIMENTS if name.startswith("public-")}
    assert shapes == {
        "public-try-out": 14,
        "public-labels": 35,
        "public-pollution": 70,
        "public-clusters": 15,
        "public-checkpoints": 55,
    }
    digests = [case.digest for name in shapes for case in EXPERIMENTS[name].cases()]
    assert len(set(digests)) == len(digests)
