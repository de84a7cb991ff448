"""The part of a report that says what is promised, on what it rests, and how anybody checks it."""

from __future__ import annotations

import base64

from discreet.privacy.certificate.statement import dump_certificate
from discreet.report.assumptions import claim_in_words
from discreet.report.campaign_report import Report
from discreet.report.markup import Child, Markup, join, tag

FILE = "certificate.json"


def certificate_section(report: Report) -> Markup:
    """Claim, facts, assumptions, and the certificate itself: a page without it would have to be believed."""
    text = dump_certificate(dict(report.certificate))
    content = base64.b64encode(text.encode()).decode()
    link = tag("a", f"Save {FILE}", href=f"data:application/json;base64,{content}", download=FILE)
    return tag(
        "section",
        tag("h2", "Certificate", id="certificate"),
        tag("p", claim_in_words(report.budget, report.certificate), class_="claim"),
        tag("dl", *(join(tag("dt", name), tag("dd", shown)) for name, shown in _facts(report))),
        tag("h3", "What it rests on"),
        tag("ul", *(tag("li", line) for line in report.assumptions), class_="plain"),
        tag("h3", "Check it"),
        tag(
            "p",
            "Nothing here has to be believed. The certificate holds every event that touches every path; whoever has "
            "it computes the claim again, without the data and without this page.",
        ),
        tag("p", link, class_="screen"),
        tag("pre", tag("code", f"discreet verify {FILE}")),
        tag("details", tag("summary", "Show the certificate"), tag("pre", text, tabindex=0), class_="screen"),
        aria_labelledby="certificate",
    )


def _facts(report: Report) -> list[tuple[str, Child]]:
    form = report.certificate
    claim, ledger, signature = form["claim"], form["ledger"], form["signature"]
    found: list[tuple[str, Child]] = [
        ("claim", f"ε {claim['epsilon']} at δ {claim['delta']}; the worst path is {claim['trajectory']}"),
        ("unit", f"one {report.budget.unit}"),
        ("relation", report.budget.relation),
        ("mode", form["mode"]),
        ("accountant", str(form["accountant"]).upper()),
        ("issued", form["issued"]),
        ("digest", tag("code", form["digest"])),
        ("plan", tag("code", form["plan"] or "none")),
        (
            "ledger",
            join(tag("code", ledger["id"]), f", {ledger['entries']} entries, head ", tag("code", ledger["head"])),
        ),
        (
            "signature",
            "none" if signature is None else tag("code", f"{signature['algorithm']} {signature['public_key']}"),
        ),
    ]
    if "not_released" in form:
        found.insert(1, ("not released", f"{form['not_released']['what']}; {form['not_released']['time']}"))
    return found
