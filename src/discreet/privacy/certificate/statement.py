"""A certificate: what a ledger proves, in one file that anybody can check without the ledger or the data.

It holds every trajectory with the events that touch it and its epsilon by both accountants, so that `discreet verify`
can compute all of it again from the events alone. A committed ledger's claim is its worst committed path by the
accountant it was committed with; an adaptive one's is its whole budget, guarded by an RDP filter (PLD needs parameters
fixed in advance).

Guarantee: the file is written in one way only and carries a digest, so an accidental edit is found. Against an edit on
purpose a certificate must be signed (`discreet.privacy.certificate.signatures`). Audience: public; nothing in it
depends on private data.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

from discreet._version import __version__
from discreet.errors import InvalidCertificate
from discreet.privacy.accounting.filters import RdpLimit
from discreet.privacy.accounting.pld import CERTIFICATE_INTERVAL
from discreet.privacy.budget import Budget, exact_decimal, exact_sum, float_below, json_number
from discreet.privacy.certificate.signatures import Form
from discreet.privacy.events import Repeated, ThresholdResponse
from discreet.privacy.files import write_whole
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger.charges import canonical
from discreet.privacy.ledger.entries import FORMAT as LEDGER_FORMAT
from discreet.privacy.ledger.paths import Line, PathReading
from discreet.privacy.ledger.paths import Path as LedgerPath
from discreet.privacy.ledger.terms import Continued, continued_budget
from discreet.privacy.selection_terms import NOT_RELEASED, TIME_COVERED, TIME_NOT_COVERED, release_dates
from discreet.privacy.trajectories import Trajectory

FORMAT = "discreet.certificate/1"
FILTER = "rdp-filter"
ONE_RECORD = "one record alone, and nothing of any other record"
"""What a feature map reads: why it costs nothing."""
PAID_EDGES = "one record alone, and edges that every path pays for"
"""The same of a map whose edges are private quantiles."""
HASHED = ("weights", "source of a module")
"""What the SHA-256 of an encoder is of."""
MOST_BYTES = 1 << 28
NOT_COVERED = ("the decision to start: whoever takes it may have looked at the records",)
"""What no claim of ours is about. Certificates say it since they have the key ``not_covered``."""


def certify(ledger: Ledger, *, on_time: bool = False) -> Form:
    """The certificate of ``ledger`` as it stands, unsigned.

    ``on_time``: of a hidden selection, whether all that ``ledger`` holds was released on its planned dates, and nothing
    is late. Otherwise the certificate says that time is not covered. It then carries planned days only: that of the
    last release, or that on which the ledger was opened.
    """
    terms = ledger.terms
    ledger.opening.terms.check_claim()
    paths = committed_paths(terms.trajectories(), terms.accounted) if terms.lines else filtered_paths(ledger)
    form: Form = {
        "format": FORMAT,
        "simulation": ledger.simulation,
        "audience": "public",
        "issued": _issued(ledger, on_time=on_time),
        "versions": {"discreet": __version__} | {name: version(name) for name in ("dp-accounting", "numpy", "scipy")},
        "ledger": {"format": LEDGER_FORMAT, "id": ledger.id, "entries": len(ledger), "head": ledger.head},
        "mode": terms.mode,
        "budget": terms.budget.to_json(),
        "accountant": terms.accountant if terms.lines else FILTER,
        "orders": list(terms.orders),
        "plan": terms.plan,
        "claim": claim_of(paths, terms.budget, terms.accountant if terms.lines else FILTER),
        "trajectories": [path.to_json() for path in paths],
        "not_covered": list(NOT_COVERED),
    }
    if terms.overflow:
        form["not_released"] = not_released(terms.overflow, terms.releases, covered=_covers_time(ledger, on_time))
    if terms.continued is not None:
        form["replanned"] = replanned(ledger)
    return form | {"digest": digest_of(form), "signature": None}


def _covers_time(ledger: Ledger, on_time: bool) -> bool:
    return on_time and bool(ledger.terms.releases) and not any(entry.at for entry in ledger.entries)


def _issued(ledger: Ledger, *, on_time: bool) -> str:
    if not ledger.terms.overflow:
        return datetime.now(UTC).strftime("%Y-%m-%d")
    if _covers_time(ledger, on_time) and ledger.entries:
        return ledger.terms.releases[ledger.entries[-1].why.phase].isoformat()
    return ledger.opening.at[:10]


def bound(form: Form, weights: bytes) -> Form:
    """``form``, unsigned, as a certificate of the model with these stored weights, and of no other."""
    parts = {name: value for name, value in form.items() if name not in ("digest", "signature")}
    parts["weights"] = hashlib.sha256(weights).hexdigest()
    return parts | {"digest": digest_of(parts), "signature": None}


def with_parts(form: Form, parts: list[dict[str, str]], features: Form | None = None) -> Form:
    """``form``, unsigned, as a certificate that names the parts which other packages declared, and that it trusts.

    ``features``: the identity of the feature map, if the model reads features of the records; with what its
    ``quantiles`` cost, if its edges are private.
    """
    if not parts and features is None:
        return form
    rest = {name: value for name, value in form.items() if name not in ("digest", "signature")}
    if parts:
        rest["third_party"] = parts
    if features is not None:
        rest["features"] = named_map(features)
    return rest | {"digest": digest_of(rest), "signature": None}


def named_map(identity: Form) -> Form:
    """What a certificate says of a feature map."""
    further = {name: identity[name] for name in ("encoder", "quantiles") if name in identity}
    reads = PAID_EDGES if "quantiles" in identity else ONE_RECORD
    return {name: identity[name] for name in ("name", "version", "sha256")} | {"reads": reads} | further


def replanned(ledger: Ledger) -> list[Form]:
    """Every re-planning: from which phase on, after how many entries, why, and what was promised until then."""
    steps = []
    for entry in ledger.amendments:
        before = ledger.terms_before(entry)
        assert entry.terms is not None
        assert entry.terms.continued is not None
        steps.append(
            {
                "phase": entry.why.phase,
                "entries": entry.sequence - 1,
                **entry.terms.continued.to_json(),
                "before": {"mode": before.mode, "budget": before.budget.to_json(), "plan": before.plan},
            }
        )
    return steps


def kept_in(form: Form) -> Decimal:
    """The delta that a claim keeps which a re-planning left; 0 without one."""
    if "replanned" not in form:
        return Decimal(0)
    steps = form["replanned"]
    if not isinstance(steps, list) or not steps or form["mode"] != "adaptive":
        raise InvalidCertificate("reading a certificate", "its re-planning is not in the one form we write", "")
    budgets = [Budget.from_json(step["before"]["budget"]) for step in steps] + [Budget.from_json(form["budget"])]
    for number, step in enumerate(steps):
        if set(step) != {"phase", "entries", "because", "note", "kept", "before"}:
            raise InvalidCertificate("reading a certificate", "its re-planning has other parts than ours", "")
        why = Continued.from_json({name: step[name] for name in ("because", "note", "kept")})
        after, kept_delta = continued_budget(
            budgets[number], budgets[number + 1].epsilon, why.because, first=number == 0
        )
        kept_delta = kept_delta if number == 0 else exact_decimal(steps[number - 1]["kept"], "kept")
        if after != budgets[number + 1] or why.kept != kept_delta:
            raise InvalidCertificate("reading a certificate", "its promise does not follow from the ones before", "")
        if (step["before"]["mode"] == "committed") != (number == 0) or set(step["before"]) != {
            "mode",
            "budget",
            "plan",
        }:
            raise InvalidCertificate("reading a certificate", "its re-planning did not begin in committed mode", "")
    return exact_decimal(steps[-1]["kept"], "kept")


def not_released(overflow: Decimal, releases: tuple[date, ...], *, covered: bool) -> Form:
    """What a certificate of a hidden selection says: another promise than that of one whose asked sets are public."""
    return {
        "what": NOT_RELEASED,
        "overflow": json_number(overflow),
        "releases": [day.isoformat() for day in releases],
        "time": TIME_COVERED if covered else TIME_NOT_COVERED,
    }


def overflow_in(form: Form) -> Decimal:
    """The delta that was kept for slots; 0 where asked sets are public."""
    if "not_released" not in form:
        return Decimal(0)
    stated = form["not_released"]
    overflow, dates = exact_decimal(stated["overflow"], "overflow"), releases_in(form)
    again = not_released(overflow, dates, covered=stated["time"] == TIME_COVERED and bool(dates))
    if stated != again or overflow <= 0 or form["mode"] != "committed":
        raise InvalidCertificate(
            "reading a certificate", "what it does not release is not in the one form we write", ""
        )
    return overflow


def releases_in(form: Form) -> tuple[date, ...]:
    """The planned release dates that a certificate names."""
    dates = form["not_released"]["releases"] if "not_released" in form else []
    return release_dates(dates, phases=len(dates))


def covers_time(form: Form) -> bool:
    """Whether a hidden selection claims that its phases are released on planned dates."""
    return bool("not_released" in form and form["not_released"]["time"] == TIME_COVERED)


def committed_paths(paths: tuple[Trajectory, ...], budget: Budget) -> tuple[Trajectory, ...]:
    """Every committed path priced by both accountants, PLD at the certificate's interval or a finer one."""
    delta = float(budget.delta)
    return tuple(
        replace(
            path,
            epsilon_pld=path.pld(delta, finest_interval(path, budget)),
            epsilon_rdp=_finite(path.rdp(delta)),
        )
        for path in paths
    )


