"""`discreet select`: private selection for people with scores of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import JsonOption
from discreet.errors import BadInput
from discreet.privacy.budget import Budget, exact_decimal, json_number

if TYPE_CHECKING:
    from discreet.noise import SecretKey, Source
    from discreet.privacy.ledger import Ledger, Receipt

_POOL = "pool"


def select_command(
    pool: Annotated[Path, typer.Argument(help="A Parquet file with one row a record.", show_default=False)],
    scores: Annotated[str, typer.Option(help="The column of scores, higher = ask first.")],
    k: Annotated[int, typer.Option("--k", help="How many to ask, at most.", min=0)],
    id: Annotated[str, typer.Option("--id", help="The column of ids, your own.")],  # noqa: A002
    epsilon: Annotated[str, typer.Option(help="What this query may cost a record.")] = "1",
    mechanism: Annotated[
        str,
        typer.Option(
            help="The selector, such as threshold-response, laplace or random. A name that is not there lists them all."
        ),
    ] = "threshold-response",
    delta: Annotated[str, typer.Option(help="For the Gaussian ones: the probability that the guarantee fails.")] = "0",
    limits: Annotated[
        str, typer.Option("--range", help="The range of the scores, declared: BOTTOM,TOP. Others are brought into it.")
    ] = "0,1",
    clip: Annotated[float | None, typer.Option(help="For clipped-laplace; 0.8 of the range without it.")] = None,
    shards: Annotated[int, typer.Option(help="Cut the pool into so many parts; each meets one query.", min=1)] = 1,
    ledger: Annotated[Path | None, typer.Option(help="Record the charge here, and take the next unused shard.")] = None,
    budget: Annotated[str | None, typer.Option(help="Create the ledger, with this epsilon for every record.")] = None,
    simulation_seed: Annotated[
        int | None, typer.Option(min=0, help="Draw from a seed: for trying out. Its result is marked as a simulation.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Choose k records by their scores, privately. Prints ids, one a line, in random order. Audience: annotator.

    Charged before anything is drawn. Without a ledger nothing remembers the charge: keep count yourself.

    Example: discreet select scans.parquet --scores entropy --id scan --k 100 --epsilon 2 --ledger a.ledger --budget 8
    """
    from discreet.cli.progress import AFTER_CHARGE, interruptible, working
    from discreet.noise import source_of
    from discreet.selectors import charge_selection, selector_for
    from discreet.selectors.selection_inputs import checked

    source = source_of(simulation_seed)
    selector = selector_for(mechanism, epsilon=epsilon, delta=delta, limits=_pair(limits), clip=clip, source=source)
    ids, values = _columns(pool, id, scores)
    checked(ids, values, k, _pair(limits))  # before anything is charged
    with _book(ledger, budget, delta, shards, source) as book:
        number, places = _shard(book, ids, shards, _key(book, ledger, shards, simulation_seed))
        members = [ids[row] for row in places]
        with working("choosing"):
            who = _POOL if number is None else f"shard-{number}"
            paid = charge_selection(book, selector, k=k, pool_size=len(members), who=who, why=f"select {mechanism}")
            with interruptible(AFTER_CHARGE):
                selection = selector.select(ids=members, scores=values[places], k=k, receipt=paid)
    form = _form(selection, paid, epsilon=epsilon, delta=delta, number=number, recorded=ledger is not None, k=k)
    if as_json:
        print(json.dumps(form))  # noqa: T201
        return
    for name in selection.ids:
        print(name)  # noqa: T201
    _summary(form)


def _pair(text: str) -> tuple[float, float]:
    parts = text.split(",")
    try:
        bottom, top = (float(part) for part in parts)
    except ValueError:
        raise BadInput(f"--range {text}", "it is not BOTTOM,TOP", "Try --range 0,1") from None
    return bottom, top


def _columns(pool: Path, id_column: str, score_column: str) -> tuple[list[str], Any]:
    """Ids as text, and scores as floats; missing scores are no numbers."""
    import pyarrow
    from pyarrow import compute, parquet

    if not pool.is_file():
        raise BadInput(f"reading {pool.name}", "there is no such file", "Check the path")
    try:
        names = parquet.read_schema(pool).names
        for column in (id_column, score_column):
            if column not in names:
                raise BadInput(f"column {column} of {pool.name}", "it has none of that name", "Check --id and --scores")
        table = parquet.read_table(pool, columns=list(dict.fromkeys([id_column, score_column])))
    except pyarrow.ArrowException:
        raise BadInput(f"reading {pool.name}", "it is not a Parquet file that can be read", "Write it again") from None
    ids, scores = table[id_column], table[score_column]
    if ids.null_count or not (pyarrow.types.is_integer(ids.type) or _is_text(ids.type)):
        raise BadInput(f"ids in column {id_column}", "they are not text or whole numbers, one each", "Use your own ids")
    if not (pyarrow.types.is_floating(scores.type) or pyarrow.types.is_integer(scores.type)):
        raise BadInput(f"scores in column {score_column}", "they are not numbers", "Give numbers")
    filled = compute.cast(scores, pyarrow.float64()).fill_null(float("nan"))
    return compute.cast(ids, pyarrow.string()).to_pylist(), filled.to_numpy()


