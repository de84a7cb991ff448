"""Asking and training from a page: in a thread of the server, one at a time in a campaign, and safe to stop anywhere.

Guarantee: a click begins what it says or nothing. What was confirmed is bound to where the campaign and its ledger
stood then, so to its price, and a confirmation is taken once; so a second click, an old page and a page sent again
begin nothing. The work is the verb itself (`Campaign.due`, `Campaign.train`): charged before drawn, under the store's
lock, so that a process elsewhere and this one do not both work. To stop is what Ctrl-C does at a terminal: what was
charged stays, and the same verb goes on with the same draws, here or after the server was killed.

Progress is what the recipe tells whoever watches: public numbers. Errors are kept in their three parts; of an error
that nobody expected its type alone, for its message may quote a record. Audience: owner.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, cast

from fastapi import Request

from discreet.campaign.recipe import replannings
from discreet.campaign.state import CampaignState, ledger_of
from discreet.errors import DiscreetError, NotNow
from discreet.storage import CampaignStore
from discreet.storage.tables import now
from discreet.storage.users import Outcome
from discreet.web.hosting import Hosted

Verb = Literal["ask", "train"]
Price = tuple[str, int]
Ended = Literal["done", "stopped", "failed"]
State = Literal["running", "stopping"] | Ended
VERBS: dict[str, tuple[Verb, ...]] = {"ask": ("ask",), "answer": ("train",), "train": ("train",), "done": ()}
"""What comes next at a step."""
_LEAVING = 20.0
"""Seconds that a server waits for work to stop when it is stopped itself."""
_MOST = 500
log = logging.getLogger("discreet.web")


class Stopped(BaseException):
    """Somebody stopped the work. As an interrupt, it is nothing that anybody should handle on the way."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is being done, or was done last, since the server began. Audience: owner.

    by, address         who began it, and from where
    what, done, whole   as the recipe tells it: public
    error               three parts: what was asked, what is so, what to do
    """

    verb: Verb
    phase: int
    by: str
    address: str
    began: datetime
    state: State = "running"
    what: str = ""
    done: int = 0
    total: int = 0
    error: tuple[str, str, str] | None = None
    ended: datetime | None = None

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self.state in ("running", "stopping")

    @property
    def share(self) -> int:
        """Of what is being done now, in percent."""
        return 100 * self.done // self.total if self.total else 0


class Worker:
    """The work of one campaign."""

    def __init__(self, hosted: Hosted) -> None:
        self._hosted, self._guard, self._facts = hosted, threading.Lock(), threading.Lock()
        self._work: Work | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    @property
    def work(self) -> Work | None:
        """What is being done, or was done last."""
        return self._work

    @property
    def elsewhere(self) -> bool:
        """Whether another process asks or trains, as far as the system tells."""
        return not self._running() and self._hosted.store.busy("working")

    def start(
        self,
        verb: Verb,
        *,
        at: CampaignState,
        by: str,
        address: str,
        partial: bool = False,
        price: Price | None = None,
    ) -> Work:
        """Begin ``verb``, if the campaign still stands ``at``; `NotNow` otherwise, or while something is done.

        ``price``: what the price hung on that somebody agreed to; another one is not charged.
        """
        with self._guard:
            self.check_idle(verb, at)
            campaign = self._hosted.campaign()
            if partial:
                campaign.questions.check_partial()
            if campaign.state != at or verb not in VERBS[at.step]:
                raise NotNow(_asked(verb, at.phase), "the campaign has gone on since", "Look where it stands now")
            _check_price(self._hosted.store, verb, at, price)
            self._stop.clear()
            work = Work(verb=verb, phase=at.phase, by=by, address=address, began=now())
            self._note(work, "begun")  # or nothing is begun
            self._work = work
            self._thread = threading.Thread(
                target=self._run, args=(verb, at, partial, price), name=f"discreet-{verb}", daemon=True
            )
            self._thread.start()
            return self._work

    def check_idle(self, verb: Verb, at: CampaignState) -> None:
        """`NotNow` while something is done."""
        if self._running():
            raise NotNow(
                _asked(verb, at.phase), "this server is at work in the campaign already", "Let it finish, or stop it"
            )

    def stop(self) -> None:
        """Ask the work to stop at its next step; nothing is lost."""
        with self._guard:
            self._stop.set()
            with self._facts:  # it may end at this moment, and what has ended does not stop
                if self._work is not None and self._work.state == "running":
                    self._work = replace(self._work, state="stopping")

    def join(self, seconds: float) -> None:
        """Wait for the work to end."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _running(self) -> bool:
        work, thread = self._work, self._thread
        return work is not None and work.running and thread is not None and thread.is_alive()

    def _run(self, verb: Verb, at: CampaignState, partial: bool, price: Price | None) -> None:
        try:
            campaign = self._hosted.opened()
            campaign.watch = self._watch
            self._watch("beginning", 0, 0)
            _check_price(campaign.store, verb, at, price)  # of the plan that is loaded now; the verb refuses another
            if campaign.state != at:
                raise NotNow(_asked(verb, at.phase), "the campaign has gone on since", "Look where it stands now")
            if verb == "ask":
                campaign.due(1)
            else:
                campaign.train(partial=partial)
            ended: Ended = "done"
            error = None
        except Stopped:
            ended, error = "stopped", None
        except DiscreetError as problem:
            ended, error = "failed", (problem.asked, problem.fact, problem.remedy)
        except BaseException as problem:  # noqa: BLE001 - its words may quote a record, so nobody else may tell them
            log.error("unexpected %s in %s of phase %s", type(problem).__name__, verb, at.phase)
            fact = f"an error of type {type(problem).__name__} that nobody expected"
            ended, error = "failed", (_asked(verb, at.phase), fact, f"Run discreet {verb} at a terminal to see it")
        assert self._work is not None
        try:
            self._note(self._work, ended)
        except DiscreetError as problem:
            log.error("the access log has no end of %s of phase %s: %s", verb, at.phase, problem.fact)
        self._change(state=ended, error=error, ended=now())

    def _note(self, work: Work, outcome: Outcome) -> None:
        self._hosted.store.access_log.write(work.verb, outcome, actor=work.by, address=work.address, phase=work.phase)

    def _watch(self, what: str, done: int, total: int) -> None:
        if self._stop.is_set():
            raise Stopped
        self._change(what=what, done=done, total=total)

    def _change(self, **facts: object) -> None:
        with self._facts:
            assert self._work is not None
            self._work = replace(self._work, **facts)  # type: ignore[arg-type]


