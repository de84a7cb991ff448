"""Parts of a report's page that show what was measured: accuracy, and how scores were spread, as far as either was
paid for.
"""

from __future__ import annotations

from discreet.report.campaign_report import Report
from discreet.report.markup import Child, Markup, join, section, table, tag
from discreet.report.report_figures import ScoreFigure, accuracy_figure, score_figures
from discreet.report.svg import draw_accuracy, draw_scores

_KINDS = {
    "public": "On public records: it costs nobody anything.",
    "paid": "On held-out records, with noise: they paid for it.",
}


def accuracy_section(report: Report) -> Markup:
    """By phase with its interval, and by class where that was measured."""
    figure = accuracy_figure(report)
    if figure is None:
        text = (
            "Nothing was measured: the campaign asks for no evaluation, or no phase is trained yet. Accuracy on "
            "private records has to be paid for."
        )
        return section("Accuracy", tag("p", text, class_="soft"))
    caption = f"{_KINDS[figure.kind]} Intervals hold 19 times in 20, sampling and noise included."
    picture = tag("figure", draw_accuracy(figure), tag("figcaption", caption))
    return section("Accuracy", tag("div", picture, _by_class(report), class_="figures"))


def _by_class(report: Report) -> Markup | None:
    last = next(phase for phase in reversed(report.phases) if phase.evaluation)
    shares = last.evaluation["parts"] if last.evaluation else []
    if len(shares) != len(report.classes):
        return None
    rows: list[list[Child]] = [[name, f"{share:.1%}"] for name, share in zip(report.classes, shares, strict=True)]
    caption = f"By class, after phase {last.number}"
    return tag("div", tag("h3", caption), table(["class", "accuracy"], rows, name=caption))


def scores_section(report: Report) -> Markup:
    """Histograms that were paid for; for an owner who asked, exact ones too; or why there are none."""
    figures = [
        tag("figure", draw_scores(one), tag("figcaption", _caption(one, report.budget.unit)))
        for one in score_figures(report)
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


def _caption(one: ScoreFigure, unit: str) -> str:
    if not one.noisy:
        return f"Query of phase {one.phase}, exact: computed again for the owner, and not for others."
    return (
        f"Query of phase {one.phase}: {unit}s by score, with the noise that was paid for. A count within the shaded "
        f"band (±{one.doubt:,.0f}) may be noise alone."
    )
