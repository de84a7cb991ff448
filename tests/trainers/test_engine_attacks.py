"""Attacks on the engines that once succeeded: models and records by which one record moved the sum by more than C."""

import traceback

import pytest
import torch
from torch import nn
from torch.nn import functional

from discreet.errors import BadInput
from discreet.trainers.dp_sgd.checks import check_by_trying
from discreet.trainers.dp_sgd.engine.fast import FastGradients, choose_engine
from discreet.trainers.dp_sgd.engine.parts import margin, single_precision
from discreet.trainers.dp_sgd.gradients import RecordGradients
from discreet.trainers.dp_sgd.optimization import cross_entropy

THREE = torch.zeros(3, dtype=torch.long)


class Tokens(nn.Module):
    """Torch fails on one record of it: GroupNorm over a permuted input that needs no gradient."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 4).requires_grad_(False)
        self.norm, self.conv, self.head = nn.GroupNorm(2, 4), nn.Conv2d(4, 6, 3), nn.Linear(6, 3)

    def forward(self, x):
        maps = self.norm(self.table(x).permute(0, 3, 1, 2))
        return self.head(torch.tanh(self.conv(maps)).mean((2, 3)))


@pytest.mark.parametrize("kind", ["fast", "reference"])
def test_a_record_that_makes_the_model_fail_silences_nobody_else(kind):
    torch.manual_seed(0)
    model = Tokens().train()
    engine = FastGradients(model, cross_entropy) if kind == "fast" else RecordGradients(model, cross_entropy)
    x, y, good = torch.randint(0, 16, (24, 6, 6)), torch.zeros(24, dtype=torch.long), torch.arange(24) != 5
    x[5, 2, 2] = 99
    null = torch.where(good[:, None, None], x, 0)
    found = engine.clipped_sum(x[:, None], y, clip=1e-2)
    without = engine.clipped_sum(null[:, None], y, clip=1e-2, usable=good)
    assert without.norm() > 1e-1
    assert (found - without).norm() <= 1e-2 * (1 + margin(24))


class Mixing(nn.Module):
    """Reads other records while it trains, and draws at random, so that two passes cannot be compared."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.body, self.head = kind, nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x):
        hidden = torch.relu(self.body(functional.dropout(x, 0.1, training=self.training)))
        if self.training and self.kind == "mixup":
            hidden = 0.7 * hidden + 0.3 * hidden[torch.randperm(len(hidden))]
        if self.training and self.kind == "centred":
            hidden = hidden - 0.5 * hidden.mean(0, keepdim=True)
        return self.head(hidden)


