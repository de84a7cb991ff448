"""What must not be seen: passwords anywhere, keys in the database; and two hosts that share one."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.errors import BadInput, DiscreetError, InvalidLedger, InvalidStore
from discreet.storage import open_storage, tables

sys.path.insert(0, str(Path(__file__).parents[1] / "campaign"))

from loop_parts import Counting, Stopped, pool_of

from discreet.campaign import Campaign
from discreet.campaign.crash_recovery import ASK, charging
from discreet.campaign.recipe import unwatched
from discreet.noise import OperatingSystem
from discreet.noise.keys import write_secret
from discreet.privacy.budget import Budget
from discreet.privacy.events import Laplace
from discreet.privacy.ledger import Ledger, adaptive
from discreet.recipes.opening import finish

pytestmark = pytest.mark.integration

PASSWORD = "correct-horse-battery"


@pytest.fixture
def guarded(server, url, monkeypatch):
    """An address of a role that needs a password."""
    for name in ("PGPASSWORD", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)
    name = url.partition("@/")[2].partition("?")[0]
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all guarded scram-sha-256\n{before}")
    with server.admin() as admin:
        admin.execute(f"create role guarded login password '{PASSWORD}'")
        admin.execute(f"alter database {name} owner to guarded")
        admin.execute("select pg_reload_conf()")
    yield url.replace("discreet@", "guarded@")
    rules.write_text(before)
    with server.admin() as admin:
        admin.execute(f"alter database {name} owner to discreet")
        admin.execute("select pg_reload_conf()")
    with server.admin() as admin:
        admin.execute(f"drop database {name} with (force)")
        admin.execute("drop role guarded")
        admin.execute(f"create database {name}")


def shown(storage):
    """All that could be printed of a store."""
    store = storage.load("scans")
    engine = storage.database._engine
    parts = (
        storage,
        storage.url,
        store,
        store,
        store.database.dialect,
        engine,
        engine.url,
        vars(storage),
    )
    return " ".join(map(repr, parts))


def test_a_password_is_given_aside_and_never_shown(guarded, tmp_path, monkeypatch, caplog):
    for password, fact in (("", "password"), ("wrong-" + PASSWORD, "by this password")):
        monkeypatch.setenv("PGPASSWORD", password)
        with pytest.raises(BadInput, match=fact) as caught:
            open_storage(guarded, directory=tmp_path)
        assert PASSWORD not in str(caught.value)
        assert caught.value.__cause__ is None
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with open_storage(guarded, directory=tmp_path) as storage:
        storage.create("scans", config={"storage": {"url": storage.url}}, simulation=False)
        assert PASSWORD not in shown(storage)
    monkeypatch.delenv("PGPASSWORD")
    file = tmp_path / "passwords"
    file.write_text(f"*:*:*:guarded:{PASSWORD}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    with open_storage(guarded, directory=tmp_path) as storage:
        with storage.database.reading("looking") as connection:
            stored = connection.execute(tables.campaigns.select()).all()
        assert PASSWORD not in str(stored)
        assert PASSWORD not in shown(storage)
    assert PASSWORD not in caplog.text


def test_a_role_without_rights_and_names_that_are_not_there(server, url, tmp_path):
    with pytest.raises(BadInput, match="no such role"):
        open_storage(url.replace("discreet@", "nobody@"), directory=tmp_path)
    with pytest.raises(BadInput, match="no such database"):
        open_storage(url.replace("/campaigns", "/elsewhere"), directory=tmp_path)
    with server.admin() as admin:
        admin.execute("create role reader login")
    try:
        with pytest.raises(DiscreetError, match="this role may not"):
            open_storage(url.replace("discreet@", "reader@"), directory=tmp_path)
    finally:
        with server.admin() as admin:
            admin.execute("drop role reader")


# -- keys and files of several hosts


def campaign_on(url, directory, recipe, mark=None):
    storage = open_storage(url, directory=directory, mark=mark)
    if "loop" not in storage.campaigns():
        storage.create("loop", config={}, simulation=False)
    store, pool = storage.load("loop"), pool_of()
    finish(store, recipe, pool, None, unwatched)
    return Campaign(store, recipe=recipe, pool=pool)


def dumped(server, url):
    """Everything that a reader of the database could have."""
    name = url.partition("@/")[2].partition("?")[0]
    command = [server._bin / "pg_dump", "-h", server.place, "-U", "discreet", name]
    return subprocess.run(list(map(str, command)), capture_output=True, check=True).stdout.decode()


def answered(campaign):
    campaign.tell({one.id: "a" for one in campaign.ask()})


def test_no_key_is_ever_in_the_database(server, url, tmp_path):
    recipe = Counting(stops={"choosing"})
    campaign = campaign_on(url, tmp_path, recipe)
    answered(campaign)
    campaign.train()
    with pytest.raises(Stopped):
        campaign.ask()  # charged and drawn; the key of the step is there
    keys = sorted(campaign.store.directory.rglob("*.key"))
    assert {path.name.split("-")[0] for path in keys} == {
        *("manifest.key", "phase", "rows.key", "shards.key", "votes.key")
    }
    text = dumped(server, url)
    assert "COPY public.ledger_lines" in text
    for path in keys:
        key = json.loads(path.read_bytes())["key"]
        assert len(key) == 64
        assert key not in text
        assert path.name not in text


def test_a_step_that_was_cut_off_is_repeated_on_its_host_and_refused_elsewhere(url, tmp_path):
    recipe = Counting(stops={"choosing"})
    (tmp_path / "marks").mkdir()
    here = campaign_on(url, tmp_path / "here", recipe, tmp_path / "marks")
    answered(here)
    here.train()
    with pytest.raises(Stopped):
        here.ask()
    lines = len(here.store.sink().read())
    elsewhere = campaign_on(url, tmp_path / "elsewhere", Counting(), tmp_path / "marks")
    with pytest.raises(InvalidStore, match="keys that the campaign was created with are not on this host"):
        elsewhere.ask()
    for path in here.store.directory.glob("*.key"):
        shutil.copy(path, elsewhere.store.directory)
    with pytest.raises(InvalidStore, match="begun on another host"):
        elsewhere.ask()
    assert len(here.store.sink().read()) == lines
    here.ask()
    assert len(here.store.sink().read()) == lines, "the charge was found again"
    first, second = [drawn for purpose, phase, drawn in recipe.drawn if (purpose, phase) == ("choosing", 1)]
    assert first == second


def test_a_key_that_paid_for_nothing_does_not_begin_the_step_of_another_host_again(url, tmp_path):
    """Here a key was written and nothing charged; another host charged, and was cut off; then here again."""

    def step(store, *, charge, stop):
        with charging(store, 1, ASK, OperatingSystem()) as sealed:
            if charge:
                sealed.charge(event=Laplace(epsilon="0.2"), who="pool", purpose="selection")
            if stop:
                raise Stopped

    (tmp_path / "marks").mkdir()
    with (
        open_storage(url, directory=tmp_path / "here", mark=tmp_path / "marks") as one,
        open_storage(url, directory=tmp_path / "there", mark=tmp_path / "marks") as other,
    ):
        here = one.create("scans", config={}, simulation=False)
        there = other.load("scans")
        Ledger.create(here.sink(), adaptive(Budget(epsilon=1, delta="1e-6")), source=OperatingSystem()).close()
        for store in (here, there):
            write_secret(store.directory / "manifest.key", "manifest", key=b"m" * 32)
        with pytest.raises(Stopped):
            step(here, charge=False, stop=True)
        with pytest.raises(Stopped):
            step(there, charge=True, stop=True)
        lines = len(here.sink().read())
        with pytest.raises(InvalidStore, match="begun on another host"):
            step(here, charge=True, stop=False)
        assert len(here.sink().read()) == lines, "nobody pays twice"
        step(there, charge=True, stop=False)
        assert len(here.sink().read()) == lines, "the charge was found again"


def test_hosts_that_share_a_store_share_one_mark(url, tmp_path):
    def charge(store):
        with Ledger.open(store.sink(), source=OperatingSystem()) as ledger:
            ledger.charge(event=Laplace(epsilon="0.1"), who="pool", why="count")

    with open_storage(url, directory=tmp_path / "a") as one, open_storage(url, directory=tmp_path / "b") as two:
        here = one.create("scans", config={}, simulation=False)
        Ledger.create(here.sink(), adaptive(Budget(epsilon=1, delta="1e-6")), source=OperatingSystem()).close()
        there = two.load("scans")
        with pytest.raises(InvalidLedger, match=r"missing.*share one mark.*\[storage\] mark"):
            charge(there)
        shutil.copy(here.directory / "ledger.mark", there.directory)  # a second mark, which does not move any more
        charge(here)
        charge(here)
        with pytest.raises(InvalidLedger, match=r"old copy of the mark.*\[storage\] mark"):
            charge(there)
        (tmp_path / "marks").mkdir()
        shutil.copy(here.directory / "ledger.mark", tmp_path / "marks" / f"{here.id}.mark")
    shared = tmp_path / "marks"
    with (
        open_storage(url, directory=tmp_path / "a", mark=shared) as one,
        open_storage(url, directory=tmp_path / "b", mark=shared) as two,
    ):
        for storage in (one, two, one, two):
            charge(storage.load("scans"))
        assert len(two.load("scans").sink().read()) == 7


def test_files_come_to_other_hosts_and_go_when_they_are_replaced(url, tmp_path):
    content = bytes(range(256)) * 10_000
    with open_storage(url, directory=tmp_path / "a") as one, open_storage(url, directory=tmp_path / "b") as two:
        first = one.create("scans", config={}, simulation=False)
        name = first.keep_file("model", phase=0, data=content)
        second = two.load("scans")
        assert second.file("model", 0).read_bytes() == content
        assert tmp_path / "b" in second.file("model", 0).parents
        first.keep_file("model", phase=0, data=b"better", replace=True)
        assert second.file("model", 0).read_bytes() == b"better"
        assert (second.directory / "objects" / name).exists()
        two.load("scans")
        assert not (second.directory / "objects" / name).exists(), "a host drops copies that nothing names"
        with one.database.reading("looking") as connection:
            assert {row.sha256 for row in connection.execute(tables.file_pieces.select())} == {
                row.sha256 for row in connection.execute(tables.files.select())
            }


def test_a_file_that_was_changed_in_the_database_is_noticed(url, tmp_path):
    pieces = tables.file_pieces
    with open_storage(url, directory=tmp_path / "a") as one, open_storage(url, directory=tmp_path / "b") as two:
        one.create("scans", config={}, simulation=False).keep_file("model", phase=0, data=b"weights")
        with one.database.writing("changing it") as connection:
            connection.execute(pieces.update().values(piece=b"Weights"))
        with pytest.raises(InvalidStore, match="changed"):
            two.load("scans").file("model", 0)


def test_a_host_without_the_key_of_rows_stores_nothing_and_with_it_goes_on_with_the_chain(url, tmp_path):
    with (
        open_storage(url, directory=tmp_path / "here") as one,
        open_storage(url, directory=tmp_path / "there") as other,
    ):
        here = one.create("scans", config={}, simulation=False)
        there = other.load("scans")
        here.record("created", phase=0)
        with pytest.raises(InvalidStore, match=r"rows\.key"):
            there.record("trained", phase=0)
        assert [step.kind for step in here.transitions()] == ["created"]
        assert there.check_rows().state == "no key"
        shutil.copy(here.directory / "rows.key", there.directory)
        there.record("trained", phase=0)
        here.record("trained", phase=1)
        for store in (here, there):
            found = store.check_rows()
            assert (found.state, found.wrong, found.chain) == ("covered", (), True)
