"""Improve a private model with public data (the Public paper): label a few public records, and fine-tune.

Phase 0 takes the checkpoint up and charges what it cost; every later phase chooses public records, people label them,
and the checkpoint is fine-tuned on all labels so far. Guarantee: fine-tuning and the free selectors are post-processing
of the checkpoint; near-private pays for its components and counts in the first round (docs/proofs/near-private.md).
The claim is the committed path of a private record (zero-out): checkpoint, and what looking cost.

Assumptions: the pool is public, and so are its labels; the checkpoint's promise is what was declared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.campaign.recipe import Chosen, Desk, Labels, Trained
from discreet.campaign.replanning import Continuation, Wish
from discreet.campaign.told import labels_of
from discreet.config import CampaignConfig
from discreet.errors import BadInput, InvalidCheckpoint
from discreet.noise import SecretKey, charge_once, derived_seed
from discreet.pools import Pool
from discreet.privacy.ledger import Ledger, Terms, Why
from discreet.privacy.ledger.requests import request
from discreet.recipes import learning, measuring, public_choice
from discreet.recipes.model_records import inputs_of, made_up_rows
from discreet.recipes.public_plan import PRIVATE, PublicPlan, checkpoint_bytes
from discreet.recipes.selecting import scorer_of
from discreet.records import Answer, Question, Value
from discreet.roles import Predictor
from discreet.scorers import pool_scores
from discreet.selectors.public_records import looked_at

_ROWS = 20
RECALLED = 20_000
"""So many unlabelled public records are enough to remember by; texts among them are read into memory."""


@dataclass(frozen=True, kw_only=True)
class PublicData:
    """A `Recipe`. ``inputs``: the public shape of a record."""

    config: CampaignConfig
    plan: PublicPlan
    inputs: tuple[int, ...]

    @property
    def phases(self) -> int:
        """The checkpoint, and one a query."""
        return 1 + len(self.config.plan.queries)

    @property
    def classes(self) -> tuple[str, ...]:
        """Declared."""
        return self.config.task.classes

    @property
    def multilabel(self) -> bool:
        """Whether an answer is a set of classes."""
        return self.config.task.kind == "multilabel"

    @property
    def released(self) -> bool:
        """Never: nothing came through a gate, public records may leave as they came."""
        return False

    def labels_planned(self, phase: int) -> int:
        """Public records that are asked in a phase; none in phase 0."""
        return self.config.plan.queries[phase - 1] if phase else 0

    def terms(self) -> Terms:
        """Of the checkpoint, of looking, and of evaluation where that is paid for."""
        return self.plan.terms(self.config, phases=self.phases, held_out=measuring.price_of(self.config))

    def known_labels(self) -> Mapping[str, Value]:
        """None: phase 0 asks nobody."""
        return {}

    def labels(self, questions: Sequence[Question], answers: Sequence[Answer], *, key: SecretKey) -> Labels:
        """The majority of a record's own answers."""
        return Labels(values=labels_of(questions, answers, key))

    def check(self, pool: Pool) -> None:
        """Everything that could be refused later is refused before a campaign begins."""
        inputs_of(self.config, pool)
        predictor = learning.predictor_of(self.config, self._checkpoint())
        self._tuning(0)
        rows = made_up_rows(self.config, self.inputs, _ROWS)
        with self.config.pointing("scorer.name"):
            pool_scores(scorer_of(self.config), predictor, rows)
        if self.config.selector.name not in ("random", "uncertain"):
            with self.config.pointing("selector.name"):
                predictor.embed(rows)
        self._check_candidates(len(pool))
        if self.config.selector.name == "near-private":
            public_choice.near_private_of(self.config, self.plan)
            self._check_apart(pool)
        measuring.check(self.config, pool)

    def _check_candidates(self, size: int) -> None:
        """As many candidates as will be asked of them: found out later, near-private would have paid for nothing."""
        uncertain, queries = self.config.selector.uncertain, self.config.plan.queries
        if uncertain is None:
            return
        with self.config.pointing("selector.uncertain"):
            looked_at(uncertain, sum(queries) if self.config.selector.name == "near-private" else max(queries), size)

    def _check_apart(self, pool: Pool) -> None:
        """A private record in the public pool would be shown to everybody."""
        own = public_choice.private_pool(self.config)
        assert self.config.private is not None
        here, there = self.config.resolve(self.config.private.path), self.config.resolve(self.config.pool.path)
        same = self.config.pool.kind != "arrays" and here.exists() and there.exists() and here.samefile(there)
        if same or (self.config.pool.id != "position" and set(own.ids) & set(pool.ids)):
            raise self.config.error("private.path", "records of the public pool are in it", "Keep them apart")
        if inputs_of(self.config, own) != self.inputs:
            fact = "its records have another shape than the public ones"
            raise self.config.error("private.path", fact, "Prepare both in one way")

    def choose(self, desk: Desk) -> Chosen:
        """Nobody in phase 0; later, public records, for nothing or for what the plan pays."""
        if desk.phase == 0:
            return Chosen(ids=(), cohorts={}, facts={"mechanism": "checkpoint", "private": True, "threshold": None})
        return public_choice.chosen_public(desk, self.config, self.plan, self.labels_planned(desk.phase))

    def continued(self, wish: Wish, *, ledger: Ledger, done: int, pool: Pool) -> Continuation:
        """Refused: what is private here is spent in the first round."""
        raise BadInput(
            "re-planning a campaign on public data",
            "its private cost is spent in its first round, and labels of public records cost nothing",
            "Start another campaign from the model of this one",
        )

    def train(self, desk: Desk, labels: Mapping[str, Value]) -> Trained:
        """Phase 0: charge the checkpoint, and take it up. Later: fine-tune it on all labels so far, which is free."""
        start = self._checkpoint()
        measured = measuring.held_out(self.config, desk, last=desk.phase == self.phases - 1)
        if desk.phase == 0:
            event, count = self.plan.charged
            why = Why(phase=0, purpose="training of the checkpoint")
            charge_once(desk.charges, [request({PRIVATE: event}, count=count, why=why)])
            made = learning.predictor_of(self.config, start)
        else:
            ids = [one for mine in desk.members.values() for one in mine if one not in desk.pool.withdrawn]
            records = learning.cohort_of(self.config, desk.pool, ids, labels)
            tuned = self._tuning(desk.phase).train(
                start,
                records,
                pool=self._recalled(desk, set(ids)),
                progress=lambda done, whole: desk.watch("fine-tuning", done, whole),
            )
            made = learning.predictor_of(self.config, tuned.module)
        evaluation = measuring.evaluated(self.config, made, desk, measured)
        return Trained(content=learning.to_bytes(made.module), evaluation=evaluation)

    def _recalled(self, desk: Desk, asked: set[str]) -> Any:
        """Public records that nobody was asked about, to remind the checkpoint of; of a large pool, some at random."""
        assert self.config.checkpoint is not None  # checked with the file
        if not self.config.checkpoint.recall:
            return None
        gone = asked | desk.pool.withdrawn
        places = np.array([place for place, name in enumerate(desk.pool.ids) if name not in gone], dtype=np.int64)
        places = places[~desk.pool.broken(places)]
        if len(places) > RECALLED:
            chance = np.random.default_rng(derived_seed(self.config.model.seed, "recalled records", desk.phase))
            places = np.sort(chance.choice(places, RECALLED, replace=False))
        return learning.cohort_of(self.config, desk.pool, [desk.pool.ids[place] for place in places.tolist()], {})

    def predictor(self, content: bytes) -> Predictor:
        """The model that `train` stored."""
        module = learning.model_of(self.config, self.inputs)
        return learning.predictor_of(self.config, learning.from_bytes(content, module))

    def _tuning(self, phase: int) -> Any:
        from discreet.trainers.fine_tune import FineTuning

        with self.config.pointing("plan"):
            return FineTuning(
                settings=learning.settings_of(self.config),
                epochs=self.config.plan.epochs,
                batch=self.config.plan.batch,
                task=learning.task_of(self.config),
                seed=derived_seed(self.config.model.seed, "fine-tuning", phase, bits=63),
                recall=0.0 if self.config.checkpoint is None else self.config.checkpoint.recall,
            )

    def _checkpoint(self) -> Any:
        """The private model as it was given."""
        content = checkpoint_bytes(self.config)
        if hashlib.sha256(content).hexdigest() != self.plan.weights:
            raise self.config.error(
                "checkpoint.path", "it is not the model that the campaign was created with", "Put that one back"
            )
        module = learning.model_of(self.config, self.inputs)
        try:
            return learning.from_bytes(content, module)
        except InvalidCheckpoint:
            fact = "its weights are not of the model in [model]"
            raise self.config.error("checkpoint.path", fact, "Name the model that it is of") from None
