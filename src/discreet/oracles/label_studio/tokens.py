"""Tokens of Label Studio: from the environment, or from a file that nobody else can read; never from a command line.

Guarantee: a token is in no repr, no error and no log. Whoever has it may read every record that was pushed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from discreet.errors import BadInput

VARIABLE = "LABEL_STUDIO_API_KEY"
"""The name that Label Studio's own programs read."""
_MOST = 10_000
_PERSONAL = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_LEGACY = re.compile(r"[A-Za-z0-9_-]{8,200}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{16,200}")
_ASKED = "a token of Label Studio"


@dataclass(frozen=True, kw_only=True)
class Token:
    """What opens the server. ``personal``: a personal access token, which is exchanged for short-lived ones."""

    value: str = field(repr=False)

    def __post_init__(self) -> None:
        if not (_PERSONAL.fullmatch(self.value) or _LEGACY.fullmatch(self.value)):
            raise BadInput(
                _ASKED,
                "it is neither a legacy token nor a whole personal access token",
                "Copy it again from Account & Settings; a personal one is shown once, and has two dots in it",
            )

    @property
    def personal(self) -> bool:
        """By its form: three parts with dots between them."""
        return "." in self.value


def read_token(file: Path | None = None, *, environment: Mapping[str, str] = os.environ) -> Token:
    """The token in ``file``, or in the environment."""
    if file is not None:
        return Token(value=_of_file(file))
    found = environment.get(VARIABLE, "").strip()
    if not found:
        raise BadInput(
            _ASKED, "there is none", f"Set {VARIABLE}, or name a file that only you can read: [oracle] token_file"
        )
    return Token(value=found)


def read_secret(file: Path, option: str) -> str:
    """A secret of one's own, from a file that nobody else can read."""
    found = _of_file(file, option)
    if not _SECRET.fullmatch(found):
        raise BadInput(
            f"reading the secret in {file.name}",
            "it is not 16 to 200 letters, digits, - and _",
            "Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return found


def _of_file(file: Path, option: str = "[oracle] token_file") -> str:
    asked = f"reading the token in {file.name}"
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            content = opened.read(_MOST + 1)
    except OSError as problem:
        raise BadInput(asked, f"it cannot be read ({problem.strerror})", f"Check {option}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise BadInput(asked, "others than its owner can read it", f"chmod 600 {file.name}, and make a new token")
    try:
        found = content.decode("ascii").strip()
    except UnicodeDecodeError:
        found = ""
    if not found or len(content) > _MOST:
        raise BadInput(asked, "there is no token in it", "Write the token, and nothing else, into it")
    return found
