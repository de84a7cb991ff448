"""The store in PostgreSQL, with a real server: its contract, kills, connections that are lost at the worst moment."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cutting_proxy import AFTER, BEFORE, CuttingProxy
from sqlalchemy import select, text

from discreet.errors import InvalidStore, LedgerUnavailable, StoreUnavailable
from discreet.records import Answer, Question
from discreet.storage import database, open_storage, tables, upgrade_storage
from discreet.storage import postgres_transactions as transactions
from discreet.storage.postgres import PostgresDatabase
from discreet.storage.postgres_transactions import Transaction
from discreet.storage.tables import campaigns
from discreet.testing import check_storage
from discreet.testing.processes import check_turns

pytestmark = pytest.mark.integration

KILLS = Path(__file__).parents[1] / "storage" / "storage_kills.py"


def told(store, value="a", who="ann"):
    return store.tell([Answer(question_id="q0", value=value, annotator=who)])


def test_the_store_keeps_its_contract(url, tmp_path):
    check_storage(lambda: open_storage(url, directory=tmp_path))


def killed(tmp_path, url, kills):
    done = subprocess.run([sys.executable, str(KILLS), str(tmp_path), str(kills), url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{kills} kills")


def test_thirty_processes_killed_at_random_moments(tmp_path, url):
    killed(tmp_path, url, 30)


@pytest.mark.long
def test_five_hundred_processes_killed_at_random_moments(tmp_path, url):
    killed(tmp_path, url, 500)


CAMPAIGNS = KILLS.parents[1] / "crash" / "campaign_kills.py"


def campaigns_killed(server, tmp_path, kills):
    """Whole campaigns, simulated and not: they go on, and end as if nothing had happened."""
    command = [sys.executable, "-W", "error", str(CAMPAIGNS), "random", str(tmp_path), str(kills)]
    told = {**os.environ, "DISCREET_KILLS_SERVER": str(server.place)}
    done = subprocess.run(command, capture_output=True, text=True, env=told)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[0])


def test_campaigns_killed_at_random_moments(server, tmp_path):
    assert campaigns_killed(server, tmp_path, 54) == 54


@pytest.mark.long
def test_campaigns_killed_at_many_random_moments(server, tmp_path):
    assert campaigns_killed(server, tmp_path, 360) == 360


# -- connections that are lost


def test_a_server_that_was_started_again_between_two_verbs_is_not_noticed(server, store):
    told(store)
    server.restart("fast")
    assert told(store, "b").corrected == 1
    server.restart("immediate")
    assert [answer.value for answer, _ in store.history("q0")] == ["a", "b"]


def test_a_server_that_is_down_for_a_while_is_waited_for(server, store):
    server.stop("immediate")
    threading.Timer(1.0, server.start).start()
    assert told(store).new == 1


def test_patience_ends_and_says_what_is_so(server, url, tmp_path):
    with open_storage(url, directory=tmp_path, patience=0.5) as storage:
        server.stop("fast")
        try:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
                storage.campaigns()
            assert 0.5 <= time.monotonic() - began < 20
            assert str(server.place) not in str(caught.value)
        finally:
            server.start()
        assert storage.campaigns() == []


@pytest.fixture
def proxied(server, url, store, tmp_path_factory):
    """The same store, by connections that can be cut."""
    place = tmp_path_factory.mktemp("proxy")
    proxy = CuttingProxy(server.place, place)
    address = url.replace(f"host={server.place}", f"host={place}")
    with open_storage(address, directory=store.directory.parent, patience=5.0) as storage:
        yield proxy, storage.load("scans")
    proxy.close()


def both_ways(proxy, other):
    """Lines and answers whose COMMIT is cut off, in both ways; what is there afterwards."""
    sink = other.sink()
    for number, mode in enumerate((BEFORE, AFTER)):
        proxy.cut(mode)
        sink.append(number, [b"line %d\n" % number])
        proxy.cut(mode)
        told(other, value=f"v{number}")
    assert proxy.cuts == 4
    return sink.read(), [answer.value for answer, _ in other.history("q0")]


def test_a_commit_that_was_cut_off_is_looked_for_neither_doubled_nor_lost(proxied, store):
    assert both_ways(*proxied) == ([b"line 0\n", b"line 1\n"], ["v0", "v1"])
    assert store.sink().read() == [b"line 0\n", b"line 1\n"]


@pytest.mark.parametrize("assumed", ["committed", "aborted"])
def test_an_assumption_in_place_of_the_look_is_caught(proxied, store, monkeypatch, assumed):
    """What the test above would find: hidden lines, or a charge that is refused because it is there."""
    monkeypatch.setattr(Transaction, "_became", lambda self: assumed)
    try:
        found = both_ways(*proxied)
    except LedgerUnavailable:
        found = None
    assert found != ([b"line 0\n", b"line 1\n"], ["v0", "v1"])


def test_a_number_that_a_crashed_server_gives_again_is_not_believed(server, url, store, monkeypatch):
    """The server stops before the log of the charge is written; then somebody else's transaction gets its number."""
    import psycopg

    sink, real = store.sink(), Transaction._commit
    repeated = []

    def crashing(self):
        lost = int(self._connection.exec_driver_sql("select pg_current_xact_id()::text").scalar())
        server.restart("immediate")
        next_number = 0
        while next_number < lost:
            with psycopg.connect(url) as other:
                next_number = int(other.execute("select pg_current_xact_id()::text").fetchone()[0])
        repeated.append(next_number == lost)  # not if the log of the number was written before the stop
        if repeated[-1] or len(repeated) == 10:
            monkeypatch.setattr(Transaction, "_commit", real)
        real(self)

    monkeypatch.setattr(Transaction, "_commit", crashing)
    sink.append(0, [b"line\n"])
    assert repeated[-1], "the attack needs the same number"
    assert store.sink().read() == [b"line\n"], "a charge that was confirmed is stored"


