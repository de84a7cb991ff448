"""A re-planning as text for people: both plans side by side, every path, and what is given up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discreet.privacy.exact import shown_up

if TYPE_CHECKING:
    from discreet.campaign import Proposal


def replan_text(found: Proposal, *, shown: bool = False) -> str:
    """Tables and warnings. ``shown``: they were, before somebody agreed."""
    if found.made:
        done = f"Re-planned from phase {found.phase} on: adaptive mode, {_promise(found.figures['after'])}.\n"
        if shown:
            return done
        return f"{_tables(found)}\n{done}"
    return f"{_tables(found)}\nNothing was changed yet.\n"


def _promise(plan: Mapping[str, Any]) -> str:
    return f"epsilon {plan['epsilon']} at delta {plan['delta']}"


def _tables(found: Proposal) -> str:
    figures = found.figures
    old, new, effect = figures["before"], figures["after"], figures["effect"]
    rows = [
        ("", "planned", "re-planned"),
        ("mode", old["mode"], new["mode"]),
        ("promise: epsilon", old["epsilon"], new["epsilon"]),
        ("promise: delta", old["delta"], new["delta"]),
        ("claim", f"{shown_up(old['claim'])}", f"{shown_up(new['claim'])}"),
        ("labels in all", old["labels"], new["labels"]),
        ("phases left", old["phases_left"], new["phases_left"]),
        *_phase_rows(old, new),
        ("noise on the mean, last phase", *(f"{effect[n]['noise_on_the_mean']:.4g}" for n in ("before", "after"))),
        ("steps a record, first cohort", *(_first(effect[n]["steps_a_record"]) for n in ("before", "after"))),
    ]
    paths = [("path", "spent so far", "by the filter", "at the end", "of")]
    for one in figures["paths"]:
        spent = "-" if one["spent"] is None else shown_up(float(one["spent"]))
        ends = [shown_up(float(one[name])) for name in ("spent_by_filter", "planned")]
        paths.append((one["path"], spent, *ends, str(new["epsilon"])))
    late = figures["as_committed"]
    lines = [
        _aligned(rows),
        "",
        _aligned(paths),
        "",
        f"Decided beforehand, the same charges would cost epsilon {shown_up(late['epsilon'])} by "
        f"{late['accountant'].upper()}; decided now they are promised as {late['promised']}.",
        f"Because: {found.wish.because}{f' ({found.wish.note})' if found.wish.note else ''}. This is public.",
        *(f"WARNING: {one}" for one in figures["warnings"]),
    ]
    if found.simulation:
        lines.append("SIMULATION: its noise was seeded; it proves nothing about people.")
    return "\n".join(lines)


def _phase_rows(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Labels, steps, noise and rates of every phase that is left in one of the plans."""
    plans = [{one["phase"]: one for one in plan["phases"]} for plan in (old, new)]
    rows = []
    for phase in sorted({*plans[0], *plans[1]}):
        cells = [_phase_cell(plan.get(phase)) for plan in plans]
        rows.append((f"phase {phase}", cells[0], cells[1]))
    return rows


def _phase_cell(one: Mapping[str, Any] | None) -> str:
    if one is None:
        return "-"
    rates = [rate for rate in one["rates"].values() if rate > 0]
    low, high = min(rates, default=0.0), max(rates, default=0.0)
    return f"{one['labels']} labels, {one['steps']} steps, sigma {one['noise_multiplier']:.3f}, q {low:.3f}-{high:.3f}"


def _first(steps: Mapping[str, float]) -> str:
    return f"{next(iter(steps.values())):.1f}"


def _aligned(rows: list[tuple[Any, ...]]) -> str:
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in texts) for place in range(len(texts[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in texts)
    return "\n".join(line.rstrip() for line in lines)
