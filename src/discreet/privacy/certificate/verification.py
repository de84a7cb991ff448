"""Checking a certificate or a ledger: everything is computed again from the events alone.

Guarantee: an edit that leaves a hash, a digest or a number inconsistent is a failed check; with a signature by a known
key, any edit is; a ledger that was cut off is found against a certificate's head. What cannot be found: an unsigned
certificate rewritten consistently, and a ledger whose last entries were removed, when no certificate remembers them.

How much there is to compute is estimated first, from the events alone, so the same file is refused or taken on every
machine. The estimate errs on the side of more: measured times were a tenth of it to all of it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from discreet.errors import BadInput, DiscreetError, InvalidCertificate, InvalidLedger, TooMuchWork
from discreet.privacy.accounting.filters import RdpLimit
from discreet.privacy.accounting.pld import CERTIFICATE_INTERVAL, pld_seconds
from discreet.privacy.budget import Budget
from discreet.privacy.certificate import statement
from discreet.privacy.certificate.signatures import Check, Form, read_public, signature_checks
from discreet.privacy.certificate.statement import FILTER, FORMAT
from discreet.privacy.event_forms import from_json as event_from_json
from discreet.privacy.events import DiscreteLaplace, Event, ThresholdResponse
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.privacy.ledger.entries import FORMAT as LEDGER_FORMAT
from discreet.privacy.ledger.plan_terms import HELD_OUT
from discreet.privacy.ledger.sinks import read_beside_mark, whole_lines
from discreet.privacy.selection_terms import NOT_RELEASED
from discreet.privacy.trajectories import Trajectory

KEYS = [
    "format",
    "simulation",
    "audience",
    "issued",
    "versions",
    "ledger",
    "mode",
    "budget",
    "accountant",
    "orders",
    "plan",
    "claim",
    "trajectories",
    "digest",
    "signature",
]
NOT_COVERED_KEY = "not_covered"
NOT_RELEASED_KEY = "not_released"
"""Of hidden selections alone, before the digest."""
REPLANNED_KEY = "replanned"
"""Of ledgers that were re-planned alone, before the digest."""
WEIGHTS_KEY = "weights"
"""Of a model's certificate: the SHA-256 of its weights, directly before the digest."""
PARTS_KEY = "third_party"
"""Of campaigns with parts that other packages declare, before the weights."""
FEATURES_KEY = "features"
"""Of campaigns whose model reads features of records: which map, after the parts."""
QUANTILES_KEY = "quantiles"
"""Of a map whose edges are private quantiles: the event that pays for them."""
_MAP_KEYS, _ENCODER_KEYS = ["name", "version", "sha256", "reads"], ["hash_of", "sha256", "pretraining"]
_PART_KEYS = {"kind", "name", "distribution", "version", "note"}
_BROKEN = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    AssertionError,
)


MOST_SECONDS = 300.0
"""Of one core, as estimated. The certificate of a plan with twenty queries takes 120."""
SECONDS_READ = 5e-5
"""An event, from its stored form to a value and back."""
_SECONDS_RDP, _ORDERS = 4e-3, 250
"""Divergences of one event at so many orders, with what refines them."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """All checks, and the form that was read where there is one.

    ``not_released`` and ``time``: what a hidden selection keeps, and whether its claim covers time.
    ``weights``: the hash of the model that a certificate is of; empty where it is of a ledger alone.
    ``features``: the hash of the feature map that it names; empty where it names none.
    """

    what: str
    simulation: bool
    checks: tuple[Check, ...]
    claim: Form | None = None
    budget: Budget | None = None
    mode: str = ""
    signed: bool = False
    not_released: str = ""
    time: str = ""
    weights: str = ""
    features: str = ""

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)


def verify(
    path: Path, *, ledger: Path | None = None, public_key: Path | None = None, most_seconds: float = MOST_SECONDS
) -> Verdict:
    """Check the certificate or ledger in ``path``; a certificate also against a ledger or a public key.

    ``most_seconds``: refuse, before it is computed, what would take one core longer than about this (`TooMuchWork`).
    """
    data = _read(path)
    if _names(data) == FORMAT:
        known = None
        if public_key is not None:
            known = read_public(public_key)
        lines = lines_in(ledger) if ledger is not None else None
        verdict = verify_certificate(data, lines=lines, public_key=known, most_seconds=most_seconds)
        return verdict if ledger is None else replace(verdict, checks=(*verdict.checks, mark_check(ledger)))
    if _names(data) == LEDGER_FORMAT:
        if ledger is not None or public_key is not None:
            raise BadInput("verifying a ledger", "--ledger and --public-key go with a certificate", "Leave them out")
        verdict = verify_ledger(data, most_seconds=most_seconds)
        return replace(verdict, checks=(*verdict.checks, mark_check(path)))
    raise InvalidCertificate(f"verifying {path.name}", "it is neither a certificate nor a ledger of ours", "Check it")


def lines_in(ledger: Path) -> list[bytes]:
    """The lines of a ledger's file."""
    return whole_lines(_read(ledger))


