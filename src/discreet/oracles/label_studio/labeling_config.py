"""What annotators see in Label Studio: the config of a project, made for a task, and checked when it is found again.

A record is shown as a picture, a text or a table; below it stand the classes, one or several to be chosen. People may
add to a project's config (headers, hints, further controls, which are passed over); the record and its classes must
stay as they are, for answers are read by them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from discreet.errors import BadInput

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
    choices = "".join(
        f'    <Choice value="{escape(name, _ESCAPED)}"{_hotkey(name) if keys else ""}/>\n' for name in classes
    )
    how = 'choice="multiple"' if multilabel else 'choice="single" required="true"'
    return (
        f'<View>\n  {_TAGS[kind]}\n  <Choices name="{CONTROL}" toName="{RECORD}" {how} showInline="true">\n'
        f"{choices}  </Choices>\n</View>\n"
    )


def _hotkey(name: str) -> str:
    return f' hotkey="{name}"'


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
