"""The renderer: figures' data to SVG that stands inside a page. Colours are the page's, by class; every picture has a
title and a text that says what it shows.
"""

from __future__ import annotations

from collections.abc import Iterable

from discreet.report.markup import Child, Markup, tag
from discreet.report.report_figures import AccuracyFigure, MeterFigure, ScoreFigure

_WIDE, _HIGH = 440.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 14.0, 24.0, 36.0
_MOST_TICKS, _MOST_NAMED = 12, 8


def draw_meter(figure: MeterFigure) -> Markup:
    """A bar as wide as its place, so that it has no text: its numbers stand beside it."""
    unit = 1000 / figure.limit
    parts = [tag("rect", class_="track", x=0, y=0, width=1000, height=12, rx=0)]
    if figure.committed is not None:
        parts.append(tag("rect", class_="committed", x=0, y=0, width=min(1000.0, figure.committed * unit), height=12))
    parts.append(tag("rect", class_="spent", x=0, y=0, width=min(1000.0, figure.spent * unit), height=12))
    said = f"Path {figure.name}: epsilon {figure.spent:.3g} spent of {figure.limit:.3g}"
    if figure.committed is not None:
        said += f", {figure.committed:.3g} committed"
    return tag(
        "svg",
        tag("title", said),
        *parts,
        class_="meter",
        role="img",
        viewBox="0 0 1000 12",
        preserveAspectRatio="none",
        aria_label=said,
    )


