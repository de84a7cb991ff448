"""People on the pages of `discreet serve`: they take questions from the store and answer into it, by themselves.

So there is nothing to hand over and nothing to collect: published questions appear on the pages, which record who is
shown what, and answers are told when they are given. `discreet run` goes on as far as those answers go.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.records import Answer, Question, Shown


class PageOracle:
    """Published is asked; told is answered."""

    by_name = True
    """Questions are handed out to one named person at a time."""

    def ask(self, questions: Sequence[Question]) -> None:
        """They are on the pages already."""

    def collect(self) -> list[Answer]:
        """Answers were told when they were given."""
        return []

    def shown_to(self, questions: Sequence[Question]) -> list[Shown]:
        """Nobody yet: a page says who, when somebody comes."""
        return []
