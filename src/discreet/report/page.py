"""A report as one HTML file: style and pictures inside, no script, nothing that is loaded from elsewhere.

Everything shown comes from a `Report`; texts are escaped by construction (`discreet.report.markup`), and a content
policy forbids the browser whatever the page does not need.
"""

from __future__ import annotations

from collections.abc import Mapping

from discreet._version import __version__
from discreet.report.campaign_report import FORMAT, Report
from discreet.report.certificate_section import certificate_section
from discreet.report.evidence_sections import accuracy_section, scores_section
from discreet.report.markup import Markup, rounded, tag
from discreet.report.plan_sections import budget_section, labels_section, phases_section
from discreet.report.style import STYLE, content_policy

_SECTIONS = (budget_section, phases_section, labels_section, accuracy_section, scores_section, certificate_section)


def to_html(report: Report, *, links: Mapping[str, str] | None = None) -> str:
    """The whole page. The same report gives the same bytes.

    ``links``: where the ``stylesheet`` is, and an ``icon``, for a server whose own policy lets no page carry a style;
    it forbids the rest itself.
    """
    policy = tag("meta", http_equiv="Content-Security-Policy", content=content_policy()) if links is None else None
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        policy,
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=f"{FORMAT} discreet {__version__}"),
        tag("title", f"{report.name}: report for the {report.audience}"),
        tag("style", Markup(STYLE)) if links is None else [tag("link", rel=to, href=at) for to, at in links.items()],
    )
    main = tag("main", _tiles(report), *(section(report) for section in _SECTIONS))
    return f"<!doctype html>\n{tag('html', head, tag('body', _header(report), main, _footer(report)), lang='en')}\n"


def _header(report: Report) -> Markup:
    badges = [("world", "for the world") if report.audience == "world" else ("owner", "for the owner alone")]
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
    whole = len(report.phases)
    word = _finished(report)
    state = f"All phases are {word}" if report.step == "done" else f"{report.trained} of {whole} phases are {word}"
    if report.releases is not None:
        state += f"; {report.releases.next}, and {report.releases.time}"
    return (
        "Active learning on private records: people label some of them, and a model learns from those, within a proven "
        f"limit on what anybody can tell from it about any one {report.budget.unit}. {state}."
    )


def _finished(report: Report) -> str:
    """Of a hidden selection the public is told what was released, which is not what is trained by now."""
    return "released" if report.releases is not None and report.audience == "world" else "trained"


def _banners(report: Report) -> list[Markup]:
    found = []
    if report.audience == "owner":
        found.append(
            _banner(
                "owner",
                "For the owner alone.",
                "Counts of questions and answers, times and exact scores depend on people's records and were not paid "
                "for. Do not publish this page; the world has its own.",
            )
        )
    if report.simulation:
        found.append(
            _banner(
                "warn",
                "Simulation.",
                "Its noise was seeded: it shows how a campaign goes, and proves nothing about people.",
            )
        )
    if not report.private:
        found.append(
            _banner("stop", "Not private.", "Records were chosen by looking at their scores. No claim covers that.")
        )
    return found


def _banner(kind: str, head: str, text: str) -> Markup:
    return tag("p", tag("strong", head), f" {text}", class_=f"banner {kind}")


def _tiles(report: Report) -> Markup:
    claim, measured = report.certificate["claim"], [phase.evaluation for phase in report.phases if phase.evaluation]
    tiles = [
        (f"ε {rounded(claim['epsilon'], up=True)}", f"claimed, of a budget of {report.budget.epsilon}"),
        (f"δ {float(report.budget.delta):.2g}", "the chance that the promise fails"),
        (f"per {report.budget.unit}", f"{report.budget.relation}, {report.certificate['mode']}"),
        (f"{report.trained} of {len(report.phases)}", f"phases {_finished(report)}"),
        (f"{report.labels_planned:,}", "labels planned in all phases"),
    ]
    if measured:
        low, high = measured[-1]["interval"]
        shown = f"accuracy, {low:.1%} to {high:.1%} ({measured[-1]['kind']})"
        tiles.append((f"{measured[-1]['accuracy']:.1%}", shown))
    made = (tag("div", tag("b", big), tag("span", small), class_="tile") for big, small in tiles)
    return tag("div", *made, class_="tiles")


def _footer(report: Report) -> Markup:
    seen = {
        "world": "Audience: world. Everything here is public or was paid for; no record, id, label or answer was read "
        "to make it.",
        "owner": "Audience: owner. The world's page is made without --audience owner.",
    }
    return tag("footer", tag("p", f"{seen[report.audience]} Made by discreet {__version__}, {FORMAT}."))
