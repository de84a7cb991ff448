"""Every model keeps records apart, has the seam, and gives torch.func each record's own gradient."""

import pytest
import torch
from model_cases import CASES, IMAGES, make, one_by_one, pick, records, trained, vmapped, worst_difference
from torch import nn

from discreet.models.layers import has_seam, mixing_layers

pytestmark = pytest.mark.thorough

RECORDS = 3
LABELS = torch.tensor([0, 2, 1])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
@pytest.mark.parametrize("case", CASES)
def test_gradients_by_vmap_are_those_of_each_record_alone(case, dtype, tolerance):
    model, x = make(case).to(dtype), records(case, RECORDS, dtype=dtype)
    found, expected = vmapped(model, x, LABELS), one_by_one(model, x, LABELS)
    assert worst_difference(found, expected) < tolerance
    assert min(values.abs().sum() for values in expected.values()) > 0  # every trained weight matters


@pytest.mark.parametrize("inputs_last", [True, False])
@pytest.mark.parametrize("case", IMAGES)
def test_gradients_are_the_same_in_channels_last(case, inputs_last):
    model, x = make(case).double(), records(case, RECORDS)
    expected = one_by_one(model, x, LABELS)
    model = model.to(memory_format=torch.channels_last)
    x = x.to(memory_format=torch.channels_last) if inputs_last else x
    assert worst_difference(vmapped(model, x, LABELS), expected) < 1e-9


def test_the_comparison_notices_gradients_that_are_summed_over_records():
    model, x = make("resnet9").double(), records("resnet9", RECORDS)
    expected = one_by_one(model, x, LABELS)
    summed = {name: values.sum(0, keepdim=True).expand_as(values) for name, values in expected.items()}
    assert worst_difference(summed, expected) > 0.1


@pytest.mark.parametrize("case", CASES)
def test_a_record_is_answered_alone_as_in_a_batch(case):
    model, x = make(case).double(), records(case, RECORDS)
    together = model(x)
    alone = torch.cat([model(pick(x, slice(row, row + 1))) for row in range(RECORDS)])
    assert together.shape == (RECORDS, 3)
    torch.testing.assert_close(together, alone, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_the_seam_joins_a_deterministic_trunk_and_a_head_with_the_only_dropout(case):
    model, x = make(case, dropout=0.5).double().train(), records(case, RECORDS)
    features = model.features(x)
    assert has_seam(model)
    assert features.ndim == 2
    assert torch.equal(features, model.features(x))
    assert {name for name, layer in model.named_modules() if isinstance(layer, nn.Dropout) and layer.p} == {
        "head.dropout"
    }
    model.eval()
    torch.testing.assert_close(model(x), model.head(features), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_dropout_differs_between_records_of_one_vmapped_batch(case):
    model = make(case, dropout=0.5).double().train()
    same = pick(records(case, 1), [0, 0, 0, 0])
    labels = torch.zeros(4, dtype=torch.long)
    rows = vmapped(model, same, labels)["head.linear.weight"].flatten(1)
    assert len(torch.unique(rows, dim=0)) > 1
    model.eval()
    rows = vmapped(model, same, labels)["head.linear.weight"].flatten(1)
    torch.testing.assert_close(rows, rows[:1].expand_as(rows))


@pytest.mark.parametrize("case", CASES)
def test_nothing_mixes_records_and_nothing_writes_in_place(case):
    model = make(case)
    assert mixing_layers(model) == []
    assert not [name for name, layer in model.named_modules() if getattr(layer, "inplace", False)]
    assert all(weight.ndim <= 4 for weight in trained(model).values())  # five axes cannot go to channels_last


def test_draws_cost_one_pass_of_the_trunk_and_leave_the_mode_alone():
    model, x = make("mlp", dropout=0.5).double().eval(), records("mlp", RECORDS)
    passes = []
    model.trunk.register_forward_hook(lambda *_: passes.append(1))
    draws = model.sample(x, 6)
    assert draws.shape == (6, RECORDS, 3)
    assert len(passes) == 1
    assert len(torch.unique(draws.flatten(1), dim=0)) > 1
    assert not model.head.training
