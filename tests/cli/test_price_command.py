"""`discreet price`."""

import json

import pytest

from discreet.cli.app import run

ASKED = ["price", "--epsilon", "1", "--delta", "1e-6", "--teachers", "250", "--answers", "200"]


def test_it_states_prices_and_names_the_least_number_of_teachers(capsys):
    assert run([*ASKED, "--classes", "10", "--lead", "0.5"]) == 0
    text = capsys.readouterr().out
    assert "zero-out" in text
    assert "gaussian-paper" in text
    assert "Train at least" in text
    assert "a lead of 0.5 buys" in text
    assert run([*ASKED, "--json"]) == 0
    form = json.loads(capsys.readouterr().out)
    assert form["format"] == "discreet.answers-prices/1"
    assert form["simulation"] is False
    assert {price["aggregator"] for price in form["prices"]} >= {"gaussian", "laplace", "confident"}
    assert int(form["refused"]["sparse"]["nearest"]["teachers"]) > 250
    assert form["refused"]["sparse-paper"]["nearest"] != form["refused"]["sparse"]["nearest"]


def test_few_answers_need_no_number_of_unstable_ones(capsys):
    assert run([*ASKED[:-1], "10", "--lead", "0.5", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["refused"]) == {"sparse", "sparse-paper"}


def test_a_large_delta_refuses_sparse_vectors_alone(capsys):
    assert run([*ASKED, "--delta", "0.3", "--lead", "0.5", "--json"]) == 0
    form = json.loads(capsys.readouterr().out)
    assert "1/4" in form["refused"]["sparse"]["why"] or "0.25" in form["refused"]["sparse"]["why"]
    assert {price["aggregator"] for price in form["prices"]} >= {"gaussian", "laplace"}
    assert form["bought"]["sparse"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        ["--answers", "0"],
        ["--delta", "0"],
        ["--epsilon", "-1"],
        ["--classes", "1"],
        ["--unstable", "201"],
        ["--lead", "2"],
    ],
)
def test_nonsense_is_one_line_and_exit_code_2(wrong, capsys):
    assert run([*ASKED, *wrong]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("discreet: ")
    assert shown.err.count("\n") == 1
