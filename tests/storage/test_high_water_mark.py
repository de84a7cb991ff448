"""The high-water mark of a campaign's ledger: a store that lost charges, or was restored from a backup, is refused."""

import errno
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from discreet.api import create_campaign, load_campaign
from discreet.config import CampaignConfig
from discreet.errors import InvalidLedger, LedgerUnavailable, StoreUnavailable
from discreet.noise import OperatingSystem, SealedPhase, laplace
from discreet.pools import ArrayPool
from discreet.privacy.budget import Budget
from discreet.privacy.events import Laplace
from discreet.privacy.ledger import Ledger, adaptive
from discreet.privacy.ledger.high_water_mark import HighWaterMark
from discreet.recipes import private_pool
from discreet.recipes.verification import verify_campaign
from discreet.storage import StoreSink, open_storage
from discreet.storage.moves import abandon_move, copy_campaign

pytestmark = pytest.mark.thorough

COUNT = Laplace(epsilon="0.1")
CLASSES = ("a", "b")


def begun(storage, name="scans"):
    store = storage.create(name, config={}, simulation=False)
    Ledger.create(store.sink(), adaptive(Budget(epsilon=9, delta="1e-6")), source=OperatingSystem()).close()
    return store


def charge(store, why="count"):
    with Ledger.open(store.sink(), source=OperatingSystem()) as ledger:
        ledger.charge(event=COUNT, who="pool", why=why)


def mark_of(store):
    return HighWaterMark(store.mark)


def copied(source, target):
    """A store as it is on the disk at this moment: the file, its log and its directory."""
    target.mkdir()
    for path in source.parent.glob(f"{source.name}*"):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, target / path.name)
    return target / source.name


def flip(path, needle, *, last=False):
    """One bit, in the first or last occurrence of ``needle``."""
    data = bytearray(path.read_bytes())
    place = data.rfind(needle) if last else data.find(needle)
    assert place >= 0
    data[place] ^= 1
    path.write_bytes(data)


# -- a whole campaign


def campaign_in(tmp_path):
    rows = np.random.default_rng(1).normal(size=(120, 3)).astype(np.float32)
    pool = ArrayPool(ids=[f"r{number}" for number in range(120)], x=rows)
    recipe = private_pool(
        classes=CLASSES,
        initial=40,
        queries=[20],
        batch=20,
        epochs=1,
        plan={"accountant": "rdp"},
        trainer={"learning_rate": 1.0, "engine": "reference"},
    )
    made = create_campaign(
        "small", storage=tmp_path / "c.db", pool=pool, budget={"epsilon": "8", "delta": "1e-4"}, recipe=recipe
    )
    return made, pool


def config_of(campaign, place):
    form = dict(campaign.store.config["config"])
    return CampaignConfig.from_json({**form, "storage": {"url": str(place)}}, directory=place.parent)


def test_one_flipped_bit_in_the_log_does_not_bring_a_charge_back(tmp_path):
    campaign, pool = campaign_in(tmp_path)
    campaign.tell({one.id: CLASSES[len(one.record) % 2] for one in campaign.ask()})
    campaign.train()
    assert campaign.state.phase == 1
    crashed = copied(tmp_path / "c.db", tmp_path / "crashed")  # before the log is written back
    config = config_of(campaign, crashed)
    assert load_campaign("small", storage=crashed, pool=pool).state.phase == 1
    damaged = copied(tmp_path / "c.db", tmp_path / "damaged")
    flip(damaged.with_name("c.db-wal"), b'"purpose":"training')
    config = config_of(campaign, damaged)
    with open_storage(damaged) as storage:
        lines = storage.load("small").sink().compared().lines
        assert len(lines) == 1, "the charge is gone, and what is left is whole by itself"
    again = load_campaign("small", storage=damaged, pool=pool)
    with pytest.raises(InvalidLedger, match=r"it has 1 lines, and ledger\.mark says that it had 3"):
        again.train()
    verdict = verify_campaign(config)
    assert "mark" in [one.name for one in verdict.checks if not one.ok]


# -- a store


@pytest.fixture
def storage(tmp_path):
    with open_storage(tmp_path / "c.db") as opened:
        yield opened


def test_a_restored_backup_is_recognised(storage, tmp_path):
    store = begun(storage)
    charge(store)
    older = copied(tmp_path / "c.db", tmp_path / "older")
    charge(store)
    restored = tmp_path / "restored"
    copied(older, restored)
    shutil.rmtree(restored / "c.db.files")
    shutil.copytree(tmp_path / "c.db.files", restored / "c.db.files")  # the database alone was restored
    with open_storage(restored / "c.db") as other:
        with pytest.raises(InvalidLedger, match="restored backup"):
            charge(other.load("scans"))
        assert mark_of(other.load("scans")).read().lines == 3, "a mark never moves back"


def test_another_history_of_the_same_length_is_recognised(storage, tmp_path):
    store = begun(storage)
    older = copied(tmp_path / "c.db", tmp_path / "older")
    charge(store, "one")
    with open_storage(older) as other:
        charge(other.load("scans"), "another")
        shutil.copy(mark_of(store).path, mark_of(other.load("scans")).path)
        with pytest.raises(InvalidLedger, match="line 2 is not the one"):
            charge(other.load("scans"))


