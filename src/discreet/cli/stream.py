"""`discreet stream`: records in, decisions out, for as long as they come."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from discreet.cli.campaign_files import JsonOption
from discreet.cli.progress import LogOption, interruptible, logged
from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.config import StreamConfig
    from discreet.stream.lines import GrowingFile, LineReader, PipeOutlet
    from discreet.stream.redis_streams import RedisStreams
    from discreet.stream.runner import Passed
    from discreet.stream.service import StreamService


def stream_command(
    config: Annotated[Path, typer.Argument(help="The stream's TOML file.", show_default=False)],
    records: Annotated[
        Path | None, typer.Option(help="Lines of records, and labels; else from standard input.", show_default=False)
    ] = None,
    decisions: Annotated[
        Path | None,
        typer.Option(help="Append decisions to this file, each once; else to standard output.", show_default=False),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="A file of labels, which may grow meanwhile.", show_default=False)
    ] = None,
    redis: Annotated[
        str | None, typer.Option(help="Instead of lines: Redis Streams of the server at this URL.", show_default=False)
    ] = None,
    idle: Annotated[
        float | None,
        typer.Option(help="Redis: end when nothing came for so many seconds. --labels: wait for more.", min=0.0),
    ] = None,
    forget_lost: Annotated[
        bool, typer.Option("--forget-lost", help="Records that were being decided at a crash will not come again.")
    ] = False,
    end: Annotated[
        bool, typer.Option("--end", help="Then end the stream for good: its key is destroyed, and no record is taken.")
    ] = False,
    live: Annotated[bool, typer.Option("--live", help="Show what happens, for the owner's eyes.")] = False,
    log_json: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide who is asked, record by record; learn from labels; publish models. Killed, the same command goes on.

    A record is a line {"id": "a1", "amount": 3.5, ...}, a label {"id": "a1", "label": "fraud"}, a decision
    {"id": "a1", "asked": true, "place": 1}. Decisions are durable before they are shown, and go to annotators; the
    summary is the owner's, on standard error where decisions are on standard output.

    Example: discreet stream payments.toml < records.jsonl > decisions.jsonl
    """
    from discreet.campaign.journal import Published, StreamOpened
    from discreet.config import StreamConfig
    from discreet.stream.runner import run_redis
    from discreet.stream.service import StreamService

    if redis is not None and (records, decisions, labels) != (None, None, None):
        raise BadInput("--redis with files", "records, labels and decisions are in Redis then", "Give one or the other")
    read = StreamConfig.read(config)
    with logged(log_json, "stream") as log, interruptible(), ExitStack() as open_files:
        # what cannot be read or written is refused before anything is charged
        ways = None if redis is not None else _ways(open_files, records, decisions, labels)
        streams = None if redis is None else _connected(open_files, redis, read)
        _check_new(read, records, decisions)
        log(StreamOpened(stream=read.name, simulation=read.simulation is not None))
        on_publish: Callable[[int, str], None] = lambda version, model: log(Published(version=version, model=model))  # noqa: E731
        with StreamService(read, forget_lost=forget_lost, on_publish=on_publish) as service, _watching(live) as watch:
            if ways is not None:
                passed = _run_lines(service, *ways, decisions, idle, watch)
            else:
                assert streams is not None  # it is one way or the other
                streams.recover()  # by now the lock is ours, and what is there stays
                passed = run_redis(service, streams, idle=idle, watch=watch)
            if end:
                service.end()
            form = _summary(service, passed)
    to_stdout = redis is not None or decisions is not None
    print(json.dumps(form) if as_json else _words(form), file=sys.stdout if to_stdout else sys.stderr)


@contextmanager
def _watching(live: bool) -> Iterator[Callable[[StreamService], None]]:
    from discreet.stream.runner import unwatched

    if not live:
        yield unwatched
        return
    from discreet.stream.runner import live_view

    with live_view() as watch:
        yield watch


def _ways(
    open_files: ExitStack, records: Path | None, decisions: Path | None, labels: Path | None
) -> tuple[LineReader, GrowingFile | None]:
    """Where lines and labels come from. Where decisions go is looked at: the file itself is opened by whoever has the
    stream's lock, because opening it mends it.
    """
    from discreet.stream.lines import FileOutlet, GrowingFile, LineReader

    reader = LineReader(_handle(sys.stdin, "input"), "standard input") if records is None else LineReader.of(records)
    open_files.callback(reader.close)
    growing = None if labels is None else GrowingFile(labels)
    if growing is not None:
        open_files.callback(growing.close)
    if decisions is not None:
        FileOutlet.check(decisions)
    else:
        _handle(sys.stdout, "output")
    return reader, growing


