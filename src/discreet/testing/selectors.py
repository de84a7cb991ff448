"""The contracts of a selector and of a score: whom a selector asks is paid for, and a score stays in its range.

    def test_my_selector():
        check_selector(lambda: MySelector(...))

``make`` makes a selector for scores in [0, 1]. Its price is charged to a simulation's ledger, its receipts are handed
over in the order of the price. Each check raises AssertionError with what does not hold.

A selector that reads something else than scores says what it makes of them: ``reads`` turns scores (n,), a null's 0
among them, into what `select` is given, row by row, such as embeddings (n, d).

One with ``hides_asked`` releases its threshold and not whom it asks. It asks at most its own ``slots``, and a record
may change its own being asked and nobody else's: it displaces nobody.

    def test_my_score():
        check_scorer(lambda: OwnScore(function=spread, range=(0, 1), needs="draws"), classes=3)

A score is in its declared range whatever it is given, of a record's own values alone, and a null has the bottom. Values
are made up as its ``needs`` says: (n, C), (J, n, C), (n, d), or anything. Among them are records that hurt: certain
ones, even ones, zeros, negative and huge numbers, NaN and infinity. At the end a pool is scored and asked by coins
under the replay kit: what a record changes is its own coin and nothing else.

``uncertainty``: the score says how unsure a model is, so an even prediction (or draws that disagree) comes no later
than a certain one. A score of something else, such as the chance of one class, is checked for the rest.
"""

from __future__ import annotations

import math
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import Seeded
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.records import Selection
from discreet.roles import Scorer, Selector
from discreet.selectors.selection_inputs import charge_selection
from discreet.selectors.threshold_selector import ThresholdSelector
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


Made = Callable[[], Scorer]
Floats = NDArray[np.float64]
NEEDS = ("proba", "draws", "embedding", "nothing")
_DRAWS, _WIDTH, _ROUNDING = 6, 5, 1e-9
_TELLTALE = 0.123456789


def check_scorer(make: Made, *, classes: int = 3, several_labels: bool = False, uncertainty: bool = True) -> None:
    """Raise AssertionError with the first thing that a score does wrong."""
    _check_facts(make())
    values = _Values(make(), classes, several_labels)
    _check_range(make, values)
    _check_null(make, values)
    _check_own(make, values)
    if uncertainty:
        _check_direction(make, values)
    _check_errors(make, values)
    _check_pool(make, values)


class _Values:
    """Made-up values of one kind of score; records are the last axis but one."""

    def __init__(self, scorer: Scorer, classes: int, several_labels: bool) -> None:
        self.drawn, self.several = scorer.needs == "draws", several_labels
        self.model = scorer.needs in ("proba", "draws")
        self.width = classes if self.model else _WIDTH
        self.draws = int(getattr(scorer, "draws", _DRAWS))

    def ordinary(self, count: int, seed: int = 0) -> Floats:
        """As models give them."""
        rng = np.random.default_rng(seed)
        shape = (self.draws, count) if self.drawn else (count,)
        if not self.model:
            return rng.normal(size=(*shape, self.width))
        return rng.random((*shape, self.width)) if self.several else rng.dirichlet(np.ones(self.width), size=shape)

    def extreme(self) -> Floats:
        """A record each: all of one number, certain of one class, and things that are no prediction."""
        rows = [np.full(self.width, number) for number in (0.0, 1.0, 1 / self.width, 0.5, -1.0, 1e300, -1e300, 5e-324)]
        rows += [np.eye(self.width)[column] for column in range(self.width)]
        rows += [self._with(np.nan), self._with(np.inf), self._with(-np.inf), np.full(self.width, np.nan)]
        return self._all(np.array(rows))

    def nulls(self) -> Floats:
        """Records of which nothing is known."""
        return self._all(np.full((3, self.width), np.nan))

    def certain(self) -> Floats:
        """One record, of one class."""
        return self._all(np.eye(self.width)[:1])

    def unsure(self) -> Floats:
        """One record: even, or draws that disagree."""
        if not self.drawn:
            return np.full((1, self.width), 0.5 if self.several else 1 / self.width)
        each = np.arange(self.draws) % 2 if self.several else np.arange(self.draws) % self.width
        rows = np.repeat(each[:, None], self.width, axis=1) if self.several else np.eye(self.width)[each]
        return np.asarray(rows[:, None, :], dtype=np.float64)

    def _with(self, number: float) -> Floats:
        row = np.full(self.width, 1 / self.width)
        row[-1] = number
        return row

    def _all(self, rows: Floats) -> Floats:
        return np.repeat(rows[None], self.draws, axis=0) if self.drawn else rows


