"""Lines: what is a record, what a label, what neither; and reading them without holding more than a batch."""

import json
import os
import threading
import time

import pytest
from small_streams import written

from discreet.errors import BadInput
from discreet.stream.lines import (
    MOST_LINE,
    NO_LABEL,
    Arrival,
    GrowingFile,
    LabelOf,
    LineForm,
    LineReader,
    Malformed,
    decision_line,
)

FORM = LineForm(id="id", label="label", features=["amount", "hour"], classes=["ok", "fraud"])


def read(text):
    return FORM.read(text.encode())


def test_records_labels_and_records_with_labels():
    assert read('{"id": "a", "amount": 1}') == Arrival("a", {"id": "a", "amount": 1})
    assert read('{"id": "a", "label": "ok"}') == LabelOf("a", "ok")
    assert read('{"id": "a", "label": null}') == LabelOf("a", None)
    brought = read('  {"id": "a", "hour": 3, "label": "fraud"} ')
    assert (brought.id, brought.label) == ("a", "fraud")
    assert read('{"id": "a", "hour": 3}').label is NO_LABEL
    assert read('{"id": "a", "label": null, "amount": null}').label is None


def test_a_record_without_any_feature_is_a_null_and_no_error():
    assert read('{"id": "a"}') == Arrival("a", None)
    assert read('{"id": "a", "other": 5}').fields is None


@pytest.mark.parametrize(
    "content",
    ["NaN", "null", '"x"', "[1]", "{}", "1e999", "true", "-Infinity", "9" * 30, pytest.param("9" * 5000, id="long")],
)
def test_what_a_feature_holds_is_no_error(content):
    assert type(read(f'{{"id": "a", "amount": {content}}}')) is Arrival


BAD = ["", "x", "[]", "3", '"a"', "{", '{"id": 3, "amount": 1}', '{"amount": 1}', '{"id": "", "amount": 1}', "{}{}"]
BAD += ['{"id": "a\\u0000", "amount": 1}', f'{{"id": "{"x" * 1001}", "amount": 1}}', '{"id": "\\ud800", "amount": 1}']
BAD += ['{"id": "a", "label": "SECRET"}', '{"id": "a", "label": 1}', '{"id": "a", "amount": 1, "label": "SECRET"}']
BAD += ["[" * 100_000, '{"id": "SECRET", "amount": }', "nul"]


@pytest.mark.parametrize("text", BAD, ids=[one[:30] for one in BAD])
def test_what_is_no_line_is_refused_without_saying_what_it_holds(text):
    with pytest.raises(Malformed) as refused:
        read(text)
    assert refused.value.fact
    assert "SECRET" not in refused.value.fact + refused.value.remedy


def test_bytes_that_are_no_text_are_refused_and_a_mark_of_the_byte_order_is_not():
    with pytest.raises(Malformed):
        FORM.read(b'{"id": "\xff", "amount": 1}')
    assert FORM.read(b'\xef\xbb\xbf{"id": "a", "amount": 1}').id == "a"


def test_a_decision_reads_back():
    for identifier in ("a", 'q"uote', "ü\u2028x", "a b"):
        form = json.loads(decision_line((3, identifier, 1)))
        assert form == {"id": identifier, "asked": True, "place": 3}


# -- reading


def test_a_file_is_read_in_batches_with_the_numbers_of_lines(tmp_path):
    (tmp_path / "in").write_bytes(b"a\nb\n\nc\nd")
    reader = LineReader.of(tmp_path / "in")
    assert reader.take(2, wait=None) == [b"a", b"b"]
    assert reader.number == 2
    assert reader.take(10, wait=None) == [b"", b"c", b"d"]
    assert reader.take(10, wait=None) is None
    assert reader.number == 5
    reader.close()


def test_a_pipe_gives_what_is_there_and_waits_no_longer_than_it_may():
    read_end, write_end = os.pipe()
    reader = LineReader(read_end, "pipe")
    os.write(write_end, b"one\ntwo\nhal")
    assert reader.take(100, wait=None) == [b"one", b"two"]
    began = time.monotonic()
    assert reader.take(100, wait=0.05) == []
    assert time.monotonic() - began < 5
    threading.Timer(0.05, lambda: (os.write(write_end, b"f\n"), os.close(write_end))).start()
    assert reader.take(100, wait=None) == [b"half"]
    assert reader.take(100, wait=None) is None
    os.close(read_end)


def test_a_line_that_never_ends_is_refused_and_not_held():
    read_end, write_end = os.pipe()
    reader = LineReader(read_end, "standard input")

    def flood():
        for _ in range(2 * MOST_LINE // 65536):
            try:
                os.write(write_end, b"x" * 65536)
            except BrokenPipeError:
                return

    thread = threading.Thread(target=flood)
    thread.start()
    with pytest.raises(BadInput, match="standard input, line 1: it is longer than"):
        list(iter(lambda: reader.take(10, wait=None), None))
    os.close(read_end)
    thread.join()
    os.close(write_end)


def test_a_batch_is_bounded_in_bytes_too(tmp_path):
    (tmp_path / "in").write_bytes((b"x" * (MOST_LINE // 2) + b"\n") * 60)
    reader = LineReader.of(tmp_path / "in")
    assert len(reader.take(4096, wait=None)) < 60
    reader.close()


def test_a_growing_file_gives_whole_lines_and_begins_anew_when_it_is_replaced(tmp_path):
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b"a\nb\nha")
    growing = GrowingFile(path)
    assert growing.take(1) == [b"a"]
    assert growing.take(10) == [b"b"]
    assert growing.take(10) == []
    with path.open("ab") as file:
        file.write(b"lf\n")
    assert growing.take(10) == [b"half"]
    assert growing.number == 3
    path.write_bytes(b"new\n")
    assert growing.take(10) == [b"new"]
    path.unlink()
    assert growing.take(10) == []
    path.write_bytes(b"again\n")
    assert growing.take(10) == [b"again"]
    growing.close()


def test_files_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        LineReader.of(tmp_path / "missing")
    with pytest.raises(BadInput, match="no such file"):
        GrowingFile(tmp_path)
    assert written([{"id": "a"}]) == '{"id": "a"}\n'
