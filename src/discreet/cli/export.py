"""`discreet export`: a trained model as a directory that may be given away."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show

FORMAT = "discreet.export/1"


def export_command(
    config: ConfigArgument,
    directory: Annotated[Path, typer.Argument(help="A new directory.", show_default=False)],
    phase: Annotated[
        int | None, typer.Option(help="The model after this phase; the last finished one, if left out.", min=0)
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace an earlier export in that directory.")] = False,
    onnx: Annotated[bool, typer.Option(help="Write an ONNX file, too, if the extra onnx is installed.")] = True,
    encoder: Annotated[bool, typer.Option(help="Of a model of texts: copy its public encoder.")] = True,
    sign: Annotated[
        Path | None, typer.Option(help="Sign certificate and model.json with this Ed25519 key (PEM).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Weights, preprocessing, classes, model card and certificate: all public or paid for. Audience: world.

    Example: discreet export scans.toml model
    """
    from discreet.cli.progress import working
    from discreet.exports import export_model

    with opened(config, read_only=True) as campaign, working("exporting"):
        made = export_model(campaign, directory, phase=phase, force=force, onnx=onnx, encoder=encoder, sign=sign)
    form = {
        "format": FORMAT,
        "simulation": campaign.simulation,
        "audience": "world",
        "phase": made.phase,
        "directory": made.directory.name,
        "files": sorted(made.files),
        "no_onnx": made.no_onnx,
        "claim": made.form["claim"],
        "signed": sign is not None,
    }
    lines = [f"the model of phase {made.phase} is in {made.directory.name}: {', '.join(sorted(made.files))}"]
    if made.no_onnx is not None and onnx:
        lines.append(f"no ONNX file: {made.no_onnx}")
    if campaign.simulation:
        lines.append("SIMULATION: its noise was seeded; it proves nothing about people.")
    lines.append(f"next: discreet predict {made.directory.name} DATA --out predictions.csv")
    show(form, "\n".join(lines), as_json=as_json)
