"""From a campaign to its report, for an audience.

Guarantee: for the world nothing is read but the recorded steps (their public facts, not their times), the ledger, the
plan and what was declared: no record, no question, no answer. So two campaigns that differ in those alone have the same
report, byte for byte. Under hidden selection steps and ledger are those of released phases
(`discreet.campaign.releases`), so that a report does not tell which step is taken now.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

from discreet.campaign import Campaign
from discreet.campaign.releases import SeenState, owner_state, public_ledger, public_state
from discreet.campaign.replanning import replannings
from discreet.campaign.standing import PUBLISHED, TRAINED
from discreet.campaign.status import Audience, replanned_form
from discreet.campaign.view import evaluations_of
from discreet.errors import BadInput, InvalidCertificate
from discreet.privacy.certificate.verification import verify_certificate
from discreet.privacy.ledger import Ledger
from discreet.privacy.plan import Plan
from discreet.recipes.crowd import Crowd, gate_of
from discreet.recipes.private_pool import PrivatePool
from discreet.recipes.rescoring import exact_counts, reads_scores
from discreet.recipes.teachers import Teachers
from discreet.records import NoisyHistogram
from discreet.report.assumptions import assumptions_of
from discreet.report.campaign_report import (
    Owned,
    OwnedPhase,
    PathMeter,
    PhaseReport,
    QueryReport,
    Report,
    ScoreCounts,
    State,
)
from discreet.storage import Transition

BINS = 64
"""Of exact counts, where no noisy ones say otherwise."""


def report_of(
    campaign: Campaign,
    audience: Audience = "world",
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
        raise BadInput(f"a report for {audience}", "there is no such audience", "Choose world or owner")
    if scores and audience != "owner":
        raise BadInput("exact scores", "nobody paid for them: they are the owner's", "Add --audience owner")
    recipe, plan = campaign.recipe, plan_of(campaign)
    seen = (public_state if audience == "world" else owner_state)(campaign.store, recipe.phases)
    steps, ledger = seen.steps, seen.ledger
    certified = _certified(campaign, certificate)
    paths, budget = meters_of(ledger, _claims(ledger, certified)), ledger.terms.budget
    published = {one.phase: one.facts for one in steps if one.kind == PUBLISHED}
    return Report(
        name=campaign.name,
        audience=audience,
        simulation=campaign.simulation,
        private=all(facts.get("private", True) for facts in published.values()),
        phase=seen.phase,
        step=seen.step,
        about=_about(campaign),
        classes=recipe.classes,
        budget=budget,
        paths=paths,
        phases=phases_of(campaign, seen),
        certificate=certified,
        assumptions=assumptions_of(
            budget, certified, plan, gate=isinstance(recipe, Crowd), teachers=isinstance(recipe, Teachers)
        ),
        replanned=tuple(replanned_form(one) for one in replannings(steps)),
        releases=seen.releases,
        owned=_owned(campaign, steps, scores=scores) if audience == "owner" else None,
    )


def _certified(campaign: Campaign, given: Path | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A certificate is public, whoever the report is for."""
    ledger, releases = public_ledger(campaign.store)
    if isinstance(given, Path):
        return _shown(campaign, given, len(ledger))
    if given is None or given["ledger"]["head"] != ledger.head:
        return campaign.certificate()
    on_time = releases is None or given["not_released"]["time"] == releases.time
    return given if on_time else campaign.certificate()


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
    return {one["name"]: one[key] for one in certificate["trajectories"]} if ledger.terms.lines else {}


def meters_of(ledger: Ledger, claims: Mapping[str, float]) -> tuple[PathMeter, ...]:
    """Gauges by the ledger's odometer, which is loose: what a committed path has spent is never above what it will.

    ``claims``: what paths will have cost, by their names. Audience: world.
    """
    limit, found = ledger.terms.budget.epsilon, []
    for total in ledger.totals():
        committed = claims.get(total.path)
        most = limit if committed is None else min(limit, Decimal(repr(committed)))
        spent = min(total.epsilon, most)
        found.append(PathMeter(name=total.path, spent=spent, committed=committed, limit=limit))
    return tuple(found)


