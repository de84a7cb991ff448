"""`model.json`: what an exported model is, and the hash of every file beside it. Format `discreet.model/1`.

Guarantee: holds declared, public facts alone, no path of the owner's machine. A file that is missing or does not have
its hash, an edited `model.json` and a claim that is not the certificate's are noticed when the model is loaded; against
a change on purpose, compare the certificate's signature.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from discreet._version import __version__
from discreet.config import CampaignConfig, CrowdConfig, TeachersConfig
from discreet.errors import InvalidCertificate, InvalidCheckpoint
from discreet.privacy.certificate.statement import digest_of, read_certificate
from discreet.recipes.learning import task_of
from discreet.recipes.model_records import TRANSFORMER

FORMAT = "discreet.model/1"
MODEL, WEIGHTS, ONNX, CARD, CERTIFICATE, ENCODER = (
    "model.json",
    "weights.safetensors",
    "model.onnx",
    "README.md",
    "certificate.json",
    "encoder",
)
CLASSIFIER = "classifier.npz"
"""Weights of a model of texts that came from a crowd; named by ``weights`` in its form."""
STUDENT = "student.npz"
"""Weights of a student of teachers; of one that is not linear, the public records and answers that it learnt from."""
THRESHOLD = 0.5
_LOCAL = ("path", "weights")
"""Options of models that are places on a disk; the weights they brought are in the exported ones."""


def form_of(
    config: CampaignConfig,
    *,
    inputs: tuple[int, ...],
    phase: int,
    phases: int,
    private: bool,
    claim: dict[str, Any],
    evaluation: Any,
) -> dict[str, Any]:
    """Everything but the files."""
    form: dict[str, Any] = {
        "format": FORMAT,
        "simulation": config.simulation is not None,
        "audience": "world",
        "private": private,
        "name": config.name,
        "discreet": __version__,
        "phase": phase,
        "phases": phases,
        "task": task_of(config),
        "classes": list(config.task.classes),
        "model": {
            "name": config.model.name,
            "options": {key: value for key, value in config.model.options.items() if key not in _LOCAL},
            "dropout": config.model.dropout,
        },
        "inputs": list(inputs),
        "preprocessing": _preprocessing(config),
        "claim": claim,
        "evaluation": evaluation,
    }
    return form | ({"threshold": THRESHOLD} if form["task"] == "multilabel" else {})


def crowd_form_of(config: CrowdConfig, **facts: Any) -> dict[str, Any]:
    """The same of a crowd campaign: a model of texts as its gate normalised them."""
    return _of_recipe(config, facts) | {
        "model": {"name": config.model.name, "options": {}, "dropout": config.model.dropout},
        "inputs": [],
        "weights": CLASSIFIER,
        "preprocessing": {"kind": "parquet", "text": config.log.text, "normalisation": config.gate.normalisation},
    }


def teachers_form_of(config: TeachersConfig, *, inputs: tuple[int, ...], **facts: Any) -> dict[str, Any]:
    """The same of a campaign of teachers: a student."""
    table = config.student
    return _of_recipe(config, facts) | {
        "model": {"name": table.name, "options": dict(table.options), "dropout": 0.0, "seed": table.seed},
        "inputs": list(inputs),
        "weights": STUDENT,
        "preprocessing": _preprocessing(config),
    }


def _of_recipe(config: CrowdConfig | TeachersConfig, facts: dict[str, Any]) -> dict[str, Any]:
    """What recipes of other models than DP-SGD's say alike. ``facts``: phase, phases, private, claim, evaluation."""
    return {
        "format": FORMAT,
        "simulation": config.simulation is not None,
        "audience": "world",
        "recipe": config.recipe.name,
        "name": config.name,
        "discreet": __version__,
        "task": "classes",
        "classes": list(config.task.classes),
        **facts,
    }


