"""An audit, drawn: for each attack what it claims, what was proved, and the most that could have been."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.report.draw import require_matplotlib


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One attack. Epsilons."""

    name: str
    claimed: float
    proved: float
    highest: float
    exceeded: bool


def audit_bars(form: Mapping[str, Any]) -> tuple[Bar, ...]:
    """Of a stored audit (``discreet.audit/1``)."""
    return tuple(
        Bar(
            name=f"{recipe['recipe']}, {twin['twin']}: {one['attack']}",
            claimed=one["epsilon"],
            proved=one["proved"],
            highest=one["highest"],
            exceeded=one["verdict"] == "exceeded",
        )
        for recipe in form["recipes"]
        for twin in recipe["twins"]
        for one in twin["attacks"]
    )


def draw_audit(form: Mapping[str, Any], path: Path) -> None:
    """Bars of what was proved, a line at each claim, a whisker to what could have been proved."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    bars = audit_bars(form)
    page = Figure(figsize=(8, 1.2 + 0.45 * len(bars)), layout="constrained")
    FigureCanvasAgg(page)
    axis = page.subplots()
    for place, bar in enumerate(reversed(bars)):
        axis.plot([0, bar.highest], [place, place], color="0.8", linewidth=1, zorder=1)
        axis.plot([bar.highest], [place], "|", color="0.6", markersize=10)
        axis.barh(place, bar.proved, color="tab:red" if bar.exceeded else "tab:blue", height=0.5, zorder=2)
        axis.plot([bar.claimed] * 2, [place - 0.4, place + 0.4], color="black", linewidth=2, zorder=3)
    axis.set_yticks(range(len(bars)), [bar.name for bar in reversed(bars)])
    planted = f", planted: {form['plant']}" if form["plant"] else ""
    axis.set(
        xlabel="epsilon: proved (bar), claimed (black),\nthe most that could be proved (grey)",
        title=f"Audit of {', '.join(one['recipe'] for one in form['recipes'])}{planted}",
        xlim=(0, None),
        ylim=(-0.7, len(bars) - 0.3),
    )
    page.savefig(path)
