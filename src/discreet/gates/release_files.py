"""A release into a file: charged, drawn, written once, and the same again after a crash.

Beside the file (say to_label.parquet), for the owner alone:

    to_label.parquet.ledger         where the guarantee is kept, unless another ledger is named; its mark beside it
    to_label.parquet.unfinished/    the sealed key, and the file being written, until the release is done

In this order: everything that can be refused; the ledger; the key; the charge, durable; the release; a keyed digest of
what it lets out, bound to the key; a line of the ledger with the file's SHA-256; the file, whole, under its name; the
end of the key.

Guarantee: killed anywhere, the same command goes on. Before the digest nobody has seen anything, so the coins may meet
whatever the log is by now; after it the same output is made again, or the command is refused: the coins of one key are
never seen on two batches. A file that is there is never replaced.

A register beside the log (or beside the output, where the log's directory cannot be written) lists which files were
released under which ledger. Two releases of one log under two ledgers cost the sum, and neither ledger says so: a
second one is noticed there and warned about. The register is for the owner alone (mode 0600).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.errors import BadInput, LedgerUnavailable
from discreet.gates.gate import CrowdGate, Engine, Released
from discreet.gates.log_files import UNFINISHED
from discreet.gates.query_log import Progress, QueryLog, unwatched
from discreet.noise import SealedPhase, Source, charge_once
from discreet.noise.keys import destroy
from discreet.privacy.budget import Budget
from discreet.privacy.certificate import Check
from discreet.privacy.files import sync_directory
from discreet.privacy.ledger import FileSink, Ledger, Line, MemorySink, Receipt, committed, request
from discreet.privacy.ledger.sinks import read_lines

WHO, WHY = "queries", "release"
RELEASE = "release"
"""What the ledger calls a file whose own name is not of plain letters."""
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+()-]{0,119}", re.ASCII)
COUNT, ANNOTATORS = "count", "annotators"
KINDS = (".parquet", ".csv", ".jsonl")
MOST_ANNOTATORS = 10**6
_PHASE = 0
_PART = "part"


@dataclass(frozen=True, kw_only=True)
class ReleaseFile:
    """Where a release goes. ``text`` names its first column; ``annotators``: how many people each row is meant for."""

    out: Path
    text: str
    annotators: int | None = None
    ledger: Path | None = None

    def __post_init__(self) -> None:
        if self.out.suffix.lower() not in KINDS:
            raise BadInput(f"writing {self.out.name}", "its name says no kind we write", f"Use {', '.join(KINDS)}")
        if not self.out.absolute().parent.is_dir():
            raise BadInput(f"writing {self.out.name}", "there is no such directory", "Create it, or check the path")
        if self.annotators is not None and not 1 <= self.annotators <= MOST_ANNOTATORS:
            raise BadInput(f"{self.annotators} annotators", "nobody, or everybody, would label", "Give 1 or more")
        if self.text in (COUNT, ANNOTATORS):
            raise BadInput(f"the column {self.text}", "we write one of that name ourselves", "Rename it in the log")

    @property
    def book(self) -> Path:
        """The ledger that is charged."""
        return self.ledger or self.out.with_name(f"{self.out.name}.ledger")

    @property
    def unfinished(self) -> Path:
        """What is there until the release is done."""
        return self.out.with_name(f"{self.out.name}{UNFINISHED}")

    def check_free(self) -> None:
        """Refuse to replace a file. A key that a killed process left beside a finished one ends here."""
        if self.out.exists():
            self._clear()
            raise BadInput(
                f"writing {self.out.name}",
                "there is such a file already, and a release is made once",
                "Choose another name; another release is charged for",
            )

    def write(self, released: Released, ledger: Ledger) -> None:
        """The whole file or none, under its name when this returns; never over another. The ledger names it first."""
        scratch = self.unfinished / f"{_PART}{self.out.suffix.lower()}"
        self.unfinished.mkdir(mode=0o700, exist_ok=True)
        _write_table(scratch, self._table(released))
        if not ledger.simulation:
            self._name_in(ledger, _sha256(scratch))
        try:
            os.link(scratch, self.out)  # fails if there is one
        except FileExistsError:
            raise BadInput(
                f"writing {self.out.name}", "somebody wrote such a file meanwhile", "Move it away, and repeat"
            ) from None
        sync_directory(self.out.absolute().parent)

    def _name_in(self, ledger: Ledger, sha256: str) -> None:
        name = self.out.name if PLAIN_NAME.fullmatch(self.out.name) else RELEASE
        if not any((entry.released or {}).get(name) == sha256 for entry in ledger.releases):
            ledger.record_release({name: sha256}, phase=_PHASE)

    def _table(self, released: Released) -> Any:
        import pyarrow

        columns = {self.text: released.texts}
        if released.counts is not None:
            columns[COUNT] = pyarrow.array(released.counts, pyarrow.int64())
        if self.annotators is not None:
            columns[ANNOTATORS] = pyarrow.array([self.annotators] * len(released), pyarrow.int64())
        return pyarrow.table(columns)

    def _clear(self) -> None:
        if self.unfinished.is_dir():
            for left in self.unfinished.iterdir():
                if left.name.startswith(_PART):
                    left.unlink()  # it may be the released file itself, under its second name
                else:
                    destroy(left)
            self.unfinished.rmdir()


def release_to_file(
    gate: CrowdGate,
    log: QueryLog | Any,
    where: ReleaseFile,
    *,
    budget: Budget,
    source: Source,
    engine: Engine = "local",
    memory: int | None = None,
    progress: Progress = unwatched,
) -> Released:
    """Charge, release, write. A new ledger is committed to this one release under ``budget``; an existing one must
    have room for it.
    """
    where.check_free()
    gate.check_engine(engine, memory)
    gate.check_log(log, engine)
    if engine == "local":
        log.check_readable()
    options: dict[str, Any] = {"scratch": where.out.absolute().parent} if engine == "local" else {}
    with _ledger(gate, where, budget, source) as ledger:
        if not ledger.simulation:
            warn_if_released(log, directory=where.out.parent, ledger=ledger.id)
        with _paid(gate, where, ledger) as receipt:
            if not ledger.simulation:
                register_release(log, out=where.out.name, directory=where.out.parent, ledger=ledger.id)
            released = gate.release(log, receipt=receipt, engine=engine, memory=memory, progress=progress, **options)
            where.write(released, ledger)
    where._clear()
    return released


def released_check(ledger: Path) -> Check:
    """Whether released files beside a ledger are what it names: those of its lines, and X beside X.ledger."""
    lines = Ledger.open(MemorySink(read_lines(ledger))).releases
    names = {name: sha256 for entry in lines for name, sha256 in (entry.released or {}).items()}
    beside = ledger.with_suffix("")
    wrong, compared = [], 0
    for name, sha256 in names.items():
        if (file := ledger.with_name(Path(name).name)).is_file():
            compared += 1
            wrong += [name] if _sha256(file) != sha256 else []
    if ledger.suffix == ".ledger" and beside.suffix in KINDS and beside.is_file() and beside.name not in names:
        compared += 1
        wrong += [beside.name] if _sha256(beside) not in names.values() else []
    detail = (
        f"{compared} of its files are here, each with the hash that it names" if compared else "no file of it is here"
    )
    if wrong:
        detail = f"not what the ledger names: {', '.join(wrong[:3])}"
    return Check(name="released", ok=not wrong, detail=detail)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _ledger(gate: CrowdGate, where: ReleaseFile, budget: Budget, source: Source) -> Iterator[Ledger]:
    path = where.book
    if path.exists() and path.stat().st_size:
        ledger = Ledger.open(FileSink(path, must_exist=True), source=source)
    else:
        if where.unfinished.is_dir() and any(where.unfinished.glob("*.key")):
            raise LedgerUnavailable(
                f"going on with {where.out.name}",
                "the ledger that it was charged to is gone",
                f"Restore {path.name}; or remove {where.unfinished.name}, and be charged again",
            )
        terms = committed(budget, [Line(who=WHO, phase=_PHASE, event=gate.price())])
        ledger = Ledger.create(FileSink(path), terms, source=source)
    with ledger:
        where.check_free()  # another process may have had the ledger until now
        if ledger.terms.budget.unit != gate.unit:
            raise BadInput(
                f"charging {path.name} with {gate.unit}s as units",
                f"it guarantees something to {ledger.terms.budget.unit}s",
                "Name another ledger" if gate.persons else "Give --person, or name another ledger",
            )
        yield ledger


@contextmanager
def _paid(gate: CrowdGate, where: ReleaseFile, ledger: Ledger) -> Iterator[Receipt]:
    """The receipt of this release: of the charge that was made before a crash, or of a new one."""
    wanted = request({WHO: gate.price()}, why=WHY)
    if ledger.simulation:
        yield charge_once(ledger, [wanted])[0]
        return
    where.unfinished.mkdir(mode=0o700, exist_ok=True)
    with SealedPhase(ledger, phase=_PHASE, directory=where.unfinished) as phase:
        try:
            receipt = charge_once(phase, [wanted])[0]
        except BaseException:
            if not phase.redoing and not any(entry.key == phase.key.fingerprint for entry in ledger.entries):
                where._clear()  # nothing was charged: no trace
            raise
        yield receipt


def _write_table(path: Path, table: Any) -> None:
    """Durable when it returns."""
    from pyarrow import csv, parquet

    with path.open("wb") as file:
        if path.suffix == ".parquet":
            parquet.write_table(table, file, compression="zstd")
        elif path.suffix == ".csv":
            csv.write_csv(table, file)
        else:
            for row in table.to_pylist():
                file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


REGISTER = ".discreet-releases"
_END = 1 << 20


class RepeatedRelease(UserWarning):
    """A log that was released before, under another ledger."""


def warn_if_released(log: Any, *, directory: Path, ledger: str) -> None:
    """Warn where files of ``log`` were released before and another ledger than that of this id paid for it.

    ``directory``: where the output goes. A log that is not made of files is not known again.
    """
    files = _files(log)
    rows = [row for folder in _places(files, directory) for row in _rows(folder / REGISTER)]
    earlier = {row["out"] for row in rows if row["ledger"] != ledger and _same(row["files"], files)}
    if earlier:
        warnings.warn(
            f"this log was released before, under another ledger ({', '.join(sorted(earlier))}). The costs of these "
            "releases add up, and no ledger shows the sum. Charge one ledger for all releases of a log: --ledger",
            RepeatedRelease,
            stacklevel=3,
        )


def register_release(log: Any, *, out: str, directory: Path, ledger: str) -> None:
    """Write down that ``log`` is released to ``out`` and charged to the ledger of this id."""
    files = _files(log)
    line = {"out": out, "ledger": ledger, "files": files}
    places = _places(files, directory)
    if files and not any(line in _rows(folder / REGISTER) for folder in places):
        _append(places, line)


def _files(log: Any) -> list[dict[str, str]]:
    paths = [part.path.resolve() for part in getattr(log, "parts", ()) if isinstance(getattr(part, "path", None), Path)]
    return [{"path": str(path), "content": _content(path)} for path in paths]


def _places(files: list[dict[str, str]], directory: Path) -> list[Path]:
    return [*dict.fromkeys([*(Path(file["path"]).parent for file in files), directory.absolute()])]


def _content(path: Path) -> str:
    """A hash of the size and of both ends: enough to know a copy again."""
    size = path.stat().st_size
    digest = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=16)
    with path.open("rb") as file:
        digest.update(file.read(_END))
        file.seek(max(_END, size - _END))
        digest.update(file.read(_END))
    return digest.hexdigest()


def _same(before: list[dict[str, str]], files: list[dict[str, str]]) -> bool:
    earlier, now = ({value for file in entries for value in file.values()} for entries in (before, files))
    return bool(earlier & now)


def _rows(path: Path) -> list[dict[str, Any]]:
    """What can be read of the register: it helps to remember, and refuses nothing."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
            plain = all(isinstance(value, str) for file in row["files"] for value in file.values())
            if plain and isinstance(row["out"], str) and isinstance(row["ledger"], str):
                rows.append(row)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return rows


def _append(places: list[Path], line: dict[str, Any]) -> None:
    data = json.dumps(line).encode() + b"\n"
    for folder in places:
        try:
            file = os.open(folder / REGISTER, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            continue
        try:
            os.write(file, data)
        finally:
            os.close(file)
        return
