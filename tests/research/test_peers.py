"""Our loop without privacy, and tables of peers. The peers themselves are in tests/integration/test_real_peers.py."""

import json
from dataclasses import replace

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet_research.bench.experiments import EXPERIMENTS
from discreet_research.bench.peer_cases import DIGITS, METHODS, PeerCase, our_query, run_loop
from discreet_research.bench.peer_tables import peer_tables
from discreet_research.bench.problems import pool_of

SMALL = replace(DIGITS, queries=(30, 20))


def test_our_loop_asks_the_highest_scores_of_its_model():
    pool = pool_of(SMALL, 0, None)
    rows = run_loop(SMALL, pool, 0, our_query("margin", SMALL, pool, 0))
    random = run_loop(SMALL, pool, 0, our_query("random", SMALL, pool, 0))
    assert [row["phase"] for row in rows] == [0, 1, 2]
    assert rows[0]["test_accuracy"] == random[0]["test_accuracy"]  # the same first labels
    asked = [set(json.loads(row["asked_places"])) for row in rows[1:]]
    assert [len(mine) for mine in asked] == [30, 20]
    assert not asked[0] & asked[1]
    assert rows[2]["test_accuracy"] > rows[0]["test_accuracy"]
    again = run_loop(SMALL, pool, 0, our_query("margin", SMALL, pool, 0))
    assert [row["test_accuracy"] for row in again] == [row["test_accuracy"] for row in rows]


def test_a_class_without_a_label_has_probability_0():
    pool = pool_of(SMALL, 0, None)
    few = replace(pool, y=np.where(pool.y == 7, 6, pool.y))  # nobody is a seven
    rows = run_loop(SMALL, few, 0, our_query("entropy", SMALL, few, 0))
    assert len(rows) == 3


def test_strategies_that_repeat_a_record_are_refused():
    pool = pool_of(SMALL, 0, None)
    with pytest.raises(BadInput, match="k new records"):
        run_loop(SMALL, pool, 0, lambda number, known, k: known[:k])
    with pytest.raises(BadInput, match="core-set"):
        our_query("core-set", SMALL, pool, 0)


def test_cases_differ_by_loop_and_share_plans_with_campaigns():
    cases = EXPERIMENTS["peers"].cases([0])
    assert len({case.digest for case in cases}) == len(cases) == len(METHODS) * 2 - 2
    plans = {case.method.name: case.plan_name() for case in cases if case.problem is DIGITS}
    assert plans["discreet, margin"] is None
    assert plans["random, DP-SGD"] == plans["random, Opacus"] is not None


def made_up(loop, strategy, seed, accuracy, places, **more):
    case = f"{loop} {strategy} {seed}"
    told = {"problem": "p", "loop": loop, "strategy": strategy, "seed": seed, "case": case, "claimed_epsilon": None}
    first = told | {"phase": 0, "test_accuracy": 0.0, "asked": None, "asked_places": None} | more
    last = (
        told | {"phase": 1, "test_accuracy": accuracy, "asked": len(places), "asked_places": json.dumps(places)} | more
    )
    return [first, last]


def test_tables_pair_seeds_and_count_what_both_asked():
    rows = []
    for seed in range(3):
        rows += made_up("scikit-activeml", "margin", seed, 0.9 + 0.01 * seed, [1, 2, 3, 4])
        rows += made_up("discreet", "margin", seed, 0.91 + 0.01 * seed, [1, 2, 3, 9])
        for loop, accuracy, seconds in (("DP-SGD", 0.5, 0.001), ("Opacus", 0.52, 0.003)):
            more = {"claimed_epsilon": 7.9, "step_seconds": seconds}
            rows += made_up(loop, "random", seed, accuracy, [5, 6], **more)
    loops, prices, trainers = peer_tables(rows)
    assert loops.rows == (("margin", *loops.rows[0][1:3], "1.0 (1.0 to 1.0)", "75.0"),)
    assert [row[:4] for row in prices.rows] == [
        ("margin", "logistic regression", "-", "4"),
        ("random", "DP-SGD", "7.90", "2"),
    ]
    assert prices.rows[0][5] == "-"
    assert trainers.rows[0][3:] == ("2.0 (2.0 to 2.0)", "1.0", "3.0")


def test_a_campaign_of_peers_is_a_campaign_of_the_bench(monkeypatch):
    method = next(one for one in METHODS if one.name == "random, DP-SGD")
    small = replace(SMALL, epochs=2)
    rows = PeerCase(problem=small, method=method, seed=1).run(None)
    assert [row["phase"] for row in rows] == [0, 1, 2]
    assert all(row["steps"] > 0 and row["step_seconds"] > 0 for row in rows)
    assert len(json.loads(rows[1]["asked_places"])) == rows[1]["asked"] == 30
    assert rows[0]["claimed_epsilon"] <= 8
