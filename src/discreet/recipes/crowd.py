"""Crowd: what many people asked may be shown to strangers, who label it; a classifier learns from them.

    gate (charged once) -> rank what was released -> several answers a text -> train, least confident first -> again

Guarantee (docs/proofs/release-gate.md): the log is read once, by the gate, after its price is in the ledger; the claim
is that of the `ReleaseGate` event, zero-out, committed. All that follows reads released texts, answers about them and
public gold labels: post-processing, whoever answers and however often. So labels of many texts may decide one another's
(Dawid-Skene), and the classifier adds no noise.

Assumptions: gold and evaluation texts are public, as declared; strangers who answer know the log no better than anybody
who sees the released texts; a closed batch is released once (a later log is another campaign, and another charge).

Algorithm 1 of Feyisetan et al. (2019); phase 0 bootstraps the model, later phases ask and retrain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.campaign import Campaign
from discreet.campaign.recipe import Chosen, Continuation, Labels, PhaseContext, ReplanRequest, Trained
from discreet.campaign.state import CREATED
from discreet.config import CrowdConfig
from discreet.errors import NotNow
from discreet.gates.gate import NOT_GUARANTEED
from discreet.gates.query_log import QueryLog
from discreet.noise import SecretKey, random_places
from discreet.noise.unit_words import require_aes
from discreet.oracles.annotators import dawid_skene, trust_in
from discreet.pools import Pool
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, Terms
from discreet.recipes.crowd_release import (
    FIGURES,
    TEXTS,
    LabelledTexts,
    checked_log,
    crowd_checks,
    gate_of,
    labelled_texts,
    log_of,
    pool_of,
    release,
    released_texts,
    terms_of_gate,
)
from discreet.recipes.learning import scorer_of
from discreet.recipes.specification import CLASSIFIER, FileRecipe, Inputs, ModelParts, RecipeSpec, is_recorded
from discreet.records import Answer, Question, Value
from discreet.scorers import pool_scores
from discreet.storage import CampaignStore
from discreet.trainers.accuracy import Evaluation
from discreet.trainers.layouts import Layout, measure
from discreet.trainers.text_classifier import TextClassifier, TextSettings, train_texts

COHORT, MECHANISM = "asked", "uncertainty"
_CERTAIN = 1e12
"""Answers that a vote believes everybody gave beforehand: then nobody's own answers change how far they count."""


