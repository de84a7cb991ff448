"""The application: gathers the verbs and turns our errors into one clear line and exit code 2."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import typer

from discreet._version import __version__
from discreet.cli.campaign import ask_command, run_command, status_command, tell_command, train_command
from discreet.cli.init import init_command, schema_command
from discreet.cli.labelstudio import labelstudio_app
from discreet.cli.ledger import ledger_app
from discreet.cli.outputs import export_command, exposure_command, gallery_command, predict_command, report_command
from discreet.cli.plan import plan_command
from discreet.cli.pool import pool_app, withdraw_command
from discreet.cli.price import price_command, tune_price_command
from discreet.cli.progress import StoppedWork
from discreet.cli.release import release_command
from discreet.cli.replan import replan_command
from discreet.cli.select import select_command
from discreet.cli.serve import serve_command, user_app
from discreet.cli.simulate import simulate_command
from discreet.cli.storage import storage_app
from discreet.cli.stream import stream_command
from discreet.cli.verify import audit_command, verify_command
from discreet.errors import DiscreetError

INTERRUPTED = 130
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""What can be neither printed nor stored: bytes that are not UTF-8 arrive as halves of characters."""
UsageProblem: type[Exception] = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")
"""Errors of the command line itself; typer carries click inside from some version on, so it is found by its name."""

app = typer.Typer(
    name="discreet",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Active learning on data that must stay private: plan, select, label, train, and prove it.",
)
COMMANDS: dict[str, Callable[..., None]] = {
    "simulate": simulate_command,
    "schema": schema_command,
    "init": init_command,
    "ask": ask_command,
    "tell": tell_command,
    "train": train_command,
    "run": run_command,
    "status": status_command,
    "serve": serve_command,
    "report": report_command,
    "gallery": gallery_command,
    "replan": replan_command,
    "withdraw": withdraw_command,
    "exposure": exposure_command,
    "export": export_command,
    "predict": predict_command,
    "stream": stream_command,
    "plan": plan_command,
    "tune-price": tune_price_command,
    "price": price_command,
    "select": select_command,
    "release": release_command,
    "verify": verify_command,
    "audit": audit_command,
}
for name, command in COMMANDS.items():
    app.command(name)(command)
for group in (user_app, pool_app, labelstudio_app, ledger_app, storage_app):
    app.add_typer(group)


def add_installed_commands() -> None:
    """Add the verbs of installed packages, such as `bench` of discreet-research: entry points that name a typer app."""
    from importlib.metadata import entry_points

    registered = {group.typer_instance for group in app.registered_groups}
    for entry_point in entry_points(group="discreet.commands"):
        verbs = entry_point.load()
        if verbs not in registered:
            app.add_typer(verbs)


def _built_in(arguments: Sequence[str]) -> bool:
    """Whether the verb is one of discreet's own, for which nothing else needs to be looked up."""
    groups = {group.typer_instance.info.name for group in app.registered_groups if group.typer_instance is not None}
    return bool(arguments) and arguments[0] in groups | COMMANDS.keys()


def _print_version(shown: bool) -> None:
    if shown:
        typer.echo(f"discreet {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Active learning on data that must stay private: plan, select, label, train, and prove it."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    warnings.simplefilter("ignore", RuntimeWarning)
    warnings.showwarning = _warn
    words = sys.argv[1:] if arguments is None else list(arguments)
    if any(_NO_TEXT.search(word) for word in words):
        return _refuse("an argument has a null byte, or is not UTF-8: nothing was done. Rename the file it names.")
    try:
        if not _built_in(words):
            add_installed_commands()
        code = app(args=words, prog_name="discreet", standalone_mode=False)
    except DiscreetError as error:
        return _refuse(str(error))
    except StoppedWork as interrupt:
        return _refuse(f"Interrupted: {interrupt}.", code=INTERRUPTED)
    except (KeyboardInterrupt, typer.Abort):
        return _refuse("Interrupted: nothing was charged.", code=INTERRUPTED)
    except BrokenPipeError:  # the reader of our output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        name = Path(str(error.filename)).name if error.filename else "a file"
        return _refuse(f"{name} could not be used: {error.strerror}. Check its path and the space on the disk.")
    except UsageProblem as error:  # an unknown option, a missing value
        cast(Any, error).show()
        return int(getattr(error, "exit_code", 2))
    if code == INTERRUPTED:  # typer's own word for the same thing
        return _refuse("Interrupted: nothing was charged.", code=INTERRUPTED)
    return code if isinstance(code, int) else 0


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """A warning is a sentence: where in the code it was said helps nobody at a command line."""
    print(f"discreet: warning: {message}", file=sys.stderr)  # noqa: T201


def _refuse(message: str, code: int = 2) -> int:
    print(f"discreet: {message}", file=sys.stderr)  # noqa: T201
    return code
