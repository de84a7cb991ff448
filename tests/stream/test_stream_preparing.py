"""A preparation that is paid for, in the durable service: charged first, drawn once, on everybody's price."""

import json
import math

import numpy as np
import pytest
from small_streams import TEXT, config_in, label, record, taken, written

from discreet.errors import BudgetExceeded, InvalidConfig, InvalidLedger, LedgerUnavailable
from discreet.privacy.certificate import certify
from discreet.privacy.ledger import FileSink, Ledger
from discreet.storage.stream_store import StreamStore
from discreet.stream import paid_preparation
from discreet.stream.declaration import preparation_of
from discreet.stream.paid_preparation import NOTE
from discreet.stream.publishing import load_published
from discreet.stream.service import StreamService
from discreet.stream.stream_directory import verify_stream
from discreet.stream.terms import PREPARATION, STREAM

TABLE = """
[preparation]
path = "last-month.jsonl"
components = 3
norm = 1.0
noise_multiplier = 4.0
"""
HELD_OUT = TEXT.replace('delta = "0"', 'delta = "1e-6"').replace("[task]", f"{TABLE}\n[task]")
ARRIVING = HELD_OUT.replace("components = 3", 'components = 3\nrecords = "arriving"').replace(
    'epsilon = "2"  ', 'epsilon = "4"  '
)
SEEDED = HELD_OUT.replace("# [simulation]", "[simulation]").replace("# seed = 0", "seed = 7")
TEXTS = {"held-out": HELD_OUT, "arriving": ARRIVING, "simulation": SEEDED}


def last_month(place, forms=None):
    place.mkdir(exist_ok=True)
    forms = [record(number) | {"id": f"month-{number}"} for number in range(60)] if forms is None else forms
    (place / "last-month.jsonl").write_text(written(forms))


def ledger_in(place):
    return Ledger.open(FileSink(place / "payments.stream" / "ledger"))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_it_is_charged_before_the_stream_and_prepares_it(tmp_path, text):
    last_month(tmp_path)
    config = config_in(tmp_path, text)
    with StreamService(config) as service:
        assert service.learner.settings.features == 3
        assert len(taken(service, [record(number) for number in range(40)])) == 40
        taken(service, [label(number) for number in range(40)])
        components = service.parts.preparation.components
    ledger = ledger_in(tmp_path)
    assert [entry.why.phase for entry in ledger.entries] == [PREPARATION, STREAM]
    ledger.close()
    (tmp_path / "last-month.jsonl").unlink()  # it is read once
    with StreamService(config) as service:
        assert (service.parts.preparation.components == components).all()
    published = load_published(config.models / "latest.json")
    assert published.preparation.components_origin == "paid"
    assert (published.preparation.components == components).all()
    assert verify_stream(config).ok
    assert "preparation" in [check.name for check in verify_stream(config).checks]
    assert not list((tmp_path / "payments.stream" / "keys").glob(f"phase-{PREPARATION}-*"))


def test_records_that_arrive_later_pay_on_every_path_and_held_out_ones_alone(tmp_path):
    claims = {}
    for name, text in (("held-out", HELD_OUT), ("arriving", ARRIVING)):
        last_month(tmp_path / name)
        with StreamService(config_in(tmp_path / name, text)) as service:
            claims[name] = certify(service.parts.ledger)["claim"]["epsilon"]
            paths = {total.path: total for total in service.parts.ledger.totals()}
        if name == "arriving":
            block = float(service.parts.ledger.terms.apart.epsilon)
            assert block == pytest.approx(1.096, abs=0.01)
            assert float(paths["asked"].forward) == pytest.approx(1 + block)
            assert float(paths["missed"].backward) >= block
        else:
            assert {*paths} == {"asked", "missed", "held-out"}
    assert claims["held-out"] <= 2
    assert 3.9 < claims["arriving"] <= 4


