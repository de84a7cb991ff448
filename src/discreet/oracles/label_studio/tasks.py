"""What annotators see in Label Studio: the config of a project, made for a task, and checked when it is found again.

A record is shown as a picture, a text or a table; below it stand the classes, one or several to be chosen. People may
add to a project's config (headers, hints, further controls, which are passed over); the record and its classes must
stay as they are, for answers are read by them.

From what people submitted to answers: one voice a person, the last thing they said.

Label Studio takes whatever its API is sent. So a label is checked against the classes here; what does not fit is no
answer, is counted, and its question stays open. Gold annotations (`ground_truth`), predictions and drafts are nobody's
answer. A skip is one.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.oracles.answers import fits, in_order
from discreet.oracles.label_studio.server import Annotation, Task
from discreet.pools import Pool
from discreet.pools.images import is_picture, png, stored_values
from discreet.records import Answer, Value

Kind = Literal["image", "text", "table"]
CONTROL, RECORD = "label", "record"
"""Names of the two tags that answers are read by."""
_TAGS: dict[Kind, str] = {
    "image": f'<Image name="{RECORD}" value="$image"/>',
    "text": f'<Text name="{RECORD}" value="$text" valueType="text"/>',
    "table": f'<Table name="{RECORD}" value="$table"/>',
}
_ESCAPED = {'"': "&quot;", "'": "&apos;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_VARIABLE = re.compile(r"\$\w|\{\{")
_KEY = re.compile("[0-9a-z]")
_MOST = 1_000_000


def labeling_config(kind: Kind, classes: Sequence[str], *, multilabel: bool) -> str:
    """The config of a new project."""
    for number, name in enumerate(classes, 1):
        if _NO_XML.search(name) or _VARIABLE.search(name):
            raise BadInput(
                f"class number {number} in Label Studio",
                "its name has a control character, or what is taken for a variable there ($word, {{)",
                "Rename the class",
            )
    keys = all(_KEY.fullmatch(name) for name in classes)  # else Label Studio gives 1, 2, 3 ..., also to a class "0"
    hotkey = ' hotkey="{}"'
    choices = "".join(
        f'    <Choice value="{escape(name, _ESCAPED)}"{hotkey.format(name) if keys else ""}/>\n' for name in classes
    )
    how = 'choice="multiple"' if multilabel else 'choice="single" required="true"'
    return (
        f'<View>\n  {_TAGS[kind]}\n  <Choices name="{CONTROL}" toName="{RECORD}" {how} showInline="true">\n'
        f"{choices}  </Choices>\n</View>\n"
    )


def misfit(config: str, kind: Kind, classes: Sequence[str], *, multilabel: bool) -> str:
    """Why answers given under ``config`` could not be read; empty, if they can."""
    if len(config) > _MOST or "<!" in config.replace("<!--", ""):
        return "it is not a plain config"
    try:
        root = ElementTree.fromstring(config)
    except ElementTree.ParseError:
        return "it cannot be read"
    records = [tag for tag in root.iter() if tag.get("name") == RECORD]
    controls = [tag for tag in root.iter("Choices") if tag.get("name") == CONTROL]
    if len(records) != 1 or records[0].get("value") != f"${kind}":
        return f"nothing called {RECORD!r} shows ${kind}"
    if len(controls) != 1 or controls[0].get("toName") != RECORD:
        return f"there are no choices called {CONTROL!r} about it"
    return _misfit_of_choices(controls[0], classes, multilabel)


def _misfit_of_choices(control: ElementTree.Element, classes: Sequence[str], multilabel: bool) -> str:
    several = control.get("choice", "single") == "multiple"
    if several != multilabel:
        return "one class can be chosen, and the task has several" if multilabel else "several classes can be chosen"
    if control.get("perRegion", "false") == "true" or control.get("perItem", "false") == "true":
        return "the choices are about parts of a record"
    if control.get("value") is not None:
        return "the choices come with the tasks"
    names = [choice.get("alias") or choice.get("value") for choice in control.iter("Choice")]
    if len(names) != len(set(names)) or set(names) != set(classes):
        return "its classes are not those of the campaign"
    return ""


_LEAST = 240
"""Pixels of the longer side, so that a digit of 8 by 8 is seen."""
Rendered = dict[str, Any]


def kind_of(pool: Pool) -> Kind:
    """How records of a pool are shown."""
    if pool.text is not None:
        return "text"
    return "image" if is_picture(tuple(pool.x.shape[1:])) else "table"  # type: ignore[union-attr]


def rendered(pool: Pool, records: Sequence[str]) -> list[Rendered]:
    """What annotators see of ``records``, in that order, by the name that the config has for it."""
    if not records:
        return []
    places, kind = pool.places(records), kind_of(pool)
    if kind == "text":
        return [{"text": text or " "} for text in pool.text[places]]  # type: ignore[index]
    values = np.asarray(pool.x[places])  # type: ignore[index]
    if kind == "image":
        pictures = (base64.b64encode(png(shades, least=_LEAST)).decode() for shades in _shades(pool, values))
        return [{"image": f"data:image/png;base64,{picture}"} for picture in pictures]
    if pool.declared.schema is not None:
        return [{"table": pool.declared.schema.shown(row)} for row in values]
    names = _columns(pool, values.shape[1:])
    return [
        {"table": dict(zip(names, (f"{value:.6g}" for value in row.ravel()), strict=True))}
        for row in stored_values(pool, values)
    ]


def _shades(pool: Pool, values: NDArray[Any]) -> list[NDArray[np.uint8]]:
    if values.dtype == np.uint8:
        return list(values)
    stored = stored_values(pool, values)
    if pool.declared.kind == "images":
        return list(np.clip(np.rint(stored), 0, 255).astype(np.uint8))
    return [_spread(picture) for picture in stored]


def _spread(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    low, high = float(values.min()), float(values.max())
    return np.asarray(np.rint((values - low) * (255 / (high - low if high > low else 1.0))), dtype=np.uint8)


def _columns(pool: Pool, shape: tuple[int, ...]) -> list[str]:
    count = int(np.prod(shape))
    declared = pool.declared.columns
    return (
        list(declared) if declared and len(declared) == count else [f"value {number}" for number in range(1, count + 1)]
    )


GONE = "label-studio"
"""Who answered, where the account is not there any more."""
_NUMBERED = f"{GONE} user "
"""Likewise, where it has a number still and is not among those that the server lists."""
Voice = tuple[str, str]
"""Question and annotator."""


@dataclass(frozen=True, kw_only=True)
class Read:
    """What stands on the server. Audience: owner.

    answers    the last word of each person on each question
    questions  that have a task
    refused    questions with a last word that is not of the declared classes
    strange    tasks that belong to no known question
    doubled    tasks beyond the first of their question
    gold, drafts    annotations that were passed over
    """

    answers: tuple[Answer, ...] = field(repr=False)
    questions: frozenset[str] = field(repr=False)
    refused: tuple[str, ...]
    strange: int
    doubled: int
    gold: int
    drafts: int


def read_tasks(
    tasks: Iterable[Task],
    *,
    known: Collection[str],
    people: Mapping[int, str],
    classes: Sequence[str],
    multilabel: bool,
) -> Read:
    """Answers to the questions that are ``known``."""
    last: dict[Voice, Annotation] = {}
    strange = gold = drafts = 0
    seen: dict[str, int] = {}
    for task in tasks:
        if task.question not in known or task.question is None:
            strange += 1
            continue
        seen[task.question] = seen.get(task.question, 0) + 1
        drafts += task.drafts
        for annotation in task.annotations:
            if annotation.gold:
                gold += 1
                continue
            voice = (task.question, _name(annotation.by, people))
            if voice not in last or (annotation.at, annotation.id) > (last[voice].at, last[voice].id):
                last[voice] = annotation
    answers, refused = _checked(last, classes, multilabel)
    return Read(
        answers=tuple(answers),
        questions=frozenset(seen),
        refused=tuple(sorted(refused)),
        strange=strange,
        doubled=sum(seen.values()) - len(seen),
        gold=gold,
        drafts=drafts,
    )


def _checked(
    last: Mapping[Voice, Annotation], classes: Sequence[str], multilabel: bool
) -> tuple[list[Answer], set[str]]:
    answers, refused, names = [], set(), frozenset(classes)
    for (question, annotator), annotation in sorted(last.items()):
        understood, value = (True, None) if annotation.skipped else _value(annotation.result, multilabel)
        if understood and fits(value, names, multilabel=multilabel):
            answers.append(
                Answer(question_id=question, value=in_order(value, classes), annotator=annotator, at=annotation.at)
            )
        else:
            refused.add(question)
    return answers, refused


def _value(result: Any, multilabel: bool) -> tuple[bool, Value]:
    """Whether the choices could be read, and what they are. Further controls of a project are passed over, but for
    several labels nothing chosen means none of them: then choices under another name are not understood.
    """
    if not isinstance(result, list) or not all(isinstance(control, dict) for control in result):
        return False, None
    chosen = [control for control in result if control.get("from_name") == CONTROL]
    if not chosen:
        return multilabel and not any(control.get("type") == "choices" for control in result), ()
    value = chosen[0].get("value")
    names = value.get("choices") if isinstance(value, dict) else None
    if len(chosen) > 1 or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return False, None
    if multilabel:
        return True, tuple(names)
    return len(names) == 1, names[0] if names else None


def one_voice_each(read: Iterable[Answer], earlier: Iterable[Answer]) -> list[Answer]:
    """What of ``read`` is to be told. A voice that was ``told`` under one name and stands there under another now,
    because the account is gone, or is not listed (any more, or again), is not told as a second one.
    """
    read = sorted(read, key=lambda answer: not _nameless(answer.annotator))
    current_voices = {(answer.question_id, answer.annotator) for answer in read}
    before: set[Voice] = set()
    left: dict[tuple[str, Value], list[str]] = {}  # told under names that are not there any more
    for answer in earlier:
        before.add(voice := (answer.question_id, answer.annotator))
        if voice not in current_voices:
            left.setdefault((answer.question_id, answer.value), []).append(answer.annotator)
    new_answers = []
    for answer in read:
        names = left.get((answer.question_id, answer.value), [])
        former = next((name for name in names if _nameless(name) or _nameless(answer.annotator)), None)
        if former is None or (answer.question_id, answer.annotator) in before:
            new_answers.append(answer)
        else:
            names.remove(former)
    return new_answers


def _nameless(annotator: str) -> bool:
    return annotator == GONE or annotator.startswith(_NUMBERED)


def _name(by: int | None, people: Mapping[int, str]) -> str:
    return GONE if by is None else people.get(by) or f"{_NUMBERED}{by}"
