"""`discreet ledger`: create, show, price, export, keygen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from discreet.cli.campaign_files import JsonOption, is_campaign, is_stream, lines_of, show
from discreet.cli.progress import working
from discreet.errors import BadInput, InvalidEvent
from discreet.privacy.budget import Budget, Unit

if TYPE_CHECKING:
    from discreet.privacy.events import Event
    from discreet.privacy.ledger import Ledger, Terms

LedgerFile = Annotated[Path, typer.Argument(help="The ledger, a file of JSON lines.", show_default=False)]
KeptLedger = Annotated[Path, typer.Argument(help="The ledger, or a campaign's TOML file.", show_default=False)]

ledger_app = typer.Typer(
    name="ledger",
    no_args_is_help=True,
    help="What was spent, on whom and why; what a charge would cost; what it all proves.",
)


@ledger_app.command("create")
def create_command(
    file: LedgerFile,
    plan: Annotated[Path | None, typer.Option(help="Commit to this plan (.json or .toml): committed mode.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Without a plan: the budget of an adaptive ledger.")] = None,
    delta: Annotated[str | None, typer.Option(help="Without a plan: the probability that the guarantee fails.")] = None,
    unit: Annotated[str, typer.Option(help="Without a plan: record or person.")] = "record",
    expect: Annotated[
        str | None, typer.Option(help="Adaptive: all you expect to spend, to choose the filter's order by.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Open a new ledger: committed to a plan, or adaptive under a budget. Nothing is spent yet.

    Example: discreet ledger create scans.ledger --plan plan.toml
    """
    from discreet.privacy.ledger import FileSink, Ledger

    if file.exists() and file.stat().st_size:
        raise BadInput(f"creating {file.name}", "there is such a file already", "Choose another name")
    with working("certifying"):
        terms = _terms(plan, epsilon=epsilon, delta=delta, unit=unit, expect=expect)
        terms.check_claim()
        with Ledger.create(FileSink(file), terms) as ledger:
            _say(_summary(ledger), as_json=as_json)


@ledger_app.command("show")
def show_command(
    file: KeptLedger,
    path: Annotated[str | None, typer.Option(help="Only the entries that touched this path.")] = None,
    last: Annotated[int, typer.Option(help="How many of the latest entries to list.", min=0)] = 10,
    as_json: JsonOption = False,
) -> None:
    """Where every path stands, and the latest entries. Audience: owner (times tell how long work took).

    Example: discreet ledger show scans.ledger --path phase-1 --last 20
    """
    ledger = read_only(file)
    entries = ledger.entries if path is None else ledger.entries_of(path)
    from discreet.cli.tables import ledger_form, show_ledger

    latest = entries[len(entries) - min(last, len(entries)) :]
    if as_json:
        print(json.dumps(ledger_form(ledger, latest)))  # noqa: T201
    else:
        show_ledger(ledger, latest, len(entries))


