"""Options that several verbs of `discreet bench` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.errors import BadInput

FORMAT = "discreet.bench/1"
RESULTS = Path("bench-results")

Name = Annotated[str, typer.Argument(help="An experiment; see discreet bench list.", show_default=False)]
Results = Annotated[Path, typer.Option("--results", help="Where results are kept.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="A directory with a directory for each set of data; digits need none."),
]
Problems = Annotated[
    list[str] | None, typer.Option("--problem", help="Only problems with this in their names; may be repeated.")
]
Methods = Annotated[
    list[str] | None, typer.Option("--method", help="Only methods with this in their names; may be repeated.")
]
Seeds = Annotated[
    str | None,
    typer.Option("--seeds", help="How many seeds (5), or which (3-4, or 0,2); default: the experiment's own."),
]


def check_data(data: Path | None) -> None:
    """Refuse a directory that is not there."""
    if data is not None and not data.is_dir():
        raise BadInput(f"--data {data.name}", "there is no such directory", "Check the path")
