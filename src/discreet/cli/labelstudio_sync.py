"""Pushing and pulling in turns, for as long as people label.

What a look brings is everything that stands on the server, so nothing is lost when one fails. Webhooks there are lost
when nobody listens, and are never sent again: here one is a hint to look now, instead of after the interval, and
nothing more (`discreet.oracles.label_studio.hints`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import BadInput, DiscreetError, ServerUnavailable

if TYPE_CHECKING:
    from discreet.campaign import Campaign
    from discreet.oracles.label_studio import LabelStudioOracle

Show = Callable[[str], None]


class Sync:
    """A campaign and its server, looked at ``every`` so many seconds.

    ``patience``: seconds that the server may be away. ``train``: when a phase is answered. ``pause``: waits for a
    look, may end early. ``hook``: where the server should knock, and with which secret, while this runs.
    """

    def __init__(
        self,
        campaign: Campaign,
        oracle: LabelStudioOracle,
        *,
        every: float,
        train: bool = False,
        patience: float = 600.0,
        pause: Callable[[float], object] = time.sleep,
        hook: tuple[str, str] | None = None,
    ) -> None:
        self._campaign, self._oracle, self._hook, self._hooked = campaign, oracle, hook, False
        self._every, self._train, self._patience, self._pause = every, train, patience, pause
        names = ("looks", "hints", "failed", "pushed", "new", "corrected", "trained", "refused")
        self._counts = dict.fromkeys(names, 0)

    def counts(self) -> dict[str, int]:
        """What was done so far; ``hints``: looks that a webhook caused; ``refused``: questions whose label is outside
        the classes, at the last look.
        """
        return dict(self._counts)

    def run(self, *, until_done: bool) -> None:
        """Until every question is answered (with ``train``: until the last phase is trained), or for ever."""
        try:
            self._run(until_done)
        finally:
            if self._hook is not None and self._hooked:
                with suppress(DiscreetError):  # the server is away: the same sync again, or remove --all, ends it
                    self._oracle.no_hints_at(self._hook[0])

    def _run(self, until_done: bool) -> None:
        away: float | None = None
        with _shown() as show:
            while True:
                try:
                    done = self._look()
                    self._ask_for_hints()
                    away = None
                except ServerUnavailable:
                    away = time.monotonic() if away is None else away
                    if time.monotonic() - away >= self._patience:
                        raise
                    self._counts["failed"] += 1
                    self._hooked = done = False
                show(self._words(away is not None))
                if done and until_done:
                    return
                self._counts["hints"] += self._pause(self._every) is True

    def _look(self) -> bool:
        """One pull, a training if it is time for it, one push; whether nothing is left to do."""
        from discreet.recipes.label_studio import pull, push

        campaign, counts = self._campaign, self._counts
        pulled = pull(campaign, self._oracle)
        counts["looks"] += 1
        counts["new"] += pulled.told.new
        counts["corrected"] += pulled.told.corrected
        counts["refused"] = len(pulled.read.refused)
        if self._train and campaign.state.step in ("answer", "train") and not campaign.open():
            campaign.train()
            counts["trained"] += 1
        if campaign.done:
            return True
        if not self._train and campaign.state.step != "ask" and not campaign.open():
            return True
        counts["pushed"] += len(push(campaign, self._oracle).pushed.new)
        return False

    def _ask_for_hints(self) -> None:
        """When there is a project, once; and once more after the server was away, for it may have lost it."""
        if self._hook is not None and not self._hooked:
            self._hooked = self._oracle.hint_at(*self._hook)

    def _words(self, away: bool) -> str:
        """For the owner, who watches."""
        counts = self._counts
        text = f"{counts['pushed']} pushed, {counts['new']} answers, {len(self._campaign.open())} open"
        if counts["refused"]:
            text += f", {counts['refused']} with a label outside the classes"
        return f"{text}; the server is away" if away else text


@contextmanager
def listening(listen: str | None, url: str | None, secret_file: Path | None) -> Iterator[dict[str, Any]]:
    """What a `Sync` waits by, and where it lets the server knock, as three options say it."""
    from discreet.oracles.label_studio import PATH, Hints, address_of, checked_address, read_secret

    if listen is None:
        if url is not None or secret_file is not None:
            raise BadInput("hints of webhooks", "nobody listens for them", "Say where: --listen 8766")
        yield {}
        return
    if url is None and secret_file is None:
        raise BadInput(
            "listening for hints",
            "no webhook would know the secret",
            "Name the address that the server reaches this by (--hint-url), or a secret (--hint-secret-file)",
        )
    secret = None if secret_file is None else read_secret(secret_file, "--hint-secret-file")
    with Hints(address_of(listen), secret) as hints:
        hook = None if url is None else (checked_address(url, plain_http=True) + PATH, hints.secret)
        yield {"pause": hints.wait, "hook": hook}


@contextmanager
def _shown() -> Iterator[Show]:
    """A line on standard error, where somebody watches."""
    if not sys.stderr.isatty():
        yield lambda words: None
        return
    from rich.console import Console

    with Console(stderr=True).status("Label Studio ...") as line:
        yield lambda words: line.update(f"Label Studio: {words}")