@pytest.mark.parametrize("lines", [1, 2])
def test_without_its_mark_nothing_is_charged(storage, lines):
    store = begun(storage)
    for _ in range(lines - 1):
        charge(store)
    sink = store.sink()
    mark_of(store).path.unlink()
    with pytest.raises(InvalidLedger, match="is missing"):
        store.sink().read()
    with pytest.raises(InvalidLedger, match="is missing"):
        sink.append(lines, [b"line\n"])
    assert len(sink.compared().lines) == lines
    assert not mark_of(store).path.exists()


def test_all_lines_removed_are_missed(storage):
    store = begun(storage)
    from discreet.storage.tables import ledger_lines, ledger_marks

    with storage.database.writing("removing them") as connection:
        connection.execute(ledger_lines.delete())
        connection.execute(ledger_marks.delete())
    with pytest.raises(InvalidLedger, match="it has 0 lines"):
        Ledger.create(store.sink(), adaptive(Budget(epsilon=1, delta="1e-6")))


def test_the_mark_of_another_campaign_is_refused(storage):
    store, other = begun(storage), begun(storage, "others")
    charge(store)
    shutil.copy(mark_of(other).path, mark_of(store).path)
    with pytest.raises(InvalidLedger, match=r"not the one that ledger\.mark names|another ledger"):
        charge(store)


def test_an_old_copy_of_the_mark_is_refused(storage, tmp_path):
    store = begun(storage)
    shutil.copy(mark_of(store).path, tmp_path / "old.mark")
    for _ in range(3):
        charge(store)
    shutil.copy(tmp_path / "old.mark", mark_of(store).path)
    with pytest.raises(InvalidLedger, match="old copy"):
        charge(store)


def test_a_process_that_opened_the_ledger_before_a_rollback_cannot_go_on(storage, tmp_path):
    """Its lines are those of the rolled back database: only the mark tells."""
    store = begun(storage)
    older = copied(tmp_path / "c.db", tmp_path / "older")
    with open_storage(older) as other:
        ledger = Ledger.open(other.load("scans").sink(), source=OperatingSystem())
        charge(store)
        shutil.copy(mark_of(store).path, mark_of(other.load("scans")).path)
        with pytest.raises(InvalidLedger, match="charges are missing"):
            ledger.charge(event=COUNT, who="pool", why="count")


# -- a process that dies, and a disk that fails


def interrupted(monkeypatch, name, error):
    def failing(*_):
        raise error

    return monkeypatch.setattr(os, name, failing)


