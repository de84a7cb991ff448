"""Labels per day as a picture: plain numbers, and a renderer to SVG whose colours are the page's, by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from discreet.report.markup import Markup, tag

DAYS = 28
_WIDE, _HIGH, _LEFT, _RIGHT, _TOP, _BOTTOM = 640.0, 170.0, 36.0, 6.0, 18.0, 26.0


@dataclass(frozen=True, kw_only=True)
class DayFigure:
    """Answers by day (UTC), the last ``days`` of them without a gap. ``before``: answers that are older."""

    days: tuple[tuple[date, int], ...]
    before: int

    @property
    def most(self) -> int:
        """On one day."""
        return max((count for _, count in self.days), default=0)


def day_figure(times: Iterable[datetime], *, today: date | None = None, most_days: int = DAYS) -> DayFigure:
    """From when answers were given; from the first of them, or as far back as there is room, until ``today``."""
    counts = Counter(one.astimezone(UTC).date() for one in times)
    last = max([today or datetime.now(UTC).date(), *counts])
    first = max(min(counts, default=last), last - timedelta(days=most_days - 1))
    first = min(first, last - timedelta(days=6))  # a week at least: one bar is no picture
    days = tuple((day, counts[day]) for day in (first + timedelta(days=n) for n in range((last - first).days + 1)))
    return DayFigure(days=days, before=sum(count for day, count in counts.items() if day < first))


def draw_days(figure: DayFigure) -> Markup:
    """A bar a day; the number above it where there is room."""
    top = max(figure.most, 1)
    width = (_WIDE - _LEFT - _RIGHT) / len(figure.days)
    high = _HIGH - _TOP - _BOTTOM
    parts = [_line(_HIGH - _BOTTOM, "axis"), _line(_TOP, "grid"), _text("0", _LEFT - 7, _HIGH - _BOTTOM + 4, "end")]
    parts.append(_text(f"{top:,}", _LEFT - 7, _TOP + 4, "end"))
    every = -(-len(figure.days) // 7)
    for place, (day, count) in enumerate(figure.days):
        x, tall = _LEFT + width * place, high * count / top
        if count:
            named = tag("title", f"{day.isoformat()}: {count:,}")
            box = {"x": x + 0.14 * width, "y": _HIGH - _BOTTOM - tall, "width": 0.72 * width, "height": tall, "rx": 2.0}
            parts.append(tag("rect", named, class_="bar", **box))
        if (len(figure.days) - 1 - place) % every == 0:
            parts.append(_text(f"{day:%b} {day.day}", x + width / 2, _HIGH - 8, "middle"))
    said = "; ".join(f"{day.isoformat()}: {count}" for day, count in figure.days if count) or "no answer yet"
    return tag(
        "svg",
        tag("title", "Answers per day"),
        tag("desc", f"{said}."),
        *parts,
        class_="days",
        role="img",
        viewBox=f"0 0 {_WIDE:g} {_HIGH:g}",
        aria_label=f"Answers per day. {said}.",
    )


def _line(y: float, kind: str) -> Markup:
    return tag("line", class_=kind, x1=_LEFT, x2=_WIDE - _RIGHT, y1=y, y2=y)


def _text(text: str, x: float, y: float, kind: str) -> Markup:
    return tag("text", text, class_=kind, x=x, y=y)
