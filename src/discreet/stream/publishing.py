"""Published models: a file for each version, named by its number and carrying its hash. Audience: world.

    models/model-00000042.json     the model, its preparation, and the claim it was made under
    models/latest.json             the newest one again, replaced in one step

Guarantee: a file appears whole or not at all, and holds a version whose inputs are durable in the journal: whatever
happens, a version has one content. Weights are part of the release that the stream's entry pays for; the preparation is
declared, public, or paid for by itself. With ``file = "safetensors"`` the weights stand in a file of their own, and the
JSON file names its hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidCheckpoint, InvalidStore, MissingExtra
from discreet.privacy.files import write_whole
from discreet.privacy.ledger.entries import canonical
from discreet.storage.disk import disk_refusals

if TYPE_CHECKING:
    from discreet.stream.published import Published

LATEST = "latest.json"
_NAME = re.compile(r"model-(\d{8,})\.json")


class Publisher:
    """Writes versions into a directory, every so many of them, and keeps so many files."""

    def __init__(self, directory: Path, *, facts: dict[str, Any], every: int, keep: int | None, file: str) -> None:
        self.directory = directory
        self._facts, self._every, self._keep, self._file = facts, every, keep, file
        if file == "safetensors":
            _safetensors()
        with disk_refusals("publishing models"):
            directory.mkdir(parents=True, exist_ok=True)
            for half in (*directory.glob(".model-*.part"), *directory.glob(f".{LATEST}.*.part")):
                half.unlink(missing_ok=True)  # of a process that was killed
        self.newest = max((int(found[1]) for found in map(_NAME.fullmatch, self._names()) if found), default=-1)
        self._mend()

    def _mend(self) -> None:
        """A process that was killed may have written a version, and not yet that it is the newest."""
        newest, latest = self.directory / f"model-{self.newest:08d}.json", self.directory / LATEST
        if self.newest >= 0 and not (latest.exists() and latest.read_bytes() == newest.read_bytes()):
            write_whole(latest, newest.read_bytes())

    def _names(self) -> list[str]:
        return [path.name for path in self.directory.iterdir()]

    def check(self, version: int) -> None:
        """Refuse a journal that is older than what was published from it."""
        if self.newest > version:
            raise InvalidStore(
                "going on with a stream",
                f"model {self.newest} was published, and its journal knows models up to {version}",
                "It is an old copy, whose coins were used since: restore the newest one, or begin a new stream",
            )

    def due(self, version: int) -> bool:
        """Whether this version is to be published now."""
        return version > self.newest and (version - max(self.newest, 0) >= self._every or self.newest < 0)

    def publish(self, model: Published) -> str:
        """Write a version; its hash. What is there already is the same."""
        form = model.to_json() | self._facts
        name = f"model-{model.version:08d}"
        with disk_refusals("publishing a model", kept="what was decided is safe, and the same command goes on"):
            if self._file == "safetensors":
                content = _safetensors().save({"weights": model.weights})
                form["weights"] = {"file": f"{name}.safetensors", "sha256": hashlib.sha256(content).hexdigest()}
                write_whole(self.directory / f"{name}.safetensors", content)
            form["sha256"] = digest_of(form)
            text = json.dumps(form, indent=1) + "\n"
            write_whole(self.directory / f"{name}.json", text)
            write_whole(self.directory / LATEST, text)
            self.newest = model.version
            self._tidy()
        return str(form["sha256"])

    def _tidy(self) -> None:
        if self._keep is None:
            return
        there = sorted((int(found[1]), found[0]) for found in map(_NAME.fullmatch, self._names()) if found)
        for _, name in there[: -self._keep]:
            (self.directory / name).unlink(missing_ok=True)
            (self.directory / name).with_suffix(".safetensors").unlink(missing_ok=True)


def digest_of(form: dict[str, Any]) -> str:
    """The hash of everything in a published form but the hash itself."""
    return hashlib.sha256(canonical({key: value for key, value in form.items() if key != "sha256"})).hexdigest()


def read_published(path: Path) -> dict[str, Any]:
    """A published model with its weights as lists; refused, if a hash does not fit."""
    asked = f"reading {path.name}"
    try:
        form = json.loads(path.read_bytes())
        if digest_of(form) != form["sha256"]:
            raise InvalidCheckpoint(asked, "its content is not what its hash says", "Restore the file")
        if isinstance(form["weights"], dict):
            content = (path.parent / Path(form["weights"]["file"]).name).read_bytes()
            if hashlib.sha256(content).hexdigest() != form["weights"]["sha256"]:
                raise InvalidCheckpoint(asked, "its weights are not the ones it names", "Restore the file")
            form["weights"] = _safetensors().load(content)["weights"].tolist()
    except InvalidCheckpoint:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidCheckpoint(asked, "it is not a published model", "Check the path") from None
    return dict(form)


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise MissingExtra(
            "models as safetensors", "the library is not installed", "Install it: pip install 'discreet[torch]'"
        ) from None
    return safetensors.numpy
