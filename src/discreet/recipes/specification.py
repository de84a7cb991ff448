"""What a recipe declares about itself, once: `RecipeSpec`. Everything that creates, opens, verifies, reports or exports
a campaign asks there; `spec_of` finds it, and imports its module when a file or a campaign names it.

A campaign is created in this order, each step durable before the next: ``prepare`` refuses what cannot work and reads
no private cell; the row of the campaign in the store; the enrolled pool; the ledger; ``begin``, which some recipes
use to draw or count once; the step "created". A process that dies leaves what the next one finishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from discreet.campaign import Campaign
from discreet.campaign.answers import labels_of
from discreet.campaign.recipe import Labels, Watch, replannings, unwatched
from discreet.campaign.withdrawal import MANIFEST
from discreet.config import CampaignFile
from discreet.errors import InvalidStore
from discreet.noise import SecretKey
from discreet.parts import RECIPES
from discreet.pools import Pool
from discreet.pools.manifest import ManifestKey, macs
from discreet.privacy.budget import Budget
from discreet.privacy.certificate import Check
from discreet.privacy.ledger import Ledger, Line
from discreet.privacy.plan import Plan
from discreet.records import Answer, Question, Value
from discreet.storage import CampaignStore

FORMAT = "discreet.campaign-state/1"
CLASSIFIER, STUDENT = "classifier.npz", "student.npz"
"""Weights of exported models that are no torch modules; a student that is not linear is what it learnt from."""
Confirm = Callable[[Any], bool] | bool
"""Who decides whether a campaign begins: a function of what the owner is shown; True: begin without looking; False:
nobody is there."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the caller gives beside the file: a pool instead of the file's, a plan that was made before, who
    confirms.
    """

    pool: Pool | None = None
    plan: Plan | None = None
    confirm: Confirm = False
    watch: Watch = unwatched


@dataclass(frozen=True, kw_only=True)
class ModelParts:
    """What a recipe adds to an exported model. ``form``: keys of model.json. ``encoder``: a public one to copy.
    ``feature_map``: what the model reads records by.

    example_rows   made-up records to trace an ONNX file with, or why there is none
    """

    form: Mapping[str, Any]
    example_rows: Callable[[int], Any] | str
    encoder: Any = None
    feature_map: Any = None


def _nothing(*_: Any) -> Any:
    """Of a recipe that has none of it."""


@dataclass(frozen=True, kw_only=True)
class RecipeSpec:
    """A recipe. ``config`` stands for its configuration, as its file is read.

    name, title       as a file names it; in messages
    takes             which of ``pool`` and ``plan`` a caller may give
    prepare           refuse what cannot work; further keys of the stored form, and what `begin` and `records` read
    open              the recipe of a store, from its configuration
    records           the pool of a store; None where there is none before `begin`
    begin             what is drawn or counted once, after the ledger is open
    may_change        keys of its file that may change later: where things are, how fast they are computed
    bind              the recipe with the keys or files of its created store
    as_created        the configuration, adapted to what was created
    checks            of `verify`, against a ledger that was found whole
    released_files    kinds of files that `begin` released
    confirmation      what the owner confirms before a campaign begins; None: nothing
    has_private_files whether its file names private records, so that there is something to confirm
    created           public facts and lines that `init` prints
    settings          settings that followed from public numbers: public facts and lines that `status` prints
    owner_facts       counts that `status` shows to the owner
    shown_texts       texts that annotators are shown, by record
    true_labels       what simulated annotators know; None: the labels of the file
    answers_itself    whether nobody else is asked
    plan              the plan of a private pool
    planned_lines     what a re-planned campaign will charge from a phase on
    exact_counts      unpaid counts of a query's scores, for the owner: the range and the counts
    about             what was declared, in words, for reports
    assumptions       what the claim rests on, for reports; None: what it rests on for a private pool
    notes             of queries, by their mechanism, for reports
    public_records    whether the records that are asked about are public
    exported          what an export adds; None: its models cannot be exported
    card_assumptions, card_training   for the model card
    simulates         whether `simulate` plays it
    """

    name: str
    title: str
    prepare: Callable[[Any, Inputs], tuple[dict[str, Any], Any]] = _nothing
    open: Callable[[CampaignStore, Any], Any] = _nothing
    records: Callable[[CampaignStore, Any, Any], Pool | None] = _nothing
    takes: frozenset[str] = frozenset()
    may_change: tuple[str, ...] = ()
    begin: Callable[[CampaignStore, Any, Any, int | None, Watch], None] = _nothing
    bind: Callable[[CampaignStore, Any, int | None], Any] = lambda store, recipe, seed: recipe
    as_created: Callable[[CampaignStore, Any], Any] = lambda store, config: config
    checks: Callable[[CampaignStore, Any, Ledger], Iterable[Check]] = lambda store, config, ledger: ()
    released_files: tuple[str, ...] = ()
    confirmation: Callable[[Any], str] | None = None
    has_private_files: Callable[[Any], bool] = lambda config: True
    created: Callable[[Campaign], tuple[dict[str, Any], list[str]]] = lambda campaign: ({}, [])
    settings: Callable[[Campaign], tuple[dict[str, Any], list[str]]] = lambda campaign: ({}, [])
    owner_facts: Callable[[Campaign], dict[str, int | None] | None] = _nothing
    shown_texts: Callable[[Campaign], dict[str, str]] = lambda campaign: {}
    true_labels: Callable[[Campaign], dict[str, Value] | None] = _nothing
    answers_itself: bool = False
    plan: Callable[[Any], Plan | None] = _nothing
    planned_lines: Callable[[Any, int], Sequence[Line]] = lambda recipe, phase: ()
    exact_counts: Callable[[Campaign, int, int], tuple[tuple[float, float], tuple[int, ...]] | None] = _nothing
    about: Callable[[Campaign], dict[str, str]] = lambda campaign: {"classes": f"{len(campaign.recipe.classes)}"}
    assumptions: Callable[[Budget], tuple[str, ...]] | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    public_records: bool = False
    exported: Callable[[Campaign], ModelParts] | None = None
    card_assumptions: tuple[str, ...] = ()
    card_training: str = ""
    simulates: bool = False


class FileRecipe:
    """What recipes that are read from a file have in common."""

    config: Any
    released = False

    @property
    def classes(self) -> tuple[str, ...]:
        """Declared."""
        return tuple(self.config.task.classes)

    @property
    def multilabel(self) -> bool:
        """Whether an answer is a set of classes."""
        return bool(self.config.task.kind == "multilabel")

    @property
    def threshold(self) -> float | None:
        """Of two classes: from which probability of the second it is the answer; None: the likelier one is."""
        threshold: float | None = self.config.task.threshold
        return threshold

    def known_labels(self) -> Mapping[str, Value]:
        """None."""
        return {}

    def labels(self, questions: Sequence[Question], answers: Sequence[Answer], *, key: SecretKey) -> Labels:
        """The majority of a record's own answers: no other record has a say in it."""
        return Labels(values=labels_of(questions, answers, key))