def test_what_the_budget_does_not_hold_is_refused_before_anything_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(paid_preparation, "private_components", None)
    last_month(tmp_path)
    with pytest.raises(BudgetExceeded):
        StreamService(config_in(tmp_path, HELD_OUT, ("noise_multiplier = 4.0", "noise_multiplier = 0.5")))
    with pytest.raises(InvalidConfig, match="nothing is left for the update"):
        StreamService(config_in(tmp_path / "other", ARRIVING, ('epsilon = "4"', 'epsilon = "2"')))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_kill_after_the_draw_repeats_it(tmp_path, text, monkeypatch):
    """Seen and not kept: the same components again, by the same entry."""
    last_month(tmp_path)
    drawn = []
    real = paid_preparation.private_components

    def seen(*args, **options):
        drawn.append(real(*args, **options))
        return drawn[-1]

    monkeypatch.setattr(paid_preparation, "private_components", seen)
    monkeypatch.setattr(StreamStore, "keep_note", _killed_at(NOTE))
    with pytest.raises(KeyboardInterrupt):
        StreamService(config_in(tmp_path, text))
    monkeypatch.undo()
    monkeypatch.setattr(paid_preparation, "private_components", seen)
    with StreamService(config_in(tmp_path, text)) as service:
        assert (service.parts.preparation.components == drawn[0].components).all()
    assert len(drawn) == 2
    ledger = ledger_in(tmp_path)
    assert [entry.why.phase for entry in ledger.entries] == [PREPARATION, STREAM]
    ledger.close()


def _killed_at(note):
    keep = StreamStore.keep_note

    def killed(self, name, form, **options):
        if name == note:
            raise KeyboardInterrupt
        keep(self, name, form, **options)

    return killed


def test_other_lines_in_a_redo_are_refused_and_so_is_a_lost_key(tmp_path, monkeypatch):
    last_month(tmp_path)
    monkeypatch.setattr(StreamStore, "keep_note", _killed_at(NOTE))
    with pytest.raises(KeyboardInterrupt):
        StreamService(config_in(tmp_path, HELD_OUT))
    monkeypatch.undo()
    last_month(tmp_path, [record(number, amount=77.7) for number in range(60)])
    with pytest.raises(LedgerUnavailable, match="hid something else") as refused:
        StreamService(config_in(tmp_path, HELD_OUT))
    assert "77.7" not in str(refused.value)
    for key in (tmp_path / "payments.stream" / "keys").glob(f"phase-{PREPARATION}-*.key"):
        key.unlink()
    last_month(tmp_path)
    with pytest.raises(LedgerUnavailable, match="second release"):
        StreamService(config_in(tmp_path, HELD_OUT))


def test_a_key_that_a_kill_left_after_the_draw_is_destroyed(tmp_path, monkeypatch):
    last_month(tmp_path)
    monkeypatch.setattr(paid_preparation, "_end_key", lambda keys: None)
    StreamService(config_in(tmp_path, HELD_OUT)).close()
    monkeypatch.undo()
    keys = tmp_path / "payments.stream" / "keys"
    assert list(keys.glob(f"phase-{PREPARATION}-*"))
    StreamService(config_in(tmp_path, HELD_OUT)).close()
    assert not list(keys.glob(f"phase-{PREPARATION}-*"))


def test_a_held_out_record_that_arrives_is_a_null(tmp_path):
    last_month(tmp_path)
    text = HELD_OUT.replace('name = "one-sided"', 'name = "everything"').replace('asked = "1"', "")
    text = text.replace("low = 0.3", "").replace("asked = 10 ", "asked = 4 ")
    with StreamService(config_in(tmp_path, text)) as service:
        taken(service, [record(number) | {"id": f"month-{number}"} for number in range(8)])
        kept = [one[2] for one in service.store.open_questions()]
        assert kept == [None] * 8  # asked as nulls are, and nothing of them waits to teach
        taken(service, [record(99)])
        assert service.store.open_questions()[-1][2] is not None
    data = b"".join(path.read_bytes() for path in (tmp_path / "payments.stream").glob("journal*"))
    assert b"month-17" not in data  # by keyed codes


def test_an_arriving_one_is_not(tmp_path):
    last_month(tmp_path)
    text = ARRIVING.replace('name = "one-sided"', 'name = "everything"').replace('asked = "1"', "")
    text = text.replace("low = 0.3", "").replace("asked = 10 ", "asked = 4 ")
    with StreamService(config_in(tmp_path, text)) as service:
        taken(service, [record(number) | {"id": f"month-{number}"} for number in range(3)])
        assert all(one[2] is not None for one in service.store.open_questions())


def rows_of(place, forms):
    last_month(place, forms)
    config = config_in(place, HELD_OUT)
    return paid_preparation._read(config, config.preparation, preparation_of(config))


