"""A gallery as one HTML file: pictures inside, no script, nothing that is loaded from elsewhere."""

from __future__ import annotations

import base64
import hashlib

from discreet._version import __version__
from discreet.report.gallery import FORMAT, Gallery, Shown
from discreet.report.markup import Markup, tag
from discreet.report.style import STYLE

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
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=f"{FORMAT} discreet {__version__}"),
        tag("title", f"{gallery.name}: gallery of round {gallery.phase}"),
        tag("style", Markup(_STYLE)),
    )
    main = tag("main", tag("ul", *(_item(one) for one in gallery.shown), class_="gallery"))
    return f"<!doctype html>\n{tag('html', head, tag('body', _header(gallery), main, _footer()), lang='en')}\n"


def _header(gallery: Gallery) -> Markup:
    counts = {name: sum(one.verdict == name for one in gallery.shown) for name in ("right", "wrong", "open")}
    lead = _LEADS[any(one.cluster is not None for one in gallery.shown)]
    badges = [("world", "for the world"), *([("warn", "simulation")] if gallery.simulation else [])]
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


def _item(one: Shown) -> Markup:
    picture = tag("img", src=f"data:image/png;base64,{one.picture}", alt=f"record {one.id}") if one.picture else None
    where = f"cluster {one.cluster}" if one.cluster is not None else ""
    where = f"support {one.support}" if one.support is not None else where
    sign = {"right": "=", "wrong": "\N{NOT EQUAL TO}", "open": ""}[one.verdict]  # for those who see no colours
    said = tag("div", tag("b", one.predicted), tag("i", sign), tag("b", one.label or "?"), class_="said")
    return tag("li", picture, said, tag("div", f"{one.id} {where}".strip(), class_="id"), class_=one.verdict)


def _footer() -> Markup:
    text = "Audience: world. The records are public; what a private model says of them costs nothing."
    return tag("footer", tag("p", f"{text} Made by discreet {__version__}, {FORMAT}."))
