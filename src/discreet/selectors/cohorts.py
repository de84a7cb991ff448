"""From a selection to the cohorts of a plan, whose rates its records then train with.

Where a plan has individual rates, a record that was asked from below the threshold enters the cohort of those who lost
nothing forward, and one from above the other. Audience: owner, as `Selection.above` is; which cohort a record is in
must not leave.
"""

from __future__ import annotations

from discreet.errors import BadInput
from discreet.privacy.plan import Cohort, Plan
from discreet.records import Selection


def into_cohorts(plan: Plan, query: int, selection: Selection) -> dict[str, tuple[str, ...]]:
    """Ids by the label of the cohort they enter, for query number ``query`` (1..T)."""
    mine = [cohort for cohort in plan.cohorts if cohort.phase == query]
    if type(query) is not int or query < 1 or not mine:
        raise BadInput(f"the cohorts of query {query}", f"the plan has {len(plan.phases) - 1} queries", "Count from 1")
    parted = any(cohort.part for cohort in mine)
    if parted and selection.above is None:
        raise BadInput(
            f"individual rates for a selection by {selection.mechanism}",
            "nothing says who was asked from above a threshold",
            "Select by threshold response, or plan without individual rates",
        )
    return {cohort.label: tuple(one for one in selection.ids if _enters(cohort, one, selection)) for cohort in mine}


def _enters(cohort: Cohort, one: str, selection: Selection) -> bool:
    return cohort.part is None or (one in (selection.above or ())) == (cohort.part == "high")
