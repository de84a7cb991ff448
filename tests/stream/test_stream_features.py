"""Streams whose learner reads features: lines in, one record alone, a stored map, models that carry it."""

import json
import random

import numpy as np
import pytest
from small_streams import TEXT, config_in, label, record, taken, written
from test_stream_neighbours import BUDGET, NULL, made, streamed

from discreet.cli.app import run
from discreet.config import StreamConfig, example
from discreet.errors import BadInput, InvalidConfig
from discreet.features import build_feature_map
from discreet.pools import Schema
from discreet.stream import StreamLearner, stream_terms
from discreet.stream.declaration import FEATURES, preparation_of
from discreet.stream.preparation import Preparation
from discreet.stream.publishing import load_published
from discreet.stream.service import StreamService
from discreet.stream.stream_directory import verify_stream
from discreet.testing.neighbours import check_neighbours

SCHEMA = """[amount]
type = "number"
low = 0
high = 400
[hour]
type = "number"
low = 0
high = 24
missing = "null"
[country]
type = "category"
values = ["de", "fr", "it"]
"""
COLUMNS = [line for line in TEXT.splitlines() if line.startswith(("columns", "center", "scale", "choices", "radius"))]
BARE = "\n".join(line for line in TEXT.splitlines() if line not in COLUMNS)
BINS = BARE.replace("[records]", '[features]\nname = "bins"\npublic = "public.csv"\nedges = 5\n\n[records]').replace(
    "[task]", 'schema = "schema.toml"\n\n[task]'
)
WORDS = BARE.replace("[records]", '[features]\nname = "hashed-text"\nsize = 64\n\n[records]').replace(
    "[task]", 'text = "said"\n\n[task]'
)
HOLE = {"amount": 12.5, "hour": None, "country": "fr"}


