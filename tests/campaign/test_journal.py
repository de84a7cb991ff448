"""Events of a log: a fixed list, declared fields, nothing else fits in."""

import dataclasses
from decimal import Decimal

import numpy as np
import pytest

from discreet.campaign.journal import EVENTS, Event, Failed, Progress, Trained, work_of
from discreet.errors import BadInput
from discreet.trainers.accuracy import METRICS
from discreet.trainers.layouts import Layout
from discreet.trainers.metrics import Uncertainty

ALLOWED = {"int", "bool", "str", "float | None", "Step", "Work", "Literal['public', 'paid'] | None"}
FORBIDDEN = ("record", "label", "answer", "id", "value", "count", "open", "skipped", "message")


def test_the_list_is_whole_and_its_fields_are_numbers_and_names():
    assert set(EVENTS) == set(Event.__subclasses__())
    assert len({event.name for event in EVENTS}) == len(EVENTS)
    for event in EVENTS:
        for part in dataclasses.fields(event):
            assert part.type.replace('"', "'") in ALLOWED, (event, part)
            assert part.name not in FORBIDDEN


@pytest.mark.parametrize("wrong", [["r1", "r2"], {"r1": "ill"}, "two\nlines", "x" * 101, b"bytes", object()])
def test_what_is_no_number_or_name_does_not_become_an_event(wrong):
    with pytest.raises(BadInput, match="not a number or a name") as refused:
        Failed(code=2, error=wrong)
    assert "r1" not in str(refused.value)


def test_what_was_measured_is_told_and_what_was_not_is_left_out():
    assert Trained.of(1, "ab", None).facts() == {"phase": 1, "model": "ab"}
    cells = np.array([0, 9, 4, 1])
    measured = Layout(classes=2, table="confusion").evaluation(
        "paid", cells, uncertainty=Uncertainty(noise=2.0), epsilon=Decimal("0.5")
    )
    told = Trained.of(1, "ab", measured.to_json()).facts()
    assert (told["evaluation"], told["price"], told["accuracy"]) == ("paid", 0.5, pytest.approx(1 / 14))
    assert told["low"] < told["accuracy"] < told["high"]
    assert told["majority"] == pytest.approx(9 / 14)
    assert told["balanced_accuracy"] == pytest.approx(0.1)
    assert not {"table", "confusion", "per_class", "auc"} & set(told), "an event has numbers, not tables"
    every = Layout(classes=2).evaluation("paid", np.ones(46, int), uncertainty=Uncertainty(), epsilon=Decimal(1))
    assert {name.replace("-", "_") for name in METRICS} < set(Trained.of(1, "ab", every.to_json()).facts())


def test_work_that_has_no_word_is_just_work():
    assert work_of("scoring") == "scoring"
    assert work_of("reading patient 7") == "working"
    assert Progress(what=work_of("patient 7"), percent=10).facts() == {"what": "working", "percent": 10}
