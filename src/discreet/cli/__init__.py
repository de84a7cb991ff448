"""The command line: one file a verb. Exit codes: 0 ok, 1 a check failed, 2 bad input."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the `discreet` command."""
    from discreet.cli.app import run

    sys.exit(run())