def finest_interval(path: Trajectory, budget: Budget) -> float:
    """The discretisation that a path of a certificate is priced at."""
    return min(CERTIFICATE_INTERVAL, path.interval(float(budget.epsilon)))


def _finite(epsilon: float) -> float | None:
    """RDP proves nothing of some mechanisms that PLD does price; JSON has no infinity."""
    return epsilon if math.isfinite(epsilon) else None


def filtered_paths(ledger: Ledger) -> tuple[Trajectory, ...]:
    """What an adaptive ledger charged each path so far; no choice is cheaper there, so every event composes."""
    charged, limit = ledger.charged(), RdpLimit(ledger.terms.accounted, orders=ledger.terms.orders)
    paths = []
    for path in ledger.terms.paths:
        touching = [line for line in charged if path.stay_of(line.who, line.phase)]
        chosen = [line for line in touching if ledger.terms.continued and _by_outcome(path, line)]
        events = tuple(Repeated(event=line.event, count=line.count) for line in touching if line not in chosen)
        branches = tuple(branch for line in chosen for branch in PathReading(path, ()).branches(line))
        priced = filtered(Trajectory(name=path.name, selection=branches, training=events), limit)
        # the ledger's own odometer, whose sum was rounded at every entry: the one the filter held to the budget
        paths.append(replace(priced, epsilon_rdp=float_below(ledger.total(path.name).epsilon)))
    return tuple(paths)