def price_of(store: CampaignStore) -> Price:
    """What the price of the next step hangs on: the head of the ledger, and how often the plan was changed."""
    with ledger_of(store) as ledger:
        return ledger.head, len(replannings(store.transitions()))


def price_mark(store: CampaignStore, at: CampaignState, price: Price) -> str:
    """What a program sends back to say which price it was shown: a hash, which tells nothing."""
    stated = json.dumps([store.id, at.phase, at.step, *price])
    return hashlib.sha256(f"discreet price {stated}".encode()).hexdigest()


def _check_price(store: CampaignStore, verb: Verb, at: CampaignState, agreed: Price | None) -> None:
    if agreed is not None and price_of(store) != agreed:
        raise NotNow(
            _asked(verb, at.phase), "it was re-planned or charged since its price was shown", "Confirm it again"
        )


def _asked(verb: Verb, phase: int) -> str:
    return f"asking the query of phase {phase}" if verb == "ask" else f"training phase {phase}"


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """What somebody was shown, and would agree to."""

    campaign: str
    by: str
    verb: Verb
    at: CampaignState
    price: Price
    partial: bool


class Works:
    """The work of every campaign that is served, and confirmations that were shown and not taken yet."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._shown: OrderedDict[str, Confirmation] = OrderedDict()
        self._taken: deque[str] = deque(maxlen=_MOST)
        self._guard = threading.Lock()

    def of(self, hosted: Hosted) -> Worker:
        """Of one campaign."""
        with self._guard:
            return self._workers.setdefault(hosted.store.id, Worker(hosted))

    def show(self, shown: Confirmation) -> str:
        """A token for a form, which is taken once."""
        token = secrets.token_urlsafe(24)
        with self._guard:
            self._shown[token] = shown
            while len(self._shown) > _MOST:
                self._shown.popitem(last=False)
        return token

    def take(self, token: str, *, campaign: str, by: str, verb: Verb) -> Confirmation | None:
        """What a token stands for, if it is theirs and was not taken before."""
        with self._guard:
            confirmation = self._shown.get(token)
            if confirmation is None or (confirmation.campaign, confirmation.by, confirmation.verb) != (
                campaign,
                by,
                verb,
            ):
                return None
            self._taken.append(token)
            return self._shown.pop(token)

    def was_taken(self, token: str) -> bool:
        """Whether it was taken before: then what it stands for was begun, or refused."""
        with self._guard:
            return token in self._taken

    def leave(self) -> None:
        """The server ends: let work stop where it can be gone on with."""
        workers = list(self._workers.values())
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join(_LEAVING)


def works_of(request: Request) -> Works:
    """Of the application; made when it is first asked for."""
    state = request.app.state
    with _making:
        if getattr(state, "works", None) is None:
            state.works = Works()
        return cast("Works", state.works)


_making = threading.Lock()
