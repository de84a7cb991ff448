"""Private hyper-parameter search, paid for: what it costs, and doing it."""

from typing import TYPE_CHECKING

from discreet.lazy_imports import lazy_names
from discreet.tuning.pricing import RunShape, TuningPrice, price_search

if TYPE_CHECKING:
    from discreet.tuning.searching import SearchResult, tune

__all__ = ["RunShape", "SearchResult", "TuningPrice", "price_search", "tune"]
# searching brings scikit-learn with it; stating a price does not
__getattr__ = lazy_names(__name__, dict.fromkeys(("SearchResult", "tune"), "discreet.tuning.searching"))
