"""People who use a campaign's pages, what they may do, and how they are known: tokens and sessions.

Guarantee: neither a token nor the secret of a session is stored, only its SHA-256. Both are 256 bits from the operating
system, so nobody can try them out one by one, with the hash in hand or without; that is why a slow hash, which is meant
for words that people choose, would add nothing. Whoever reads the store cannot log in with what it holds. A name is
given once and stays with its person: exposures and answers bear it.

A user belongs to one campaign: an annotator of one is nobody in another. Audience: owner.

The access log
--------------
The access log of a campaign: logins, and what was done on the owner's pages, as JSON lines in a file.

Guarantee: an entry has a time, who, from where, what and how it ended; there is no field for a record, a label, a token
or free text. A name that nobody has is not written: somebody may have typed a token where the name belongs. When
`write` returns, the entry is on the disk; entries are appended and never changed. Whoever is not logged in can make
the file `LOG_BYTES` long and no longer: then failed logins are left out, and everything else is still written.

The file is for its owner alone (mode 0600). When people work is private under hidden selection, so it stays with the
owner. Assumption: whoever may write the campaign's directory can change the file; keep a copy elsewhere against that.
Several hosts with one store have a file each. Audience: owner.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from sqlalchemy import Connection, bindparam, select

from discreet.errors import BadInput, DiscreetError
from discreet.privacy.files import sync_directory
from discreet.storage.database import Scope, of_campaign
from discreet.storage.disk import disk_refusals, make_private
from discreet.storage.tables import moment, now, sessions, stamp, users

Role = Literal["owner", "annotator"]
LOOPBACK = "loopback"
"""Who uses pages that were opened to everybody on this machine."""
IDLE, LONGEST = timedelta(hours=4), timedelta(hours=16)
"""A session ends when nobody used it for so long, and after a working day in any case."""
_PREFIX, _BYTES = "dt_", 32
_NAME = re.compile(r"[\w][\w.@+-]{0,63}")
_RESERVED = ("imported", "teachers", LOOPBACK)
_TOUCH = timedelta(minutes=5)
"""How stale the last use of a session may be: not every click is a write."""
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


@dataclass(frozen=True, kw_only=True)
class User:
    """``active``: whether there is a token to come in with."""

    name: str
    role: Role
    created: datetime
    active: bool


@dataclass(frozen=True, kw_only=True)
class Users:
    """Those of one campaign."""

    _scope: Scope

    def add(self, name: str, role: str) -> str:
        """A new user; their token, which is shown once and cannot be read again."""
        asked = f"adding the user {name}"
        if role not in get_args(Role):
            raise BadInput(asked, f"there is no role {role}", f"Choose {' or '.join(get_args(Role))}")
        if not _NAME.fullmatch(name) or name.lower() in _RESERVED:
            raise BadInput(asked, "it is no name of a user", "Use up to 64 letters, digits and . @ + - _")
        token = _fresh(_PREFIX)
        with self._scope.writing("adding a user") as connection:
            if self._row(connection, name) is not None:
                raise BadInput(
                    asked,
                    "the name is taken, perhaps by somebody who was removed: what they saw is recorded under it",
                    "Choose another name; discreet user token lets the same person in again",
                )
            self._insert(connection, name, role, _hash(token))
        return token

    def renew(self, name: str) -> str:
        """Another token for a user, also a removed one; the old one and all sessions end."""
        token = _fresh(_PREFIX)
        self._set(name, _hash(token), f"a token for the user {name}")
        return token

    def remove(self, name: str) -> None:
        """Let a user in no more; the name stays with what they saw and said."""
        self._set(name, None, f"removing the user {name}")

    def everybody(self) -> list[User]:
        """By name."""
        known = select(users).where(self._scope.rows(users)).order_by(users.c.name)
        return [_user(row) for row in self._scope.fetch("reading the users", known)]

    def loopback(self) -> User:
        """Whoever is on this machine: an owner without a token."""
        with self._scope.writing("adding a user") as connection:
            if self._row(connection, LOOPBACK) is None:
                self._insert(connection, LOOPBACK, "owner", None)
            return _user(self._row(connection, LOOPBACK))

    def end_loopback(self) -> None:
        """End the sessions of whoever is on this machine: a server that asks for tokens begins."""
        of_loopback = self._scope.rows(sessions), sessions.c.person == LOOPBACK
        begun = self._scope.fetch("reading a session", select(sessions.c.secret).where(*of_loopback).limit(1))
        if begun:  # most often there is none, and whoever begins to serve writes nothing
            with self._scope.writing("ending a session") as connection:
                connection.execute(sessions.delete().where(*of_loopback))

    # -- who is it

    def known(self, name: str, token: str) -> User | None:
        """The user of this name, if the token is theirs. An unknown name takes as long as a wrong token."""
        with self._scope.reading("reading the users") as connection:
            row = self._row(connection, name) if _NAME.fullmatch(name) else None
        stored = None if row is None else row.token
        fits = hmac.compare_digest(_NOBODY if stored is None else stored, _hash(token))
        return _user(row) if fits and stored is not None else None

    def by_token(self, token: str) -> User | None:
        """The user that a token belongs to: found by its hash, which nobody can steer."""
        wanted = select(users).where(self._scope.rows(users), users.c.token == _hash(token))
        return next(map(_user, self._scope.fetch("reading the users", wanted)), None)

    # -- sessions

    def begin_session(self, name: str, token: str | None) -> str | None:
        """A session of a user; its secret, for a cookie. Sessions that ended are forgotten meanwhile.

        None: the token is not theirs any more, for they were removed, or given another one, since it was looked at.
        Whoever is on this machine has no token.
        """
        secret, at = _fresh(""), now()
        with self._scope.writing("beginning a session") as connection:
            row = self._row(connection, name)
            if row is None or (row.token is None and name != LOOPBACK):
                return None
            if not hmac.compare_digest(row.token or "", "" if token is None else _hash(token)):
                return None
            of_this_campaign = self._scope.rows(sessions)
            connection.execute(sessions.delete().where(of_this_campaign, sessions.c.seen < stamp(at - IDLE)))
            connection.execute(sessions.delete().where(of_this_campaign, sessions.c.began < stamp(at - LONGEST)))
            row = {"campaign": self._scope.campaign, "secret": _hash(secret), "person": name}
            connection.execute(sessions.insert().values(**row, began=stamp(at), seen=stamp(at)))
        return secret

    def of_session(self, secret: str, *, loopback: bool = False) -> User | None:
        """Whose session it is, if it goes on. ``loopback``: also that of whoever is on this machine."""
        this_session, at = self._session(secret), now()
        with self._scope.reading("reading a session") as connection:
            row = connection.execute(_SESSION, self._scope.values(secret=_hash(secret))).first()
            if row is None or moment(row.seen) < at - IDLE or moment(row.began) < at - LONGEST:
                return None
            user = self._row(connection, row.person)
        if user is None or (user.token is None and not (loopback and user.name == LOOPBACK)):
            return None
        if moment(row.seen) < at - _TOUCH:
            with self._scope.writing("using a session") as connection:
                connection.execute(sessions.update().where(*this_session).values(seen=stamp(at)))
        return _user(user)

    def end_session(self, secret: str) -> None:
        """Log out."""
        with self._scope.writing("ending a session") as connection:
            connection.execute(sessions.delete().where(*self._session(secret)))

    # -- inside

    def _session(self, secret: str) -> tuple[Any, Any]:
        return self._scope.rows(sessions), sessions.c.secret == _hash(secret)

    def _row(self, connection: Connection, name: str) -> Any:
        return connection.execute(_USER, self._scope.values(name=name)).first()

    def _insert(self, connection: Connection, name: str, role: str, token: str | None) -> None:
        row = {"campaign": self._scope.campaign, "name": name, "role": role, "token": token}
        connection.execute(users.insert().values(**row, created=stamp(now())))

    def _set(self, name: str, token: str | None, asked: str) -> None:
        with self._scope.writing("changing a user") as connection:
            if name == LOOPBACK or self._row(connection, name) is None:
                raise BadInput(asked, "there is no such user", "See discreet user list")
            connection.execute(sessions.delete().where(self._scope.rows(sessions), sessions.c.person == name))
            named = self._scope.rows(users), users.c.name == name
            connection.execute(users.update().where(*named).values(token=token))


def _fresh(prefix: str) -> str:
    return prefix + secrets.token_urlsafe(_BYTES)


_SESSION = select(sessions).where(of_campaign(sessions), sessions.c.secret == bindparam("secret"))
_USER = select(users).where(of_campaign(users), users.c.name == bindparam("name"))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _user(row: Any) -> User:
    return User(name=row.name, role=row.role, created=moment(row.created), active=row.token is not None)


# -- the access log

FORMAT = "discreet.access/1"
ACCESS_FILE = "access.jsonl"
LOG_BYTES = 64 << 20
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
        names = {"actor": actor, "address": address, "user": user}
        short = {name: None if value is None else value[:_LONGEST] for name, value in names.items()}
        entry = AccessEntry(time=stamp(now()), action=action, outcome=outcome, phase=phase, **short)
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
        entries = [entry for entry in map(_entry, lines) if entry is not None]
        return entries, len(lines) - len(entries)

    @property
    def full(self) -> bool:
        """Whether failed logins are left out."""
        return self.path.exists() and self.path.stat().st_size >= LOG_BYTES

    def _append(self, line: bytes, *, bounded: bool) -> None:
        new = not self.path.exists()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = os.fstat(file).st_size
            if bounded and size >= LOG_BYTES:
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


def _entry(line: bytes) -> AccessEntry | None:
    try:
        form: Any = json.loads(line)
        if form.pop("format") != FORMAT or form["action"] not in get_args(Action):
            return None
        return AccessEntry(**form)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
