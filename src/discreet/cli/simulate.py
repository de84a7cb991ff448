"""`discreet simulate`: which epsilon, how many labels, is it worth it? A dry run on public records."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, show
from discreet.cli.plan import check_plot, parse_sizes
from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.bench.dry_points import Point
    from discreet.bench.dry_runs import Refused, Setting
    from discreet.bench.recommending import Advice, Outcome
    from discreet.config import CampaignConfig

FORMAT = "discreet.simulated/1"
STORE = "dry-runs"
FEW_SEEDS = 4


def simulate_command(
    config: ConfigArgument,
    data: Annotated[Path, typer.Option(help="Public records with labels, in the form of the campaign's pool.")],
    label: Annotated[
        str, typer.Option(help="The column or array of labels in it; folder: the one a picture is in.")
    ] = "label",
    labels: Annotated[Path | None, typer.Option(help="Or a CSV or JSONL file with columns record and label.")] = None,
    epsilons: Annotated[
        str | None, typer.Option(help="Budgets to try beside the campaign's: 3,16; default: half and double.")
    ] = None,
    queries: Annotated[
        list[str] | None, typer.Option(help="Queries to try beside the campaign's: 300x4; may be repeated.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="own, subset, threshold-response, hidden-threshold, clipped-laplace, exact.")
    ] = None,
    vary: Annotated[
        list[str] | None, typer.Option(help="Other settings: trainer.learning_rate=1,2,4; may be repeated.")
    ] = None,
    every: Annotated[bool, typer.Option("--every", help="Each epsilon with each list of queries.")] = False,
    seeds: Annotated[int, typer.Option(help="Campaigns a point.", min=2, max=1000)] = 5,
    test: Annotated[float, typer.Option(help="Share of the records that is measured on.", min=0.01, max=0.9)] = 0.3,
    label_noise: Annotated[float, typer.Option(help="Share of answers that are wrong.", min=0.0, max=1.0)] = 0.0,
    skip: Annotated[float, typer.Option(help="Share of questions that nobody answers.", min=0.0, max=1.0)] = 0.0,
    within: Annotated[float, typer.Option(help="Points of accuracy worth a smaller budget.", min=0.0)] = 1.0,
    results: Annotated[
        Path | None, typer.Option(help="Where finished runs are kept; default: NAME.simulation beside the file.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="How many runs at once; default: one a core.", min=1, max=256)
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw accuracy by epsilon and labels (.png, .svg, .pdf).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the campaign on public records, for several budgets and ways of asking, before anything is spent.

    Nothing private is read. Stop it when you like; called again, it goes on.

    Example: discreet simulate scans.toml --data public.npz --seeds 5
    """
    from discreet.bench.dry_points import points_of
    from discreet.bench.dry_runs import Setting
    from discreet.bench.labelled import PublicData
    from discreet.config import read_config

    check_plot(plot)
    read = read_config(config)
    if read.recipe.name != "private-pool":
        raise read.error("recipe.name", "a dry run plays a private pool", "See docs/reference/public-data.md")
    points = points_of(
        read,
        epsilons=[] if epsilons is None else _budgets(epsilons),
        queries=[parse_sizes(text) for text in queries or []],
        methods=[] if methods is None else [one.strip() for one in methods.split(",")],
        varied=dict(_varied(text) for text in vary or []),
        every=every,
    )
    source = PublicData(path=data, label=label, labels=labels)
    setting = Setting(config=read, data=source, test=test, label_noise=label_noise, skip=skip)
    place = results if results is not None else read.resolve(f"{read.name}.simulation")
    found, refused, failed = _run(setting, points, seeds=seeds, place=place, processes=processes)
    _tell(setting, found, refused, failed, within=within / 100, plot=plot, as_json=as_json)


