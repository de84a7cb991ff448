"""A stream among people who mean it ill, or make mistakes: nonsense, giants, full disks, files of other streams.

What is refused says so in one sentence without what stood in a line; what is refused at the start costs nothing; and
whatever happened, the same command goes on.
"""

import errno
import json
import os
import random
import sys

import pytest
from small_streams import EVERYTHING, SEEDED, TEXT, config_in, label, mixed, record, taken, written

from discreet.cli.app import run
from discreet.errors import BadInput, DiscreetError, InvalidConfig, StoreUnavailable
from discreet.stream.declaration import line_form, preparation_of
from discreet.stream.journal import Marks
from discreet.stream.lines import MOST_LINE, Arrival, FileOutlet, GrowingFile, LabelOf, LineReader, Malformed
from discreet.stream.publishing import load_published
from discreet.stream.runner import catch_up, run_lines
from discreet.stream.service import StreamService

pytestmark = pytest.mark.thorough

# -- lines


def form_of(place):
    config = config_in(place)
    return line_form(config, preparation_of(config))


def test_a_number_of_any_length_is_no_error(tmp_path):
    """Python refuses whole numbers of more than 4,300 digits; an error would tell what a record holds."""
    form = form_of(tmp_path)
    for number in ("9" * 5000, "-" + "9" * 5000, "1" * 400, "1e9999"):
        found = form.read(f'{{"id": "a", "amount": {number}, "hour": 3}}'.encode())
        assert isinstance(found, Arrival)
        with StreamService(config_in(tmp_path / number[:4], EVERYTHING)) as service:
            assert service.take([found]).decided == [(1, "a", 1)]


def test_nonsense_is_malformed_and_nothing_of_it_is_said(tmp_path):
    form, chance = form_of(tmp_path), random.Random(5)
    good = json.dumps(record(1, label="ok", secret="XYZZY") | {"id": "XYZZY"}).encode()
    refused = 0
    for _ in range(3000):
        line = bytearray(good)
        for _ in range(chance.randrange(1, 6)):
            place = chance.randrange(len(line))
            if chance.random() < 0.5:
                line[place] = chance.randrange(256)
            else:
                del line[place : place + chance.randrange(1, 9)]
        try:
            assert isinstance(form.read(bytes(line)), (Arrival, LabelOf))
        except Malformed as error:
            refused += 1
            assert "XYZ" not in error.fact + error.remedy + str(error)
    assert 500 < refused < 3000
    for deep in (b"[" * 10**5, b'{"id": "a", "amount": ' + b"[" * 10**5 + b"]" * 10**5 + b"}"):
        with pytest.raises(Malformed, match="not JSON"):
            form.read(deep)


def test_a_line_is_no_longer_than_is_said(tmp_path):
    long = b'{"id": "a", "amount": 1, "x": "' + b"y" * MOST_LINE + b'"}'
    with pytest.raises(Malformed, match="longer than"):
        form_of(tmp_path).read(long)
    (tmp_path / "labels").write_bytes(b'{"id": "a", "label": "ok"}\n' + b"y" * (3 * MOST_LINE))
    growing = GrowingFile(tmp_path / "labels")
    assert len(growing.take(10)) == 1
    with pytest.raises(BadInput, match="line 2.*longer than"):
        growing.take(10)
    growing.close()


def test_a_giant_line_of_labels_is_not_held(tmp_path):
    (tmp_path / "labels").write_bytes(b"")
    growing, asked = GrowingFile(tmp_path / "labels"), []
    growing._file.close()

    class Endless:
        def seek(self, place):
            pass

        def fileno(self):
            return os.open(tmp_path / "labels", os.O_RDONLY)

        def readline(self, most=-1):
            asked.append(most)
            return b"y" * most

        def close(self):
            pass

    growing._file = Endless()
    with pytest.raises(BadInput):
        growing.take(10)
    assert asked == [MOST_LINE + 2]


# -- what is refused at the start costs nothing


