"""What an export has beside its weights: the model card and, where torch can write it, an ONNX file.

Model card
----------
The model card, `README.md`: what people who are given a model want to know. Public facts alone.

ONNX
----
ONNX, for programs without torch: scaled records in, probabilities out, any number of rows.

Written where torch exports the model, and kept only if it says what the model says on made-up records. Needs the extra
`onnx`. What cannot be exported is said, and the rest of the export stands.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from discreet.exports.model_form import CERTIFICATE, ONNX
from discreet.features import FeatureMap, feature_map_from_json
from discreet.recipes.specification import RecipeSpec
from discreet.trainers.metric_words import HEAD, metric_columns, metric_rows

# -- the model card


ASSUMPTIONS = (
    "Annotators saw the records they were asked about, and are trusted with them.",
    "A label depends on its own record and on public things alone.",
    "Ids of records are public and say nothing of their content.",
    "Scaling, classes and settings were declared or come from public data; nothing was fitted to records unpaid.",
    "Keys and noise stayed secret; the noise came from the operating system.",
)
_WORDS = {"text": "text-classification", "images": "image-classification"}


def card(form: dict[str, Any], certificate: dict[str, Any], spec: RecipeSpec, *, onnx: str | None) -> str:
    """The text. ``onnx``: why there is no ONNX file; None if there is one."""
    parts = [_front(form), _summary(form, certificate), _privacy(form, certificate, spec), _quality(form)]
    parts += [_use(form, spec, onnx), _CHECK]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front(form: dict[str, Any]) -> str:
    read = form["preprocessing"]
    features = read.get("features")
    texts = bool({"encoder", "normalisation"} & set(read))
    texts = texts or (features is not None and feature_map_from_json(features).record_map.reads == "texts")
    kind = "text" if texts else read["kind"]
    lines = [
        "---",
        "library_name: discreet",
        f"pipeline_tag: {_WORDS.get(kind, 'tabular-classification')}",
        "tags:",
        "- differential-privacy" if form["private"] and not form["simulation"] else "- not-private",
        "- active-learning",
        f"model_name: {json.dumps(form['name'])}",
    ]
    metrics = (form["evaluation"] or {}).get("metrics", {})
    return "\n".join([*lines, *(["metrics:"] if metrics else []), *(f"- {name}" for name in metrics), "---"])


def _summary(form: dict[str, Any], certificate: dict[str, Any]) -> str:
    several = form["task"] == "multilabel"
    records = f"records of shape {form['inputs']}" if form["inputs"] else "texts"
    features, named = form["preprocessing"].get("features"), []
    if features is not None:
        records = f"on `{features['name']}` features of records"
        paid = "quantiles" in certificate.get("features", {})
        words = "edges are private quantiles, which the claim pays for" if paid else "so they change no claim"
        named = [f"| features | of each record alone, {words}; SHA-256 `{features['sha256']}` |"]
        if encoder := features.get("encoder"):
            named += [
                f"| encoder | SHA-256 of its {encoder['hash_of']} `{encoder['sha256']}`; its training data, as the "
                f"owner states: {encoder['pretraining']} |"
            ]
    classes = ", ".join(f"`{name}`" for name in form["classes"])
    lines = [
        f"# {form['name']}",
        "",
        f"A classifier of {len(form['classes'])} {'labels, any number of them a record' if several else 'classes'}: "
        f"{classes}.",
        "",
        "| | |",
        "|---|---|",
        f"| model | `{form['model']['name']}`, {records} |",
        *named,
        f"| trained by | discreet {form['discreet']}: private active learning |",
        f"| state | after phase {form['phase']} of {form['phases'] - 1} |",
    ]
    return "\n".join(lines)


def _privacy(form: dict[str, Any], certificate: dict[str, Any], spec: RecipeSpec) -> str:
    if not form["private"]:
        return "## Privacy\n\n**NOT PRIVATE**: records were chosen by looking at them. This model carries no claim."
    if form["simulation"]:
        return (
            "## Privacy\n\n**SIMULATION**: its noise came from a seed. It proves nothing about people; do not "
            "publish it as private."
        )
    budget, claim = certificate["budget"], certificate["claim"]
    lines = [
        "## Privacy",
        "",
        "| | |",
        "|---|---|",
        f"| epsilon | {claim['epsilon']} |",
        f"| delta | {claim['delta']} |",
        f"| protects | one {budget['unit']}, in all phases together |",
        f"| relation | {budget['relation']}: the {budget['unit']} there, or a null in its place |",
        f"| mode | {certificate['mode']}, by {certificate['accountant']} |",
        "",
        "It is the claim of the whole campaign: of all its models and released selections together, also if it was "
        "stopped early. It rests on:",
        "",
        *(f"- {line}" for line in spec.card_assumptions or ASSUMPTIONS),
    ]
    if "not_released" in certificate:
        hidden = certificate["not_released"]
        lines += [
            "",
            f"It holds for models and thresholds: {hidden['what']}, and must not be. About time: {hidden['time']}.",
        ]
    return "\n".join(lines)


MOST_CLASSES = 20
"""Of more the confusion matrix is in the model's form alone."""


