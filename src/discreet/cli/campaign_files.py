"""What the verbs of a campaign share: its file, the campaign it names, progress, and how results are printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.progress import watching
from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.campaign import Campaign
    from discreet.cli.progress import Log
    from discreet.config import CampaignFile
    from discreet.records import Question
    from discreet.roles import Oracle

ConfigArgument = Annotated[Path, typer.Argument(help="The campaign's TOML file.", show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def is_campaign(path: Path) -> bool:
    """Whether a file is a campaign's or a stream's, by its name."""
    return path.suffix == ".toml"


def is_stream(path: Path) -> bool:
    """Whether a TOML file is a stream's, by the format it names."""
    from discreet.config.schema import format_of
    from discreet.config.stream import FORMAT

    return is_campaign(path) and format_of(path) == FORMAT


def lines_of(path: Path) -> list[bytes]:
    """The ledger of the campaign or stream that a file names, as it is kept."""
    if is_stream(path):
        from discreet.config import StreamConfig
        from discreet.privacy.ledger.sinks import read_lines
        from discreet.stream.stream_directory import ledger_path

        return read_lines(ledger_path(StreamConfig.read(path)))
    from discreet.config import read_campaign
    from discreet.recipes.verification import ledger_lines

    return ledger_lines(read_campaign(path, stored=True))


@contextmanager
def opened(path: Path, log: Log | None = None, *, read_only: bool = False) -> Iterator[Campaign]:
    """The campaign of a file, with progress where somebody watches, and a log for those who keep one.

    ``read_only``: for verbs that write nothing to its store.
    """
    from discreet.config import read_campaign
    from discreet.recipes.opening import load

    config = read_campaign(path, stored=read_only)
    with watching() as watch:
        campaign = load(config, watch=watch if log is None else log.beside(watch), read_only=read_only)
        if log is not None:
            log.follow(campaign)
        yield campaign


def oracle_of(config: CampaignFile, campaign: Campaign) -> Oracle:
    """Who answers, as the file says."""
    from discreet.campaign.loop import InternalOracle
    from discreet.oracles import build_oracle, read_labels
    from discreet.recipes.labelled_records import answer_words
    from discreet.recipes.opening import question_folder
    from discreet.recipes.pool_campaigns import RecordColumns
    from discreet.recipes.specification import spec_of

    spec = spec_of(config)
    if spec.answers_itself:
        return InternalOracle(campaign)

    table, several = config.oracle, config.task.kind == "multilabel"
    words, texts = answer_words(config), spec.shown_texts(campaign)
    options: dict[str, Any] = {"classes": config.task.classes, "multilabel": several}
    with config.pointing("oracle"):
        if table.name == "simulated":
            assert table.path is not None  # checked with the file
            assert config.simulation is not None
            labels = spec.true_labels(campaign)
            if labels is None:
                labels = read_labels(config.resolve(table.path), multilabel=several, words=words)
            options |= {name: value for name, value in table.options.items() if name != "path"}
            options["per_question"] = table.per_question
            options["annotators"] = max(options.get("annotators", 1), table.per_question)
            return build_oracle("simulated", labels=labels, seed=config.simulation.seed, **options)
        if table.name == "callable":
            function = _of_texts(str(table.function), texts) if texts else table.function
            return build_oracle("callable", function=function, **options)
        if table.name == "files":
            folder = question_folder(config)
            assert folder is not None
            folder.mkdir(mode=0o700, exist_ok=True)
            extra: Any = {"text": texts} if texts else None
            if table.show is not None:
                extra = RecordColumns.checked(campaign, config, table.show, folder=folder, kind="csv").of
            return build_oracle("files", folder=folder, words=words, extra=extra, **options)
        if table.name == "label-studio":
            from discreet.recipes.label_studio import oracle_of as at_label_studio

            oracle = at_label_studio(config, campaign)
            oracle.check()  # before anything is charged
            return oracle
        if table.origin is not None:  # of another package
            return build_oracle(table.name, **options, **table.options)
        return build_oracle(table.name)


def _of_texts(name: str, texts: dict[str, str]) -> Any:
    """A user's function of a text, as one of a question about it."""
    import pkgutil

    try:
        function = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        raise BadInput(f"the function {name}", "it cannot be imported", "Put its module on PYTHONPATH") from None

    def answer(question: Question) -> Any:
        return function(texts[question.record])

    answer.__name__ = name
    return answer


def check_output(out: Path, endings: tuple[str, ...], mark: bytes, kind: str) -> None:
    """Refuse a file that cannot be written, before anything is computed; only a text file with ``mark`` is replaced."""
    if out.suffix not in endings or out.is_dir() or not out.absolute().parent.is_dir():
        advice = f"Use {'a' if endings[0] == '.json' else 'an'} {' or '.join(endings)} file in a directory"
        raise BadInput(f"writing {out.name}", f"it is no {kind} we can write", advice)
    if out.exists() and (out.suffix == ".png" or mark not in out.read_bytes()[:3000]):
        raise BadInput(f"writing {out.name}", "there is another file of that name", "Choose another name")


def show(form: dict[str, Any], text: str, *, as_json: bool) -> None:
    """One object, or a few lines."""
    print(json.dumps(form) if as_json else text)  # noqa: T201


def where(campaign: Campaign, *, answered: bool = False) -> str:
    """The next step, in words. ``answered``: nothing is open, which is for the owner to know."""
    from discreet.recipes.specification import spec_of_campaign

    now, phases = campaign.state, campaign.recipe.phases
    step = "next: discreet tell, then discreet train"
    if spec_of_campaign(campaign).answers_itself:  # whether they answered is public
        step, answered = "next: discreet ask, and its teachers answer", campaign.answered
    words = {
        "ask": "next: discreet ask",
        "answer": "next: discreet train" if answered else step,
        "train": "training was begun; discreet train goes on",
        "done": "all phases are trained",
    }
    return f"phase {now.phase} of {phases - 1}: {words[now.step]}"
