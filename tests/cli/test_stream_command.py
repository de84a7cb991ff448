"""`discreet stream` as people and machines call it: pipes, files, exit codes, and what it says to whom."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from discreet.cli.app import run
from discreet.config import example

sys.path.insert(0, str(Path(__file__).parents[1] / "stream"))
from small_streams import EVERYTHING, SEEDED, TEXT, label, record, written

pytestmark = pytest.mark.thorough

COMMAND = [sys.executable, "-m", "discreet", "stream", "pay.toml"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pay.toml").write_text(SEEDED)
    (tmp_path / "in.jsonl").write_text(written(form for n in range(60) for form in (record(n), label(n))))
    return tmp_path


def piped(place, text, *options, **more):
    return subprocess.run([*COMMAND, *options], input=text, capture_output=True, text=True, cwd=place, **more)


def test_from_standard_input_to_standard_output(place):
    done = piped(place, (place / "in.jsonl").read_text(), "--json")
    assert done.returncode == 0, done.stderr
    decisions = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["id"] for one in decisions] == [f"p{number}" for number in range(60)]
    summary = json.loads(done.stderr)
    assert summary["format"] == "discreet.stream-summary/1"
    assert (summary["audience"], summary["simulation"]) == ("owner", True)
    assert summary["arrived"] == 60
    assert summary["asked"] == summary["labelled"] == sum(one["asked"] for one in decisions) > 0
    assert (summary["spent"]["epsilon"], summary["spent"]["delta"]) == ("2", "0")
    again = piped(place, (place / "in.jsonl").read_text())
    assert again.stdout == done.stdout
    assert "SIMULATION" in again.stderr
    assert "discreet verify payments.stream/ledger" in again.stderr


def test_files_give_the_same_and_the_summary_is_on_standard_output(place, capsys):
    assert run(["stream", "pay.toml", "--records", "in.jsonl", "--decisions", "out.jsonl", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["this_run"]["records"] == len((place / "out.jsonl").read_text().splitlines()) == 60
    assert (summary["ledger"], summary["models"]) == ("payments.stream/ledger", "payments.stream/models")
    assert run(["stream", "pay.toml", "--records", "in.jsonl", "--decisions", "out.jsonl"]) == 0
    said = capsys.readouterr().out
    assert "60 arrived" in said
    assert "0 now" in said
    for what in ("pay.toml", "payments.stream/ledger"):
        assert run(["verify", what]) == 0
    assert run(["ledger", "export", "pay.toml", "--out", "certificate.json"]) == 0
    assert run(["verify", "certificate.json", "--ledger", "pay.toml"]) == 0


def test_labels_from_a_file_that_grows_meanwhile(place):
    (place / "pay.toml").write_text(EVERYTHING)
    (place / "labels.jsonl").write_text(written([label(0)]))
    command = [*COMMAND, "--labels", "labels.jsonl", "--idle", "1.0", "--json"]
    started = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place
    )
    started.stdin.write(written(record(number) for number in range(10)))
    started.stdin.flush()
    answers = [json.loads(started.stdout.readline()) for _ in range(10)]
    assert all(one["asked"] for one in answers)
    with (place / "labels.jsonl").open("a") as file:
        file.write(written(label(number) for number in range(1, 10)))
    out, err = started.communicate()
    assert started.returncode == 0, err
    assert out == ""
    assert json.loads(err)["labelled"] == 10


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{\n", "standard input, line 1: it is not JSON"),
        (written([record(0)]) + "\n\n[1]\n", "standard input, line 4: it is not an object"),
        ('{"id": 5, "amount": 1}\n', "line 1: its id is missing"),
        ('{"id": "a", "label": "SECRET"}\n', "line 1: its label is none of the declared classes"),
    ],
)
def test_bad_lines_are_exit_code_2_and_are_not_shown(place, text, where):
    done = piped(place, text)
    assert done.returncode == 2
    assert where in done.stderr
    assert "SECRET" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["missing.toml"],
        ["pay.toml", "--records", "missing.jsonl", "--decisions", "out.jsonl"],
        ["pay.toml", "--records", "in.jsonl", "--decisions", "in.jsonl"],
        ["pay.toml", "--records", "in.jsonl", "--decisions", "no/such/folder.jsonl"],
        ["pay.toml", "--records", "in.jsonl", "--decisions", "out.jsonl", "--labels", "missing"],
        ["pay.toml", "--records", "in.jsonl", "--redis", "redis://localhost:1"],
        ["pay.toml", "--idle", "-1"],
        ["campaign.toml"],
    ],
)
def test_requests_that_cannot_be_taken_are_exit_code_2(place, arguments, capsys):
    (place / "campaign.toml").write_text(example())
    before = (place / "in.jsonl").read_text()
    assert run(["stream", *arguments]) == 2
    assert capsys.readouterr().err
    assert (place / "in.jsonl").read_text() == before


def test_other_verbs_say_what_to_do_with_a_streams_file(place, capsys):
    for verb in ("run", "status", "init", "train"):
        assert run([verb, "pay.toml"]) == 2
        assert "discreet stream" in capsys.readouterr().err


def test_an_example_to_begin_with(place, capsys):
    assert run(["init", "new.toml", "--example", "stream"]) == 0
    assert "a stream's file" in capsys.readouterr().out
    assert (place / "new.toml").read_text() == example("stream")


def test_a_log_says_when_models_were_published_and_nothing_of_records(place, capsys):
    options = ["--records", "in.jsonl", "--decisions", "out.jsonl", "--log-json", "stream.log"]
    assert run(["stream", "pay.toml", *options]) == 0
    lines = [json.loads(line) for line in (place / "stream.log").read_text().splitlines()]
    assert [line["event"] for line in lines][:3] == ["begun", "stream", "published"]
    assert lines[-1]["event"] == "ended"
    allowed = {"format", "time", "level", "event", "verb", "version", "stream", "simulation", "model", "code"}
    assert {key for line in lines for key in line} <= allowed


def test_an_interrupt_is_said_and_the_same_command_goes_on(place):
    started = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place
    )
    started.stdin.write(written([record(0), record(1)]))
    started.stdin.flush()
    first = started.stdout.readline()
    started.send_signal(signal.SIGINT)
    rest, err = started.communicate()
    assert started.returncode == 130
    assert "the same command goes on" in err
    assert "Traceback" not in err
    done = piped(place, written([record(0), record(1), record(2)]))
    assert done.stdout.startswith(first + rest)
    assert len(done.stdout.splitlines()) == 3


def test_a_reader_that_goes_away_is_not_a_crash(place):
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m discreet stream pay.toml < in.jsonl | head -n 0"],
        capture_output=True,
        text=True,
        cwd=place,
    )
    assert "Traceback" not in done.stderr


def test_nothing_is_read_while_decisions_are_not_taken(place):
    """Two pipes of 64 KB and one batch: a sender is stopped soon, whatever it has to send."""
    (place / "pay.toml").write_text(SEEDED.replace("[service]", "[service]\nbatch = 64"))
    started = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place
    )
    os.set_blocking(started.stdin.fileno(), False)
    data = written(record(number) for number in range(20_000)).encode()
    sent, quiet = 0, time.monotonic()
    while time.monotonic() - quiet < 2.0 and sent < len(data):
        try:
            sent += os.write(started.stdin.fileno(), data[sent : sent + 4096])
            quiet = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    assert sent < len(data) // 2  # the process holds back, though 2 MB wait
    os.set_blocking(started.stdin.fileno(), True)
    started.stdin.close()
    started.stdin = None
    out, _ = started.communicate()
    whole = data[:sent].count(b"\n")
    assert len(out.splitlines()) >= whole


def test_a_full_disk_is_said_nothing_is_shown_that_is_not_stored_and_it_goes_on(place):
    text = written(record(number) for number in range(3000))
    (place / "pay.toml").write_text(TEXT.replace("[service]", "[service]\nbatch = 200"))

    def nearly_full():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (250_000, resource.RLIM_INFINITY))

    done = piped(place, text, preexec_fn=nearly_full)
    assert done.returncode == 2, done.stderr
    assert "the disk" in done.stderr
    assert "Traceback" not in done.stderr
    shown = done.stdout.splitlines()
    assert 0 < len(shown) < 3000
    done = piped(place, text)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[: len(shown)] == shown
    assert len(done.stdout.splitlines()) == 3000


def test_the_live_view_shows_what_an_owner_wants_to_know(place, capsys):
    options = ["--records", "in.jsonl", "--decisions", "out.jsonl", "--live", "--json"]
    assert run(["stream", "pay.toml", *options]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["arrived"] == 60
    for word in ("arrived", "asked", "labelled", "error", "spent", "epsilon 2", "for the owner's eyes", "SIMULATION"):
        assert word in said.err


def test_what_is_lost_and_comes_no_more_is_forgotten_on_demand(place):
    """The marks of a batch that never became durable."""
    from discreet.config import StreamConfig
    from discreet.stream.journal import Marks
    from discreet.stream.service import StreamService

    config = StreamConfig.read(place / "pay.toml")
    with StreamService(config) as service:
        vectors, mark = service.parts.preparation.many([record(0), record(1)]), service.parts.key.mark
    marks = Marks(config.directory / "marks", decided=0)
    marks.write(1, [mark("p0", vectors[0]), mark("p1", vectors[1])])
    marks.close()
    done = piped(place, written([record(5)]))
    assert done.returncode == 2
    assert "--forget-lost" in done.stderr
    assert "p5" not in done.stderr
    assert piped(place, written([record(5)]), "--forget-lost").returncode == 0


def test_a_new_stream_that_is_refused_is_not_charged(place, capsys):
    (place / "out.jsonl").write_text('{"id": "other"}\n')
    assert run(["stream", "pay.toml", "--records", "in.jsonl", "--decisions", "out.jsonl"]) == 2
    assert "nothing was charged" in capsys.readouterr().err
    (place / "bad.jsonl").write_text("nonsense\n" + (place / "in.jsonl").read_text())
    assert run(["stream", "pay.toml", "--records", "bad.jsonl", "--decisions", "new.jsonl"]) == 2
    assert "line 1" in capsys.readouterr().err
    assert not (place / "payments.stream" / "ledger").exists()
    assert run(["stream", "pay.toml", "--records", "in.jsonl", "--decisions", "new.jsonl"]) == 0
