"""ONNX files: they say what the model says, and nothing of the machine they were written on. Needs the extra onnx."""

import re

import numpy as np
import onnxruntime
import pytest
from exported_campaigns import raw, trained

from discreet.exports import export_model, load_model
from discreet.exports.side_files import write_onnx
from discreet.models import build_model
from discreet.trainers.torch_predictor import TorchPredictor

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("kind", ["multiclass", "multilabel"])
def test_it_says_what_the_model_says(kind, tmp_path):
    made = export_model(trained(tmp_path / "campaign", kind=kind, phases=1), tmp_path / "model")
    assert made.no_onnx is None
    model, x = load_model(made.directory), raw(7, seed=8)
    session = onnxruntime.InferenceSession(made.directory / "model.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(["probabilities"], {"records": model.scaled(x)})
    np.testing.assert_allclose(found, model.predict_proba(x, raw=True), atol=1e-5)
    content = (made.directory / "model.onnx").read_bytes()
    assert not re.search(rb"[.]py\b|site-packages|/home|/tmp|/usr", content)


def test_what_cannot_be_exported_is_said(tmp_path):
    module = build_model("linear", inputs=(3,), classes=2)
    module.forward = lambda x: x.sum() if float(x.sum()) > 0 else x  # depends on values
    reason = write_onnx(TorchPredictor(module, device="cpu"), raw(5), tmp_path / "m.onnx")
    assert reason
    assert "LinearClassifier" in reason
    assert not (tmp_path / "m.onnx").exists()
