"""A comparison as a table, and as a picture: mean differences with their intervals, a line each."""

from __future__ import annotations

from pathlib import Path

from discreet.bench.comparing import Compared, Comparison
from discreet.bench.tables import Table

NOTE = (
    "A less B, paired over seeds, with its 95% interval by Student's t, each for itself. p: by flipping signs (exact), "
    "and by Student's t, both as they are and after Holm's correction over all rows. *Shown* is what holds after the "
    "correction by the exact test; *by t alone* needs differences that are nearly normal."
)


def comparison_table(comparison: Comparison) -> Table:
    """A row a problem (or a problem and a method), and one for all together."""
    scale, unit = _scale(comparison)
    lines = [_line(part, scale) for part in comparison.parts]
    if comparison.together is not None:
        lines.append(_line(comparison.together, scale))
    return Table(
        title=f"{comparison.figure}{unit}: A = {comparison.a}, B = {comparison.b}",
        columns=(
            "problem",
            "A",
            "B",
            "seeds",
            "mean of A",
            "mean of B",
            "difference",
            "p, signs",
            "p, t",
            "Holm, signs",
            "Holm, t",
            "shown",
        ),
        rows=tuple(lines),
        note=f"{comparison.statement}\n\n{NOTE}",
    )


def _scale(comparison: Comparison) -> tuple[float, str]:
    """Shares are told in percent."""
    every = [value for part in comparison.parts for value in (*part.values_a, *part.values_b)]
    return (100.0, ", %") if all(0 <= value <= 1 for value in every) else (1.0, "")


def _line(part: Compared, scale: float) -> tuple[str, ...]:
    found = part.difference
    told = [f"{scale * value:.4g}" for value in part.means]
    ends = f"{scale * found.value:+.3g} ({scale * found.low:+.3g} to {scale * found.high:+.3g})"
    tests = [f"{p:.2g}" for p in (part.exact, part.student, part.corrected_exact, part.corrected_student)]
    return (part.problem, part.a, part.b, str(len(part.seeds)), *told, ends, *tests, part.shown)


def draw_comparison(comparison: Comparison, path: Path) -> None:
    """A line a row, from the lower to the upper end of its interval; 0 is where nothing differs."""
    from discreet.report.draw import require_matplotlib

    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    scale, unit = _scale(comparison)
    parts = [*comparison.parts, *([comparison.together] if comparison.together else [])]
    page = Figure(figsize=(8, 1.2 + 0.3 * len(parts)), layout="constrained")
    FigureCanvasAgg(page)
    axes = page.subplots()
    colours = {"A": "tab:blue", "B": "tab:red", "n": "0.5"}
    for height, part in enumerate(reversed(parts)):
        found, colour = part.difference, colours[part.shown[0]]
        axes.plot([scale * found.low, scale * found.high], [height, height], color=colour, linewidth=2)
        axes.plot(
            [scale * found.value], [height], "o", color=colour, fillstyle="none" if "alone" in part.shown else None
        )
    axes.axvline(0, color="black", linewidth=0.8)
    same = all(part.a == part.b for part in comparison.parts)
    names = [f"{part.problem}, {part.a}" if same and part.a == part.b else part.problem for part in reversed(parts)]
    axes.set_yticks(range(len(parts)), names, fontsize=8)
    axes.set_xlabel(f"{comparison.figure}{unit}: {comparison.a} less {comparison.b}", fontsize=9)
    axes.set_title("blue: A higher, red: B higher, hollow: by t alone, grey: not shown", fontsize=9)
    axes.grid(axis="x", alpha=0.3)
    page.savefig(path, dpi=120)