def mark_check(path: Path, *, needed: bool = False) -> Check:
    """Whether a ledger's file has all lines that the high-water mark beside it counts. A copy that was given to an
    auditor has no mark, and needs none; then it says that nothing was compared.
    """
    try:
        _, position, refused = read_beside_mark(path)
    except InvalidLedger as error:
        return Check(name="mark", ok=False, detail=error.fact)
    if position is None and not needed:
        name = f"{path.name}.mark"
        return Check(name="mark", ok=True, detail=f"not compared: there is no {name}, so missing charges are not seen")
    detail = f"every line that its mark counts is there ({0 if position is None else position.lines})"
    return Check(name="mark", ok=refused is None, detail=detail if refused is None else refused.fact)


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise BadInput(f"reading {path.name or path}", "there is no such file", "Check the path")
    if path.stat().st_size > statement.MOST_BYTES:
        raise BadInput(f"reading {path.name}", "it is larger than anything we write", "Check the path")
    return path.read_bytes()


def _names(data: bytes) -> Any:
    """The format a file names: a certificate is one JSON object, a ledger has one a line."""
    for text in (data, data.split(b"\n", 1)[0]):
        try:
            form = json.loads(text.decode("ascii"))
        except (ValueError, RecursionError):
            continue
        if isinstance(form, dict):
            return form.get("format")
    return None


def verify_ledger(data: bytes, *, most_seconds: float = MOST_SECONDS) -> Verdict:
    """Check a ledger file: bytes, hashes, order, and that its terms allow every entry and keep the promise."""
    lines = whole_lines(data)
    return verify_lines(lines, torn=max(0, len(data) - sum(map(len, lines))), most_seconds=most_seconds)


def verify_lines(lines: list[bytes], *, torn: int = 0, most_seconds: float = MOST_SECONDS) -> Verdict:
    """Check the lines of a ledger as they are stored. ``torn``: bytes after the last one."""
    try:
        ledger = Ledger.open(MemorySink(lines))
    except InvalidLedger as error:
        return Verdict(what="ledger", simulation=False, checks=(Check(name="lines", ok=False, detail=error.fact),))
    detail = f"{len(ledger)} entries, each with its hash and allowed by the terms"
    checks = [Check(name="lines", ok=True, detail=detail + (f"; a torn tail of {torn} bytes ignored" if torn else ""))]
    check_work(ledger_seconds(ledger), "verifying a ledger", most_seconds)
    checks.append(_terms_check(ledger))
    budget = ledger.terms.budget
    return Verdict(
        what="ledger",
        simulation=ledger.simulation,
        checks=tuple(checks),
        budget=budget,
        mode=ledger.terms.mode,
        not_released=NOT_RELEASED if ledger.terms.overflow else "",
    )


def _terms_check(ledger: Ledger) -> Check:
    terms = ledger.terms
    try:
        ledger.opening.terms.check_claim()
    except DiscreetError as error:
        return Check(name="promise", ok=False, detail=error.fact)
    if terms.continued:
        detail = f"re-planned ({len(ledger.amendments)}), and adaptive since then: the filter counts every entry"
        return Check(name="promise", ok=True, detail=detail)
    if terms.mode == "adaptive":
        return Check(name="promise", ok=True, detail="adaptive: the filter admits every entry in its order")
    detail = f"every committed path keeps epsilon {terms.budget.epsilon} by {terms.accountant.upper()}"
    return Check(name="promise", ok=True, detail=detail)