def form_of(store: CampaignStore) -> dict[str, Any]:
    """What a campaign was created with, in its stored form."""
    form = store.config
    if not isinstance(form, dict) or form.get("format") != FORMAT:
        raise InvalidStore(f"opening the campaign {store.name}", "it is not in its form", "Restore the store")
    return form


def newest_plan(store: CampaignStore) -> Any:
    """The stored form of the plan the campaign goes by: the first one, or that of its last re-planning."""
    later = replannings(store.transitions())
    return later[-1].facts["plan"] if later else form_of(store)["plan"]


def is_recorded(store: CampaignStore, kind: str) -> bool:
    """Whether a step of this kind was taken."""
    return any(step.kind == kind for step in store.transitions())


def enrol(store: CampaignStore, pool: Pool, watch: Watch) -> None:
    """Keep the keyed code of every record, unless that is done."""
    if store.pool_cohorts():
        return
    path = store.directory / MANIFEST
    if not path.exists():
        ManifestKey.fresh().write(path)
    codes = macs(pool, ManifestKey.read(path), progress=partial(watch, "enrolling"))
    store.add_records(list(codes), {"pool": pool.public()})  # computed first: meanwhile others may write


# -- found by name

OWN = RecipeSpec(name="own", title="a recipe of one's own")
"""Of a campaign whose recipe is an object of the caller's."""


def recipe_named(name: str) -> RecipeSpec | None:
    """The specification of a recipe; None: there is none of that name."""
    entry = RECIPES.get(name)
    if entry is None or entry.spec is None:
        return None
    spec: RecipeSpec = entry.spec.load()
    return spec


def spec_of(config: CampaignFile) -> RecipeSpec:
    """Of a campaign's file."""
    spec = recipe_named(config.recipe.name)
    if spec is None:
        campaigns = [name for name, entry in RECIPES.items() if entry.spec is not None]
        raise config.error("recipe.name", "its file has another form", f"Use {' or '.join(campaigns)}")
    return spec


def spec_of_campaign(campaign: Campaign) -> RecipeSpec:
    """Of an open campaign."""
    config: Any = getattr(campaign.recipe, "config", None)
    return OWN if config is None else spec_of(config)