@ledger_app.command("price")
def price_command(
    file: KeptLedger,
    event: Annotated[str, typer.Option(help="A mechanism: 'laplace epsilon=0.5', or its JSON form.")],
    who: Annotated[str, typer.Option(help="The group it would touch: pool, shard-1, a cohort.")],
    count: Annotated[int, typer.Option(help="How many times.")] = 1,
    phase: Annotated[int, typer.Option(help="In which phase.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """What a charge would cost, without spending. Exit code 1 if the ledger would refuse it.

    Example: discreet ledger price scans.ledger --event "laplace epsilon=0.5" --who pool --phase 1
    """
    from discreet.privacy.ledger import ChargeReason

    ledger = read_only(file)
    price = ledger.price(
        event=parse_event(event), count=count, who=who, why=ChargeReason(phase=phase, purpose="pricing")
    )
    form = {
        "format": "discreet.price/1",
        "simulation": ledger.simulation,
        "fits": price.fits,
        "requested": str(price.requested),
        "remaining": str(price.remaining),
        "total": str(price.total),
        "refusal": price.refusal or None,
    }
    fits = f"It fits: epsilon {price.requested:.6g}; {price.remaining:.6g} of {price.total} remains."
    show(form, fits if price.fits else f"It would be refused. {price.refusal}", as_json=as_json)
    if not price.fits:
        raise typer.Exit(1)


@ledger_app.command("export")
def export_command(
    file: KeptLedger,
    out: Annotated[Path, typer.Option(help="Certificate (.json), or all entries as a table (.csv).")],
    sign: Annotated[Path | None, typer.Option(help="Sign the certificate with this Ed25519 key (PEM).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the certificate of a ledger, for people who have neither ledger nor data. Audience: public.

    Under hidden selection it covers the released phases and carries no times.

    Example: discreet ledger export scans.ledger --out certificate.json --sign signing.pem
    """
    if out.suffix not in (".json", ".csv") or out.is_dir() or not out.absolute().parent.is_dir():
        raise BadInput(f"writing {out.name}", "it is no file we can write", "Use a .json or .csv file in a directory")
    if sign and out.suffix == ".csv":
        raise BadInput("signing a table", "only certificates are signed", "Export a .json file")
    _check_replaced(out, file, sign)
    ledger, on_time = _public(file)
    if out.suffix == ".csv":
        from discreet.cli.tables import entries_csv
        from discreet.privacy.files import write_whole

        write_whole(out, entries_csv(ledger))
        _say(_summary(ledger) | {"written": out.name}, as_json=as_json)
        return
    from discreet.privacy.certificate import certify, write_certificate

    with working("certifying"):
        form = certify(ledger, on_time=on_time)
        if sign:
            from discreet.privacy.certificate.signatures import signed

            form = signed(form, sign)
        write_certificate(form, out)
    _say(_summary(ledger) | {"written": out.name, "claim": form["claim"], "signed": sign is not None}, as_json=as_json)


@ledger_app.command("keygen")
def keygen_command(
    file: Annotated[Path, typer.Argument(help="Where to write the private key (PEM).", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Make an Ed25519 key pair for signing certificates: FILE (keep it secret) and FILE.pub (give it away).

    Example: discreet ledger keygen signing.pem
    """
    from discreet.privacy.certificate.signatures import make_keys

    public = make_keys(file)
    form = {"format": "discreet.keys/1", "simulation": False, "private": file.name, "public": public.name}
    text = f"Private key: {file.name} (mode 0600; keep it secret). Public key: {public.name}."
    show(form, text, as_json=as_json)


def _check_replaced(out: Path, *sources: Path | None) -> None:
    """Only an older export may be replaced, never the ledger or the key it is made from."""
    if not out.exists():
        return
    if any(source is not None and source.exists() and out.samefile(source) for source in sources):
        raise BadInput(f"writing {out.name}", "that is the file it is made from", "Choose another name")
    start = out.read_bytes()[:200]
    ours = b"discreet.certificate/" in start if out.suffix == ".json" else start.startswith(b"sequence,at,phase,")
    if start and not ours:
        raise BadInput(f"writing {out.name}", "there is another file of that name", "Choose another name")


def read_only(file: Path) -> Ledger:
    """The ledger in ``file``, or of the campaign it names, read without a lock; it cannot be charged. Refused if
    charges are missing by its mark; where there is no mark, that is said.
    """
    from discreet.privacy.ledger import Ledger, MemorySink
    from discreet.privacy.ledger.sinks import read_beside_mark

    if is_campaign(file):
        lines = lines_of(file)
    elif file.is_file():
        lines, position, refused = read_beside_mark(file)
        if position is None:
            typer.echo(
                f"{file.name}: no {file.name}.mark beside it, so missing charges would not be noticed.", err=True
            )
        elif refused is not None:
            raise refused
    else:
        raise BadInput(f"reading {file.name or file}", "there is no such ledger", "Check the path")
    ledger = Ledger.open(MemorySink(lines))
    ledger.close()
    return ledger


def _public(file: Path) -> tuple[Ledger, bool]:
    """A ledger as far as it is public, and whether a hidden selection keeps its planned release dates."""
    if not is_campaign(file) or is_stream(file):
        return read_only(file), False
    from discreet.config import read_campaign
    from discreet.recipes.verification import public_ledger_of

    ledger, releases = public_ledger_of(read_campaign(file, stored=True))
    return ledger, releases is not None and releases.on_time


def parse_event(text: str) -> Event:
    """An event as people write it: its kind, then name=value pairs; or its stored JSON form."""
    from discreet.privacy.event_forms import REGISTRY, from_json

    if text.lstrip().startswith("{"):
        try:
            return from_json(json.loads(text))
        except InvalidEvent as error:
            raise BadInput("--event", error.fact, "Write it like 'laplace epsilon=0.5'") from None
        except (ValueError, RecursionError):
            raise BadInput("--event", "it is not valid JSON", "Write it like 'laplace epsilon=0.5'") from None
    kind, *pairs = text.split() or [""]
    known = sorted(name for name, _ in REGISTRY if name not in ("composed", "repeated", "pmf-family"))
    if kind not in known:
        raise BadInput(f"--event {kind}", "there is no such mechanism", f"Choose one of {', '.join(known)}")
    form: dict[str, Any] = {"kind": kind, "version": 1}
    keys = {"kind", "version"}
    form |= _DEFAULTS.get(kind, {})
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise BadInput(f"--event {text}", f"{pair} is not name=value", "Write it like 'laplace epsilon=0.5'")
        if name in keys:
            raise BadInput(f"--event {text}", f"{name} is given twice", "Give each value once")
        keys.add(name)
        form[name] = _number(name, value)
    try:
        return from_json(form)
    except InvalidEvent as error:
        raise BadInput(f"--event {text}", error.fact, "Write it like 'laplace epsilon=0.5'") from None


_DEFAULTS: dict[str, dict[str, Any]] = {
    "discrete-laplace": {"sensitivity": 1},
    "release-gate": {"values": 1, "counts": False, "normalisation": "nfkc,case,whitespace"},
}


def _number(name: str, value: str) -> int | float | str:
    if name in ("epsilon", "delta", "asked", "missed", "normalisation"):
        return value
    if name == "counts" and value in ("true", "false"):
        return value == "true"
    try:
        return int(value) if name in ("sensitivity", "k", "values") else float(value)
    except ValueError:
        raise BadInput(f"--event {name}={value}", "it is not a number", "Give a number") from None


def _terms(plan: Path | None, *, epsilon: str | None, delta: str | None, unit: str, expect: str | None) -> Terms:
    from discreet.privacy.ledger import adaptive, terms_of

    if plan is not None:
        from discreet.privacy.plan_files import read_plan

        if (epsilon, delta, expect) != (None, None, None):
            raise BadInput("--plan with a budget", "a plan has its own", "Give one or the other")
        return terms_of(read_plan(plan, certify=False))
    if epsilon is None or delta is None:
        raise BadInput("discreet ledger create", "it needs --plan, or --epsilon and --delta", "Give one of the two")
    budget = Budget(epsilon=epsilon, delta=delta, unit=cast("Unit", unit))  # checked there
    return adaptive(budget, expect=parse_event(expect) if expect else None)


def _summary(ledger: Ledger) -> dict[str, Any]:
    return {
        "format": "discreet.ledger-summary/1",
        "simulation": ledger.simulation,
        "id": ledger.id,
        "mode": ledger.terms.mode,
        "budget": ledger.terms.budget.to_json(),
        "entries": len(ledger),
        "head": ledger.head,
    }


def _say(form: dict[str, Any], *, as_json: bool) -> None:
    budget = form["budget"]
    lines = [
        f"Ledger {form['id'][:8]} ({form['mode']}{', simulation' if form['simulation'] else ''}): "
        f"{form['entries']} entries, budget epsilon {budget['epsilon']} at delta {budget['delta']} "
        f"per {budget['unit']}, relation {budget['relation']}."
    ]
    if "claim" in form:
        claim = form["claim"]
        lines.append(f"Claim: epsilon {claim['epsilon']} at delta {claim['delta']}, worst path {claim['trajectory']}.")
    if "written" in form:
        lines.append(f"Written: {form['written']}{' (signed)' if form.get('signed') else ''}.")
    show(form, "\n".join(lines), as_json=as_json)
