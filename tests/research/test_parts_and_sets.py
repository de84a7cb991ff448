"""Parts of experiments, what they cost, parts that are joined; and files of public sets, which may be anything."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest

from discreet.cli.app import run
from discreet.errors import BadInput, StoreUnavailable
from discreet.simulation.results import Store
from discreet.simulation.runner import alone, planned_first
from discreet_research.bench import EXPERIMENTS, Method, Problem
from discreet_research.bench.cases import Case
from discreet_research.bench.embeddings import Embedding, keep_embedding, read_embedding
from discreet_research.bench.parts import part_of, seeds_named, sharing
from discreet_research.bench.problems import pool_of
from discreet_research.bench.sets import digest_of, paths_of, read_set


@pytest.mark.parametrize(
    ("text", "seeds"), [("3", (0, 1, 2)), ("3-4", (3, 4)), ("0,2-3", (0, 2, 3)), ("7,", (7,)), ("1,1", (1,))]
)
def test_seeds_by_count_or_by_name(text, seeds):
    assert seeds_named(text) == seeds


@pytest.mark.parametrize("text", ["0", "", "-1", "4-3", "two", "1-99999", "1e3", "1-2-3", ",", "٣"])
def test_seeds_that_are_none(text):
    if text == "٣":  # a digit, and python reads it
        assert seeds_named(text) == (0, 1, 2)
        return
    with pytest.raises(BadInput, match="names no seeds"):
        seeds_named(text)


def test_a_part_is_some_problems_methods_and_seeds():
    experiment = EXPERIMENTS["table-1"]
    assert len(part_of(experiment)) == len(experiment.cases())
    mine = part_of(experiment, problems=["CIFAR10, eps 8", "clinc"], methods=["entropy"], seeds="2-3")
    assert {case.problem.name for case in mine} == {"cifar10, eps 8", "clinc150, eps 8"}
    assert len(mine) == 2 * 4 * 2
    assert {case.problem.name for case in part_of(experiment, problems=["cifar10"])} == {
        "cifar10, eps 8",
        "cifar10 20:1, eps 8",
    }
    with pytest.raises(BadInput, match="none has a name like that"):
        part_of(experiment, methods=["entropy", "nothing"])
    everything = part_of(experiment)
    assert len({case.digest for case in everything}) == len(everything)
    assert len(planned_first(everything)) == 6 * 7  # passive, naive, free, Laplace, response, hidden, k-centre


def test_experiments_that_share_cases_know_each_other():
    assert sharing(EXPERIMENTS["table-4"]) == ["headline", "table-1", "table-2", "fig-7", "fig-8"]
    assert sharing(EXPERIMENTS["try-out"]) == []


# -- results

TINY = EXPERIMENTS["try-out"].blocks[0][0][0]


def cases(count):
    return [Case(problem=TINY, method=Method(name="random", mechanism="random"), seed=seed) for seed in range(count)]


def test_parts_are_joined_and_nothing_is_taken_twice(tmp_path):
    one, other = Store(tmp_path / "one", "x"), Store(tmp_path / "other", "y")
    first, second, third = cases(3)
    one.keep(first, [{"phase": 0, "made_of": "a", "test_accuracy": 0.1}])
    for case in (first, second):
        other.keep(case, [{"phase": 0, "made_of": "a", "test_accuracy": 0.9}])
    other.gather()
    assert one.take([other], [first, second, third]) == 1
    assert [row["test_accuracy"] for row in one.rows([first, second, third])] == [0.1, 0.9]  # ours stays
    assert one.take([other], [first, second, third]) == 0


def test_results_of_other_records_are_not_joined(tmp_path):
    one, other = Store(tmp_path / "one", "x"), Store(tmp_path / "other", "x")
    first, second = cases(2)
    one.keep(first, [{"phase": 0, "made_of": "a"}])
    other.keep(second, [{"phase": 0, "made_of": "b"}])
    with pytest.raises(BadInput, match="other files of the data"):
        one.take([other], [second])


def test_two_runs_do_not_write_the_same_results(tmp_path):
    store = Store(tmp_path, "x")
    with alone(store), pytest.raises(StoreUnavailable, match="writing"), alone(store):
        pass


def test_cost_and_join_on_the_command_line(tmp_path, monkeypatch, capsys):
    def quick(case, data, plans=None):
        return [{"phase": 0, "test_accuracy": 0.5, "made_of": "a"}]

    monkeypatch.setattr("discreet_research.bench.campaigns.run_case", quick)
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    part = ["bench", "run", "try-out", "--processes", "1", "--method", "random"]
    assert run([*part, "--results", there, "--seeds", "1-2"]) == 0
    assert run([*part, "--results", here, "--seeds", "1"]) == 0
    capsys.readouterr()
    assert run(["bench", "join", "try-out", "--from", there, "--results", here, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["joined"] == 2
    assert run(["bench", "cost", "try-out", "--results", here, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["total"]["cases"] == 9
    assert told["total"]["done"] == 3
    by_method = {cost["method"]: cost for cost in told["costs"]}
    assert by_method["random"]["done"] == 3
    assert by_method["random"]["measured"]
    assert by_method["exact (not private)"]["gradients"] == by_method["random"]["gradients"] > 10_000
    assert not by_method["exact (not private)"]["measured"]
    assert run(["bench", "join", "try-out", "--from", str(tmp_path / "empty"), "--results", here]) == 2
    assert "no results of try-out" in capsys.readouterr().err


# -- files


def clinc(place, train, test):
    (place / "clinc150").mkdir(exist_ok=True)
    content = json.dumps({"train": train, "test": test, "oos_train": [["?", "oos"]]}).encode()
    (place / "clinc150" / "data_full.json.gz").write_bytes(gzip.compress(content))


def test_texts_have_the_classes_of_their_intents(tmp_path):
    clinc(tmp_path, [["a", "pay"], ["b", "greet"], ["c", "pay"]], [["d", "greet"]])
    raw = read_set("clinc150", tmp_path)
    assert raw.x == ["a", "b", "c"]
    assert raw.y.tolist() == [1, 0, 1]
    assert raw.test_y.tolist() == [0]
    (tmp_path / "banking77").mkdir()
    for part in ("train", "test"):
        (tmp_path / "banking77" / f"{part}.csv").write_text('text,category\n"a, b",x\nc,y\n')
    assert read_set("banking77", tmp_path).x == ["a, b", "c"]


@pytest.mark.parametrize(
    "content",
    [b"", b"nonsense", *(gzip.compress(text, mtime=0) for text in (b"{", b"{}", b'{"train": 3, "test": []}'))],
    ids=["empty", "nonsense", "half", "nothing in it", "other types"],
)
def test_broken_files_are_refused_in_one_line(tmp_path, content):
    (tmp_path / "clinc150").mkdir()
    (tmp_path / "clinc150" / "data_full.json.gz").write_bytes(content)
    with pytest.raises(BadInput, match="not what they should be"):
        read_set("clinc150", tmp_path)


def test_missing_and_strange_data_are_refused(tmp_path):
    with pytest.raises(BadInput, match="nothing says where"):
        read_set("cifar10", None)
    with pytest.raises(BadInput, match=r"cifar10\.npz is not in its directory"):
        read_set("cifar10", tmp_path)
    clinc(tmp_path, [["a", "pay"]], [["d", "unheard of"]])
    with pytest.raises(BadInput, match="not what they should be"):
        read_set("clinc150", tmp_path)
    (tmp_path / "pneumonia-mnist").mkdir()
    pictures, labels = np.zeros((2, 28, 28), np.uint8), np.array([[0], [7]], np.uint8)
    named = {f"{part}_images": pictures for part in ("train", "val", "test")}
    named |= {f"{part}_labels": labels for part in ("train", "val", "test")}
    np.savez(tmp_path / "pneumonia-mnist" / "pneumoniamnist.npz", **named)
    with pytest.raises(BadInput, match="its classes are not 2"):
        read_set("pneumonia-mnist", tmp_path)


def test_vectors_are_those_of_the_files_as_they_are_now(tmp_path):
    clinc(tmp_path, [["a", "pay"], ["b", "greet"]], [["d", "greet"]])
    with pytest.raises(BadInput, match=r"embed\.py clinc150"):
        read_embedding("clinc150", tmp_path)
    made = Embedding(
        data_set="clinc150",
        encoder="minilm-l6-v2",
        weights="w",
        data=digest_of(paths_of("clinc150", tmp_path)),
        prepared={},
    )
    keep_embedding(tmp_path, made, {"train": np.ones((2, 3), np.float32), "test": np.zeros((1, 3), np.float32)})
    found, train, test = read_embedding("clinc150", tmp_path)
    assert (found, train.shape, test.shape) == (made, (2, 3), (1, 3))
    keep_embedding(tmp_path, replace(made, weights="others"), {"train": train, "test": test})
    with pytest.raises(BadInput, match="several"):
        read_embedding("clinc150", tmp_path)
    clinc(tmp_path, [["a", "pay"], ["b", "greet"], ["c", "pay"]], [["d", "greet"]])  # other files
    with pytest.raises(BadInput, match="none of these files"):
        read_embedding("clinc150", tmp_path)


def test_vectors_that_are_not_what_their_name_says_are_refused(tmp_path):
    clinc(tmp_path, [["a", "pay"]], [["d", "pay"]])
    data = digest_of(paths_of("clinc150", tmp_path))
    made = Embedding(data_set="clinc150", encoder="minilm-l6-v2", weights="w", data=data, prepared={})
    place = keep_embedding(tmp_path, made, {"train": np.ones((1, 3)), "test": np.ones((1, 3))})
    form = json.loads((place / "embedding.json").read_text())
    (place / "embedding.json").write_text(json.dumps(form | {"weights": "changed"}))
    with pytest.raises(BadInput, match="not what their name says"):
        read_embedding("clinc150", tmp_path)
    (place / "embedding.json").write_text(json.dumps(form))
    (place / "train.npy").write_bytes(b"cut")
    with pytest.raises(BadInput, match="cannot be read"):
        read_embedding("clinc150", tmp_path)


def test_pictures_stand_as_a_convolution_reads_them():
    problem = Problem(
        name="p",
        data="digits",
        rare=1,
        pool=300,
        initial=20,
        queries=(),
        epsilon="8",
        batch=5,
        epochs=1,
        pictures="images",
        model="small_cnn",
    )
    pool = pool_of(problem, 0, None)
    assert pool.x.shape == (300, 1, 8, 8)
    assert not np.array_equal(pool.y, pool_of(problem, 1, None).y)
    with pytest.raises(BadInput, match="its pool has"):
        pool_of(replace(problem, pool=5000), 0, None)
