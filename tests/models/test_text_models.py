"""Text: encoders read from a directory and nowhere else, of which the last layers train; tokens of public length."""

import json

import numpy as np
import pytest
import torch
from model_cases import BERT, DISTILBERT, LENGTH, TEXT, make, records, trained

from discreet.errors import BadInput
from discreet.models import SentenceEncoder, build_model, tokenize

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat ran on mat home fast slowly . !"
SECRET = "unmistakable"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A tiny BERT with random weights and a vocabulary of a few words, as save_pretrained leaves one."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("tiny-bert")
    torch.manual_seed(1)
    config = BertConfig(**{key: value for key, value in BERT.items() if key != "model_type"})
    BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text(WORDS.replace(" ", "\n"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    return folder


def build(**options):
    return build_model("transformer", inputs=(LENGTH,), classes=3, **options)


def tensors(tokens):
    return {name: torch.from_numpy(values) for name, values in tokens.items()}


def test_only_the_last_layers_the_pooler_and_the_head_train():
    names = set(trained(build(config=BERT, train_layers=1)))
    last = {name for name in names if name.startswith("encoder.encoder.layer.2.")}
    assert {name.rsplit(".", 1)[0] for name in names - last} == {"encoder.pooler.dense", "head.linear"}
    assert len(last) == 16  # six affine layers and two normalisations
    assert set(trained(build(config=BERT, train_layers=0))) == names - last
    distil = set(trained(build(config=DISTILBERT, train_layers=0)))
    assert distil == {"pooler.0.weight", "pooler.0.bias", "head.linear.weight", "head.linear.bias"}


def test_weights_are_those_of_the_directory_and_the_head_is_from_the_seed(directory, capfd):
    from safetensors.torch import load_file

    before = torch.random.get_rng_state()
    model, again, other = build(path=directory), build(path=str(directory)), build(path=directory, seed=1)
    assert torch.equal(torch.random.get_rng_state(), before)
    stored = load_file(directory / "model.safetensors")
    assert stored
    assert all(torch.equal(model.encoder.state_dict()[name], values) for name, values in stored.items())
    assert torch.equal(model.head.linear.weight, again.head.linear.weight)
    assert not torch.equal(model.head.linear.weight, other.head.linear.weight)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("family", TEXT)
def test_position_ids_have_a_row_for_each_record(family):
    model, x = make(family), records(family, 4)
    seen = []
    model.encoder.embeddings.position_embeddings.register_forward_hook(lambda _, given, __: seen.append(given[0].shape))
    model(x)
    assert seen == [(4, LENGTH)]


@pytest.mark.parametrize("family", TEXT)
def test_the_answer_is_the_librarys_and_padding_is_not_read(family):
    model, x = make(family).double(), records(family, 4)
    library = model.encoder(input_ids=x["input_ids"], attention_mask=x["attention_mask"]).last_hidden_state[:, 0]
    own = model.encoder(**model._arguments(x)).last_hidden_state[:, 0]
    torch.testing.assert_close(own, library)
    if family in ("bert", "distilbert"):
        other = torch.where(x["attention_mask"] == 1, x["input_ids"], 39)
        torch.testing.assert_close(model(x), model({**x, "input_ids": other}))


def test_the_second_text_of_a_pair_is_told_apart(directory):
    model = build(path=directory).eval()
    tokens = tokenize(["the cat sat"], pairs=["a dog ran"], path=directory, max_length=LENGTH)
    assert tokens["token_type_ids"].tolist() == [[0, 0, 0, 0, 0, 1, 1, 1, 1]]
    pair = tensors(tokens)
    assert not torch.allclose(model(pair), model({**pair, "token_type_ids": torch.zeros_like(pair["input_ids"])}))


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({}, "either path= or config="),
        ({"config": BERT, "path": "."}, "either path= or config="),
        ({"config": BERT, "train_layers": 4}, "the encoder has 3 layers"),
        ({"config": BERT, "train_layers": -1}, "at least 0"),
        ({"config": {**BERT, "max_position_embeddings": 8}}, "at most 8"),
        ({"config": {**BERT, "model_type": "roberta", "max_position_embeddings": 9}}, "at most 8"),
        ({"config": {**BERT, "model_type": "gpt2"}}, "its family is 'gpt2'"),
        ({"config": {**BERT, "num_attention_heads": 3}}, "transformers refused it"),
        ({"config": "bert"}, "not a table with model_type"),
        ({"path": "bert-base-uncased"}, "nothing is downloaded"),
    ],
)
def test_what_cannot_be_built_is_refused(options, part):
    with pytest.raises(BadInput) as refused:
        build(**options)
    assert part in refused.value.fact
    assert refused.value.remedy


