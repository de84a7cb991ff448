"""The sink contract passes ours and fails sinks with a planted bug."""

import pytest

from discreet.errors import LedgerUnavailable
from discreet.privacy.ledger import FileSink, MemorySink
from discreet.testing import check_ledger_in, check_sink


def test_the_file_sink_keeps_its_contract(tmp_path):
    check_sink(lambda: FileSink(tmp_path / "lines"))
    check_ledger_in(lambda: FileSink(tmp_path / "ledger"))


def test_the_memory_sink_keeps_its_contract():
    lines, ledger = [], []
    check_sink(lambda: MemorySink(lines))
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


@pytest.mark.parametrize("broken", [Forgetful, Trusting, Reordering, Trimming, Late, Deaf])
def test_a_sink_with_a_planted_bug_fails_the_contract(broken):
    lines = []
    with pytest.raises(AssertionError, match="contract"):
        check_sink(lambda: broken(lines))


def test_a_sink_without_a_method_fails_the_contract():
    class Half:
        def read(self):
            return []

    with pytest.raises(AssertionError, match="read, append and close"):
        check_sink(Half)
