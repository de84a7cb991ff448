"""Campaigns whose model learns from features: pictures, tables and texts, from the first question to an export."""

import contextlib
import csv
import json
import random
import shutil

import numpy as np
import pandas as pd
import pytest

from discreet.campaign.state import evaluations_of
from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.errors import BadInput, InvalidConfig
from discreet.exports import export_model, load_model
from discreet.features import build_feature_map
from discreet.pools import Schema
from discreet.recipes.opening import create, load
from discreet.recipes.pool_records import rows_of
from discreet.recipes.verification import verify_campaign
from discreet.storage import open_storage

SIZE = 90
SCHEMA = """[age]
type = "number"
low = 0
high = 100
[job]
type = "category"
values = ["admin", "clerk"]
[day]
type = "date"
low = "2020-01-01"
high = "2021-01-01"
missing = "null"
"""
POOLS = {
    "pictures": 'path = "pool.npz"\nkind = "npz"\nid = "id"\narray = "x"\nscale = 255.0',
    "tables": 'path = "pool.csv"\nkind = "csv"\nid = "id"\nschema = "schema.toml"',
    "texts": 'path = "pool.csv"\nkind = "csv"\nid = "id"\ntext = "words"',
}
FEATURES = {
    "pictures": 'name = "scattering"\nangles = 4',
    "tables": 'name = "bins"\npublic = "public.csv"\nedges = 7',
    "texts": 'name = "hashed-text"\nsize = 512',
}
TOML = """format = "discreet.campaign/1"
name = "featured"
[pool]
POOL
size = 90
[task]
kind = "binary"
classes = ["no", "yes"]
[budget]
epsilon = 20
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 40
queries = [20]
batch = 20
epochs = 10
accountant = "rdp"
selection_epsilon = "2"
[selector]
name = "threshold-response"
threshold_epsilon = "0.5"
[scorer]
name = "entropy"
[oracle]
name = "files"
[features]
FEATURES
[model]
name = "linear"
[trainer]
engine = "reference"
learning_rate = 8.0
clip = 0.5
[simulation]
seed = 1
"""


def truth(name):
    return "yes" if int(name[1:]) % 2 else "no"


def write_pictures(place, size=SIZE):
    """Bars that lie or stand."""
    chance = np.random.default_rng(0)
    x = chance.integers(0, 60, (size, 8, 8)).astype(np.uint8)
    for number, bar in enumerate(chance.integers(0, 8, size).tolist()):
        x[number][(bar, slice(None)) if number % 2 else (slice(None), bar)] = 255
    np.savez(place / "pool.npz", id=np.array([f"r{number}" for number in range(size)]), x=x)


def write_table(path, size, seed, name="r"):
    """Yes is in the middle of the ages, where no line divides; a tenth of the cells is missing."""
    chance = random.Random(seed)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["id", "age", "job", "day", "words"])
        for number in range(size):
            age = chance.randrange(35, 65) if number % 2 else chance.choice([*range(35), *range(65, 101)])
            day = f"2020-{chance.randrange(1, 13):02}-11"
            words = " ".join(
                chance.choice(["cat", "sat", "mat"] if number % 2 else ["dog", "ran", "home"]) for _ in "abcd"
            )
            cells = ["" if chance.random() < 0.1 else cell for cell in (age, chance.choice(["admin", "clerk", "king"]))]
            out.writerow([f"{name}{number}", *cells, "" if number == 5 and name == "r" else day, words])


@pytest.fixture(params=POOLS)
def kind(request):
    return request.param


@pytest.fixture
def folder(tmp_path):
    return filled(tmp_path)


def filled(place):
    write_pictures(place)
    write_table(place / "pool.csv", SIZE, 1)
    write_table(place / "public.csv", 400, 2, "p")
    (place / "schema.toml").write_text(SCHEMA)
    return place


def text_of(kind, features=None, pool=None):
    return TOML.replace("POOL", pool or POOLS[kind]).replace("FEATURES", features or FEATURES[kind])


def config_of(folder, kind, features=None, **changes):
    text = text_of(kind, features)
    for old, new in changes.items():
        text = text.replace(old, new)
    (folder / "c.toml").write_text(text)
    return CampaignConfig.read(folder / "c.toml")


def finish(campaign):
    while not campaign.done:
        campaign.tell({question.id: truth(question.record) for question in campaign.ask()})
        campaign.train()


