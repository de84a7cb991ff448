"""The sink contract passes ours and fails sinks with a planted bug."""

import pytest

from discreet.errors import LedgerUnavailable
from discreet.privacy.ledger import FileSink, MemorySink
from discreet.testing import check_ledger_in, check_sink

pytestmark = pytest.mark.thorough


def test_the_file_sink_keeps_its_contract(tmp_path):
    check_sink(lambda: FileSink(tmp_path / "lines"))
    check_ledger_in(lambda: FileSink(tmp_path / "ledger"))


def test_the_memory_sink_keeps_its_contract():
    lines, ledger = [], []
    check_sink(lambda: MemorySink(lines), outlives_process=False)
    check_ledger_in(lambda: MemorySink(ledger))


class Forgetful(MemorySink):
    def __init__(self, lines):
        super().__init__(list(lines))


class Trusting(MemorySink):
    def append(self, at, lines):
        self._lines += lines


class Reordering(MemorySink):
    def append(self, at, lines):
        super().append(at, sorted(lines))


class Trimming(MemorySink):
    def append(self, at, lines):
        super().append(at, [line[:1000] for line in lines])


class Late(MemorySink):
    def append(self, at, lines):
        if at != len(self._lines) and self._lines:
            self._lines += lines
            raise LedgerUnavailable("appending", "too late", "")
        super().append(at, lines)


class Deaf(MemorySink):
    def close(self):
        pass


class ShortMemory(MemorySink):
    def append(self, at, lines):
        super().append(at, lines)
        self._lines[:] = [b"gone\n"] * max(0, len(self._lines) - 8) + self._lines[-8:]


class Buffering(FileSink):
    """Writes when it is closed."""

    def append(self, at, lines):
        if not hasattr(self, "later"):
            self.later = list(super().read())
        if at != len(self.later) or self._file < 0:
            raise LedgerUnavailable("appending", "not the end", "")
        self.later += lines

    def read(self):
        return getattr(self, "later", None) or super().read()

    def close(self):
        kept = len(super().read()) if self._file >= 0 else 0
        later, self.later = getattr(self, "later", []), []
        if later[kept:]:
            super().append(kept, later[kept:])
        super().close()


def test_a_sink_that_writes_late_fails_the_contract(tmp_path):
    with pytest.raises(AssertionError, match="durable"):
        check_sink(lambda: Buffering(tmp_path / "lines"))


@pytest.mark.parametrize("broken", [Forgetful, Trusting, Reordering, Trimming, Late, Deaf, ShortMemory])
def test_a_sink_with_a_planted_bug_fails_the_contract(broken):
    lines = []
    with pytest.raises(AssertionError, match="contract"):
        check_sink(lambda: broken(lines), outlives_process=False)


def test_a_sink_without_a_method_fails_the_contract():
    class Half:
        def read(self):
            return []

    with pytest.raises(AssertionError, match="read, append and close"):
        check_sink(Half)
