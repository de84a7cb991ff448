"""The renderer: figures' data to files, by matplotlib (extra ``plot``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from discreet.errors import MissingExtra
from discreet.report.plan_figure import LossCurves, PlanFigure


def require_matplotlib() -> None:
    """Refuse early and clearly when the extra is not installed."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise MissingExtra("drawing a plot", "matplotlib is not installed", "Install it: pip install 'discreet[plot]'")


def draw_plan(figure: PlanFigure, path: Path) -> None:
    """Losses per path under the naive schedule and this one, sampling rates, steps."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    page = Figure(figsize=(11, 7.5), layout="constrained")
    FigureCanvasAgg(page)
    (naive, plan), (rates, steps) = page.subplots(2, 2)
    _losses(naive, figure.naive, figure)
    _losses(plan, figure.plan, figure)
    if figure.plan.name != "naive":
        naive.sharey(plan)
    phases = range(len(figure.steps))
    rates.plot(phases, figure.naive_rates, "o--", color="0.5", label="naive, everyone")
    rates.plot(phases, figure.oldest_rates, "s-", color="tab:blue", label=f"{figure.plan.name}, oldest cohort")
    rates.plot(phases, figure.newest_rates, "^-", color="tab:orange", label=f"{figure.plan.name}, newest cohort")
    rates.set(xlabel="training phase", ylabel="sampling rate", title="Sampling rates", ylim=(0, None))
    steps.plot(phases, figure.naive_steps, "o--", color="0.5", label="naive")
    steps.plot(phases, figure.steps, "s-", color="tab:blue", label=figure.plan.name)
    steps.set(xlabel="training phase", ylabel="steps", title="Steps", ylim=(0, None))
    for axes in (rates, steps):
        _tidy(axes, len(figure.steps))
    page.savefig(path, dpi=130)


def _losses(axes: Any, curves: LossCurves, figure: PlanFigure) -> None:
    from matplotlib import colormaps

    shades = colormaps["viridis"]
    count = max(len(curves.losses) - 1, 1)
    for index, (name, losses) in enumerate(curves.losses.items()):
        points = [curves.starts[name]]
        points += [(phase, loss) for phase, loss in enumerate(losses) if loss is not None]
        axes.plot(*zip(*points, strict=True), "o-", color=shades(0.9 * index / count), label=name, alpha=0.85)
    axes.axhline(figure.budget, color="tab:red", linestyle=":", label="budget")
    axes.set(
        xlabel="training phase",
        ylabel=f"epsilon spent ({figure.accountant.upper()})",
        title=f"Privacy loss by path: {curves.name}",
        ylim=(0, figure.budget * 1.08),
    )
    _tidy(axes, len(next(iter(curves.losses.values()))), columns=2 if count > 6 else 1)


def _tidy(axes: Any, phases: int, columns: int = 1) -> None:
    axes.set_xticks(range(0, phases, max(1, phases // 12)))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, ncols=columns)