def _check_new(config: StreamConfig, records: Path | None, decisions: Path | None) -> None:
    """Of a stream that is not charged yet: refuse decisions of another one, and a file whose first line is none of
    ours. What comes by a pipe cannot be looked at beforehand.
    """
    from discreet.stream.declaration import line_form, preparation_of
    from discreet.stream.lines import LineReader, Malformed
    from discreet.stream.stream_directory import JOURNAL

    if (config.directory / JOURNAL).exists():
        return
    if decisions is not None and decisions.is_file() and decisions.stat().st_size:
        raise BadInput(
            f"writing decisions to {decisions.name}",
            "it is not empty, and this stream decided nothing yet",
            "Choose another file; nothing was charged",
        )
    if records is None or not records.is_file() or config.service.skip_malformed:
        return
    reader = LineReader.of(records)
    try:
        (first, *_) = reader.take(1, wait=None) or [b""]
        if first.strip():
            line_form(config, preparation_of(config)).read(first)
    except Malformed as error:
        raise BadInput(f"{reader.name}, line 1", error.fact, f"{error.remedy}; nothing was charged") from None
    finally:
        reader.close()


def _handle(stream: TextIO | None, what: str) -> int:
    if stream is None:
        raise BadInput(f"a stream by standard {what}", "it is closed", "Name a file, or connect it")
    return stream.fileno()


def _run_lines(
    service: StreamService,
    reader: LineReader,
    labels: GrowingFile | None,
    decisions: Path | None,
    idle: float | None,
    watch: Callable[[StreamService], None],
) -> Passed:
    from discreet.stream.runner import run_lines

    outlet = _outlet(decisions)
    try:
        return run_lines(service, reader, outlet, labels=labels, idle=idle or 0.0, watch=watch)
    finally:
        outlet.close()


def _outlet(path: Path | None) -> PipeOutlet:
    from discreet.stream.lines import FileOutlet, PipeOutlet

    if path is not None:
        return FileOutlet(path)
    sys.stdout.flush()
    return PipeOutlet(_handle(sys.stdout, "output"))


def _connected(open_files: ExitStack, url: str, config: StreamConfig) -> RedisStreams:
    from discreet.stream.redis_streams import RedisStreams

    streams = RedisStreams(url, names_of(config), most_waiting=config.redis.most_waiting)
    open_files.callback(streams.close)
    return streams


def names_of(config: StreamConfig) -> Any:
    """What things are called in Redis, as the file says; by the stream's name where it says nothing."""
    from discreet.stream.redis_streams import Names

    table = config.redis
    records = table.records or config.name
    return Names(
        records=records,
        labels=table.labels or f"{records}:labels",
        decisions=table.decisions or f"{records}:decisions",
        group=table.group,
    )


def _summary(service: StreamService, passed: Passed) -> dict[str, Any]:
    counts = service.counts()
    labelled = counts["labelled"]
    return {
        "format": "discreet.stream-summary/1",
        "simulation": service.learner.simulation,
        "audience": "owner",
        "name": service.config.name,
        **{name: counts[name] for name in ("arrived", "asked", "labelled", "skipped", "waiting", "early", "wrong")},
        "error": counts["wrong"] / labelled if labelled else None,
        "model": counts["version"],
        "published": service.publisher.newest,
        "spent": service.spent(),
        "this_run": {
            "records": passed.records,
            "repeated": passed.repeated,
            "malformed": passed.malformed,
            "labels_without_effect": service.without_effect,
            "seconds": round(passed.seconds, 3),
        },
        "ledger": os.path.relpath(service.ledger_path),
        "models": os.path.relpath(service.publisher.directory),
    }


def _words(form: dict[str, Any]) -> str:
    spent, run = form["spent"], form["this_run"]
    error = "" if form["error"] is None else f", {100 * form['error']:.1f}% wrong before they taught"
    lines = [
        f"{form['name']}, for the owner",
        f"records   {form['arrived']:,} arrived, {form['asked']:,} asked; {run['records']:,} now",
        f"labels    {form['labelled']:,} came{error}; {form['waiting']:,} are waited for",
        f"model     {form['model']:,}; {form['published']:,} is published in {form['models']}",
        f"spent     epsilon {spent['epsilon']} of {spent['budget']} at delta {spent['delta']} a {spent['unit']}, "
        "however long",
        f"ledger    discreet verify {form['ledger']}",
    ]
    if form["simulation"]:
        lines.append("SIMULATION: its noise was seeded; it proves nothing about people.")
    return "\n".join(lines)
