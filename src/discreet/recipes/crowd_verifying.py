"""Is a crowd campaign's store what it says? Computed again from what is in it; the log is not read.

Guarantee: a gate that is not the one the ledger is committed to, a release that nobody paid for, released texts that
are not those that were enrolled, a question about anything else, and a file without its hash are failed checks.
"""

from __future__ import annotations

from collections.abc import Iterator

from discreet.campaign.standing import RELEASED
from discreet.campaign.withdrawing import manifest_key
from discreet.config import CrowdConfig
from discreet.errors import DiscreetError
from discreet.pools import macs
from discreet.privacy.certificate import Check
from discreet.privacy.event_forms import to_json
from discreet.privacy.ledger import Ledger
from discreet.recipes.crowd import LOG, gate_of, terms_of_gate
from discreet.recipes.crowd_opening import pool_of, released_texts
from discreet.storage import CampaignStore


def crowd_checks(store: CampaignStore, config: CrowdConfig, ledger: Ledger) -> Iterator[Check]:
    """Against a ledger that was found whole."""
    terms, event = terms_of_gate(config), gate_of(config).price()
    same = ledger.terms.lines == terms.lines and ledger.terms.budget == terms.budget
    same = same and ledger.simulation == store.simulation
    yield Check(
        name="plan",
        ok=same,
        detail="the ledger is committed to the gate of the file" if same else "the ledger is committed to another gate",
    )
    steps = [one for one in store.transitions() if one.kind == RELEASED]
    paid = [
        charge.event
        for entry in ledger.entries
        for charge in entry.charges
        if charge.who == LOG and entry.why.purpose == "release"
    ]
    ok = len(steps) <= 1 and len(paid) == 1 and paid[0] == event if steps else not paid or len(paid) == 1
    ok = ok and all(one.facts.get("event") == to_json(event) for one in steps)
    yield Check(
        name="release",
        ok=ok,
        detail="one closed batch, charged before it was drawn" if ok else "releases and charges are not one and one",
    )
    yield _texts(store)


def _texts(store: CampaignStore) -> Check:
    steps = [one for one in store.transitions() if one.kind == RELEASED]
    if not steps:
        return Check(name="texts", ok=True, detail="nothing was released yet")
    try:
        found = released_texts(store)
        codes = dict(macs(pool_of(found), manifest_key(store))) if found else {}
    except DiscreetError as error:
        return Check(name="texts", ok=False, detail=error.fact)
    ok = codes == dict(store.macs()) and len(found) == steps[0].facts.get("values")
    ok = ok and all(one.record in codes for one in store.questions())
    return Check(
        name="texts",
        ok=ok,
        detail="what is asked about is what was released" if ok else "texts or questions are not those of the release",
    )
