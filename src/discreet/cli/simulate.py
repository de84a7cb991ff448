"""`discreet simulate`: which epsilon, how many labels, is it worth it? A dry run on public records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, show
from discreet.cli.plan import check_plot, parse_sizes
from discreet.errors import BadInput
from discreet.privacy.budget import exact_decimal

if TYPE_CHECKING:
    from discreet.config import CampaignConfig
    from discreet.simulation.dry_runs import Refused, Setting
    from discreet.simulation.points import Point
    from discreet.simulation.recommendation import Advice, Outcome

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
        str | None,
        typer.Option(help="own, subset, or selectors by score, such as clipped-laplace; exact is not private."),
    ] = None,
    vary: Annotated[
        list[str] | None, typer.Option(help="Other settings: trainer.learning_rate=1,2,4; may be repeated.")
    ] = None,
    every: Annotated[bool, typer.Option("--every", help="Each epsilon with each list of queries.")] = False,
    seeds: Annotated[int, typer.Option(help="Campaigns a point.", min=2, max=1000)] = 5,
    test: Annotated[float, typer.Option(help="Share of the records that is measured on.", min=0.01, max=0.9)] = 0.3,
    label_noise: Annotated[float, typer.Option(help="Share of answers that are wrong.", min=0.0, max=1.0)] = 0.0,
    skip: Annotated[float, typer.Option(help="Share of questions that nobody answers.", min=0.0, max=1.0)] = 0.0,
    metric: Annotated[
        str,
        typer.Option(
            help="Compare by: accuracy, balanced-accuracy, auc, average-precision, f1, log-loss or calibration-error."
        ),
    ] = "accuracy",
    within: Annotated[
        float, typer.Option(help="Points (hundredths) of the metric worth a smaller budget.", min=0.0)
    ] = 1.0,
    results: Annotated[
        Path | None, typer.Option(help="Where finished runs are kept; default: NAME.simulation beside the file.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="How many runs at once; default: one a core.", min=1, max=256)
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the metric by epsilon and labels (.png, .svg, .pdf).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the campaign on public records, for several budgets and ways of asking, before anything is spent.

    Nothing private is read. Stop it when you like; called again, it goes on.

    Example: discreet simulate scans.toml --data public.npz --seeds 5
    """
    from discreet.config import CampaignConfig
    from discreet.recipes.specification import spec_of
    from discreet.simulation.dry_runs import Setting
    from discreet.simulation.labelled_data import LabelledSource
    from discreet.simulation.points import points_of
    from discreet.trainers.accuracy import METRICS

    check_plot(plot)
    if metric not in METRICS:
        raise BadInput(f"the metric {metric}", "there is none of that name", f"Choose of {', '.join(METRICS)}")
    read = CampaignConfig.read(config)
    if not spec_of(read).simulates:
        raise read.error("recipe.name", "a dry run plays a private pool", "See docs/reference/public-data.md")
    points = points_of(
        read,
        epsilons=[exact_decimal(part.strip(), "epsilon") for part in epsilons.split(",")]
        if epsilons is not None
        else [],
        queries=[parse_sizes(text) for text in queries or []],
        methods=[] if methods is None else [method.strip() for method in methods.split(",")],
        varied=dict(_varied(text) for text in vary or []),
        every=every,
    )
    source = LabelledSource(path=data, label=label, labels=labels)
    setting = Setting(config=read, data=source, test=test, label_noise=label_noise, skip=skip)
    folder = results if results is not None else read.resolve(f"{read.name}.simulation")
    finished, refused, failed = _run(setting, points, seeds=seeds, folder=folder, processes=processes, metric=metric)
    _tell(setting, finished, refused, failed, within=within / 100, plot=plot, as_json=as_json)


