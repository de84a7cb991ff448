"""The public records that a campaign on public data asked about: the most central of each cluster, what the model said
of it before, and what people say (the Public paper's Figure 4b).

Guarantee: only campaigns whose pool is public have a gallery; a private pool's is refused. What a private model says of
public records is post-processing. Audience: world.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from discreet.campaign import Campaign
from discreet.campaign.standing import PUBLISHED
from discreet.errors import BadInput, NotNow
from discreet.pools.pictures import is_picture, png
from discreet.recipes.model_records import rows_at
from discreet.recipes.public_data import PublicData
from discreet.records import Value

FORMAT = "discreet.gallery/1"
MOST = 400


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One record. ``cluster``: None where the selector makes none. ``label``: None where nobody has said it yet."""

    id: str
    cluster: int | None
    support: int | None
    predicted: str
    label: str | None
    picture: str = field(default="", repr=False)

    @property
    def verdict(self) -> str:
        """Whether the model was right before it learnt."""
        if self.label is None:
            return "open"
        return "right" if self.label == self.predicted else "wrong"


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Of one round. ``asked``: how many were asked in it, of whom these are shown."""

    name: str
    simulation: bool
    phase: int
    mechanism: str
    asked: int
    shown: tuple[Shown, ...] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Everything but the pictures."""
        records = [{key: value for key, value in asdict(one).items() if key != "picture"} for one in self.shown]
        return {
            "format": FORMAT,
            "simulation": self.simulation,
            "audience": "world",
            "name": self.name,
            "phase": self.phase,
            "mechanism": self.mechanism,
            "asked": self.asked,
            "records": [form | {"verdict": one.verdict} for form, one in zip(records, self.shown, strict=True)],
        }


def gallery_of(campaign: Campaign, phase: int | None = None, *, most: int = MOST) -> Gallery:
    """The records of round ``phase`` (the newest, without one), at most ``most`` of them."""
    recipe = campaign.recipe
    if not isinstance(recipe, PublicData):
        raise BadInput("a gallery of this campaign", "its records are private", "Only public-data campaigns have one")
    rounds = {one.phase: one.facts for one in campaign.store.transitions() if one.kind == PUBLISHED and one.phase}
    if not rounds or (phase is not None and phase not in rounds):
        raise NotNow("a gallery", "nobody was asked in that round yet", "Ask first")
    number = max(rounds) if phase is None else phase
    gone, facts = campaign.pool.withdrawn, rounds[number]
    asked = [one.record for one in sorted(campaign.store.questions(number), key=lambda one: one.place)]
    ids = _central([one for one in asked if one not in gone], facts)[:most]
    places = campaign.pool.places(ids)
    rows = rows_at(recipe.config, campaign.pool, places)
    predicted = _classes(campaign, number, rows) if ids else []
    labels, pictures = campaign.labels(), _pictures(rows)
    ranked = facts.get("support") or {"ids": (), "counts": ()}
    support = dict(zip(ranked["ids"], ranked["counts"], strict=True))
    clusters = facts.get("clusters", {})
    return Gallery(
        name=campaign.name,
        simulation=campaign.simulation,
        phase=number,
        mechanism=str(facts["mechanism"]),
        asked=len(asked),
        shown=tuple(
            Shown(
                id=one,
                cluster=clusters[one][0] if one in clusters else None,
                support=support.get(one),
                predicted=said,
                label=_words(labels.get(one)),
                picture=picture,
            )
            for one, said, picture in zip(ids, predicted, pictures, strict=True)
        ),
    )


def _central(asked: list[str], facts: Mapping[str, Any]) -> list[str]:
    """The most central of each cluster; where there are none, all, those with the most support first."""
    clusters: Mapping[str, list[int]] = facts.get("clusters", {})
    if clusters:
        first: dict[int, tuple[int, str]] = {}
        for one in asked:
            cluster, rank = clusters[one]
            first[cluster] = min(first.get(cluster, (rank, one)), (rank, one))
        return [one for _, (_, one) in sorted(first.items())]
    ranked = {one: place for place, one in enumerate((facts.get("support") or {}).get("ids", ()))}
    return sorted(asked, key=lambda one: ranked.get(one, len(ranked)))


def _classes(campaign: Campaign, number: int, rows: Any) -> list[str]:
    """What the model of the round before says: the one that chose them."""
    found, names = np.asarray(campaign.predictor(number - 1).predict_proba(rows)), campaign.recipe.classes
    if campaign.recipe.multilabel:
        return [_words(tuple(n for n, one in zip(names, row, strict=True) if one > 0.5)) or "" for row in found]
    return [names[place] for place in found.argmax(axis=1).tolist()]


def _words(value: Value) -> str | None:
    return ", ".join(value) or "none" if isinstance(value, tuple) else value


def _pictures(rows: Any) -> list[str]:
    """Records as PNG pictures; empty texts, where a record is none. Shades are spread over what is shown."""
    shape = getattr(rows, "shape", ())
    if not shape or not shape[0] or not is_picture(shape[1:]):
        return [""] * (shape[0] if shape else len(next(iter(rows.values()))))
    values = np.nan_to_num(np.asarray(rows[:], dtype=np.float64))
    low, high = float(values.min()), float(values.max())
    shades = np.rint((values - low) * (255 / (high - low if high > low else 1.0))).astype(np.uint8)
    return [base64.b64encode(png(one)).decode() for one in shades]
