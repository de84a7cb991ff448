"""ONNX, for programs without torch: scaled records in, probabilities out, any number of rows.

Written where torch exports the model, and kept only if it says what the model says on made-up records. Needs the extra
`onnx`. What cannot be exported is said, and the rest of the export stands.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

_NEEDED = ("onnx", "onnxscript", "onnxruntime")
_CLOSE = 1e-4


def write_onnx(predictor: Any, rows: Any, path: Path) -> str | None:
    """Write the model of ``predictor``; ``rows`` are made-up records. None, or why there is no file."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed; pip install 'discreet[onnx]'"
    given = rows if isinstance(rows, dict) else {"records": np.asarray(rows, dtype=np.float32)}
    try:
        with _quietly():
            _write(predictor, given, path)
            found = _run(path, given)
    except Exception as problem:  # noqa: BLE001 - the exporter fails in many ways
        path.unlink(missing_ok=True)
        return f"torch could not export {type(predictor.module).__name__} ({type(problem).__name__})"
    if not np.allclose(found, predictor.predict_proba(rows), atol=_CLOSE):
        path.unlink()
        return f"the exported {type(predictor.module).__name__} said something else than the model"
    return None


def _write(predictor: Any, given: dict[str, Any], path: Path) -> None:
    import torch

    module = _probabilities(predictor, list(given)).cpu().eval()
    rows = torch.export.Dim("rows", min=1)
    program = torch.onnx.export(
        module,
        tuple(torch.from_numpy(np.ascontiguousarray(part)) for part in given.values()),
        input_names=list(given),
        output_names=["probabilities"],
        dynamic_shapes=(tuple({0: rows} for _ in given),),  # of *parts
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    path.write_bytes(_without_traces(program.model_proto).SerializeToString())


def _without_traces(model: Any) -> Any:
    """The exporter writes where on the machine each line of code stands; that is nobody's business."""
    for part in (model.graph, *model.functions):
        del part.metadata_props[:]
        for kind in ("node", "value_info", "input", "output", "initializer"):
            for one in getattr(part, kind, ()):
                del one.metadata_props[:]
                one.doc_string = ""
    return model


def _probabilities(predictor: Any, names: list[str]) -> Any:
    """The module with its last step: what people want are probabilities."""
    import copy

    from torch import nn

    class Probabilities(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = copy.deepcopy(predictor.module).cpu()
            self.several = predictor.task == "multilabel"

        def forward(self, *parts: Any) -> Any:
            outputs = self.model(parts[0] if names == ["records"] else dict(zip(names, parts, strict=True)))
            return outputs.sigmoid() if self.several else outputs.softmax(dim=-1)

    return Probabilities()


def _run(path: Path, given: dict[str, Any]) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    pieces = [session.run(None, {name: part[span] for name, part in given.items()})[0] for span in _SPANS]
    return np.concatenate(pieces)


_SPANS = (slice(0, 1), slice(1, None))
"""One row, and several: the number of rows is free."""


@contextlib.contextmanager
def _quietly() -> Any:
    """Exporters talk; nothing they say is meant for the user."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