@pytest.fixture
def place(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    rows = "".join(f"p{number},{record(number)['amount']},3,fr\n" for number in range(200))
    (tmp_path / "public.csv").write_text("id,amount,hour,country\n" + rows)
    return tmp_path


def test_lines_become_features_and_models_carry_the_map(place):
    config = config_in(place, BINS)
    with StreamService(config) as service:
        taken(service, [record(number) for number in range(120)])
        taken(service, [label(number) for number in range(120)])
        feature_map = service.parts.preparation.features
        assert service.learner.settings.features == feature_map.output_size
        assert service.learner.settings.radius == feature_map.norm_bound
    assert feature_map.edges["amount"] != (400 / 6, 800 / 6, 200.0, 1600 / 6, 2000 / 6)  # quantiles of public rows
    published = load_published(config.models / "latest.json")
    assert published.preparation.features == feature_map
    table = {name: [record(number)[name] for number in range(120)] for name in feature_map.schema.names}
    expected = published.model.predict(feature_map.transform(table).astype(float)).tolist()
    assert published.predict([record(number) for number in range(120)]) == expected
    form = json.loads((config.models / "latest.json").read_text())["preparation"]
    assert form["features"] == feature_map.identity()
    checks = {check.name: check for check in verify_stream(config).checks}
    assert verify_stream(config).ok
    assert feature_map.identity()["sha256"][:12] in checks["features"].detail


def test_texts_become_features(place):
    chance = random.Random(0)

    def said(number):
        bad = number % 2
        words = chance.choices(["buy", "now", "gold"] if bad else ["dear", "tea", "sunday"], k=5)
        return {"id": f"t{number}", "said": " ".join(words), "label": "fraud" if bad else "ok"}

    text = (
        WORDS.replace('name = "one-sided"', 'name = "everything"').replace('asked = "1"', "").replace("low = 0.3", "")
    )
    config = config_in(place, text, ('epsilon = "2"', 'epsilon = "400"'))
    with StreamService(config) as service:
        taken(service, [said(number) for number in range(400)])
    told = load_published(config.models / "latest.json").predict([said(number) for number in range(100)])
    assert np.mean([guess == ("fraud" if number % 2 else "ok") for number, guess in enumerate(told)]) > 0.9
    rows = preparation_of(config).many([{"said": None}, {"said": "\ud800"}, {"said": 3}, {"said": "tea"}, 5])
    assert np.isfinite(rows).all(axis=1).tolist() == [False, False, False, True, False]


def test_a_record_alone_is_as_among_others_and_a_null_stays_one(place):
    preparation = preparation_of(config_in(place, BINS))
    records = [record(number) for number in range(20)]
    records[3:3] = [
        HOLE,
        None,
        {"amount": [1], "hour": 3},
        {"amount": 10**5000, "hour": 3},
        {"amount": "\ud800", "hour": 1},
    ]
    rows = preparation.many(records)
    assert np.isfinite(rows).all(axis=1).tolist() == [place not in (3, 4) for place in range(25)]
    assert all(
        np.array_equal(preparation.one(one), row, equal_nan=True) for one, row in zip(records, rows, strict=True)
    )
    lengths = np.linalg.norm(rows[np.isfinite(rows).all(axis=1)], axis=1)
    assert lengths == pytest.approx(1, abs=1e-5)  # as it is: the bound of the map is the radius
    again = Preparation.from_json(json.loads(json.dumps(preparation.to_json())))
    assert again.digest == preparation.digest
    assert np.array_equal(again.many(records), rows, equal_nan=True)
    form = preparation.to_json()
    form["features"] = form["features"] | {"options": form["features"]["options"] | {"crosses": [["amount", "hour"]]}}
    with pytest.raises(BadInput, match="hash"):
        Preparation.from_json(form)


def test_nothing_else_depends_on_a_record_that_becomes_features(place):
    """Neighbours are records and their nulls, before they become features."""
    preparation = preparation_of(config_in(place, BINS))
    settings = made(features=preparation.width, radius=preparation.radius)
    inner = streamed(settings)

    def mechanism(rows, ledger):
        return inner([(preparation.one(fields), y) for fields, y in rows], ledger)

    rows = [(record(number), number % 2) for number in range(9)]
    terms = stream_terms(BUDGET, asking=settings.asking, noise=settings.noise)
    assert check_neighbours(mechanism, rows, null=NULL, terms=terms, seed=3).pairs == 9
    learner = StreamLearner.simulated(settings, seed=1)
    learner.ask(preparation.one(HOLE))
    assert learner.arrived == 1


def test_what_was_fitted_stays_and_another_map_is_refused(place):
    with StreamService(config_in(place, BINS)) as service:
        taken(service, [record(number) for number in range(40)])
        before = service.parts.preparation.digest
    (place / "public.csv").write_text("id,amount,hour,country\np0,399,3,fr\np1,398,4,fr\n")
    with StreamService(config_in(place, BINS)) as service:
        assert service.parts.preparation.digest == before
    (place / "public.csv").rename(place / "moved.csv")
    moved = config_in(place, BINS, ("public.csv", "moved.csv"))
    with StreamService(moved) as service:
        assert service.parts.preparation.digest == before
    assert verify_stream(moved).ok
    other = config_in(place, BINS, ("public.csv", "moved.csv"), ("edges = 5", "edges = 6"))
    with pytest.raises(InvalidConfig, match="not what the stream began with"):
        StreamService(other)
    assert failed(other) == ["features"]
    table = '[features]\nname = "bins"\npublic = "moved.csv"\nedges = 5\n'
    without = config_in(
        place, BINS, ("public.csv", "moved.csv"), (table, ""), ('schema = "schema.toml"', 'columns = ["hour"]')
    )
    assert failed(without) == ["features"]
    stored = moved.directory / FEATURES
    content = stored.read_text()
    form = json.loads(content)
    form["features"]["options"]["edges"]["amount"][0] += 1
    stored.write_text(json.dumps(form))
    assert failed(moved) == ["features"]
    options = {**form["features"]["options"], "schema": Schema.of(place / "schema.toml")}
    form["features"] = type(build_feature_map("bins", schema=options["schema"])).from_options(options).identity()
    stored.write_text(json.dumps(form))  # a map of its own hash, and none that the models read
    assert failed(moved) == ["features"]
    with pytest.raises(InvalidConfig, match="not what the stream began with"):
        StreamService(moved)
    stored.write_text(content)
    assert verify_stream(moved).ok


def failed(config):
    return [check.name for check in verify_stream(config).checks if not check.ok]


def test_a_stream_that_died_before_its_journal_takes_the_newest_declaration(place, monkeypatch):
    from discreet.stream import stream_directory

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stream_directory, "_ledger", dies)
        with pytest.raises(KeyboardInterrupt):
            StreamService(config_in(place, BINS))
    with StreamService(config_in(place, BINS, ("edges = 5", "edges = 9"))) as service:
        assert len(service.parts.preparation.features.edges["amount"]) == 9
    with StreamService(config_in(place, BINS, ("edges = 5", "edges = 9"))) as service:
        assert service.parts.preparation.features.output_size > 9


