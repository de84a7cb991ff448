"""Records as the campaign's model takes them: numbers as they are, texts through a public encoder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.config import CampaignConfig
from discreet.pools import Pool
from discreet.recipes.units import Places, RowsAt

if TYPE_CHECKING:
    from discreet.recipes.texts import TextReader

TRANSFORMER = "transformer"
Scores = NDArray[np.float64]


def reader_of(config: CampaignConfig) -> TextReader | None:
    """What reads texts; None where records are numbers."""
    if config.model.encoder is None:
        return None
    with config.pointing("model.encoder"):
        return _reader(
            config.resolve(config.model.encoder), config.model.max_length, tokens=config.model.name == TRANSFORMER
        )


@lru_cache(maxsize=4)
def _reader(path: Path, max_length: int | None, *, tokens: bool) -> TextReader:
    """Read once in a process: an encoder is large."""
    from discreet.recipes.texts import MAX_LENGTH, TextReader

    return TextReader(path, max_length=max_length or MAX_LENGTH, tokens=tokens)


def inputs_of(config: CampaignConfig, pool: Pool) -> tuple[int, ...]:
    """The public shape of a record, as the model takes it."""
    if pool.x is not None:
        if config.model.encoder is not None:
            raise config.error("model.encoder", "the pool has numbers, and it reads texts", "Remove it")
        return tuple(int(size) for size in pool.x.shape[1:])
    reader = reader_of(config)
    if reader is None:
        raise config.error(
            "pool.text",
            "nothing turns texts into numbers",
            "Name the folder of a public encoder: encoder = '...' in [model]",
        )
    with config.pointing("model.encoder"):
        return reader.inputs


def rows_of(config: CampaignConfig, pool: Pool) -> Any:
    """All records, read when they are asked for: an array, or a table of columns."""
    reader = None if pool.x is not None else reader_of(config)
    return pool.x if reader is None else reader.rows(pool.text)


def rows_at(config: CampaignConfig, pool: Pool, places: Places) -> Any:
    """Some records, in float32 where they are numbers; never copied whole."""
    return rows_among(rows_of(config, pool), places)


def rows_among(rows: Any, places: Places) -> Any:
    """Some of ``rows``, an array or a table of tokens; never copied whole."""
    if isinstance(rows, Mapping):
        return {name: RowsAt(part, places, dtype=np.int64) for name, part in rows.items()}
    return RowsAt(rows, places)


def null_scores(scores: Scores, rows: Any, pool: Pool, places: Places) -> Scores:
    """The scores of ``rows``, once all were read, with NaN for records that could not be: nulls, and never worth
    asking. Of a blank in its place a model may be as unsure as of anything.
    """
    broken = rows.broken if isinstance(rows, RowsAt) and pool.x is not None else pool.broken(places)
    return np.where(broken, np.nan, scores)


def training_rows(config: CampaignConfig, pool: Pool, places: Places) -> Any:
    """Records of a cohort: numbers where they are, texts read once, for every step asks for them again."""
    rows = rows_of(config, pool)
    if pool.x is not None:
        return RowsAt(rows, places)
    return {name: part[places] for name, part in rows.items()} if isinstance(rows, Mapping) else rows[places]


def made_up_rows(config: CampaignConfig, inputs: tuple[int, ...], count: int) -> Any:
    """Nobody's records, of the right shape."""
    reader = reader_of(config)
    if reader is not None:
        return reader.read(["a text"] * count)
    return np.random.default_rng(0).normal(size=(count, *inputs)).astype(np.float32)
