"""Reading the documentation: the blocks of its pages, the commands in them, what is printed beside what is shown."""

import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
STORIES = [
    ROOT / "docs/tutorial/first-campaign.md",
    ROOT / "docs/howto/run-a-campaign.md",
    ROOT / "docs/howto/re-plan-a-campaign.md",
    ROOT / "docs/howto/run-a-stream.md",
    ROOT / "docs/howto/ask-a-crowd.md",
    ROOT / "docs/howto/improve-with-public-data.md",
    ROOT / "docs/howto/run-a-campaign-of-teachers.md",
    ROOT / "docs/extend.md",
    ROOT / "docs/reference/features.md",
]
BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
RUN = ("python", "console")
_NOT_RUN = tomllib.loads((Path(__file__).parent / "not_run.toml").read_text(encoding="utf-8"))
VERBS_NOT_RUN = _NOT_RUN["verbs"]
BLOCKS_NOT_RUN = _NOT_RUN["blocks"]


def is_named(one, page, first):
    """Whether an entry of `not_run.toml` is about the block of this page that begins so."""
    return one["page"] == page and first.startswith(one["first"])


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block, and what stands before and after it on its page."""

    page: Path
    number: int
    kind: str
    text: str
    before: "Block | None" = None
    after: "Block | None" = None

    @property
    def name(self):
        return f"{self.page.relative_to(ROOT)}:{self.number}"

    @property
    def key(self):
        """How `not_run.toml` names it: its page and how its first line begins."""
        return str(self.page.relative_to(ROOT)), (self.text.strip().splitlines() or [""])[0]

    @property
    def reason(self):
        """Why it is not run, if that is on purpose."""
        page, first = self.key
        return next((one["reason"] for one in BLOCKS_NOT_RUN if is_named(one, page, first)), None)

    @property
    def is_output(self):
        """What the block before it prints."""
        shown = self.kind == "text" and not self.text.startswith(("$ ", "discreet "))
        return shown and self.before is not None and self.before.kind in RUN and self.reason is None


def blocks_of(page):
    text = page.read_text(encoding="utf-8")
    found = []
    for number, one in enumerate(BLOCK.finditer(text)):
        body = re.sub(rf"^{one[1]}", "", one[3], flags=re.MULTILINE)
        found.append(Block(page=page, number=number, kind=one[2], text=body))
    for place, one in enumerate(found):
        before, after = found[place - 1] if place else None, found[place + 1] if place + 1 < len(found) else None
        yield Block(page=one.page, number=one.number, kind=one.kind, text=one.text, before=before, after=after)


def all_blocks():
    for page in PAGES:
        yield from blocks_of(page)


def shown_after(block):
    """What the page shows as this block's output, or None."""
    after = block.after
    if after is None:
        return None
    beside = Block(page=after.page, number=after.number, kind=after.kind, text=after.text, before=block)
    return after.text if beside.is_output else None


def commands(text):
    """The arguments of every `$ discreet` command, without what a shell would do with it."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ discreet "):
            words = shlex.split(line[len("$ discreet ") :].split(" | ")[0].split("; ")[0], comments=True)
            end = next((at for at, word in enumerate(words) if word.startswith((">", "<", "2>"))), len(words))
            yield words[:end]


def lines(text):
    """Without accuracies and the last digits of floats, which may be others on another machine."""
    text = re.sub(r"AUC \d\.\d+", "AUC some", re.sub(r"\d+\.\d%", "some %", text))
    text = re.sub(r"about \d+ s on this machine", "about some s on this machine", text)
    text = re.sub(r"\d+\.\d{7,}", lambda number: f"{float(number[0]):.6g}", text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def same_output(printed, shown):
    """All lines that are shown were printed, in this order; a page may leave out others."""
    rest = iter(lines(printed))
    return all(line in rest for line in lines(shown))
