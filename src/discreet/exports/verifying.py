"""Is an export what it says? Its certificate is computed again, and the directory compared with it and with itself.

Guarantee: a file that is missing, changed or added, a `model.json` that was edited, and a claim that is not the
certificate's are failed checks. Not found without a key: a directory that somebody wrote anew. Demand a signature
(``public_key``): it covers the certificate, and `model.json` with the hashes of all files. A certificate can also be
compared with the campaign's ledger (``lines``).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from discreet.errors import InvalidCheckpoint
from discreet.exports.model_form import CERTIFICATE, changed_files, files_in, intact, read_form, says_claim
from discreet.privacy.certificate import Check, Verdict
from discreet.privacy.certificate.verification import signature_checks, verify_certificate
from discreet.privacy.certificate.work import MOST_SECONDS


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
    checks += [replace(check, name="model's signature") for check in signature_checks(form, known)]
    return replace(verdict, what="export", checks=(*verdict.checks, *checks))
