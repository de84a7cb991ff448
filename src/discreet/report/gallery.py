"""The public records that a campaign on public data asked about: the most central of each cluster, what the model said
of it before, and what people say (the Public paper's Figure 4b).

Guarantee: only campaigns whose pool is public have a gallery; a private pool's is refused. What a private model says of
public records is post-processing. Audience: public.

Written as one HTML file, or as one PNG sheet (extra ``images``).
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from discreet._version import __version__
from discreet.campaign import Campaign
from discreet.campaign.state import PUBLISHED
from discreet.errors import BadInput, NotNow, require
from discreet.pools.images import is_picture, png
from discreet.recipes.feature_rows import on_features
from discreet.recipes.pool_records import RowsAt, rows_at
from discreet.recipes.specification import spec_of_campaign
from discreet.records import Value
from discreet.report.markup import Markup, tag
from discreet.report.page import STYLE, document
from discreet.trainers.layouts import answers_of

FORMAT = "discreet.gallery/1"
MOST = 400


@dataclass(frozen=True, kw_only=True)
class GalleryRecord:
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
    shown: tuple[GalleryRecord, ...] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Everything but the pictures."""
        records = [{key: value for key, value in asdict(record).items() if key != "picture"} for record in self.shown]
        return {
            "format": FORMAT,
            "simulation": self.simulation,
            "audience": "public",
            "name": self.name,
            "phase": self.phase,
            "mechanism": self.mechanism,
            "asked": self.asked,
            "records": [form | {"verdict": record.verdict} for form, record in zip(records, self.shown, strict=True)],
        }


def gallery_of(campaign: Campaign, phase: int | None = None, *, limit: int = MOST) -> Gallery:
    """The records of round ``phase`` (the newest, without one), at most ``limit`` of them."""
    recipe: Any = campaign.recipe
    if not spec_of_campaign(campaign).public_records:
        raise BadInput("a gallery of this campaign", "its records are private", "Only public-data campaigns have one")
    rounds = {item.phase: item.facts for item in campaign.store.transitions() if item.kind == PUBLISHED and item.phase}
    if not rounds or (phase is not None and phase not in rounds):
        raise NotNow("a gallery", "nobody was asked in that round yet", "Ask first")
    number = max(rounds) if phase is None else phase
    gone, facts = campaign.pool.withdrawn, rounds[number]
    asked = [item.record for item in sorted(campaign.store.questions(number), key=lambda item: item.place)]
    ids = _central([item for item in asked if item not in gone], facts)[:limit]
    places = campaign.pool.places(ids)
    rows = rows_at(recipe.config, campaign.pool, places)
    predicted = _classes(campaign, number, rows) if ids else []
    labels, pool = campaign.labels(), campaign.pool
    pictures = _pictures(rows if pool.x is None else RowsAt(pool.x, places))
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
            GalleryRecord(
                id=item,
                cluster=clusters[item][0] if item in clusters else None,
                support=support.get(item),
                predicted=prediction,
                label=_words(labels.get(item)),
                picture=picture,
            )
            for item, prediction, picture in zip(ids, predicted, pictures, strict=True)
        ),
    )


def _central(asked: list[str], facts: Mapping[str, Any]) -> list[str]:
    """The most central of each cluster; where there are none, all, those with the most support first."""
    clusters: Mapping[str, list[int]] = facts.get("clusters", {})
    if clusters:
        first: dict[int, tuple[int, str]] = {}
        for record in asked:
            cluster, rank = clusters[record]
            first[cluster] = min(first.get(cluster, (rank, record)), (rank, record))
        return [record for _, (_, record) in sorted(first.items())]
    ranked = {record: position for position, record in enumerate((facts.get("support") or {}).get("ids", ()))}
    return sorted(asked, key=lambda record: ranked.get(record, len(ranked)))


def _classes(campaign: Campaign, number: int, rows: Any) -> list[str]:
    """What the model of the round before says: the one that chose them."""
    model, names = on_features(campaign.predictor(number - 1)), campaign.recipe.classes
    probabilities = np.asarray(model.predict_proba(rows))
    if campaign.recipe.multilabel:
        return [
            _words(tuple(n for n, probability in zip(names, row, strict=True) if probability > 0.5)) or ""
            for row in probabilities
        ]
    return [names[column] for column in answers_of(probabilities, campaign.recipe.threshold).tolist()]


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
    return [base64.b64encode(png(shade)).decode() for shade in shades]


