"""Layers that mix records are refused by name or by trying, with what to use instead."""

import pytest
import torch
from torch import nn
from training_runs import blobs, phase_of, trained

from discreet.errors import BadInput
from discreet.trainers.dp_sgd import DPSGD, check_layers, replace_batch_norm


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm1d(4), nn.BatchNorm2d(4), nn.BatchNorm3d(4), nn.SyncBatchNorm(4), nn.LazyBatchNorm2d()],
    ids=lambda layer: type(layer).__name__,
)
def test_batch_normalisation_is_refused_and_the_replacement_named(layer):
    with pytest.raises(BadInput, match=r"layer 1 .*mixes.*GroupNorm.*replace_batch_norm"):
        check_layers(nn.Sequential(nn.Linear(4, 4), layer))


def test_running_statistics_of_single_records_are_refused_too():
    with pytest.raises(BadInput, match="track_running_stats=False"):
        check_layers(nn.Sequential(nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4, track_running_stats=True)))
    check_layers(nn.Sequential(nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4), nn.GroupNorm(2, 4), nn.LayerNorm(3)))


@pytest.mark.parametrize("shape", [(3, 12), (3, 12, 5), (3, 12, 5, 5)])
def test_a_replaced_model_keeps_its_affine_weights_and_mixes_nothing(shape):
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[len(shape)]
    inner = nn.Sequential(kind(12), nn.ReLU())
    nn.init.normal_(inner[0].weight)
    model = nn.Sequential(inner, nn.Flatten())
    made = replace_batch_norm(model)
    check_layers(nn.Sequential(made, nn.Linear(1, 1)))
    assert isinstance(model[0][0], kind)  # a copy
    assert isinstance(made[0][0], nn.GroupNorm)
    assert torch.equal(made[0][0].weight, inner[0].weight)
    rows = torch.randn(shape)
    torch.testing.assert_close(made(rows)[:1], made(rows[:1]))
    assert made[0][0](rows).std() > 0.3  # normalising single numbers would leave nothing
    assert isinstance(replace_batch_norm(nn.BatchNorm2d(8, affine=False)), nn.GroupNorm)


def test_a_lazy_layer_has_no_size_to_replace():
    with pytest.raises(BadInput, match="Run the model once"):
        replace_batch_norm(nn.Sequential(nn.LazyBatchNorm1d()))


class Centres(nn.Module):
    """A layer nobody has a name for."""

    def forward(self, x):
        return x - x.mean(dim=0, keepdim=True)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.register_buffer("largest", torch.zeros(()))

    def forward(self, x):
        self.largest = torch.maximum(self.largest, x.max())
        return self.layer(x)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Sequential(Centres(), nn.Linear(5, 3)), "records beside it"),
        (Counts(), "buffer largest"),
        (nn.Sequential(nn.Linear(5, 3), nn.Flatten(0)), "table of one row a record"),
        (nn.Linear(5, 3).requires_grad_(False), "requires_grad"),
        (lambda: "a model", "torch module"),
        (nn.Linear(7, 3), "RuntimeError"),
    ],
    ids=["centres", "buffer", "flat", "frozen", "no-module", "shape"],
)
def test_what_has_no_name_is_found_by_trying(model, words):
    with pytest.raises(BadInput, match=words):
        DPSGD(model, classes=3).check(phase=phase_of({"a": 0.5}), cohorts={"a": blobs(6)})


def test_a_function_that_makes_a_model_gives_the_same_first_weights_every_time():
    state = torch.random.get_rng_state()
    runs = [trained(lambda: nn.Linear(5, 3), {"a": blobs(6)}, phase_of({"a": 0.5})) for _ in range(2)]
    assert (runs[0].weights() == runs[1].weights()).all()
    assert torch.equal(state, torch.random.get_rng_state())


def test_in_place_activations_do_no_harm():
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(inplace=True), nn.Linear(8, 3))
    same = nn.Sequential(model[0], nn.ReLU(), model[2])
    runs = [trained(one, {"a": blobs(9)}, phase_of({"a": 0.7})) for one in (model, same)]
    assert (runs[0].weights() == runs[1].weights()).all()
