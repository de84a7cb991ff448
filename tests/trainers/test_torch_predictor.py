"""A torch module as a predictor: probabilities, draws, features; stored without pickle."""

import numpy as np
import pytest
import torch
from torch import nn

from discreet.errors import BadInput, InvalidCheckpoint
from discreet.models import build_model
from discreet.trainers.torch_predictor import TorchPredictor

ROWS = np.random.default_rng(0).normal(size=(25, 6))


def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 3))


def test_probabilities_in_pieces_are_those_of_the_whole():
    whole, pieces = TorchPredictor(plain()), TorchPredictor(plain(), rows=7)
    np.testing.assert_allclose(pieces.predict_proba(ROWS), whole.predict_proba(ROWS), rtol=1e-6)
    np.testing.assert_allclose(whole.predict_proba(ROWS).sum(axis=1), 1, rtol=1e-6)
    assert whole.predict(ROWS).shape == (25,)
    assert whole.predict_proba(ROWS[:0]).shape == (0, 3)
    labels = TorchPredictor(plain(), task="multilabel")
    assert labels.predict(ROWS).shape == (25, 3)
    assert labels.predict_proba(ROWS).sum(axis=1).std() > 0
    with pytest.raises(BadInput):
        TorchPredictor(plain(), task="regression")


@pytest.mark.parametrize("model", [plain, lambda: build_model("mlp", inputs=(6,), classes=3, dropout=0.5)])
def test_draws_differ_are_repeatable_and_average_out(model):
    predictor = TorchPredictor(model(), rows=10)
    state = torch.random.get_rng_state()
    draws = predictor.sample_proba(ROWS, 200)
    assert draws.shape == (200, 25, 3)
    assert draws.std(axis=0).max() > 0.01
    assert torch.equal(state, torch.random.get_rng_state())
    np.testing.assert_array_equal(draws, predictor.sample_proba(ROWS, 200))
    assert not np.array_equal(draws, predictor.sample_proba(ROWS, 200, seed=1))
    np.testing.assert_allclose(draws.mean(axis=0), predictor.predict_proba(ROWS), atol=0.12)


def test_a_model_without_dropout_has_nothing_to_draw():
    with pytest.raises(BadInput, match="dropout"):
        TorchPredictor(nn.Linear(6, 3)).sample_proba(ROWS, 3)
    with pytest.raises(BadInput):
        TorchPredictor(plain()).sample_proba(ROWS, 0)


def test_features_come_from_the_seam_or_from_before_the_last_layer():
    module = plain().eval()
    expected = module[:3](torch.from_numpy(ROWS).float()).detach().numpy()
    np.testing.assert_allclose(TorchPredictor(module).embed(ROWS), expected, rtol=1e-6)
    assert TorchPredictor(build_model("mlp", inputs=(6,), classes=3, hidden=(5,))).embed(ROWS).shape == (25, 5)
    with pytest.raises(BadInput):
        TorchPredictor(nn.Flatten()).embed(ROWS)


def test_it_is_stored_and_read_back(tmp_path):
    first = TorchPredictor(plain())
    first.save(tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"model.json", "weights.safetensors"}
    torch.manual_seed(9)
    other = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 3))
    again = TorchPredictor.load(tmp_path / "model", other)
    np.testing.assert_array_equal(first.predict_proba(ROWS), again.predict_proba(ROWS))
    for wrong in (nn.Linear(6, 3), nn.Sequential()):
        with pytest.raises(InvalidCheckpoint):
            TorchPredictor.load(tmp_path / "model", wrong)
    weights = tmp_path / "model" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(InvalidCheckpoint):
        TorchPredictor.load(tmp_path / "model", other)
    with pytest.raises(InvalidCheckpoint):
        TorchPredictor.load(tmp_path / "nowhere", other)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpu_trains_what_the_cpu_does():
    from training_runs import blobs, phase_of, trained

    runs = [
        trained(build_model("mlp", inputs=(5,), classes=3), {"a": blobs(40)}, phase_of({"a": 0.5}), device=device)
        for device in ("cpu", "cuda")
    ]
    assert next(runs[1].predictor.module.parameters()).is_cuda
    np.testing.assert_allclose(runs[0].inputs()[0], runs[1].inputs()[0], rtol=1e-3, atol=1e-4)
