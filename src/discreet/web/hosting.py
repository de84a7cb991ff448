"""What is served: campaigns, kept up to date, and how the outside reaches them.

A campaign that another process re-planned, or whose pool was extended, is loaded again before it is used. Users belong
to campaigns, so a token says which campaign somebody means.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from discreet.campaign import Campaign
from discreet.campaign.recipe import replannings
from discreet.storage import User

if TYPE_CHECKING:
    from discreet.storage import CampaignStore

_FRESH = 1.0
"""Seconds for which a campaign is taken to be planned as it was: what is asked or trained checks again by itself."""
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Hosted:
    """One campaign that is served. ``load`` gives it as it is now; ``reading`` guards what reads its pool."""

    def __init__(self, load: Callable[[], Campaign]) -> None:
        self._load, self._guard = load, threading.Lock()
        self.reading = threading.Lock()
        self._campaign = load()
        self._state, self._looked = _state(self._campaign.store), time.monotonic()

    @property
    def store(self) -> CampaignStore:
        """Of the campaign; it stays the same one."""
        return self._campaign.store

    def changed_in_queues(self) -> list[str]:
        """Questions whose records are not what they were, among those that wait for their annotators."""
        with self.reading:
            return self.campaign().changed_in_queues()

    def opened(self) -> Campaign:
        """The campaign, opened once more: for work that reads its pool while pages do."""
        return self._load()

    def campaign(self, *, at_once: bool = False) -> Campaign:
        """As it is now. ``at_once``: not as it was a moment ago, for somebody agrees to what is shown of it."""
        with self._guard:
            if at_once or time.monotonic() > self._looked + _FRESH:
                state = _state(self.store)
                if state != self._state:
                    self._campaign, self._state = self._load(), state
                self._looked = time.monotonic()
            return self._campaign


def _state(store: CampaignStore) -> tuple[int, int]:
    return len(replannings(store.transitions())), len(store.pool_cohorts())


@dataclass(frozen=True, kw_only=True)
class Hosting:
    """All that an application needs to know.

    campaigns    at least one
    names        what the Host header may say, without a port
    secure       whether browsers reach it by TLS, here or at a proxy: cookies are for TLS alone then
    anonymous    whether whoever comes is the owner: for one's own machine
    """

    campaigns: Sequence[Hosted]
    names: frozenset[str] = frozenset(LOOPBACK_NAMES)
    secure: bool = False
    anonymous: bool = False
    body_bytes: int = field(default=64 << 10)

    def by_login(self, name: str, token: str) -> tuple[Hosted, User] | None:
        """Whose name and token these are. Every campaign is asked, so that all failures take the same time."""
        known = [(hosted, user) for hosted in self.campaigns if (user := hosted.store.users.known(name, token))]
        return known[0] if known else None

    def by_token(self, token: str) -> tuple[Hosted, User] | None:
        """Whose token this is."""
        return next(((hosted, user) for hosted in self.campaigns if (user := hosted.store.users.by_token(token))), None)

    def by_session(self, secret: str) -> tuple[Hosted, User] | None:
        """Whose session this is. One that was begun without a token counts only where that is allowed now."""
        asked = ((hosted, hosted.store.users.of_session(secret, loopback=self.anonymous)) for hosted in self.campaigns)
        return next(((hosted, user) for hosted, user in asked if user is not None), None)
