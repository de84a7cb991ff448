"""What fails in Spark's workers, where they can import it."""

from dataclasses import dataclass

from discreet.gates.query_log import Piece


def fail(text):
    """A user's normalisation, which cannot take some texts."""
    if "secret" in text:
        raise KeyError(text)
    return text


@dataclass(frozen=True)
class BadPart:
    """A file that is not there."""

    def pieces(self, number, text, unit):
        yield Piece(number, 1, gone)

    def check_readable(self, text, unit):
        pass

    def check_unchanged(self):
        pass


def gone():
    raise FileNotFoundError("something quoted")
