"""What a part (selector, scorer, oracle, reader, model) declares of itself, the registry of each kind, and the recipes.

A part is declared once, beside its class: its name, its options, what pays for it, how it is built, and what it
supports. Campaign files, commands, Python, the tables of the documentation and the contract census read the
declaration. A package of somebody else declares parts by entry points of the group `GROUP`:

    [project.entry-points."discreet.parts"]
    "selector.my-selector" = "my_package.selectors:PART"

Such an entry point is loaded only when a file or a call names it. The name of a built-in part always means that part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from discreet.checks import Check, Wrong
from discreet.errors import BadInput, alternatives

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "discreet.parts"
PRICED_ELSEWHERE = "its price was declared by a third party"


@dataclass(frozen=True)
class Target:
    """A class or function that is imported when it is first needed, ``module:name``."""

    path: str

    def load(self) -> Any:
        """The class or function."""
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)

    def __call__(self, *values: Any, **options: Any) -> Any:
        """What it makes of these values and options."""
        return self.load()(*values, **options)


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option of a part.

    check      turns what a file or a call gives into the value, or raises `Wrong`
    type       the type, for the documentation
    default    in words, for the documentation; an option without one is required
    unlisted   what an error says where a part does not have it: what is wrong, and what to do
    """

    name: str
    check: Check
    type: str
    meaning: str
    default: str = "none"
    unlisted: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The installed distribution that declared a part."""

    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"

    def to_json(self) -> dict[str, str]:
        """As a certificate and a stored campaign have it."""
        return {"distribution": self.distribution, "version": self.version}


@dataclass(frozen=True, kw_only=True)
class Part:
    """The declaration of one part.

    build      makes it; what it is called with is fixed by the kind (for selectors: a `SelectorRequest`)
    prices     of a selector: the values of ``selection`` in [plan] that pay for it; none: it is free
    mechanism  of a selector: the name by which a plan prices it
    reads      of a selector: "scores", "embeddings", "centres" (embeddings of the labelled records), "private" (scores
               and embeddings of [private] records), or nothing
    recipes, tasks, units    what it supports
    one_query  whether `discreet select` offers it: it can be priced without a plan
    private    False for a part that is taken in simulations alone
    required   options that a file must give: what is wrong where one is left out, and what to do
    makes      the classes that it builds
    origin     None for a built-in part
    """

    kind: str
    name: str
    summary: str
    build: Callable[..., Any]
    options: tuple[Option, ...] = ()
    prices: tuple[str, ...] = ()
    mechanism: str = ""
    reads: tuple[str, ...] = ("scores",)
    recipes: tuple[str, ...] = ("private-pool",)
    tasks: tuple[str, ...] = ("binary", "multiclass", "multilabel")
    units: tuple[str, ...] = ("record", "person")
    one_query: bool = False
    private: bool = True
    required: Mapping[str, tuple[str, str]] = field(default_factory=dict, hash=False)
    makes: tuple[type, ...] = ()
    origin: Origin | None = None

    @property
    def simulations_only(self) -> bool:
        """Whether private records are chosen by it in simulations alone: it is not private, or reads them unpaid."""
        return not self.private or (bool(self.reads) and not self.prices)

    def option(self, name: str) -> Option | None:
        """The option called ``name``."""
        return next((option for option in self.options if option.name == name), None)

    def checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options of a call, each checked; others than the declared ones are refused."""
        values = {}
        for name, value in options.items():
            option = self.option(name)
            asked = f"the {self.kind} {self.name} with {name}"
            if option is None:
                names = ", ".join(option.name for option in self.options)
                raise BadInput(asked, "it has no such option", f"It has {names}" if names else "It has none")
            try:
                values[name] = option.check(value)
            except Wrong as wrong:
                raise BadInput(asked, wrong.fact, wrong.remedy) from None
        return values


@dataclass(frozen=True)
class Registry:
    """The parts of one kind, by name."""

    kind: str
    parts: tuple[Part, ...]
    by_name: Mapping[str, Part] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {part.name: part for part in self.parts})
        assert len(self.by_name) == len(self.parts), f"two {self.kind}s have one name"

    def __iter__(self) -> Iterator[Part]:
        """The built-in parts."""
        return iter(self.parts)

    def names(self, **having: Any) -> tuple[str, ...]:
        """Names of the built-in parts; of those that support a ``recipe``; of those with these attributes."""
        recipe = having.pop("recipe", None)
        return tuple(
            part.name
            for part in self.parts
            if (recipe is None or recipe in part.recipes)
            and all(getattr(part, name) == value for name, value in having.items())
        )

    def options(self) -> dict[str, Option]:
        """Every option that some built-in part has, by name."""
        return {option.name: option for part in self.parts for option in part.options}

    def having(self, option: str) -> tuple[str, ...]:
        """Names of the built-in parts that have this option."""
        return tuple(part.name for part in self.parts if part.option(option) is not None)

    def find(self, name: str) -> Part | None:
        """The part called ``name``: the built-in one, or else the one that an installed package declares."""
        return self.by_name.get(name) or third_party(self.kind, name)

    def get(self, name: str) -> Part:
        """The part called ``name``; an error that lists the alternatives where there is none."""
        part = self.find(name)
        if part is None:
            raise BadInput(f"the {self.kind} {name!r}", "there is none of that name", alternatives(name, self.by_name))
        return part