def plan_of(campaign: Campaign) -> Plan | None:
    """The plan of a private pool; other recipes have none of this kind."""
    return campaign.recipe.plan if isinstance(campaign.recipe, PrivatePool) else None


def phases_of(campaign: Campaign, seen: SeenState) -> tuple[PhaseReport, ...]:
    """Every phase as it was planned, and how far it is. Audience: that of ``seen``."""
    plan, measured = plan_of(campaign), evaluations_of(seen.steps)
    published = {one.phase: one.facts for one in seen.steps if one.kind == PUBLISHED}
    return tuple(
        _phase(campaign, plan, number, published.get(number), measured.get(number), seen)
        for number in range(campaign.recipe.phases)
    )


def _about(campaign: Campaign) -> dict[str, str]:
    """What was declared, in words; names of files are the owner's."""
    recipe = campaign.recipe
    if isinstance(recipe, Crowd):
        return _about_crowd(campaign, recipe)
    if isinstance(recipe, Teachers):
        return _about_teachers(recipe)
    if not isinstance(recipe, PrivatePool):
        return {"classes": f"{len(recipe.classes)}"}
    config, plan = recipe.config, recipe.plan
    return {
        "recipe": config.recipe.name,
        "task": f"{config.task.kind}, {len(recipe.classes)} classes",
        "pool": f"{config.pool.size:,} records, as declared",
        "model": config.model.name,
        "schedule": f"{plan.schedule}, accounted by {plan.accountant.upper()}",
        "questions": _questions_in_words(recipe),
        "evaluation": {"none": "none", "public": "on public records", "paid": "on held-out records, paid for"}[
            config.evaluation.kind
        ],
    }


def _about_crowd(campaign: Campaign, recipe: Crowd) -> dict[str, str]:
    config, gate = recipe.config, recipe.config.gate
    unit = "persons" if config.log.person is not None else "rows, which is no promise to a person with several"
    return {
        "recipe": config.recipe.name,
        "task": f"{config.task.kind}, {len(recipe.classes)} classes",
        "gate": f"a text passes if {gate.k} {unit} kept it, by coins of {gate.beta:g}; at most {gate.values} each",
        "normalisation": gate_of(config).normalisation,
        "released": f"{len(campaign.pool):,} texts, charged once",
        "questions": f"to {config.oracle.per_question} people each, by {config.scorer.name}",
        "labels": f"{config.answers.aggregation}, over all answers",
        "gold": "public, as declared",
        "evaluation": "none" if config.evaluation.path is None else "on public texts",
    }


def _about_teachers(recipe: Teachers) -> dict[str, str]:
    config, price = recipe.config, recipe.plan.price
    return {
        "recipe": config.recipe.name,
        "task": f"{config.task.kind}, {len(recipe.classes)} classes",
        "private": f"{config.private.size:,} labelled records, as declared; read once, by teachers",
        "pool": f"{config.pool.size:,} public records, as declared",
        "teachers": f"{price.teachers}, {config.teachers.name}, on disjoint parts",
        "answers": f"at most {price.answers:,}, {price.aggregator}",
        "heard": f"95 times of 100, a class that leads by {price.lead():.0f} votes",
        "student": f"{config.student.name}, asks by {config.student.ask}; no answer: {config.student.unstable}",
        "evaluation": "none" if config.evaluation.path is None else "on public records",
    }


def _questions_in_words(recipe: PrivatePool) -> str:
    if recipe.phases == 1:
        return "the initial records alone"
    if not reads_scores(recipe):
        return recipe.config.selector.name
    return f"{recipe.config.selector.name}, by {recipe.config.scorer.name}"


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
        batch=None if plan is None else plan.batch,
        noise=() if phase is None else tuple(stage.noise_multiplier for stage in phase.stages if stage.steps),
        rates={cohort.label: rate for cohort, rate in zip(cohorts, rates, strict=False)},
        query=None if facts is None else _query(facts, number),
        evaluation=measured,
    )


