"""What an owner sees while a stream runs: arrived, asked, labelled, wrong, spent. Audience: owner, and nobody else.

Drawn on standard error, a few times a second at most; decisions are on standard output.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from discreet.stream.service import StreamService

_EVERY = 0.25
_RECENT = 5.0
"""Seconds over which the rate of arrivals is told."""


@contextmanager
def live_view(console: Console | None = None) -> Iterator[Callable[[StreamService], None]]:
    """Something to call after each batch; it draws when it is time."""
    from rich.console import Console
    from rich.live import Live

    rate = Rate()
    with Live(console=console or Console(stderr=True), auto_refresh=False, transient=False) as live:
        drawn = 0.0

        def watch(service: StreamService, *, last: bool = False) -> None:
            nonlocal drawn
            now = time.monotonic()
            rate.tell(now, service.learner.arrived)
            if last or now - drawn >= _EVERY:
                drawn = now
                live.update(view_of(service, rate.per_second()), refresh=True)

        seen: list[Any] = []

        def watching(service: StreamService) -> None:
            seen[:] = [service]
            watch(service)

        try:
            yield watching
        finally:
            if seen:
                watch(seen[0], last=True)


class Rate:
    """Arrivals a second, lately."""

    def __init__(self) -> None:
        self._points: list[tuple[float, int]] = []

    def tell(self, now: float, arrived: int) -> None:
        """So many by now."""
        self._points.append((now, arrived))
        while len(self._points) > 2 and self._points[0][0] < now - _RECENT:
            self._points.pop(0)

    def per_second(self) -> float:
        """Between the first and the last point that are kept."""
        (began, before), (ended, after) = self._points[0], self._points[-1]
        return (after - before) / (ended - began) if ended > began else 0.0


def view_of(service: StreamService, rate: float) -> RenderableType:
    """The table that is drawn."""
    from rich.panel import Panel
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(justify="left")
    table.add_column(justify="right")
    table.add_column(justify="left", style="dim")
    for name, value, remark in rows_of(service, rate):
        table.add_row(name, value, remark)
    kind = ", SIMULATION" if service.learner.simulation else ""
    return Panel(table, title=f"{service.config.name}{kind}", subtitle="for the owner's eyes", expand=False)


def rows_of(service: StreamService, rate: float) -> list[tuple[str, str, str]]:
    """Name, value and remark of each line."""
    counts, spent = service.counts(), service.spent()
    arrived, asked, labelled = counts["arrived"], counts["asked"], counts["labelled"]
    error = f"{100 * counts['wrong'] / labelled:.2f}%" if labelled else "-"
    delta = f" at delta {spent['delta']}" if spent["delta"] != "0" else ""
    return [
        ("arrived", f"{arrived:,}", f"{rate:,.0f} a second"),
        ("asked", f"{asked:,}", f"{100 * asked / arrived:.2f}% of them" if arrived else ""),
        ("labelled", f"{labelled:,}", f"{counts['waiting']:,} wait, {counts['skipped']:,} skipped"),
        ("error", error, "on labelled records, before they taught"),
        ("model", f"{counts['version']:,}", f"{service.publisher.newest:,} is published"),
        ("spent", f"epsilon {spent['epsilon']}", f"of {spent['budget']}{delta}, a {spent['unit']}, however long"),
    ]