def test_a_batch_that_is_not_a_table_of_tokens_is_refused():
    with pytest.raises(BadInput, match="input_ids and attention_mask"):
        build(config=BERT)(torch.zeros(2, LENGTH))


def test_pickled_weights_are_never_read(directory, tmp_path):
    (tmp_path / "config.json").write_bytes((directory / "config.json").read_bytes())
    torch.save(build(path=directory).encoder.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(BadInput, match="could not be read") as refused:
        build(path=tmp_path)
    assert "model.safetensors" in refused.value.remedy


def test_code_in_a_directory_is_never_run(tmp_path):
    places = {"AutoConfig": "run.Settings", "AutoModel": "run.Model", "AutoTokenizer": ["run.Tokens", None]}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "surely-new", "auto_map": places}))
    (tmp_path / "run.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    for attempt in (lambda: build(path=tmp_path), lambda: tokenize(["a"], path=tmp_path, max_length=4)):
        with pytest.raises(BadInput, match="could not be read"):
            attempt()
    assert not (tmp_path / "ran").exists()


def test_tokens_have_the_asked_length_whatever_the_texts(directory):
    texts = ["the cat", "the dog sat on the mat . the cat ran home fast !", ""]
    tokens = tokenize(texts, path=directory, max_length=6)
    assert list(tokens) == ["input_ids", "attention_mask"]
    assert all(values.shape == (3, 6) and values.dtype == np.int64 for values in tokens.values())
    assert tokens["attention_mask"].sum(1).tolist() == [4, 6, 2]
    assert tokens["input_ids"][0].tolist() == [2, 5, 7, 3, 0, 0]
    assert tokenize([], path=directory, max_length=6)["input_ids"].shape == (0, 6)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"texts": SECRET}, "a sequence of strings"),
        ({"texts": [SECRET, 3, b"bytes"]}, "2 of them are not strings"),
        ({"texts": [SECRET], "pairs": [SECRET, SECRET]}, "each text has one pair"),
        ({"texts": [SECRET], "max_length": 2}, "at least 3"),
    ],
)
def test_what_cannot_be_tokenised_is_refused_without_showing_it(directory, arguments, part):
    with pytest.raises(BadInput) as refused:
        tokenize(**{"path": directory, "max_length": 6, **arguments})
    assert part in refused.value.fact
    assert SECRET not in repr(refused.value)


def test_a_directory_without_a_vocabulary_is_refused(directory, tmp_path):
    (tmp_path / "config.json").write_bytes((directory / "config.json").read_bytes())
    with pytest.raises(BadInput, match="vocabulary is missing"):
        tokenize(["a cat"], path=tmp_path, max_length=6)


def test_a_sentence_is_the_mean_of_its_tokens_at_length_one(directory):
    encoder = SentenceEncoder(directory, max_length=16)
    texts = ["the cat sat", "a dog ran home fast ! the cat ran home slowly . !", "the mat", ""]
    vectors = encoder.embed(texts)
    model = encoder._encoder
    for text, vector in zip(texts, vectors, strict=True):
        tokens = tensors(tokenize([text], path=directory, max_length=16))
        real = {name: values[:, : int(tokens["attention_mask"].sum())] for name, values in tokens.items()}
        mean = model(**real).last_hidden_state.mean(1)[0]  # no padding at all
        np.testing.assert_allclose(vector, (mean / mean.norm()).numpy(), atol=1e-6)
    assert vectors.shape == (4, encoder.width)
    assert vectors.dtype == np.float32
    assert encoder.embed([]).shape == (0, encoder.width)


def test_a_sentences_vector_does_not_depend_on_its_neighbours(directory):
    encoder = SentenceEncoder(directory, max_length=16)
    long = " ".join(["the cat ran home fast !"] * 4)
    assert np.array_equal(encoder.embed(["the cat", long])[0], encoder.embed(["the cat"])[0])
    free = SentenceEncoder(directory, max_length=16, normalise=False).embed(["the cat"])
    assert np.linalg.norm(free) != pytest.approx(1.0, abs=1e-3)


def test_vectors_feed_a_head(directory):
    vectors = SentenceEncoder(directory, max_length=8).embed(["the cat sat", "a dog ran"])
    model = build_model("embedding_head", inputs=vectors.shape[1:], classes=2)
    assert model(torch.from_numpy(vectors)).shape == (2, 2)


def test_a_sentence_encoder_refuses_what_it_cannot_read(directory):
    with pytest.raises(BadInput, match="nothing is downloaded"):
        SentenceEncoder("sentence-transformers/all-MiniLM-L6-v2")
    with pytest.raises(BadInput, match="at most 16"):
        SentenceEncoder(directory, max_length=17).embed(["the cat"])