def records_of(folder, kind):
    """As people have them, and as a campaign's model takes them."""
    if kind == "pictures":
        raw = np.load(folder / "pool.npz")["x"]
        return raw, raw.astype(np.float32) / 255
    frame = pd.read_csv(folder / "pool.csv", keep_default_na=False, dtype=str)
    return (frame["words"].tolist(),) * 2 if kind == "texts" else (frame, frame)


def test_from_the_first_question_to_an_export(folder, kind):
    campaign = create(config_of(folder, kind))
    finish(campaign)
    again = load(CampaignConfig.read(folder / "c.toml"))
    raw, scaled = records_of(folder, kind)
    chances = again.predict_proba(scaled)
    truths = [truth(name) for name in again.pool.ids]
    assert np.mean([guess == right for guess, right in zip(again.predict(scaled), truths, strict=True)]) > 0.8
    # the model on the rows that it was trained on says the same
    rows = rows_of(again.recipe.config, again.pool)
    assert rows.shape == (SIZE, *again.recipe.inputs)
    assert np.array_equal(again.predictor().on_features.predict_proba(rows), chances)
    # and so does the directory alone
    export_model(again, folder / "model", onnx=False)
    model = load_model(folder / "model")
    told = model.predict_proba(raw, raw=kind == "pictures")
    assert np.array_equal(told, chances)
    assert model.form["preprocessing"]["features"] == again.store.config["features"]
    data = folder / ("pool.npz" if kind == "pictures" else "pool.csv")
    assert run(["predict", str(folder / "model"), str(data), "--out", str(folder / "p.csv"), "--probabilities"]) == 0
    with (folder / "p.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    shown = [float(line["p_yes"]) if line["p_yes"] else None for line in lines]
    assert [number is None for number in shown] == [kind == "tables" and place == 5 for place in range(SIZE)]
    known = [place for place, number in enumerate(shown) if number is not None]
    assert np.allclose([shown[place] for place in known], chances[known, 1], atol=1e-5)


def test_a_null_stays_a_null(folder):
    """Record 5 has no day: zeros of features, no label, never worth asking."""
    campaign = create(config_of(folder, "tables"))
    rows, fine = rows_of(campaign.recipe.config, campaign.pool).readable(slice(0, SIZE))
    assert fine.tolist() == [place != 5 for place in range(SIZE)]
    assert not rows[5].any()
    finish(campaign)
    frame = records_of(folder, "tables")[0]
    zeros = campaign.predictor().on_features.predict_proba(np.zeros((1, rows.shape[1]), dtype=np.float32))
    assert np.allclose(campaign.predict_proba(frame)[5], zeros[0])


def test_what_was_fitted_stays_when_the_public_file_changes(folder):
    campaign = create(config_of(folder, "tables"))
    before = campaign.store.config["features"]
    assert len(before["options"]["edges"]["age"]) == 7
    assert before["options"]["edges"]["age"] != [100 / 8 * number for number in range(1, 8)]
    (folder / "public.csv").write_text("id,age,job,day\np0,3,admin,2020-01-01\n")
    finish(campaign)
    (folder / "public.csv").rename(folder / "moved.csv")
    again = load(config_of(folder, "tables", FEATURES["tables"].replace("public.csv", "moved.csv")))
    assert again.recipe.config.features.fitted.identity() == before
    checks = {check.name: check for check in verify_campaign(CampaignConfig.read(folder / "c.toml")).checks}
    assert checks["features"].ok
    with pytest.raises(InvalidConfig, match="created with something else"):
        load(config_of(folder, "tables", 'name = "bins"\nedges = 8'))


def test_the_certificate_names_the_map(folder):
    from discreet.exports.model_form import verify_export

    campaign = create(config_of(folder, "pictures"))
    finish(campaign)
    said = campaign.certificate()["features"]
    assert said == {
        "name": "scattering",
        "version": 1,
        "sha256": campaign.store.config["features"]["sha256"],
        "reads": "one record alone, and nothing of any other record",
    }
    export_model(campaign, folder / "model", onnx=False)
    verdict = verify_export(folder / "model")
    assert {check.name: check.ok for check in verdict.checks}["features"]
    form = json.loads((folder / "model" / "model.json").read_text())
    form["preprocessing"]["features"]["options"]["scales"] = 1
    (folder / "model" / "model.json").write_text(json.dumps(form))
    with pytest.raises(BadInput, match="edited|hash"):
        load_model(folder / "model")


def test_random_fourier_on_top_of_bins(folder):
    features = 'name = "random-fourier"\nsize = 64\nbase = { name = "bins", edges = 5 }'
    campaign = create(config_of(folder, "tables", features))
    finish(campaign)
    assert campaign.recipe.inputs == (64,)
    frame = records_of(folder, "tables")[0]
    base = build_feature_map("bins", schema=Schema.of(folder / "schema.toml"), edges=5)
    on_top = build_feature_map("random-fourier", base=base, size=64)
    assert campaign.recipe.config.features.fitted == on_top
    assert campaign.predict_proba(frame).shape == (SIZE, 2)


def test_text_without_an_encoder_says_what_reads_it(folder):
    text = text_of("texts").replace("[features]\n" + FEATURES["texts"], "")
    (folder / "c.toml").write_text(text)
    with pytest.raises(InvalidConfig, match="hashed-text"):
        create(CampaignConfig.read(folder / "c.toml"))


@pytest.mark.parametrize(
    ("kind", "features", "says"),
    [
        ("tables", 'name = "scattering"', "the pool is a table"),
        ("pictures", 'name = "bins"', "a schema declares"),
        ("pictures", 'name = "hashed-text"', "of texts"),
        ("texts", 'name = "scattering"', "the pool has texts"),
        ("pictures", 'name = "scatering"', "Did you mean scattering"),
        ("pictures", 'name = "scattering"\nsize = 7', "scattering has no such option"),
        ("pictures", 'name = "scattering"\nangle = 7', "there is no such key"),
        ("pictures", 'name = "scattering"\nscales = "two"', "whole number"),
        ("pictures", 'name = "scattering"\npublic = "public.csv"', "nothing to fit"),
        ("tables", 'name = "bins"\nbase = "one-hot"', "takes records themselves"),
        ("tables", 'name = "random-fourier"\nbase = "bin"', "there is none of that name"),
        ("tables", 'name = "random-fourier"\nbase = { name = "bins", edge = 3 }', "no such option"),
        ("tables", 'name = "random-fourier"\nbase = 3', "names no feature map"),
        ("tables", 'name = "bins"\npublic = "absent.csv"', "not there"),
        ("tables", 'name = "bins"\npublic = "pool.csv"', "whose records are private"),
        ("tables", 'name = "bins"\nedges = { ages = [1, 2] }', "no column of numbers"),
        ("texts", 'name = "hashed-text"\nsize = 7', "not even"),
    ],
)
def test_what_cannot_be_is_refused_at_its_line(kind, features, says, folder):
    with pytest.raises(InvalidConfig, match=says) as refused:
        create(config_of(folder, kind, features))
    assert refused.value.line >= text_of(kind).splitlines().index("[features]") + 1
    assert not open_storage(f"sqlite:///{folder}/featured.db").campaigns()


def test_a_copy_of_the_private_file_is_refused_too(folder):
    (folder / "copy.csv").write_bytes((folder / "pool.csv").read_bytes())
    with pytest.raises(InvalidConfig, match="whose records are private"):
        create(config_of(folder, "tables", 'name = "bins"\npublic = "copy.csv"'))


def test_a_crowd_has_features_of_its_own(folder, capsys):
    from discreet.config import example

    (folder / "other.toml").write_text(example("crowd") + '\n[features]\nname = "bins"\n')
    assert run(["init", str(folder / "other.toml")]) == 2
    assert "features of its own" in capsys.readouterr().err


class Died(BaseException):
    """The process dies here."""


def test_a_training_that_died_goes_on_to_the_same_model(folder, tmp_path_factory):
    """Features are computed again, and are the same bits."""
    other = filled(tmp_path_factory.mktemp("whole"))
    slowly = {"learning_rate = 8.0": "learning_rate = 8.0\ncheckpoint_every = 5"}
    whole = create(config_of(other, "pictures", **slowly))
    finish(whole)

    def dies(what, done, total):
        if what == "training" and done >= total - 3:
            raise Died

    seen = []
    campaign = create(config_of(folder, "pictures", **slowly), watch=lambda what, done, total: seen.append(what))
    campaign.tell({question.id: truth(question.record) for question in campaign.ask()})
    with pytest.raises(Died):
        load(CampaignConfig.read(folder / "c.toml"), watch=dies).train()
    again = load(CampaignConfig.read(folder / "c.toml"), watch=lambda what, done, total: seen.append(what))
    finish(again)
    assert {"features", "training", "scoring"} <= set(seen)
    assert again.predictor().weights() == whole.predictor().weights()


def test_a_creation_that_died_keeps_what_was_fitted(folder, monkeypatch):
    from discreet.recipes import opening

    def dies(*_):
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(opening, "enrol", dies)
        with pytest.raises(Died):
            create(config_of(folder, "tables"))
    stored = open_storage(f"sqlite:///{folder}/featured.db").load("featured").config["features"]
    (folder / "public.csv").write_text("id,age,job,day\np0,3,admin,2020-01-01\n")
    assert create(config_of(folder, "tables")).recipe.config.features.fitted.identity() == stored


def test_a_withdrawn_record_is_a_null_of_features(folder):
    campaign = create(config_of(folder, "pictures"))
    questions = campaign.ask()
    campaign.tell({question.id: truth(question.record) for question in questions})
    gone = questions[0].record
    campaign.withdraw([gone])
    again = load(CampaignConfig.read(folder / "c.toml"))
    place = next(number for number in range(SIZE) if f"r{number}" == gone)
    rows, fine = rows_of(again.recipe.config, again.pool).readable(np.array([place, (place + 1) % SIZE]))
    assert fine.tolist() == [False, True]
    assert [bool(row.any()) for row in rows] == [False, True]
    finish(again)


def test_paid_evaluation_reads_features(folder):
    write_table(folder / "held.csv", 60, 3, "h")
    (folder / "held_labels.csv").write_text(
        "record,label\n" + "".join(f"h{number},{truth(f'h{number}')}\n" for number in range(60))
    )
    table = '[evaluation]\nkind = "paid"\npath = "held.csv"\nlabels = "held_labels.csv"\nepsilon = "2"\n[simulation]'
    campaign = create(config_of(folder, "tables", **{"[simulation]": table}))
    finish(campaign)
    measured = evaluations_of(campaign.store.transitions())[1]
    assert measured["accuracy"] > 0.7


@pytest.mark.parametrize(("kind", "takes"), [("tables", "records"), ("pictures", "features")])
def test_an_onnx_file_takes_records_where_the_map_can_be_in_it(folder, kind, takes):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    campaign = create(config_of(folder, kind))
    finish(campaign)
    assert export_model(campaign, folder / "model").no_onnx is None
    model, data = load_model(folder / "model"), records_of(folder, kind)[0]
    scaled = model.scaled(data)
    rows = scaled if takes == "records" else model.features.of_inputs(scaled)[0]
    session = runtime.InferenceSession(folder / "model" / "model.onnx")
    said = session.run(None, {"records": rows.astype(np.float32)})[0]
    assert np.allclose(said, model.predict_proba(scaled), atol=1e-5)
    card = (folder / "model" / "README.md").read_text()
    assert f"on `{model.features.name}` features of records" in card
    assert ("takes features of records" in card) == (takes == "features")
    assert model.form["onnx_reads"] == takes
    assert model.form["preprocessing"]["features"]["sha256"] in card


def test_a_dry_run_learns_from_features(folder, capsys):
    labels = "".join(f"p{number},{truth(f'p{number}')}\n" for number in range(400))
    (folder / "labels.csv").write_text("record,label\n" + labels)
    config_of(folder, "tables")
    words = ["simulate", "c.toml", "--data", "public.csv", "--labels", "labels.csv", "--seeds", "2", "--epsilons", "20"]
    further = ["--queries", "20", "--methods", "own", "--processes", "1", "--json"]
    with contextlib.chdir(folder):
        assert run([*words, *further]) == 0
    said = json.loads(capsys.readouterr().out)
    assert all(row["mean"]["value"] > 0.6 for row in said["outcomes"])


def test_a_campaign_on_public_data_shows_pictures_not_features(folder):
    from discreet.models import build_model
    from discreet.recipes.learning import to_bytes
    from discreet.report.gallery import gallery_of

    inputs = build_feature_map("scattering", shape=(8, 8), angles=4).output_shape
    (folder / "weights.safetensors").write_bytes(to_bytes(build_model("linear", inputs=inputs, classes=2)))
    text = text_of("pictures").replace('"private-pool"', '"public-data"')
    text = text.replace("initial = 40", "initial = 0").replace('accountant = "rdp"\nselection_epsilon = "2"\n', "")
    text = text.replace('name = "threshold-response"\nthreshold_epsilon = "0.5"', 'name = "diverse-public"')
    text += '[checkpoint]\npath = "weights.safetensors"\nepsilon = "1"\ndelta = "1e-6"\n'
    (folder / "c.toml").write_text(text)
    campaign = create(CampaignConfig.read(folder / "c.toml"))
    finish(campaign)
    shown = gallery_of(campaign).shown
    assert all(record.picture and record.predicted in ("no", "yes") for record in shown)
    scaled = records_of(folder, "pictures")[1]
    rows = rows_of(campaign.recipe.config, campaign.pool)
    assert np.array_equal(campaign.predictor().on_features.predict_proba(rows), campaign.predict_proba(scaled))


def test_progress_does_not_tell_how_many_a_hidden_selection_asked(folder):
    hidden = {'selection_epsilon = "2"': 'selection = "hidden"', '"threshold-response"': '"hidden-threshold"'}
    hidden |= {'threshold_epsilon = "0.5"': 'threshold_epsilon = "5"'}
    seen = []
    campaign = create(config_of(folder, "pictures", **hidden), watch=lambda *told: seen.append(told))
    finish(campaign)
    initial = len(campaign.store.questions(0))
    assert {told for told in seen if told[0] == "features"} == {("features", initial, initial)}
    assert len(campaign.store.questions(1)) not in (0, initial)


ENCODED = {
    "transformers": 'name = "image-encoder"\nencoder = "vit"\npretraining = "random weights (a test)"',
    "onnx": 'name = "image-encoder"\nencoder = "small.onnx"\npretraining = "random weights (a test)"',
    "random-fourier": 'name = "random-fourier"\nsize = 32\nbase = { name = "image-encoder", encoder = "vit" }',
}


@pytest.mark.thorough
@pytest.mark.parametrize("encoder", ENCODED)
def test_a_campaign_on_a_frozen_encoder_is_exported_with_it(folder, encoder):
    """From init to a prediction from the export alone; the ONNX file takes records where the encoder is of torch."""
    import torch
    from onnx import helper, numpy_helper, save
    from onnxruntime import InferenceSession
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    small = {"num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 8, "patch_size": 4, "num_channels": 1}
    ViTModel(ViTConfig(hidden_size=16, intermediate_size=16, **small)).save_pretrained(folder / "vit")
    weights = numpy_helper.from_array(np.random.default_rng(0).normal(size=(64, 12)).astype(np.float32), "w")
    nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])]
    ends = [helper.make_tensor_value_info(*end) for end in (("x", 1, ("n", 8, 8)), ("y", 1, ("n", 12)))]
    graph = helper.make_graph(nodes, "encoder", ends[:1], ends[1:], [weights])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "small.onnx")
    config = config_of(folder, "pictures", ENCODED[encoder])
    campaign = create(config)
    finish(campaign)
    assert load(config).recipe.inputs == campaign.recipe.inputs
    assert [check.ok for check in verify_campaign(config).checks if check.name == "features"] == [True]
    exported = export_model(campaign, folder / "model")
    assert exported.form["onnx_reads"] == ("features" if encoder == "onnx" else "records")
    model, records = load_model(folder / "model"), np.load(folder / "pool.npz")["x"][:7] / np.float32(255)
    assert np.array_equal(model.predict_proba(records), campaign.predict_proba(records))
    certified = json.loads((folder / "model" / "certificate.json").read_text())["features"]["encoder"]
    stated = "not stated" if encoder == "random-fourier" else "random weights (a test)"
    assert (certified["hash_of"], certified["pretraining"]) == ("weights", stated)
    if encoder != "onnx":
        session = InferenceSession(folder / "model" / "model.onnx", providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(session.run(None, {"records": records})[0], model.predict_proba(records), atol=1e-4)
    other = shutil.copytree(folder / "model" / "encoder", folder / "elsewhere")
    weights = next(path for path in other.iterdir() if path.suffix in (".safetensors", ".onnx"))
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    changed = load_model(folder / "model", encoder=weights if encoder == "onnx" else other)
    with pytest.raises(BadInput, match="not those that the map was made with"):
        changed.predict_proba(records)
