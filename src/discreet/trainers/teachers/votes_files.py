"""Votes in a file: arrays alone, readable by their owner alone. Audience: owner."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import IO

import numpy as np

from discreet.errors import BadInput
from discreet.pools.archives import arrays_in
from discreet.records import Votes
from discreet.trainers.teachers.cache import UNREADABLE

_FORMAT, _FIRST = "discreet.votes/2", "discreet.votes/1"
"""The first form knew no unit: its votes were of records."""


def write_votes(votes: Votes, path: Path | str) -> None:
    """Write ``votes`` to a new file of mode 0600."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        _save(votes, file)


def votes_to_bytes(votes: Votes) -> bytes:
    """The same, for a store that keeps files by their hash. Audience: owner."""
    file = io.BytesIO()
    _save(votes, file)
    return file.getvalue()


def _save(votes: Votes, file: IO[bytes]) -> None:
    np.savez_compressed(
        file,
        format=np.array(_FORMAT),
        ids=np.array(votes.ids, dtype=np.str_),
        classes=np.array(votes.classes, dtype=np.str_),
        counts=votes.counts.astype(np.int32),
        teachers=np.array(votes.teachers),
        unit=np.array(votes.unit),
    )


def read_votes(path: Path | str) -> Votes:
    """The votes in a file."""
    try:
        with Path(path).open("rb") as file, arrays_in(file) as held:
            if str(held["format"]) not in (_FORMAT, _FIRST):
                raise KeyError
            return Votes(
                ids=tuple(held["ids"].tolist()),
                classes=tuple(held["classes"].tolist()),
                counts=held["counts"].astype(np.int64),
                teachers=int(held["teachers"]),
                unit="person" if "unit" in held and str(held["unit"]) == "person" else "record",
            )
    except FileNotFoundError:
        raise BadInput(f"votes in {Path(path).name}", "there is no such file", "Check the path") from None
    except (*UNREADABLE, TypeError) as problem:
        if isinstance(problem, BadInput):
            raise
        raise BadInput(
            f"votes in {Path(path).name}", "they are not in the form we write", "Train the teachers again"
        ) from None
