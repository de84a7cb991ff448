"""Pushing and pulling in turns, for as long as people label.

Polling is all there is: what a look brings is everything that stands on the server, so nothing is lost when one fails.
Webhooks there may be lost, and are not listened to.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from discreet.errors import ServerUnavailable

if TYPE_CHECKING:
    from discreet.campaign import Campaign
    from discreet.oracles.label_studio import LabelStudioOracle

Told = Callable[[str], None]


class Sync:
    """A campaign and its server, looked at ``every`` so many seconds.

    ``patience``: seconds that the server may be away. ``train``: when a phase is answered.
    """

    def __init__(
        self,
        campaign: Campaign,
        oracle: LabelStudioOracle,
        *,
        every: float,
        train: bool = False,
        patience: float = 600.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._campaign, self._oracle = campaign, oracle
        self._every, self._train, self._patience, self._pause = every, train, patience, pause
        self._counts = dict.fromkeys(("looks", "failed", "pushed", "new", "corrected", "trained", "refused"), 0)

    def counts(self) -> dict[str, int]:
        """What was done so far; ``refused``: questions whose label is outside the classes, at the last look."""
        return dict(self._counts)

    def run(self, *, until_done: bool) -> None:
        """Until every question is answered (with ``train``: until the last phase is trained), or for ever."""
        away: float | None = None
        with _shown() as told:
            while True:
                try:
                    done = self._look()
                    away = None
                except ServerUnavailable:
                    away = time.monotonic() if away is None else away
                    if time.monotonic() - away >= self._patience:
                        raise
                    self._counts["failed"] += 1
                    done = False
                told(self._words(away is not None))
                if done and until_done:
                    return
                self._pause(self._every)

    def _look(self) -> bool:
        """One pull, a training if it is time for it, one push; whether nothing is left to do."""
        from discreet.recipes.label_studio import pull, push

        campaign, counts = self._campaign, self._counts
        pulled = pull(campaign, self._oracle)
        counts["looks"] += 1
        counts["new"] += pulled.told.new
        counts["corrected"] += pulled.told.corrected
        counts["refused"] = len(pulled.read.refused)
        if self._train and campaign.standing.step in ("answer", "train") and not campaign.open():
            campaign.train()
            counts["trained"] += 1
        if campaign.done:
            return True
        if not self._train and campaign.standing.step != "ask" and not campaign.open():
            return True
        counts["pushed"] += len(push(campaign, self._oracle).pushed.new)
        return False

    def _words(self, away: bool) -> str:
        """For the owner, who watches."""
        counts = self._counts
        found = f"{counts['pushed']} pushed, {counts['new']} answers, {len(self._campaign.open())} open"
        if counts["refused"]:
            found += f", {counts['refused']} with a label outside the classes"
        return f"{found}; the server is away" if away else found


@contextmanager
def _shown() -> Iterator[Told]:
    """A line on standard error, where somebody watches."""
    if not sys.stderr.isatty():
        yield lambda words: None
        return
    from rich.console import Console

    with Console(stderr=True).status("Label Studio ...") as line:
        yield lambda words: line.update(f"Label Studio: {words}")
