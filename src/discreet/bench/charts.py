"""A chart as a value: panels of series. The renderer is apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Kind = Literal["line", "steps", "filled"]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points, with the ends of their intervals where there are any. ``filled`` and ``steps`` are histograms: y has one
    value fewer than x has edges.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    kind: Kind = "line"
    color: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One set of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    logarithmic: bool = False


@dataclass(frozen=True, kw_only=True)
class Chart:
    """``name`` becomes the file's."""

    name: str
    panels: tuple[Panel, ...]
    columns: int = 2
    note: str = field(default="")


def draw(chart: Chart, path: Path) -> None:
    """To a picture, by matplotlib (extra ``plot``)."""
    from discreet.report.draw import require_matplotlib

    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(chart.columns, len(chart.panels))
    rows = -(-len(chart.panels) // columns)
    page = Figure(figsize=(5.2 * columns, 3.6 * rows + 0.5), layout="constrained")
    FigureCanvasAgg(page)
    axes = page.subplots(rows, columns, squeeze=False).ravel()
    for panel, place in zip(chart.panels, axes, strict=False):
        _panel(place, panel)
    for empty in axes[len(chart.panels) :]:
        empty.axis("off")
    handles: dict[str, Any] = {}
    for place in axes:
        handles |= dict(zip(*reversed(place.get_legend_handles_labels()), strict=True))
    room = 94 * columns  # letters of small print, beside the lines
    ncols = max(1, min(4, room // (6 + max(map(len, handles), default=1))))
    page.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=ncols, fontsize=8)
    page.savefig(path, dpi=120)


def _panel(axes: Any, panel: Panel) -> None:
    for one in panel.series:
        color = {"color": one.color} if one.color else {}
        if one.kind == "line":
            line = axes.plot(one.x, one.y, "o-", markersize=3, label=one.name, **color)[0]
            if one.low:
                axes.fill_between(one.x, one.low, one.high, alpha=0.15, color=line.get_color(), linewidth=0)
        else:
            axes.stairs(one.y, one.x, fill=one.kind == "filled", label=one.name, alpha=0.9, **color)
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    axes.title.set_fontsize(10)
    if panel.logarithmic:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
