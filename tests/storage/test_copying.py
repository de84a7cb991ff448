"""Campaigns go to another store: everything, once, and never so that two stores spend one budget."""

import pytest
from typer.testing import CliRunner

from discreet.cli.app import app
from discreet.errors import BadInput, CampaignExists, InvalidLedger, InvalidStore, NoSuchCampaign, StoreUnavailable
from discreet.noise.keys import write_secret
from discreet.privacy.budget import Budget
from discreet.privacy.events import Laplace
from discreet.privacy.ledger import Ledger, adaptive
from discreet.records import Answer, Question, Shown
from discreet.storage import moves, open_storage, tables
from discreet.storage.moves import copy_campaign

pytestmark = pytest.mark.thorough

ASKED = [Question(id=f"q{place}", record=f"r{place}", phase=0, place=place) for place in range(3)]


def filled(storage, name="scans"):
    """A campaign with something in every table, keys of its own and one of a step."""
    store = storage.create(name, config={"classes": ["a", "b"]}, simulation=False)
    store.add_records(((f"r{number}", bytes([number])) for number in range(5)), {"kind": "npz"})
    store.publish(0, ASKED, above={"r1"}, cohorts={"r0": "low", "r1": "high"}, facts={"k": 3})
    store.tell([Answer(question_id="q1", value=("ä", "b"), annotator="ann"), Answer(question_id="q0", value=None)])
    store.tell([Answer(question_id="q1", value="b", annotator="ann")])
    store.show([Shown(question_id="q1", audience="ann")])
    store.keep_file("model", phase=0, data=b"weights" * 400_000)
    store.keep_file("empty", phase=0, data=b"")
    with Ledger.create(store.sink(), adaptive(Budget(epsilon=1, delta="1e-6"))) as ledger:
        ledger.charge(event=Laplace(epsilon="0.5"), who="pool", why="count")
    write_secret(store.directory / "manifest.key", "manifest", key=b"m" * 32)
    (store.directory / "keys-asking").mkdir()
    write_secret(store.directory / "keys-asking" / "phase-1-x.key", "phase", key=b"p" * 32)
    return store


def seen(store):
    """Everything that the verbs tell."""
    return {
        "config": store.config,
        "created": store.created,
        "macs": dict(store.macs()),
        "cohorts": store.pool_cohorts(),
        "steps": store.transitions(),
        "questions": store.questions(),
        "members": store.cohort_members(),
        "above": store.above(0),
        "history": [store.history(one.id) for one in ASKED],
        "exposures": store.exposures(),
        "files": [(one, store.file(one.kind, one.phase).read_bytes()) for one in store.files()],
        "ledger": store.sink().read(),
        "key": (store.directory / "manifest.key").read_bytes(),
    }


def spends(store):
    """Whether a store takes a charge, and an answer."""
    with Ledger.open(store.sink()) as ledger:
        ledger.charge(event=Laplace(epsilon="0.1"), who="pool", why="another")
    return store.tell([Answer(question_id="q2", value="a")]).new


def check_takes_nothing(store, fact):
    with pytest.raises(StoreUnavailable, match=fact):
        spends(store)
    with pytest.raises(StoreUnavailable, match=fact):
        store.tell([Answer(question_id="q2", value="a")])


def check_moved(old, new, before):
    assert seen(new.load("scans")) == before
    check_takes_nothing(old.load("scans"), "moved to another store")
    assert seen(old.load("scans"))["ledger"] == before["ledger"]
    assert not list(old.load("scans").directory.rglob("phase-*"))
    kept = new.load("scans").directory / "keys-asking" / "phase-1-x.key"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert spends(new.load("scans")) == 1


@pytest.fixture
def old(tmp_path):
    with open_storage(tmp_path / "old.db") as storage:
        filled(storage)
        yield storage


@pytest.fixture
def new(tmp_path):
    with open_storage(tmp_path / "new.db") as storage:
        storage.create("other", config={}, simulation=True)
        yield storage


def test_a_campaign_is_moved_with_all_it_has(old, new):
    before = seen(old.load("scans"))
    done = copy_campaign(old, new, "scans")
    assert done.rows["answers"] == 3
    assert (done.files, done.ledger_lines, done.simulation) == (2, 2, False)
    check_moved(old, new, before)
    assert new.campaigns() == ["other", "scans"]
    again = copy_campaign(old, new, "scans")
    assert again.moved_before
    assert again.ledger_lines == 3, "as it is now"
    with pytest.raises(CampaignExists):
        copy_campaign(old, new, "scans", backup=True)