@pytest.fixture
def begun(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pay.toml").write_text(TEXT)
    (tmp_path / "in.jsonl").write_text(written([record(1)]))
    return tmp_path


@pytest.mark.parametrize(
    "options",
    [
        ["--records", "missing.jsonl"],
        ["--records", "in.jsonl", "--labels", "missing.jsonl"],
        ["--records", "in.jsonl", "--decisions", "nowhere/out.jsonl"],
        ["--redis", "redis://user:hunter2@127.0.0.1:1/0"],
        ["--redis", "nonsense:hunter2"],
    ],
)
def test_ways_that_are_none_are_refused_before_anything_is_charged(begun, options, capsys):
    assert run(["stream", "pay.toml", *options]) == 2
    assert not (begun / "payments.stream").exists()
    assert "hunter2" not in capsys.readouterr().err


@pytest.mark.parametrize("closed", ["stdin", "stdout"])
def test_standard_input_and_output_may_be_closed(begun, closed, monkeypatch, capsys):
    monkeypatch.setattr(sys, closed, None)
    options = ["--records", "in.jsonl"] if closed == "stdout" else ["--decisions", "out.jsonl"]
    assert run(["stream", "pay.toml", *options]) == 2
    assert "it is closed" in capsys.readouterr().err
    assert not (begun / "payments.stream").exists()


def test_a_second_process_does_not_mend_what_the_first_is_writing(begun):
    with StreamService(config_in(begun, TEXT)):
        (begun / "out.jsonl").write_bytes(b'{"id": "p1", "asked": true, "place": 1}\n{"id": "p2"')
        assert run(["stream", "pay.toml", "--records", "in.jsonl", "--decisions", "out.jsonl"]) == 2
        assert (begun / "out.jsonl").read_bytes().endswith(b'{"id": "p2"')


# -- what belongs to others


@pytest.mark.parametrize(
    "change", [("[records]   ", '[records]\nid = "hour2" '), ("[records]   ", '[records]\nlabel = "l" ')]
)
def test_what_things_are_called_cannot_change_under_way(tmp_path, change):
    """Under another name of the id every record would come a second time."""
    with StreamService(config_in(tmp_path, TEXT)) as service:
        taken(service, [record(1)])
    with pytest.raises(InvalidConfig, match="nothing of this can change") as refused:
        StreamService(config_in(tmp_path, TEXT, change))
    assert "[records]" in refused.value.asked


def decided_into(place, outlet, forms, text=SEEDED):
    (place / "in.jsonl").write_text(written(forms))
    with StreamService(config_in(place, text)) as service:
        reader, opened = LineReader.of(place / "in.jsonl"), FileOutlet(outlet)
        try:
            run_lines(service, reader, opened)
        finally:
            reader.close()
            opened.close()


def test_decisions_of_another_stream_are_left_alone(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    decided_into(tmp_path / "one", tmp_path / "out.jsonl", [record(number) for number in range(5)])
    before = (tmp_path / "out.jsonl").read_bytes()
    others = [record(number) for number in range(50, 60)]
    decided_into(tmp_path / "two", tmp_path / "own.jsonl", others)
    with pytest.raises(BadInput, match="not the one of this stream"):
        decided_into(tmp_path / "two", tmp_path / "out.jsonl", others)
    assert (tmp_path / "out.jsonl").read_bytes() == before
    decided_into(tmp_path / "one", tmp_path / "out.jsonl", [record(number) for number in range(9)])
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 9


def test_models_of_another_stream_are_left_alone(tmp_path):
    texts = [text.replace("[publish]", '[publish]\ndirectory = "../models"') for text in (SEEDED, SEEDED)]
    for name, text in zip(("one", "two"), texts, strict=True):
        (tmp_path / name).mkdir()
        if name == "one":
            StreamService(config_in(tmp_path / name, text)).close()
            before = (tmp_path / "models" / "latest.json").read_bytes()
        else:
            with pytest.raises(BadInput, match="models of another stream"):
                StreamService(config_in(tmp_path / name, text))
    assert (tmp_path / "models" / "latest.json").read_bytes() == before


# -- disks


def test_a_write_of_marks_that_is_taken_in_part_goes_on(tmp_path, monkeypatch):
    marks, real = Marks(tmp_path / "marks", decided=0), os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, data, place: real(handle, data[:7], place))
    marks.write(1, [bytes([number] * 8) for number in range(20)])
    monkeypatch.undo()
    marks.close()
    marks = Marks(tmp_path / "marks", decided=0)
    assert marks.lost == 20
    marks.close()


WRITES = ("fsync", "link", "mkdir", "replace", "pwrite", "write", "open")


def test_a_disk_that_is_full_anywhere_is_said_and_the_same_lines_go_on(tmp_path, monkeypatch):
    """The n-th write fails, for every n; afterwards there is room again."""
    forms, refused = mixed(40), 0
    for fails_at in range(1, 200):
        place, seen = tmp_path / str(fails_at), [0]
        place.mkdir()
        with monkeypatch.context() as patch:
            for name in WRITES:
                patch.setattr(os, name, _failing(getattr(os, name), seen, fails_at, name))
            try:
                decided_into(place, place / "out.jsonl", forms, TEXT)
                if seen[0] < fails_at:
                    break
            except DiscreetError as error:
                assert isinstance(error, (StoreUnavailable, BadInput))
                assert "p1" not in str(error)
                refused += 1
        decided_into(place, place / "out.jsonl", forms, TEXT)
        assert [json.loads(line)["place"] for line in (place / "out.jsonl").read_text().splitlines()] == [*range(1, 41)]
    assert refused > 25


def _failing(real, seen, fails_at, name):
    def write(*args, **options):
        if name != "open" or (len(args) > 1 and args[1] & os.O_CREAT):
            seen[0] += 1
            if seen[0] == fails_at:
                raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args, **options)

    return write


