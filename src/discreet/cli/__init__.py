"""The command line: verbs and their tables. Exit codes: 0 ok, 1 a check failed, 2 bad input."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Entry point of the `discreet` command."""
    try:
        from discreet.cli.app import run

        code = run()
    except KeyboardInterrupt:  # so early that nothing had been read yet
        print("discreet: Interrupted: nothing was charged.", file=sys.stderr)  # noqa: T201
        code = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the work is done; leaving takes a moment
    sys.exit(code)
