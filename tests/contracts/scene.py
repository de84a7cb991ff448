"""One run for the replay kit: a mechanism, its records, and the modules whose draws it goes through."""

from dataclasses import dataclass
from typing import Any

from discreet.testing import check_neighbours


@dataclass(frozen=True, kw_only=True)
class Scene:
    """``modules``: which draw, or make what draws. ``drawn_in``: through which the draws go, where these are others.
    ``slow``: seconds, so it is thorough.
    """

    mechanism: Any
    data: Any
    null: Any = None
    neighbours: Any = None
    terms: Any = None
    modules: tuple[str, ...]
    drawn_in: tuple[str, ...] = ()
    most: int = 3
    slow: bool = False

    def check(self, mechanism=None):
        terms = self.terms() if callable(self.terms) else self.terms
        others = self.neighbours() if callable(self.neighbours) else self.neighbours
        data = self.data() if callable(self.data) else self.data
        return check_neighbours(
            mechanism or self.mechanism, data, null=self.null, neighbours=others, terms=terms, most=self.most
        )
