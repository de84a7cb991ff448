"""Oracles by name, as a campaign's file names them; and the oracle of the pages of `discreet serve`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from discreet.checks import address, listed, number, place, text, truth, whole
from discreet.errors import BadInput
from discreet.oracles.file_oracle import FileOracle
from discreet.oracles.programs import CallableOracle, SimulatedOracle
from discreet.parts import RECIPES, Option, Part, Registry, Target
from discreet.records import Answer, Question, Shown
from discreet.roles import Oracle


class PageOracle:
    """Published is asked; told is answered."""

    by_name = True
    """Questions are handed out to one named person at a time."""

    def ask(self, questions: Sequence[Question]) -> None:
        """They are on the pages already."""

    def collect(self) -> list[Answer]:
        """Answers were told when they were given."""
        return []

    def shown_to(self, questions: Sequence[Question]) -> list[Shown]:
        """Nobody yet: a page says who, when somebody comes."""
        return []


_SHARE = number(0, 1, such_as="0.05")
_PATH = text(what="a path")
PATH = Option(
    name="path",
    check=_PATH,
    type="text",
    meaning="of the true labels (`simulated`), or of a folder for questions and answers",
    unlisted=("{name} has no file or folder", "Remove it"),
)
PER_ANNOTATOR = Option(
    name="per_annotator",
    check=whole(),
    type="whole number",
    meaning="the most questions that one named annotator is shown in the whole campaign; "
    "not with a hidden selection, where everybody who is asked is labelled",
    unlisted=("{name} does not ask people by name", "Remove it"),
)
SHOW = Option(
    name="show",
    check=listed(text(what="a name"), least=1, distinct=True, such_as="['note', 'amount']"),
    type="list of texts",
    meaning="columns of the record that stand beside each question, also such that no model reads; `path` of pictures",
    unlisted=("{name} writes no files of questions", "Remove it"),
)
_SIMULATED = (
    PATH,
    Option(
        name="annotators",
        check=whole(most=1000),
        type="whole number",
        default="`per_question`",
        meaning="how many people there are",
    ),
    Option(name="label_noise", check=_SHARE, type="number", default="0", meaning="the share of wrong answers"),
    Option(name="skip", check=_SHARE, type="number", default="0", meaning="the share of skips"),
    Option(name="late", check=_SHARE, type="number", default="0", meaning="the share of answers that come late"),
    Option(
        name="accuracy",
        check=listed(number(0, 1, such_as="0.65"), least=2, most=2, such_as="[0.65, 0.01]"),
        type="two numbers",
        meaning="instead of `label_noise`: mean and standard deviation of people's own shares of right answers",
    ),
)
_NO_FUNCTION = ("an oracle called 'callable' has one, and no other has", "Write 'module:callable'")
_FUNCTION = Option(
    name="function",
    check=place,
    type="text",
    default="",
    meaning="`module:callable`",
    unlisted=_NO_FUNCTION,
)
_LABEL_STUDIO = (
    PER_ANNOTATOR,
    Option(
        name="url",
        check=address,
        type="text",
        default="",
        meaning="where the server is; https, or plain HTTP on this machine",
    ),
    Option(
        name="project",
        check=whole(),
        type="whole number",
        meaning="the number of a project of your own; without it the campaign's is made, and found again",
    ),
    Option(
        name="token_file",
        check=_PATH,
        type="text",
        meaning="a file with the token, mode 600; without it `LABEL_STUDIO_API_KEY`",
    ),
    Option(
        name="plain_http",
        check=truth,
        type="boolean",
        default="false",
        meaning="token and records may go unencrypted through a network that is your own",
    ),
)


def _no_oracle(**_: Any) -> Oracle:
    raise BadInput(f"the oracle {TEACHERS}", "it answers in a recipe of its own", f"Choose one of {_names()}")


TEACHERS = "teachers"
"""Who answers campaigns of a recipe of their own (`discreet.recipes.pate`), and is no oracle of others."""
PEOPLE = tuple(name for name, recipe in RECIPES.items() if recipe.people)


def _part(build: Any, name: str, summary: str, *options: Option, **facts: Any) -> Part:
    return Part(
        kind="oracle",
        name=name,
        summary=summary,
        build=build,
        options=options,
        recipes=PEOPLE,
        makes=() if isinstance(build, Target) else (build,),
        **facts,
    )


ORACLES = Registry(
    "oracle",
    (
        _part(
            SimulatedOracle,
            "simulated",
            "made-up people who know true labels",
            *_SIMULATED,
            private=False,
            required={"path": ("simulated people need the true labels", "Name the file that has them")},
        ),
        _part(FileOracle, "files", "question and answer files", PATH, SHOW, PER_ANNOTATOR),
        _part(CallableOracle, "callable", "a function of your own", _FUNCTION, required={"function": _NO_FUNCTION}),
        _part(PageOracle, "web", "the pages of `discreet serve`", PATH, PER_ANNOTATOR),
        _part(
            Target("discreet.oracles.label_studio:LabelStudioOracle"),
            "label-studio",
            "a Label Studio server",
            *_LABEL_STUDIO,
            required={"url": ("nothing says where Label Studio is", "Write url = 'https://labels.example.org'")},
        ),
        Part(
            kind="oracle",
            name=TEACHERS,
            summary="models trained on private records (PATE)",
            build=_no_oracle,
            recipes=("pate",),
        ),
    ),
)


def _names() -> str:
    return ", ".join(ORACLES.names(recipe="private-pool"))


def build_oracle(name: str, **options: Any) -> Oracle:
    """The oracle called ``name``; ``options`` are its own arguments."""
    part = ORACLES.find(name)
    if part is None:
        raise BadInput(f"the oracle {name}", "there is no such oracle", f"Choose one of {_names()}")
    build = part.build.load() if isinstance(part.build, Target) else part.build
    parameters = inspect.signature(build).parameters
    takes = {word: parameter for word, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD}
    strange = sorted(set(options) - set(takes)) if len(takes) == len(parameters) else []
    missing = [
        word for word, parameter in takes.items() if parameter.default is parameter.empty and word not in options
    ]
    if strange or missing:
        facts = [f"it does not take {', '.join(strange)}"] * bool(strange)
        facts += [f"it needs {', '.join(missing)}"] * bool(missing)
        raise BadInput(f"the oracle {name}", "; ".join(facts), f"It takes {', '.join(takes)}")
    oracle: Oracle = build(**options)
    return oracle
