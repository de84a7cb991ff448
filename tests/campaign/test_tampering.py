"""A finished campaign whose store somebody changed: `verify` fails and names phase and kind, and no record."""

import shutil
import sqlite3

import pytest
from small_campaign import written

from discreet.cli.app import run
from discreet.config import read_config
from discreet.recipes.opening import create


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two phases, every question answered by ann, one answer corrected."""
    place = tmp_path_factory.mktemp("finished")
    campaign = create(read_config(written(place)))
    while not campaign.done:
        questions = campaign.ask(annotator="ann")
        campaign.tell({one.id: "b" for one in questions[:1]}, annotator="ann")
        campaign.tell({one.id: "a" for one in questions}, annotator="ann")
        campaign.train()
    return place


@pytest.fixture
def place(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


def changed(place, *statements):
    """Somebody with the database's file, and no key; how many rows each statement changed."""
    connection = sqlite3.connect(place / "small.db")
    with connection:
        counts = [connection.execute(statement).rowcount for statement in statements]
    connection.close()
    assert all(counts)
    return counts


def verified(place, capsys):
    """Exit code, and names of failed checks."""
    capsys.readouterr()
    code = run(["verify", str(place / "small.toml")])
    out = capsys.readouterr()
    assert "Traceback" not in out.err
    assert not any(f" r{number} " in out.out or f"'r{number}'" in out.out for number in range(40))
    failed = [line.split()[1:] for line in out.out.splitlines() if line.startswith("FAILED")]
    return code, {" ".join(words).partition(":")[0] for words in failed}


def objects(place):
    (found,) = place.glob("small.db.files/*/objects")
    return found


def test_nobody_changed_anything(place, capsys):
    assert verified(place, capsys) == (0, set())


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("update answers set value = '\"b\"'", {"answers of phase 0", "answers of phase 1"}),
        ("delete from answers where number = 1", {"answers of phase 0", "answers of phase 1"}),
        ("update answers set annotator = 'bo' where question in (select id from questions where phase = 1)",
         {"answers of phase 1"}),
        ("delete from exposures where question in (select id from questions where phase = 0)",
         {"exposures of phase 0"}),
        ("update exposures set at = '2020-01-01T00:00:00.000000Z'", {"exposures of phase 0", "exposures of phase 1"}),
        ("insert into exposures select campaign, question, kind, 'eve', at from exposures limit 1",
         {"exposures of phase 0"}),
        ("update questions set above = 1 - above where above is not null", {"questions of phase 1"}),
        ("update questions set cohort = 'x' where phase = 0", {"questions of phase 0"}),
        ("update questions set place = place + 100 where phase = 0", {"questions of phase 0"}),
        ("update questions set phase = 1, place = 99 where id = (select id from questions where phase = 0 limit 1)",
         {"questions of phase 0", "questions of phase 1"}),
        ("delete from transitions where kind = 'training' and phase = 1", {"steps of phase 1"}),
        ("update transitions set at = '2020-01-01T00:00:00.000000Z' where phase = 0", {"steps of phase 0"}),
        ("update records set mac = x'00' where place = 3", {"pool"}),
        ("update records set withdrawn = 'asked 2020-01-01T00:00:00.000000Z' where place = 3", {"pool"}),
        ("update pool_cohorts set facts = '{}'", {"pool cohorts"}),
        ("update campaigns set created = '2020-01-01T00:00:00.000000Z'", {"campaign"}),
        ("delete from row_macs where kind = 'answers'", {"answers of phase 0", "answers of phase 1", "rows"}),
        ("delete from row_macs where position = (select max(position) from row_macs)", {"steps of phase 1", "rows"}),
        ("delete from row_mac_heads", {"rows"}),
        ("update row_mac_heads set whole = 0", {"rows"}),
        ("update row_mac_heads set key = '0'", {"rows"}),
    ],
)  # fmt: skip
def test_rows_that_were_changed(place, capsys, statement, named):
    changed(place, statement)
    code, failed = verified(place, capsys)
    assert code == 1
    assert named <= failed