def verify_certificate(
    data: bytes,
    *,
    lines: list[bytes] | None = None,
    public_key: str | None = None,
    most_seconds: float = MOST_SECONDS,
) -> Verdict:
    """Check a certificate; nothing in it is believed. `TooMuchWork`: it cannot be checked within ``most_seconds``."""
    check_work(data.count(b'"kind"') * SECONDS_READ, "verifying a certificate", most_seconds)
    form = statement.read_certificate(data)
    checks: list[Check] = []
    for check in _certificate_checks(form, data, lines, public_key, most_seconds):
        checks.append(check)
        if not check.ok and check.name in ("form", "digest"):
            break  # what follows would be read from a file that is known to be wrong
    valid = all(check.ok for check in checks)
    return Verdict(
        what="certificate",
        simulation=form.get("simulation") is not False,
        checks=tuple(checks),
        claim=form["claim"] if valid else None,
        budget=Budget.from_json(form["budget"]) if valid else None,
        mode=form["mode"] if valid else "",
        signed=valid and form["signature"] is not None,
        not_released=NOT_RELEASED if valid and NOT_RELEASED_KEY in form else "",
        time=form[NOT_RELEASED_KEY]["time"] if valid and NOT_RELEASED_KEY in form else "",
        weights=form.get(WEIGHTS_KEY, "") if valid else "",
        features=form[FEATURES_KEY]["sha256"] if valid and FEATURES_KEY in form else "",
    )


def _certificate_checks(
    form: Form, data: bytes, lines: list[bytes] | None, public_key: str | None, most_seconds: float
) -> Iterator[Check]:
    yield _form_check(form, data)
    yield _digest_check(form)
    yield from signature_checks(form, public_key)
    try:
        yield from _arithmetic_checks(form, most_seconds)
        if lines is not None:
            yield from _against_ledger(form, lines)
    except TooMuchWork:
        raise
    except DiscreetError as error:
        yield Check(name="arithmetic", ok=False, detail=error.fact)
    except _BROKEN:
        yield Check(name="arithmetic", ok=False, detail="a part is missing or of the wrong type")


def _form_check(form: Form, data: bytes) -> Check:
    try:
        further = [key for key in (NOT_RELEASED_KEY, REPLANNED_KEY) if key in form]
        weights = [WEIGHTS_KEY] if WEIGHTS_KEY in form else []
        parts = [key for key in (PARTS_KEY, FEATURES_KEY) if key in form]
        wanted = [*KEYS[:-2], NOT_COVERED_KEY, *further, *parts, *weights, *KEYS[-2:]]
        plain = list(form) == wanted and len(further) < 2 and statement.dump_certificate(form).encode("ascii") == data
    except (ValueError, RecursionError):
        plain = False
    ok = plain and _typed(form)
    return Check(name="form", ok=ok, detail="written in the one way we write" if ok else "not as we write it")


def _names_map(features: Any) -> bool:
    """Whether this is the name, version and hash of a feature map, what it reads, the hash of its encoder, and what
    its edges cost.
    """
    paid = isinstance(features, dict) and QUANTILES_KEY in features
    further = [[], ["encoder"], [QUANTILES_KEY]]
    if not isinstance(features, dict) or list(features) not in [[*_MAP_KEYS, *keys] for keys in further]:
        return False
    reads = statement.PAID_EDGES if paid else statement.ONE_RECORD
    named = _plain(features["name"]) and type(features["version"]) is int and features["reads"] == reads
    encoder = features.get("encoder")
    if "encoder" in features and (not isinstance(encoder, dict) or list(encoder) != _ENCODER_KEYS):
        return False
    plain = encoder is None or (_plain(encoder["pretraining"]) and encoder["hash_of"] in statement.HASHED)
    hashes = [features["sha256"], *([] if encoder is None else [encoder["sha256"]])]
    return named and plain and all(re.fullmatch(r"[0-9a-f]{64}", str(value), re.ASCII) for value in hashes)


def _typed(form: Form) -> bool:
    """Whether the parts that are only shown are plain words and numbers, fit to be shown."""
    versions, ledger = form["versions"], form["ledger"]
    if not re.fullmatch(r"[0-9a-f]{64}", str(form.get(WEIGHTS_KEY, "0" * 64)), re.ASCII):
        return False
    parts = form.get(PARTS_KEY, [])
    if not isinstance(parts, list) or not all(isinstance(part, dict) and set(part) == _PART_KEYS for part in parts):
        return False
    if not all(_plain(word) for part in parts for word in part.values()):
        return False
    if FEATURES_KEY in form and not _names_map(form[FEATURES_KEY]):
        return False
    if form.get(NOT_COVERED_KEY) != list(statement.NOT_COVERED):
        return False
    if type(form["simulation"]) is not bool or form["audience"] != "public" or not _plain(form["plan"], empty=True):
        return False
    if not isinstance(versions, dict) or not all(_plain(part) for pair in versions.items() for part in pair):
        return False
    if not isinstance(ledger, dict) or set(ledger) != {"format", "id", "entries", "head"}:
        return False
    if type(ledger["entries"]) is not int or not all(_plain(ledger[name]) for name in ("format", "id", "head")):
        return False
    paths = form["trajectories"]
    if not isinstance(paths, list) or not all(isinstance(path, dict) and _plain(path.get("name")) for path in paths):
        return False
    different = len({path["name"] for path in paths}) == len(paths)
    return different and bool(re.fullmatch(r"\d{4}-\d\d-\d\d", str(form["issued"]), re.ASCII))


