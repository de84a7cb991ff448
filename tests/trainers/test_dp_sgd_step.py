"""A step is what the theory says: sampled, clipped, summed, hidden once, divided by a public number."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from training_runs import AMPLE, blobs, clipped, phase_of, trained

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import Seeded
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.trainers.dp_sgd import (
    DPSGD,
    MISSING,
    CohortRecords,
    RandomFlip,
    RandomShift,
    Settings,
    charge_training,
)
from discreet.trainers.dp_sgd.engine.parts import margin

CLIP = 0.7


def replaced(cohort, row, *, x=None, y=None):
    rows, labels = cohort.x.copy(), cohort.y.copy()
    if x is not None:
        rows[row] = x
    if y is not None:
        labels[row] = y
    return CohortRecords(x=rows, y=labels)


def test_the_first_sum_is_that_of_clipped_gradients_of_the_sampled(linear):
    cohorts = {"a": blobs(20), "b": blobs(15, seed=1)}
    run = trained(linear, cohorts, phase_of({"a": 0.5, "b": 0.9}, steps=1), clip=CLIP)
    masks = run.outputs("poisson-mask")
    assert [len(mask) for mask in masks] == [20, 15]
    expected = sum(
        clipped(linear, torch.from_numpy(cohort.x[row]), torch.tensor(cohort.y[row]), CLIP)
        for cohort, mask in zip(cohorts.values(), masks, strict=True)
        for row in np.flatnonzero(mask)
    )
    np.testing.assert_allclose(run.inputs()[0], expected.numpy(), rtol=1e-5, atol=1e-6)


def test_the_update_is_the_noisy_sum_over_the_planned_batch(linear):
    run = trained(linear, {"a": blobs(20)}, phase_of({"a": 0.5}, steps=1, batch=64), clip=CLIP, learning_rate=0.3)
    before = torch.cat([p.detach().reshape(-1) for p in linear.parameters()]).numpy()
    np.testing.assert_allclose(run.weights(), before - 0.3 * run.outputs()[0] / 64, rtol=1e-5, atol=1e-7)


def test_noise_is_scaled_to_the_clip_norm_and_drawn_once_a_step(linear):
    run = trained(linear, {"a": blobs(40)}, phase_of({"a": 0.9}, steps=3, sigma=2.5), clip=CLIP, micro_batch=4)
    noises = [call for call, _ in run.calls if call.mechanism == "gaussian"]
    assert len(noises) == 3
    for call in noises:
        assert call.parameters["noise_multiplier"] == 2.5
        assert CLIP <= call.sensitivity <= CLIP * (1 + 1.001 * margin(4))


@pytest.mark.parametrize("views", [1, 3])
def test_the_micro_batch_changes_memory_only(linear, views):
    options = {"augment": lambda x, g: x + 0.1 * torch.randn(x.shape, generator=g)} if views > 1 else {}
    runs = [
        trained(linear, {"a": blobs(50)}, phase_of({"a": 0.8}, steps=1), micro_batch=size, views=views, **options)
        for size in (3, 1000)
    ]
    if views == 1:
        np.testing.assert_allclose(runs[0].inputs()[0], runs[1].inputs()[0], rtol=1e-6, atol=1e-9)
    assert runs[0].inputs()[0].shape == runs[1].inputs()[0].shape


@pytest.mark.parametrize("size", [0, 6])
def test_an_empty_batch_is_a_noisy_step(linear, size):
    cohort = CohortRecords(x=np.zeros((size, 5), np.float32), y=np.full(size, MISSING))
    run = trained(linear, {"a": cohort}, phase_of({"a": 0.4}, steps=3))
    assert all(not value.any() for value in run.inputs())
    assert len(run.outputs()) == 3
    before = torch.cat([p.detach().reshape(-1) for p in linear.parameters()]).numpy()
    assert not np.array_equal(run.weights(), before)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 3e38])
def test_a_record_that_is_not_finite_adds_nothing_and_spoils_nothing(linear, poison):
    whole, phase = blobs(12), phase_of({"a": 1.0}, steps=3)
    with_it = trained(linear, {"a": replaced(whole, 4, x=poison)}, phase)
    without = trained(linear, {"a": replaced(whole, 4, y=MISSING)}, phase)
    if np.isfinite(poison):  # so large that its gradient overflows or does not: either way it is bounded
        assert np.linalg.norm(with_it.inputs()[0] - without.inputs()[0]) <= 1 + 1e-9
        assert np.isfinite(with_it.weights()).all()
    else:
        np.testing.assert_array_equal(with_it.weights(), without.weights())


@pytest.mark.parametrize("label", [MISSING, 3, 10**6, -7])
def test_a_record_without_a_class_adds_nothing_and_nobody_hears_of_it(linear, label, capfd, caplog):
    whole = blobs(10)
    one = trained(linear, {"a": replaced(whole, 2, y=label)}, phase_of({"a": 1.0}, steps=1))
    others = sum(
        clipped(linear, torch.from_numpy(whole.x[row]), torch.tensor(whole.y[row]), 1.0)
        for row in range(10)
        if row != 2
    )
    np.testing.assert_allclose(one.inputs()[0], others.numpy(), rtol=1e-5, atol=1e-6)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_what_a_model_says_of_a_record_stays_inside(linear, capfd):
    made_up = []

    def tells(outputs, target):
        made_up.append(target)
        if len(made_up) <= 5:  # the first calls are trials on made-up records
            return nn.functional.cross_entropy(outputs, target.expand(len(outputs)))
        raise ValueError("secret 42")

    run = trained(linear, {"a": blobs(10)}, phase_of({"a": 1.0}), loss=tells)  # every record is a null to it
    assert not any(value.any() for value in run.inputs())
    assert capfd.readouterr() == ("", "")


def test_what_goes_wrong_on_made_up_records_is_said_in_full_and_before_a_charge(linear):
    def broken(outputs, target):
        raise ValueError("shapes do not fit")

    trainer = DPSGD(linear, classes=3, settings=Settings(loss=broken))
    with pytest.raises(BadInput, match="ValueError: shapes do not fit"):
        trainer.check(phase=phase_of({"a": 1.0}), cohorts={"a": blobs(10)})


def test_without_a_receipt_for_this_very_phase_there_is_no_step(linear):
    ledger = Ledger.create(MemorySink(), AMPLE, source=Seeded(0))
    planned, other = phase_of({"a": 0.5}, steps=4), phase_of({"a": 0.5}, steps=5)
    trainer, cohorts = DPSGD(linear, classes=3), {"a": blobs(10)}
    for wrong in ([], None, [None], charge_training(ledger, planned) * 2, charge_training(ledger, other)):
        with pytest.raises(ReceiptRefused):
            trainer.train(phase=planned, cohorts=cohorts, receipt=wrong)
    elsewhere = charge_training(ledger, phase_of({"a": 0.5}, steps=4, number=1))
    with pytest.raises(ReceiptRefused):
        trainer.train(phase=planned, cohorts=cohorts, receipt=elsewhere)
    used = charge_training(ledger, planned)
    trainer.train(phase=planned, cohorts=cohorts, receipt=used)
    with pytest.raises(ReceiptRefused, match="spent"):
        trainer.train(phase=planned, cohorts=cohorts, receipt=used)


def test_stages_are_trained_one_after_the_other(linear):
    run = trained(linear, {"a": blobs(20)}, phase_of({"a": 0.5}, steps=2, stages=2))
    assert len(run.outputs()) == 4
    assert len({call.ticket.entry.sequence for call, _ in run.calls}) == 2


def test_only_what_is_public_is_watched(linear):
    seen = []
    trained(linear, {"a": blobs(9)}, phase_of({"a": 0.5}, steps=3), watch=lambda *facts: seen.append(facts))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_frozen_weights_stay(linear):
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    model[0].requires_grad_(False)
    run = trained(model, {"a": blobs(20)}, phase_of({"a": 0.5}))
    assert torch.equal(run.predictor.module[0].weight, model[0].weight)
    assert not torch.equal(run.predictor.module[2].weight, model[2].weight)
    assert run.inputs()[0].size == 15


def test_tied_weights_are_one_parameter():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(5, 5, bias=False)
            self.second = nn.Linear(5, 5, bias=False)
            self.second.weight = self.first.weight
            self.last = nn.Linear(5, 3)

        def forward(self, x):
            return self.last(self.second(torch.tanh(self.first(x))))

    model, cohort = Tied(), blobs(8)
    run = trained(model, {"a": cohort}, phase_of({"a": 1.0}, steps=1), clip=CLIP)
    expected = sum(clipped(model, torch.from_numpy(cohort.x[i]), torch.tensor(cohort.y[i]), CLIP) for i in range(8))
    np.testing.assert_allclose(run.inputs()[0], expected.numpy(), rtol=1e-5, atol=1e-6)


def test_views_of_a_record_are_averaged_before_clipping(linear):
    cohort = blobs(6)
    shifts = [0.0, 1.0, -1.0]

    def shifted(views, generator):
        return views + torch.tensor(shifts)[:, None]

    run = trained(linear, {"a": cohort}, phase_of({"a": 1.0}, steps=1), clip=CLIP, augment=shifted, views=3)

    def mean_loss(outputs, target):
        return nn.functional.cross_entropy(outputs, target.expand(len(outputs)))

    expected = 0
    for row in range(6):
        linear.zero_grad()
        views = torch.from_numpy(cohort.x[row])[None] + torch.tensor(shifts)[:, None]
        mean_loss(linear(views), torch.tensor(cohort.y[row])[None]).backward()
        flat = torch.cat([p.grad.reshape(-1) for p in linear.parameters()]).double()
        expected = expected + flat * min(1.0, CLIP / float(flat.norm()))
    np.testing.assert_allclose(run.inputs()[0], expected.numpy(), rtol=1e-5, atol=1e-6)


def test_pictures_are_shifted_and_flipped_each_by_itself():
    rng = torch.Generator().manual_seed(1)
    rows = torch.arange(2 * 3 * 6 * 5, dtype=torch.float32).reshape(2, 3, 6, 5) + 1
    moved = RandomShift(1)(rows, rng)
    assert moved.shape == rows.shape
    padded = nn.functional.pad(rows, (1, 1, 1, 1))
    for row in range(2):
        spots = [padded[row, :, i : i + 6, j : j + 5] for i in range(3) for j in range(3)]
        assert any(torch.equal(moved[row], spot) for spot in spots)
    turned = RandomFlip()(rows.repeat(20, 1, 1, 1), rng)
    kinds = {"same" if torch.equal(a, b) else "flipped" for a, b in zip(turned, rows.repeat(20, 1, 1, 1), strict=True)}
    assert kinds == {"same", "flipped"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"clip": 0},
        {"clip": float("nan")},
        {"learning_rate": -1},
        {"ema": 1.0},
        {"micro_batch": 0},
        {"views": 2},
        {"person_clip": "both"},
        {"schedule": "staircase"},
        {"loss": "hinge"},
        {"optimizer": "quantum"},
        {"optimizer": "LBFGS"},
        {"optimizer": "sgd", "optimizer_options": {"wings": 2}},
        {"device": "abacus"},
        {"checkpoint_every": True},
    ],
)
def test_bad_settings_are_refused_in_words(linear, wrong):
    with pytest.raises(BadInput):
        trained(linear, {"a": blobs(5)}, phase_of({"a": 0.5}), **wrong)


def test_bad_cohorts_are_refused_before_anything_is_drawn(linear):
    trainer, phase = DPSGD(linear, classes=3), phase_of({"a": 0.5})
    for cohorts in ({}, {"b": blobs(3)}, {"a": np.zeros((3, 5))}):
        with pytest.raises(BadInput, match="no records of cohort a"):
            trainer.check(phase=phase, cohorts=cohorts)
    with pytest.raises(BadInput, match="equally many"):
        CohortRecords(x=np.zeros((3, 5)), y=np.zeros(4, int))
    with pytest.raises(BadInput, match="numbers"):
        CohortRecords(x=np.zeros((3, 5)), y=np.array(["a", "b", "c"]))
    with pytest.raises(BadInput, match="row of 4"):
        DPSGD(linear, classes=4).check(phase=phase, cohorts={"a": blobs(3)})
    assert "0.5" not in repr(blobs(3))

    class Broken:
        shape, dtype = (3, 5), np.dtype(np.float32)

        def __len__(self):
            return 3

        def __getitem__(self, rows):
            raise OSError("cannot read /data/anna.png")

    fewer = blobs(6)
    short = type("Short", (), {"shape": (6, 5), "dtype": fewer.x.dtype, "__len__": lambda self: 6})
    short.__getitem__ = lambda self, rows: fewer.x[rows][1:]
    with pytest.raises(BadInput, match="reader") as caught:
        CohortRecords(x=short(), y=fewer.y).rows(np.arange(4))
    assert "4" not in str(caught.value)
    with pytest.raises(BadInput, match="OSError") as caught:
        CohortRecords(x=Broken(), y=np.zeros(3, int)).rows(np.arange(2))
    assert "anna" not in str(caught.value)


@pytest.mark.parametrize("kind", ["tensor", "list", "mapped", "uint8", "bool-labels", "float64"])
def test_records_may_come_in_many_kinds(tmp_path, kind):
    cohort, model = blobs(12), nn.Linear(5, 3)
    x, y = cohort.x, cohort.y
    if kind == "tensor":
        x, y = torch.from_numpy(x), torch.from_numpy(y)
    if kind == "list":
        x, y = x.tolist(), y.tolist()
    if kind == "mapped":
        np.save(tmp_path / "x.npy", x)
        x = np.load(tmp_path / "x.npy", mmap_mode="r")
    if kind == "float64":
        x = np.asfortranarray(x.astype(np.float64))
    if kind == "uint8":
        x, model = np.clip(x * 10, 0, 255).astype(np.uint8), nn.Sequential(Floats(), nn.Linear(5, 3))
    if kind == "bool-labels":
        y = y > 0
    run = trained(model, {"a": CohortRecords(x=x, y=y)}, phase_of({"a": 0.8}))
    assert any(value.any() for value in run.inputs())


class Floats(nn.Module):
    def forward(self, x):
        return x.float() / 255


def test_the_given_model_is_not_touched(linear):
    before = {name: value.clone() for name, value in linear.state_dict().items()}
    trained(linear, {"a": blobs(10)}, phase_of({"a": 0.5}))
    assert all(torch.equal(value, before[name]) for name, value in linear.state_dict().items())


def test_settings_name_themselves():
    assert Settings().digest() == Settings(checkpoint_every=7).digest()
    assert Settings().digest() != Settings(clip=2.0).digest()
    assert Settings(augment=RandomShift(1)).digest() != Settings(augment=RandomShift(2)).digest()
    one, other = ([lambda share: 1.0 - share, lambda share: 1.0 - 2 * share][k] for k in (0, 1))
    assert Settings(schedule=one).digest() != Settings(schedule=other).digest()

    def closing(over):
        return lambda outputs, target: (outputs * over).sum()

    assert Settings(loss=closing(1.0)).digest() == Settings(loss=closing(1.0)).digest()
    assert Settings(loss=closing(1.0)).digest() != Settings(loss=closing(2.0)).digest()


def test_settings_have_the_same_name_in_every_process():
    code = (
        "from discreet.trainers.dp_sgd import Settings, multilabel_bce, RandomFlip\n"
        "schedule = lambda share: 1 - share * ('a' in {'a', 'b', 'c', 'dd'})  # a frozenset among its constants\n"
        "print(Settings(loss=multilabel_bce(smoothing=0.2), augment=RandomFlip(), schedule=schedule).digest())"
    )
    assert "frozenset" in code
    names = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(names) == 1
