"""What a stranger's code says when it fails: on made-up records all of it, on private ones the kind of error alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from discreet.errors import BadInput, DiscreetError


@contextmanager
def hushed(what: str) -> Iterator[None]:
    """Around code that sees private records: its errors and warnings may quote one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except DiscreetError:
        raise
    except Exception as failed:  # noqa: BLE001 - whatever it is
        raise BadInput(
            what, f"on your records it ended with {type(failed).__name__}", "Try it on made-up records like yours"
        ) from None


@contextmanager
def in_full(what: str, remedy: str = "Model and loss must work for one record under torch.func.vmap") -> Iterator[None]:
    """Around the same code on made-up or public records, before anything is charged."""
    try:
        yield
    except DiscreetError:
        raise
    except Exception as failed:
        raise BadInput(
            what,
            f"on made-up records like yours it ended with {type(failed).__name__}: {failed}",
            remedy,
        ) from failed
