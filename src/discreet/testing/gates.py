"""The contract of a gate: it is paid for first, a unit brings its few values once, and a coin decides.

    def test_my_gate():
        check_gate(lambda: MyGate(k=5, beta=0.5))

``make`` makes a gate; with an integer ``k`` of its own it must take less than 40 units to pass. ``rows`` makes what
`release` reads of pairs (unit, text), in their order: by default `discreet.gates.text_log`. ``texts`` and ``counts`` of
what is released are read off it, as `discreet.gates.Released` has them.

A gate's randomness is a key: coins of (unit, value). So the replay kit freezes the key, and what may then change with
one unit is the presence of at most ``values`` of its own values (the gate's, by default 1), and their counts by one.
A null is a unit whose texts are missing. Charges, receipts and parameters may not change at all.

Each check raises AssertionError with what does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from discreet.errors import BadInput, ReceiptRefused
from discreet.gates.query_log import text_log
from discreet.noise import Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.events import Event, Laplace
from discreet.privacy.ledger import Ledger, Line, MemorySink, Receipt, Terms, committed
from discreet.roles import Gate
from discreet.testing.neighbours import check_neighbours

Pair = tuple[str | None, str | None]
Rows = Callable[[Sequence[Pair]], Any]
_KEYS = 12


def check_gate(make: Callable[[], Gate], *, rows: Rows | None = None) -> None:
    """Raise AssertionError with the first thing that a gate does wrong."""
    room = _Room(make, rows or _log)
    _check_price(room)
    _check_payment(room)
    _check_little(room)
    _check_units(room)
    _check_coins(room)
    _check_neighbours(room)


def _log(pairs: Sequence[Pair]) -> Any:
    return text_log([text for _, text in pairs], [unit for unit, _ in pairs])


class _Room:
    """A gate, and what it reads."""

    def __init__(self, make: Callable[[], Gate], rows: Rows) -> None:
        self.make, self.rows, gate = make, rows, make()
        self.unit = str(getattr(gate, "unit", "person"))
        self.named = self.unit == "person"
        self.values, self.k = int(getattr(gate, "values", 1)), int(getattr(gate, "k", 2))
        self.many, self.terms = 40, self._terms(gate.price())

    def _terms(self, event: Event) -> Terms:
        budget = Budget(epsilon=10**6, delta="0.5", unit="person" if self.named else "record")
        return committed(budget, [Line(who="log", event=event, count=1)])

    def paid(self, ledger: Ledger) -> Receipt:
        return ledger.charge(event=self.make().price(), who="log", why="release")

    def ledger(self, seed: int) -> Ledger:
        return Ledger.create(MemorySink(), self.terms, source=Seeded(seed))

    def another(self) -> Receipt:
        """For something else."""
        ledger = Ledger.create(MemorySink(), self._terms(Laplace(epsilon=1)), source=Seeded(0))
        return ledger.charge(event=Laplace(epsilon=1), who="log", why="something else")

    def released(self, pairs: Sequence[Pair], seed: int = 0, ledger: Ledger | None = None) -> dict[str, int]:
        """By value: how many kept it, or 1 where that is not told."""
        book = self.ledger(seed) if ledger is None else ledger
        release = self.make().release(self.rows(pairs), receipt=self.paid(book))
        texts = list(release.texts.to_pylist() if hasattr(release.texts, "to_pylist") else release.texts)
        assert all(isinstance(text, str) for text in texts), "what it releases is not text"
        assert len(set(texts)) == len(texts), "it releases a value twice"
        counts = [1] * len(texts) if release.counts is None else [int(count) for count in release.counts]
        return dict(zip(texts, counts, strict=True))

    def crowd(self) -> list[Pair]:
        """Values that many have, some have, few have, and one; and rows that say nothing."""
        held = {"of all": self.many, "of half": self.many // 2, "of few": self.k}
        pairs: list[Pair] = [(f"u{unit}", text) for text, count in held.items() for unit in range(count)]
        nobody: list[Pair] = [(None, "of nobody")] * self.many
        return [*pairs, ("one", "of one"), ("u1", None), ("u2", ""), (None, None), *nobody]


def _check_price(room: _Room) -> None:
    price = room.make().price()
    assert isinstance(price, Event), "its price is not an event"
    assert room.make().price() == price, "two gates of one setting have two prices"


def _check_payment(room: _Room) -> None:
    log = room.rows(room.crowd())
    spent = room.paid(room.ledger(0))
    room.make().release(log, receipt=spent)
    wrong = {"a spent receipt": spent, "a receipt for something else": room.another(), "no receipt": None}
    for why, receipt in wrong.items():
        try:
            room.make().release(log, receipt=receipt)  # type: ignore[arg-type]
        except (BadInput, ReceiptRefused):
            continue
        raise AssertionError(f"it releases on {why}")


def _check_little(room: _Room) -> None:
    assert room.released([]) == {}, "of nothing it releases something"
    assert room.released([("u1", None), ("u2", "")]) == {}, "of rows without a text it releases something"
    if room.k > 1:
        alone = [(f"u{number}", f"own {number}") for number in range(room.many)]
        assert room.released(alone) == {}, "it releases what one unit alone has"
    few = [(f"u{unit}", "rare") for unit in range(room.k - 1)]
    assert all(room.released(few, seed) == {} for seed in range(5)), "it releases what fewer than k units have"


def _check_units(room: _Room) -> None:
    """One unit, many rows: however often it says something, it says it once, and it says few things."""
    texts = {text for _, text in room.crowd() if text}
    for seed in range(5):
        counts = room.released(room.crowd(), seed)
        assert set(counts) <= texts, "it releases what nobody said"
        assert "of nobody" not in counts or not room.named, "it releases what no unit said"
        assert all(count <= room.many for count in counts.values()), "it counts more units than there are"
        if room.named:
            assert room.released(room.crowd()[::-1], seed) == counts, "the order of the rows changes what is released"
    if room.named and room.k > 1:
        loud = [("u0", "loud")] * (50 * room.k)
        assert all(room.released(loud, seed) == {} for seed in range(5)), "one unit that repeats itself passes"


def _check_coins(room: _Room) -> None:
    """A value that passes under every key, or under none, whatever its number of units, was decided by no coin."""
    for count in range(room.k, room.many + 1, max(1, (room.many - room.k) // 8)):
        pairs = [(f"u{unit}", "perhaps") for unit in range(count)]
        if len({bool(room.released(pairs, seed)) for seed in range(_KEYS)}) > 1:
            return
    raise AssertionError("no coin decides what is released: it is the same under every key")


def _check_neighbours(room: _Room) -> None:
    """With the key frozen one unit changes its own few values, each by one."""
    crowd = room.crowd()
    crowd += [("u0", f"word {number}") for number in range(5)] * 3
    crowd += [(f"u{unit}", f"word {unit % 5}") for unit in range(room.many)]
    outputs: list[dict[str, int]] = []

    def mechanism(pairs: Any, ledger: Ledger) -> None:
        outputs.append(room.released(pairs, ledger=ledger))

    for gone in _units(room, crowd):
        other = [(unit, None if number in gone else text) for number, (unit, text) in enumerate(crowd)]
        changed = {crowd[number][1] for number in gone}
        for seed in range(3):
            outputs.clear()
            check_neighbours(mechanism, crowd, neighbours=[other], terms=room.terms, seed=seed)
            _compare(room, outputs, changed)


def _units(room: _Room, crowd: Sequence[Pair]) -> list[set[int]]:
    """Of some units the places of their rows: one that says much, one that says little, one that is alone."""
    if not room.named:  # a unit is a row
        return [{0}, {room.many}, {len(crowd) - 1}]
    return [{row for row, (unit, _) in enumerate(crowd) if unit == name} for name in ("u0", "one", f"u{room.many - 1}")]


def _compare(room: _Room, outputs: Sequence[dict[str, int]], texts: set[str | None]) -> None:
    # the kit runs three times a pair: recorded, replayed on the same rows, and on the neighbour's
    for recorded, again, neighbour in zip(outputs[::3], outputs[1::3], outputs[2::3], strict=True):
        assert recorded == again, "one key gives two outputs of the same rows"
        changed = {text for text in recorded.keys() | neighbour.keys() if recorded.get(text) != neighbour.get(text)}
        assert changed <= texts, "one unit changes a value that it did not say"
        assert len(changed) <= room.values, "one unit changes more values than it may bring"
        both = [text for text in changed if text in recorded and text in neighbour]
        assert all(abs(recorded[text] - neighbour[text]) <= 1 for text in both), "one unit counts more than once"
