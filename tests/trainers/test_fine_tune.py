"""Fine-tuning on public records: it learns, repeats itself, reads nothing else; and pre-training by rotations."""

import numpy as np
import pytest
import torch

from discreet.errors import BadInput
from discreet.models import build_model
from discreet.trainers.dp_sgd import MISSING, CohortRecords, RandomShift, Settings
from discreet.trainers.fine_tune import FineTuning, rotations


def blobs(count=200, seed=0):
    chance = np.random.default_rng(seed)
    y = chance.integers(0, 3, count)
    return (chance.normal(size=(count, 4)) + 3 * np.eye(3, 4)[y]).astype(np.float32), y


def tuning(**options):
    settings = Settings(learning_rate=0.1, device="cpu", **options.pop("settings", {}))
    return FineTuning(settings=settings, **({"epochs": 10, "batch": 16} | options))


def test_it_learns_from_labels_and_leaves_its_start_alone():
    start = build_model("mlp", inputs=(4,), classes=3, hidden=[8])
    before = {name: value.clone() for name, value in start.state_dict().items()}
    x, y = blobs()
    made = tuning().train(start, CohortRecords(x=x, y=y))
    assert (made.predict(blobs(seed=1)[0]) == blobs(seed=1)[1]).mean() > 0.9
    assert all(torch.equal(value, before[name]) for name, value in start.state_dict().items())


@pytest.mark.parametrize("settings", [{}, {"ema": 0.9}, {"optimizer": "adam", "schedule": "cosine"}])
def test_the_same_records_give_the_same_model(settings):
    start, (x, y) = build_model("mlp", inputs=(4,), classes=3, hidden=[8], dropout=0.2), blobs()
    made = [tuning(settings=settings).train(start, CohortRecords(x=x, y=y)).module.state_dict() for _ in range(2)]
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])
    other = tuning(settings=settings, seed=1).train(start, CohortRecords(x=x, y=y)).module.state_dict()
    assert any(not torch.equal(made[0][name], other[name]) for name in other)


def test_records_without_a_label_are_not_read():
    start, (x, y) = build_model("mlp", inputs=(4,), classes=3, hidden=[8]), blobs()
    some = y.copy()
    some[100:] = MISSING
    broken = x.copy()
    broken[100:] = np.nan
    one = tuning().train(start, CohortRecords(x=x, y=some)).module.state_dict()
    two = tuning().train(start, CohortRecords(x=broken, y=some)).module.state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    none = tuning().train(start, CohortRecords(x=x, y=np.full(200, MISSING))).module.state_dict()
    assert all(torch.equal(none[name], start.state_dict()[name]) for name in none)


def test_several_labels_at_once():
    x, y = blobs()
    table = np.eye(3, dtype=np.float32)[y]
    table[0] = np.nan
    start = build_model("mlp", inputs=(4,), classes=3, hidden=[8])
    made = tuning(task="multilabel", settings={"loss": "multilabel-bce"}).train(start, CohortRecords(x=x, y=table))
    assert (made.predict(x)[1:] == table[1:].astype(bool)).mean() > 0.9


def test_views_and_odd_numbers():
    x = np.random.default_rng(0).normal(size=(20, 1, 8, 8)).astype(np.float32)
    start = build_model("linear", inputs=(1, 8, 8), classes=2)
    made = tuning(settings={"augment": RandomShift(1)}, epochs=1).train(start, CohortRecords(x=x, y=np.arange(20) % 2))
    assert made.predict(x).shape == (20,)
    for broken in ({"epochs": 0}, {"batch": True}):
        with pytest.raises(BadInput):
            tuning(**broken)


def stripes(count, seed):
    """Pictures that have an up and a down."""
    chance = np.random.default_rng(seed)
    x = chance.normal(size=(count, 1, 28, 28)).astype(np.float32) * 0.1
    x[:, :, :6] += 1.0
    x[:, :, :, :3] += 0.5
    return x


def test_a_trunk_learns_by_rotations_and_keeps_its_head():
    start = build_model("small_cnn", inputs=(1, 28, 28), classes=10)
    settings = Settings(learning_rate=0.1, device="cpu")
    made = rotations(start, stripes(40, 0), settings=settings, epochs=3, batch=32)
    head = [
        (a, b)
        for (n, a), (_, b) in zip(start.state_dict().items(), made.state_dict().items(), strict=True)
        if "head" in n
    ]
    assert head
    assert all(torch.equal(a, b) for a, b in head)
    assert any(
        not torch.equal(a, b) for a, b in zip(start.state_dict().values(), made.state_dict().values(), strict=True)
    )
    assert all(one.requires_grad for one in made.parameters())
    again = rotations(start, stripes(40, 0), settings=settings, epochs=3, batch=32)
    assert all(torch.equal(a, b) for a, b in zip(made.state_dict().values(), again.state_dict().values(), strict=True))
    # what it learnt: features of turned pictures lie apart
    rows = torch.from_numpy(stripes(20, 1))
    with torch.no_grad():
        gap = [
            float((m.features(rows) - m.features(rows.rot90(2, (2, 3)))).norm()) / float(m.features(rows).norm())
            for m in (start, made)
        ]
    assert gap[1] > gap[0]


def test_what_cannot_be_turned_is_refused():
    settings = Settings(device="cpu")
    with pytest.raises(BadInput, match="square"):
        rotations(
            build_model("small_cnn", inputs=(1, 28, 28), classes=2),
            np.zeros((2, 784)),
            settings=settings,
            epochs=1,
            batch=1,
        )
    with pytest.raises(BadInput, match="features"):
        rotations(torch.nn.Linear(3, 2), np.zeros((2, 1, 4, 4)), settings=settings, epochs=1, batch=1)
