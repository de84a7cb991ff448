"""A ledger as tables for people, as JSON, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

from discreet.cli.plan_tables import wide_console
from discreet.privacy.event_forms import to_json
from discreet.privacy.events import Event
from discreet.privacy.exact import shown_up
from discreet.privacy.hidden_slots import NOT_RELEASED
from discreet.privacy.ledger import Charge, Entry, Ledger

FORMAT = "discreet.ledger-view/1"


def show_ledger(ledger: Ledger, entries: Sequence[Entry], of: int) -> None:
    """Paths, then entries, then the head."""
    console, terms = wide_console(), ledger.terms
    console.print(_paths(ledger))
    if entries:
        console.print(_entries(entries, of))
    budget = terms.budget
    console.print(
        f"Ledger {ledger.id[:8]}, {terms.mode} mode: {len(ledger)} entries, budget epsilon {budget.epsilon} at delta "
        f"{budget.delta} per {budget.unit}, relation {budget.relation}"
        + (f"; {NOT_RELEASED}." if terms.overflow else ".")
    )
    console.print(f"Head: {ledger.head}")
    if ledger.simulation:
        console.print("SIMULATION: its noise was seeded; it proves nothing about people.")
    console.print("Audience: owner. Epsilons here are a gauge of what was charged; the claim is in the certificate.")


def _paths(ledger: Ledger) -> Table:
    table = Table(title="What was charged so far, by path", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("path")
    for name in ("entries", "before its branch: forward", "backward", "epsilon", "of"):
        table.add_column(name, justify="right")
    for total in ledger.totals():
        table.add_row(
            total.path,
            f"{total.entries:,}",
            shown_up(float(total.forward)),
            shown_up(float(total.backward)),
            shown_up(float(total.epsilon)),
            str(ledger.terms.budget.epsilon),
        )
    return table


def _entries(entries: Sequence[Entry], of: int) -> Table:
    table = Table(title=f"The latest {len(entries)} of {of} entries", box=box.SIMPLE_HEAD, title_justify="left")
    for name in ("#", "when", "phase", "purpose", "who", "what"):
        table.add_column(name, justify="right" if name in ("#", "phase") else "left")
    for entry in entries:
        if entry.terms is not None:
            when, promise = entry.at[:19].replace("T", " "), entry.terms.budget
            what = f"from here on adaptive: epsilon {promise.epsilon} at delta {promise.delta}"
            table.add_row(str(entry.sequence), when, str(entry.why.phase), entry.why.purpose, "everyone", what)
        if entry.released is not None:
            when, names = entry.at[:19].replace("T", " "), ", ".join(sorted(entry.released))
            table.add_row(str(entry.sequence), when, str(entry.why.phase), entry.why.purpose, "", f"hashes: {names}")
        for place, charge in enumerate(entry.charges):
            first = place == 0
            table.add_row(
                str(entry.sequence) if first else "",
                entry.at[:19].replace("T", " ") if first else "",
                str(entry.why.phase) if first else "",
                entry.why.purpose if first else "",
                charge.who,
                described(charge),
            )
    return table


def described(charge: Charge, *, exact: bool = False) -> str:
    """A charge in words, its numbers shortened for people unless they are wanted exactly."""
    parts = " ".join(f"{name}={value if exact else _short(value)}" for name, value in _numbers(charge.event).items())
    return f"{f'{charge.count} x ' if charge.count > 1 else ''}{charge.event.kind} {parts}"


def _numbers(event: Event) -> dict[str, Any]:
    shown = (int, float, str)
    return {k: v for k, v in to_json(event).items() if isinstance(v, shown) and k not in ("kind", "version")}


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def ledger_form(ledger: Ledger, entries: Sequence[Entry]) -> dict[str, Any]:
    """The same as one JSON object."""
    return {
        "format": FORMAT,
        "simulation": ledger.simulation,
        "audience": "owner",
        "id": ledger.id,
        "mode": ledger.terms.mode,
        "budget": ledger.terms.budget.to_json(),
        "head": ledger.head,
        "count": len(ledger),
        "paths": [
            {
                "name": total.path,
                "entries": total.entries,
                "forward": str(total.forward),
                "backward": str(total.backward),
                "epsilon": str(total.epsilon),
                "remaining": str(total.remaining),
            }
            for total in ledger.totals()
        ],
        "entries": [_entry_form(entry) for entry in entries],
    }


def _entry_form(entry: Entry) -> dict[str, Any]:
    form: dict[str, Any] = {} if entry.terms is None else {"terms": entry.terms.to_json()}
    if entry.released is not None:
        form["released"] = dict(entry.released)
    return form | {
        "sequence": entry.sequence,
        "at": entry.at,
        "phase": entry.why.phase,
        "purpose": entry.why.purpose,
        "charges": [charge.to_json() for charge in entry.charges],
        "hash": entry.hash,
    }


def entries_csv(ledger: Ledger) -> str:
    """Every charge as a row, for a spreadsheet. Under hidden selection without times."""
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerow(["sequence", "at", "phase", "purpose", "who", "event", "count", "hash"])
    for entry in ledger.entries:
        for charge in entry.charges:
            what = described(Charge(who=charge.who, event=charge.event), exact=True)
            start = [entry.sequence, "" if ledger.terms.overflow else entry.at, entry.why.phase, entry.why.purpose]
            rows.writerow([*start, charge.who, what, charge.count, entry.hash])
    return buffer.getvalue()
