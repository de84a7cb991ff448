"""Published models: a file for each version, named by its number and carrying its hash. Audience: public.

    models/model-00000042.json     the model, its preparation, and the claim it was made under
    models/latest.json             the newest one again, replaced in one step

Guarantee: a file appears whole or not at all, and holds a version whose inputs are durable in the journal: whatever
happens, a version has one content. Weights are part of the release that the stream's entry pays for; the preparation is
declared, or of a public sample. With ``file = "safetensors"`` the weights stand in a file of their own, and the JSON
file names its hash.

    model = load_published("payments.stream/models/latest.json")
    model.predict([{"amount": 12.5, "hour": 3, "country": "de"}])
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from discreet.errors import BadInput, InvalidCheckpoint, InvalidStore, require
from discreet.privacy.files import write_whole
from discreet.privacy.ledger.charges import canonical
from discreet.storage.disk import disk_refusals
from discreet.stream.linear_model import Label, StreamModel
from discreet.stream.preparation import Preparation

FORMAT = "discreet.published-model/1"
LATEST = "latest.json"
_NAME = re.compile(r"model-(\d{8,})\.json")


class Publisher:
    """Writes versions into a directory, every so many of them, and keeps so many files."""

    def __init__(
        self,
        directory: Path,
        *,
        name: str,
        preparation: Preparation,
        every: int,
        keep: int | None,
        file: str,
        ledger: str | None = None,
    ) -> None:
        self.directory = directory
        self._facts = {"format": FORMAT, "audience": "public", "name": name, "preparation": preparation.to_json()}
        self._every, self._keep, self._file = every, keep, file
        if file == "safetensors":
            _safetensors()
        with disk_refusals("publishing models"):
            directory.mkdir(parents=True, exist_ok=True)
            for half in (*directory.glob(".model-*.part"), *directory.glob(f".{LATEST}.*.part")):
                half.unlink(missing_ok=True)  # of a process that was killed
        self.newest = max(self._versions(), default=-1)
        newest = directory / f"model-{self.newest:08d}.json"
        # models of another stream stay as they are: versions of two could not be told apart
        if ledger is not None and self.newest >= 0 and load_published(newest).model.ledger != ledger:
            raise BadInput(
                f"publishing models in {directory.name}",
                "there are models of another stream",
                "Choose another [publish] directory",
            )
        self._mend(newest)

    def _mend(self, newest: Path) -> None:
        """A process that was killed may have written a version, and not yet that it is the newest."""
        latest = self.directory / LATEST
        if self.newest >= 0 and not (latest.exists() and latest.read_bytes() == newest.read_bytes()):
            self._point_at(newest.name)

    def _point_at(self, name: str) -> None:
        """A copy, in one step and not synced: after a power failure `_mend` makes it anew."""
        scratch = self.directory / f".{LATEST}.{os.getpid()}.part"
        scratch.write_bytes((self.directory / name).read_bytes())
        scratch.replace(self.directory / LATEST)

    def _versions(self) -> list[int]:
        names = [path.name for path in self.directory.iterdir()]
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)

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

    def publish(self, model: StreamModel, fix: Callable[[int, str], None]) -> str:
        """Write a version; its hash, which ``fix`` stores before the file is written. What is there is the same."""
        name = f"model-{model.version:08d}"
        inner = model.to_json()
        with disk_refusals("publishing a model", kept="what was decided is safe, and the same command goes on"):
            content = b""
            if self._file == "safetensors":
                content = _safetensors().save({"weights": model.weights})
                inner["weights"] = {
                    "file": f"{name}.safetensors",
                    "sha256": hashlib.sha256(content).hexdigest(),
                }
            form: dict[str, Any] = self._facts | {"simulation": model.simulation, "model": inner}
            form["sha256"] = digest_of(form)
            fix(model.version, form["sha256"])
            if content:
                write_whole(self.directory / f"{name}.safetensors", content)
            write_whole(self.directory / f"{name}.json", json.dumps(form, indent=1) + "\n")
            self._point_at(f"{name}.json")
            self.newest = model.version
            for version in self._versions()[: -self._keep] if self._keep else ():
                for suffix in ("json", "safetensors"):
                    (self.directory / f"model-{version:08d}.{suffix}").unlink(missing_ok=True)
        return str(form["sha256"])


def digest_of(form: dict[str, Any]) -> str:
    """The hash of everything in a published form but the hash itself."""
    return hashlib.sha256(canonical({key: value for key, value in form.items() if key != "sha256"})).hexdigest()


@dataclass(frozen=True, kw_only=True)
class PublishedModel:
    """A published version with what it needs to be used: records as they are declared, in; classes out."""

    name: str
    model: StreamModel
    preparation: Preparation
    sha256: str

    def predict(self, records: Sequence[Any]) -> list[Label]:
        """The class of each record. What is said of private records is private."""
        return list(self.model.predict(self.preparation.many(records)).tolist())


def load_published(path: Path | str, *, encoder: Path | str | None = None) -> PublishedModel:
    """A published model; refused, if a hash does not fit. ``encoder``: where that of its features is, if it has one."""
    file = Path(path)
    asked = f"reading {file.name}"
    try:
        form = json.loads(file.read_bytes())
        if form["format"] != FORMAT or digest_of(form) != form["sha256"]:
            raise InvalidCheckpoint(asked, "its content is not what its hash says", "Restore the file")
        model, weights = dict(form["model"]), form["model"]["weights"]
        if isinstance(weights, dict):
            content = (file.parent / Path(weights["file"]).name).read_bytes()
            if hashlib.sha256(content).hexdigest() != weights["sha256"]:
                raise InvalidCheckpoint(asked, "its weights are not the ones it names", "Restore the file")
            model["weights"] = _safetensors().load(content)["weights"].tolist()
        return PublishedModel(
            name=form["name"],
            model=StreamModel.from_json(model),
            preparation=_located(Preparation.from_json(form["preparation"]), encoder),
            sha256=form["sha256"],
        )
    except InvalidCheckpoint:
        raise
    except (OSError, BadInput, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidCheckpoint(asked, "it is not a published model", "Check the path") from None


def _located(preparation: Preparation, encoder: Path | str | None) -> Preparation:
    if preparation.features is None or encoder is None:
        return preparation
    return replace(preparation, features=preparation.features.located(encoder))


def _safetensors() -> Any:
    require("safetensors", extra="torch", asked="models as safetensors")
    import safetensors.numpy

    return safetensors.numpy
