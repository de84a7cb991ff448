"""HTML and SVG as text that is escaped by construction: what a user wrote is never read as markup.

A child is either `Markup`, made here, or text, which is escaped; an attribute is always escaped. There is no other way
to put a string on a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from html import escape

_VOID = {"meta", "br", "hr", "link", "rect", "line", "path", "circle", "img"}


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """An element. ``class_`` is class, ``aria_label`` is aria-label; None and False leave an attribute out."""
    opening = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    if name in _VOID and not children:
        return Markup(f"<{name}{opening}{'>' if name in ('meta', 'br', 'hr', 'link', 'img') else '/>'}")
    return Markup(f"<{name}{opening}>{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    """Children one after the other."""
    return Markup("".join(_text(child) for child in children))


def _attribute(key: str, value: str | float | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {name}="{escape(text, quote=True)}"'


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return str(child)
    if isinstance(child, str):
        return escape(child, quote=False)
    return str(child) if isinstance(child, int) else "".join(_text(one) for one in child)


def section(title: str, *children: Child) -> Markup:
    """A part of a page, named by the first word of its title."""
    name = title.lower().split()[0]
    return tag("section", tag("h2", title, id=name), *children, aria_labelledby=name)


def table(head: Sequence[str], rows: Sequence[Sequence[Child]], *, words: Sequence[int] = (), name: str) -> Markup:
    """A table whose first column names its rows; columns in ``words`` are text, the others numbers."""
    kinds = ["left" if place == 0 or place in words else None for place in range(len(head))]
    heads = (tag("th", text, scope="col", class_=kind) for text, kind in zip(head, kinds, strict=True))
    body = (
        tag(
            "tr",
            tag("th", row[0], scope="row", class_="left"),
            *(tag("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True)),
        )
        for row in rows
    )
    inside = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *body), aria_label=name)
    return tag("div", inside, class_="scroll", tabindex=0, role="region", aria_label=name)


def rounded(number: Decimal | float, *, up: bool) -> str:
    """Three places, on the safe side: a loss is rounded up, what remains of a budget down."""
    exact = number if isinstance(number, Decimal) else Decimal(repr(number))
    return str(exact.quantize(Decimal("0.001"), rounding=ROUND_CEILING if up else ROUND_FLOOR))
