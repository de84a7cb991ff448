"""The gate once more, as simply as it can be written: dictionaries, one row at a time, and the library's own AES."""

from collections import defaultdict
from fractions import Fraction

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from discreet.gates import CrowdGate
from discreet.gates.values import Normaliser
from discreet.noise import SecretKey, Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, Line, MemorySink, committed


class ReferenceWords:
    """docs/reference/release-gate.md, read aloud."""

    def __init__(self, key: SecretKey):
        self.key = key

    def mac(self, use, message):
        cipher = Cipher(algorithms.AES(self.key.derive(f"gate/{use}")._bytes), modes.CBC(bytes(16)))
        return cipher.encryptor().update(message)[-16:]

    def code(self, use, text):
        raw = text.encode()
        return self.mac(use, len(raw).to_bytes(8, "little") + bytes(8) + raw + bytes(-len(raw) % 16))

    def pair(self, use, unit, value):
        return int.from_bytes(self.mac(use, self.code("units", unit) + self.code("values", value))[:8], "little")

    def row(self, file, row):
        block = self.mac("rows", file.to_bytes(8, "little") + (row // 2).to_bytes(8, "little"))
        return int.from_bytes(block[8 * (row % 2) :][:8], "little")


def reference_release(gate: CrowdGate, key: SecretKey, files):
    """``files``: lists of (unit or None, text or None). Returns {text: count} of what passes.

    A unit of None in every row: rows are the units.
    """
    words, one = ReferenceWords(key), Normaliser(gate.normalisation).one
    low = int(Fraction(gate.beta) * 2**63)

    def fell(word):
        return word >> 1 < low

    counts = defaultdict(int)
    if all(unit is None for rows in files for unit, _ in rows):
        for number, rows in enumerate(files):
            for place, (_, text) in enumerate(rows):
                form = None if text is None else one(text)
                if form is not None and fell(words.row(number, place)):
                    counts[form] += 1
    else:
        brought = defaultdict(set)
        for rows in files:
            for unit, text in rows:
                form = None if text is None else one(text)
                if form is not None and unit:
                    brought[unit].add(form)
        for unit, forms in brought.items():
            for form in sorted(forms, key=lambda form: words.pair("caps", unit, form))[: gate.values]:
                if fell(words.pair("coins", unit, form)):
                    counts[form] += 1
    return {form: count for form, count in counts.items() if count >= gate.k}


def simulated(gate: CrowdGate, seed: int = 1, count: int = 1):
    """A ledger that pays for ``count`` releases of a gate, from a seed."""
    line = Line(who="queries", event=gate.price(), count=count)
    terms = committed(Budget(epsilon=10**6, delta="0.999999999", unit=gate.unit), [line])
    return Ledger.create(MemorySink(), terms, source=Seeded(seed))


def paid(gate: CrowdGate, seed: int = 1):
    """A receipt for one release of a gate, from a seed, and the ledger that must be kept open for it."""
    ledger = simulated(gate, seed)
    return ledger.charge(event=gate.price(), who="queries", why="release"), ledger
