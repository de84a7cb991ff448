"""HTML and SVG as text that is escaped by construction: what a user wrote is never read as markup.

A child is either `Markup`, made here, or text, which is escaped; an attribute is always escaped. There is no other way
to put a string on a page.

The figures of a report are plain numbers (`AccuracyFigure`, `ScoreFigure`), and each is drawn as SVG
that takes its colours from the style of the page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from discreet.report.campaign_report import PathMeter, Report

_VOID = {"meta", "br", "hr", "link", "rect", "line", "path", "circle", "img"}


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """An element. ``class_`` is class, ``aria_label`` is aria-label; None and False leave an attribute out."""
    opening = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    if name in _VOID and not children:
        return Markup(f"<{name}{opening}{'>' if name in ('meta', 'br', 'hr', 'link', 'img') else '/>'}")
    return Markup(f"<{name}{opening}>{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    """Children one after the other."""
    return Markup("".join(_text(child) for child in children))


def _attribute(key: str, value: str | float | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {name}="{escape(text, quote=True)}"'


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return str(child)
    if isinstance(child, str):
        return escape(child, quote=False)
    return str(child) if isinstance(child, int) else "".join(_text(part) for part in child)


def section(title: str, *children: Child) -> Markup:
    """A part of a page, named by the first word of its title."""
    name = title.lower().split()[0]
    return tag("section", tag("h2", title, id=name), *children, aria_labelledby=name)


def table(head: Sequence[str], rows: Sequence[Sequence[Child]], *, words: Sequence[int] = (), name: str) -> Markup:
    """A table whose first column names its rows; columns in ``words`` are text, the others numbers."""
    kinds = ["left" if column == 0 or column in words else None for column in range(len(head))]
    heads = (tag("th", text, scope="col", class_=kind) for text, kind in zip(head, kinds, strict=True))
    body = (
        tag(
            "tr",
            tag("th", row[0], scope="row", class_="left"),
            *(tag("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True)),
        )
        for row in rows
    )
    inside = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *body), aria_label=name)
    return tag("div", inside, class_="scroll", tabindex=0, role="region", aria_label=name)


_WIDE, _HIGH = 440.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 14.0, 24.0, 36.0
_MOST_TICKS, _MOST_NAMED = 12, 8


def draw_meter(path: PathMeter) -> Markup:
    """A bar as wide as its place, so that it has no text: its numbers stand beside it."""
    spent, limit = float(path.spent), float(path.limit)
    unit = 1000 / limit
    parts = [tag("rect", class_="track", x=0, y=0, width=1000, height=12, rx=0)]
    if path.committed is not None:
        parts.append(tag("rect", class_="committed", x=0, y=0, width=min(1000.0, path.committed * unit), height=12))
    parts.append(tag("rect", class_="spent", x=0, y=0, width=min(1000.0, spent * unit), height=12))
    caption = f"Path {path.name}: epsilon {spent:.3g} spent of {limit:.3g}"
    if path.committed is not None:
        caption += f", {path.committed:.3g} committed"
    return tag(
        "svg",
        tag("title", caption),
        *parts,
        class_="meter",
        role="img",
        viewBox="0 0 1000 12",
        preserveAspectRatio="none",
        aria_label=caption,
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
    if figure.majority is not None:
        y = up(figure.majority)
        parts.append(tag("line", class_="baseline", x1=_LEFT, x2=_WIDE - _RIGHT, y1=y, y2=y))
        parts.append(tag("text", f"majority {figure.majority:.1%}", class_="note end", x=_WIDE - _RIGHT, y=y + 14))
    line = " ".join(f"{across(point.phase):.1f},{up(point.accuracy):.1f}" for point in figure.points)
    parts.append(tag("polyline", "", class_="curve", points=line))
    named = figure.points if len(figure.points) <= _MOST_NAMED else (figure.points[0], figure.points[-1])
    for point in figure.points:
        x = across(point.phase)
        parts.append(tag("line", class_="interval", x1=x, x2=x, y1=up(point.low), y2=up(point.high)))
        parts += [
            tag("line", class_="interval", x1=x - 5, x2=x + 5, y1=up(end), y2=up(end))
            for end in (point.low, point.high)
        ]
        parts.append(tag("circle", class_="point", cx=x, cy=up(point.accuracy), r=4.5))
        if point in named:
            parts.append(tag("text", f"{point.accuracy:.1%}", class_="value middle", x=x, y=up(point.high) - 7))
    caption = "; ".join(
        f"phase {point.phase}: {point.accuracy:.1%} ({point.low:.1%} to {point.high:.1%})" for point in figure.points
    )
    majority = "not counted" if figure.majority is None else f"{figure.majority:.1%}"
    text = f"Measured ({figure.kind}). {caption}; majority class: {majority}."
    return _picture("accuracy", "Accuracy by phase", text, parts)


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
    for number, count in enumerate(figure.counts):
        if count:
            ends = sorted((up(0), up(count)))
            where = {"x": across(number / bins) + 0.08 * width, "width": 0.84 * width}
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
    caption = f"{bins} bins from {bottom:.3g} to {top:.3g}, {kind}; the largest count is {max(figure.counts):,}."
    if figure.threshold is not None:
        caption += f" The threshold is {figure.threshold:.3g}."
    name = f"scores-{figure.phase}-{'noisy' if figure.noisy else 'exact'}"
    return _picture(name, f"Scores of the query of phase {figure.phase}", caption, parts)


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
    numbers = [step * multiple for multiple in range(int(low / step), int(high / step) + 1)]
    return numbers or [0.0]


def _grid(y: float, text: str) -> Markup:
    line = tag("line", class_="grid", x1=_LEFT, x2=_WIDE - _RIGHT, y1=y, y2=y)
    return tag("g", line, tag("text", text, class_="end", x=_LEFT - 7, y=y + 4))


def _under(x: float, text: str) -> Markup:
    return tag("text", text, class_="middle", x=x, y=_HIGH - _BOTTOM + 16)


def _axis_name(text: str) -> Markup:
    return tag("text", text, class_="middle name", x=(_LEFT + _WIDE - _RIGHT) / 2, y=_HIGH - 3)


def _picture(name: str, title: str, caption: str, parts: Iterable[Child]) -> Markup:
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", caption, id=f"{name}-text"),
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


_SELDOM = 0.05


@dataclass(frozen=True, kw_only=True)
class AccuracyPoint:
    """A phase's accuracy and its interval."""

    phase: int
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class AccuracyFigure:
    """Points over ``phases`` phases. ``majority``: the accuracy of always the largest class; None if not counted."""

    phases: int
    kind: str
    points: tuple[AccuracyPoint, ...]
    majority: float | None