def _plain(value: Any, *, empty: bool = False) -> bool:
    """A short printable word: what is shown to people must not be able to draw lines of its own."""
    return isinstance(value, str) and bool(
        re.fullmatch(r"[A-Za-z0-9 ._:/+()*-]{1,120}", value, re.ASCII) or (empty and not value)
    )


def _digest_check(form: Form) -> Check:
    ok = form.get("digest") == statement.digest_of(form)
    return Check(name="digest", ok=ok, detail="nothing changed by accident" if ok else "the content has another hash")


def _arithmetic_checks(form: Form, most_seconds: float) -> Iterator[Check]:
    budget = Budget.from_json(form["budget"])
    if budget.relation != "zero-out":
        raise InvalidCertificate("reading a certificate", "certificates are for zero-out", "")
    stored = tuple(Trajectory.from_json(path) for path in form["trajectories"])
    if [path.to_json() for path in stored] != form["trajectories"] or not stored:
        raise InvalidCertificate("reading a certificate", "a trajectory is not in the one form we write", "")
    accountant, mode = form["accountant"], form["mode"]
    if (mode, accountant) not in (("committed", "pld"), ("committed", "rdp"), ("adaptive", FILTER)):
        raise InvalidCertificate("reading a certificate", "its mode and accountant do not fit", "")
    finest = (lambda path: statement.finest_interval(path, budget)) if mode == "committed" else None
    check_work(path_seconds(stored, finest, orders=len(form["orders"])), "verifying a certificate", most_seconds)
    if mode == "committed":
        again = statement.committed_paths(stored, budget.keeping(statement.overflow_in(form)))
        orders_fit = form["orders"] == []
    else:
        limit = RdpLimit(budget.keeping(statement.kept_in(form)), orders=tuple(form["orders"]))
        again = tuple(statement.filtered(path, limit) for path in stored)
        # choices are cheaper by their outcome where a committed ledger was re-planned, and nowhere else
        orders_fit = REPLANNED_KEY in form or not any(path.selection for path in stored)
        orders_fit = orders_fit and all(isinstance(b.event, ThresholdResponse) for p in stored for b in p.selection)
    for path, anew in zip(stored, again, strict=True):
        ok = _same(path.epsilon_pld, anew.epsilon_pld) and _same(path.epsilon_rdp, anew.epsilon_rdp)
        yield Check(name=f"path {path.name}", ok=ok and orders_fit, detail=_path_detail(anew, ok=ok))
    if QUANTILES_KEY in form.get(FEATURES_KEY, {}):
        yield _quantiles_check(form[FEATURES_KEY][QUANTILES_KEY], stored)
    claim = statement.claim_of(stored, budget, accountant)
    yield Check(
        name="claim",
        ok=form["claim"] == claim and all(_kept(path, budget, accountant) for path in stored),
        detail=f"epsilon {claim['epsilon']} at delta {claim['delta']}, of {budget.epsilon}",
    )


def _quantiles_check(form: Form, paths: tuple[Trajectory, ...]) -> Check:
    """Whether every path of a record of the pool pays for the edges of the features."""
    event = event_from_json(form)
    free = [
        path.name
        for path in paths
        if path.name != HELD_OUT
        and event not in (branch.event for branch in path.selection)
        and event not in (part.event for part in path.training)
    ]
    detail = "every path pays for them" if not free else f"the path {free[0]} does not pay for them"
    return Check(name="quantiles", ok=not free and isinstance(event, DiscreteLaplace), detail=detail)


def _path_detail(path: Trajectory, *, ok: bool) -> str:
    by_pld = "" if path.epsilon_pld is None else f"PLD {path.epsilon_pld}, "
    return f"{by_pld}RDP {path.epsilon_rdp}" + ("" if ok else ", which is not what it says")


def _kept(path: Trajectory, budget: Budget, accountant: str) -> bool:
    claim = path.epsilon_pld if accountant == "pld" else path.epsilon_rdp
    if not path.training and max(path.forward, path.backward) > budget.epsilon:
        return False
    return type(claim) in (int, float) and math.isfinite(claim or 0) and Decimal(repr(claim)) <= budget.epsilon


