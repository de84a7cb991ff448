"""Teachers that were trained before, by a keyed hash of everything they were trained from. For the owner alone.

A file is named by PRF(key, hash of the estimator's settings, the records, the seed and the public records), so that
its name says nothing to others, and holds arrays only: no code is ever read from it. Readable by its owner alone.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from discreet.noise.keyed import SecretKey
from discreet.pools.archives import arrays_in
from discreet.trainers.teachers.fitting import Lesson, Taught
from discreet.trainers.teachers.linear import LinearVoter

UNREADABLE = (OSError, ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""What a file of arrays that was cut off or overwritten may raise."""


class TeacherCache:
    """A directory of teachers. ``settings`` names the estimator, ``public`` hashes the public records."""

    def __init__(self, directory: Path, *, key: SecretKey, settings: str, public: str) -> None:
        self._directory, self._key = directory, key.derive("teacher cache")
        self._about = f"{settings}\0{public}".encode()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def find(self, lesson: Lesson) -> Taught | None:
        """The teacher of this lesson, if it was kept; a file that cannot be read is as good as none."""
        try:
            with self._path(lesson).open("rb") as file, arrays_in(file) as held:
                if "votes" in held:
                    return Taught(place=lesson.place, votes=held["votes"].astype(np.int64))
                return Taught(place=lesson.place, linear=LinearVoter(weights=held["weights"], offsets=held["offsets"]))
        except UNREADABLE:
            return None

    def keep(self, lesson: Lesson, taught: Taught) -> None:
        """Write it whole or not at all. One that failed is not kept: it may do better the next time."""
        if taught.failed:
            return
        parts: dict[str, Any] = {}
        if taught.linear is not None:
            parts = {"weights": taught.linear.weights, "offsets": taught.linear.offsets}
        elif taught.votes is not None:
            parts = {"votes": taught.votes.astype(np.int16)}
        handle, name = tempfile.mkstemp(dir=self._directory, suffix=".part")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **parts)
            Path(name).replace(self._path(lesson))
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _path(self, lesson: Lesson) -> Path:
        whole = hashlib.sha256(self._about)
        for part in (np.ascontiguousarray(lesson.x), np.ascontiguousarray(lesson.y)):
            whole.update(f"{part.shape}{part.dtype}".encode())
            whole.update(part.tobytes())
        whole.update(str(lesson.seed).encode())
        return self._directory / f"{self._key.derive(whole.hexdigest()).fingerprint}.npz"


def settings_of(estimator: Any) -> str:
    """An estimator by its class, its parameters and its library's version."""
    import sklearn

    kind = type(estimator)
    settings = sorted((name, repr(value)) for name, value in estimator.get_params().items())
    return f"{kind.__module__}.{kind.__qualname__} {settings} scikit-learn {sklearn.__version__}"


def hash_of(rows: Any) -> str:
    """Names the content of an array."""
    held = np.ascontiguousarray(rows)
    return hashlib.sha256(f"{held.shape}{held.dtype}".encode() + held.tobytes()).hexdigest()