def draw_accuracy(figure: AccuracyFigure) -> Markup:
    """Accuracy with its interval, phase by phase."""

    def across(phase: float) -> float:
        return _LEFT + (_WIDE - _LEFT - _RIGHT) * (phase + 0.5) / figure.phases

    def up(share: float) -> float:
        return _HIGH - _BOTTOM - (_HIGH - _TOP - _BOTTOM) * share

    parts: list[Markup] = [_grid(up(share / 4), f"{25 * share}%") for share in range(5)]
    every = -(-figure.phases // _MOST_TICKS)
    parts += [_under(across(phase), f"{phase}") for phase in range(0, figure.phases, every)]
    parts.append(_axis_name("phase"))
    if figure.chance is not None:
        parts.append(
            tag("line", class_="chance", x1=_LEFT, x2=_WIDE - _RIGHT, y1=up(figure.chance), y2=up(figure.chance))
        )
        parts.append(tag("text", "a guess", class_="note end", x=_WIDE - _RIGHT, y=up(figure.chance) - 5))
    line = " ".join(f"{across(one.phase):.1f},{up(one.accuracy):.1f}" for one in figure.points)
    parts.append(tag("polyline", "", class_="curve", points=line))
    named = figure.points if len(figure.points) <= _MOST_NAMED else (figure.points[0], figure.points[-1])
    for one in figure.points:
        x = across(one.phase)
        parts.append(tag("line", class_="interval", x1=x, x2=x, y1=up(one.low), y2=up(one.high)))
        parts += [
            tag("line", class_="interval", x1=x - 5, x2=x + 5, y1=up(end), y2=up(end)) for end in (one.low, one.high)
        ]
        parts.append(tag("circle", class_="point", cx=x, cy=up(one.accuracy), r=4.5))
        if one in named:
            parts.append(tag("text", f"{one.accuracy:.1%}", class_="value middle", x=x, y=up(one.high) - 7))
    said = "; ".join(
        f"phase {one.phase}: {one.accuracy:.1%} ({one.low:.1%} to {one.high:.1%})" for one in figure.points
    )
    return _picture("accuracy", "Accuracy by phase", f"Measured ({figure.kind}). {said}.", parts)


def draw_scores(figure: ScoreFigure) -> Markup:
    """A bar a bin. Counts below 0 hang under the axis: that is what noise does."""
    bottom, top = figure.range
    low = min(0.0, *figure.counts, -figure.doubt)
    high = 1.04 * max(1.0, *figure.counts, figure.doubt)

    def across(share: float) -> float:
        return _LEFT + (_WIDE - _LEFT - _RIGHT) * share

    def up(count: float) -> float:
        return _HIGH - _BOTTOM - (_HIGH - _TOP - _BOTTOM) * (count - low) / (high - low)

    parts = [_grid(up(count), f"{count:,.0f}") for count in _round_numbers(low, high)]
    if figure.doubt:
        band = up(-figure.doubt) - up(figure.doubt)
        wide = across(1) - across(0)
        parts.append(tag("rect", class_="doubt", x=across(0), y=up(figure.doubt), width=wide, height=band))
    bins = len(figure.counts)
    width = (across(1) - across(0)) / bins
    for place, count in enumerate(figure.counts):
        if count:
            ends = sorted((up(0), up(count)))
            where = {"x": across(place / bins) + 0.08 * width, "width": 0.84 * width}
            kind = ("bar" if count > 0 else "bar below") + ("" if figure.noisy else " exact")
            parts.append(tag("rect", class_=kind, y=ends[0], height=ends[1] - ends[0], **where))
    parts.append(tag("line", class_="zero", x1=across(0), x2=across(1), y1=up(0), y2=up(0)))
    if figure.threshold is not None:
        parts.append(
            _threshold(across(min(max((figure.threshold - bottom) / (top - bottom), 0.0), 1.0)), figure.threshold)
        )
    parts += [_under(across(share), f"{bottom + (top - bottom) * share:.3g}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    parts.append(_axis_name("score"))
    kind = "noisy, as paid for" if figure.noisy else "exact, for the owner"
    said = f"{bins} bins from {bottom:.3g} to {top:.3g}, {kind}; the largest count is {max(figure.counts):,}."
    if figure.threshold is not None:
        said += f" The threshold is {figure.threshold:.3g}."
    name = f"scores-{figure.phase}-{'noisy' if figure.noisy else 'exact'}"
    return _picture(name, f"Scores of the query of phase {figure.phase}", said, parts)


def _threshold(x: float, value: float) -> Markup:
    end = x > _WIDE * 0.7
    return tag(
        "g",
        tag("line", class_="threshold", x1=x, x2=x, y1=_TOP, y2=_HIGH - _BOTTOM),
        tag(
            "text",
            f"threshold {value:.3g}",
            class_="note end" if end else "note",
            x=x - 6 if end else x + 6,
            y=_TOP - 8,
        ),
    )


def _round_numbers(low: float, high: float) -> list[float]:
    """About four round numbers, 0 among them."""
    step = 1.0
    while (high - low) / step > 5:
        step *= 2.5 if str(step).startswith("2") else 2
    found = [step * place for place in range(int(low / step), int(high / step) + 1)]
    return found or [0.0]


def _grid(y: float, text: str) -> Markup:
    line = tag("line", class_="grid", x1=_LEFT, x2=_WIDE - _RIGHT, y1=y, y2=y)
    return tag("g", line, tag("text", text, class_="end", x=_LEFT - 7, y=y + 4))


def _under(x: float, text: str) -> Markup:
    return tag("text", text, class_="middle", x=x, y=_HIGH - _BOTTOM + 16)


def _axis_name(text: str) -> Markup:
    return tag("text", text, class_="middle name", x=(_LEFT + _WIDE - _RIGHT) / 2, y=_HIGH - 3)


def _picture(name: str, title: str, said: str, parts: Iterable[Child]) -> Markup:
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", said, id=f"{name}-text"),
        *parts,
        class_="picture",
        role="img",
        viewBox=f"0 0 {_WIDE:g} {_HIGH:g}",
        aria_labelledby=f"{name}-title {name}-text",
    )


def swatch(kind: str) -> Markup:
    """A square in the colour of a part of a meter; the words beside it say which."""
    return tag(
        "svg", tag("title", kind), tag("rect", class_=kind, width=10, height=10), viewBox="0 0 10 10", role="img"
    )