def _same(stored: Any, anew: float | None) -> bool:
    """Equal but for the last digits, which another machine may round otherwise."""
    if stored is None or anew is None:
        return stored is anew
    if type(stored) not in (int, float):
        return False
    return bool(abs(stored - anew) <= 3e-8 * max(anew, 1e-3))


def _against_ledger(form: Form, lines: list[bytes]) -> Iterator[Check]:
    try:
        ledger = Ledger.open(MemorySink(lines))
    except InvalidLedger as error:
        yield Check(name="ledger", ok=False, detail=error.fact)
        return
    named, count = form["ledger"], form["ledger"]["entries"]
    ids = named["id"] == ledger.id and named["format"] == LEDGER_FORMAT and form["simulation"] == ledger.simulation
    yield Check(name="ledger", ok=ids, detail="it is the ledger this was issued for" if ids else "it is another one")
    if type(count) is not int or not 0 <= count <= len(ledger):
        yield Check(name="head", ok=False, detail=f"the ledger has {len(ledger)} entries, the certificate saw more")
        return
    head = ledger.entries[count - 1].hash if count else ledger.opening.hash
    grown = f"; {len(ledger) - count} were added since" if len(ledger) > count else ""
    yield Check(name="head", ok=head == named["head"], detail=f"{count} entries as they were{grown}")
    if any(entry.sequence > count for entry in ledger.amendments):
        detail = f"the ledger was re-planned since, and promises epsilon {ledger.terms.budget.epsilon} now"
        yield Check(name="replanned", ok=False, detail=detail)
    yield _terms_agree(form, Ledger.open(MemorySink(lines[: count + 1])))


def _terms_agree(form: Form, ledger: Ledger) -> Check:
    """Whether the certificate says what the ledger, as it stood then, would say today."""
    terms = ledger.terms
    paths = terms.trajectories() if terms.lines else statement.filtered_paths(ledger)
    events = [(p.name, [b.to_json() for b in p.selection], [t.event for t in p.training]) for p in paths]
    stored = [Trajectory.from_json(path) for path in form["trajectories"]]
    theirs = [(p.name, [b.to_json() for b in p.selection], [t.event for t in p.training]) for p in stored]
    counts = [[t.count for t in p.training] for p in paths] == [[t.count for t in p.training] for p in stored]
    ok = (
        events == theirs
        and counts
        and terms.budget.to_json() == form["budget"]
        and terms.mode == form["mode"]
        and (terms.accountant if terms.lines else FILTER) == form["accountant"]
        and terms.plan == form["plan"]
        and list(terms.orders) == form["orders"]
        and terms.overflow == statement.overflow_in(form)
        and terms.releases == statement.releases_in(form)
        and (not statement.covers_time(form) or not any(entry.at for entry in ledger.entries))
        and form.get(REPLANNED_KEY) == (statement.replanned(ledger) if terms.continued else None)
    )
    return Check(name="terms", ok=ok, detail="its trajectories are the ledger's" if ok else "they are not the ledger's")


def check_work(seconds: float, asked: str, most_seconds: float) -> None:
    """Refuse what is estimated to take longer."""
    if not seconds <= most_seconds:
        raise TooMuchWork(
            asked,
            f"it cannot be checked within the limit: about {seconds:.0f} seconds are needed, {most_seconds:g} are "
            "allowed",
            "If you trust who sent it, raise the limit: discreet verify --max-seconds",
        )


def path_seconds(
    paths: Iterable[Trajectory], interval: Callable[[Trajectory], float] | None, *, orders: int = _ORDERS
) -> float:
    """About how long it takes to price ``paths``: by RDP, and by PLD at each one's ``interval`` where there is one."""
    seconds, known = 0.0, set[tuple[Event, int, float]]()
    for path in paths:
        parts = len(path.training) + len(path.blocks)
        seconds += parts * _SECONDS_RDP * max(1.0, orders / _ORDERS)
        if interval is not None:
            seconds += pld_seconds(path.trained, interval(path), known)
            seconds += sum(pld_seconds(block.event, CERTIFICATE_INTERVAL, known) for block in path.blocks)
    return seconds


def ledger_seconds(ledger: Ledger) -> float:
    """About how long it takes to compute again what a committed ledger promised when it was opened."""
    terms = ledger.opening.terms
    if terms.mode == "adaptive":
        return 0.0
    limit = float(terms.accounted.epsilon)
    by_pld = terms.accountant == "pld"
    return path_seconds(terms.trajectories(), (lambda path: path.interval(limit)) if by_pld else None)
