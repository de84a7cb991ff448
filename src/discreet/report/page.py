"""A report as one HTML file: style and pictures inside, no script, nothing that is loaded from elsewhere.

Everything shown comes from a `Report`; texts are escaped by construction (`discreet.report.markup`), and a content
policy forbids the browser whatever the page does not need.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence

from discreet._version import __version__
from discreet.report.campaign_report import FORMAT, Report, rounded
from discreet.report.markup import Markup, tag
from discreet.report.sections import (
    accuracy_section,
    budget_section,
    certificate_section,
    labels_section,
    phases_section,
    scores_section,
)
from discreet.trainers.metric_words import interval_of, majority_words, source_words, value_of

STYLE = """
:root{color-scheme:light dark;--page:#f6f6f3;--card:#fff;--ink:#1d2129;--soft:#565d6b;--rule:#dedfda;--accent:#0b6e63;
--accent-2:#9fd3cb;--track:#e9eae5;--warn:#8a3b00;--warn-bg:#fff1e0;--stop:#9b1c31;--stop-bg:#fdeaec;--owner:#5b2a86;
--owner-bg:#f3ebfa;--good:#0b6e63;--good-bg:#e3f4f1}
@media (prefers-color-scheme:dark){:root{--page:#14171c;--card:#1c2027;--ink:#e8eaee;--soft:#a6adba;--rule:#333944;
--accent:#4cc3b2;--accent-2:#23635b;--track:#2a303a;--warn:#ffbe7d;--warn-bg:#3a2812;--stop:#ff9aa8;--stop-bg:#3f1a21;
--owner:#d3b1f3;--owner-bg:#33224a;--good:#6fd8c9;--good-bg:#15332f}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","Liberation Sans",sans-serif}
main,header,footer{max-width:62rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2.5rem}
h1{font-size:2.1rem;line-height:1.2;margin:.2rem 0 .6rem;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:0 0 .3rem}
h3{font-size:1rem;margin:1.4rem 0 .4rem}
p{margin:.4rem 0 .8rem;max-width:46rem}
a{color:var(--accent)}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;font-size:.85em}
.over{color:var(--soft);font-size:.85rem;letter-spacing:.06em;text-transform:uppercase;margin:0}
.lead{color:var(--soft);font-size:1.05rem}
.soft,figcaption{color:var(--soft);font-size:.9rem}
.badges{display:flex;flex-wrap:wrap;gap:.4rem;margin:.2rem 0 .8rem;padding:0;list-style:none}
.badge{border-radius:99px;padding:.1rem .7rem;font-size:.85rem;font-weight:600;white-space:nowrap}
.badge.public,.badge.trained{background:var(--good-bg);color:var(--good)}
.badge.owner{background:var(--owner-bg);color:var(--owner)}
.badge.warn,.badge.training,.badge.answering,.badge.next{background:var(--warn-bg);color:var(--warn)}
.badge.stop{background:var(--stop-bg);color:var(--stop)}
.badge.ahead,.badge.planned{background:var(--track);color:var(--soft)}
.banner{border-left:4px solid;border-radius:4px;padding:.6rem 1rem;margin:.6rem 0;max-width:none}
.banner.owner{background:var(--owner-bg);border-color:var(--owner)}
.banner.warn{background:var(--warn-bg);border-color:var(--warn)}
.banner.stop{background:var(--stop-bg);border-color:var(--stop)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(15rem,1fr));gap:.8rem;margin:1.2rem 0}
.tile,section{background:var(--card);border:1px solid var(--rule);border-radius:10px}
.tile{padding:.8rem 1rem}
.tile b{display:block;font-size:1.7rem;line-height:1.2;font-weight:650;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:.88rem;display:block}
section{padding:1.2rem 1.4rem 1.3rem;margin:1.1rem 0}
.paths{display:grid;gap:.75rem;margin:1rem 0 .4rem;padding:0;list-style:none}
.path{display:grid;grid-template-columns:minmax(0,1fr) auto;column-gap:1rem;align-items:baseline}
.path .name{font-weight:600;overflow-wrap:anywhere}
.path .sum{color:var(--soft);font-size:.9rem;font-variant-numeric:tabular-nums}
.meter{grid-column:1/-1;display:block;width:100%;height:.8rem;border-radius:4px;margin-top:.2rem}
.track{fill:var(--track)}.committed{fill:var(--accent-2)}.spent{fill:var(--accent)}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;color:var(--soft);font-size:.88rem;margin:.6rem 0 0;padding:0;
list-style:none}
.key svg{width:.85rem;height:.85rem;border-radius:3px;vertical-align:-.1rem;margin-right:.4rem}
.scroll{overflow-x:auto;margin:.6rem -.2rem 0;padding:0 .2rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.42rem .7rem;border-bottom:1px solid var(--rule);vertical-align:top}
th{font-weight:600;color:var(--soft);font-size:.85rem;white-space:nowrap}
tbody th{color:var(--ink);font-size:1em}
td.left{min-width:8.5rem}
tr>:first-child{padding-left:0}tr>:last-child{padding-right:0}
.left{text-align:left}
.narrow{max-width:20rem}
.figures th,.figures td,.narrow th,.narrow td,.metrics th,.metrics td{padding-top:.16rem;padding-bottom:.16rem}
.metrics tbody th{font-weight:400}.metrics td{white-space:nowrap}.metrics h3{margin-top:.8rem}
.figures tbody th{font-weight:400}
.figures h3{margin-top:.2rem}
.figures .scroll{max-height:26rem;overflow-y:auto}
.rates{min-width:15.5rem;list-style:none;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:0 .9rem}
.rates li{white-space:nowrap}
tbody tr:last-child>*{border-bottom:0}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(24rem,100%),1fr));gap:1rem 1.6rem;
margin-top:.6rem}
figure{margin:0;min-width:0}
figcaption{margin-top:.2rem}
.picture{display:block;width:100%;max-width:36rem;height:auto}
.picture text{fill:var(--soft);font-size:12px}
.picture .end{text-anchor:end}.picture .middle{text-anchor:middle}
.picture .value{fill:var(--ink);font-weight:600}
.picture .note{fill:var(--ink)}
.grid{stroke:var(--rule)}.zero{stroke:var(--soft)}
.baseline{stroke:var(--soft);stroke-dasharray:3 4}
.curve{fill:none;stroke:var(--accent);stroke-width:2}
.interval{stroke:var(--accent);stroke-width:2}.point{fill:var(--accent)}
.bar{fill:var(--accent)}.bar.below{fill:var(--accent-2)}.bar.exact{fill:var(--owner)}
.doubt{fill:var(--track)}
.threshold{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:5 3}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.3rem 1.2rem;margin:.8rem 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.claim{font-size:1.05rem;border-left:4px solid var(--accent);padding-left:1rem;max-width:46rem}
ul.plain{padding-left:1.2rem;margin:.4rem 0 .8rem;max-width:46rem}
ul.plain li{margin:.25rem 0}
pre{background:var(--track);border-radius:6px;padding:.7rem .9rem;overflow-x:auto;margin:.5rem 0}
details pre{max-height:24rem;overflow:auto}
summary{cursor:pointer;color:var(--accent)}
footer{color:var(--soft);font-size:.88rem;padding-top:.4rem;padding-bottom:2.5rem}
@media (max-width:36rem){body{font-size:15px}header{padding-top:1.4rem}h1{font-size:1.6rem}section{padding:1rem}
main,header,footer{padding-left:.8rem;padding-right:.8rem}.tiles{grid-template-columns:1fr 1fr;gap:.6rem}
.tile b{font-size:1.35rem}.path{grid-template-columns:1fr}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.5rem}
.picture text{font-size:14px}}
@media print{:root{color-scheme:light;--page:#fff;--card:#fff;--ink:#000;--soft:#444;--rule:#bbb;--accent:#0b6e63;
--accent-2:#9fd3cb;--track:#e9eae5;--warn:#8a3b00;--warn-bg:#fff1e0;--stop:#9b1c31;--stop-bg:#fdeaec;--owner:#5b2a86;
--owner-bg:#f3ebfa;--good:#0b6e63;--good-bg:#e3f4f1}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
body{font-size:10.5pt}header{padding-top:0}main,header,footer{max-width:none;padding-left:0;padding-right:0}
section{border:0;border-top:1px solid var(--rule);border-radius:0;padding:.8rem 0;margin:.4rem 0}
.tiles{grid-template-columns:repeat(3,1fr)}
figure,.path,tr,.tile,.claim{break-inside:avoid}h2,h3{break-after:avoid}
.scroll,.figures .scroll{overflow:visible;max-height:none}
th,td{padding:.25rem .4rem}.figures{grid-template-columns:1fr 1fr}details,.screen{display:none}
@page{margin:16mm}}
"""
_SECTIONS = (budget_section, phases_section, labels_section, accuracy_section, scores_section, certificate_section)


def to_html(report: Report, *, links: Mapping[str, str] | None = None) -> str:
    """The whole page. The same report gives the same bytes.

    ``links``: where the ``stylesheet`` is, and an ``icon``, for a server whose own policy lets no page carry a style;
    it forbids the rest itself.
    """
    main = tag("main", _tiles(report), *(section(report) for section in _SECTIONS))
    title = f"{report.name}: report for the {report.audience}"
    return document(title, FORMAT, [_header(report), main, _footer(report)], links=links)


def document(
    title: str,
    form: str,
    body: Sequence[Markup],
    *,
    style: str = STYLE,
    sources: str = "",
    links: Mapping[str, str] | None = None,
) -> str:
    """A whole HTML file in format ``form``, with its ``style`` inside; or with ``links`` to styles and icons instead.

    A file with its style inside has a policy: a browser may show it, with further ``sources``, such as pictures inside;
    nothing is loaded, run, sent or framed.
    """
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; {sources}style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy) if links is None else None,
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=f"{form} discreet {__version__}"),
        tag("title", title),
        tag("style", Markup(style)) if links is None else [tag("link", rel=to, href=at) for to, at in links.items()],
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *body), lang='en')}\n"


def _header(report: Report) -> Markup:
    badges = [("public", "for the public") if report.audience == "public" else ("owner", "for the owner alone")]
    badges += [("warn", "simulation")] if report.simulation else []
    badges += [] if report.private else [("stop", "not private")]
    return tag(
        "header",
        tag("p", "Campaign report", class_="over"),
        tag("h1", report.name),
        tag("ul", *(tag("li", text, class_=f"badge {kind}") for kind, text in badges), class_="badges"),
        tag("p", _lead(report), class_="lead"),
        *_banners(report),
    )


def _lead(report: Report) -> str:
    total = len(report.phases)
    word = _finished(report)
    state = f"All phases are {word}" if report.step == "done" else f"{report.trained} of {total} phases are {word}"
    if report.releases is not None:
        state += f"; {report.releases.next}, and {report.releases.time}"
    return (
        "Active learning on private records: people label some of them, and a model learns from those, within a proven "
        f"limit on what anybody can tell from it about any one {report.budget.unit}. {state}."
    )


def _finished(report: Report) -> str:
    """Of a hidden selection the public is told what was released, which is not what is trained by now."""
    return "released" if report.releases is not None and report.audience == "public" else "trained"


def _banners(report: Report) -> list[Markup]:
    banners = [
        (
            report.audience == "owner",
            "owner",
            "For the owner alone.",
            "Counts of questions and answers, times and exact scores depend on people's records and were not paid "
            "for. Do not publish this page; the public has its own.",
        ),
        (
            report.simulation,
            "warn",
            "Simulation.",
            "Its noise was seeded: it shows how a campaign goes, and proves nothing about people.",
        ),
        (
            not report.private,
            "stop",
            "Not private.",
            "Records were chosen by looking at their scores. No claim covers that.",
        ),
    ]
    return [
        tag("p", tag("strong", head), f" {text}", class_=f"banner {kind}")
        for shown, kind, head, text in banners
        if shown
    ]


def _tiles(report: Report) -> Markup:
    claim, measured = report.certificate["claim"], [phase.evaluation for phase in report.phases if phase.evaluation]
    tiles = [
        (f"ε {rounded(claim['epsilon'], up=True)}", f"claimed, of a budget of {report.budget.epsilon}"),
        (f"δ {float(report.budget.delta):.2g}", "the probability that the guarantee fails"),
        (f"per {report.budget.unit}", f"{report.budget.relation}, {report.certificate['mode']}"),
        (f"{report.trained} of {len(report.phases)}", f"phases {_finished(report)}"),
        (f"{report.labels_planned:,}", "labels planned in all phases"),
    ]
    if measured:
        last = measured[-1]
        accuracy = last["metrics"]["accuracy"]
        shown = f"accuracy, {interval_of('accuracy', accuracy)}; {majority_words(last)} ({source_words(last)})"
        tiles.append((value_of("accuracy", accuracy["value"]), shown))
    boxes = (tag("div", tag("b", big), tag("span", small), class_="tile") for big, small in tiles)
    return tag("div", *boxes, class_="tiles")


def _footer(report: Report) -> Markup:
    seen = {
        "public": "Audience: public. Everything here is public or paid for; no record, id, label or answer was read "
        "to make it.",
        "owner": "Audience: owner. The public page is made without --audience owner.",
    }
    return tag("footer", tag("p", f"{seen[report.audience]} Made by discreet {__version__}, {FORMAT}."))
