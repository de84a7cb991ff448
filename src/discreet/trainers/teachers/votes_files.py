"""Votes in a file: arrays alone, readable by their owner alone. Audience: owner."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from discreet.errors import BadInput
from discreet.records import Votes
from discreet.trainers.teachers.cache import UNREADABLE

_FORMAT = "discreet.votes/1"


def write_votes(votes: Votes, path: Path | str) -> None:
    """Write ``votes`` to a new file of mode 0600."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        np.savez_compressed(
            file,
            format=np.array(_FORMAT),
            ids=np.array(votes.ids, dtype=np.str_),
            classes=np.array(votes.classes, dtype=np.str_),
            counts=votes.counts.astype(np.int32),
            teachers=np.array(votes.teachers),
        )


def read_votes(path: Path | str) -> Votes:
    """The votes in a file."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as held:
            if str(held["format"]) != _FORMAT:
                raise KeyError
            return Votes(
                ids=tuple(held["ids"].tolist()),
                classes=tuple(held["classes"].tolist()),
                counts=held["counts"].astype(np.int64),
                teachers=int(held["teachers"]),
            )
    except FileNotFoundError:
        raise BadInput(f"votes in {Path(path).name}", "there is no such file", "Check the path") from None
    except (*UNREADABLE, TypeError) as problem:
        if isinstance(problem, BadInput):
            raise
        raise BadInput(
            f"votes in {Path(path).name}", "they are not in the form we write", "Train the teachers again"
        ) from None
