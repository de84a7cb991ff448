"""From a campaign to its report, for an audience.

Guarantee: for the public nothing is read but the recorded steps (their public facts, not their times), the ledger, the
plan and what was declared: no record, no question, no answer. So two campaigns that differ in those alone have the same
report, byte for byte. Under hidden selection steps and ledger are those of released phases
(`discreet.campaign.state`), so that a report does not tell which step is taken now.

For the owner, and an auditor: who was shown what, in one form for programs and one for spreadsheets. Rows name records
by their ids; a withdrawn record has a code. A cell that a spreadsheet would compute is guarded.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

from discreet.campaign import Campaign
from discreet.campaign.recipe import replannings
from discreet.campaign.state import (
    PUBLISHED,
    TRAINED,
    Audience,
    SeenState,
    evaluations_of,
    owner_state,
    public_ledger,
    public_state,
    replanned_form,
)
from discreet.errors import BadInput, InvalidCertificate
from discreet.oracles.question_files import guarded
from discreet.privacy.certificate.verification import verify_certificate
from discreet.privacy.ledger import Ledger
from discreet.privacy.plan import Plan
from discreet.recipes.specification import spec_of_campaign
from discreet.records import Exposure, NoisyHistogram
from discreet.report.campaign_report import (
    Owned,
    OwnedPhase,
    PathMeter,
    PhaseReport,
    QueryReport,
    Report,
    ScoreCounts,
    State,
    assumptions_of,
)
from discreet.storage import Transition

BINS = 64
"""Of exact counts, where no noisy ones say otherwise."""


def report_of(
    campaign: Campaign,
    audience: Audience = "public",
    *,
    scores: bool = False,
    certificate: Path | Mapping[str, Any] | None = None,
) -> Report:
    """What ``audience`` may see of a campaign.

    ``scores``: count the scores of every query again, exactly; for the owner alone. ``certificate``: one that was
    exported (and signed) before, checked against the ledger; or one that this process made, if it is of the ledger's
    last line; without it, one is made.
    """
    if audience not in get_args(Audience):
        raise BadInput(f"a report for {audience}", "there is no such audience", "Choose public or owner")
    if scores and audience != "owner":
        raise BadInput("exact scores", "nobody paid for them: they are the owner's", "Add --audience owner")
    recipe, plan, spec = campaign.recipe, plan_of(campaign), spec_of_campaign(campaign)
    seen = (public_state if audience == "public" else owner_state)(campaign.store, recipe.phases)
    steps, ledger = seen.steps, seen.ledger
    certified = _certified(campaign, certificate)
    paths, budget = meters_of(ledger, _claims(ledger, certified)), ledger.terms.budget
    published = {step.phase: step.facts for step in steps if step.kind == PUBLISHED}
    return Report(
        name=campaign.name,
        audience=audience,
        simulation=campaign.simulation,
        private=all(facts.get("private", True) for facts in published.values()),
        phase=seen.phase,
        step=seen.step,
        about=spec.about(campaign),
        classes=recipe.classes,
        budget=budget,
        paths=paths,
        phases=phases_of(campaign, seen),
        certificate=certified,
        assumptions=spec.assumptions(budget) if spec.assumptions else assumptions_of(budget, certified, plan),
        replanned=tuple(replanned_form(step) for step in replannings(steps)),
        releases=seen.releases,
        owned=_owned(campaign, steps, scores=scores) if audience == "owner" else None,
    )


def _certified(campaign: Campaign, certificate: Path | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A certificate is public, whoever the report is for."""
    ledger, releases = public_ledger(campaign.store)
    if isinstance(certificate, Path):
        return _shown(campaign, certificate, len(ledger))
    if certificate is None or certificate["ledger"]["head"] != ledger.head:
        return campaign.certificate()
    on_time = releases is None or certificate["not_released"]["time"] == releases.time
    return certificate if on_time else campaign.certificate()


