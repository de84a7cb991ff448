"""A finished campaign whose store somebody changed: `verify` fails and names phase and kind, and no record."""

import hashlib
import shutil
import sqlite3

import pytest
from small_campaign import written

from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.errors import InvalidStore
from discreet.recipes.opening import create, load

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two phases, every question answered by ann, one answer corrected."""
    place = tmp_path_factory.mktemp("finished")
    campaign = create(CampaignConfig.read(written(place)))
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
        ("update row_mac_heads set key = '0'", {"rows"}),
    ],
)  # fmt: skip
def test_rows_that_were_changed(place, capsys, statement, named):
    changed(place, statement)
    code, failed = verified(place, capsys)
    assert code == 1
    assert named <= failed


def test_a_kept_file_that_was_swapped_with_its_row(place, capsys):
    data = b'{"format": "other"}'
    (objects(place) / hashlib.sha256(data).hexdigest()).write_bytes(data)
    for kind in ("labels", "model"):
        changed(
            place,
            f"update files set sha256 = '{hashlib.sha256(data).hexdigest()}', size = {len(data)} "
            f"where kind = '{kind}' and phase = 1",
        )
        code, failed = verified(place, capsys)
        assert code == 1
        assert "files of phase 1" in failed
    assert {"files", "released"} <= failed, "the model is not the one that the ledger names, either"


def test_weights_in_the_store_that_were_cut_off(place, capsys):
    (model,) = sqlite3.connect(place / "small.db").execute("select sha256 from files where kind = 'model'").fetchmany(1)
    kept = objects(place) / model[0]
    kept.write_bytes(kept.read_bytes()[:-100])
    assert verified(place, capsys) == (1, {"files"})


def test_a_model_and_its_step_that_were_replaced_with_the_line_that_names_them(place, capsys):
    """Lines of the ledger can be rewritten by anybody, consistently; rows cannot."""
    changed(place, "delete from ledger_lines where position = (select max(position) from ledger_lines)")
    code, failed = verified(place, capsys)
    assert (code, failed) == (1, {"mark", "released"})


def rows_of(place, *names):
    connection = sqlite3.connect(place / "small.db")
    found = {name: connection.execute(f"select * from {name}").fetchall() for name in names}
    connection.close()
    return found


def test_an_older_state_of_the_rows_that_is_put_back(place, capsys):
    """All rows and MACs of a moment ago, kept by somebody who never had the key."""
    campaign = load(CampaignConfig.read(place / "small.toml"))
    (first, *_) = campaign.store.questions(1)
    ((_, position, head, _),) = rows_of(place, "row_mac_heads")["row_mac_heads"]
    campaign.tell({first.id: "b"}, annotator="bo")
    assert verified(place, capsys) == (0, set()), "late answers are covered, too"
    connection = sqlite3.connect(place / "small.db")
    with connection:
        connection.execute("delete from answers where annotator = 'bo'")
        connection.execute("delete from exposures where audience = 'bo'")
        connection.execute("delete from row_macs where position > ?", (position,))
        connection.execute("update row_mac_heads set position = ?, head = ?", (position, head))
    connection.close()
    assert verified(place, capsys) == (1, {"rows"}), "the mark beside the key remembers"
    (mark,) = place.glob("small.db.files/*/rows.mark")
    mark.unlink()
    assert verified(place, capsys) == (0, set()), "a copy without the mark: since the last release nothing does"


def test_an_older_state_than_the_last_line_of_the_ledger(tmp_path, capsys):
    campaign = create(CampaignConfig.read(written(tmp_path)))
    campaign.tell({one.id: "a" for one in campaign.ask()})
    kept = rows_of(tmp_path, "transitions", "files", "row_macs", "row_mac_heads")
    campaign.train()
    connection = sqlite3.connect(tmp_path / "small.db")
    with connection:
        for name, rows in kept.items():
            connection.execute(f"delete from {name}")
            for row in rows:
                connection.execute(f"insert into {name} values ({', '.join('?' * len(row))})", row)
    connection.close()
    (mark,) = tmp_path.glob("small.db.files/*/rows.mark")
    mark.unlink()
    assert verified(tmp_path, capsys) == (1, {"rows", "released"}), "the ledger remembers"


def test_without_the_key_it_says_what_was_not_checked(place, capsys):
    (key,) = place.glob("small.db.files/*/rows.key")
    kept = key.read_bytes()
    key.unlink()
    assert verified(place, capsys) == (1, {"rows"}), "other keys are here, so this one was lost"
    others = list(key.parent.glob("*.key"))
    for other in others:
        other.unlink()
    capsys.readouterr()
    run(["verify", str(place / "small.toml")])
    out = capsys.readouterr().out
    assert "rows: NOT CHECKED: rows.key is not in this copy" in out
    key.write_bytes(kept.replace(b"a", b"b"))
    key.chmod(0o600)
    assert "rows" in verified(place, capsys)[1], "another key"


def test_a_host_without_the_key_changes_nothing(place):
    (key,) = place.glob("small.db.files/*/rows.key")
    campaign = load(CampaignConfig.read(place / "small.toml"))
    key.unlink()
    (first, *_) = campaign.store.questions(1)
    before = rows_of(place, "answers", "row_macs")
    with pytest.raises(InvalidStore, match=r"rows\.key"):
        campaign.tell({first.id: "b"}, annotator="ann")
    assert rows_of(place, "answers", "row_macs") == before


def test_a_store_without_macs_and_their_key(place, capsys):
    """Every campaign has MACs from its first row on, so none is taken for one without."""
    changed(place, "delete from row_macs", "delete from row_mac_heads")
    (key,) = place.glob("small.db.files/*/rows.key")
    key.unlink()
    capsys.readouterr()
    assert run(["verify", str(place / "small.toml")]) == 1
    assert "rows: their MACs were removed" in capsys.readouterr().out


def test_withdrawal_erases_and_still_verifies(place, capsys):
    campaign = load(CampaignConfig.read(place / "small.toml"))
    (first, second, *_) = campaign.store.questions(1)
    unasked = next(
        name for name in campaign.store.ids() if name not in {one.record for one in campaign.store.questions()}
    )
    assert run(["withdraw", str(place / "small.toml"), first.record, unasked]) == 0
    assert verified(place, capsys) == (0, set())
    found = rows_of(place, "row_macs")["row_macs"]
    bare = {(kind, name) for _, _, kind, name, nonce, _ in found if nonce is None}
    assert {("answers", first.id), ("questions", "1"), ("pool", "0")} <= bare, "erased rows have no nonce any more"
    assert ("answers", second.id) not in bare
    changed(place, f"update questions set above = 1 where id = '{second.id}' or above = 0")
    assert verified(place, capsys) == (1, {"questions of phase 1"})


def test_a_damaged_page_and_a_dangling_row(place, capsys):
    changed(place, "delete from questions where phase = 1")
    code, failed = verified(place, capsys)
    assert code == 1
    assert {"database", "questions of phase 1"} <= failed
    connection = sqlite3.connect(place / "small.db")
    connection.execute("pragma wal_checkpoint(truncate)")
    size, root = (
        connection.execute("pragma page_size").fetchone()[0],
        connection.execute("select rootpage from sqlite_schema where name = 'sqlite_autoindex_records_2'").fetchone(),
    )
    connection.close()
    (root,) = root or (3,)
    with (place / "small.db").open("r+b") as file:
        file.seek((root - 1) * size + size - 200)
        file.write(b"\xff" * 190)
    assert verified(place, capsys) == (1, {"database"})