def _state(number: int, now: SeenState) -> State:
    if number < now.phase or now.step == "done":
        return "trained"
    if now.step == "planned":
        return "planned"
    words: dict[str, State] = {"ask": "next", "answer": "answering", "train": "training"}
    return words[now.step] if number == now.phase else "ahead"


def _query(facts: Mapping[str, Any], number: int) -> QueryReport:
    histogram = None if facts.get("histogram") is None else NoisyHistogram.from_json(facts["histogram"])
    mechanism = str(facts.get("mechanism", "unknown"))
    return QueryReport(
        mechanism=mechanism,
        private=bool(facts.get("private", True)),
        threshold=facts.get("threshold"),
        histogram=histogram,
        chosen=facts.get("chosen"),
        note=_note(facts, mechanism, number, shown=histogram is not None),
    )


_OF_CROWD = {
    "bootstrap": "Gold labels, which are public; nobody is asked.",
    "uncertainty": "Released texts that the model is least sure of: free, for they were paid for at the gate.",
}


def _note(facts: Mapping[str, Any], mechanism: str, number: int, *, shown: bool) -> str:
    """Why there are noisy counts to see, or none."""
    if shown:
        return "Counts with the noise that was paid for; the query found its threshold in them."
    if mechanism in _OF_CROWD:
        return _OF_CROWD[mechanism]
    if mechanism.startswith("student: "):
        return "Public records that the student chose: free. What the teachers answered was paid for."
    if number == 0:
        return "Initial records are not chosen by a score."
    if mechanism == "random":
        return "Records were drawn by lot; no score was read."
    if not facts.get("private", True):
        return "Records were chosen by looking at their scores, which was not paid for. Nothing of them is shown."
    if facts.get("threshold") is None:
        return "The noisy scores stay hidden: whom to ask was paid for, and nothing else to show."
    return "No counts were paid for, or none were kept: the threshold is all that is known of the scores."


# -- what is the owner's


def _owned(campaign: Campaign, steps: list[Transition], *, scores: bool) -> Owned:
    labels, answers = campaign.labels(), campaign.store.answers()
    said = Counter(one for value in labels.values() for one in ((value,) if isinstance(value, str) else value or ()))
    return Owned(
        phases=tuple(_owned_phase(campaign, steps, labels, number) for number in range(campaign.recipe.phases)),
        classes={name: said[name] for name in campaign.recipe.classes},
        annotators=dict(sorted(Counter(one.annotator or "(no name)" for one in answers).items())),
        scores=_exact_scores(campaign, steps) if scores else (),
    )


def _owned_phase(campaign: Campaign, steps: list[Transition], labels: Mapping[str, Any], number: int) -> OwnedPhase:
    asked = campaign.store.questions(number)
    left, gone = {question.id for question in campaign.open()}, campaign.withdrawn_questions()
    times = {one.kind: one.at.strftime("%Y-%m-%d %H:%M") for one in steps if one.phase == number}
    return OwnedPhase(
        phase=number,
        asked=len(asked),
        labelled=sum(one.record in labels for one in asked),
        skipped=sum(one.record not in labels and one.id not in left and one.id not in gone for one in asked),
        withdrawn=sum(one.id in gone for one in asked),
        open=sum(one.id in left for one in asked),
        asked_at=times.get(PUBLISHED),
        trained_at=times.get(TRAINED),
    )


def _exact_scores(campaign: Campaign, steps: list[Transition]) -> tuple[ScoreCounts, ...]:
    recipe = campaign.recipe
    if not isinstance(recipe, PrivatePool) or not reads_scores(recipe):
        return ()
    from discreet.recipes.selecting import scorer_of

    found = []
    for one in steps:
        if one.kind == PUBLISHED and one.phase:
            kept = one.facts.get("histogram")
            counts = exact_counts(campaign, recipe, one.phase, len(kept["counts"]) if kept else BINS)
            limits, tau = scorer_of(recipe.config).range, one.facts.get("threshold")
            found.append(ScoreCounts(phase=one.phase, range=limits, counts=counts, threshold=tau))
    return tuple(found)
