"""`discreet ledger` and `discreet verify` as a user meets them."""

import csv
import json

import pytest

from discreet import create_ledger, open_ledger
from discreet.cli.app import run
from discreet.cli.ledger import parse_event
from discreet.errors import BadInput
from discreet.noise import laplace
from discreet.privacy.events import DiscreteLaplace, Laplace, PoissonSampledGaussian

pytestmark = pytest.mark.thorough


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with create_ledger("a.ledger", epsilon=1, delta="1e-6") as ledger:
        for number in range(3):
            receipt = ledger.charge(event=Laplace(epsilon="0.1"), who="pool", why=f"count {number}")
            laplace(12.0, sensitivity=1.0, receipt=receipt)
    return tmp_path


def said(capsys, *arguments, code=0):
    assert run(list(arguments)) == code
    return capsys.readouterr()


def form(capsys, *arguments, code=0):
    printed = said(capsys, *arguments, "--json", code=code).out
    made = json.loads(printed)
    assert made["format"].startswith("discreet.")
    assert isinstance(made["simulation"], bool)
    return made


def test_from_a_plan_to_a_signed_certificate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    said(capsys, "plan", "--preset", "dpal-bloodcell", "--delta", "1e-6", "--accountant", "rdp", "--out", "plan.toml")
    made = form(capsys, "ledger", "create", "a.ledger", "--plan", "plan.toml")
    assert (made["mode"], made["entries"]) == ("committed", 0)
    said(capsys, "ledger", "keygen", "key.pem")
    made = form(capsys, "ledger", "export", "a.ledger", "--out", "c.json", "--sign", "key.pem")
    assert made["signed"]
    assert made["claim"]["epsilon"] <= 8
    verdict = form(capsys, "verify", "c.json", "--ledger", "a.ledger", "--public-key", "key.pem.pub")
    assert verdict["ok"]
    assert verdict["claim"]["trajectory"]
    text = (tmp_path / "c.json").read_text().replace('"issued": "2', '"issued": "1')
    (tmp_path / "c.json").write_text(text)
    assert not form(capsys, "verify", "c.json", code=1)["ok"]
    assert "does not hold" in said(capsys, "verify", "c.json", code=1).out


def test_show_lists_paths_and_the_latest_entries(place, capsys):
    text = said(capsys, "ledger", "show", "a.ledger", "--last", "2").out
    assert "count 2" in text
    assert "count 0" not in text
    assert "Audience: owner" in text
    made = form(capsys, "ledger", "show", "a.ledger")
    assert made["paths"][0]["epsilon"] == "0.3"
    assert [entry["purpose"] for entry in made["entries"]] == ["count 0", "count 1", "count 2"]
    assert form(capsys, "ledger", "show", "a.ledger", "--last", "0", "--path", "everyone")["entries"] == []


def test_price_spends_nothing_and_says_whether_it_fits(place, capsys):
    before = (place / "a.ledger").read_bytes()
    made = form(capsys, "ledger", "price", "a.ledger", "--event", "laplace epsilon=0.7", "--who", "pool")
    assert (made["fits"], made["requested"]) == (True, "0.7")
    made = form(capsys, "ledger", "price", "a.ledger", "--event", "laplace epsilon=0.71", "--who", "pool", code=1)
    assert not made["fits"]
    assert (
        "refused"
        in said(capsys, "ledger", "price", "a.ledger", "--event", "laplace epsilon=2", "--who", "pool", code=1).out
    )
    assert (place / "a.ledger").read_bytes() == before


def test_export_writes_a_certificate_or_a_table(place, capsys):
    said(capsys, "ledger", "export", "a.ledger", "--out", "c.json")
    assert "holds" in said(capsys, "verify", "c.json", "--ledger", "a.ledger").out
    said(capsys, "ledger", "export", "a.ledger", "--out", "entries.csv")
    rows = list(csv.DictReader((place / "entries.csv").read_text().splitlines()))
    assert [row["purpose"] for row in rows] == ["count 0", "count 1", "count 2"]
    assert rows[0]["event"] == "laplace epsilon=0.1"


def test_an_export_never_replaces_what_it_is_made_from(place, capsys):
    (place / "a.ledger").rename(place / "a.json")
    said(capsys, "ledger", "keygen", "key.json")
    (place / "other.json").write_text("{}")
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    for arguments in (["--out", "a.json"], ["--out", "key.json", "--sign", "key.json"], ["--out", "other.json"]):
        assert "Choose another name" in said(capsys, "ledger", "export", "a.json", *arguments, code=2).err
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    said(capsys, "ledger", "export", "a.json", "--out", "c.json")
    said(capsys, "ledger", "export", "a.json", "--out", "c.json")  # an older certificate may be replaced


def test_a_ledger_can_be_read_while_it_is_written_and_not_written_twice(place, capsys):
    with open_ledger("a.ledger"):
        assert form(capsys, "ledger", "show", "a.ledger")["count"] == 3
        with pytest.raises(Exception, match="another process"):
            open_ledger("a.ledger")
    assert form(capsys, "verify", "a.ledger")["ok"]


def test_a_changed_ledger_is_said_to_be_changed(place, capsys):
    data = (place / "a.ledger").read_bytes()
    (place / "a.ledger").write_bytes(data.replace(b"count 1", b"count 9"))
    assert "FAILED" in said(capsys, "verify", "a.ledger", code=1).out
    error = said(capsys, "ledger", "show", "a.ledger", code=2).err
    assert "does not have the hash" in error


