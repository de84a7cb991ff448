"""The model card, `README.md`: what people who are given a model want to know. Public facts alone."""

from __future__ import annotations

import json
from typing import Any

from discreet.exports.model_form import CERTIFICATE, ONNX

ASSUMPTIONS = (
    "Annotators saw the records they were asked about, and are trusted with them.",
    "A label depends on its own record and on public things alone.",
    "Ids of records are public and say nothing of their content.",
    "Scaling, classes and settings were declared or come from public data; nothing was fitted to records unpaid.",
    "Keys and noise stayed secret; the noise came from the operating system.",
)
OF_CROWD = (
    "Strangers saw texts that passed a gate (k people, coins), and no others; the gate is the whole price.",
    "Labels and weights were made of released texts, answers about them and public labelled texts, without noise.",
    "The log was released once, as a closed batch; the coins' keys stayed secret and came from the operating system.",
)
OF_TEACHERS = (
    "Models of disjoint parts of the private records voted on public records; what left are answers, with noise.",
    "This student was made of public records and those answers alone: nothing else of the private records is in it.",
    "Scaling, classes and settings were declared or come from public records; keys and noise stayed secret.",
)
_WORDS = {"text": "text-classification", "images": "image-classification"}


_RESTS_ON = {"crowd": OF_CROWD, "teachers": OF_TEACHERS}
_LEARNT = {"crowd": "on labels of strangers", "teachers": "on few and noisy answers"}


def card(form: dict[str, Any], certificate: dict[str, Any], *, onnx: str | None) -> str:
    """The text. ``onnx``: why there is no ONNX file; None if there is one."""
    parts = [_front(form), _summary(form), _privacy(form, certificate), _quality(form), _use(form, onnx), _check(form)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front(form: dict[str, Any]) -> str:
    read = form["preprocessing"]
    kind = "text" if {"encoder", "normalisation"} & set(read) else read["kind"]
    lines = [
        "---",
        "library_name: discreet",
        f"pipeline_tag: {_WORDS.get(kind, 'tabular-classification')}",
        "tags:",
        "- differential-privacy" if form["private"] and not form["simulation"] else "- not-private",
        "- active-learning",
        f"model_name: {json.dumps(form['name'])}",
    ]
    return "\n".join([*lines, *(["metrics:", "- accuracy"] if form["evaluation"] else []), "---"])


def _summary(form: dict[str, Any]) -> str:
    several = form["task"] == "multilabel"
    records = f"records of shape {form['inputs']}" if form["inputs"] else "texts"
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
        f"| trained by | discreet {form['discreet']}: private active learning |",
        f"| state | after phase {form['phase']} of {form['phases'] - 1} |",
    ]
    return "\n".join(lines)


def _privacy(form: dict[str, Any], certificate: dict[str, Any]) -> str:
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
        *(f"- {line}" for line in _RESTS_ON.get(form.get("recipe", ""), ASSUMPTIONS)),
    ]
    if "not_released" in certificate:
        kept = certificate["not_released"]
        lines += [
            "",
            f"It holds for models and thresholds: {kept['what']}, and must not be. About time: {kept['time']}.",
        ]
    return "\n".join(lines)


def _quality(form: dict[str, Any]) -> str:
    found = form["evaluation"]
    if not found:
        return "## Quality\n\nNo accuracy is stated: none was measured on public records or paid for."
    low, high = found["interval"]
    how = "public records" if found["kind"] == "public" else "private records kept apart; paid for, with noise"
    return f"## Quality\n\nAccuracy {found['accuracy']:.1%} ({low:.1%} to {high:.1%}), on {how}."


def _use(form: dict[str, Any], onnx: str | None) -> str:
    lines = [
        "## Use",
        "",
        "```text",
        "$ discreet predict . DATA --out predictions.csv",
        "```",
        "",
        "In Python: `discreet.load_model(DIR).predict(x)`; `raw=True` scales records first, as `preprocessing` in "
        "`model.json` says.",
        f"`{ONNX}` takes records that are scaled, and gives probabilities."
        if onnx is None
        else f"No ONNX file: {onnx}.",
        "",
        "## Limits",
        "",
        "What the model says of private records is private: predictions are not covered by the claim. It was trained "
        f"{_LEARNT.get(form.get('recipe', ''), 'with noise on few labels')}, chosen where an "
        "earlier model was unsure: rare classes may be learnt badly. Records unlike those of its pool are outside of "
        "what was measured.",
    ]
    if form["task"] == "multilabel":
        lines.insert(7, f"A label is given above {form['threshold']}, unless `--threshold` says otherwise.")
    return "\n".join(lines)


def _check(form: dict[str, Any]) -> str:
    return "\n".join(
        [
            "## Check it",
            "",
            "```text",
            "$ discreet verify DIRECTORY",
            "```",
            "",
            "DIRECTORY is the one this file is in. It computes the claim again from the mechanisms alone and compares "
            "every file with its hash in `model.json`, and the weights with the hash that the certificate names. "
            f"`discreet verify {CERTIFICATE}` by itself does not check the other files.",
        ]
    )
