"""The application: gathers the verbs and turns our errors into one clear line and exit code 2."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import typer

from discreet._version import __version__
from discreet.cli.ask import ask_command
from discreet.cli.audit import audit_command
from discreet.cli.bench import bench_app
from discreet.cli.export import export_command
from discreet.cli.exposure import exposure_command
from discreet.cli.gallery import gallery_command
from discreet.cli.init import init_command
from discreet.cli.labelstudio import labelstudio_app
from discreet.cli.ledger import ledger_app
from discreet.cli.plan import plan_command
from discreet.cli.pool import pool_app
from discreet.cli.predict import predict_command
from discreet.cli.price import price_command
from discreet.cli.progress import InterruptedAfterCharge, InterruptedBetweenCases, InterruptedCampaign
from discreet.cli.release import release_command
from discreet.cli.replan import replan_command
from discreet.cli.report import report_command
from discreet.cli.run import run_command
from discreet.cli.select import select_command
from discreet.cli.serve import serve_command
from discreet.cli.simulate import simulate_command
from discreet.cli.status import status_command
from discreet.cli.storage import storage_app
from discreet.cli.stream import stream_command
from discreet.cli.tell import tell_command
from discreet.cli.train import train_command
from discreet.cli.tune_price import tune_price_command
from discreet.cli.user import user_app
from discreet.cli.verify import verify_command
from discreet.cli.withdraw import withdraw_command
from discreet.errors import DiscreetError

INTERRUPTED = 130
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
app.command("simulate")(simulate_command)
app.command("init")(init_command)
app.command("ask")(ask_command)
app.command("tell")(tell_command)
app.command("train")(train_command)
app.command("run")(run_command)
app.command("status")(status_command)
app.command("serve")(serve_command)
app.add_typer(user_app)
app.command("report")(report_command)
app.command("gallery")(gallery_command)
app.command("replan")(replan_command)
app.add_typer(pool_app)
app.add_typer(labelstudio_app)
app.command("withdraw")(withdraw_command)
app.command("exposure")(exposure_command)
app.command("export")(export_command)
app.command("predict")(predict_command)
app.command("stream")(stream_command)
app.command("plan")(plan_command)
app.command("tune-price")(tune_price_command)
app.command("price")(price_command)
app.add_typer(ledger_app)
app.command("select")(select_command)
app.command("release")(release_command)
app.command("verify")(verify_command)
app.command("audit")(audit_command)
app.add_typer(storage_app)
app.add_typer(bench_app)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"discreet {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Active learning on data that must stay private: plan, select, label, train, and prove it."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    warnings.simplefilter("ignore", RuntimeWarning)
    warnings.showwarning = _warn
    given = sys.argv[1:] if arguments is None else list(arguments)
    if any("\0" in one or not _is_text(one) for one in given):
        return _refuse("an argument has a null byte, or is not UTF-8: nothing was done. Rename the file it names.")
    try:
        code = app(args=given, prog_name="discreet", standalone_mode=False)
    except DiscreetError as error:
        return _refuse(str(error))
    except InterruptedAfterCharge:
        return _refuse("Interrupted: the charge was made, and stays; nothing was shown.", code=INTERRUPTED)
    except InterruptedCampaign:
        return _refuse("Interrupted: what was charged stays, and the same command goes on.", code=INTERRUPTED)
    except InterruptedBetweenCases:
        return _refuse("Interrupted: finished cases are kept, and the same command goes on.", code=INTERRUPTED)
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


def _is_text(argument: str) -> bool:
    """Whether it can be printed and stored: bytes that are not UTF-8 arrive as halves of characters."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """A warning is a sentence: where in the code it was said helps nobody at a command line."""
    print(f"discreet: warning: {message}", file=sys.stderr)  # noqa: T201


def _refuse(message: str, code: int = 2) -> int:
    print(f"discreet: {message}", file=sys.stderr)  # noqa: T201
    return code
