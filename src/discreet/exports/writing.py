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

import numpy as np

from discreet.campaign import Campaign
from discreet.campaign.standing import PUBLISHED, TRAINED
from discreet.campaign.view import MODEL as STORED
from discreet.campaign.view import evaluations_of
from discreet.errors import BadInput, DiscreetError, NotNow
from discreet.exports.card import card
from discreet.exports.model_form import (
    CARD,
    CERTIFICATE,
    ENCODER,
    MODEL,
    ONNX,
    WEIGHTS,
    claim_of,
    crowd_form_of,
    files_in,
    form_of,
    read_form,
    sealed,
    teachers_form_of,
)
from discreet.exports.onnx_files import write_onnx
from discreet.privacy.certificate.statement import bound, write_certificate
from discreet.privacy.files import sync_directory, write_whole
from discreet.recipes.crowd import Crowd
from discreet.recipes.model_records import made_up_rows
from discreet.recipes.private_pool import PrivatePool
from discreet.recipes.public_data import PublicData
from discreet.recipes.teachers import Teachers

_ROWS = 5
_COPIED = (".json", ".txt", ".model", ".safetensors")


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Where a model is now. ``no_onnx``: why there is no ONNX file. Audience: world."""

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
    """Write the model after ``phase`` (the last finished one) into a new directory. Audience: world.

    force     replace an earlier export
    onnx      write an ONNX file, too, where the extra is installed and torch can
    encoder   of texts: copy the public encoder, so that the directory is enough to predict
    sign      an Ed25519 key (PEM) that signs the certificate, and model.json with the hashes of all files
    """
    place = Path(directory)
    number = _phase(campaign, phase)
    _check_place(place, force=force)
    content = campaign.store.file(STORED, number).read_bytes()
    certificate = _signed(bound(campaign.certificate(through=number), content), sign)
    form = _described(campaign, number, claim_of(certificate))
    weights = form.get("weights", WEIGHTS)
    with _whole(place) as scratch:
        write_whole(scratch / weights, content)
        write_certificate(certificate, scratch / CERTIFICATE)
        reason = _beside(campaign, number, scratch, onnx=onnx, encoder=encoder)
        write_whole(scratch / CARD, card(form, certificate, onnx=reason))
        form["files"] = files_in(scratch)
        form["sha256"] = form["files"][weights]["sha256"]
        form = _signed(sealed(form), sign)
        write_whole(scratch / MODEL, json.dumps(form, indent=1, ensure_ascii=False) + "\n")
    return Exported(directory=place, phase=number, files=(*form["files"], MODEL), no_onnx=reason, form=form)


def _described(campaign: Campaign, number: int, claim: dict[str, Any]) -> dict[str, Any]:
    recipe, steps = campaign.recipe, campaign.store.transitions()
    facts: dict[str, Any] = {
        "phase": number,
        "phases": recipe.phases,
        "private": all(one.facts.get("private", True) for one in steps if one.kind == PUBLISHED),
        "claim": claim,
        "evaluation": evaluations_of(steps).get(number),
    }
    if isinstance(recipe, Crowd):
        return crowd_form_of(recipe.config, **facts)
    if isinstance(recipe, Teachers):
        inputs = tuple(int(size) for size in np.shape(campaign.pool.rows(slice(0, 1)))[1:])
        return teachers_form_of(recipe.config, inputs=inputs, **facts)
    if not isinstance(recipe, (PrivatePool, PublicData)):
        raise BadInput("exporting a model", "this recipe's models cannot be", "Store predictor().module yourself")
    return form_of(recipe.config, inputs=recipe.inputs, **facts)


def _beside(campaign: Campaign, number: int, scratch: Path, *, onnx: bool, encoder: bool) -> str | None:
    """A copy of the encoder and an ONNX file, where there may be some; why there is no ONNX file."""
    recipe = campaign.recipe
    if isinstance(recipe, Teachers):
        return "a student is any classifier, and no module of torch"
    if not isinstance(recipe, (PrivatePool, PublicData)):
        return "it reads texts by a hash of their words"
    if encoder and recipe.config.model.encoder is not None:
        _copy_encoder(recipe.config.resolve(recipe.config.model.encoder), scratch / ENCODER)
    if not onnx:
        return "it was not asked for"
    return write_onnx(campaign.predictor(number), made_up_rows(recipe.config, recipe.inputs, _ROWS), scratch / ONNX)


def _signed(form: dict[str, Any], key: Path | str | None) -> dict[str, Any]:
    if key is None:
        return form
    from discreet.privacy.certificate.signing import signed

    if not Path(key).is_file():
        raise BadInput("signing an export", "there is no such key", "Make one: discreet ledger keygen")
    return signed(form, Path(key))


def _phase(campaign: Campaign, phase: int | None) -> int:
    trained = [one.phase for one in campaign.store.transitions() if one.kind == TRAINED]
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


def _check_place(place: Path, *, force: bool) -> None:
    asked = f"exporting to {place.name or place}"
    if not place.absolute().parent.is_dir():
        raise BadInput(asked, "the directory around it does not exist", "Create it first")
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    if not _is_export(place):
        raise BadInput(asked, "there is something else, or something of your own in it", "Choose another directory")
    if not force:
        raise BadInput(asked, "there is an earlier export", "Choose another directory, or add force=True (--force)")


def _is_export(place: Path) -> bool:
    """An earlier export, and nothing beside it that would be lost."""
    try:
        return place.is_dir() and set(files_in(place)) <= set(read_form(place)["files"])
    except (DiscreetError, OSError):
        return False


@contextmanager
def _whole(place: Path) -> Iterator[Path]:
    """A scratch directory that takes the place's name when it is complete."""
    scratch, old = (place.absolute().with_name(f".{place.name}.{os.getpid()}.{end}") for end in ("part", "old"))
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        yield scratch
        if place.exists() and any(place.iterdir()):
            place.rename(old)
        scratch.rename(place)
        sync_directory(place.absolute().parent)
    finally:
        if old.exists() and not place.exists():
            old.rename(place)
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _copy_encoder(source: Path, target: Path) -> None:
    """Configuration, vocabulary and safetensors of a public encoder; no code, no pickles."""
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if path.is_file() and path.suffix in _COPIED and not any(part.startswith(".") for part in inside.parts):
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / inside)
