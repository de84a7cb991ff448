"""Sections of a report's page: budget, phases, labels, accuracy, scores, and the certificate with what it rests on."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

from discreet.campaign.state import replanned_words
from discreet.privacy.certificate.statement import dump_certificate
from discreet.report.campaign_report import OwnedPhase, PathMeter, PhaseReport, Report, claim_in_words, rounded
from discreet.report.markup import (
    Child,
    Markup,
    ScoreFigure,
    accuracy_figure,
    draw_accuracy,
    draw_meter,
    draw_scores,
    join,
    score_figures,
    section,
    swatch,
    table,
    tag,
)
from discreet.trainers.metric_words import HEAD, metric_columns, metric_rows

_NONE = "-"
_MOST_RATES = 6
_STATES = {
    "trained": "trained",
    "training": "training begun",
    "answering": "waits for answers",
    "next": "next",
    "ahead": "ahead",
    "planned": "planned",
}


def budget_section(report: Report) -> Markup:
    """A meter a path."""
    rows = [
        tag(
            "li",
            tag("span", path.name, class_="name"),
            tag("span", _sums(path), class_="sum"),
            draw_meter(path),
            class_="path",
        )
        for path in report.paths
    ]
    key = [("spent", "spent so far"), ("committed", "committed to by the plan"), ("track", "free under the limit")]
    return section(
        "Budget of every path",
        tag(
            "p",
            f"What a {report.budget.unit} can lose depends on whether it is asked, and when. Every path through the "
            "campaign has the guarantee by itself: the claim is the worst of them, and epsilon "
            f"{report.budget.epsilon} is the limit of each.",
            class_="soft",
        ),
        tag("ul", *rows, class_="paths"),
        tag("ul", *(tag("li", swatch(kind), text) for kind, text in key), class_="key"),
    )


def _sums(path: PathMeter) -> str:
    """Losses are rounded up, what remains down."""
    spent, left = rounded(path.spent, up=True), rounded(path.remaining, up=False)
    if path.committed is None:
        return f"ε {spent} spent, {left} remain"
    return f"ε {spent} spent of {rounded(path.committed, up=True)} committed, {left} remain"


def phases_section(report: Report) -> Markup:
    """What was fixed in advance, and how far it is."""
    rows: list[list[Child]] = [
        [
            f"{phase.number}",
            tag("span", _state(report, phase), class_=f"badge {phase.state}"),
            _NONE if phase.size is None else f"{phase.size:,}",
            _NONE if phase.steps is None else f"{phase.steps:,}",
            " / ".join(f"{sigma:.3f}" for sigma in phase.noise) or _NONE,
            _rates(phase),
            _chosen_how(phase),
        ]
        for phase in report.phases
    ]
    batch = next((phase.batch for phase in report.phases if phase.batch), None)
    fixed = "" if batch is None else f" Every noisy sum is divided by {batch:,}, however many records were in it."
    facts = (join(tag("dt", name), tag("dd", text)) for name, text in report.about.items())
    head = ["phase", "state", "labelled*", "steps", "noise multiplier", "sampling rate by cohort", "chosen by"]
    return section(
        "Phases",
        tag("p", f"{_when(report)}{fixed}", class_="soft"),
        table(head, rows, words=(1, 5, 6), name="Phases of the plan"),
        tag("p", "* as planned, all phases until then", class_="soft"),
        tag("h3", "Declared"),
        tag("dl", *facts),
    )


def _state(report: Report, phase: PhaseReport) -> str:
    """In words; under hidden selection with the planned date of release, and for the public with nothing else."""
    releases = report.releases
    if releases is None:
        return _STATES[phase.state]
    word = _STATES[phase.state]
    if report.audience == "public":
        word = "released" if phase.number < releases.released else "planned"
    return f"{word}, {releases.dates[phase.number].isoformat()}" if releases.dates else word


def _when(report: Report) -> str:
    """When the phases were fixed: a re-planning is public, with its reason."""
    if not report.replanned:
        return "Fixed in the plan before any record was touched."
    sentences = [f"{words[0].upper()}{words[1:]}." for words in map(replanned_words, report.replanned)]
    return " ".join(["Fixed in the plan before any record was touched, until it was re-planned.", *sentences])


def _rates(phase: PhaseReport) -> Child:
    """Of many cohorts the oldest and the newest; the JSON form has all."""
    pairs: list[Child] = [join(tag("span", name, class_="soft"), f" {rate:.4f}") for name, rate in phase.rates.items()]
    if len(pairs) > _MOST_RATES:
        pairs = [*pairs[:2], f"and {len(pairs) - 4} more", *pairs[-2:]]
    return tag("ul", *(tag("li", pair) for pair in pairs), class_="rates") if pairs else _NONE


def _chosen_how(phase: PhaseReport) -> str:
    if phase.query is None:
        return _NONE
    if phase.query.chosen:
        return f"imported; chosen {phase.query.chosen}, as declared"
    name = "uniformly at random" if phase.query.mechanism == "random" else phase.query.mechanism
    return name if phase.query.threshold is None else f"{name} at {phase.query.threshold:.3g}"


def labels_section(report: Report) -> Markup:
    """For the public what was planned; for the owner what became of it."""
    if report.owned is None:
        text = (
            "How many labels were planned is public. How many were asked for, given, skipped or are missing depends on "
            "people's records and was not paid for: that is the owner's."
        )
        rows: list[list[Child]] = [[f"{phase.number}", f"{phase.labels_planned:,}"] for phase in report.phases]
        rows.append(["all", f"{report.labels_planned:,}"])
        return section(
            "Labels",
            tag("p", text, class_="soft"),
            tag("div", table(["phase", "planned"], rows, name="Labels planned"), class_="narrow"),
        )
    owned = report.owned
    head = [
        "phase",
        "planned",
        "asked",
        "labelled",
        "skipped",
        "withdrawn",
        "open",
        "asked at (UTC)",
        "trained at (UTC)",
    ]
    owned_rows = [
        _owned_row(phase, owned_phase) for phase, owned_phase in zip(report.phases, owned.phases, strict=True)
    ]
    by_class = _counts("class", "labels", owned.classes.items(), "Labels by class")
    by_person = _counts("annotator", "answers", owned.annotators.items(), "Answers by annotator")
    return section(
        "Labels",
        table(head, owned_rows, words=(7, 8), name="Questions and answers"),
        tag("div", tag("div", by_class), tag("div", by_person), class_="figures"),
    )


def _owned_row(phase: PhaseReport, owned: OwnedPhase) -> list[Child]:
    counts = (phase.labels_planned, owned.asked, owned.labelled, owned.skipped, owned.withdrawn, owned.open)
    return [f"{phase.number}", *(f"{count:,}" for count in counts), owned.asked_at or _NONE, owned.trained_at or _NONE]


def _counts(name: str, what: str, counts: Iterable[tuple[str, int]], caption: str) -> Markup:
    rows: list[list[Child]] = [[label, f"{count:,}"] for label, count in counts]
    return join(tag("h3", caption), table([name, what], rows, name=caption))


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
    facts: list[tuple[str, Child]] = [
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
        facts.insert(1, ("not released", f"{form['not_released']['what']}; {form['not_released']['time']}"))
    return facts


_MOST_CLASSES = 20


def accuracy_section(report: Report) -> Markup:
    """Accuracy by phase beside the majority baseline; of the last model every metric, classes, answers and groups."""
    figure = accuracy_figure(report)
    if figure is None:
        text = (
            "Nothing was measured: the campaign asks for no evaluation, or no phase is trained yet. Accuracy on "
            "private records has to be paid for."
        )
        return section("Accuracy", tag("p", text, class_="soft"))
    number, last = [(phase.number, phase.evaluation) for phase in report.phases if phase.evaluation][-1]
    paid = f"On held-out records, with noise: they paid epsilon {last['epsilon']} for all figures of a phase."
    how = "On public records: it costs nobody anything." if last["kind"] == "public" else paid
    caption = f"{how} Intervals hold 19 times in 20, sampling and noise included. Dashes: always the largest class."
    picture = tag("figure", draw_accuracy(figure), tag("figcaption", caption))
    by_class = dict(zip(report.classes, last["per_class"], strict=False))
    wide = [_table(f"Metrics after phase {number}", HEAD, metric_rows(last["metrics"]))]
    beside = []
    if by_class:
        beside.append(_table("By class", *metric_columns("class", by_class)))
    if last["confusion"] and len(last["confusion"]) <= _MOST_CLASSES:
        pairs = zip(report.classes, last["confusion"], strict=True)
        rows = [[name, *(f"{count:,}" for count in counts)] for name, counts in pairs]
        beside.append(_table("Confusion matrix: true class by answer", ["true class", *report.classes], rows))
    if last["groups"]:
        wide.append(_table("By group", *metric_columns("group", last["groups"])))
    return section("Accuracy", tag("div", picture, tag("div", *beside), class_="figures"), *wide)


def _table(name: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    return tag("div", tag("h3", name), table(head, rows, name=name), class_="metrics")


def scores_section(report: Report) -> Markup:
    """Histograms that were paid for; for an owner who asked, exact ones too; or why there are none."""
    figures = [
        tag("figure", draw_scores(figure), tag("figcaption", _caption(figure, report.budget.unit)))
        for figure in score_figures(report)
    ]
    queries = [phase.query for phase in report.phases if phase.query and phase.number]
    notes = dict.fromkeys(query.note for query in queries if query.histogram is None)
    if not figures and not notes:
        notes = {"No query was chosen by scores yet.": None}
    text = (
        "A score of the model says which records would teach it most. How the scores of the pool were spread is shown "
        "as far as it was paid for, and no further."
    )
    return section(
        "Scores",
        tag("p", text, class_="soft"),
        tag("div", *figures, class_="figures") if figures else None,
        join(*(tag("p", note) for note in notes)),
    )


def _caption(figure: ScoreFigure, unit: str) -> str:
    if not figure.noisy:
        return f"Query of phase {figure.phase}, exact: computed again for the owner, and not for others."
    return (
        f"Query of phase {figure.phase}: {unit}s by score, with the noise that was paid for. A count within the shaded "
        f"band (±{figure.doubt:,.0f}) may be noise alone."
    )