def _is_text(kind: Any) -> bool:
    import pyarrow

    return bool(
        pyarrow.types.is_string(kind)
        or pyarrow.types.is_large_string(kind)
        or (pyarrow.types.is_dictionary(kind) and _is_text(kind.value_type))
    )


def _book(path: Path | None, budget: str | None, delta: str, shards: int, source: Source) -> Ledger:
    """The ledger of this query: the one in the file, a new one there, or one that nobody keeps."""
    from discreet.privacy.ledger import FileSink, Ledger, MemorySink, PathSegment, adaptive
    from discreet.privacy.ledger.paths import Path as LedgerPath

    groups = [_POOL] if shards == 1 else [f"shard-{number}" for number in range(1, shards + 1)]
    paths = [LedgerPath(name=group, stays=(PathSegment(who=group),)) for group in groups]
    if path is None:
        if budget is not None:
            raise BadInput("a budget without a ledger", "nothing would keep it", "Give --ledger, or drop --budget")
        ample = Budget(epsilon=10**9, delta="1e-9" if delta == "0" else delta)
        return Ledger.create(MemorySink(), adaptive(ample, paths=paths), source=source)
    if path.exists() and path.stat().st_size:
        book = Ledger.open(FileSink(path, must_exist=True), source=source)
        if [ledger_path.name for ledger_path in book.terms.paths] != groups:
            book.close()
            raise BadInput(
                f"{shards} shards in {path.name}",
                "it was made for another number of them",
                "Give the number it was made for",
            )
        if budget is not None and Budget(epsilon=budget, delta=delta).epsilon != book.terms.budget.epsilon:
            book.close()
            raise BadInput(f"--budget {budget}", f"{path.name} has another budget", "Drop --budget")
        return book
    if budget is None:
        raise BadInput(f"charging {path.name}", "there is no such ledger", "Give --budget to create it")
    return Ledger.create(FileSink(path), adaptive(Budget(epsilon=budget, delta=delta), paths=paths), source=source)


def _key(book: Ledger, ledger: Path | None, shards: int, seed: int | None) -> SecretKey | None:
    """What cuts the pool: kept beside the ledger, fresh without one, or made of the seed.

    A second key would cut otherwise, and a record that met a query could meet another: refused.
    """
    import hashlib

    from discreet.noise import SecretKey

    if shards == 1:
        return None
    if seed is not None:
        return SecretKey(hashlib.sha256(f"discreet shards {seed}".encode()).digest())
    if ledger is None:
        return SecretKey.fresh()
    path = ledger.with_name(ledger.name + ".key")
    if not path.exists():
        if book.entries:
            raise BadInput(
                f"another query of {ledger.name}",
                f"{path.name}, which cut the pool, is gone",
                "Restore it: a new cut is unpaid",
            )
        SecretKey.fresh().write(path)
    return SecretKey.read(path)


def _shard(book: Ledger, ids: list[str], shards: int, key: SecretKey | None) -> tuple[int | None, Any]:
    """The next unused shard and its places; everybody, if the pool is not cut."""
    import numpy as np

    from discreet.selectors.selection_inputs import in_shard

    if key is None:
        return None, np.arange(len(ids))
    used = {charge.who for entry in book.entries for charge in entry.charges}
    free = [number for number in range(1, shards + 1) if f"shard-{number}" not in used]
    if not free:
        raise BadInput(f"another query of {shards} shards", "each of them met one already", "Cut a new pool")
    return free[0], in_shard(ids, free[0], shards, key)


def _form(
    selection: Any,
    paid: list[Receipt],
    *,
    epsilon: str,
    delta: str,
    number: int | None,
    recorded: bool,
    k: int,
) -> dict[str, Any]:
    from discreet.privacy.event_forms import to_json

    free = not paid
    return {
        "format": "discreet.selection/1",
        "simulation": selection.simulation,
        "ids": list(selection.ids),
        "mechanism": selection.mechanism,
        "epsilon": 0 if free else json_number(exact_decimal(epsilon, "epsilon")),
        "delta": json_number(exact_decimal(delta, "delta")),
        "event": [to_json(event) for receipt in paid for event in receipt.events()],
        "shard": number,
        "threshold": selection.threshold,
        "k": k,
        "asked": len(selection),
        "dropped": selection.dropped or 0,
        "recorded": recorded and not free,
    }


def _summary(form: dict[str, Any]) -> None:
    where = "" if form["shard"] is None else f" of shard {form['shard']}"
    recorded = "recorded" if form["recorded"] else "NOT recorded: keep count yourself"
    if not form["event"]:
        recorded = "free"
    note = " (a simulation: it proves nothing about people)" if form["simulation"] else ""
    price = f"epsilon {form['epsilon']}, delta {form['delta']}"
    typer.echo(f"{form['asked']} asked{where} by {form['mechanism']}, {price}: {recorded}{note}", err=True)
