"""Parts of a report's page that show the plan and how far it is: budget, phases, labels."""

from __future__ import annotations

from collections.abc import Iterable

from discreet.campaign.status import replanned_words
from discreet.report.campaign_report import OwnedPhase, PathMeter, PhaseReport, Report
from discreet.report.markup import Child, Markup, join, rounded, section, table, tag
from discreet.report.report_figures import meter_figures
from discreet.report.svg import draw_meter, swatch

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
            draw_meter(figure),
            class_="path",
        )
        for path, figure in zip(report.paths, meter_figures(report), strict=True)
    ]
    key = [("spent", "spent so far"), ("committed", "committed to by the plan"), ("track", "free under the limit")]
    return section(
        "Budget of every path",
        tag(
            "p",
            f"What a {report.budget.unit} can lose depends on whether it is asked, and when. Every path through the "
            "campaign keeps the promise by itself: the claim is the worst of them, and epsilon "
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
    found = report.releases
    if found is None:
        return _STATES[phase.state]
    word = _STATES[phase.state]
    if report.audience == "world":
        word = "released" if phase.number < found.released else "planned"
    return f"{word}, {found.dates[phase.number].isoformat()}" if found.dates else word


def _when(report: Report) -> str:
    """When the phases were fixed: a re-planning is public, with its reason."""
    if not report.replanned:
        return "Fixed in the plan before any record was touched."
    told = [f"{words[0].upper()}{words[1:]}." for words in map(replanned_words, report.replanned)]
    return " ".join(["Fixed in the plan before any record was touched, until it was re-planned.", *told])


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
    name = "lot" if phase.query.mechanism == "random" else phase.query.mechanism
    return name if phase.query.threshold is None else f"{name} at {phase.query.threshold:.3g}"


def labels_section(report: Report) -> Markup:
    """For the world what was planned; for the owner what became of it."""
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
    mine = [_owned_row(phase, one) for phase, one in zip(report.phases, owned.phases, strict=True)]
    by_class = _counts("class", "labels", owned.classes.items(), "Labels by class")
    by_person = _counts("annotator", "answers", owned.annotators.items(), "Answers by annotator")
    return section(
        "Labels",
        table(head, mine, words=(7, 8), name="Questions and answers"),
        tag("div", tag("div", by_class), tag("div", by_person), class_="figures"),
    )


def _owned_row(phase: PhaseReport, mine: OwnedPhase) -> list[Child]:
    counts = (phase.labels_planned, mine.asked, mine.labelled, mine.skipped, mine.withdrawn, mine.open)
    return [f"{phase.number}", *(f"{count:,}" for count in counts), mine.asked_at or _NONE, mine.trained_at or _NONE]


def _counts(name: str, what: str, found: Iterable[tuple[str, int]], caption: str) -> Markup:
    rows: list[list[Child]] = [[one, f"{count:,}"] for one, count in found]
    return join(tag("h3", caption), table([name, what], rows, name=caption))