def test_a_backup_is_read_and_nothing_else(old, new):
    before = seen(old.load("scans"))
    copy_campaign(old, new, "scans", backup=True)
    assert seen(new.load("scans")) == before
    assert not list(new.load("scans").directory.rglob("phase-*")), "a step's key must not outlive the step"
    check_takes_nothing(new.load("scans"), "backup")
    assert spends(old.load("scans")) == 1
    with pytest.raises(StoreUnavailable, match="backup"):
        copy_campaign(new, open_storage(new.path.with_name("third.db")), "scans")


@pytest.mark.parametrize("after", [False, True])
def test_the_same_command_finishes_a_backup_of_several(old, tmp_path, monkeypatch, after):
    """Cut off before the second one is stored, or before it is compared."""
    filled(old, "second")
    real = moves._stored

    def dying(store, *args, **kwargs):
        found = real(store, *args, **kwargs) if store.name == "scans" or after else None
        if store.name == "second":
            raise Killed
        return found

    with monkeypatch.context() as patch:
        patch.setattr(moves, "_stored", dying)
        with pytest.raises(Killed):
            run("copy", old.path, tmp_path / "backup.db", "--backup")
    done = run("copy", old.path, tmp_path / "backup.db", "--backup")["campaigns"]
    assert [(one["name"], one["made_before"], one["behind"]) for one in done] == [
        ("scans", True, False),
        ("second", after, False),
    ]
    assert done[0]["digest"] != done[1]["digest"]
    with open_storage(tmp_path / "backup.db") as backup:
        assert seen(backup.load("second")) == seen(old.load("second"))
        check_takes_nothing(backup.load("second"), "backup")


def test_a_backup_of_a_campaign_that_went_on_is_left_as_it_was_and_said(old, tmp_path):
    place = tmp_path / "backup.db"
    run("copy", old.path, place, "--backup")
    before = seen(old.load("scans"))
    assert spends(old.load("scans")) == 1
    filled(old, "second")
    done = CliRunner().invoke(app, ["storage", "copy", str(old.path), str(place), "--backup"])
    assert (done.exit_code, "older than the campaign" in done.stdout) == (1, True)
    with open_storage(place) as backup:
        assert seen(backup.load("scans")) == before
        assert backup.campaigns() == ["scans", "second"], "the others are backed up"


def test_a_backup_that_was_changed_is_not_taken_for_one(old, new):
    copy_campaign(old, new, "scans", backup=True)
    lines = tables.ledger_lines
    with new.database.writing("breaking it") as connection:
        connection.execute(lines.update().where(lines.c.position == 1).values(line=b"{}\n"))
    with pytest.raises(InvalidStore, match="beginning"):
        copy_campaign(old, new, "scans", backup=True)


def test_a_campaign_that_is_there_is_not_replaced(old, new):
    new.create("scans", config={}, simulation=True)
    with pytest.raises(CampaignExists, match="of this name"):
        copy_campaign(old, new, "scans")
    assert spends(old.load("scans")) == 1, "a refused copy leaves the source in use"
    with pytest.raises(BadInput, match="same one"):
        copy_campaign(old, open_storage(old.path), "scans")


class Killed(BaseException):
    """As a process that ends there."""


@pytest.mark.parametrize("step", ["_copy_directory", "_stored", "_compared", "leave", "arrive"])
@pytest.mark.parametrize("after", [False, True])
def test_cut_off_anywhere_nobody_spends_twice_and_the_same_again_finishes_it(old, new, monkeypatch, step, after):
    before = seen(old.load("scans"))
    room = moves
    real = getattr(room, step)

    def dying(*args, **kwargs):
        if after:
            real(*args, **kwargs)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(room, step, dying)
        with pytest.raises(Killed):
            copy_campaign(old, new, "scans")
    usable = 0
    for storage in (old, new):
        try:
            store = storage.load("scans")
            store.record(f"probe-{usable}", phase=9)
            usable += 1
        except (StoreUnavailable, NoSuchCampaign) as error:
            assert "moved" in str(error) or "not finished" in str(error) or "this store has" in str(error)
    assert usable == (1 if (step, after) == ("arrive", True) else 0)
    if (step, after) == ("arrive", True):
        assert not list(old.home.rglob("phase-*")), "nobody takes charges before the keys are in one place"
        assert copy_campaign(old, new, "scans").moved_before
        return
    copy_campaign(old, new, "scans")
    check_moved(old, new, before)


