"""Keys that must agree with one another. Each rule reads whole tables and says which key to change.

A rule runs only when the tables it reads were right by themselves. Rules of the promise itself (which plan keeps the
budget) are the planner's; here is what can be told without computing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from urllib.parse import urlsplit

from discreet.config.data_tables import (
    EvaluationConfig,
    OracleConfig,
    PoolConfig,
    SimulationConfig,
    StorageConfig,
    TaskConfig,
)
from discreet.config.learning_tables import (
    BudgetConfig,
    ModelConfig,
    RecipeConfig,
    ScorerConfig,
    SelectorConfig,
    TrainerConfig,
)
from discreet.config.plan_combinations import PLAN_RULES
from discreet.config.public_combinations import OPTIONS as PUBLIC_OPTIONS
from discreet.config.public_combinations import PUBLIC_RULES
from discreet.config.table_reading import Problem

Problems = Iterator[Problem]
_TABULAR = ("parquet", "arrow", "csv")
_OF_SIMULATED = ("annotators", "label_noise", "skip", "late", "accuracy")
_OF_LABEL_STUDIO = ("url", "project", "token_file", "plain_http")
_NAMED = ("files", "web", "label-studio")
"""Oracles that know whom they show a question to, one by one."""
_OF_SELECTORS: dict[str, tuple[str, ...]] = {
    "threshold-response": ("threshold_epsilon", "threshold", "share_above", "bins"),
    "clipped-laplace": ("clip",),
    "gaussian": ("delta",),
    "subsampled-gaussian": ("delta", "subsample"),
    "k-centre": ("delta", "radius", "anchored"),
    "hidden-threshold": ("threshold_epsilon", "bins"),
    "random": (),
    "exact": (),
    "laplace": (),
    "exponential": (),
    **PUBLIC_OPTIONS,
}
"""Selectors whose options are known here; one of your own may have any of them."""


def at(path: str, fact: str, remedy: str) -> Problem:
    """A problem of one key."""
    return Problem(path=tuple(path.split(".")), fact=fact, remedy=remedy)


def _pool(pool: PoolConfig) -> Problems:
    tabular = pool.kind in _TABULAR
    if tabular and (pool.columns is None) == (pool.text is None):
        yield at(
            "pool.columns", f"a pool of kind {pool.kind} has columns with numbers, or one with text", "Name either"
        )
    for name, kinds in (("columns", _TABULAR), ("text", _TABULAR), ("array", ("npz",))):
        if getattr(pool, name) is not None and pool.kind not in kinds:
            yield at(f"pool.{name}", f"a pool of kind {pool.kind} has none", f"Leave it out; it is for {kinds[-1]}")
    if pool.id is None and pool.kind not in ("images", "arrays"):
        yield at("pool.id", "nothing says which record is which", "Name the column or array with ids, or 'position'")
    if pool.kind == "npy" and pool.id not in (None, "position"):
        yield at("pool.id", "an npy file holds one array, and no ids", "Write id = 'position', or use an npz file")
    if pool.kind == "images" and (pool.shape is None or len(pool.shape) not in (2, 3)):
        yield at("pool.shape", "the shape of a picture is declared", "Write [height, width] or [3, height, width]")
    if pool.text is not None and (pool.shape is not None or (pool.center, pool.scale) != (0.0, 1.0)):
        yield at("pool.text", "text has no shape, center or scale", "Leave them out")
    for name in ("center", "scale"):
        value = getattr(pool, name)
        if isinstance(value, tuple) and pool.columns is not None and len(value) != len(pool.columns):
            yield at(f"pool.{name}", f"it has {len(value)} numbers for {len(pool.columns)} columns", "Give one each")


def _task(task: TaskConfig) -> Problems:
    least = 1 if task.kind == "multilabel" else 2
    if task.kind == "binary" and len(task.classes) != 2:
        yield at("task.classes", f"a binary task has two, and there are {len(task.classes)}", "Use kind = 'multiclass'")
    elif len(task.classes) < least:
        yield at("task.classes", f"a {task.kind} task has at least {least}", "Declare them all, also rare ones")


def _persons(budget: BudgetConfig, pool: PoolConfig, trainer: TrainerConfig) -> Problems:
    if budget.unit == "record":
        named = {"pool.person": pool.person is not None, "pool.persons": pool.persons is not None}
        named |= {"budget.records_per_person": budget.records_per_person != 1}
        named |= {"trainer.person_clip": trainer.person_clip != "each"}
        for path, is_set in named.items():
            if is_set:
                yield at(path, "persons are named, and [budget] protects records", "Use unit = 'person', or remove it")
        return
    if pool.person is None:
        yield at("pool.person", "it is missing, and persons are protected", "Name what says whose record it is")
    if pool.persons is None:
        yield at("pool.persons", "it is missing, and plans count persons", "Declare how many persons there are")
    elif pool.persons > pool.size:
        yield at("pool.persons", f"{pool.persons} persons have only {pool.size} records", "Count again")


def _delta(budget: BudgetConfig, recipe: RecipeConfig) -> Problems:
    if budget.delta == 0 and recipe.name == "private-pool":
        yield at("budget.delta", "training with Gaussian noise has no promise at delta 0", "Write delta = '1e-6'")


def _selector(selector: SelectorConfig) -> Problems:
    known = _OF_SELECTORS.get(selector.name)
    for name in dict.fromkeys(option for options in _OF_SELECTORS.values() for option in options):
        if known is not None and name not in known and getattr(selector, name) is not None:
            homes = ", ".join(home for home, options in _OF_SELECTORS.items() if name in options)
            yield at(f"selector.{name}", f"{selector.name} has no such option", f"Leave it out; it is for {homes}")
    if selector.threshold is not None and (selector.threshold_epsilon is not None or selector.share_above is not None):
        yield at("selector.threshold", "a declared threshold is free, and where it stands", "Keep it, or the others")


def _exact(selector: SelectorConfig, simulation: SimulationConfig | None) -> Problems:
    if selector.name == "exact" and simulation is None:
        yield at("selector.name", "exact selection is not private", "Add [simulation], or choose another")


def _scorer(scorer: ScorerConfig, selector: SelectorConfig) -> Problems:
    own = ":" in scorer.name
    if own and scorer.range is None:
        yield at("scorer.range", "a score of your own has a declared range", "Add range = [0.0, 1.0]")
    for name in ("range", "needs"):
        if not own and getattr(scorer, name) is not None:
            yield at(f"scorer.{name}", "only a score of your own declares it", "Remove it")
    if scorer.range is not None and scorer.range[0] >= scorer.range[1]:
        yield at("scorer.range", "its bottom is not below its top", "Write [bottom, top]")
    if scorer.name == "random" and selector.name not in ("random", "k-centre", "k-means", "greedy-k-centre"):
        yield at("scorer.name", f"{selector.name} would pay for looking at random scores", "Name a score, as 'entropy'")


def _oracle(oracle: OracleConfig, simulation: SimulationConfig | None) -> Problems:
    simulated = oracle.name == "simulated"
    if simulated and simulation is None:
        yield at("oracle.name", "simulated people answer in simulations only", "Add [simulation] with seed = 0")
    if simulated and oracle.path is None:
        yield at("oracle.path", "simulated people need the true labels", "Name the file that has them")
    for name in _OF_SIMULATED:
        if not simulated and getattr(oracle, name) is not None:
            yield at(f"oracle.{name}", f"{oracle.name} has no such option", "Remove it; it is for simulated")
    yield from _label_studio(oracle)
    if oracle.accuracy is not None and oracle.label_noise is not None:
        yield at("oracle.accuracy", "it and label_noise both say how often people are wrong", "Keep one of them")
    if oracle.per_annotator is not None and oracle.name not in _NAMED:
        yield at("oracle.per_annotator", f"{oracle.name} does not ask people by name", "Remove it")
    if simulated and oracle.per_question > (oracle.annotators or oracle.per_question):
        yield at("oracle.per_question", f"there are only {oracle.annotators} annotators", "Ask fewer, or add some")
    if (oracle.name == "callable") != (oracle.function is not None):
        yield at("oracle.function", "an oracle called 'callable' has one, and no other has", "Write 'module:callable'")


def _label_studio(oracle: OracleConfig) -> Problems:
    if oracle.name != "label-studio":
        for name in _OF_LABEL_STUDIO:
            if getattr(oracle, name):
                yield at(f"oracle.{name}", f"{oracle.name} has no such option", "Remove it; it is for label-studio")
        return
    if oracle.url is None:
        yield at("oracle.url", "nothing says where Label Studio is", "Write url = 'https://labels.example.org'")
    try:
        parts = urlsplit(oracle.url or "")
        secret = parts.username is not None or parts.password is not None
    except ValueError:
        yield at("oracle.url", "it is not an address", "Write url = 'https://labels.example.org'")
        return
    if secret:  # never echoed
        yield at("oracle.url", "it has a name or a password in it", "Leave them out; a token is all that is needed")
    if oracle.path is not None:
        yield at("oracle.path", "label-studio has no file or folder", "Remove it")


def _evaluation(evaluation: EvaluationConfig, budget: BudgetConfig) -> Problems:
    for key in ("path", "labels"):
        if (evaluation.kind != "none") != (getattr(evaluation, key) is not None):
            fact = "records, their labels and a kind of evaluation go together"
            yield at(f"evaluation.{key}", fact, "Give path, labels and kind, or none of them")
    if (evaluation.kind == "paid") != (evaluation.epsilon is not None):
        yield at("evaluation.epsilon", "a paid evaluation has a price, and no other has", "Give it for kind = 'paid'")
    elif (evaluation.epsilon or Decimal(0)) > budget.epsilon:
        yield at("evaluation.epsilon", f"it is more than the whole budget of {budget.epsilon}", "Give less")
    if evaluation.by_class and evaluation.kind != "paid":
        yield at("evaluation.by_class", "only a paid evaluation asks that", "Remove it")


def _model(model: ModelConfig) -> Problems:
    if model.max_length is not None and model.encoder is None:
        yield at("model.max_length", "there is no encoder whose tokens it would count", "Add encoder, or remove it")
    for name in ("inputs", "classes", "dropout", "seed"):
        if name in model.options:
            yield at(f"model.options.{name}", "it is no option of a model", "Remove it; the other tables say it")


def _trainer(trainer: TrainerConfig, task: TaskConfig) -> Problems:
    weights = trainer.class_weights
    if weights is not None and len(weights) != len(task.classes):
        fact = f"it has {len(weights)} numbers for {len(task.classes)} classes"
        yield at("trainer.class_weights", fact, "Give one a class, in their order")
    if weights is not None and trainer.loss is not None:
        yield at("trainer.loss", "weights are for the usual loss", "Keep one of the two")
    if trainer.views > 1 and not trainer.augment:
        yield at("trainer.views", "nothing makes the views differ", "Add augment = [{ name = 'flip' }], or remove it")
    for place, part in enumerate(trainer.augment):
        if (part.name == "shift") != (part.pixels is not None) or (part.fill is not None and part.name != "shift"):
            remedy = "Write { name = 'shift', pixels = 2 }"
            yield Problem(path=("trainer", "augment", place), fact="pixels and fill belong to shift", remedy=remedy)


def _storage(storage: StorageConfig) -> Problems:
    try:
        parts = urlsplit(storage.url or "")
        secret = parts.password is not None or "password" in parts.query
    except ValueError:
        yield at("storage.url", "it is not an address", "Write 'sqlite:///scans.db'")
        return
    if secret:  # never echoed: the file is stored with the campaign, and shown
        yield at("storage.url", "it has a password in it", "Give that by the environment or a password file")
    if storage.directory is not None and not parts.scheme.startswith("postgres"):
        yield at("storage.directory", "a file has its directory beside it", "Remove it; it is for postgresql:// alone")


RULES: tuple[tuple[tuple[str, ...], Callable[..., Problems]], ...] = (
    (("pool",), _pool),
    (("task",), _task),
    (("budget", "pool", "trainer"), _persons),
    (("budget", "recipe"), _delta),
    (("selector",), _selector),
    (("selector", "simulation?"), _exact),
    (("scorer", "selector"), _scorer),
    (("oracle", "simulation?"), _oracle),
    (("evaluation", "budget"), _evaluation),
    (("model",), _model),
    (("trainer", "task"), _trainer),
    (("storage",), _storage),
    *PLAN_RULES,
    *PUBLIC_RULES,
)
"""What each rule reads; a name with a question mark may be left out of a file."""


def pool_rules() -> tuple[tuple[tuple[str, ...], Callable[..., Problems]], ...]:
    """Of [pool], for files of other recipes."""
    return ((("pool",), _pool),)


def task_rules() -> tuple[tuple[tuple[str, ...], Callable[..., Problems]], ...]:
    """Of [task], likewise."""
    return ((("task",), _task),)


def oracle_rules() -> tuple[tuple[tuple[str, ...], Callable[..., Problems]], ...]:
    """Of [oracle], likewise."""
    return ((("oracle", "simulation?"), _oracle),)


def storage_rules() -> tuple[tuple[tuple[str, ...], Callable[..., Problems]], ...]:
    """Of [storage], likewise."""
    return ((("storage",), _storage),)
