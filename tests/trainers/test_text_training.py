"""Text through the same trainer: records of several arrays, only the last layers trained."""

import numpy as np
import pytest
import torch
from training_runs import phase_of, trained

from discreet.models import build_model
from discreet.testing import check_neighbours
from discreet.trainers.dp_sgd import DPSGD, MISSING, CohortRecords, Settings, charge_training

pytestmark = pytest.mark.thorough

TINY = {
    "model_type": "bert",
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 8,
}


def sentences(count, seed=0):
    """Two classes that open with another word."""
    rng = np.random.default_rng(seed)
    words = rng.integers(10, 40, (count, 8))
    words[:, 0] = rng.integers(1, 3, count)
    lengths = rng.integers(3, 9, count)
    mask = (np.arange(8) < lengths[:, None]).astype(np.int64)
    return {"input_ids": words * mask, "attention_mask": mask}, words[:, 0] - 1


def classifier():
    return build_model("transformer", inputs=(8,), classes=2, config=TINY, train_layers=1)


def test_it_learns_and_leaves_the_frozen_layers_alone():
    x, y = sentences(400)
    model = classifier()
    run = trained(
        model,
        {"a": CohortRecords(x=x, y=y)},
        phase_of({"a": 0.5}, steps=30, sigma=0.4, batch=200),
        classes=2,
        optimizer="adamw",
        learning_rate=0.02,
    )
    assert (run.predictor.predict(x) == y).mean() > 0.75
    assert run.predictor.embed(x).shape == (400, 16)
    before, after = dict(model.named_parameters()), dict(run.predictor.module.named_parameters())
    frozen = [name for name, weights in before.items() if not weights.requires_grad]
    assert frozen
    assert all(torch.equal(before[name], after[name]) for name in frozen)
    assert run.inputs()[0].size == sum(w.numel() for w in before.values() if w.requires_grad)


def test_the_kit_finds_nothing():
    x, y = sentences(6)
    phase = phase_of({"a": 0.9}, steps=2)

    def run(data, ledger):
        trainer = DPSGD(classifier(), classes=2, settings=Settings(micro_batch=4))
        made = trainer.train(phase=phase, cohorts={"a": data}, receipt=charge_training(ledger, phase))
        return [value.detach().numpy() for value in made.module.state_dict().values()]

    other = y.copy()
    other[3] = MISSING
    check_neighbours(run, CohortRecords(x=x, y=y), neighbours=[CohortRecords(x=x, y=other)])