def _shown(campaign: Campaign, path: Path, entries: int) -> Mapping[str, Any]:
    """A certificate in a file, if it is one of this campaign as it stands."""
    if not path.is_file():
        raise BadInput(f"reading {path.name or path}", "there is no such file", "Check the path")
    content = path.read_bytes()
    verdict = verify_certificate(content, lines=list(campaign.store.sink().read())[: entries + 1])
    wrong = [check.name for check in verdict.checks if not check.ok]
    if wrong:
        fact = f"it is not a certificate of this campaign as it stands: {', '.join(wrong)}"
        raise InvalidCertificate(f"a report with {path.name}", fact, "Export one: discreet ledger export")
    form: Mapping[str, Any] = json.loads(content)
    return form


def _claims(ledger: Ledger, certificate: Mapping[str, Any]) -> dict[str, float]:
    """What every path will have cost by the ledger's accountant, where that was committed to."""
    key = f"epsilon_{ledger.terms.accountant}"
    return {path["name"]: path[key] for path in certificate["trajectories"]} if ledger.terms.lines else {}


def meters_of(ledger: Ledger, claims: Mapping[str, float]) -> tuple[PathMeter, ...]:
    """Gauges by the ledger's odometer, which is loose: what a committed path has spent is never above what it will.

    ``claims``: what paths will have cost, by their names. Audience: public.
    """
    limit, meters = ledger.terms.budget.epsilon, []
    for total in ledger.totals():
        committed = claims.get(total.path)
        highest = limit if committed is None else min(limit, Decimal(repr(committed)))
        spent = min(total.epsilon, highest)
        meters.append(PathMeter(name=total.path, spent=spent, committed=committed, limit=limit))
    return tuple(meters)


def plan_of(campaign: Campaign) -> Plan | None:
    """The plan of a private pool; other recipes have none of this kind."""
    return spec_of_campaign(campaign).plan(campaign.recipe)


def phases_of(campaign: Campaign, seen: SeenState) -> tuple[PhaseReport, ...]:
    """Every phase as it was planned, and how far it is. Audience: that of ``seen``."""
    plan, measured = plan_of(campaign), evaluations_of(seen.steps)
    published = {step.phase: step.facts for step in seen.steps if step.kind == PUBLISHED}
    return tuple(
        _phase(campaign, plan, number, published.get(number), measured.get(number), seen)
        for number in range(campaign.recipe.phases)
    )


def _phase(
    campaign: Campaign,
    plan: Plan | None,
    number: int,
    facts: Mapping[str, Any] | None,
    measured: Mapping[str, Any] | None,
    seen: SeenState,
) -> PhaseReport:
    phase = None if plan is None else plan.phases[number]
    rates = () if phase is None else phase.last.rates
    cohorts = () if plan is None else plan.cohorts
    return PhaseReport(
        number=number,
        state=_state(number, seen),
        labels_planned=campaign.recipe.labels_planned(number),
        size=None if phase is None else phase.size,
        steps=None if phase is None else phase.steps,
        batch=None if phase is None else phase.batch,
        noise=() if phase is None else tuple(stage.noise_multiplier for stage in phase.stages if stage.steps),
        rates={cohort.label: rate for cohort, rate in zip(cohorts, rates, strict=False)},
        query=None if facts is None else _query(facts, number, spec_of_campaign(campaign).notes),
        evaluation=measured,
    )


def _state(number: int, now: SeenState) -> State:
    if number < now.phase or now.step == "done":
        return "trained"
    if now.step == "planned":
        return "planned"
    words: dict[str, State] = {"ask": "next", "answer": "answering", "train": "training"}
    return words[now.step] if number == now.phase else "ahead"


def _query(facts: Mapping[str, Any], number: int, notes: Mapping[str, str]) -> QueryReport:
    histogram = None if facts.get("histogram") is None else NoisyHistogram.from_json(facts["histogram"])
    mechanism = str(facts.get("mechanism", "unknown"))
    return QueryReport(
        mechanism=mechanism,
        private=bool(facts.get("private", True)),
        threshold=facts.get("threshold"),
        histogram=histogram,
        chosen=facts.get("chosen"),
        note=notes.get(mechanism) or _note(facts, mechanism, number, shown=histogram is not None),
    )


