"""What a campaign's claim says and rests on, in plain words, for people who read the report and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.privacy.budget import Budget
from discreet.privacy.hidden_slots import NOT_RELEASED
from discreet.privacy.plan import Plan
from discreet.privacy.release_dates import TIME_COVERED
from discreet.report.markup import rounded

PRIVATE_LABELS = "a label depends on its own record, and on public things"


_CROWD = (
    "Annotators are strangers: what they see passed the gate, which is the whole price. Answers, labels and models are "
    "made of released texts and public gold labels alone.",
    "The log was a closed batch, released once; texts were brought to one form by their own letters alone.",
    "Gold and evaluation texts are public, as declared; keys stay secret, and what was cut off is repeated with the "
    "same coins.",
)


_TEACHERS = (
    "All records of a unit are with one teacher, by a keyed hash of its id; a teacher reads its own records and public "
    "things alone. Ids are public and do not come from what records hold.",
    "Answers leave, and which questions had none; votes, leads and whether a teacher failed stay with the owner. What "
    "the student does with answers and public records is free.",
    "The pool and what is measured on are public, as declared; scaling, classes and settings were declared, or come "
    "from public records. Keys stay secret, and what was cut off is repeated with the same draws.",
    "The claim is that of the whole plan: asking less does not lower it.",
    "The owner saw tallies of the private labels and cells before starting: the decision to start is not covered.",
)


def assumptions_of(
    budget: Budget,
    certificate: Mapping[str, Any],
    plan: Plan | None,
    *,
    gate: bool = False,
    teachers: bool = False,
) -> tuple[str, ...]:
    """One sentence each. ``gate``: what strangers see was let out by a gate. ``teachers``: votes answered."""
    if teachers:
        first = (
            f"Compared are the private records as they are, and those in which one {budget.unit} teaches nobody "
            "(zero-out)."
        )
        return (first, *_TEACHERS)
    if gate:
        first = f"Compared are the log as it is, and the log without what one {budget.unit} brought (zero-out)."
        return (first, *_CROWD)
    lines = [
        f"Compared are the data as they are, and the data in which one {budget.unit} is replaced by a null: it scores "
        "lowest, has gradient 0 and is counted nowhere (zero-out).",
        f"Annotators see the records they are asked about, and are trusted with them; {PRIVATE_LABELS}.",
        "Ids do not come from what the records hold; classes, scaling and settings were declared, come from public "
        "data, or were paid for.",
        "Keys and seeds stay secret; what was begun and cut off is repeated with the same draws.",
    ]
    if budget.unit == "person":
        lines.append("Sizes count persons; a person is asked once, with all records together.")
    if "not_released" in certificate:
        lines.append(
            f"{NOT_RELEASED[0].upper()}{NOT_RELEASED[1:]}: neither who was asked, nor how many, nor when. The claim is "
            "about thresholds, noisy counts and models."
        )
        lines.append(_time_in_words(certificate["not_released"]))
    elif plan is not None and not plan.selection.is_free:
        lines.append("A query releases whom it asks, and the noisy counts that found its threshold; no score.")
    if certificate["mode"] == "committed":
        lines.append("The claim is that of the whole plan: stopping early does not lower it.")
    else:
        lines.append(
            "The mode is adaptive: charges could depend on what was released, and the whole budget is claimed."
        )
    return tuple(lines)


def _time_in_words(stated: Mapping[str, Any]) -> str:
    time, dates = str(stated["time"]), stated["releases"]
    first = f"{time[0].upper()}{time[1:]}"
    if time == TIME_COVERED:
        return f"{first}, fixed before any record was touched: {', '.join(dates)}."
    why = "a phase was not trained before its planned date" if dates else "no release dates were planned"
    return f"{first}: {why}, and how long labelling takes depends on how many were asked."


def claim_in_words(budget: Budget, certificate: Mapping[str, Any]) -> str:
    """The promise, as one would say it."""
    claim = certificate["claim"]
    return (
        f"Whatever somebody knows already, and whatever they conclude from all that this campaign releases: with any "
        f"one {budget.unit} taken out of it, everything they could see is as likely as before up to a factor of "
        f"e^{rounded(claim['epsilon'], up=True)}, except for a chance of {claim['delta']:.2g}."
    )
