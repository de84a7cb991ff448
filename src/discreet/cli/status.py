"""`discreet status`: where a campaign stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show, where
from discreet.cli.train import accuracy

if TYPE_CHECKING:
    from discreet.campaign import Campaign
    from discreet.campaign.status import Status


def status_command(
    config: ConfigArgument,
    audience: Annotated[
        str, typer.Option(help="world: what is public or paid for. owner: the answers, too.")
    ] = "world",
    as_json: JsonOption = False,
) -> None:
    """Phase, labels, budget, and how good the model is, as far as that was paid for.

    Example: discreet status scans.toml --audience owner
    """
    from discreet.campaign.status import status_of

    with opened(config, read_only=True) as campaign:
        found = status_of(campaign, audience)  # type: ignore[arg-type]
        log = _log(campaign) if found.audience == "owner" else None
    form, lines = found.to_json(), _lines(found)
    if log is not None:
        form["log"] = log
        lines.append("log       " + ", ".join(f"{count} {name}" for name, count in log.items() if count is not None))
    lines.append(where(campaign) if audience == "owner" or found.releases is None else found.releases.next)
    show(form, "\n".join(lines), as_json=as_json)


def _log(campaign: Campaign) -> dict[str, int | None] | None:
    """Of a crowd campaign: how many rows its log had, and how many of them were broken. Audience: owner."""
    import json

    from discreet.recipes.crowd import Crowd
    from discreet.recipes.crowd_opening import FIGURES

    if not isinstance(campaign.recipe, Crowd):
        return None
    found: dict[str, int | None] = json.loads(campaign.store.file(FIGURES, 0).read_bytes())
    return found


def _lines(found: Status) -> list[str]:
    lines = [
        f"{found.name}, for the {found.audience}",
        f"labels    {found.asked} asked of {found.planned} planned",
        f"budget    epsilon {found.epsilon} at delta {found.delta}; the path that spent most: {found.spent:.4g}",
    ]
    from discreet.campaign.status import replanned_words

    if found.releases is not None:
        dates = ", ".join(f"phase {phase} on {day.isoformat()}" for phase, day in enumerate(found.releases.dates))
        lines.append(f"releases  {dates or 'no dates are planned'}; {found.releases.time}")
    lines += [replanned_words(one) for one in found.replanned]
    if found.imported is not None:
        lines.append(f"imported  labels of phase 0; their records were chosen {found.imported}, as declared")
    if found.answers is not None:
        lines.append("answers   " + ", ".join(f"{count} {name}" for name, count in found.answers.items()))
    lines += [f"phase {phase}{accuracy(one)}" for phase, one in found.evaluations.items()]
    if not found.private:
        lines.append("NOT PRIVATE: records were chosen by looking.")
    if found.simulation:
        lines.append("SIMULATION: its noise was seeded; it proves nothing about people.")
    return lines
