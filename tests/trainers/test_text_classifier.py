"""A classifier of texts: the same model from the same labels, least confident first, draws by dropout."""

import numpy as np
import pytest

from discreet.errors import BadInput, InvalidCheckpoint
from discreet.trainers import text_classifier
from discreet.trainers.layouts import Layout, measure
from discreet.trainers.text_classifier import TextClassifier, TextSettings, train_texts

WARM, COLD, WET = "it is hot and sunny", "it is cold and icy", "rain and puddles everywhere"
TEXTS = [f"{text} {number}" for number in range(12) for text in (WARM, COLD, WET)]
LABELS = ["warm", "cold", "wet"] * 12
SMALL = TextSettings(features=512, epochs=5)


@pytest.fixture(scope="module")
def model():
    return train_texts(TEXTS, LABELS, classes=("warm", "cold", "wet"), settings=SMALL)


def test_it_learns_and_rows_are_probabilities(model):
    found = model.predict_proba([WARM, COLD, WET])
    assert found.argmax(axis=1).tolist() == [0, 1, 2]
    assert np.allclose(found.sum(axis=1), 1)
    assert model.predict_proba([]).shape == (0, 3)
    assert model.embed([WARM]).shape == (1, 3)


def test_two_classes_have_one_row_of_weights():
    two = train_texts(TEXTS[::3] + TEXTS[1::3], ["warm"] * 12 + ["cold"] * 12, classes=("cold", "warm"), settings=SMALL)
    assert two.weights.shape == (1, 1024)
    assert two.predict_proba([WARM])[0, 1] > 0.5 > two.predict_proba([COLD])[0, 1]


def test_the_same_labels_make_the_same_bytes(model):
    again = train_texts(TEXTS, LABELS, classes=("warm", "cold", "wet"), settings=SMALL)
    assert again.to_bytes() == model.to_bytes()
    read = TextClassifier.from_bytes(model.to_bytes())
    assert np.array_equal(read.predict_proba(TEXTS), model.predict_proba(TEXTS))
    assert (read.classes, read.settings) == (model.classes, model.settings)
    for wrong in (b"", b"PK", model.to_bytes()[:-40]):
        with pytest.raises(InvalidCheckpoint):
            TextClassifier.from_bytes(wrong)
    assert repr(model) == "TextClassifier(classes=3)"


def test_the_least_confident_text_is_trained_on_first(model, monkeypatch):
    orders, before = [], text_classifier._order

    def watching(*arguments):
        orders.append(before(*arguments))
        return orders[-1]

    monkeypatch.setattr(text_classifier, "_order", watching)
    train_texts(TEXTS, LABELS, classes=model.classes, settings=SMALL, start=model)
    sure = model.predict_proba(TEXTS).max(axis=1)[orders[0]]
    assert (np.diff(sure) >= -1e-12).all()
    assert len(orders) == SMALL.epochs
    train_texts(TEXTS, LABELS, classes=model.classes, settings=TextSettings(features=512, epochs=1, order="shuffled"))
    assert sorted(orders[-1].tolist()) == list(range(len(TEXTS)))


def test_draws_differ_and_repeat(model):
    first = model.sample_proba([WARM, COLD], 5)
    assert first.shape == (5, 2, 3)
    assert np.array_equal(first, model.sample_proba([WARM, COLD], 5))
    assert first.std(axis=0).max() > 0
    still = TextClassifier(
        classes=model.classes,
        settings=TextSettings(features=512, dropout=0.0),
        weights=model.weights,
        offsets=model.offsets,
    )
    assert np.allclose(still.sample_proba([WARM], 3), model.predict_proba([WARM]))


def test_a_label_that_is_not_trusted_teaches_nothing():
    texts, told = [*TEXTS[::3], *TEXTS[1::3]], ["warm"] * 12 + ["cold"] * 12
    wrong = ["cold" if label == "warm" else "warm" for label in told]
    made = train_texts(
        texts * 2, told + wrong, classes=("cold", "warm"), settings=SMALL, weights=[1.0] * 24 + [0.0] * 24
    )
    assert made.predict_proba([WARM])[0, 1] > 0.5


@pytest.mark.parametrize("labels", [[], ["warm"], ["strange"] * len(TEXTS)])
def test_labels_that_do_not_fit_are_refused(labels):
    with pytest.raises(BadInput):
        train_texts(TEXTS, labels, classes=("warm", "cold"), settings=SMALL)


@pytest.mark.parametrize(
    "wrong", [{"features": 1}, {"epochs": 0}, {"regularization": 0}, {"dropout": 1.0}, {"order": "x"}, {"epochs": True}]
)
def test_settings_have_limits(wrong):
    with pytest.raises(BadInput):
        TextSettings(**wrong)


def test_accuracy_by_class(model):
    truth = np.array([model.classes.index(label) for label in ("warm", "cold", "wet")])
    evaluation = measure(model.predict_proba([WARM, COLD, WARM]), truth, Layout(classes=3))
    assert np.diagonal(evaluation.confusion).tolist() == [1, 1, 0]
    assert evaluation.accuracy == pytest.approx(2 / 3)
    assert evaluation.low < 2 / 3 < evaluation.high
