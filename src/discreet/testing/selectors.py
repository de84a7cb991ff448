"""The contract of a selector: it asks whom it was given, never too many, and says nothing of a record unpaid.

    def test_my_selector():
        check_selector(lambda: MySelector(...))

``make`` makes a selector for scores in [0, 1]. Its price is charged to a simulation's ledger, its receipts are handed
over in the order of the price. Each check raises AssertionError with what does not hold.

A selector that reads something else than scores says what it makes of them: ``reads`` turns scores (n,), a null's 0
among them, into what `select` is given, row by row, such as embeddings (n, d).

One with ``hides_asked`` releases its threshold and not whom it asks. It asks at most its own ``slots``, and a record
may change its own being asked and nobody else's: it displaces nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import Seeded
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.records import Selection
from discreet.roles import Selector
from discreet.selectors.selection_inputs import charge_selection
from discreet.testing.neighbours import AMPLE, check_neighbours

_IDS = [f"record {number}" for number in range(40)]
_SCORES = np.linspace(0.01, 0.99, 40)


Reads = Callable[[Any], Any]


def check_selector(make: Callable[[], Selector], *, reads: Reads = lambda scores: scores) -> None:
    """Raise AssertionError with the first thing that a selector does wrong."""
    _check_sizes(make, reads)
    _check_odd_scores(make, reads)
    _check_refusals(make, reads)
    _check_order(make, reads)
    if make().price(4, 40):
        _check_payment(make, reads)
        _check_neighbours(make, reads)


def run(selector: Selector, ids: Any, scores: Any, k: int, *, seed: int = 0, ledger: Ledger | None = None) -> Selection:
    """One selection, charged to a simulation's ledger."""
    book = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(seed)) if ledger is None else ledger
    paid = charge_selection(book, selector, k=k, pool_size=len(ids), who="pool", why="selection")
    return selector.select(ids=ids, scores=scores, k=k, receipt=paid)


def _check_sizes(make: Callable[[], Selector], reads: Reads) -> None:
    for count, k in ((40, 10), (40, 0), (40, 40), (40, 1000), (1, 1), (0, 5)):
        selection = run(make(), _IDS[:count], reads(_SCORES[:count]), k)
        assert isinstance(selection, Selection), "it does not return a Selection"
        assert len(selection) <= min(_most(make(), k), count), "it asks more than it was told to"
        assert len(set(selection.ids)) == len(selection), "it asks somebody twice"
        assert set(selection.ids) <= set(_IDS[:count]), "it asks somebody who is not in the pool"
        assert selection.mechanism == make().name, "its selection does not say how it was made"
    assert len(run(make(), _IDS, reads(_SCORES), 1000)) == 40, "asked for everybody, it leaves some out"


def _check_odd_scores(make: Callable[[], Selector], reads: Reads) -> None:
    strange = _SCORES.copy()
    strange[:6] = np.nan, np.inf, -np.inf, 5.0, -5.0, 1e300
    for scores in (np.zeros(40), np.ones(40), np.full(40, 0.5), np.full(40, np.nan), strange, _SCORES.tolist()):
        assert len(run(make(), _IDS, reads(scores), 10)) <= _most(make(), 10), "it asks more than it was told to"
    assert run(make(), np.array(_IDS), reads(_SCORES), 40).ids, "it does not take ids as an array"


def _check_refusals(make: Callable[[], Selector], reads: Reads) -> None:
    for ids, k, why in (
        (["a", "b", "a"], 1, "an id that occurs twice"),
        ([1, 2, 3], 1, "ids that are not text"),
        (["a", "b", "c"], -1, "a negative k"),
        (["a", "b", "c"], 1.5, "a k that is not whole"),
    ):
        message = ""
        try:
            run(make(), ids, reads([0.1, 0.2, 0.3]), k)  # type: ignore[arg-type]
        except BadInput as refused:
            message = str(refused)
        assert message, f"it takes {why}"
        assert not any(number in message for number in ("0.1", "0.2", "0.3")), "an error repeats a score"


def _check_order(make: Callable[[], Selector], reads: Reads) -> None:
    """Whoever is shown first is no likelier to score high: over many runs the highest comes first in its share."""
    selector = make()
    firsts = Counter(
        _IDS.index(selection.ids[0]) >= np.median([_IDS.index(name) for name in selection.ids])
        for seed in range(200)
        if (selection := run(selector, _IDS, reads(_SCORES), 20, seed=seed)).ids
    )
    repeated = [run(make(), _IDS, reads(_SCORES), 20, seed=3).ids for _ in range(2)]
    assert repeated[0] == repeated[1] or not selector.price(20, 40), "one seed gives two selections"
    if selector.price(20, 40):  # without receipts chance comes from elsewhere
        assert 60 <= firsts[True] <= 150, "the order in which records are shown tells their scores"


def _check_payment(make: Callable[[], Selector], reads: Reads) -> None:
    selector, book = make(), Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(0))
    paid = charge_selection(book, selector, k=10, pool_size=40, who="pool", why="selection")
    selector.select(ids=_IDS, scores=reads(_SCORES), k=10, receipt=paid)
    for receipts in (paid, [], paid * 2):
        try:
            selector.select(ids=_IDS, scores=reads(_SCORES), k=10, receipt=receipts)
        except (BadInput, ReceiptRefused):
            continue
        raise AssertionError("it draws twice on one receipt, or without one")


def _check_neighbours(make: Callable[[], Selector], reads: Reads) -> None:
    """Record and replay: with the outputs frozen, nothing it says may change with one record's score."""

    def mechanism(scores: Any, ledger: Ledger) -> Any:
        selection = run(make(), _IDS[: len(scores)], reads(scores), 10, ledger=ledger)
        if not _hides_asked(make()):
            return selection.ids, selection.threshold, selection.dropped
        asked.append(set(selection.ids))
        return selection.threshold, selection.dropped

    asked: list[set[str]] = []
    check_neighbours(mechanism, _SCORES, null=0.0, most=8)
    # the kit runs three times a pair: recorded, replayed on the same scores, and on the neighbour's
    for recorded, replayed in zip(asked[::3], asked[2::3], strict=True):
        assert len(recorded ^ replayed) <= 1, "a record changes whether others are asked"


def _hides_asked(selector: Selector) -> bool:
    return bool(getattr(selector, "hides_asked", False))


def _most(selector: Selector, k: int) -> int:
    """How many it may ask: k, or, where that is hidden, its own public bound."""
    return int(getattr(selector, "slots", k)) if _hides_asked(selector) else k
