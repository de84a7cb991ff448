"""Whole runs: from lines to a file or a pipe, with what is torn, repeated or malformed."""

import json
from contextlib import ExitStack, closing

import pytest
from small_streams import SEEDED, config_in, label, mixed, record, written

from discreet.errors import InvalidStore
from discreet.stream.lines import FileOutlet, GrowingFile, LineReader, PipeOutlet
from discreet.stream.runner import run_lines
from discreet.stream.service import StreamService


def run(place, forms, *, text=SEEDED, outlet=None, labels=None, changes=()):
    (place / "in.jsonl").write_text(written(forms) if not isinstance(forms, str) else forms)
    with StreamService(config_in(place, text, *changes)) as service, ExitStack() as files:
        reader, sink = LineReader.of(place / "in.jsonl"), outlet or FileOutlet(place / "out.jsonl")
        files.callback(reader.close)
        files.callback(sink.close)
        growing = None if labels is None else files.enter_context(closing(GrowingFile(labels)))
        passed = run_lines(service, reader, sink, labels=growing)
        return passed, service.counts()


def output(place):
    return [json.loads(line) for line in (place / "out.jsonl").read_text().splitlines()]


def test_a_file_has_every_decision_once_whatever_was_torn(tmp_path):
    passed, _ = run(tmp_path, mixed(50))
    whole = output(tmp_path)
    assert passed.records == len(whole) == 50
    passed, _ = run(tmp_path, mixed(50))
    assert (passed.records, passed.repeated) == (0, 50)
    text = (tmp_path / "out.jsonl").read_text()
    for cut in (len(text) - 1, len(text) // 2, 3, 0):
        (tmp_path / "out.jsonl").write_text(text[:cut])
        run(tmp_path, mixed(50))
        assert output(tmp_path) == whole
    (tmp_path / "out.jsonl").unlink()
    run(tmp_path, [])
    assert output(tmp_path) == whole


@pytest.mark.parametrize("content", ["something else\n", "half of something", '{"id": "a"}\n', '{"place": "x"}\n'])
def test_a_file_of_something_else_is_not_written_to(tmp_path, content):
    from discreet.errors import BadInput

    (tmp_path / "out.jsonl").write_text(content)
    with pytest.raises(BadInput, match="no decision"):
        FileOutlet(tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text() == content


def test_an_output_ahead_of_the_journal_is_refused(tmp_path):
    (tmp_path / "out.jsonl").write_text('{"id": "a", "asked": true, "place": 9}\n')
    with pytest.raises(InvalidStore, match="journal ends at 0"):
        run(tmp_path, mixed(5))


def test_a_pipe_gets_an_answer_for_each_record_that_comes(tmp_path):
    import os

    for expected in (30, 30):
        read_end, write_end = os.pipe()
        run(tmp_path, [*mixed(28), record(3), record(4)], outlet=PipeOutlet(write_end))
        os.close(write_end)
        with os.fdopen(read_end) as file:
            assert len(file.read().splitlines()) == expected


def test_a_file_of_labels_for_all_records_is_as_good_as_labels_at_once(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "labels.jsonl").write_text(written(label(number) for number in range(100)))
    records = [record(number) for number in range(100)]
    _, one = run(tmp_path / "a", records, labels=tmp_path / "labels.jsonl")
    _, two = run(tmp_path / "b", [record(number, label=label(number)["label"]) for number in range(100)])
    assert output(tmp_path / "a") == output(tmp_path / "b")
    assert one == two | {"early": one["early"]}
    assert one["early"] == 0


def test_a_malformed_line_stops_the_stream_behind_what_came_before_it(tmp_path):
    from discreet.errors import BadInput

    text = written([record(0), record(1)]) + "SECRET\n" + written([record(2)])
    with pytest.raises(BadInput, match=r"in.jsonl, line 3: it is not JSON") as refused:
        run(tmp_path, text)
    assert "SECRET" not in str(refused.value)
    assert [one["id"] for one in output(tmp_path)] == ["p0", "p1"]
    passed, _ = run(tmp_path, text, changes=[("[service]", "[service]\nskip_malformed = true")])
    assert (passed.records, passed.repeated, passed.malformed) == (1, 2, 1)


def test_a_record_in_a_file_of_labels_is_refused(tmp_path):
    from discreet.errors import BadInput

    (tmp_path / "labels.jsonl").write_text(written([label(0), record(1)]))
    with pytest.raises(BadInput, match=r"labels.jsonl, line 2: it is a record"):
        run(tmp_path, [], labels=tmp_path / "labels.jsonl")
