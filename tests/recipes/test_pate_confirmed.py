"""A campaign of teachers begins when its owner has looked at the private records; nothing else depends on them."""

import csv
import json
import re

import numpy as np
import pytest
from pate_parts import CLASSES, PRIVATE, drawn, make, write_labels

from discreet.cli.app import run as command
from discreet.config import read_campaign
from discreet.errors import BadInput, InvalidConfig, NotNow
from discreet.oracles.answer_files import read_private_labels
from discreet.recipes import opening
from discreet.recipes.pate import private_tallies
from discreet.recipes.pate_votes import kept_votes
from discreet.storage import open_storage

pytestmark = pytest.mark.thorough


def begun(file):
    return "wage" in open_storage(read_campaign(file).storage_url()).campaigns()


def files_of(place):
    return b"".join(one.read_bytes() for one in sorted(place.rglob("*")) if one.is_file() and ".npz" not in one.name)


def relabel(place, label):
    with (place / "private.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["record", "label"])
        out.writerows([f"private-{number}", label] for number in range(PRIVATE))


@pytest.fixture
def terminal(monkeypatch):
    """A person at a terminal, who answers what is in the list."""
    said = []
    monkeypatch.setattr("discreet.cli.init._attended", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda text, **_: said.append(text) or said[0])
    return said


# -- confirmed, or refused whatever the records are


@pytest.mark.parametrize("label", [None, "pays"])
def test_where_nobody_is_there_it_is_refused_whatever_the_records_are(tmp_path, capsys, label):
    file = make(tmp_path, simulation=False)
    if label:
        relabel(tmp_path, label)
    assert command(["init", str(file)]) == 2
    told = capsys.readouterr()
    assert told.err.splitlines()[-1].endswith("which starts whatever they are.")
    assert told.out == ""
    assert not begun(file)
    with pytest.raises(BadInput, match="did not confirm"):
        opening.create(read_campaign(file))


@pytest.mark.parametrize("label", [None, "pays"])
def test_unattended_it_begins_whatever_the_records_are(tmp_path, capsys, label):
    file = make(tmp_path, simulation=False, teachers={"count": 45})
    if label:
        relabel(tmp_path, label)
    assert command(["init", str(file), "--yes", "--json"]) == 0
    told = capsys.readouterr()
    assert set(json.loads(told.out)) >= {"name", "price", "budget"}
    assert "900" not in told.out + told.err
    assert begun(file)


def test_the_owner_sees_tallies_and_says_no(tmp_path, capsys, terminal):
    file = make(tmp_path, simulation=False)
    relabel(tmp_path, "pays")
    terminal.append(False)
    assert command(["init", str(file)]) == 0
    told = capsys.readouterr()
    assert "label of no declared class: 900" in told.err
    assert "0 of 900 can be learnt from" in told.err
    assert "not covered by the guarantee" in told.err
    assert "900" not in told.out
    assert not begun(file)


def test_the_owner_sees_tallies_and_says_yes_and_they_are_nowhere_else(tmp_path, capsys, terminal):
    file = make(tmp_path, simulation=False)
    with np.load(tmp_path / "private.npz") as stored:
        x, ids = stored["x"].copy(), stored["id"]
    x[:123, 2] = np.nan
    np.savez(tmp_path / "private.npz", id=ids, x=x)
    terminal.append(True)
    log = tmp_path / "log.jsonl"
    assert command(["init", str(file), "--log-json", str(log)]) == 0
    told = capsys.readouterr()
    assert "column x[2], cells: 123 cannot be read; 123 records are nulls by them" in told.err
    assert "777 of 900 can be learnt from" in told.err
    stored = files_of(tmp_path / "wage.db.files") + log.read_bytes() + told.out.encode()
    assert not re.search(rb"(?<![\w.])777(?!\w)", stored)  # as a number, not within a hash or a time
    assert command(["init", str(file)]) == 0  # it is there: nobody is asked again
    assert len(terminal) == 2


def test_a_function_of_ones_own_decides(tmp_path):
    file, seen = make(tmp_path, simulation=False), []
    with pytest.raises(NotNow, match="did not confirm"):
        opening.create(read_campaign(file), confirm=lambda tallies: seen.append(tallies) or False)
    assert not begun(file)
    (tallies,) = seen
    assert tallies.usable == tallies.records == PRIVATE
    assert sum(tallies.classes.values()) == PRIVATE
    assert set(tallies.classes) == set(CLASSES)
    assert str(PRIVATE - 1) not in repr(tallies)
    assert "classes" not in repr(tallies)
    assert opening.create(read_campaign(file), confirm=lambda tallies: True).state.step == "ask"


def test_a_simulation_has_nobody_to_ask(tmp_path):
    assert opening.create(read_campaign(make(tmp_path))).state.step == "ask"


# -- one bad cell is one null


@pytest.mark.parametrize("bad", ["other", "not unicode", "list of cells", "blank", "cell"])
def test_one_bad_cell_moves_no_other_records_teacher(tmp_path, bad):
    """The votes are those of the same campaign in which the record is a null."""
    votes = []
    for place, null in ((tmp_path / "bad", False), (tmp_path / "null", True)):
        place.mkdir()
        file = make(place)
        _spoil(place, "blank" if null else bad)
        votes.append(kept_votes(opening.create(read_campaign(file)).store).counts)
    assert np.array_equal(*votes)


def _spoil(place, bad):
    x, codes = drawn(PRIVATE, 1)
    ids = [f"private-{number}" for number in range(PRIVATE)]
    if bad == "cell":
        x[7, 1] = np.inf
        np.savez(place / "private.npz", id=np.array(ids), x=x, person=np.array(["p"] * PRIVATE))
        return
    write_labels(place / "private.csv", ids, codes)
    lines = (place / "private.csv").read_bytes().splitlines()
    cell = {"other": b"default", "not unicode": b"\xff\xfe", "list of cells": b"low,high", "blank": b""}[bad]
    lines[8] = b"private-7," + cell
    (place / "private.csv").write_bytes(b"\n".join(lines) + b"\n")


def test_private_records_none_of_which_can_be_read_are_told_to_the_owner_alone(tmp_path):
    file = make(tmp_path, simulation=False)
    with np.load(tmp_path / "private.npz") as stored:
        np.savez(tmp_path / "private.npz", id=stored["id"], x=np.full_like(stored["x"], np.nan))
    tallies = private_tallies(read_campaign(file))
    assert (tallies.usable, tallies.cells.nulls) == (0, PRIVATE)
    assert opening.create(read_campaign(file), confirm=True).state.step == "ask"


def test_missing_cells_of_a_table_are_counted_by_column(tmp_path):
    import pyarrow
    from pyarrow import parquet

    from discreet.pools import open_pool
    from discreet.recipes.pate_votes import tallies_of

    columns = {"id": [f"r{place}" for place in range(9)], "age": [1.0, None, 3.0] * 3, "pay": [None, 1.0, 2.0] * 3}
    parquet.write_table(pyarrow.table(columns), tmp_path / "private.parquet")
    (tmp_path / "labels.csv").write_text("record,label\n" + "".join(f"r{place},a\n" for place in range(8)))
    pool = open_pool(tmp_path / "private.parquet", id="id", columns=["age", "pay"])
    found = tallies_of(pool, read_private_labels(tmp_path / "labels.csv"), ("a", "b"))
    assert {name: counts["unreadable"] for name, counts in found.cells.columns.items()} == {"age": 3, "pay": 3}
    assert (found.cells.nulls, found.unlabelled, found.usable) == (6, 1, 2)
    assert found.classes == {"a": 8, "b": 0}


def test_rows_of_labels_that_cannot_be_read_are_passed_over(tmp_path):
    place = tmp_path / "labels.jsonl"
    place.write_text('{"record": "a", "label": "x"}\nnonsense\n{"record": "b", "label": ["x"]}\n{"record": "c"}\n[1]\n')
    found = read_private_labels(place)
    assert found.values == {"a": "x"}
    assert found.records == {"a", "b", "c"}
    assert found.unreadable == 3
    place.write_text('{"record": "a", "label": "x"}\n{"record": "a", "label": null}\n')
    with pytest.raises(BadInput, match="stands there twice"):
        read_private_labels(place)


# -- what public numbers show to be useless


def test_a_lead_of_more_votes_than_there_are_is_refused(tmp_path, capsys):
    file = make(tmp_path, simulation=False, budget={"epsilon": "'1'"})
    with pytest.raises(InvalidConfig, match="even a unanimous vote") as refused:
        opening.create(read_campaign(file), confirm=True)
    assert "count" in file.read_text().splitlines()[refused.value.line - 1]
    assert not begun(file)
    assert command(["init", str(file), "--yes"]) == 2
    capsys.readouterr()


def test_a_price_says_that_a_lead_is_impossible(capsys):
    some = ["price", "--delta", "1e-6", "--teachers", "50", "--answers", "1000"]
    assert command([*some, "--epsilon", "1"]) == 0
    told = capsys.readouterr().out
    assert "IMPOSSIBLE: the lead is more than all 50 votes" in told
    assert command([*some, "--epsilon", "1", "--json"]) == 0
    form = json.loads(capsys.readouterr().out)
    assert [price["possible"] for price in form["prices"]] == [price["lead_95"] <= 50 for price in form["prices"]]
    assert not any(price["possible"] for price in form["prices"] if price["aggregator"] == "gaussian")
    assert command([*some[:3], "--teachers", "5000", "--answers", "100", "--epsilon", "1"]) == 0
    assert "IMPOSSIBLE" not in capsys.readouterr().out.replace("sparse", "")


def test_the_certificate_says_that_the_decision_is_not_covered(tmp_path):
    from discreet.privacy.certificate.statement import dump_certificate
    from discreet.privacy.certificate.verification import verify_certificate

    form = opening.create(read_campaign(make(tmp_path))).certificate()
    assert form["not_covered"] == ["the decision to start: whoever takes it may have looked at the records"]
    assert verify_certificate(dump_certificate(form).encode()).ok