def test_simulations_are_shown_as_such(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    create_ledger("s.ledger", epsilon=1, delta="1e-6", seed=7).close()
    assert form(capsys, "ledger", "show", "s.ledger")["simulation"] is True
    assert "SIMULATION" in said(capsys, "verify", "s.ledger").out
    with pytest.raises(BadInput):
        open_ledger("s.ledger")


NONSENSE = [
    ["ledger", "create", "a.ledger", "--epsilon", "1", "--delta", "1e-6"],
    ["ledger", "create", "new.ledger"],
    ["ledger", "create", "new.ledger", "--epsilon", "-1", "--delta", "1e-6"],
    ["ledger", "create", "new.ledger", "--epsilon", "1", "--delta", "1e-6", "--unit", "cat"],
    ["ledger", "create", "new.ledger", "--plan", "missing.toml"],
    ["ledger", "create", "new.ledger", "--plan", "a.ledger"],
    ["ledger", "create", "missing/new.ledger", "--epsilon", "1", "--delta", "1e-6"],
    ["ledger", "create", "new.ledger", "--epsilon", "1", "--delta", "1e-6", "--expect", "nonsense"],
    ["ledger", "show", "missing"],
    ["ledger", "show", "."],
    ["ledger", "show", "empty"],
    ["ledger", "show", "a.ledger", "--path", "nobody"],
    ["ledger", "show", "a.ledger", "--last", "-1"],
    ["ledger", "show", "a.ledger", "--last", "many"],
    ["ledger", "price", "a.ledger", "--event", "", "--who", "pool"],
    ["ledger", "price", "a.ledger", "--event", "laplace", "--who", "pool"],
    ["ledger", "price", "a.ledger", "--event", "laplace epsilon", "--who", "pool"],
    ["ledger", "price", "a.ledger", "--event", "laplace epsilon=x", "--who", "pool"],
    ["ledger", "price", "a.ledger", "--event", "gaussian noise_multiplier=x", "--who", "pool"],
    ["ledger", "price", "a.ledger", "--event", "{", "--who", "pool"],
    ["ledger", "price", "a.ledger", "--event", "{}", "--who", "pool"],
    ["ledger", "price", "a.ledger", "--event", "laplace epsilon=1", "--who", "\n"],
    ["ledger", "price", "a.ledger", "--event", "laplace epsilon=1", "--who", "pool", "--count", "0"],
    ["ledger", "price", "a.ledger", "--event", "laplace epsilon=1", "--who", "pool", "--phase", "-1"],
    ["ledger", "price", "a.ledger", "--event", "laplace epsilon=1"],
    ["ledger", "export", "a.ledger", "--out", "c.txt"],
    ["ledger", "export", "a.ledger", "--out", "missing/c.json"],
    ["ledger", "export", "a.ledger", "--out", "c.json", "--sign", "missing.pem"],
    ["ledger", "export", "a.ledger", "--out", "c.json", "--sign", "a.ledger"],
    ["ledger", "export", "a.ledger", "--out", "c.csv", "--sign", "a.ledger"],
    ["ledger", "keygen", "a.ledger"],
    ["ledger", "keygen", "missing/key.pem"],
    ["ledger", "keygen", "."],
    ["ledger", "keygen", ""],
    ["ledger", "price", "a.ledger", "--event", "laplace epsilon=1 epsilon=2", "--who", "pool"],
    ["ledger", "price", "a.ledger", "--event", "gaussian noise_multiplier=1e308", "--who", "pool"],
    ["ledger", "price", "a.ledger", "--event", "discrete-laplace epsilon=1 sensitivity=" + "9" * 400, "--who", "pool"],
    ["ledger", "create", "/dev/full", "--epsilon", "1", "--delta", "1e-6"],
    ["verify", "/dev/zero"],
    ["verify", "missing"],
    ["verify", "."],
    ["verify", "empty"],
    ["verify", "a.ledger", "--ledger", "a.ledger"],
    ["verify", "a.ledger", "--public-key", "a.ledger"],
    ["ledger", "melt"],
]


def names(place):
    return sorted(path.name for path in place.iterdir())


@pytest.mark.parametrize("arguments", NONSENSE)
def test_nonsense_is_refused_with_one_clear_line(place, capsys, arguments):
    (place / "empty").write_bytes(b"")
    before = names(place), (place / "a.ledger").read_bytes()
    error = said(capsys, *arguments, code=2).err
    assert error
    assert "Traceback" not in error
    assert str(place) not in error
    assert (names(place), (place / "a.ledger").read_bytes()) == before


def test_events_are_written_as_people_write_them():
    assert parse_event("laplace epsilon=0.5") == Laplace(epsilon="0.5")
    assert parse_event("discrete-laplace epsilon=0.5") == DiscreteLaplace(epsilon="0.5")
    assert parse_event("poisson-sampled-gaussian sampling_rate=0.1 noise_multiplier=2") == PoissonSampledGaussian(
        sampling_rate=0.1, noise_multiplier=2.0
    )
    assert parse_event('{"kind": "laplace", "version": 1, "epsilon": "0.5"}') == Laplace(epsilon="0.5")
