"""From a campaign to a directory that may be given away.

Guarantee: everything in it is public or was paid for: weights of a finished phase, which are part of the release that
the ledger paid, what was declared, evaluations that are public or paid, and the certificate. No id, label, count or
path. The directory appears whole or not at all; nothing but an earlier export is ever replaced, and only on demand.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.campaign import Campaign
from discreet.campaign.state import MODEL as STORED
from discreet.campaign.state import PUBLISHED, TRAINED, evaluations_of
from discreet.errors import BadInput, DiscreetError, NotNow
from discreet.exports.model_form import (
    CARD,
    CERTIFICATE,
    ENCODER,
    MODEL,
    ONNX,
    WEIGHTS,
    claim_of,
    files_in,
    form_of,
    read_form,
    sealed,
)
from discreet.exports.side_files import card, write_onnx, write_onnx_of_records
from discreet.features.encoders import encoder_files
from discreet.privacy.certificate.statement import bound, write_certificate
from discreet.privacy.files import sync_directory, write_whole
from discreet.recipes.feature_rows import on_features
from discreet.recipes.specification import ModelParts, spec_of_campaign

_ROWS = 5


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Where a model is now. ``no_onnx``: why there is no ONNX file. Audience: public."""

    directory: Path
    phase: int
    files: tuple[str, ...]
    no_onnx: str | None
    form: dict[str, Any]


def export_model(
    campaign: Campaign,
    directory: Path | str,
    *,
    phase: int | None = None,
    force: bool = False,
    onnx: bool = True,
    encoder: bool = True,
    sign: Path | str | None = None,
) -> Exported:
    """Write the model after ``phase`` (the last finished one) into a new directory. Audience: public.

    force     replace an earlier export
    onnx      write an ONNX file, too, where the extra is installed and torch can
    encoder   copy the public encoder of texts or pictures, so that the directory is enough to predict
    sign      an Ed25519 key (PEM) that signs the certificate, and model.json with the hashes of all files
    """
    target = Path(directory)
    number = _phase(campaign, phase)
    _check_place(target, force=force)
    content = campaign.store.file(STORED, number).read_bytes()
    certificate = _signed(bound(campaign.certificate(through=number), content), sign)
    spec = spec_of_campaign(campaign)
    if spec.exported is None:
        raise BadInput("exporting a model", "this recipe's models cannot be", "Store predictor().module yourself")
    parts = spec.exported(campaign)
    form = _described(campaign, number, claim_of(certificate), parts)
    weights = form.get("weights", WEIGHTS)
    with _whole(target) as scratch:
        write_whole(scratch / weights, content)
        write_certificate(certificate, scratch / CERTIFICATE)
        reason, reads = _beside(campaign, number, scratch, parts, onnx=onnx, encoder=encoder)
        if reason is None and "features" in form["preprocessing"]:
            form["onnx_reads"] = reads
        write_whole(scratch / CARD, card(form, certificate, spec, onnx=reason))
        form["files"] = files_in(scratch)
        form["sha256"] = form["files"][weights]["sha256"]
        form = _signed(sealed(form), sign)
        write_whole(scratch / MODEL, json.dumps(form, indent=1, ensure_ascii=False) + "\n")
    return Exported(directory=target, phase=number, files=(*form["files"], MODEL), no_onnx=reason, form=form)


def _described(campaign: Campaign, number: int, claim: dict[str, Any], parts: ModelParts) -> dict[str, Any]:
    recipe: Any = campaign.recipe
    steps = campaign.store.transitions()
    return form_of(
        recipe.config,
        parts,
        phase=number,
        phases=recipe.phases,
        private=all(step.facts.get("private", True) for step in steps if step.kind == PUBLISHED),
        claim=claim,
        evaluation=evaluations_of(steps).get(number),
    )


def _beside(
    campaign: Campaign, number: int, scratch: Path, parts: ModelParts, *, onnx: bool, encoder: bool
) -> tuple[str | None, str]:
    """A copy of the encoder and an ONNX file, where there may be some; why there is no ONNX file, or what it takes."""
    if encoder and parts.encoder is not None:
        _copy_encoder(parts.encoder, scratch / ENCODER)
    if isinstance(parts.example_rows, str):
        return parts.example_rows, ""
    if not onnx:
        return "it was not asked for", ""
    model, features = campaign.predictor(number), parts.feature_map
    if features is not None and write_onnx_of_records(model, features, scratch / ONNX):
        return None, "records"
    return write_onnx(on_features(model), parts.example_rows(_ROWS), scratch / ONNX), "features"


def _signed(form: dict[str, Any], key: Path | str | None) -> dict[str, Any]:
    if key is None:
        return form
    from discreet.privacy.certificate.signatures import signed

    if not Path(key).is_file():
        raise BadInput("signing an export", "there is no such key", "Make one: discreet ledger keygen")
    return signed(form, Path(key))


def _phase(campaign: Campaign, phase: int | None) -> int:
    trained = [step.phase for step in campaign.store.transitions() if step.kind == TRAINED]
    if not trained:
        raise NotNow("exporting a model", "none is trained yet", "Train first")
    if phase is not None and phase not in trained:
        raise NotNow(f"exporting the model of phase {phase}", f"phases 0 to {max(trained)} are trained", "Choose one")
    wanted, releases = max(trained) if phase is None else phase, campaign.releases()
    if releases is not None and releases.dates and wanted >= releases.released:
        raise NotNow(
            f"exporting the model of phase {wanted}",
            f"its planned release date is {releases.dates[wanted].isoformat()}",
            "Wait for that date, or export a phase that is released (--phase)",
        )
    return wanted


def _check_place(target: Path, *, force: bool) -> None:
    asked = f"exporting to {target.name or target}"
    if not target.absolute().parent.is_dir():
        raise BadInput(asked, "the directory around it does not exist", "Create it first")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not _is_export(target):
        raise BadInput(asked, "there is something else, or something of your own in it", "Choose another directory")
    if not force:
        raise BadInput(asked, "there is an earlier export", "Choose another directory, or add force=True (--force)")


def _is_export(target: Path) -> bool:
    """An earlier export, and nothing beside it that would be lost."""
    try:
        return target.is_dir() and set(files_in(target)) <= set(read_form(target)["files"])
    except (DiscreetError, OSError):
        return False


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """A scratch directory that takes the place's name when it is complete."""
    scratch, old = (target.absolute().with_name(f".{target.name}.{os.getpid()}.{end}") for end in ("part", "old"))
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        yield scratch
        if target.exists() and any(target.iterdir()):
            target.rename(old)
        scratch.rename(target)
        sync_directory(target.absolute().parent)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _copy_encoder(source: Path, target: Path) -> None:
    """Configuration, vocabulary and weights of a public encoder; no code, no pickles."""
    for name, path in encoder_files(source).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
