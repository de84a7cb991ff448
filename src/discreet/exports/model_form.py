"""`model.json`: what an exported model is, and the hash of every file beside it. Format `discreet.model/1`.

Guarantee: holds declared, public facts alone, no path of the owner's machine. A file that is missing or does not have
its hash, an edited `model.json` and a claim that is not the certificate's are noticed when the model is loaded; against
a change on purpose, compare the certificate's signature.

Verification
------------
Is an export what it says? Its certificate is computed again, and the directory compared with it and with itself.

Guarantee: a file that is missing, changed or added, a `model.json` that was edited, and a claim that is not the
certificate's are failed checks. Not found without a key: a directory that somebody wrote anew. Demand a signature
(``public_key``): it covers the certificate, and `model.json` with the hashes of all files. A certificate can also be
compared with the campaign's ledger (``lines``).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from discreet._version import __version__
from discreet.campaign.state import MODEL as STORED
from discreet.config import CampaignFile
from discreet.errors import BadInput, InvalidCertificate, InvalidCheckpoint, InvalidLedger
from discreet.features import FeatureMap, feature_map_from_json
from discreet.privacy.certificate import Check, Verdict
from discreet.privacy.certificate.signatures import read_public, signature_checks
from discreet.privacy.certificate.statement import digest_of, named_map, read_certificate
from discreet.privacy.certificate.verification import MOST_SECONDS, verify_certificate
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.recipes.specification import CLASSIFIER, STUDENT, ModelParts

FORMAT = "discreet.model/1"
MODEL, WEIGHTS, ONNX, CARD, CERTIFICATE, ENCODER = (
    "model.json",
    "weights.safetensors",
    "model.onnx",
    "README.md",
    "certificate.json",
    "encoder",
)


def form_of(config: CampaignFile, parts: ModelParts, **facts: Any) -> dict[str, Any]:
    """Everything but the files. ``facts``: phase, phases, private, claim and evaluation."""
    return {
        "format": FORMAT,
        "simulation": config.simulation is not None,
        "audience": "public",
        "name": config.name,
        "discreet": __version__,
        **facts,
        **({} if config.task.threshold is None else {"threshold": config.task.threshold}),
        **parts.form,
    }


def files_in(directory: Path) -> dict[str, dict[str, Any]]:
    """Every file below ``directory`` but `model.json`, with its hash."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file() and path != directory / MODEL)
    return {
        path.relative_to(directory).as_posix(): {"sha256": sha256(path), "bytes": path.stat().st_size} for path in paths
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
        wrong = [name for name, file in form["files"].items() if not _same(directory, name, file["sha256"])]
    except (KeyError, TypeError, ValueError):
        raise _broken(directory) from None
    return sorted({*wrong, *({form.get("weights", WEIGHTS), CERTIFICATE, CARD} - set(form["files"]))})


def sealed(form: dict[str, Any]) -> dict[str, Any]:
    """The form with the hash of itself."""
    return form | {"digest": digest_of(form), "signature": None}


def intact(form: dict[str, Any]) -> bool:
    """Whether a form is as `sealed` made it."""
    return bool(form.get("digest") == digest_of(form))


def features_in(form: dict[str, Any]) -> FeatureMap | None:
    """The feature map that a `model.json` names, compared with its hash."""
    identity = form["preprocessing"].get("features") if isinstance(form.get("preprocessing"), dict) else None
    return None if identity is None else feature_map_from_json(identity)


def claim_of(certificate: dict[str, Any]) -> dict[str, Any]:
    """What an export claims: what its certificate proves."""
    return {**certificate["budget"], **certificate["claim"], "mode": certificate["mode"]}


def says_claim(directory: Path, form: dict[str, Any]) -> bool:
    """Whether the claim is the one of the certificate beside it, and that certificate of these weights."""
    try:
        certificate = read_certificate((directory / CERTIFICATE).read_bytes())
        return bool(certificate["weights"] == form["sha256"] and form["claim"] == claim_of(certificate))
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


# -- verification


def verify_export(
    directory: Path,
    *,
    lines: list[bytes] | None = None,
    public_key: Path | None = None,
    most_seconds: float = MOST_SECONDS,
) -> Verdict:
    """Check the export in ``directory``; its certificate also against the lines of a ledger and a public key."""
    form, known = read_form(directory), None
    if public_key is not None:
        known = read_public(public_key)
    try:
        data = (directory / CERTIFICATE).read_bytes()
    except OSError:
        raise InvalidCheckpoint(
            f"verifying {directory.name}", f"there is no {CERTIFICATE} in it", "Export it again"
        ) from None
    verdict = verify_certificate(data, lines=lines, public_key=known, most_seconds=most_seconds)
    others = [*changed_files(directory, form), *sorted(set(files_in(directory)) - set(form["files"]))]
    outcomes = {
        "files": (not others, f"missing, changed or added: {', '.join(others[:3])}", "every file has its hash"),
        "model.json": (intact(form), "it was edited", "it has its hash"),
        "model's claim": (says_claim(directory, form), "it is not the certificate's", "the certificate's"),
        "selection": (form.get("private") is True, "NOT PRIVATE: records were chosen by looking at them", "private"),
    }
    checks = [Check(name=name, ok=ok, detail=fine if ok else wrong) for name, (ok, wrong, fine) in outcomes.items()]
    checks += _feature_checks(directory, form)
    if lines is not None:
        checks += _named_by(lines, form)
    checks += [replace(check, name="model's signature") for check in signature_checks(form, known)]
    return replace(verdict, what="export", checks=(*verdict.checks, *checks))


def _feature_checks(directory: Path, form: dict[str, Any]) -> list[Check]:
    """Whether the feature map is what its hash says, and the one that the certificate names."""
    identity = form["preprocessing"].get("features")
    certificate = read_certificate((directory / CERTIFICATE).read_bytes())
    if identity is None and "features" not in certificate:
        return []
    try:
        feature_map_from_json(identity)  # compares the hashes
        paid = {name: certificate["features"][name] for name in ("quantiles",) if name in certificate["features"]}
        ok = certificate["features"] == named_map(identity | paid)
        detail = f"{identity['name']}, which reads one record alone" if ok else "it is not the certificate's"
    except BadInput as error:  # its package is not installed, or it does not have its hash
        ok, detail = False, f"{error.asked}: {error.fact}"
    except (KeyError, TypeError):
        ok, detail = False, "model.json or the certificate names none"
    return [Check(name="features", ok=ok, detail=detail)]


def _named_by(lines: list[bytes], form: dict[str, Any]) -> list[Check]:
    """Whether the ledger names these weights as released."""
    try:
        ledger = Ledger.open(MemorySink(lines))
    except InvalidLedger:
        return []  # a failed check of the certificate says so
    releases = ledger.releases
    if ledger.simulation and not releases:
        return [Check(name="released weights", ok=True, detail="NOT CHECKED: a simulation's ledger names no files")]
    named = [
        entry.released.get(STORED) for entry in releases if entry.released and entry.why.phase == form.get("phase")
    ]
    ok = form.get("sha256") in named
    detail = "the ledger names them for this phase" if ok else "the ledger names no such weights for this phase"
    return [Check(name="released weights", ok=ok, detail=detail)]


def weights_beside(certificate: Path, verdict: Verdict) -> Verdict:
    """``verdict`` of a certificate, and of the weights in the same directory if the certificate names some: compared
    with that hash, or said not to be checked.
    """
    if not verdict.weights:
        return verdict
    check = Check(
        name="weights",
        ok=True,
        detail="NOT CHECKED: they are not beside the certificate; verify the directory of the export",
    )
    beside = [certificate.parent / name for name in (WEIGHTS, CLASSIFIER, STUDENT)]
    if present := [path for path in beside if path.is_file()]:
        ok = any(sha256(path) == verdict.weights for path in present)
        detail = f"{present[0].name} has the hash that the certificate names; other files: verify the directory"
        check = replace(check, ok=ok, detail=detail if ok else f"{present[0].name} is not what the certificate names")
    return replace(verdict, checks=(*verdict.checks, check))
