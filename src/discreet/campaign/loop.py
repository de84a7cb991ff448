"""The loop with an oracle: ask, hand over, collect, tell, train, until it is done or people are waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discreet.campaign.answers import INTERNAL
from discreet.campaign.campaign import Campaign
from discreet.campaign.state import CampaignState
from discreet.records import PROGRAM, Answer, Question, Shown
from discreet.roles import Oracle


@dataclass(frozen=True, kw_only=True)
class Ran:
    """Where a run ended. ``waiting``: for answers to so many questions. Audience: owner."""

    state: CampaignState
    waiting: int

    @property
    def done(self) -> bool:
        """Whether the campaign is over."""
        return self.state.step == "done"


def run(campaign: Campaign, oracle: Oracle, *, partial: bool = False) -> Ran:
    """Go on as far as the oracle's answers go. Call it again when there are more.

    ``partial``: train although questions are open that nobody answers now; refused where selection is hidden.
    """
    if partial:
        campaign.questions.check_partial()
    if not getattr(oracle, "by_name", False):
        campaign.questions.check_lists()
    while True:
        if campaign.state.step == "done":
            return Ran(state=campaign.state, waiting=0)
        check_oracle(campaign, oracle)
        questions = campaign.due()
        if questions:
            campaign.show(audience_of(oracle, questions))
            oracle.ask(questions)
        something_told = _tell(campaign, oracle)
        now = campaign.state
        left = [question for question in campaign.open() if question.phase == now.phase]
        if left and something_told:  # an oracle may have more to say
            continue
        if left and not partial:
            return Ran(state=now, waiting=len(left))
        campaign.train(partial=partial)


def check_oracle(campaign: Campaign, oracle: Oracle) -> None:
    """Let an oracle that can (``check``) refuse a query before it is charged: a server that is down, a folder that
    cannot be written to. ``shows_everybody``: all who answer see every question.
    """
    if campaign.state.step != "ask":
        return
    check = getattr(oracle, "check", None)
    if check is not None:
        check()
    if getattr(oracle, "shows_everybody", False):
        campaign.questions.check_room()


def audience_of(oracle: Oracle, questions: Sequence[Question]) -> list[Shown]:
    """Whom an oracle will show questions to: as it says itself (``shown_to``), or else the program that it is."""
    says = getattr(oracle, "shown_to", None)
    if says is not None:
        return list(says(questions))
    return [Shown(question_id=question.id, audience=type(oracle).__name__, kind=PROGRAM) for question in questions]


class InternalOracle:
    """An oracle of recipes that answer themselves: what it is asked is charged, drawn and told at once."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign

    def shown_to(self, questions: Sequence[Question]) -> list[Shown]:
        """Teachers, which are models."""
        return [Shown(question_id=question.id, audience=INTERNAL, kind=PROGRAM) for question in questions]

    def ask(self, questions: Sequence[Question]) -> None:
        """Those of the phase, all of them."""
        self._campaign.answer()

    def collect(self) -> list[Answer]:
        """Nothing is left to tell."""
        return []


def _tell(campaign: Campaign, oracle: Oracle) -> bool:
    """Whether there was something to tell."""
    answers = list(oracle.collect())
    if not answers:
        return False
    result = campaign.tell(answers)
    return bool(result.new or result.corrected)