_STYLE = (
    STYLE
    + """
.gallery{display:grid;grid-template-columns:repeat(auto-fill,minmax(7.5rem,1fr));gap:.7rem;list-style:none;padding:0;
margin:1rem 0}
.gallery li{background:var(--card);border:3px solid var(--rule);border-radius:8px;padding:.4rem;overflow:hidden}
.gallery li.right{border-color:var(--good)}.gallery li.wrong{border-color:var(--stop)}
.gallery img{display:block;width:100%;image-rendering:pixelated;border-radius:3px;background:#000}
.gallery .said{display:flex;justify-content:space-between;gap:.4rem;font-size:.85rem;margin-top:.3rem}
.gallery .said i{font-style:normal;color:var(--soft)}
.gallery .said b{font-weight:650;overflow-wrap:anywhere}
.gallery .wrong .said b:first-child{color:var(--stop)}
.gallery .id{color:var(--soft);font-size:.72rem;overflow-wrap:anywhere}
"""
)
_LEADS = {
    True: "The most central record of every cluster that was asked about.",
    False: "The records that were asked about.",
}


def gallery_html(gallery: Gallery) -> str:
    """The whole page. The same gallery gives the same bytes."""
    main = tag("main", tag("ul", *(_item(record) for record in gallery.shown), class_="gallery"))
    title = f"{gallery.name}: gallery of round {gallery.phase}"
    return document(title, FORMAT, [_header(gallery), main, _footer()], style=_STYLE, sources="img-src data:; ")


def _header(gallery: Gallery) -> Markup:
    counts = {name: sum(record.verdict == name for record in gallery.shown) for name in ("right", "wrong", "open")}
    lead = _LEADS[any(record.cluster is not None for record in gallery.shown)]
    badges = [("public", "for the public"), *([("warn", "simulation")] if gallery.simulation else [])]
    return tag(
        "header",
        tag("p", f"Round {gallery.phase}, chosen by {gallery.mechanism}", class_="over"),
        tag("h1", gallery.name),
        tag("ul", *(tag("li", text, class_=f"badge {kind}") for kind, text in badges), class_="badges"),
        tag(
            "p",
            f"{lead} {len(gallery.shown)} of {gallery.asked} are shown. Left: what the model said before it learnt "
            f"from them; right: what people say. The model was right about {counts['right']} and wrong about "
            f"{counts['wrong']}; {counts['open']} have no label yet.",
            class_="lead",
        ),
    )


def _item(record: GalleryRecord) -> Markup:
    picture = (
        tag("img", src=f"data:image/png;base64,{record.picture}", alt=f"record {record.id}") if record.picture else None
    )
    where = f"cluster {record.cluster}" if record.cluster is not None else ""
    where = f"support {record.support}" if record.support is not None else where
    sign = {"right": "=", "wrong": "\N{NOT EQUAL TO}", "open": ""}[record.verdict]  # for those who see no colours
    classes = tag("div", tag("b", record.predicted), tag("i", sign), tag("b", record.label or "?"), class_="said")
    return tag("li", picture, classes, tag("div", f"{record.id} {where}".strip(), class_="id"), class_=record.verdict)


def _footer() -> Markup:
    text = "Audience: public. The records are public; what a private model says of them costs nothing."
    return tag("footer", tag("p", f"{text} Made by discreet {__version__}, {FORMAT}."))


SIDE, FRAME, TEXT, GAP = 84, 4, 20, 8
_COLORS = {"right": (11, 110, 99), "wrong": (155, 28, 49), "open": (150, 152, 145)}
_PAGE, _INK = (255, 255, 255), (29, 33, 41)
_LONGEST = 9


def gallery_png(gallery: Gallery) -> bytes:
    """The sheet; the same gallery gives the same picture."""
    if not gallery.shown or not all(record.picture for record in gallery.shown):
        raise BadInput("a sheet of this gallery", "its records are no pictures", "Write an .html page")
    require("PIL", extra="images", asked="a sheet of pictures", name="Pillow")
    from PIL import Image, ImageDraw

    columns = math.ceil(math.sqrt(len(gallery.shown) * 1.25))
    rows = math.ceil(len(gallery.shown) / columns)
    wide, high = SIDE + 2 * FRAME + GAP, SIDE + 2 * FRAME + TEXT + GAP
    sheet = Image.new("RGB", (GAP + columns * wide, GAP + rows * high), _PAGE)
    brush = ImageDraw.Draw(sheet)
    for number, record in enumerate(gallery.shown):
        left, top = GAP + (number % columns) * wide, GAP + (number // columns) * high
        _tile(Image, sheet, brush, record, left, top)
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _tile(pillow: Any, sheet: Any, brush: Any, record: GalleryRecord, left: int, top: int) -> None:
    side, color = SIDE + 2 * FRAME, _COLORS[record.verdict]
    brush.rectangle((left, top, left + side - 1, top + side - 1), fill=color)
    picture = pillow.open(io.BytesIO(base64.b64decode(record.picture))).convert("RGB")
    sheet.paste(picture.resize((SIDE, SIDE), pillow.Resampling.NEAREST), (left + FRAME, top + FRAME))
    line = top + side + TEXT // 2
    brush.text((left + 2, line), _short(record.predicted), fill=color, anchor="lm", font_size=13)
    brush.text((left + side - 2, line), _short(record.label or "?"), fill=_INK, anchor="rm", font_size=13)


def _short(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}."