def test_a_key_that_cannot_be_destroyed_is_said_and_the_same_again_finishes_it(old, new, monkeypatch):
    before = seen(old.load("scans"))

    def failing(path):
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(moves, "destroy", failing)
        with pytest.raises(StoreUnavailable, match="removing keys"):
            copy_campaign(old, new, "scans")
    with pytest.raises(StoreUnavailable, match="not finished"):
        new.load("scans")
    copy_campaign(old, new, "scans")
    check_moved(old, new, before)


def test_the_same_command_finishes_a_move_of_several(old, tmp_path, monkeypatch):
    filled(old, "second")
    real, moved = moves.leave, []

    def dying(scope, token):
        if moved:
            raise Killed
        moved.append(scope.name)
        real(scope, token)

    with monkeypatch.context() as patch:
        patch.setattr(moves, "leave", dying)
        with pytest.raises(Killed):
            run("copy", old.path, tmp_path / "new.db")
    done = run("copy", old.path, tmp_path / "new.db")["campaigns"]
    assert [(one["name"], one["moved_before"]) for one in done] == [("scans", True), ("second", False)]
    assert [one["state"] for one in run("show", tmp_path / "new.db")["campaigns"]] == ["in use", "in use"]


def test_a_copy_that_differs_is_found(old, new, monkeypatch):
    real = moves._rows

    def damaged(connection, table, campaign):
        for row in real(connection, table, campaign):
            changed = table.name == "answers" and campaign == 2
            yield {**row, "value": '"other"'} if changed else row

    monkeypatch.setattr(moves, "_rows", damaged)
    with pytest.raises(InvalidStore, match="differs in answers"):
        copy_campaign(old, new, "scans")


def test_a_broken_ledger_is_not_carried_on(old, new):
    lines = tables.ledger_lines
    with old.database.writing("breaking it") as connection:
        connection.execute(lines.update().where(lines.c.position == 1).values(line=b"{}\n"))
    with pytest.raises(InvalidLedger, match=r"line 2 is not the one that ledger\.mark names"):
        copy_campaign(old, new, "scans")
    assert "scans" not in new.campaigns()


def test_keys_that_are_elsewhere_are_asked_for(old, new):
    (old.load("scans").directory / "manifest.key").unlink()
    with pytest.raises(BadInput, match="keys"):
        copy_campaign(old, new, "scans")
    store = old.load("scans")
    assert store.tell([Answer(question_id="q2", value="a")]).new == 1


def test_every_table_is_copied_or_named_as_one_that_stays():
    of_campaigns = {one.name for one in tables.METADATA.sorted_tables if "campaign" in one.c}
    assert of_campaigns - moves.NOT_COPIED == {one.name for one in moves._tables()}
    others = {one.name for one in tables.METADATA.sorted_tables} - of_campaigns
    assert others == {"migrations", "campaigns", "commits"}, (
        "a table without a campaign: decide whether it goes with one"
    )


def run(*words):
    import json

    done = CliRunner().invoke(app, ["storage", *map(str, words), "--json"], catch_exceptions=False)
    return json.loads(done.stdout)


def test_the_verbs(old, tmp_path):
    place = old.path
    assert run("show", place)["campaigns"] == [{"name": "scans", "simulation": False, "state": "in use"}]
    assert run("upgrade", place) == {
        "format": "discreet.storage-upgrade/1",
        "simulation": False,
        "audience": "owner",
        "steps": [],
    }
    assert run("copy", place, tmp_path / "backup.db", "--backup")["campaigns"][0]["backup"] is True
    made = run("copy", place, tmp_path / "moved.db", "--campaign", "scans")
    assert made["format"] == "discreet.storage-copy/1"
    assert made["campaigns"][0]["ledger_lines"] == 2
    states = [run("show", tmp_path / name)["campaigns"][0]["state"] for name in ("old.db", "backup.db", "moved.db")]
    assert states == ["moved", "backup", "in use"]
    assert run("abandon", tmp_path / "moved.db")["campaigns"] == []