def _note(facts: Mapping[str, Any], mechanism: str, number: int, *, shown: bool) -> str:
    """Why there are noisy counts to see, or none."""
    if shown:
        return "Counts with the noise that was paid for; the query found its threshold in them."
    if number == 0:
        return "Initial records are not chosen by a score."
    if mechanism == "random":
        return "Records were drawn uniformly at random; no score was read."
    if not facts.get("private", True):
        return "Records were chosen by looking at their scores, which was not paid for. Nothing of them is shown."
    if facts.get("threshold") is None:
        return "The noisy scores stay hidden: whom to ask was paid for, and nothing else to show."
    return "No counts were paid for, or none were kept: the threshold is all that is known of the scores."


# -- what is the owner's


def _owned(campaign: Campaign, steps: list[Transition], *, scores: bool) -> Owned:
    labels, answers = campaign.labels(), campaign.store.answers()
    counts = Counter(
        label for value in labels.values() for label in ((value,) if isinstance(value, str) else value or ())
    )
    return Owned(
        phases=tuple(_owned_phase(campaign, steps, labels, number) for number in range(campaign.recipe.phases)),
        classes={name: counts[name] for name in campaign.recipe.classes},
        annotators=dict(sorted(Counter(label.annotator or "(no name)" for label in answers).items())),
        scores=_exact_scores(campaign, steps) if scores else (),
    )


def _owned_phase(campaign: Campaign, steps: list[Transition], labels: Mapping[str, Any], number: int) -> OwnedPhase:
    asked = campaign.store.questions(number)
    left, gone = {question.id for question in campaign.open()}, campaign.withdrawn_questions()
    times = {step.kind: step.at.strftime("%Y-%m-%d %H:%M") for step in steps if step.phase == number}
    return OwnedPhase(
        phase=number,
        asked=len(asked),
        labelled=sum(step.record in labels for step in asked),
        skipped=sum(step.record not in labels and step.id not in left and step.id not in gone for step in asked),
        withdrawn=sum(step.id in gone for step in asked),
        open=sum(step.id in left for step in asked),
        asked_at=times.get(PUBLISHED),
        trained_at=times.get(TRAINED),
    )


def _exact_scores(campaign: Campaign, steps: list[Transition]) -> tuple[ScoreCounts, ...]:
    queries = []
    for step in steps:
        if step.kind != PUBLISHED or not step.phase:
            continue
        histogram = step.facts.get("histogram")
        exact = spec_of_campaign(campaign).exact_counts(
            campaign, step.phase, len(histogram["counts"]) if histogram else BINS
        )
        if exact is not None:
            limits, counts = exact
            threshold = step.facts.get("threshold")
            queries.append(ScoreCounts(phase=step.phase, range=limits, counts=counts, threshold=threshold))
    return tuple(queries)


EXPOSURE_FORMAT = "discreet.exposure/1"
EXPOSURE_COLUMNS = ("at", "kind", "audience", "question_id", "record", "phase")
"""``kind``: annotator (by name), hand-out (a file or list, for people who are not known here), program."""


def exposure_form(exposures: Sequence[Exposure], *, simulation: bool, file: str | None = None) -> dict[str, Any]:
    """One object, with a count for each audience."""
    counts = Counter((exposure.kind, exposure.audience) for exposure in exposures)
    return {
        "format": EXPOSURE_FORMAT,
        "simulation": simulation,
        "audience": "owner",
        "file": file,
        "shown": [{"kind": kind, "audience": who, "questions": count} for (kind, who), count in sorted(counts.items())],
        "exposures": [
            {
                "at": exposure.at.isoformat(),
                "kind": exposure.kind,
                "audience": exposure.audience,
                "question_id": exposure.question_id,
                "record": exposure.record,
                "phase": exposure.phase,
            }
            for exposure in exposures
        ],
    }


def exposure_csv(form: dict[str, Any]) -> str:
    """The rows of a form, with a header; every cell quoted."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(EXPOSURE_COLUMNS)
    writer.writerows([[guarded(str(row[name])) for name in EXPOSURE_COLUMNS] for row in form["exposures"]])
    return text.getvalue()
