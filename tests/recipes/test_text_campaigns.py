"""Pools of texts: vectors of a public encoder, or tokens of a transformer, from the first question to a prediction."""

import hashlib
import json

import numpy as np
import pytest
import torch

from discreet.config import CampaignConfig
from discreet.errors import BadInput, InvalidConfig
from discreet.pools import ArrayPool
from discreet.recipes.opening import create, load

pytestmark = pytest.mark.thorough

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat ran on mat home fast slowly . !"
CAT, DOG = ("the cat sat on mat", "a cat sat slowly", "cat cat !"), ("a dog ran home", "the dog ran fast", "dog dog .")
TOML = """format = "discreet.campaign/1"
name = "texts"
[pool]
path = "pool.csv"
kind = "csv"
id = "id"
text = "words"
size = 120
[task]
kind = "binary"
classes = ["cat", "dog"]
[budget]
epsilon = "40"
delta = "1e-3"
[recipe]
name = "private-pool"
[plan]
initial = 60
queries = [10]
batch = 20
epochs = 15
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
name = "text-encoder"
encoder = "tiny"
max_length = 12
pretraining = "random weights"
[model]
name = "embedding_head"
[trainer]
learning_rate = 4.0
engine = "reference"
[simulation]
seed = 2
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny encoder with random weights, and 120 sentences."""
    from transformers import BertConfig, BertModel

    place = tmp_path_factory.mktemp("texts")
    torch.manual_seed(1)
    settings = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=18, max_position_embeddings=32, **settings)).save_pretrained(place / "tiny")
    (place / "tiny" / "vocab.txt").write_text(WORDS.replace(" ", "\n"))
    (place / "tiny" / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    rows = [f"t{n},{(CAT, DOG)[n % 2][n % 3]}" for n in range(120)]
    (place / "pool.csv").write_text("\n".join(["id,words", *rows, ""]))
    return place


def config(folder, tmp_path, *changes):
    text = TOML + f'[storage]\nurl = "sqlite:///{tmp_path}/c.db"\n'
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return CampaignConfig.from_text(text, name="texts.toml", directory=folder)


def finish(campaign):
    while not campaign.done:
        questions = campaign.ask()
        campaign.tell({one.id: ("cat", "dog")[int(one.record[1:]) % 2] for one in questions})
        campaign.train()


TRANSFORMER = (
    """[features]
name = "text-encoder"
encoder = "tiny"
max_length = 12
pretraining = "random weights"
[model]
name = "embedding_head"
""",
    """[model]
name = "transformer"
encoder = "tiny"
max_length = 12
options = { train_layers = 1 }
""",
)
FEATURES = TRANSFORMER[0].removesuffix('[model]\nname = "embedding_head"\n')
SLOWLY = ("learning_rate = 4.0", "learning_rate = 1.0")


@pytest.mark.parametrize(
    "changes", [(), pytest.param((TRANSFORMER, SLOWLY), marks=pytest.mark.long)], ids=["vectors", "tokens"]
)
def test_texts_are_asked_trained_and_predicted(changes, folder, tmp_path):
    read = config(folder, tmp_path, *changes)
    campaign = create(read)
    finish(campaign)
    sentences = [*CAT, *DOG] * 4
    found = load(read).predict(sentences)
    right = np.mean([guess == ("cat" if text in CAT else "dog") for guess, text in zip(found, sentences, strict=True)])
    assert right >= (0.8 if not changes else 0.7)
    assert campaign.recipe.inputs == ((16,) if not changes else (12,))
    left = {path.suffix for path in campaign.store.directory.rglob("*") if path.is_file()}
    assert not left & {".npy", ".npz", ".rows"}  # no vectors are left


def test_vectors_are_computed_once_by_one_encoder(folder, tmp_path, monkeypatch):
    from discreet.features import TextEncoder
    from discreet.recipes import feature_rows, pool_records

    readable, counts = TextEncoder.readable, []
    monkeypatch.setattr(
        TextEncoder, "readable", lambda self, texts: (counts.append(len(texts)), readable(self, texts))[1]
    )
    campaign = create(config(folder, tmp_path))
    questions = campaign.ask()
    campaign.tell({one.id: ("cat", "dog")[int(one.record[1:]) % 2] for one in questions})
    counts.clear()
    campaign.train()
    assert sum(counts) == 60
    load(config(folder, tmp_path)).ask()
    assert sum(counts) == 120
    (path,) = campaign.store.directory.rglob("*.rows")
    assert path.stat().st_mode & 0o777 == 0o600
    asked = pool_records.rows_of(campaign.recipe.config, campaign.pool)
    assert np.array_equal(asked[:], asked[:])
    assert sum(counts) == 120
    monkeypatch.setattr(feature_rows, "versions_of", lambda *packages: "other versions")
    again = load(config(folder, tmp_path))
    assert again.pool.text[:2] == campaign.pool.text[:2]
    pool_records.rows_of(again.recipe.config, again.pool)[:2]
    assert sum(counts) == 122


CENTRES = (
    ('selection_epsilon = "2"', 'selection_epsilon = "2"\nselection = "paper"'),
    ('name = "threshold-response"\nthreshold_epsilon = "0.5"', 'name = "k-centre"'),
    ('name = "entropy"', 'name = "random"'),
)


def test_k_centre_places_texts(folder, tmp_path):
    campaign = create(config(folder, tmp_path, *CENTRES))
    finish(campaign)
    assert len(campaign.store.questions(1)) == 10


def test_k_centre_is_tried_before_a_campaign_begins(folder, tmp_path, monkeypatch):
    from discreet.trainers.torch_predictor import TorchPredictor

    def broken(*_):
        raise BadInput("vectors of texts", "this model has none", "Choose a score")

    monkeypatch.setattr(TorchPredictor, "embed", broken)
    with pytest.raises(InvalidConfig, match="this model has none") as refused:
        create(config(folder, tmp_path, *CENTRES))
    assert refused.value.line


def test_a_row_is_the_vector_of_its_own_text(folder, tmp_path):
    from discreet.models import SentenceEncoder
    from discreet.recipes.pool_records import rows_at, rows_of

    campaign = create(config(folder, tmp_path))
    read, pool = campaign.recipe.config, campaign.pool
    alone = SentenceEncoder(folder / "tiny", max_length=12).embed([CAT[2]])
    rows = rows_of(read, pool)
    assert rows.shape == (120, 16)
    np.testing.assert_allclose(rows[2:3], alone, atol=1e-6)
    np.testing.assert_allclose(rows_at(read, pool, np.array([8, 2]))[:], rows[np.array([8, 2])], atol=1e-6)
    gap = rows_of(read, ArrayPool(ids=["a", "b"], text=[CAT[0], None]))
    assert gap[:].any(axis=1).tolist() == [True, False]  # a text that is missing is a null


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ((FEATURES, ""), "nothing turns texts into numbers"),
        ((FEATURES, "[model]\nmax_length = 12\n"), "no encoder whose tokens"),
        ((FEATURES, '[model]\nencoder = "tiny"\n'), "Write .features. name = 'text-encoder', encoder = 'tiny'"),
        (('encoder = "tiny"', ""), "no encoder is named"),
        (('encoder = "tiny"', 'encoder = "absent"'), "nothing is downloaded"),
        (("max_length = 12", "max_length = 64"), "at most 32 tokens"),
        (('text = "words"', 'columns = ["words"]'), "features are of texts"),
    ],
)
def test_what_cannot_read_texts_is_refused_at_its_line(change, word, folder, tmp_path):
    if change[1].startswith("[model]"):
        change = (change[0] + "[model]\n", change[1])
    with pytest.raises(InvalidConfig, match=word) as refused:
        create(config(folder, tmp_path, change))
    assert refused.value.line