def _preprocessing(config: CampaignConfig | TeachersConfig) -> dict[str, Any]:
    """How records are read and scaled, as the pool's were declared; or which encoder reads texts."""
    pool, several = config.pool, (list, tuple)
    read = {"id": pool.id, "columns": pool.columns, "array": pool.array, "text": pool.text, "shape": pool.shape}
    form: dict[str, Any] = {"kind": pool.kind}
    form |= {key: list(value) if isinstance(value, several) else value for key, value in read.items() if value}
    if isinstance(config, TeachersConfig) or config.model.encoder is None:
        numbers = {"center": pool.center, "scale": pool.scale}
        return form | {key: list(value) if isinstance(value, several) else value for key, value in numbers.items()}
    encoder = {
        "name": config.resolve(config.model.encoder).name,
        "max_length": config.model.max_length,
        "tokens": config.model.name == TRANSFORMER,
    }
    return form | {"encoder": encoder}


def files_in(directory: Path) -> dict[str, dict[str, Any]]:
    """Every file below ``directory`` but `model.json`, with its hash."""
    found = sorted(path for path in directory.rglob("*") if path.is_file() and path != directory / MODEL)
    return {
        path.relative_to(directory).as_posix(): {"sha256": sha256(path), "bytes": path.stat().st_size} for path in found
    }


def sha256(path: Path) -> str:
    """Of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_form(directory: Path) -> dict[str, Any]:
    """The `model.json` of an export."""
    try:
        form = json.loads((directory / MODEL).read_bytes())
    except OSError:
        raise InvalidCheckpoint(f"the model in {directory.name}", f"it has no {MODEL}", "Name an export") from None
    except (ValueError, RecursionError):
        raise _broken(directory) from None
    if not isinstance(form, dict) or form.get("format") != FORMAT or not isinstance(form.get("files"), dict):
        raise _broken(directory)
    return form


def check_files(directory: Path, form: dict[str, Any]) -> None:
    """Refuse an export with a file that is missing or other than it was, or that claims what it does not prove."""
    fact = None
    if wrong := changed_files(directory, form):
        fact = f"missing or changed since the export: {', '.join(wrong[:3])}"
    elif not intact(form):
        fact = f"its {MODEL} was edited"
    elif not says_claim(directory, form):
        fact = "it claims something else than its certificate"
    if fact is not None:
        raise InvalidCheckpoint(f"the model in {directory.name}", fact, "Export it again")


def changed_files(directory: Path, form: dict[str, Any]) -> list[str]:
    """Names of files that are missing or other than they were."""
    try:
        wrong = [name for name, kept in form["files"].items() if not _same(directory, name, kept["sha256"])]
    except (KeyError, TypeError, ValueError):
        raise _broken(directory) from None
    return sorted({*wrong, *({form.get("weights", WEIGHTS), CERTIFICATE, CARD} - set(form["files"]))})


def sealed(form: dict[str, Any]) -> dict[str, Any]:
    """The form with the hash of itself."""
    return form | {"digest": digest_of(form), "signature": None}


def intact(form: dict[str, Any]) -> bool:
    """Whether a form is as `sealed` made it."""
    return bool(form.get("digest") == digest_of(form))


def claim_of(certificate: dict[str, Any]) -> dict[str, Any]:
    """What an export claims: what its certificate proves."""
    return {**certificate["budget"], **certificate["claim"], "mode": certificate["mode"]}


def says_claim(directory: Path, form: dict[str, Any]) -> bool:
    """Whether the claim is the one of the certificate beside it, and that certificate of these weights.

    Certificates of exports by earlier versions name no weights: the hashes of the files alone hold them together.
    """
    try:
        certificate = read_certificate((directory / CERTIFICATE).read_bytes())
        ours = certificate.get("weights") in (None, form["sha256"])
        return bool(ours and form["claim"] == claim_of(certificate))
    except (KeyError, TypeError, OSError, InvalidCertificate):
        return False


def _same(directory: Path, name: str, digest: str) -> bool:
    path = directory / name
    if directory.resolve() not in path.resolve().parents:
        raise ValueError(name)
    return path.is_file() and sha256(path) == digest


def _broken(directory: Path) -> InvalidCheckpoint:
    return InvalidCheckpoint(
        f"the model in {directory.name}", f"its {MODEL} is not one of an export", "Export it again"
    )
