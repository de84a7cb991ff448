"""The steps of a phase: what is charged, drawn and stored in which order, and how the plan of later phases is replaced.

Guarantee: every charge is a line of the ledger in the store before anything is drawn from it; what was drawn is stored
before it is returned. A query or training that was begun is repeated with the same draws, from a key sealed in a file
until it is over (a simulation: from its seed). Every step is recorded once; doing it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from discreet.campaign.answers import (
    INTERNAL,
    Assignment,
    labels_from_bytes,
    to_bytes,
    trust_from_bytes,
)
from discreet.campaign.crash_recovery import (
    ANSWER,
    ASK,
    CHECKPOINTS,
    TRAIN,
    charging,
    forget,
    naming_checkpoints,
    place_in,
    query_begun,
    record_release,
)
from discreet.campaign.journal import Asked, Journal, Trained, TrainingBegun
from discreet.campaign.questions import named_questions
from discreet.campaign.recipe import (
    REPLANNED,
    Answering,
    Continuation,
    Labels,
    PhaseContext,
    Proposal,
    Recipe,
    ReplanRequest,
    Watch,
    replannings,
)
from discreet.campaign.state import ANSWERED, MODEL, PUBLISHED, TRAINED, TRAINING, campaign_state, ledger_of
from discreet.campaign.withdrawal import LABELS, manifest_key
from discreet.errors import NotNow, PoolChanged
from discreet.noise import OperatingSystem, SealedPhase, Seeded, Source
from discreet.pools import Pool, VerifiedPool, macs
from discreet.privacy.ledger import Ledger
from discreet.records import PROGRAM, Answer, Question, Shown
from discreet.storage import CampaignStore

TRUST = "trust"


@dataclass(frozen=True, kw_only=True)
class PhaseSteps:
    """The steps on the pool and the recipe as they are at this moment. For whoever holds the campaign."""

    store: CampaignStore
    recipe: Recipe
    pool: Pool
    seed: int | None
    watch: Watch
    journal: Journal

    # -- the query, the answers, the training

    def publish(self, phase: int) -> None:
        """Charge and draw the query of a phase, and publish its questions."""
        forget(self.store)
        self._check_size()
        checked = query_begun(self.store, phase)

        def check() -> None:
            """Once, before the first charge. A query that was charged before is repeated with nulls for changed
            records: refused, its noise would fit neither those nor the restored ones, and nobody could go on.
            """
            nonlocal checked
            if not checked:
                pool.check(name=self.store.name, progress=lambda done, total: self.watch("checking", done, total))
            checked = True

        with charging(self.store, phase, ASK, self._source()) as charges:
            marked = [record.id for record in self.store.withdrawn() if not record.erased]  # perhaps gone from the file
            pool = VerifiedPool(self.pool, manifest_key(self.store), self.store.macs, besides=marked)
            chosen = self.recipe.choose(replace(self._context(phase, charges), pool=pool, check=check))
            check()  # of a query that is free
            self.store.publish(
                phase,
                named_questions(phase, chosen.ids, self.pool.ids),
                above=chosen.above,
                cohorts=chosen.cohorts,
                facts=chosen.facts,
            )
        self.journal(Asked(phase=phase, labels_planned=self.recipe.labels_planned(phase)))

    def answer(self, phase: int, tell: Callable[[Sequence[Answer]], Any]) -> int:
        """Charge and draw the recipe's own answers to the questions of a phase, and ``tell`` them; how many there
        are.
        """
        assert isinstance(self.recipe, Answering)
        questions = self.store.questions(phase)
        self.check_records(question.record for question in questions)
        self.store.show(
            [Shown(question_id=question.id, audience=INTERNAL, kind=PROGRAM) for question in questions], cap=None
        )
        forget(self.store)
        with charging(self.store, phase, ANSWER, self._source()) as charges:
            answers = self.recipe.answers(self._context(phase, charges), questions)
            tell(answers)
            answered = sum(answer.value is not None for answer in answers)  # public: it was paid for
            self.store.record(ANSWERED, phase=phase, facts={"asked": len(questions), "answered": answered})
        forget(self.store)
        return len(questions)

    def fix_labels(self, phase: int, labels: Labels, assignment: Assignment | None) -> None:
        """From here on the phase is trained on these labels: equal noise on other ones would show their difference."""
        withdrawn = {record.id for record in self.store.withdrawn()}
        values = {name: value for name, value in labels.values.items() if name not in withdrawn}
        self.store.keep_file(LABELS, phase=phase, data=to_bytes(values), replace=True)
        if trust := {name: share for name, share in labels.trust.items() if name not in withdrawn}:
            self.store.keep_file(TRUST, phase=phase, data=to_bytes(trust), replace=True)
        self.store.record(TRAINING, phase=phase, facts={} if assignment is None else assignment.facts())

    def train(self, phase: int) -> None:
        """Charge the training of a phase, and train on its fixed labels."""
        labels = labels_from_bytes(self.store.file(LABELS, phase).read_bytes())
        has_trust = TRUST in self.store.kinds(phase)
        trust = trust_from_bytes(self.store.file(TRUST, phase).read_bytes()) if has_trust else {}
        forget(self.store)
        self.journal(TrainingBegun(phase=phase))
        with charging(self.store, phase, TRAIN, self._source()) as charges:
            context = replace(self._context(phase, charges), trust=trust)
            with naming_checkpoints(self.store):
                trained = self.recipe.train(context, labels)
            name = self.store.keep_file(MODEL, phase=phase, data=trained.content, replace=True)
            evaluation = None if trained.evaluation is None else trained.evaluation.to_json()
            facts = {"model": name, "evaluation": evaluation}
            record_release(self.store, TRAINED, phase=phase, facts=facts, released={MODEL: name})
        self.journal(Trained.of(phase, name, evaluation))
        forget(self.store, ended=campaign_state(self.store.transitions(), self.recipe.phases).step == "done")

    def _context(self, phase: int, charges: Ledger | SealedPhase) -> PhaseContext:
        before = self.store.file(MODEL, phase - 1).read_bytes() if phase else None
        return PhaseContext(
            phase=phase,
            pool=self.pool,
            ledger=charges,
            source=self._source(),
            members=self.store.cohort_members(),
            model=None if before is None else self.recipe.predictor(before),
            directory=place_in(self.store, CHECKPOINTS),
            watch=self.watch,
            facts={step.phase: step.facts for step in self.store.transitions() if step.kind == PUBLISHED},
        )

    def _source(self) -> Source:
        return OperatingSystem() if self.seed is None else Seeded(self.seed)

    # -- records as they were enrolled

    def check_records(self, ids: Iterable[str]) -> None:
        """Refuse records that are not what they were when they were enrolled."""
        wanted = [name for name in ids if name not in self.pool.withdrawn]
        stored = self.store.macs_of(wanted)
        now = macs(self.pool, manifest_key(self.store), places=self.pool.places(wanted))
        if any(stored.get(name) != code for name, code in now):
            raise PoolChanged(  # how many are used, or changed, is the owner's
                f"using records of {self.store.name}",
                "some of them are not what they were when they were enrolled",
                "Restore them; discreet pool check looks at all of them",
            )

    def is_changed(self, question: Question) -> bool:
        """Whether the record of a question is not what it was."""
        try:
            self.check_records([question.record])
        except PoolChanged:
            return True
        return False

    def _check_size(self) -> None:
        """A query that is begun without the newest records could not be gone on with by a process that has them."""
        enrolled = sum(cohort.size for cohort in self.store.pool_cohorts())
        if enrolled != len(self.pool):
            raise PoolChanged(
                f"asking in {self.store.name}",
                f"{enrolled} records are enrolled, and this process has {len(self.pool)}",
                "Load the campaign again",
            )

    # -- another plan

    def replan(self, request: ReplanRequest, *, shown: str | None) -> tuple[Proposal, Recipe]:
        """Write the new plan, in the ledger and the store in one transaction. The recipe goes by it from then on."""
        proposal, continuation = self.proposed(request)
        if shown is not None and proposal.digest != shown:
            raise NotNow("re-planning", "the campaign went on since it was shown", "Look at it again, with --dry-run")
        if continuation is None:
            return proposal, self.recipe
        number = len(replannings(self.store.transitions())) + 1
        facts = {"plan": dict(continuation.plan), "wish": request.to_json(), "figures": dict(continuation.figures)}
        with Ledger.open(self.store.sink(step=(f"{REPLANNED}{number}", proposal.phase, facts))) as ledger:
            ledger.amend(continuation.terms, phase=proposal.phase)
        return replace(proposal, made=True), continuation.recipe

    def proposed(self, request: ReplanRequest) -> tuple[Proposal, Continuation | None]:
        """What a request would cost and change; without a continuation where the same was done just before."""
        with ledger_of(self.store) as ledger:
            earlier = replannings(self.store.transitions())
            fresh = bool(ledger.entries) and ledger.entries[-1].terms is not None
            if earlier and fresh and earlier[-1].facts["wish"] == request.to_json():
                last = earlier[-1]
                return self._proposal(request, last.phase, last.facts["figures"], made=True), None
            done = self._phases_done()
            continuation = self.recipe.continued(request, ledger=ledger, done=done, pool=self.pool)
            return self._proposal(request, done, continuation.figures, made=False), continuation

    def _proposal(self, request: ReplanRequest, phase: int, figures: Mapping[str, Any], *, made: bool) -> Proposal:
        return Proposal(wish=request, phase=phase, made=made, simulation=self.store.simulation, figures=figures)

    def _phases_done(self) -> int:
        """How many phases are over. A phase that was begun is finished first: its charges count, and buy a model."""
        state = campaign_state(self.store.transitions(), self.recipe.phases)
        if state.step == "done":
            return self.recipe.phases
        if state.step != "ask" or query_begun(self.store, state.phase):
            hidden = self.recipe.terms().overflow > 0
            train = "Train it" if hidden else "Train it (--partial, where answers are missing)"
            remedy = "Ask, to finish the query" if state.step == "ask" else train
            raise NotNow("re-planning", f"phase {state.phase} was begun, and is paid for as it was planned", remedy)
        if state.phase == 0:
            raise NotNow("re-planning", "nothing was done yet", "Create a campaign of another name with the new plan")
        return state.phase
