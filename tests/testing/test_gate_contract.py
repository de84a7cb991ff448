"""The contract of gates passes ours (tests/contracts) and fails each planted mistake."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from discreet.noise import release_key
from discreet.noise.coins import numerator
from discreet.privacy.events import Pure
from discreet.testing import NotPrivate, check_gate

pytestmark = pytest.mark.thorough


@dataclass(kw_only=True)
class Simple:
    """One coin a (person, value), persons counted. ``wrong`` names one mistake."""

    k: int = 3
    beta: float = 0.5
    values: int = 1
    wrong: str = ""

    def price(self):
        return Pure(epsilon=5)

    def key(self, receipt):
        return release_key(receipt)

    def release(self, rows, *, receipt):
        key = self.key(receipt)
        said = defaultdict(set)
        for place, (unit, text) in enumerate(rows):
            if text and (unit or self.wrong == "nobody"):
                said[unit or f"row {place}"].add(text)
        kept = Counter()
        for unit, texts in said.items():
            chosen = sorted(texts, key=lambda text: key.words([f"{unit}/{text}"], "choose")[0])
            for text in chosen if self.wrong == "no cap" else chosen[: self.values]:
                kept[text] += self.weight(unit, text, rows) if self.fell(key, unit, text) else 0
        passed = sorted(text for text, count in kept.items() if count >= self.least)
        if self.wrong == "size":
            passed = [*passed, f"{len([1 for unit, text in rows if text])} rows"]
        if self.wrong == "by others" and "of one" in {text for _, text in rows}:
            passed = passed[1:]
        passed = passed + passed[:1] if self.wrong == "twice" else passed
        return SimpleNamespace(texts=passed, counts=[kept[text] for text in passed])

    @property
    def least(self):
        return {"no k": 1, "k of one less": self.k - 1}.get(self.wrong, self.k)

    def weight(self, unit, text, rows):
        return sum(row == (unit, text) for row in rows) if self.wrong == "occurrences" else 1

    def fell(self, key, unit, text):
        if self.wrong == "no coins":
            return True
        return bool(key.coins([f"{unit}/{text}"], numerator(self.beta, up=False))[0])


def test_an_honest_gate_passes():
    check_gate(Simple, rows=list)
    check_gate(lambda: Simple(k=4, values=2), rows=list)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("no k", "one unit alone"),
        ("k of one less", "fewer than k"),
        ("no coins", "no coin decides"),
        ("no cap", "more values than it may"),
        ("occurrences", "repeats itself"),
        ("nobody", "no unit said"),
        ("size", "of nothing"),
        ("by others", "did not say"),
        ("twice", "twice"),
    ],
)
def test_a_planted_mistake_is_found(wrong, says):
    with pytest.raises((AssertionError, NotPrivate), match=says):
        check_gate(lambda: Simple(wrong=wrong, values=1), rows=list)


def test_a_gate_that_keeps_its_key_is_found():
    """The same coins for the next batch: a spent receipt is as good as a new one."""

    class Keeps(Simple):
        kept = None

        def key(self, receipt):
            if Keeps.kept is None:
                Keeps.kept = release_key(receipt)
            return Keeps.kept

    with pytest.raises(AssertionError, match="spent receipt"):
        check_gate(Keeps, rows=list)


def test_a_gate_whose_price_changes_is_found():
    prices = iter(range(1, 1000))

    class Dearer(Simple):
        def price(self):
            return Pure(epsilon=next(prices))

    with pytest.raises(AssertionError, match="two prices"):
        check_gate(Dearer, rows=list)