def _quality(form: dict[str, Any]) -> str:
    evaluation = form["evaluation"]
    if not evaluation:
        return "## Quality\n\nNo accuracy is stated: none was measured on public records or paid for."
    how = "public records"
    if evaluation["kind"] != "public":
        how = f"private records kept apart, with noise; epsilon {evaluation['epsilon']} was paid for all of it"
    head: tuple[Sequence[str], Sequence[Sequence[str]]] = HEAD, metric_rows(evaluation["metrics"])
    by_class = dict(zip(form["classes"], evaluation["per_class"], strict=False))
    parts = {"class": by_class, "group": evaluation["groups"]}
    tables = [head, *(metric_columns(what, metrics) for what, metrics in parts.items() if metrics)]
    if evaluation["confusion"] and len(by_class) <= MOST_CLASSES:
        rows = [[name, *map(str, row)] for name, row in zip(by_class, evaluation["confusion"], strict=True)]
        tables.append((["true class, by answer", *by_class], rows))
    text = (
        f"Measured on {how}. A constant answer knows the shares of classes and nothing of a record; "
        "of accuracy it is the largest class."
    )
    return "\n\n".join(["## Quality", text, *(_table(*table) for table in tables)])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _use(form: dict[str, Any], spec: RecipeSpec, onnx: str | None) -> str:
    lines = [
        "## Use",
        "",
        "```text",
        "$ discreet predict . DATA --out predictions.csv",
        "```",
        "",
        "In Python: `discreet.load_model(DIR).predict(x)`; `raw=True` scales records first, as `preprocessing` in "
        "`model.json` says.",
        f"`{ONNX}` takes {_ONNX_ROWS[form.get('onnx_reads', 'records')]}, and gives probabilities."
        if onnx is None
        else f"No ONNX file: {onnx}.",
        "",
        "## Limits",
        "",
        "What the model says of private records is private: predictions are not covered by the claim. It was trained "
        f"{spec.card_training or 'with noise on few labels'}, chosen where an "
        "earlier model was unsure: rare classes may be learnt badly. Records unlike those of its pool are outside of "
        "what was measured.",
    ]
    if form.get("threshold") is not None and form["task"] != "multilabel":
        fact = f"`{form['classes'][1]}` is the answer from a probability of {form['threshold']} on, as declared."
        lines.insert(7, fact)
    if form["task"] == "multilabel":
        lines.insert(7, f"A label is given above {form['threshold']}, unless `--threshold` says otherwise.")
    return "\n".join(lines)


_ONNX_ROWS = {
    "records": "records that are scaled, or encoded by the schema",
    "features": "features of records (`discreet.load_model(DIR).features.of_inputs(x)`)",
}
_CHECK = f"""## Check it

```text
$ discreet verify DIRECTORY
```

DIRECTORY is the one this file is in. It computes the claim again from the mechanisms alone and compares \
every file with its hash in `model.json`, and the weights with the hash that the certificate names. \
`discreet verify {CERTIFICATE}` by itself does not check the other files."""


# -- ONNX


_NEEDED = ("onnx", "onnxscript", "onnxruntime")
_CLOSE = 1e-4
_RECORDS = 200
"""Made-up records on which a graph with its feature map is compared with the map."""


def write_onnx(predictor: Any, rows: Any, path: Path) -> str | None:
    """Write the model of ``predictor``; ``rows`` are made-up records. None, or why there is no file."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed; pip install 'discreet[onnx]'"
    inputs = rows if isinstance(rows, dict) else {"records": np.asarray(rows, dtype=np.float32)}
    try:
        with _quietly():
            _write(predictor, inputs, path)
            outputs = _run(path, inputs)
    except Exception as problem:  # noqa: BLE001 - the exporter fails in many ways
        path.unlink(missing_ok=True)
        return f"torch could not export {type(predictor.module).__name__} ({type(problem).__name__})"
    if not np.allclose(outputs, predictor.predict_proba(rows), atol=_CLOSE):
        path.unlink()
        return f"the exported {type(predictor.module).__name__} said something else than the model"
    return None


def write_onnx_of_records(predictor: Any, feature_map: FeatureMap, path: Path) -> bool:
    """The same of a model on features, with the map in the graph, so that the file takes records; whether it can be."""
    if any(find_spec(name) is None for name in _NEEDED):
        return False
    from discreet.exports.feature_graphs import OnRecords, graph_of, made_up_records

    graph = graph_of(feature_map)
    if graph is None:
        return False
    module = OnRecords(graph, copy.deepcopy(predictor.on_features.module).cpu(), feature_map.output_shape)
    of_records = SimpleNamespace(module=module, task=predictor.task, predict_proba=predictor.predict_proba)
    return write_onnx(of_records, made_up_records(feature_map, _RECORDS), path) is None


def _write(predictor: Any, inputs: dict[str, Any], path: Path) -> None:
    import torch

    module = _probabilities(predictor, list(inputs)).cpu().eval()
    rows = torch.export.Dim("rows", min=1)
    program = torch.onnx.export(
        module,
        tuple(torch.from_numpy(np.ascontiguousarray(part)) for part in inputs.values()),
        input_names=list(inputs),
        output_names=["probabilities"],
        dynamic_shapes=(tuple({0: rows} for _ in inputs),),  # of *parts
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
            for item in getattr(part, kind, ()):
                del item.metadata_props[:]
                item.doc_string = ""
    return model


def _probabilities(predictor: Any, names: list[str]) -> Any:
    """The module with its last step: what people want are probabilities."""
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


def _run(path: Path, inputs: dict[str, Any]) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    pieces = [session.run(None, {name: part[span] for name, part in inputs.items()})[0] for span in _SPANS]
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