def test_components_of_features_may_be_paid_for(place):
    (place / "month.jsonl").write_text(written([record(number) | {"id": f"m{number}"} for number in range(50)]))
    table = '[preparation]\npath = "month.jsonl"\ncomponents = 3\nnoise_multiplier = 4.0\n\n[task]'
    text = BINS.replace("[task]", table).replace('delta = "0"', 'delta = "1e-6"')
    config = config_in(place, text)
    with StreamService(config) as service:
        taken(service, [record(number) for number in range(30)])
        assert service.learner.settings.features == 3
    assert verify_stream(config).ok
    private = config_in(place, text, ("public.csv", "month.jsonl"), ("payments.stream", "other.stream"))
    with pytest.raises(InvalidConfig, match="whose records are private"):
        StreamService(private)


def test_the_command_runs_and_verifies(place, capsys):
    (place / "s.toml").write_text(BINS)
    (place / "records.jsonl").write_text(written([record(number) for number in range(60)]))
    asked = ["stream", str(place / "s.toml"), "--records", str(place / "records.jsonl")]
    assert run([*asked, "--decisions", str(place / "d.jsonl")]) == 0
    assert len((place / "d.jsonl").read_text().splitlines()) == 60
    assert run(["verify", str(place / "s.toml")]) == 0
    assert "features" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "changes", "says"),
    [
        (BINS, [('schema = "schema.toml"\n', 'columns = ["amount"]\n')], "Declare schema in"),
        (WORDS, [('text = "said"\n', 'columns = ["amount"]\n')], "Declare text in"),
        (BINS, [('name = "bins"', 'name = "scattering"')], "of arrays|no such option"),
        (BINS, [("public.csv", "absent.csv")], "not there|no such file"),
        (BINS, [("edges = 5", "edge = 5")], "no such key"),
        (BINS, [("edges = 5", "cache = true")], "nothing of it is kept"),
        (BINS, [('schema = "schema.toml"', 'schema = "schema.toml"\ncolumns = ["amount"]')], "the schema says"),
        (BINS, [('[features]\nname = "bins"\npublic = "public.csv"\nedges = 5\n', "")], "there are none"),
        (WORDS, [("size = 64", 'size = 64\npublic = "public.csv"')], "nothing to fit"),
    ],
)
def test_what_cannot_be_is_refused_at_its_line(place, text, changes, says):
    with pytest.raises(InvalidConfig, match=says) as refused:
        StreamService(config_in(place, text, *changes))
    assert refused.value.line
    assert not (place / "payments.stream" / "ledger").exists()


def test_the_example_says_nothing_of_features():
    assert StreamConfig.from_text(example("stream")).features is None


def test_in_python_any_map_prepares():
    feature_map = build_feature_map("scattering", shape=(8, 8), angles=2, scales=1)
    preparation = Preparation(features=feature_map, radius=feature_map.norm_bound)
    pictures = np.random.default_rng(0).normal(size=(3, 64))
    pictures[1, 0] = np.nan
    rows = preparation.many(pictures)
    assert np.isfinite(rows).all(axis=1).tolist() == [True, False, True]
    expected = feature_map.transform(pictures[2:].reshape(1, 8, 8)).reshape(-1)
    assert np.allclose(rows[2], expected)
    assert np.array_equal(preparation.one(pictures[2]), rows[2])


def test_a_stream_on_an_encoder_goes_on_from_anywhere(place, monkeypatch):
    """The encoder is where the file says, seen from the file; what is stored has its hash alone."""
    (place / "lengths_of_texts.py").write_text(
        "import numpy as np\ndef lengths(texts):\n    return np.array([[len(t), 1.0] for t in texts], dtype='f4')\n"
    )
    monkeypatch.syspath_prepend(place)
    named = 'name = "text-encoder"\nencoder = "lengths_of_texts:lengths"'
    config = config_in(place, WORDS.replace('name = "hashed-text"\nsize = 64', named))
    for start in (0, 20):
        with StreamService(config) as service:
            taken(service, [{"id": f"t{number}", "said": "x" * number} for number in range(start, start + 20)])
    newest = config.models / "latest.json"
    assert verify_stream(config).ok
    with pytest.raises(BadInput, match="where the encoder is was not said"):
        load_published(newest).predict([{"said": "tea"}])  # nobody's code runs that was not named
    assert len(load_published(newest, encoder="lengths_of_texts:lengths").predict([{"said": "tea"}])) == 1
