"""A campaign that declares a threshold and subgroups: they are paid for, measured, predicted with and exported."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import discreet
from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.errors import InvalidConfig
from discreet.exports import export_model
from discreet.recipes.labelled_records import held_out, price_of
from discreet.recipes.opening import create, load
from discreet.storage import open_storage
from discreet.trainers.dp_sgd import MISSING

TOML = """format = "discreet.campaign/1"
name = "bank"
[pool]
path = "pool.csv"
kind = "csv"
id = "customer"
columns = ["age", "balance"]
size = 200
[task]
kind = "binary"
classes = ["no", "yes"]
threshold = 0.3
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 80
queries = [20]
batch = 20
epochs = 4
accountant = "rdp"
[oracle]
name = "simulated"
path = "labels.csv"
[model]
name = "linear"
[trainer]
learning_rate = 1.0
engine = "reference"
[evaluation]
kind = "paid"
epsilon = "1"
path = "held.csv"
labels = "held-labels.csv"
group = "sex"
groups = ["female", "male"]
[simulation]
seed = 1
"""


def write(folder, text=TOML):
    rng = np.random.default_rng(0)
    for name, size, start in (("pool", 200, 0), ("held", 400, 1000)):
        x, sex = (
            rng.normal(size=(size, 2)),
            rng.choice(["female", "male", "", "other"], size, p=[0.5, 0.4, 0.05, 0.05]),
        )
        yes = x[:, 0] > np.where(sex == "male", 1.5, 0.5)
        rows = [f"c{start + n},{a:.3f},{b:.3f},{s}" for n, ((a, b), s) in enumerate(zip(x, sex, strict=True))]
        (folder / f"{name}.csv").write_text("\n".join(["customer,age,balance,sex", *rows]) + "\n")
        labels = [f"c{start + n},{'yes' if one else 'no'}" for n, one in enumerate(yes)]
        (folder / ("labels.csv" if name == "pool" else "held-labels.csv")).write_text(
            "\n".join(["record,label", *labels]) + "\n"
        )
    (folder / "bank.toml").write_text(text)
    return folder / "bank.toml"


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    file = write(folder)
    assert run(["init", str(file)]) == run(["run", str(file)]) == 0
    return load(CampaignConfig.read(file)), folder


@pytest.mark.thorough
def test_what_is_measured_is_what_was_declared_and_paid_for(ended):
    campaign, _ = ended
    event = price_of(campaign.recipe.config)
    assert (event.sensitivity, str(event.epsilon)) == (2, "1")  # a record is in its cell, and in its group's
    last = campaign.status().evaluations[1]
    assert set(last["groups"]) == {"female", "male"}
    assert set(last["groups"]["male"]) == set(last["metrics"])
    assert (last["table"]["threshold"], last["table"]["groups"]) == (0.3, ["female", "male"])
    assert 0.3 in last["table"]["edges"]
    assert last["metrics"]["accuracy"]["baseline"] > 0.5
    json.dumps(last, allow_nan=False)


@pytest.mark.thorough
def test_the_threshold_is_that_of_predictions_and_exports(ended, tmp_path):
    campaign, _ = ended
    x = np.random.default_rng(3).normal(size=(200, 2)).astype(np.float32)
    second = campaign.predict_proba(x)[:, 1]
    expected = ["yes" if one >= 0.3 else "no" for one in second]
    assert ((second >= 0.3) & (second < 0.5)).any()
    assert campaign.predict(x) == expected
    export = export_model(campaign, tmp_path / "model", onnx=False).directory
    loaded = discreet.load_model(export)
    assert loaded.predict(x) == expected
    assert loaded.predict(x, threshold=0.5) == ["yes" if one >= 0.5 else "no" for one in second]
    assert "from a probability of 0.3 on" in (export / "README.md").read_text()


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("threshold = 0.3", "threshold = 1.0", "threshold"),
        ('kind = "binary"', 'kind = "multilabel"', "threshold"),
        ('groups = ["female", "male"]\n', "", "group"),
        ('group = "sex"\n', "", "groups"),
        ('kind = "paid"', 'kind = "paid"\ntable = "roc"', "table"),
        ('kind = "paid"', 'kind = "paid"\nedges = [0.5, 0.2]', "edges"),
        ('kind = "paid"', 'kind = "paid"\nedges = [0.5]', "edges"),
    ],
)
def test_what_is_declared_wrongly_is_refused_with_its_key(old, new, key, tmp_path):
    with pytest.raises(InvalidConfig, match=key):
        CampaignConfig.from_text(TOML.replace(old, new), directory=tmp_path)


@pytest.mark.thorough
def test_a_campaign_with_class_weights_trains_and_exports_them(tmp_path):
    file = write(tmp_path, TOML.replace("[trainer]", "[trainer]\nclass_weights = [1, 6]"))
    assert run(["init", str(file)]) == run(["run", str(file)]) == 0
    weighted = load(CampaignConfig.read(file)).status().evaluations[1]
    assert weighted["metrics"]["balanced-accuracy"]["value"] > 0.6


def test_class_weights_are_not_for_several_labels(tmp_path):
    text = TOML.replace("[trainer]", "[trainer]\nclass_weights = [1, 6]").replace("threshold = 0.3\n", "")
    with pytest.raises(InvalidConfig, match="class_weights"):
        CampaignConfig.from_text(text.replace('"binary"', '"multilabel"'), directory=tmp_path)


def test_a_group_that_is_no_column_is_refused_before_anything_is_charged(tmp_path):
    file = write(tmp_path, TOML.replace('group = "sex"', 'group = "gender"'))
    with pytest.raises(InvalidConfig, match="gender"):
        create(CampaignConfig.read(file))
    assert not open_storage(f"sqlite:///{tmp_path / 'bank.db'}").campaigns()


@pytest.mark.parametrize("cell", ["maybe", "SKIP", "", "yes,no", "\udcff"])
def test_a_private_label_that_is_no_class_is_none_and_no_error(cell, tmp_path):
    file = write(tmp_path)
    labels = (tmp_path / "held-labels.csv").read_text().splitlines()
    labels[400] = "c1399," + cell  # the last one
    (tmp_path / "held-labels.csv").write_text("\n".join(labels) + "\n", errors="surrogateescape")
    config = CampaignConfig.read(file)
    campaign = create(config)
    phase = SimpleNamespace(phase=1, pool=campaign.pool)
    known = held_out(config, phase, last=True).records.y
    assert known[399] == MISSING
    assert set(known[:399].tolist()) == {0, 1}
    public = TOML.replace('kind = "paid"\nepsilon = "1"', 'kind = "public"')
    file.write_text(public.replace('name = "bank"', 'name = "open"'))
    if cell == "maybe":
        with pytest.raises(InvalidConfig, match="1 of its 400 labels are outside the classes"):
            create(CampaignConfig.read(file))
