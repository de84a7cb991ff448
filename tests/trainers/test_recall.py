"""Fine-tuning that does not forget: what the start model said of unlabelled public records holds it."""

import numpy as np
import pytest
import torch
from test_fine_tune import blobs, tuning

from discreet.errors import BadInput
from discreet.models import build_model
from discreet.trainers.dp_sgd import MISSING, CohortRecords


@pytest.fixture(scope="module")
def known():
    """A model that knows three classes."""
    x, y = blobs(300)
    return tuning().train(build_model("mlp", inputs=(4,), classes=3, hidden=[8]), CohortRecords(x=x, y=y)).module


def pool(seed=5):
    x, _ = blobs(200, seed)
    return CohortRecords(x=x, y=np.full(200, MISSING))


def one_class():
    """Labels of one class alone, as a selector might bring them, some of them wrong."""
    x, y = blobs(200, 3)
    return CohortRecords(x=x[y == 0], y=np.zeros((y == 0).sum(), dtype=np.int64))


def right(model):
    x, y = blobs(300, 9)
    return (model.predict(x) == y).mean()


def test_labels_of_one_class_do_not_make_it_forget_the_others(known):
    alone = tuning(epochs=40).train(known, one_class())
    held = tuning(epochs=40, recall=500).train(known, one_class(), pool=pool())
    assert right(alone) < right(held) - 0.05
    assert right(held) > 0.9


def test_it_still_learns_what_labels_say(known):
    x, y = blobs(200, 3)
    turned = CohortRecords(x=x, y=(y + 1) % 3)  # what it knew is wrong now
    found = [right(tuning(epochs=20, recall=recall).train(known, turned, pool=pool())) for recall in (1, 10**6)]
    assert found[0] < 0.3
    assert found[1] > 0.9


def same(one, two):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True))


def test_labels_of_recalled_records_are_not_read_and_it_repeats_itself(known):
    first = tuning(recall=50).train(known, one_class(), pool=pool()).module
    with_labels = CohortRecords(x=pool().x, y=np.ones(200, dtype=np.int64))
    assert same(first, tuning(recall=50).train(known, one_class(), pool=with_labels).module)
    assert not same(first, tuning(recall=50).train(known, one_class(), pool=pool(6)).module)
    plain = tuning().train(known, one_class()).module
    assert same(plain, tuning(recall=50).train(known, one_class()).module)  # there is nothing to recall
    assert same(plain, tuning(recall=0).train(known, one_class(), pool=pool()).module)


def test_what_is_broken_teaches_nothing(known):
    rows = np.array(pool().x)
    rows[:199] = np.nan
    made = tuning(recall=50).train(known, one_class(), pool=CohortRecords(x=rows, y=np.full(200, MISSING)))
    assert all(bool(torch.isfinite(one).all()) for one in made.module.parameters())


def test_several_labels_at_once(known):
    x, y = blobs()
    table = np.eye(3, dtype=np.float32)[y]
    options = {"task": "multilabel", "settings": {"loss": "multilabel-bce"}, "recall": 100}
    start = build_model("mlp", inputs=(4,), classes=3, hidden=[8])
    made = tuning(**options).train(start, CohortRecords(x=x, y=table), pool=CohortRecords(x=x, y=table))
    assert made.predict(x).shape == (200, 3)


@pytest.mark.parametrize("recall", [-1, float("nan"), True, "5", 1e9])
def test_what_is_no_number_of_labels_is_refused(recall):
    with pytest.raises(BadInput, match="recall"):
        tuning(recall=recall)