# -- what the world sees


def test_labels_change_models_and_never_when_they_are_published(tmp_path):
    """Everybody is asked, so bits are the same: the same versions at the same places, whatever becomes of labels."""
    forms = [record(number) for number in range(40)]
    told = {
        "none": forms,
        "at once": [form for number in range(40) for form in (record(number), label(number))],
        "late": [*forms[:20], *(label(number) for number in range(20)), *forms[20:]],
        "null": [form for number in range(40) for form in (record(number), {"id": f"p{number}", "label": None})],
    }
    versions, models = {}, {}
    for name, lines in told.items():
        config = config_in(tmp_path / name.replace(" ", "-"), EVERYTHING)
        found = []
        with StreamService(config) as service:
            for line in lines:
                taken(service, [line])
                found.append((service.learner.arrived, service.learner.version))
        versions[name] = sorted(set(found))
        models[name] = load_published(config.models / "latest.json").model.weights.tolist()
    assert versions["none"] == versions["at once"] == versions["late"] == versions["null"]
    assert models["none"] == models["null"] != models["at once"] != models["late"]


def test_a_published_file_and_a_decision_hold_what_is_paid_for_and_no_more(tmp_path):
    config = config_in(tmp_path, EVERYTHING)
    decided_into(tmp_path, tmp_path / "out.jsonl", mixed(30), EVERYTHING)
    form = json.loads((config.models / "latest.json").read_text())
    assert {*form} == {"format", "audience", "name", "preparation", "simulation", "model", "sha256"}
    model = {"format", "version", "weights", "classes", "features", "loss", "claim", "ledger", "simulation", "sha256"}
    assert {*form["model"]} == model
    for line in (tmp_path / "out.jsonl").read_text().splitlines():
        assert {*json.loads(line)} == {"id", "asked", "place"}


def test_nothing_of_a_record_is_in_a_repr(tmp_path):
    with StreamService(config_in(tmp_path, EVERYTHING)) as service:
        taken(service, [record(1, amount=123456.5) | {"id": "XYZZY"}])
        parts = [service, service.learner, service.learner.model(), service.parts.key, service.parts.receipt]
        parts += [
            service.publisher,
            service._marks,
            service.store,
            service.learner.live_state,
            service.learner.live_state.waiting,
            service.learner.live_state.persons,
        ]
        assert not [part for part in parts if "XYZZY" in repr(part) or "123456" in repr(part)]


def test_an_outlet_that_does_not_know_is_not_asked(tmp_path):
    from discreet.stream.lines import PipeOutlet

    with StreamService(config_in(tmp_path)) as service:
        taken(service, [record(1)])
        catch_up(service, PipeOutlet(1))