@dataclass(frozen=True, kw_only=True)
class Crowd(FileRecipe):
    """A `Recipe`."""

    config: CrowdConfig

    @property
    def phases(self) -> int:
        """One with gold labels alone, and one a query."""
        return 1 + len(self.config.plan.queries)

    released = True

    def labels_planned(self, phase: int) -> int:
        """Texts that are asked about in a phase, if so many are left."""
        return self.config.plan.queries[phase - 1] if phase else 0

    def terms(self) -> Terms:
        """One charge for the gate."""
        return terms_of_gate(self.config)

    def labels(self, questions: Sequence[Question], answers: Sequence[Answer], *, key: SecretKey) -> Labels:
        """One label a text and how far it is trusted, from all answers together: free, for the texts were released."""
        table, record = self.config.answers, {question.id: question.record for question in questions}
        answered = [answer for answer in answers if answer.value is not None and answer.question_id in record]
        if not answered:
            return Labels(values={})
        estimate = dawid_skene(
            answered,
            classes=self.classes,
            records_released=True,
            believed=_CERTAIN if table.aggregation == "majority" else table.believed,
            accuracy=table.accuracy,
            even=True,
        )
        trust = trust_in(estimate.posterior)
        return Labels(
            values={record[name]: label for name, label in estimate.labels(key=key).items()},
            trust={record[name]: float(part) for name, part in zip(estimate.questions, trust, strict=True)},
        )

    def choose(self, context: PhaseContext) -> Chosen:
        """The released texts that the model is least sure of, shown in random order."""
        facts = {"mechanism": "bootstrap" if context.phase == 0 else MECHANISM, "private": True, "threshold": None}
        if context.phase == 0:
            return Chosen(ids=(), cohorts={}, facts=facts)
        asked = context.asked
        left = [name for name in context.pool.ids if name not in asked]
        order = self._drawn(context, len(left))  # ties fall at random
        names = [left[position] for position in order]
        scores = self._scores(context, names)
        best = np.argsort(-scores, kind="stable")[: self.labels_planned(context.phase)].tolist()
        ids = tuple(names[best[position]] for position in self._drawn(context, len(best)))
        return Chosen(ids=ids, cohorts=dict.fromkeys(ids, COHORT), facts=facts)

    def _drawn(self, context: PhaseContext, count: int) -> list[int]:
        if not count:
            return []
        order: list[int] = random_places(count, count, where=context.source, kind=MECHANISM).tolist()
        return order

    def _scores(self, context: PhaseContext, names: list[str]) -> Any:
        texts = _texts(context.pool, names)
        if not texts:
            return np.zeros(0)
        return pool_scores(
            scorer_of(self.config),
            context.model,
            texts,
            progress=lambda done, total: context.watch("scoring", done, total),
        )

    def train(self, context: PhaseContext, labels: Mapping[str, Value]) -> Trained:
        """On gold labels and the crowd's, least confident first."""
        gold = labelled_texts(self.config, self.config.gold.path, "gold.path")
        asked = [name for name in context.pool.ids if isinstance(labels.get(name), str)]
        texts = [*gold.texts, *_texts(context.pool, asked)]
        classes = [*gold.labels, *(str(labels[name]) for name in asked)]
        weights = [*(1.0 for _ in gold.texts), *(context.trust.get(name, 1.0) for name in asked)]
        context.watch("training", 0, 1)
        model = train_texts(
            texts,
            classes,
            classes=self.classes,
            settings=self.settings(),
            start=context.model if isinstance(context.model, TextClassifier) else None,
            weights=weights,
        )
        context.watch("training", 1, 1)
        return Trained(content=model.to_bytes(), evaluation=self._evaluated(model))

    def settings(self) -> TextSettings:
        """Of the classifier."""
        table = self.config.model
        with self.config.pointing("model"):
            return TextSettings(
                features=table.features,
                epochs=table.epochs,
                regularization=table.regularization,
                dropout=table.dropout,
                order=table.order,
                seed=table.seed,
            )

    def _evaluated(self, model: TextClassifier) -> Evaluation | None:
        held_out = evaluation_texts(self.config)
        if held_out is None:
            return None
        truth = np.array([self.classes.index(label) for label in held_out.labels])
        layout = Layout(classes=len(self.classes), threshold=self.threshold)
        return measure(model.predict_proba(held_out.texts), truth, layout)

    def continued(self, wish: ReplanRequest, *, ledger: Ledger, done: int, pool: Pool) -> Continuation:
        """There is nothing to re-plan: the gate is the whole price, and it is paid."""
        raise NotNow(
            "re-planning a crowd campaign",
            "its whole price was paid at the gate, and further questions are free",
            "Make a campaign of another name with more queries",
        )

    def predictor(self, content: bytes) -> TextClassifier:
        """The model that `train` stored."""
        return TextClassifier.from_bytes(content)


def evaluation_texts(config: CrowdConfig) -> LabelledTexts | None:
    """Public labelled texts to measure on, if there are some; none of them a gold one."""
    if config.evaluation.path is None:
        return None
    held_out = labelled_texts(config, config.evaluation.path, "evaluation.path")
    shared = len(set(held_out.texts) & set(labelled_texts(config, config.gold.path, "gold.path").texts))
    if shared:
        raise config.error("evaluation.path", f"{shared} of its texts are gold ones, too", "Keep them apart")
    return held_out


def _texts(pool: Pool, names: Sequence[str]) -> list[str]:
    return [str(text) for text in pool.rows(pool.places(names))] if names else []


def _prepare(config: CrowdConfig, inputs: Inputs) -> tuple[dict[str, Any], QueryLog]:
    recipe = Crowd(config=config)
    recipe.terms()
    recipe.settings()
    scorer_of(config)
    labelled_texts(config, config.gold.path, "gold.path")
    evaluation_texts(config)
    require_aes()
    return {}, checked_log(config, log_of(config))


def _records(store: CampaignStore, config: CrowdConfig, log: QueryLog | None) -> Pool | None:
    if not is_recorded(store, CREATED):
        return None
    texts = released_texts(store)
    if not texts:
        raise NotNow(
            f"going on with {store.name}",
            f"the gate released nothing: no text was kept by {config.gate.k} units",
            "Make a campaign of another name with a smaller k or more rows; this one is paid for",
        )
    return pool_of(texts)


