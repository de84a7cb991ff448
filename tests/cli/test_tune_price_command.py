"""`discreet tune-price`."""

import json

import pytest

from discreet.cli.app import run

NUMBERS = {"epsilon": "4", "delta": "1e-5", "records": "2000", "batch": "200", "epochs": "5", "settings": "6"}
ASKED = ["tune-price", *(word for name, value in NUMBERS.items() for word in (f"--{name}", value))]


def test_it_states_prices(capsys):
    assert run([*ASKED, "--runs", "3,10", "--held-out"]) == 0
    text = capsys.readouterr().out
    assert "6 settings" in text
    assert "zero-out" in text
    assert "held-out records at epsilon 1.333333333" in text
    assert run([*ASKED, "--runs", "10", "--json"]) == 0
    form = json.loads(capsys.readouterr().out)
    assert form["format"] == "discreet.tuning-prices/1"
    assert form["simulation"] is False
    [price] = form["prices"]
    assert price["one_run"] < price["epsilon"] <= 4 < price["all_settings"]


@pytest.mark.parametrize(
    "wrong",
    [
        ["--runs", "ten"],
        ["--runs", "1"],
        ["--runs", ""],
        ["--eta", "7"],
        ["--law", "even"],
        ["--delta", "0"],
        ["--settings", "0"],
        ["--unit", "planet"],
        ["--unit", "person", "--held-out"],
        ["--epsilon", "-1"],
        ["--batch", "0"],
    ],
)
def test_nonsense_is_one_line_and_exit_code_2(wrong, capsys):
    assert run([*ASKED, *wrong]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("discreet: ")
    assert shown.err.count("\n") == 1