def _run(
    setting: Setting, points: list[Point], *, seeds: int, folder: Path, processes: int | None, metric: str
) -> tuple[list[Outcome], list[Refused], list[str]]:
    from discreet.cli.progress import BETWEEN_CASES, counting, interruptible, stepping
    from discreet.simulation.dry_runs import dry_runs
    from discreet.simulation.recommendation import outcomes
    from discreet.simulation.results import Store
    from discreet.simulation.runner import run_cases

    with interruptible(BETWEEN_CASES):
        with stepping("planning", total=len(points)) as step:
            runs, refused = dry_runs(setting, points, seeds=seeds, results=folder, step=lambda: step(None))
        store = Store(folder, "dry-runs")
        with counting("dry runs", len(runs)) as progress:
            failures = run_cases(store, runs, data=None, processes=processes or os.cpu_count() or 1, progress=progress)
    return (
        outcomes(store.rows(runs), points, metric),
        refused,
        [f"{failure.case}: {failure.why}" for failure in failures],
    )


def _tell(
    setting: Setting,
    results: list[Outcome],
    refused: list[Refused],
    failed: list[str],
    *,
    within: float,
    plot: Path | None,
    as_json: bool,
) -> None:
    from discreet.simulation.recommendation import advice, outcome_chart, outcome_tables

    config = setting.config
    planned: dict[str, Any] = {"epsilon": config.budget.epsilon, "queries": tuple(config.plan.queries)}
    recommended = advice(results, **planned, within=within)
    if plot is not None and results:
        from discreet.simulation.results import draw

        draw(outcome_chart(results, **planned), plot)
    warnings = _warnings(setting, max((len(refusal.values) for refusal in results), default=0))
    form = {
        "format": "discreet.simulated/1",
        "simulation": True,
        "audience": "public",
        "name": config.name,
        "outcomes": [refusal.to_json() for refusal in results],
        "impossible": [
            {"point": f"{refusal.point.problem}, {refusal.point.name}", "why": refusal.why} for refusal in refused
        ],
        "failed": failed,
        "recommendation": None if recommended is None else recommended.to_json(),
        "warnings": warnings,
    }
    lines = [table.markdown() for table in outcome_tables(results)]
    lines += [f"impossible: {refusal.point.problem}, {refusal.point.name}: {refusal.why}" for refusal in refused]
    lines += [f"failed: {refusal}" for refusal in failed] + warnings
    show(form, "\n".join([*lines, *_words(recommended, config)]), as_json=as_json)
    if failed or recommended is None:
        raise typer.Exit(1)


def _words(recommended: Advice | None, config: CampaignConfig) -> list[str]:
    if recommended is None:
        return ["Nothing can be recommended: the campaign as it is planned could not be tried."]
    point = recommended.chosen.point
    head = f"Recommendation for {config.name}: {point.name}, {point.problem}"
    return [head, *(f"- {sentence}" for sentence in recommended.sentences)]


def _warnings(setting: Setting, seeds: int) -> list[str]:
    """What makes a dry run differ from the campaign."""
    sizes, table, unit = setting.sizes(), setting.config.pool, setting.config.budget.unit
    declared = (table.persons if unit == "person" else table.size) or sizes.pool
    warnings = []
    if sizes.pool < declared:
        warnings.append(
            f"The public pool has {sizes.pool} {unit}s, the campaign's {declared}: there is less to choose from here, "
            "so the gain of choosing is told too small."
        )
    if sizes.without_label:
        warnings.append(f"{sizes.without_label} public records have no label and are left out.")
    if 0 < seeds < FEW_SEEDS:
        warnings.append(f"Only {seeds} seeds: intervals are wide, and little can be told apart. Try --seeds 8.")
    if sizes.test < 500:
        warnings.append(f"Only {sizes.test} {unit}s are measured on: differences of a few points are chance.")
    return warnings


def _varied(text: str) -> tuple[str, list[Any]]:
    """A key, and the values to try: numbers, true, false, or words."""
    key, equals, values = text.partition("=")
    if not equals or not values.strip():
        raise BadInput(f"--vary {text}", "it does not say what to try", "Write trainer.learning_rate=1,2,4")
    return key.strip(), [_value(value.strip()) for value in values.split(",")]


def _value(text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
