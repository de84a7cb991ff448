"""`discreet schema`: propose the schema of a pool from a public table of the same form."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.campaign_files import JsonOption, show
from discreet.errors import BadInput


def schema_command(
    public: Annotated[
        Path, typer.Argument(help="A PUBLIC table: CSV, Parquet or Arrow. Never the private pool.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(help="The file to write, such as schema.toml; by default standard output.")
    ] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The column of ids: left out.")] = None,
    label: Annotated[str | None, typer.Option(help="The column of labels: left out.")] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="A further column that no model may read. May be repeated.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="csv, parquet, arrow or huggingface; by default, what its name says.")
    ] = None,
    max_categories: Annotated[
        int, typer.Option(min=1, max=5000, help="Values of a category at most; rarer ones are 'other'.")
    ] = 50,
    as_json: JsonOption = False,
) -> None:
    """Propose the schema of a pool: the type, bounds and values of each column, as a TOML file to be checked.

    The bounds and values are those of the file, so it must be public: a code book, published data, an earlier release.
    Change them to what is publicly known, then name the file in the table pool: schema = "schema.toml".
    Next: discreet init.

    Example: discreet schema public.csv --out schema.toml --id customer --label outcome
    """
    from discreet.pools import Schema
    from discreet.pools.schema_proposal import proposed_schema

    if out is not None and out.exists():
        raise BadInput(f"writing {out.name}", "it is there already", "Choose another name")
    spare = [name for name in (id_column, label, *(leave_out or ())) if name is not None]
    text = proposed_schema(public, kind=kind, leave_out=spare, max_categories=max_categories)
    schema = Schema.from_toml(text, "the proposed schema")
    if out is not None:
        out.write_text(text, encoding="utf-8")
    form = {
        "format": "discreet.schema/1",
        "simulation": False,
        "audience": "public",
        "file": None if out is None else out.name,
        "inputs": schema.width,
        "schema": schema.to_json(),
    }
    kinds = ", ".join(f"{column.name} ({column.type})" for column in schema.columns)
    note = f"{schema.width} inputs. Proposed from {public.name}, which must be public: check every bound in {out}."
    show(form, text if out is None else f"{kinds}\n{note}", as_json=as_json)
