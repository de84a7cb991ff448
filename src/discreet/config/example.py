"""Commented files to begin with. Each is valid as it stands, and says which lines to change."""

from __future__ import annotations

from importlib import resources

from discreet.config.values import nearest
from discreet.errors import BadInput

EXAMPLES = ("private-pool", "public-data", "crowd", "teachers", "stream")


def example(name: str = "private-pool") -> str:
    """The text of a file for this recipe."""
    if name not in EXAMPLES:
        raise BadInput(f"an example called {name}", "there is none", nearest(name, EXAMPLES))
    return (resources.files("discreet.config") / f"{name}.toml").read_text(encoding="utf-8")