def test_a_record_counts_once_and_what_cannot_be_read_is_a_null(tmp_path):
    broken = [{"id": "a", "amount": math.nan, "hour": 3}, {"id": "b"}, {"id": "c", "amount": 10**400}]
    rows, ids = rows_of(tmp_path, [record(1), record(1), record(1, amount=5), *broken, record(2)])
    assert ids == ["a", "b", "c", "p1", "p2"]
    finite = np.isfinite(rows).all(axis=1)
    assert finite[[0, 6]].all()
    assert not finite[[1, 2, 4]].any()


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("{", "line 1.*not JSON"),
        ('{"amount": 3}', "line 1.*id is missing"),
        ('{"id": "a", "label": "ok"}', "line 1.*it is a label"),
        ("", "no records"),
        (None, "no such file"),
    ],
)
def test_lines_that_are_none_cost_nothing(tmp_path, content, match):
    if content is not None:
        (tmp_path / "last-month.jsonl").write_text(content)
    with pytest.raises(InvalidConfig, match=match) as refused:
        StreamService(config_in(tmp_path, HELD_OUT))
    assert "[preparation] path" in refused.value.asked
    ledger = ledger_in(tmp_path)
    assert len(ledger) == 0
    ledger.close()
    last_month(tmp_path)
    StreamService(config_in(tmp_path, HELD_OUT)).close()


def test_more_records_than_are_held_at_once_are_refused(tmp_path, monkeypatch):
    last_month(tmp_path)
    monkeypatch.setattr(paid_preparation, "MOST_NUMBERS", 5 * 59)
    with pytest.raises(InvalidConfig, match="more than 59 records"):
        StreamService(config_in(tmp_path, HELD_OUT))


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("components = 3", "components = 2", "[noise]|[records]|[preparation]"),
        ("norm = 1.0", "norm = 2.0", "[preparation]"),
        ("noise_multiplier = 4.0", "noise_multiplier = 5.0", "[preparation]"),
        ("components = 3", 'components = 3\nrecords = "arriving"', "[preparation]"),
    ],
)
def test_what_was_paid_for_cannot_be_changed(tmp_path, old, new, line):
    last_month(tmp_path)
    StreamService(config_in(tmp_path, HELD_OUT)).close()
    with pytest.raises(InvalidConfig, match="nothing of this can change|nothing is left") as refused:
        StreamService(config_in(tmp_path, HELD_OUT, (old, new)))
    assert any(name in str(refused.value) for name in (*line.split("|"), "[budget]"))


def test_leaving_it_out_later_is_refused(tmp_path):
    last_month(tmp_path)
    StreamService(config_in(tmp_path, HELD_OUT)).close()
    with pytest.raises(InvalidConfig, match="nothing of this can change"):
        StreamService(config_in(tmp_path, HELD_OUT.replace(TABLE, "")))


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("components = 3", "components = 6", "there are 5 inputs"),
        ("components = 3", 'components = 3\ndelta = "1e-7"', "held-out records may use all of it"),
        ('delta = "1e-6"', 'delta = "0"', "no guarantee at delta 0"),
        ('delta = "1e-6"', 'delta = "1e-6"\nunit = "person"\nrecords = 3', "both sides"),
    ],
)
def test_what_cannot_be_kept_is_refused_at_its_line(tmp_path, old, new, match):
    last_month(tmp_path)
    with pytest.raises(InvalidConfig, match=match):
        StreamService(config_in(tmp_path, HELD_OUT, (old, new)))


def test_a_ledger_without_the_entry_is_refused(tmp_path):
    last_month(tmp_path)
    StreamService(config_in(tmp_path, HELD_OUT)).close()
    place = tmp_path / "payments.stream" / "ledger"
    lines = place.read_bytes().splitlines(keepends=True)
    place.write_bytes(lines[0])
    with pytest.raises(InvalidLedger):
        StreamService(config_in(tmp_path, HELD_OUT))


def test_a_planted_uncharged_preparation_is_seen_by_verify(tmp_path):
    last_month(tmp_path)
    config = config_in(tmp_path, HELD_OUT)
    StreamService(config).close()
    other = config_in(tmp_path, HELD_OUT, ("noise_multiplier = 4.0", "noise_multiplier = 3.9"))
    assert [check.name for check in verify_stream(other).checks if not check.ok] == ["preparation"]
    assert json.loads((config.models / "latest.json").read_text())["preparation"]["components_origin"] == "paid"