class Scaled(nn.Module):
    """Mixes only where numbers are large, which made-up ones are not."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.tanh(x / x.abs().amax().clamp_min(8.0)))


@pytest.mark.parametrize("model", [Mixing("mixup"), Mixing("centred"), Scaled()], ids=["mixup", "centred", "scaled"])
def test_models_that_mix_records_are_refused_though_they_draw_at_random(model):
    with pytest.raises(BadInput, match="changes with the records beside it"):
        check_by_trying(model.train(), torch.randn(3, 5), 3)


def test_models_that_draw_at_random_and_do_not_mix_are_taken():
    check_by_trying(Mixing("neither").train(), torch.randn(3, 5), 3)
    assert choose_engine(Mixing("neither").train(), cross_entropy, [(torch.randn(3, 1, 5), THREE)]).fast


def test_a_model_whose_luck_no_seed_repeats_is_left_to_the_reference():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.calls = nn.Linear(5, 3), 0

        def forward(self, x):
            self.calls += 1
            return self.head(x * (1 + 0.01 * (self.calls % 7)))

    check_by_trying(Own().train(), torch.randn(3, 5), 3)
    assert not choose_engine(Own().train(), cross_entropy, [(torch.randn(3, 1, 5), THREE)]).fast


def test_a_model_that_fails_on_a_null_is_refused_in_public():
    class Inverse(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            return self.head(torch.linalg.inv(x).flatten(1))

    with pytest.raises(BadInput):
        RecordGradients(Inverse().train(), cross_entropy).try_out(torch.randn(3, 1, 2, 2), THREE)


def test_a_faint_branch_that_is_wrong_is_found():
    class Faint(nn.Module):
        """A layer over places before records, with a ten-thousandth of the gradient."""

        def __init__(self):
            super().__init__()
            self.head, self.side = nn.Linear(8, 3), nn.Linear(2, 3, bias=False)

        def forward(self, x):
            places = x.reshape(len(x), 4, 2).transpose(0, 1).reshape(-1, 2)
            return self.head(torch.tanh(x)) + 3e-4 * self.side(places).reshape(4, len(x), 3).sum(0)

    torch.manual_seed(0)
    assert not choose_engine(Faint().train(), cross_entropy, [(torch.randn(3, 1, 8), THREE)]).fast


def test_gradients_longer_than_factors_can_shorten():
    engine = FastGradients(nn.Linear(4, 1, bias=False), lambda out, _: out.square().sum())
    longest = max(
        float(engine.clipped_sum(torch.full((1, 1, 4), 10**power), torch.zeros(1), clip=1e-9).norm())
        for power in torch.arange(17.3, 18.6, 0.1).tolist()
    )
    assert longest <= 1e-9 * (1 + margin(1))


@pytest.mark.parametrize("places", [1, 2])
def test_squares_that_are_too_small_for_single_precision(places):
    engine = FastGradients(nn.Linear(300, 300, bias=False), lambda out, _: 1e19 * out.sum())
    x = torch.full((1, 1, *(places, 300)[2 - places :]), 2.6e-23)
    found = engine.clipped_sum(x, torch.zeros(1), clip=1e-4).norm()
    assert found <= 1e-4 * (1 + margin(1))


@pytest.mark.parametrize("kind", ["fast", "reference"])
def test_an_interrupt_does_not_quote_the_record_that_failed(kind, monkeypatch):
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.randn(50, 3))
            self.head = nn.Linear(3, 3)

        def forward(self, x):
            return self.head(self.table.index_select(0, x.flatten()))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    engine = FastGradients(Table(), cross_entropy)
    monkeypatch.setattr(engine.reference, "_each_alone", interrupted)
    used, words = engine if kind == "fast" else engine.reference, torch.tensor([[[1]], [[4700 + 11]], [[3]]])
    with pytest.raises(KeyboardInterrupt) as caught:
        used.clipped_sum(words, torch.arange(3), clip=1.0)
    assert "4711" not in "".join(traceback.format_exception(caught.value))


def test_products_are_exact_also_for_those_who_asked_for_short_ones():
    places = [torch.backends.mkldnn.conv, torch.backends.mkldnn.matmul]
    before = [place.fp32_precision for place in places]
    try:
        for place in places:
            place.fp32_precision = "bf16"
        with single_precision():
            assert [place.fp32_precision for place in places] == ["ieee", "ieee"]
        assert [place.fp32_precision for place in places] == ["bf16", "bf16"]
    finally:
        for place, precision in zip(places, before, strict=True):
            place.fp32_precision = precision


def test_sums_over_many_places_stay_exact():
    from discreet.trainers.dp_sgd.engine import native
    from discreet.trainers.dp_sgd.engine.convolutions import Convolution
    from discreet.trainers.dp_sgd.engine.patches import Shape

    images, slopes = torch.full((1, 1, 200, 200), 0.7), torch.full((1, 3, 198, 198), 1e-3)
    shape = Shape((3, 3), (1, 1), (1, 1), (0, 0, 0, 0), 1, 1)
    made = Convolution(images, slopes, torch.zeros(3, 1, 3, 3), shape, units=1, kernels=native.kernels()).whole()
    assert (made.double() / (0.7e-3 * 198 * 198) - 1).abs().max() < 2e-5