def _by_outcome(path: LedgerPath, line: Line) -> bool:
    """Whether a charge chose between paths, so that after a re-planning this one pays for its own outcome."""
    stay = path.stay_of(line.who, line.phase)
    chosen = stay is not None and stay.choice in ("asked", "asked-below", "missed")
    return chosen and isinstance(line.event, ThresholdResponse)


def filtered(path: Trajectory, limit: RdpLimit) -> Trajectory:
    """``path`` with the filter's odometer as its epsilon."""
    spent = limit.nothing
    for part in path.training:
        spent = limit.after(spent, part.event, part.count)
    epsilon = exact_sum((max(path.forward, path.backward), limit.epsilon(spent)))
    return replace(path, epsilon_rdp=float(epsilon), epsilon_pld=None)


def claim_of(paths: tuple[Trajectory, ...], budget: Budget, accountant: str) -> Form:
    """The promise: the worst path of a committed ledger, the whole budget of an adaptive one."""
    delta = json_number(budget.delta)
    if accountant == FILTER:
        return {"epsilon": json_number(budget.epsilon), "delta": delta, "trajectory": "every path"}
    worst = max(paths, key=lambda path: _claimed(path, accountant))
    return {"epsilon": _claimed(worst, accountant), "delta": delta, "trajectory": worst.name}


def _claimed(path: Trajectory, accountant: str) -> float:
    claim = path.epsilon_pld if accountant == "pld" else path.epsilon_rdp
    assert claim is not None, "a path of a certificate is priced"
    return claim


def digest_of(form: Form) -> str:
    """The hash of everything but the digest and the signature."""
    return hashlib.sha256(canonical({k: v for k, v in form.items() if k not in ("digest", "signature")})).hexdigest()


def write_certificate(form: Form, path: Path) -> None:
    """Store a certificate: the whole file or none."""
    write_whole(path, dump_certificate(form))


def dump_certificate(form: Form) -> str:
    """The one text of a certificate."""
    return json.dumps(form, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def read_certificate(text: bytes) -> Form:
    """The form a file holds. That its parts are right is for `verify` to say; that it is one of ours is said here."""
    try:
        form = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError):
        raise _not_ours() from None
    if not isinstance(form, dict) or form.get("format") != FORMAT:
        raise _not_ours()
    return form


def _not_ours() -> InvalidCertificate:
    return InvalidCertificate("reading a certificate", f"it is not a file of {FORMAT}", "Export one from a ledger")