def _check_facts(scorer: Scorer) -> None:
    assert isinstance(scorer.name, str), "its name is not text"
    assert scorer.name, "it has no name"
    bottom, top = scorer.range
    assert math.isfinite(bottom + top), "its range is not finite"
    assert bottom < top, "the bottom of its range is not below its top"
    assert scorer.needs in NEEDS, f"it needs something that is none of {', '.join(NEEDS)}"


def _check_range(make: Made, values: _Values) -> None:
    bottom, top = make().range
    for inputs in (values.ordinary(50), values.extreme(), values.ordinary(1), values.ordinary(0)):
        for form in _forms(inputs):
            scores = _scored(make(), form)
            assert scores.shape == (inputs.shape[-2],), "it does not give one number a record"
            assert np.isfinite(scores).all(), "a score is no number"
            assert ((scores >= bottom) & (scores <= top)).all(), "a score is outside the declared range"


def _forms(inputs: Floats) -> list[Any]:
    """The same values as other types; an empty list would have no classes."""
    with np.errstate(over="ignore"):
        return [inputs, inputs.astype(np.float32), *([inputs.tolist()] if inputs.shape[-2] else [])]


def _check_null(make: Made, values: _Values) -> None:
    scores = _scored(make(), values.nulls())
    assert (scores == make().range[0]).all(), "a null does not score the bottom"


def _check_own(make: Made, values: _Values) -> None:
    """Other records in the same places change nothing at all; other places, nothing but rounding."""
    inputs = values.ordinary(20)
    before, scores = inputs.copy(), _scored(make(), inputs)
    assert np.array_equal(inputs, before), "it writes into what it is given"
    assert np.array_equal(_scored(make(), inputs), scores), "the same values score otherwise the second time"
    others = [
        values.ordinary(20, seed=1),
        np.zeros_like(inputs),
        np.full_like(inputs, np.nan),
        np.ones_like(inputs) * 1e6,
    ]
    for other in others:
        for row in (0, 7, 19):
            mixed = other.copy()
            mixed[..., row, :] = inputs[..., row, :]
            assert _scored(make(), mixed)[row] == scores[row], "a record's score depends on the other records"
    order = np.random.default_rng(2).permutation(20)
    _close(_scored(make(), inputs[..., order, :]), scores[order], "the order of the records changes their scores")
    for row in range(0, 20, 5):
        alone = _scored(make(), inputs[..., row : row + 1, :])
        _close(alone, scores[row : row + 1], "a record alone scores otherwise than among others")


def _check_direction(make: Made, values: _Values) -> None:
    if values.model:
        unsure, certain = _scored(make(), values.unsure())[0], _scored(make(), values.certain())[0]
        assert unsure >= certain, "the certain come before the unsure: higher is ask first"


def _check_errors(make: Made, values: _Values) -> None:
    """Values of another shape, or none at all: what is said of them repeats nothing."""
    telltale = np.full_like(values.ordinary(4), _TELLTALE)
    for odd in (telltale[..., :-1], telltale[0], telltale[None], [[str(_TELLTALE)]], [_TELLTALE, [1.0]]):
        try:
            make().score(odd)
        except Exception as refused:  # noqa: BLE001 - whatever it is, it must not quote
            message = "".join(traceback.format_exception_only(refused)) + _behind(refused)
            assert str(_TELLTALE) not in message, "an error repeats a value"


def _check_pool(make: Made, values: _Values) -> None:
    """Scored, and asked by coins above a declared threshold: a record, or its null, changes its own coin at most."""
    bottom, top = make().range
    selector = ThresholdSelector(asked=2, threshold=bottom + (top - bottom) / 4, range=(bottom, top))
    names = [f"r{number}" for number in range(12)]

    def mechanism(records: Any, ledger: Ledger) -> Any:
        inputs = np.moveaxis(records, 0, -2)
        return run(selector, names, _scored(make(), inputs), 6, ledger=ledger).ids

    pool = np.moveaxis(values.ordinary(12, seed=3), -2, 0)
    check_neighbours(mechanism, pool, null=np.full(pool.shape[1:], np.nan), most=4)


def _scored(scorer: Scorer, values: Any) -> Floats:
    with np.errstate(all="ignore"):
        scores = scorer.score(values)
    assert isinstance(scores, np.ndarray), "it does not give an array"
    return np.asarray(scores, dtype=np.float64)


def _close(left: Floats, right: Floats, line: str) -> None:
    assert np.allclose(left, right, rtol=_ROUNDING, atol=_ROUNDING), line


def _behind(error: BaseException) -> str:
    """What a traceback would show of the errors before."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "" if before is None else f"{before!r}{_behind(before)}"