@pytest.mark.parametrize("name", ["pwrite", "fdatasync"])
def test_a_disk_that_takes_no_mark_gives_no_receipt(storage, monkeypatch, name, tmp_path):
    store = begun(storage)
    ledger = Ledger.open(store.sink(), source=OperatingSystem())
    receipts = []
    with monkeypatch.context() as patched:
        interrupted(patched, name, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(StoreUnavailable, match="disk is full"):
            receipts.append(ledger.charge(event=COUNT, who="pool", why="count"))
    assert not receipts
    with pytest.raises(LedgerUnavailable):
        ledger.charge(event=COUNT, who="pool", why="count")
    ledger.close()
    with Ledger.open(store.sink()) as again:
        assert len(again) == 1, "what was committed counts as spent"


def test_a_disk_that_takes_no_new_mark_creates_no_ledger(storage, monkeypatch):
    store = storage.create("scans", config={}, simulation=False)
    with monkeypatch.context() as patched:
        interrupted(patched, "link", OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(StoreUnavailable, match="disk is full"):
            Ledger.create(store.sink(), adaptive(Budget(epsilon=1, delta="1e-6")))
    assert store.sink().read() == []
    assert [path.name for path in store.directory.iterdir()] == ["rows.key"]


def phase_in(store, keys):
    with Ledger.open(store.sink(), source=OperatingSystem()) as ledger:
        phase = SealedPhase(ledger, phase=1, directory=keys)
        receipt = phase.charge(event=COUNT, who="pool", purpose="count")
        assert mark_of(store).read().lines == len(ledger) + 1, "a receipt, and the mark does not cover its line"
        return laplace(1.0, sensitivity=10.0, receipt=receipt)


def test_a_charge_without_its_mark_is_found_again_and_marked_before_it_is_drawn(storage, monkeypatch, tmp_path):
    store = begun(storage)
    keys = tmp_path / "keys"
    keys.mkdir()
    with monkeypatch.context() as patched:
        interrupted(patched, "pwrite", KeyboardInterrupt())  # committed, not marked
        with pytest.raises(KeyboardInterrupt):
            phase_in(store, keys)
    assert mark_of(store).read().lines == 1
    first = phase_in(store, keys)
    assert phase_in(store, keys) == first, "another draw for the same charge"
    assert len(store.sink().read()) == 2, "nobody pays twice"


def test_a_mark_that_was_written_and_not_synced_is_synced_before_a_draw(storage, monkeypatch, tmp_path):
    store = begun(storage)
    keys = tmp_path / "keys"
    keys.mkdir()
    with monkeypatch.context() as patched:
        interrupted(patched, "fdatasync", KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            phase_in(store, keys)
    assert mark_of(store).read().lines == 2, "as the system has it in its memory"
    synced, real = [], os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda file: synced.append(file) or real(file))
    phase_in(store, keys)
    assert len(synced) == 1


@pytest.mark.parametrize("cut", [0, 1, 100, 4095])
def test_a_torn_write_of_the_mark_leaves_the_one_before(storage, monkeypatch, cut):
    store = begun(storage)
    charge(store)
    real = os.pwrite

    def torn(file, data, place):
        real(file, data[:cut], place)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", torn)
        with pytest.raises(KeyboardInterrupt):
            charge(store)
    assert mark_of(store).read().lines == (3 if cut == 4095 else 2)  # but for spaces it was whole
    charge(store)
    assert mark_of(store).read().lines == len(store.sink().read()) == 4


def test_a_mark_that_is_damaged_in_both_places_is_refused(storage):
    store = begun(storage)
    charge(store)
    mark_of(store).path.write_bytes(b"\0" * 8192)
    with pytest.raises(InvalidLedger, match="damaged"):
        charge(store)


def test_a_mark_moves_forward_only(storage):
    store = begun(storage)
    charge(store)
    with mark_of(store).held() as mark, pytest.raises(InvalidLedger, match="never moves back"):
        mark.advance(1, b"line\n")
    again = mark_of(store).held(wait=0.05)
    with mark_of(store).held(), pytest.raises(LedgerUnavailable, match="another process"), again:
        pass


def test_reading_changes_nothing_and_needs_no_right_to_write(storage):
    store = begun(storage)
    charge(store)
    place = mark_of(store).path
    before = place.read_bytes(), place.stat().st_mtime_ns
    place.chmod(0o400)
    store.sink().read()
    assert (place.read_bytes(), place.stat().st_mtime_ns) == before


# -- stores that move, and hosts that share one


def test_a_mark_may_be_elsewhere_and_every_opening_must_name_it(tmp_path):
    marks = tmp_path / "marks"
    with pytest.raises(ValueError, match="Create or mount it"):
        open_storage(tmp_path / "c.db", mark=marks)
    marks.mkdir()
    with open_storage(tmp_path / "c.db", mark=marks) as storage:
        store = begun(storage)
        assert [one.name for one in marks.iterdir()] == [f"{store.id}.mark"]
    with open_storage(tmp_path / "c.db") as storage, pytest.raises(InvalidLedger, match="missing"):
        storage.load("scans").sink().read()


def test_a_move_carries_the_mark_and_retires_the_old_one(storage, tmp_path):
    store = begun(storage)
    charge(store)
    (store.directory / "manifest.key").write_text("made up")
    before = copied(tmp_path / "c.db", tmp_path / "before")
    marks = tmp_path / "marks"
    marks.mkdir()
    with open_storage(tmp_path / "new.db", mark=marks) as new:
        copy_campaign(storage, new, "scans")
        arrived = new.load("scans")
        assert mark_of(arrived).read().lines == 2
        charge(arrived)
    shutil.copy(mark_of(store).path, before.with_name("c.db.files") / store.id / "ledger.mark")
    with open_storage(before) as old, pytest.raises(InvalidLedger, match="moved to another store"):
        charge(old.load("scans"))


def test_a_move_that_is_taken_back_and_made_again_has_the_newest_mark(storage, tmp_path, monkeypatch):
    from discreet.storage import moves

    store = begun(storage)
    with open_storage(tmp_path / "new.db") as new:
        with monkeypatch.context() as patched:
            patched.setattr(moves, "leave", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                copy_campaign(storage, new, "scans")
        assert abandon_move(storage, new, "scans")
        charge(store)
        copy_campaign(storage, new, "scans")
        assert mark_of(new.load("scans")).read().lines == 2
        charge(new.load("scans"))


def test_a_rolled_back_store_is_not_moved(storage, tmp_path):
    store = begun(storage)
    older = copied(tmp_path / "c.db", tmp_path / "older")
    charge(store)
    with open_storage(older) as old, open_storage(tmp_path / "new.db") as new:
        shutil.copy(mark_of(store).path, mark_of(old.load("scans")).path)
        with pytest.raises(InvalidLedger, match="charges are missing"):
            copy_campaign(old, new, "scans")
        assert new.campaigns() == []


def test_a_backup_is_read_without_a_mark(storage, tmp_path):
    store = begun(storage)
    with open_storage(tmp_path / "backup.db") as backup:
        copy_campaign(storage, backup, "scans", backup=True)
        charge(store)
        found = backup.load("scans").sink().compared()
        assert (len(found.lines), found.refused) == (1, None)
        assert "backup" in found.note


def test_charging_in_turns_moves_one_mark(storage):
    """Two processes' sinks, one mark: each append sees the other's."""
    store = begun(storage)
    for number in range(6):
        charge(store, f"count {number}")
    other = StoreSink(replace(store))
    other.append(7, [b"line\n"])
    assert mark_of(store).read().lines == 8
