"""The bench of teachers, on a small made-up census: rows, refusals, overlap, tables."""

import gzip
import json

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet_research.bench import EXPERIMENTS, teacher_sets
from discreet_research.bench.teacher_cases import TeacherCase, TeacherMethod, TeacherProblem
from discreet_research.bench.teacher_sets import teacher_set
from discreet_research.bench.teacher_tables import (
    OverlapCase,
    OverlapMethod,
    chosen_cap,
    overlap_tables,
    teacher_charts,
    teacher_tables,
)

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Files in the form of the census, with a rule to learn."""
    directory = tmp_path_factory.mktemp("data")
    (directory / "adult").mkdir()
    rng = np.random.default_rng(0)
    for name, size, end in (("adult.data.gz", 1500, ""), ("adult.test.gz", 400, ".")):
        lines = ["|1x3 Cross validator"] if end else []
        for _ in range(size):
            age, school, hours = rng.integers(17, 80), rng.integers(1, 16), rng.integers(10, 80)
            rich = age / 20 + school / 3 + hours / 20 + rng.normal() > 8.3
            work = "Private" if rich else rng.choice(["Private", "State-gov"])
            row = [age, work, 1000, "HS", school, "Never", "Sales", "Own", "White", "Male", 0, 0, hours, "Here"]
            lines.append(", ".join(map(str, [*row, (">50K" if rich else "<=50K") + end])))
        with gzip.open(directory / "adult" / name, "wt", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n\n")
    return directory


PROBLEM = TeacherProblem(name="small, K=60", data="adult", teachers=60, answers=(60,), unstable=(1, 5))


@pytest.fixture(scope="module")
def rows(place):
    methods = (
        TeacherMethod(
            name="noisy", aggregators=("gaussian",), epsilons=("8",), students=("passive", "margin", "disagreement")
        ),
        TeacherMethod(name="sparse", aggregators=("sparse",), epsilons=("0.5", "8"), students=("passive",)),
    )
    found = []
    for method in methods:
        for seed in (0, 1):
            case = TeacherCase(problem=PROBLEM, method=method, seed=seed)
            found += [{"case": case.digest, **case.names()} | row for row in case.run(place)]
    return found


def test_every_row_says_what_was_asked_and_how_well_it_went(rows):
    paid = [row for row in rows if row.get("epsilon") is not None and row["student"] != "refused"]
    assert {row["student"] for row in paid} == {"passive", "margin", "disagreement"}
    assert all(row["asked"] <= row["cap"] and row["answered"] <= row["asked"] for row in paid)
    assert all(row["accuracy"] > 0.6 for row in paid if row["aggregator"] == "gaussian")
    stable = [row for row in paid if row["aggregator"] == "sparse"]
    assert stable
    assert all(row["as_majority"] in (1.0, None) for row in stable)  # stable winners have no noise
    assert all(len(json.loads(row["places"])) <= row["unstable"] for row in stable)
    free = {row["student"]: row["accuracy"] for row in rows if row["aggregator"] == "not private"}
    assert free["all private data"] > 0.75


def test_too_few_teachers_are_told_how_many_there_should_be(rows):
    refused = [row for row in rows if row["student"] == "refused"]
    assert refused
    assert all(row["needed"] > 60 for row in refused)


def test_tables_and_charts_are_made_of_rows(rows):
    accuracy, margins, *overlap = teacher_tables(rows)
    assert "refused" in accuracy.markdown()
    assert "not private" in accuracy.markdown()
    assert margins.rows[0][0] == "0.000"
    assert all(0 <= float(row[3]) <= 1 for table in overlap for row in table.rows)
    [chart] = teacher_charts(rows)
    assert chart.panels[0].series[0].name == "small, K=60"
    assert teacher_charts([row for row in rows if row["aggregator"] != "margin"]) == []


def test_sets_are_prepared_by_their_public_part_alone(place):
    first, other = teacher_set("adult", place, 0), teacher_set("adult", place, 1)
    assert len(first.public_ids) == 300
    assert len(first.units) == 1200
    assert not set(first.units) & set(first.public_ids)
    assert set(first.public_ids) != set(other.public_ids)
    assert abs(first.public_x[:, 0].mean()) < 1e-9
    assert abs(first.x[:, 0].mean()) > 1e-9
    with pytest.raises(BadInput, match="adult"):
        teacher_set("adult", place / "nowhere", 0)


def test_the_grid_is_the_one_that_was_asked_for():
    cases = EXPERIMENTS["teachers-adult"].cases()
    assert {case.problem.teachers for case in cases} == {25, 100, 250, 700, 1500, 3000}
    assert {epsilon for case in cases for epsilon in case.method.epsilons} == {"0.5", "1", "2", "4", "8"}
    assert len({case.digest for case in cases}) == len(cases) == 72


def test_caps_are_chosen_on_a_seed_that_is_not_shown():
    def row(seed, cap, accuracy):
        return {"seed": seed, "cap": cap, "accuracy": accuracy}

    by_cap = {
        100: [row(0, 100, 0.7), row(1, 100, 0.9), row(2, 100, 0.9)],
        300: [row(0, 300, 0.8), row(1, 300, 0.6), row(2, 300, 0.6)],
        900: [row(0, 900, 0.99)],
    }
    assert chosen_cap(by_cap) == 300  # not what the others would choose, and nothing that only the tuning seed has
    assert chosen_cap({100: [row(1, 100, 0.9)]}) is None


def test_active_questions_with_a_sparse_vector(monkeypatch):
    monkeypatch.setattr(teacher_sets, "_NORMAL", {"private": 3000, "public": 200, "test": 300})
    problem = TeacherProblem(name="normal, K=200", data="normal", teachers=200, answers=(), unstable=())
    method = OverlapMethod(name="both", epsilons=("30",), caps=(40,), sparse=((40, 3), (200, 190)))
    rows = []
    teacher_set.cache_clear()
    for seed in (0, 1):
        case = OverlapCase(problem=problem, method=method, seed=seed)
        rows += [{"case": case.digest, **case.names()} | one for one in case.run(None)]
    teacher_set.cache_clear()
    assert {row["student"] for row in rows} == {"passive", "margin", "disagreement", "refused"}
    stable = [row for row in rows if row["aggregator"] == "sparse" and row["student"] != "refused"]
    assert all(row["unstable_asked"] <= 3 and row["asked"] <= 40 for row in stable)
    assert all(0 <= row["near"] <= 1 for row in stable)
    accuracy, paid = overlap_tables(rows)
    assert "sparse" in accuracy.markdown()
    assert len(paid.rows) == 3
    assert overlap_tables([row for row in rows if row["student"] == "refused"]) == []
