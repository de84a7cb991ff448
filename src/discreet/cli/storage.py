"""`discreet storage`: what is in a store, bringing one up to date, and moving campaigns between stores."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import JsonOption, show

if TYPE_CHECKING:
    from discreet.storage import Storage

storage_app = typer.Typer(name="storage", no_args_is_help=True, help="Stores of campaigns: SQLite files, PostgreSQL.")

UrlArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="A path, sqlite:///scan.db, or postgresql://ROLE@HOST/DATABASE.", show_default=False
    ),
]
FromArgument = Annotated[str, typer.Argument(metavar="FROM", help="The store to copy from.", show_default=False)]
ToArgument = Annotated[str, typer.Argument(metavar="TO", help="The store to copy to.", show_default=False)]
CampaignOption = Annotated[
    list[str] | None, typer.Option("--campaign", help="Only this one; may be repeated. Else all.", show_default=False)
]
DirectoryHelp = "Of a database: where this host has its keys, checkpoints and files (DATABASE.files)."
FromDirectory = Annotated[Path | None, typer.Option("--from-directory", help=DirectoryHelp, show_default=False)]
ToDirectory = Annotated[Path | None, typer.Option("--to-directory", help=DirectoryHelp, show_default=False)]
MarkHelp = "The directory for the high-water marks of ledgers, as in [storage] mark (beside the keys)."
FromMark = Annotated[Path | None, typer.Option("--from-mark", help=MarkHelp, show_default=False)]
ToMark = Annotated[Path | None, typer.Option("--to-mark", help=MarkHelp, show_default=False)]


@storage_app.command("show")
def show_command(url: UrlArgument, as_json: JsonOption = False) -> None:
    """Which campaigns a store has, and which of them were moved away or are backups. Audience: owner.

    Example: discreet storage show postgresql://annotation@db.example.org/campaigns
    """
    from discreet.storage import open_storage

    with open_storage(url, directory=scratch(url), read_only=True) as storage:
        states = storage.states()
    form = {
        "format": "discreet.storage/1",
        "simulation": all(state["simulation"] for state in states),
        "audience": "owner",
        "campaigns": states,
    }
    lines = [
        f"{state['name']:30} {state['state']}{'  (simulation)' if state['simulation'] else ''}" for state in states
    ]
    show(form, "\n".join(lines) or "no campaigns", as_json=as_json)


@storage_app.command("upgrade")
def upgrade_command(url: UrlArgument, as_json: JsonOption = False) -> None:
    """Bring a store of an older version up to date. A database: when no other process uses it. Audience: owner.

    Example: discreet storage upgrade postgresql://annotation@db.example.org/campaigns
    """
    from discreet.storage import upgrade_storage

    steps = upgrade_storage(url)
    form = {"format": "discreet.storage-upgrade/1", "simulation": False, "audience": "owner", "steps": steps}
    show(form, f"taken: {', '.join(steps)}" if steps else "it is up to date", as_json=as_json)


@storage_app.command("copy")
def copy_command(
    source: FromArgument,
    target: ToArgument,
    campaign: CampaignOption = None,
    backup: Annotated[
        bool, typer.Option("--backup", help="A copy to be read; the original goes on. Else it is moved.")
    ] = False,
    from_directory: FromDirectory = None,
    to_directory: ToDirectory = None,
    from_mark: FromMark = None,
    to_mark: ToMark = None,
    as_json: JsonOption = False,
) -> None:
    """Move campaigns to another store, with their files and keys; hashes and the ledger's chain are compared. The old
    store takes no charges any more: two must not spend one budget. Cut off, the same command finishes it. A backup that
    is there is checked and left as it is; exit code 1 if its campaign has gone on since. Audience: owner.

    Example: discreet storage copy scans.db postgresql://annotation@db.example.org/campaigns
    """
    from discreet.storage import open_storage
    from discreet.storage.moves import copy_campaign

    with ExitStack() as stores:
        old = stores.enter_context(open_storage(source, directory=from_directory, mark=from_mark, must_exist=True))
        names = campaign or old.campaigns()
        new = stores.enter_context(open_storage(target, directory=to_directory, mark=to_mark))
        done = [asdict(copy_campaign(old, new, name, backup=backup)) for name in names]
    form = {
        "format": "discreet.storage-copy/1",
        "simulation": all(copied["simulation"] for copied in done),
        "audience": "owner",
        "campaigns": done,
    }
    show(form, _said(done, backup=backup), as_json=as_json)
    if any(copied["behind"] for copied in done):
        raise typer.Exit(1)


def _said(done: list[dict[str, Any]], *, backup: bool) -> str:
    lines = [f"{copied['name']}: {_compared(copied)}" for copied in done]
    lines.append(
        "a backup, to be read"
        if backup
        else "moved: name the new store in [storage] url; the old one takes nothing more"
    )
    return "\n".join(lines)


def _compared(copied: dict[str, Any]) -> str:
    if copied["moved_before"]:
        return "was moved there before"
    if copied["behind"]:
        return "its backup is there, and older than the campaign: for a newer one take another store"
    rows, lines = sum(copied["rows"].values()), copied["ledger_lines"]
    return (
        f"{rows} rows, {copied['files']} files, {lines} lines of the ledger; all hashes agree ({copied['digest'][:16]})"
    )


@storage_app.command("abandon")
def abandon_command(
    source: FromArgument,
    target: Annotated[
        str | None, typer.Argument(metavar="TO", help="Where a part had arrived: it is removed.", show_default=False)
    ] = None,
    campaign: CampaignOption = None,
    from_directory: FromDirectory = None,
    to_directory: ToDirectory = None,
    from_mark: FromMark = None,
    to_mark: ToMark = None,
    as_json: JsonOption = False,
) -> None:
    """Take back a move that was cut off: the old store goes on. What was moved to its end stays moved. Audience: owner.

    Example: discreet storage abandon scans.db postgresql://annotation@db.example.org/campaigns
    """
    from discreet.storage import open_storage
    from discreet.storage.moves import abandon_move

    with ExitStack() as stores:
        old = stores.enter_context(open_storage(source, directory=from_directory, mark=from_mark, must_exist=True))
        new: Storage | None = None
        if target is not None:
            new = stores.enter_context(open_storage(target, directory=to_directory, mark=to_mark, must_exist=True))
        back = [name for name in campaign or _moving(old, new) if abandon_move(old, new, name)]
    form = {"format": "discreet.storage-abandon/1", "simulation": False, "audience": "owner", "campaigns": back}
    show(form, f"goes on here: {', '.join(back)}" if back else "no move was under way", as_json=as_json)


def _moving(old: Storage, new: Storage | None) -> list[str]:
    """Campaigns on their way; also those of which a part is left in the other store."""
    left = {state["name"] for state in new.states() if state["state"] == "arriving"} if new is not None else set()
    return [
        state["name"]
        for state in old.states()
        if state["state"] == "moving" or (state["state"] == "in use" and state["name"] in left)
    ]


def scratch(url: str) -> Path | None:
    """Looking at a database needs no directory of its own, and makes none."""
    return Path.cwd() if url.startswith(("postgresql://", "postgres://")) else None