@dataclass(frozen=True, kw_only=True)
class ScoreFigure:
    """Counts over the range of a score.

    noisy   True: as they were paid for; False: exact, for the owner
    doubt   noise of a count stays within this 19 times in 20; 0 where there is none
    """

    phase: int
    range: tuple[float, float]
    counts: tuple[int, ...]
    threshold: float | None
    noisy: bool
    doubt: float


def accuracy_figure(report: Report) -> AccuracyFigure | None:
    """None where nothing was measured."""
    measured = [(phase.number, phase.evaluation) for phase in report.phases if phase.evaluation]
    if not measured:
        return None
    return AccuracyFigure(
        phases=len(report.phases),
        kind=measured[-1][1]["kind"],
        points=tuple(
            AccuracyPoint(
                phase=number,
                accuracy=evaluation["accuracy"],
                low=evaluation["interval"][0],
                high=evaluation["interval"][1],
            )
            for number, evaluation in measured
        ),
        majority=measured[-1][1]["metrics"]["accuracy"]["baseline"],
    )


def score_figures(report: Report) -> tuple[ScoreFigure, ...]:
    """Noisy ones that were paid for; for an owner who asked for them, the exact ones after each."""
    exact = {scores.phase: scores for scores in (report.owned.scores if report.owned else ())}
    figures = []
    for phase in report.phases:
        noisy = phase.query.histogram if phase.query else None
        if phase.query and noisy:
            figures.append(
                ScoreFigure(
                    phase=phase.number,
                    range=noisy.range,
                    counts=noisy.counts,
                    threshold=phase.query.threshold,
                    noisy=True,
                    doubt=noisy.every * noise_within(float(noisy.epsilon)),
                )
            )
        if phase.number in exact:
            figures.append(ScoreFigure(**vars(exact[phase.number]), noisy=False, doubt=0.0))
    return tuple(figures)


def noise_within(epsilon: float) -> float:
    """The least t that discrete Laplace noise of parameter ``epsilon`` stays within 19 times in 20.

    P(|X| > t) = 2 a^(t+1) / (1 + a) with a = e^-epsilon.
    """
    share = math.exp(-epsilon)
    return max(0.0, math.ceil(math.log(_SELDOM * (1 + share) / 2) / math.log(share) - 1))
