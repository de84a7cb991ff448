"""Redis Streams, with a real server: every record is decided exactly once in the durable output, whatever is killed."""

import json
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from redis_server import Server

from discreet.config import StreamConfig, example
from discreet.errors import BadInput, InvalidStore, StoreUnavailable
from discreet.storage.stream_store import StreamStore
from discreet.stream.redis_streams import Names, RedisStreams
from discreet.stream.runner import catch_up, run_redis
from discreet.stream.service import StreamService
from discreet.stream.stream_directory import verify_stream

pytestmark = pytest.mark.integration
NAMES = Names(records="payments", labels="payments:labels", decisions="payments:decisions", group="discreet")
TEXT = example("stream").replace("low = 0.02", "low = 0.05")
SEEDED = TEXT.replace("# [simulation]", "[simulation]").replace("# seed = 0", "seed = 4")


@pytest.fixture
def server(tmp_path):
    (tmp_path / "redis").mkdir()
    running = Server(tmp_path / "redis")
    yield running
    running.stop()


def record(number):
    chance = random.Random(number)
    fraud = chance.random() < 0.3
    fields = {"id": f"p{number}", "amount": chance.gauss(150 if fraud else 20, 40), "hour": 12.0, "country": "de"}
    return fields, "fraud" if fraud else "ok"


def send(client, numbers, stream="payments"):
    numbers = list(numbers)
    for start in range(0, len(numbers), 5000):
        pipe = client.pipeline(transaction=False)
        for number in numbers[start : start + 5000]:
            pipe.xadd(stream, {"json": json.dumps(record(number)[0])})
        pipe.execute()


def decided(client):
    return [json.loads(fields[b"json"]) for _, fields in client.xrange("payments:decisions")]


