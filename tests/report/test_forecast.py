"""What a step is said to cost is what it charges, and saying it charges nothing."""

from pathlib import Path

from report_parts import write

from discreet.campaign.state import ledger_of
from discreet.config import CampaignConfig
from discreet.recipes.opening import create
from discreet.report.forecast import claims_of, forecast_of
from discreet.report.report_data import meters_of


def read(campaign):
    with ledger_of(campaign.store) as ledger:
        claims = claims_of(campaign, ledger.terms)
        spent = {one.name: one.spent for one in meters_of(ledger, claims)}
        return forecast_of(campaign, claims), spent, len(ledger)


def answered(campaign):
    campaign.tell({one.record: ("healthy", "ill")[place % 2] for place, one in enumerate(campaign.open())})


def test_every_step_charges_what_was_said(tmp_path):
    campaign = create(CampaignConfig.read(Path(write(tmp_path))))
    moved = 0
    for phase in range(2):
        for part in ("ask", "train"):
            said, before, paid = read(campaign)
            assert read(campaign)[2] == paid, "looking charges nothing"
            assert (said.phase, said.refused) == (phase, "")
            assert {one.name: one.now for one in said.paths} == before
            if part == "ask":
                campaign.due()
            else:
                answered(campaign)
                campaign.train()
            _, after, charged = read(campaign)
            assert {one.name: one.after(part) for one in said.paths} == after
            assert said.free(part) == (charged == paid)
            moved += after != before
    assert moved == 3  # two trainings and a query; the first records are drawn uniformly at random
    assert read(campaign)[0] is None
