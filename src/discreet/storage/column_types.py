"""Types of columns that mean the same in every database."""

from __future__ import annotations

from sqlalchemy import Text as AnyText

Text = AnyText().with_variant(AnyText(collation="C"), "postgresql")
"""Text that is compared and sorted by its bytes, as SQLite does: a locale of the server's must not decide which id
comes first, nor break an index when its library is replaced.
"""