def _run(
    setting: Setting, points: list[Point], *, seeds: int, place: Path, processes: int | None
) -> tuple[list[Outcome], list[Refused], list[str]]:
    from discreet.bench.dry_runs import dry_runs
    from discreet.bench.recommending import outcomes
    from discreet.bench.results import Store
    from discreet.bench.running import run_cases
    from discreet.cli.progress import InterruptedBetweenCases, counting, stepping

    try:
        with stepping("planning", total=len(points)) as step:
            runs, refused = dry_runs(setting, points, seeds=seeds, results=place, step=lambda: step(None))
        store = Store(place, STORE)
        with counting("dry runs", len(runs)) as progress:
            failures = run_cases(store, runs, data=None, processes=processes or os.cpu_count() or 1, progress=progress)
    except KeyboardInterrupt:
        raise InterruptedBetweenCases from None
    return outcomes(store.rows(runs), points), refused, [f"{one.case}: {one.why}" for one in failures]


def _tell(
    setting: Setting,
    found: list[Outcome],
    refused: list[Refused],
    failed: list[str],
    *,
    within: float,
    plot: Path | None,
    as_json: bool,
) -> None:
    from discreet.bench.recommending import advice, outcome_chart, outcome_tables

    config = setting.config
    planned: dict[str, Any] = {"epsilon": config.budget.epsilon, "queries": tuple(config.plan.queries)}
    told = advice(found, **planned, within=within)
    if plot is not None and found:
        from discreet.bench.charts import draw

        draw(outcome_chart(found, **planned), plot)
    warnings = _warnings(setting, max((len(one.values) for one in found), default=0))
    form = {
        "format": FORMAT,
        "simulation": True,
        "audience": "world",
        "name": config.name,
        "outcomes": [one.to_json() for one in found],
        "impossible": [{"point": f"{one.point.problem}, {one.point.name}", "why": one.why} for one in refused],
        "failed": failed,
        "recommendation": None if told is None else told.to_json(),
        "warnings": warnings,
    }
    lines = [table.markdown() for table in outcome_tables(found)]
    lines += [f"impossible: {one.point.problem}, {one.point.name}: {one.why}" for one in refused]
    lines += [f"failed: {one}" for one in failed] + warnings
    show(form, "\n".join([*lines, *_words(told, config)]), as_json=as_json)
    if failed or told is None:
        raise typer.Exit(1)


def _words(told: Advice | None, config: CampaignConfig) -> list[str]:
    if told is None:
        return ["Nothing can be recommended: the campaign as it is planned could not be tried."]
    point = told.chosen.point
    head = f"Recommendation for {config.name}: {point.name}, {point.problem}"
    return [head, *(f"- {one}" for one in told.sentences)]


def _warnings(setting: Setting, seeds: int) -> list[str]:
    """What makes a dry run differ from the campaign."""
    sizes, table, unit = setting.sizes(), setting.config.pool, setting.config.budget.unit
    whole = (table.persons if unit == "person" else table.size) or sizes.pool
    told = []
    if sizes.pool < whole:
        told.append(
            f"The public pool has {sizes.pool} {unit}s, the campaign's {whole}: there is less to choose from here, "
            "so the gain of choosing is told too small."
        )
    if sizes.without_label:
        told.append(f"{sizes.without_label} public records have no label and are left out.")
    if 0 < seeds < FEW_SEEDS:
        told.append(f"Only {seeds} seeds: intervals are wide, and little can be told apart. Try --seeds 8.")
    if sizes.test < 500:
        told.append(f"Only {sizes.test} {unit}s are measured on: differences of a few points are chance.")
    return told


def _varied(text: str) -> tuple[str, list[Any]]:
    """A key, and the values to try: numbers, true, false, or words."""
    key, equals, values = text.partition("=")
    if not equals or not values.strip():
        raise BadInput(f"--vary {text}", "it does not say what to try", "Write trainer.learning_rate=1,2,4")
    return key.strip(), [_value(one.strip()) for one in values.split(",")]


def _value(text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _budgets(text: str) -> list[Decimal]:
    from discreet.privacy.exact import exact_decimal

    return [exact_decimal(part.strip(), "epsilon") for part in text.split(",")]