def consumer(place, server, *, idle=2.0):
    command = [sys.executable, "-m", "discreet", "stream", "pay.toml", "--redis", server.url, "--json"]
    return subprocess.Popen(
        [*command, "--idle", str(idle)], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


class Labeller(threading.Thread):
    """Somebody who answers every question, from the output, by a group of their own; and stops when told to."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.done, self.asked = client, threading.Event(), 0
        client.xgroup_create("payments:decisions", "people", id="0", mkstream=True)

    def run(self):
        streams = {"payments:decisions": ">"}
        while not self.done.is_set():
            answer = self.client.xreadgroup("people", "one", streams, count=1000, block=100)
            rows = list(answer.items()) if isinstance(answer, dict) else answer
            pipe = self.client.pipeline(transaction=False)
            for _, entries in rows or []:
                for entry, fields in entries[0] if entries and isinstance(entries[0], list) else entries:
                    one = json.loads(fields[b"json"])
                    if one["asked"]:
                        self.asked += 1
                        label = {"id": one["id"], "label": record(int(one["id"][1:]))[1]}
                        pipe.xadd("payments:labels", {"json": json.dumps(label)})
                    pipe.xack("payments:decisions", "people", entry)
            pipe.execute()


def killed_three_times(place, server, count):
    """Sent before and while it is read; killed when a quarter, a half and three quarters are in the output."""
    (place / "pay.toml").write_text(TEXT.replace("[service]", "[service]\nbatch = 256"))
    client = server.client()
    people = Labeller(server.client())
    people.start()
    send(client, range(count // 2))
    sender = threading.Thread(target=send, args=(server.client(), range(count // 2, count)))
    sender.start()
    kills = 0
    for quarter in (1, 2, 3):
        running = consumer(place, server)
        while running.poll() is None and client.xlen("payments:decisions") < quarter * count // 4:
            time.sleep(0.001)
        assert running.poll() is None, running.communicate()[1]
        running.send_signal(signal.SIGKILL)
        running.communicate()
        kills += 1
    sender.join()
    running = consumer(place, server, idle=5.0)
    out, err = running.communicate()
    people.done.set()
    people.join()
    assert running.returncode == 0, err
    return client, json.loads(out), people.asked, kills


def check_whole(place, client, summary, asked, count):
    output = decided(client)
    assert len(output) == count
    assert {one["id"] for one in output} == {f"p{number}" for number in range(count)}
    assert [one["place"] for one in output] == list(range(1, count + 1))
    config = StreamConfig.from_text(TEXT, directory=place)
    store = StreamStore(config.directory / "journal.db")
    journal = []
    while rows := store.decisions_after(len(journal), most=10_000):
        journal += rows
    assert journal == [(one["place"], one["id"], int(one["asked"])) for one in output]
    store.close()
    for stream in ("payments", "payments:labels"):
        (group,) = client.xinfo_groups(stream)
        assert (group["pending"], group["lag"]) == (0, 0)
    assert summary["arrived"] == count
    assert summary["asked"] == summary["labelled"] == asked == sum(one["asked"] for one in output)
    assert summary["model"] in (asked // 10, asked // 10 - (asked % 10 == 0))  # the last update waits for a record
    assert verify_stream(config).ok


def test_every_record_is_decided_once_though_the_consumer_is_killed(tmp_path, server):
    client, summary, asked, kills = killed_three_times(tmp_path, server, 10_000)
    assert kills == 3
    check_whole(tmp_path, client, summary, asked, 10_000)


@pytest.mark.long
def test_a_million_records_are_decided_once_though_the_consumer_is_killed(tmp_path, server):
    began = time.monotonic()
    client, summary, asked, kills = killed_three_times(tmp_path, server, 1_000_000)
    assert kills == 3
    check_whole(tmp_path, client, summary, asked, 1_000_000)
    print(f"10^6 records in {time.monotonic() - began:.0f} s; the last life: {summary['this_run']}")


def run_to_the_end(place, server, *, idle=0.3, text=SEEDED):
    with StreamService(StreamConfig.from_text(text, directory=place)) as service:
        streams = RedisStreams(server.url, NAMES, most_waiting=service.config.redis.most_waiting)
        try:
            return run_redis(service, streams, idle=idle), service.counts()
        finally:
            streams.close()


def test_it_decides_as_lines_do(tmp_path, server):
    from discreet.stream.lines import FileOutlet, LineReader
    from discreet.stream.runner import run_lines

    send(server.client(), range(300))
    run_to_the_end(tmp_path / "redis", server)
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(record(number)[0]) + "\n" for number in range(300)))
    with StreamService(StreamConfig.from_text(SEEDED, directory=tmp_path)) as service:
        outlet = FileOutlet(tmp_path / "out.jsonl")
        run_lines(service, LineReader.of(tmp_path / "lines.jsonl"), outlet)
        outlet.close()
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == decided(server.client())


def test_what_a_dead_consumer_took_is_claimed_before_anything_new(tmp_path, server):
    client = server.client()
    send(client, range(50))
    client.xgroup_create("payments", "discreet", id="0")
    client.xreadgroup("discreet", "dead", {"payments": ">"}, count=30)
    passed, _ = run_to_the_end(tmp_path, server)
    assert passed.records == 50
    assert [one["id"] for one in decided(client)] == [f"p{number}" for number in range(50)]
    assert [one["name"] for one in client.xinfo_consumers("payments", "discreet")] != [b"dead"]


def test_an_id_that_is_delivered_again_is_decided_once(tmp_path, server):
    client = server.client()
    send(client, [1, 2, 1])
    run_to_the_end(tmp_path, server)
    send(client, [2, 3])
    passed, _ = run_to_the_end(tmp_path, server)
    assert (passed.records, passed.repeated) == (1, 1)
    assert [one["id"] for one in decided(client)] == ["p1", "p2", "p3"]


def test_decisions_that_were_durable_and_not_written_are_written_later(tmp_path, server):
    """Killed between the journal and Redis: the output is brought up to date, and the entries are acknowledged."""
    client = server.client()
    send(client, range(40))
    with StreamService(StreamConfig.from_text(SEEDED, directory=tmp_path)) as service:
        streams = RedisStreams(server.url, NAMES, most_waiting=100)
        delivered = streams.take(25, wait=0.1)
        service.take([service.form.read(one.line) for one in delivered])
        streams.close()
    assert client.xlen("payments:decisions") == 0
    passed, _ = run_to_the_end(tmp_path, server)
    assert (passed.records, passed.repeated) == (15, 25)
    assert [one["place"] for one in decided(client)] == list(range(1, 41))
    assert client.xinfo_groups("payments")[0]["pending"] == 0


def test_the_server_itself_refuses_a_second_decision(tmp_path, server):
    streams = RedisStreams(server.url, NAMES, most_waiting=100)
    streams.emit([(1, "p1", 0), (2, "p2", 1)])
    with pytest.raises(StoreUnavailable, match="the server refused"):
        streams.emit([(2, "p2", 0)])
    assert [one["asked"] for one in decided(server.client())] == [False, True]


def test_an_old_copy_of_the_journal_is_refused(tmp_path, server):
    send(server.client(), range(20))
    run_to_the_end(tmp_path, server)
    with StreamService(StreamConfig.from_text(SEEDED, directory=tmp_path / "other")) as service:
        streams = RedisStreams(server.url, NAMES, most_waiting=100)
        with pytest.raises(InvalidStore, match="old copy"):
            catch_up(service, streams)


def test_entries_that_are_no_lines_of_ours_are_set_aside_without_their_content(tmp_path, server):
    client = server.client()
    send(client, [1])
    client.xadd("payments", {"json": "SECRET not json"})
    client.xadd("payments", {"other": "SECRET"})
    client.xadd("payments:labels", {"json": json.dumps({"id": "p1", "label": "SECRET"})})
    send(client, [2])
    passed, _ = run_to_the_end(tmp_path, server)
    assert (passed.records, passed.malformed) == (2, 3)
    refused = client.xrange("payments:decisions:refused")
    assert len(refused) == 3
    assert "SECRET" not in str(refused)
    assert client.xinfo_groups("payments")[0]["pending"] == 0


def test_labels_come_in_either_stream(tmp_path, server):
    client = server.client()
    text = (
        SEEDED.replace('name = "one-sided"', 'name = "everything"')
        .replace('asked = "1"', "")
        .replace("low =", "# low =")
    )
    send(client, range(20))
    for number in range(10):
        stream = "payments" if number % 2 else "payments:labels"
        client.xadd(stream, {"json": json.dumps({"id": f"p{number}", "label": record(number)[1]})})
    _, counts = run_to_the_end(tmp_path, server, text=text)
    assert (counts["asked"], counts["labelled"], counts["early"]) == (20, 10, 0)


def test_nothing_is_read_while_readers_of_decisions_are_behind(tmp_path, server):
    client = server.client()
    client.xgroup_create("payments:decisions", "people", id="0", mkstream=True)
    send(client, range(300))
    text = SEEDED.replace("[service]", "[service]\nbatch = 50").replace("# [redis]", "[redis]\nmost_waiting = 100")
    (tmp_path / "pay.toml").write_text(text)
    running = consumer(tmp_path, server, idle=1.0)
    try:
        deadline = time.monotonic() + 60
        while client.xlen("payments:decisions") < 100 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(1.0)
        assert client.xlen("payments:decisions") == 100  # and not one more
        assert running.poll() is None
        while running.poll() is None and time.monotonic() < deadline:
            taken = client.xreadgroup("people", "one", {"payments:decisions": ">"}, count=50, block=50, noack=True)
            assert taken is not None
        assert client.xlen("payments:decisions") == 300
    finally:
        running.kill()
        running.communicate()


def test_a_server_that_comes_back_is_gone_on_with(tmp_path, server):
    client = server.client()
    send(client, range(100))
    with StreamService(StreamConfig.from_text(SEEDED, directory=tmp_path)) as service:
        streams = RedisStreams(server.url, NAMES, most_waiting=10_000)
        done = []
        thread = threading.Thread(target=lambda: done.append(run_redis_here(service, streams)))
        while client.xlen("payments:decisions") < 100:
            if not thread.is_alive() and not done:
                thread.start()
            time.sleep(0.01)
        server.stop()
        time.sleep(0.3)
        server.start()
        send(server.client(), range(100, 200))
        thread.join(timeout=60)
        streams.close()
    assert done[0].records == 200
    assert [one["place"] for one in decided(server.client())] == list(range(1, 201))


def run_redis_here(service, streams):
    return run_redis(service, streams, idle=3.0)


def test_a_server_that_is_not_there_is_said_without_its_address(tmp_path, capsys):
    from discreet.cli.app import run

    (tmp_path / "pay.toml").write_text(TEXT)
    for url in ("redis://:SECRET@localhost:1/0", "SECRET"):
        assert run(["stream", str(tmp_path / "pay.toml"), "--redis", url]) == 2
        assert "SECRET" not in capsys.readouterr().err
    assert not (tmp_path / "payments.stream").exists()  # and nothing was charged


def test_decisions_of_another_stream_are_left_alone(tmp_path, server):
    client = server.client()
    send(client, range(20))
    run_to_the_end(tmp_path, server)
    there = client.xrange("payments:decisions")
    with StreamService(StreamConfig.from_text(SEEDED, directory=tmp_path / "other")) as service:
        service.take([service.form.read(json.dumps(record(number)[0]).encode()) for number in range(50, 90)])
        streams = RedisStreams(server.url, NAMES, most_waiting=100)
        with pytest.raises(BadInput, match="not the one of this stream"):
            catch_up(service, streams)
    assert client.xrange("payments:decisions") == there


def test_a_giant_entry_is_set_aside(tmp_path, server):
    client = server.client()
    client.xadd("payments", {"json": json.dumps(record(1)[0] | {"x": "y" * (1 << 20)})})
    send(client, [2])
    passed, _ = run_to_the_end(tmp_path, server)
    assert (passed.records, passed.malformed) == (1, 1)
