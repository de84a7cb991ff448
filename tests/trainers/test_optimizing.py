"""From noisy gradients to weights: any optimizer, schedules, adaptive clipping, the moving average."""

import numpy as np
import pytest
import torch
from torch import nn
from training_runs import blobs, phase_of, trained

from discreet.errors import BadInput
from discreet.trainers.dp_sgd.optimization import average_into, clip_adaptively, factor_at

PHASE = phase_of({"a": 0.5}, steps=5)


def by_hand(model, run, make, *, factors=(1.0,) * 5, ema=None):
    """Feed the recorded noisy sums to a torch optimizer ourselves."""
    import copy

    mine = copy.deepcopy(model)
    optimizer = make(mine.parameters())
    rate = optimizer.param_groups[0]["lr"]
    average = [p.detach().clone() for p in mine.parameters()]
    for step, (noisy, factor) in enumerate(zip(run.outputs(), factors, strict=True), start=1):
        start = 0
        for p in mine.parameters():
            p.grad = torch.from_numpy(noisy[start : start + p.numel()] / 8).float().reshape(p.shape)
            start += p.numel()
        optimizer.param_groups[0]["lr"] = rate * factor
        optimizer.step()
        kept = min(ema or 0, (1 + step) / (10 + step))
        average = [kept * a + (1 - kept) * p.detach() for a, p in zip(average, mine.parameters(), strict=True)]
    return torch.cat([a.reshape(-1) for a in (average if ema else mine.parameters())]).detach().numpy()


@pytest.mark.parametrize(
    ("name", "make", "options"),
    [
        ("sgd", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), {"momentum": 0.9}),
        ("nadam", lambda p: torch.optim.NAdam(p, lr=0.1), {}),
        ("adamw", lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1), {"weight_decay": 0.1}),
        ("Adadelta", lambda p: torch.optim.Adadelta(p, lr=0.1), {}),
    ],
)
def test_any_optimizer_gets_the_noisy_mean(linear, name, make, options):
    run = trained(linear, {"a": blobs(9)}, PHASE, optimizer=name, learning_rate=0.1, optimizer_options=options)
    np.testing.assert_allclose(run.weights(), by_hand(linear, run, make), rtol=1e-6, atol=1e-7)


def test_an_optimizer_of_ones_own(linear):
    def make(parameters):
        return torch.optim.RAdam(parameters, lr=0.02)

    run = trained(linear, {"a": blobs(9)}, PHASE, optimizer=make)
    np.testing.assert_allclose(run.weights(), by_hand(linear, run, make), rtol=1e-6, atol=1e-7)
    with pytest.raises(BadInput, match="not a torch optimizer"):
        trained(linear, {"a": blobs(9)}, PHASE, optimizer=lambda parameters: "adam")


def test_schedules_and_the_moving_average(linear):
    run = trained(linear, {"a": blobs(9)}, PHASE, schedule="linear", ema=0.8, learning_rate=0.3)
    factors = [1.0, 0.8, 0.6, 0.4, 0.2]
    expected = by_hand(linear, run, lambda p: torch.optim.SGD(p, lr=0.3), factors=factors, ema=0.8)
    np.testing.assert_allclose(run.weights(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["constant", "linear", "cosine", "warmup-cosine"])
def test_named_schedules_stay_between_0_and_1(name):
    factors = [factor_at(name, step, 100) for step in range(100)]
    assert all(0 <= factor <= 1 for factor in factors)
    assert max(factors) == pytest.approx(1.0, abs=1e-9)
    assert name == "constant" or factors[-1] < 0.05
    if name == "warmup-cosine":
        assert factors[0] < factors[5] < factors[10]


def test_a_schedule_of_ones_own():
    assert factor_at(lambda share: 2 * share, 1, 4) == 0.5
    with pytest.raises(BadInput):
        factor_at(lambda share: -1.0, 1, 4)


def test_adaptive_clipping_limits_every_unit_to_a_share_of_its_weights():
    weights = nn.Parameter(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    weights.grad = torch.tensor([[30.0, 40.0], [1.0, 0.0]])
    clip_adaptively([weights], 0.01)
    torch.testing.assert_close(weights.grad, torch.tensor([[0.03, 0.04], [1e-5, 0.0]]))
    bias = nn.Parameter(torch.tensor([3.0, 4.0]))
    bias.grad = torch.tensor([0.0, 0.001])
    clip_adaptively([bias], 0.01)
    torch.testing.assert_close(bias.grad, torch.tensor([0.0, 0.001]))


def test_the_average_forgets_where_it_started():
    averages, weights = {"a": torch.zeros(1)}, {"a": torch.ones(1)}
    for step in range(1, 40):
        average_into(averages, weights, 0.999, step)
    assert float(averages["a"]) > 0.99
