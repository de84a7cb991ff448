"""The access log of a campaign: logins, and what was done on the owner's pages, as JSON lines in a file.

Guarantee: an entry has a time, who, from where, what and how it ended; there is no field for a record, a label, a token
or free text. A name that nobody has is not written: somebody may have typed a token where the name belongs. When
`write` returns, the entry is on the disk; entries are appended and never changed. Whoever is not logged in can make
the file `MOST_BYTES` long and no longer: then failed logins are left out, and everything else is still written.

The file is for its owner alone (mode 0600). When people work is private under hidden selection, so it stays with the
owner. Assumption: whoever may write the campaign's directory can change the file; keep a copy elsewhere against that.
Several hosts with one store have a file each. Audience: owner.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from discreet.errors import DiscreetError
from discreet.privacy.files import sync_directory
from discreet.storage.disk import disk_refusals, make_private
from discreet.storage.forms import now, stamp

FORMAT = "discreet.access/1"
FILE = "access.jsonl"
MOST_BYTES = 64 << 20
Action = Literal[
    "login",
    "logout",
    "token",
    "ask",
    "train",
    "stop",
    "read-exposures",
    "read-report",
    "read-certificate",
    "user-add",
    "user-token",
    "user-remove",
]
"""``token``: a program's bearer token that is nobody's."""
Outcome = Literal["done", "refused", "locked-out", "begun", "stopped", "failed"]
_OF_ANYBODY = ("login", "token")
_LONGEST = 100


@dataclass(frozen=True, kw_only=True)
class AccessEntry:
    """Something that was done, or tried.

    actor    a user's name, or at a terminal that of the system; None: it is not known
    address  from where; ``terminal`` for a command
    user     whom a command about users concerns
    phase    of the campaign
    """

    time: str
    action: Action
    outcome: Outcome
    actor: str | None = None
    address: str | None = None
    user: str | None = None
    phase: int | None = None


@dataclass(frozen=True, kw_only=True)
class AccessLog:
    """Of one campaign, on this host."""

    path: Path

    def write(
        self,
        action: Action,
        outcome: Outcome,
        *,
        actor: str | None = None,
        address: str | None = None,
        user: str | None = None,
        phase: int | None = None,
    ) -> None:
        """Append an entry; it is on the disk when this returns."""
        entry = AccessEntry(
            time=stamp(now()),
            action=action,
            outcome=outcome,
            actor=_short(actor),
            address=_short(address),
            user=_short(user),
            phase=phase,
        )
        line = json.dumps({"format": FORMAT} | asdict(entry)) + "\n"
        with disk_refusals("writing the access log", kept="nothing was done that is not in it"):
            make_private(self.path.parent)
            self._append(line.encode(), bounded=action in _OF_ANYBODY and outcome != "done")

    @contextmanager
    def recorded(self, action: Action, *, actor: str, address: str, user: str) -> Iterator[None]:
        """Write how a command about a user ends; of one that is refused, not whom it named."""
        try:
            yield
        except DiscreetError:
            self.write(action, "refused", actor=actor, address=address)
            raise
        self.write(action, "done", actor=actor, address=address, user=user)

    def read(self) -> tuple[list[AccessEntry], int]:
        """All entries, oldest first, and how many lines are none."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return [], 0
        found = [_entry(line) for line in lines]
        entries = [one for one in found if one is not None]
        return entries, len(lines) - len(entries)

    @property
    def full(self) -> bool:
        """Whether failed logins are left out."""
        return self.path.exists() and self.path.stat().st_size >= MOST_BYTES

    def _append(self, line: bytes, *, bounded: bool) -> None:
        new = not self.path.exists()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = os.fstat(file).st_size
            if bounded and size >= MOST_BYTES:
                return
            if size and os.pread(file, 1, size - 1) != b"\n":  # a process was killed as it wrote
                line = b"\n" + line
            if os.write(file, line) != len(line):
                os.ftruncate(file, size)
                raise OSError(errno.ENOSPC, "short write")
            os.fsync(file)
        finally:
            os.close(file)
        if new:
            sync_directory(self.path.parent)


def _short(name: str | None) -> str | None:
    """As it may stand in a line: JSON escapes the rest."""
    return None if name is None else name[:_LONGEST]


def _entry(line: bytes) -> AccessEntry | None:
    try:
        form: Any = json.loads(line)
        if form.pop("format") != FORMAT or form["action"] not in get_args(Action):
            return None
        return AccessEntry(**form)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