def test_a_lost_transaction_that_is_not_over_is_not_called_undone(server, store, monkeypatch):
    """Its row is waited for; an error of the look is no answer."""
    monkeypatch.setattr(transactions, "patience_of", lambda seconds: {"patience": "200ms"})
    became = []

    def looking(self):
        became.append(self._became())
        raise StoreUnavailable("looking", "this is a test", "Go on")

    monkeypatch.setattr(Transaction, "_commit", looking)
    with pytest.raises(StoreUnavailable, match="this is a test"):
        store.sink().append(0, [b"line\n"])
    assert became == [None]


def test_rows_of_connections_that_are_long_gone_are_removed(url, store, tmp_path):
    def rows():
        with store.reading("looking") as connection:
            return set(connection.exec_driver_sql("select session from commits").scalars())

    with store.writing("aging") as connection:
        connection.exec_driver_sql("insert into commits values ('old', 'x', '2001-01-01T00:00:00')")
    before = rows()
    told(store)
    assert "old" in rows() == before, "a connection has one row"
    with open_storage(url, directory=store.directory.parent) as another:
        told(another.load("scans"), "b")
    assert before - rows() == {"old"}


def test_what_nobody_can_tell_is_said_and_the_ledger_must_be_read_again(proxied, store):
    proxy, other = proxied
    sink = other.sink()
    proxy.cut(AFTER, then_closed=True)
    with pytest.raises(StoreUnavailable, match="cannot tell what became of it"):
        sink.append(0, [b"line\n"])
    proxy.closed = False
    with pytest.raises(LedgerUnavailable, match="may not have landed"):
        sink.append(0, [b"line\n"])
    assert other.sink().read() == [b"line\n"]


def test_on_another_timeline_nobody_claims_to_know(proxied, monkeypatch):
    """A replica that was promoted may have given the number to somebody else."""
    proxy, other = proxied
    begin = str(transactions._BEGIN).replace("(SELECT system_id", "'1' || (SELECT system_id")
    monkeypatch.setattr(transactions, "_BEGIN", transactions.text(begin))
    proxy.cut(AFTER)
    with pytest.raises(StoreUnavailable, match="cannot tell"):
        told(other)


# -- turns


HOLDER = """
import sys
from discreet.storage import open_storage
with open_storage(sys.argv[1], directory=sys.argv[2]).load("scans").exclusive("working", wait=20.0):
    print("holding", flush=True)
    sys.stdin.read()
"""


def end_sessions(server, url):
    """As the network or an administrator may."""
    name = url.partition("@/")[2].partition("?")[0]
    with server.admin() as admin:
        admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))


def in_vain(store):
    """Everything that a step charges and publishes."""
    new = Question(id="new", record="r3", phase=1, place=0)
    return {
        "charge": lambda: store.sink().append(0, [b"line\n"]),
        "publish": lambda: store.publish(1, [new]),
        "keep": lambda: store.keep_file("model", phase=0, data=b"weights"),
        "record": lambda: store.record("trained", phase=0),
    }


def after_a_lost_turn(server, url, store, tmp_path):
    """What a process could still do whose turn another one, on another host, has."""
    done = []
    with store.exclusive("working"):
        store.record("begun", phase=0)
        end_sessions(server, url)
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, url, str(tmp_path / "elsewhere")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert holder.stdout.readline() == b"holding\n"
            for name, act in in_vain(store).items():
                try:
                    act()
                    done.append(name)
                except StoreUnavailable as error:
                    assert "turn" in str(error)
            assert len(store.ids()) == 4  # who only reads may
        finally:
            holder.stdin.close()
            holder.wait()
            holder.stdout.close()
    return done


def test_who_lost_the_turn_charges_and_publishes_nothing(server, url, store, tmp_path):
    assert after_a_lost_turn(server, url, store, tmp_path) == []
    assert store.sink().read() == []
    assert len(store.questions()) == 3
    assert store.files() == []
    with store.exclusive("working"):
        assert store.record("trained", phase=0).number == 2  # again, in a turn of its own


def test_a_turn_without_a_fence_would_have_charged(server, url, store, tmp_path, monkeypatch):
    monkeypatch.setattr(PostgresDatabase, "session", lambda self: None)
    assert after_a_lost_turn(server, url, store, tmp_path) == ["charge", "publish", "keep", "record"]