@pytest.mark.thorough
def test_texts_are_withdrawn_and_their_models_exported(folder, tmp_path):
    """From the directory alone, with a copy of the encoder; a withdrawn text is a null, wherever it is asked for."""
    from discreet import export_model, load_model
    from discreet.exports.model_form import verify_export
    from discreet.recipes.pool_records import rows_of

    campaign = create(config(folder, tmp_path))
    questions = campaign.ask()
    campaign.tell({one.id: ("cat", "dog")[int(one.record[1:]) % 2] for one in questions})
    gone = questions[0].record
    campaign.withdraw([gone])
    campaign.train()
    again = load(config(folder, tmp_path))
    assert again.pool.withdrew(gone)
    place = int(gone[1:])
    assert again.pool.text[place] == ""
    vectors = rows_of(again.recipe.config, again.pool)[place - 1 if place else 0 : place + 2]
    assert (~vectors.any(axis=1)).sum() == 1
    export_model(again, tmp_path / "model")
    certified = json.loads((tmp_path / "model" / "certificate.json").read_text())["features"]
    weights = hashlib.sha256((folder / "tiny" / "model.safetensors").read_bytes()).hexdigest()
    assert certified["encoder"] == {"hash_of": "weights", "sha256": weights, "pretraining": "random weights"}
    checks = {check.name: check.ok for check in verify_export(tmp_path / "model").checks}
    assert checks["features"]
    assert checks["form"]
    model, sentences = load_model(tmp_path / "model"), [*CAT, *DOG]
    assert (tmp_path / "model" / "encoder" / "vocab.txt").is_file()
    np.testing.assert_allclose(model.predict_proba(sentences), again.predict_proba(sentences), atol=1e-6)
    assert model.predict(sentences) == again.predict(sentences)
