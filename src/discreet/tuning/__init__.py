"""Private hyper-parameter search, paid for: what it costs, and doing it."""

from typing import TYPE_CHECKING, Any

from discreet.tuning.pricing import RunShape, TuningPrice, price_search

if TYPE_CHECKING:
    from discreet.tuning.searching import Found, tune

__all__ = ["Found", "RunShape", "TuningPrice", "price_search", "tune"]


def __getattr__(name: str) -> Any:
    """Searching brings scikit-learn with it; stating a price does not."""
    if name in ("Found", "tune"):
        from discreet.tuning import searching

        return getattr(searching, name)
    raise AttributeError(f"module 'discreet.tuning' has no attribute {name!r}")