def test_a_restart_ends_every_turn(server, store):
    with store.exclusive("working"):
        server.restart("immediate")
        with pytest.raises(StoreUnavailable, match="turn was lost"):
            store.record("begun", phase=0)
        assert told_by_another_thread(store).new == 1  # answers are taken meanwhile
    with store.exclusive("working"):
        store.record("begun", phase=0)


def told_by_another_thread(store):
    found = []
    thread = threading.Thread(target=lambda: found.append(told(store)))
    thread.start()
    thread.join()
    return found[0]


def test_a_pooler_that_hands_out_other_backends_is_noticed(store):
    with store.exclusive("working"):
        session = store.database.dialect.session()
        with session._connection.begin():
            session._connection.exec_driver_sql("select pg_advisory_unlock_all()")
        with pytest.raises(StoreUnavailable, match="pooler"):
            store.record("begun", phase=0)


def test_two_purposes_in_one_block_are_one_connection(store):
    with store.exclusive("working"), store.exclusive("asking"):
        store.record("begun", phase=0)
        assert len(store.database.dialect.session()._held) == 2
    assert store.database.dialect.session() is None


# -- what a server must be


def test_a_server_that_may_forget_is_refused_for_all_but_simulations(server, storage, store):
    server.restart("fast", fsync="off")
    try:
        with pytest.raises(StoreUnavailable, match="fsync off"):
            store.sink().append(0, [b"line\n"])
        with pytest.raises(StoreUnavailable, match="fsync off"):
            storage.create("other", config={}, simulation=False)
        storage.create("simulated", config={}, simulation=True).sink().append(0, [b"line\n"])
    finally:
        server.restart("fast")
    store.sink().append(0, [b"line\n"])


def test_commits_wait_for_the_disk_whatever_the_role_says(server, url, store):
    name = url.partition("@/")[2].partition("?")[0]
    with server.admin() as admin:
        admin.execute(f"alter database {name} set synchronous_commit = off")
    end_sessions(server, url)
    with store.writing("looking") as connection:
        assert connection.exec_driver_sql("show synchronous_commit").scalar() == "on"
        assert connection.exec_driver_sql("show transaction_isolation").scalar() == "read committed"
    with store.reading("looking") as connection:
        assert connection.exec_driver_sql("show transaction_isolation").scalar() == "repeatable read"


def test_a_server_that_takes_no_writes(server, url, store):
    name = url.partition("@/")[2].partition("?")[0]
    with server.admin() as admin:
        admin.execute(f"alter database {name} set default_transaction_read_only = on")
    end_sessions(server, url)
    assert store.ids() == ["r0", "r1", "r2", "r3"]
    told(store)  # each writer says that it writes
    with server.admin() as admin:
        admin.execute(f"alter database {name} reset default_transaction_read_only")


def test_a_lock_is_waited_for_as_long_as_the_store_is_patient(url, store, tmp_path):
    with open_storage(url, directory=tmp_path, patience=0.2) as hasty:
        other = hasty.load("scans")
        with store.writing("holding"):
            with pytest.raises(StoreUnavailable, match="another process is writing"):
                told(other)
            assert len(other.ids()) == 4


# -- tables


def m998_planted(connection):
    """What a later schema may do."""
    connection.execute(text("alter table answers add column confidence integer"))


def test_an_older_database_is_upgraded_by_its_own_verb_when_nobody_uses_it(url, tmp_path, monkeypatch):
    older = open_storage(url, directory=tmp_path)
    assert older.campaigns() == []
    monkeypatch.setattr(tables, "MIGRATIONS", (*tables.MIGRATIONS, m998_planted))
    with pytest.raises(InvalidStore, match="behind this version"):
        open_storage(url, directory=tmp_path)
    with pytest.raises(StoreUnavailable, match="other processes use it"):
        upgrade_storage(url)
    older.close()
    assert upgrade_storage(url) == ["m998_planted"]
    assert upgrade_storage(url) == []
    open_storage(url, directory=tmp_path).close()


def test_processes_that_open_an_empty_database_at_once_make_its_tables_once(url, tmp_path):
    code = "import sys; from discreet.storage import open_storage; open_storage(sys.argv[1], directory=sys.argv[2])"
    command = [sys.executable, "-c", code, url, str(tmp_path)]
    children = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    assert [child.communicate()[1] for child in children] == [b""] * 4
    assert [child.returncode for child in children] == [0] * 4


def test_somebody_elses_database_is_left_alone(server, url, tmp_path):
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table recipes (title text)")
    with pytest.raises(InvalidStore, match="something else"):
        open_storage(url, directory=tmp_path)


def test_writers_without_the_lock_of_their_campaign_are_caught(url, tmp_path, monkeypatch):
    """What the contract's turns would find: two who end one log at once."""
    monkeypatch.setattr(database, "_ALONE", select(campaigns.c.number).where(campaigns.c.number == database.CAMPAIGN))
    with pytest.raises(AssertionError, match="two processes"):
        check_turns(lambda: open_storage(url, directory=tmp_path), each=400)