@dataclass(frozen=True, kw_only=True)
class RecipeEntry:
    """Where the parts of a recipe are. None of them is imported before a file or a command names the recipe.

    config    the class that its file is read as; the example file, ``NAME.toml``, stands beside the classes
    spec      its `discreet.recipes.specification.RecipeSpec`; None for a stream, which is no campaign
    guide     its page in docs/howto
    audit     the function that makes its audit targets; None: `discreet audit` refuses it
    people    whether people (or another oracle) answer its questions
    tables    of files that are read as several recipes': optional tables that are for this one
    rules     what its tables must agree on (rules of `discreet.config.schema`), beside the rules of its config
    elsewhere what commands for private pools say about its file: what is wrong, and what to do; None: they read it
    """

    config: Target
    spec: Target | None
    guide: str
    audit: Target | None = None
    people: bool = True
    tables: tuple[str, ...] = ()
    rules: Target | None = None
    elsewhere: tuple[str, str] | None = ("this verb is of private-pool campaigns", "See its page in docs/howto")


RECIPES: Mapping[str, RecipeEntry] = {
    "private-pool": RecipeEntry(
        config=Target("discreet.config.campaign:CampaignConfig"),
        spec=Target("discreet.recipes.private_pool:SPEC"),
        guide="run-a-campaign.md",
        audit=Target("discreet.audit.auditing:private_pool_targets"),
        rules=Target("discreet.config.pool_rules:PRIVATE_POOL"),
        elsewhere=None,
    ),
    "public-data": RecipeEntry(
        config=Target("discreet.config.campaign:CampaignConfig"),
        spec=Target("discreet.recipes.public_data:SPEC"),
        guide="improve-with-public-data.md",
        audit=Target("discreet.audit.auditing:public_data_targets"),
        tables=("checkpoint", "private"),
        rules=Target("discreet.config.pool_rules:PUBLIC_DATA"),
        elsewhere=None,
    ),
    "crowd": RecipeEntry(
        config=Target("discreet.config.crowd:CrowdConfig"),
        spec=Target("discreet.recipes.crowd:SPEC"),
        guide="ask-a-crowd.md",
        audit=Target("discreet.audit.auditing:crowd_targets"),
        elsewhere=("this verb is of private-pool campaigns", "See docs/howto/ask-a-crowd.md for those of a crowd"),
    ),
    "pate": RecipeEntry(
        config=Target("discreet.config.pate:PateConfig"),
        spec=Target("discreet.recipes.pate:SPEC"),
        guide="run-a-campaign-of-teachers.md",
        audit=Target("discreet.audit.auditing:pate_targets"),
        people=False,
        elsewhere=(
            "this verb is of private-pool campaigns; private records are in votes that were counted at init",
            "See docs/howto/label-by-teachers.md. To leave somebody out, take their records out of [private] and "
            "create a campaign of another name; what was paid stays paid",
        ),
    ),
    "stream": RecipeEntry(
        config=Target("discreet.config.stream:StreamConfig"),
        spec=None,
        guide="run-a-stream.md",
        audit=Target("discreet.audit.auditing:stream_targets"),
        elsewhere=None,
        people=False,
    ),
}
"""Every recipe by the name that files have. Files, the registry of specifications, audits and commands read it."""


def third_party(kind: str, name: str) -> Part | None:
    """The part that an installed package declares under this kind and name; None where there is none."""
    from importlib.metadata import entry_points

    asked = f"the {kind} {name!r}"
    points = tuple(entry_points(group=GROUP, name=f"{kind}.{name}"))
    if not points:
        return None
    origins = [_origin(point) for point in points]
    if len(points) > 1:
        packages = " and ".join(sorted(origin.distribution for origin in origins))
        raise BadInput(asked, f"{packages} both declare it", "Uninstall one of them")
    try:
        part = points[0].load()
    except Exception as error:  # noqa: BLE001 - whatever somebody else's package raises
        fact = f"{origins[0].distribution} declares it, and cannot be loaded: {type(error).__name__}"
        raise BadInput(asked, fact, "Reinstall that package, or ask its authors") from None
    if not isinstance(part, Part) or (part.kind, part.name) != (kind, name):
        fact = f"{origins[0].distribution} declares it, and what it names is no Part of this kind and name"
        raise BadInput(asked, fact, "Ask its authors")
    return replace(part, origin=origins[0])


def _origin(point: EntryPoint) -> Origin:
    known = point.dist
    return (
        Origin(distribution="unknown", version="0")
        if known is None
        else Origin(distribution=known.name, version=known.version)
    )


def third_party_parts(config: Mapping[str, Any]) -> list[dict[str, str]]:
    """The parts of a stored configuration that other packages declare, as a certificate names them."""
    parts = []
    for kind, table in config.items():
        if isinstance(table, Mapping) and "distribution" in table:
            named = {word: str(table[word]) for word in ("name", "distribution", "version")}
            parts.append({"kind": kind, **named, "note": PRICED_ELSEWHERE})
    return parts
