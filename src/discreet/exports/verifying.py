"""Is an export what it says? Its certificate is computed again, and the directory compared with it and with itself.

Guarantee: a file that is missing, changed or added, a `model.json` that was edited, and a claim that is not the
certificate's are failed checks. Not found without a key: a directory that somebody wrote anew. Demand a signature
(``public_key``): it covers the certificate, and `model.json` with the hashes of all files. A certificate can also be
compared with the campaign's ledger (``lines``).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from discreet.campaign.view import MODEL as STORED
from discreet.errors import InvalidCheckpoint, InvalidLedger
from discreet.exports.model_form import (
    CERTIFICATE,
    CLASSIFIER,
    STUDENT,
    WEIGHTS,
    changed_files,
    files_in,
    intact,
    read_form,
    says_claim,
    sha256,
)
from discreet.privacy.certificate import Check, Verdict
from discreet.privacy.certificate.verification import signature_checks, verify_certificate
from discreet.privacy.certificate.work import MOST_SECONDS
from discreet.privacy.ledger import Ledger, MemorySink


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
        from discreet.privacy.certificate.signing import read_public

        known = read_public(public_key)
    try:
        data = (directory / CERTIFICATE).read_bytes()
    except OSError:
        raise InvalidCheckpoint(
            f"verifying {directory.name}", f"there is no {CERTIFICATE} in it", "Export it again"
        ) from None
    verdict = verify_certificate(data, lines=lines, public_key=known, most_seconds=most_seconds)
    others = [*changed_files(directory, form), *sorted(set(files_in(directory)) - set(form["files"]))]
    own = {
        "files": (not others, f"missing, changed or added: {', '.join(others[:3])}", "every file has its hash"),
        "model.json": (intact(form), "it was edited", "it has its hash"),
        "model's claim": (says_claim(directory, form), "it is not the certificate's", "the certificate's"),
        "selection": (form.get("private") is True, "NOT PRIVATE: records were chosen by looking at them", "private"),
    }
    checks = [Check(name=name, ok=ok, detail=fine if ok else wrong) for name, (ok, wrong, fine) in own.items()]
    if lines is not None:
        checks += _named_by(lines, form)
    checks += [replace(check, name="model's signature") for check in signature_checks(form, known)]
    return replace(verdict, what="export", checks=(*verdict.checks, *checks))


def _named_by(lines: list[bytes], form: dict[str, Any]) -> list[Check]:
    """Whether the ledger names these weights as released. Ledgers of earlier versions name none."""
    try:
        releases = Ledger.open(MemorySink(lines)).releases
    except InvalidLedger:
        return []  # a failed check of the certificate says so
    named = [one.released.get(STORED) for one in releases if one.released and one.why.phase == form.get("phase")]
    if not releases:
        return [Check(name="released weights", ok=True, detail="NOT CHECKED: this ledger names no released files")]
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
    if found := [path for path in beside if path.is_file()]:
        ok = any(sha256(path) == verdict.weights for path in found)
        detail = f"{found[0].name} has the hash that the certificate names; other files: verify the directory"
        check = replace(check, ok=ok, detail=detail if ok else f"{found[0].name} is not what the certificate names")
    return replace(verdict, checks=(*verdict.checks, check))