def _created(campaign: Campaign) -> tuple[dict[str, Any], list[str]]:
    """How many texts the gate released, which was paid for, and whom it does not protect."""
    config, count = _config(campaign), len(campaign.pool)
    gate, persons = config.gate, config.log.person is not None
    lines = [
        f"the gate released {count} texts that {gate.k} or more {config.budget.unit}s kept, by coins of {gate.beta:g}"
    ]
    released = {"values": count, "k": gate.k, "beta": gate.beta, "persons": persons}
    return {"released": released}, lines if persons else [*lines, NOT_GUARANTEED]


def _owner_facts(campaign: Campaign) -> dict[str, int | None]:
    """How many rows its log had, and how many of them were broken."""
    figures: dict[str, int | None] = json.loads(campaign.store.file(FIGURES, 0).read_bytes())
    return figures


def _shown_texts(campaign: Campaign) -> dict[str, str]:
    return dict(zip(campaign.pool.ids, map(str, campaign.pool.rows(slice(None))), strict=True))


def _true_labels(campaign: Campaign) -> dict[str, Value]:
    """Labels of released texts, from a file of labelled ones."""
    config = _config(campaign)
    assert config.oracle.path is not None  # checked with the file
    known = labelled_texts(config, config.oracle.path, "oracle.path")
    labels = dict(zip(known.texts, known.labels, strict=True))
    return {record: labels[text] for record, text in _shown_texts(campaign).items() if text in labels}


def _about(campaign: Campaign) -> dict[str, str]:
    config = _config(campaign)
    gate, persons = config.gate, config.log.person is not None
    unit = "persons" if persons else "rows, which is no guarantee to a person with several"
    return {
        "recipe": config.recipe.name,
        "task": f"{config.task.kind}, {len(config.task.classes)} classes",
        "gate": f"a text passes if {gate.k} {unit} kept it, by coins of {gate.beta:g}; at most {gate.values} each",
        "normalisation": gate_of(config).normalisation,
        "released": f"{len(campaign.pool):,} texts, charged once",
        "questions": f"to {config.oracle.per_question} people each, by {config.scorer.name}",
        "labels": f"{config.answers.aggregation}, over all answers",
        "gold": "public, as declared",
        "evaluation": "none" if config.evaluation.path is None else "on public texts",
    }


def _assumptions(budget: Budget) -> tuple[str, ...]:
    return (
        f"Compared are the log as it is, and the log without what one {budget.unit} brought (zero-out).",
        "Annotators are strangers: what they see passed the gate, which is the whole price. Answers, labels and models "
        "are made of released texts and public gold labels alone.",
        "The log was a closed batch, released once; texts were brought to one form by their own letters alone.",
        "Gold and evaluation texts are public, as declared; keys stay secret, and what was cut off is repeated with "
        "the same coins.",
    )


def _exported(campaign: Campaign) -> ModelParts:
    """A model of texts as its gate normalised them."""
    config = _config(campaign)
    form = {
        "recipe": config.recipe.name,
        "task": "classes",
        "classes": list(config.task.classes),
        "model": {"name": config.model.name, "options": {}, "dropout": config.model.dropout},
        "inputs": [],
        "weights": CLASSIFIER,
        "preprocessing": {"kind": "parquet", "text": config.log.text, "normalisation": config.gate.normalisation},
    }
    return ModelParts(form=form, example_rows="it reads texts by a hash of their words")


def _config(campaign: Campaign) -> CrowdConfig:
    recipe: Any = campaign.recipe
    config: CrowdConfig = recipe.config
    return config


SPEC = RecipeSpec(
    name="crowd",
    may_change=("log.path", "gold.path"),
    title="a crowd campaign",
    prepare=_prepare,
    open=lambda store, config: Crowd(config=config),
    records=_records,
    begin=lambda store, recipe, log, seed, watch: release(store, recipe.config, log, seed, watch),
    checks=crowd_checks,
    released_files=(TEXTS,),
    created=_created,
    owner_facts=_owner_facts,
    shown_texts=_shown_texts,
    true_labels=_true_labels,
    about=_about,
    assumptions=_assumptions,
    notes={
        "bootstrap": "Gold labels, which are public; nobody is asked.",
        MECHANISM: "Released texts that the model is least sure of: free, for they were paid for at the gate.",
    },
    exported=_exported,
    card_assumptions=(
        "Strangers saw texts that passed a gate (k people, coins), and no others; the gate is the whole price.",
        "Labels and weights were made of released texts, answers about them and public labelled texts, without noise.",
        "The log was released once, as a closed batch; the coins' keys stayed secret and came from the operating "
        "system.",
    ),
    card_training="on labels of strangers",
)
