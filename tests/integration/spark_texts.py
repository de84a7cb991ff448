"""What fails in Spark's workers, where they can import it."""

from dataclasses import dataclass


def fail(text):
    """A user's normalisation."""
    raise KeyError(text)


@dataclass(frozen=True)
class BadPart:
    """A file that is not there."""

    size = 1

    def batches(self, text, unit):
        raise FileNotFoundError("something quoted")
        yield
