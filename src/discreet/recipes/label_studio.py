"""A campaign and its Label Studio server: what is pushed there, what comes back, what must be deleted.

Guarantee: the server is asked first, so that one that is down or was changed costs nothing; then the next query is
charged and drawn, if it is time for it; then it is recorded who can see the questions; only then are they pushed. A
push or pull that dies in between is simply done again. One process at a time pushes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from discreet.campaign import Campaign
from discreet.config import CampaignFile
from discreet.oracles.label_studio import (
    Client,
    LabelStudioOracle,
    Pushed,
    Read,
    Server,
    kind_of,
    one_voice_each,
    read_token,
    rendered,
)
from discreet.storage import TellResult

_PUSHING = "label-studio"
NOTHING = Read(answers=(), questions=frozenset(), refused=(), strange=0, doubled=0, gold=0, drafts=0)
"""Where there is no project yet."""


@dataclass(frozen=True, kw_only=True)
class PushedQuestions:
    """What a push did. Audience: owner.

    again     questions that had been pushed before and whose tasks were gone; they are among the new ones
    removed   tasks of withdrawn records that were deleted
    """

    pushed: Pushed
    again: tuple[str, ...]
    removed: int


@dataclass(frozen=True, kw_only=True)
class PulledAnswers:
    """What a pull brought. ``skips``: of all answers that stand there. Audience: owner."""

    told: TellResult
    skips: int
    read: Read = field(repr=False)


def server_of(config: CampaignFile) -> Server:
    """The server that a campaign's file names, with the token that opens it."""
    table = config.oracle
    if table.name != "label-studio" or table.url is None:
        raise config.error("oracle.name", f"it is {table.name}", "Write name = 'label-studio', and url")
    with config.pointing("oracle.token_file" if table.token_file else "oracle"):
        token = read_token(config.resolve(table.token_file) if table.token_file else None)
    with config.pointing("oracle.url"):
        return Server(Client(table.url, token, plain_http=table.plain_http))


def oracle_of(config: CampaignFile, campaign: Campaign) -> LabelStudioOracle:
    """Who answers, at that server. The server is not asked anything yet."""
    table = config.oracle
    with config.pointing("task.classes"):
        return LabelStudioOracle(
            server_of(config),
            campaign=campaign.store.id,
            title=campaign.name,
            kind=kind_of(campaign.pool),
            render=lambda records: rendered(campaign.pool, records),
            classes=config.task.classes,
            multilabel=config.task.kind == "multilabel",
            project=table.project,
            per_question=table.per_question,
            known=campaign.store.questions(),
        )


def push(campaign: Campaign, oracle: LabelStudioOracle) -> PushedQuestions:
    """Give every open question a task; the next query is asked first, if it is time for it."""
    oracle.check()
    campaign.questions.check_lists()  # everybody there can take every task
    campaign.questions.check_room()
    with campaign.store.exclusive(_PUSHING, wait=60.0):
        removed = oracle.remove(campaign.withdrawn_questions())
        questions = campaign.due()
        before = {one.question_id for one in campaign.exposures(oracle.audience)}
        campaign.show(oracle.shown_to(questions))
        pushed = oracle.push(questions)
    again = tuple(name for name in pushed.new if name in before)
    return PushedQuestions(pushed=pushed, again=again, removed=removed)


def pull(campaign: Campaign, oracle: LabelStudioOracle) -> PulledAnswers:
    """Tell what people submitted. People who got an account since the push are recorded as those who can see it.

    What somebody said whose account is gone, or is not listed, is not told again under another name: one voice each.
    """
    read = oracle.look() or NOTHING  # all of it, each time: whatever fails below, the next pull has it again
    answers = one_voice_each(read.answers, campaign.store.answers())
    seen = [question for question in campaign.store.questions() if question.id in read.questions]
    if seen:
        campaign.store.show(oracle.shown_to(seen))  # no cap: what is there is open to them already
    result = campaign.tell(answers)
    return PulledAnswers(told=result, skips=sum(answer.value is None for answer in answers), read=read)


def remove(campaign: Campaign, oracle: LabelStudioOracle, *, everything: bool = False) -> int:
    """Delete the tasks of withdrawn records, or all of the campaign's; how many there were."""
    oracle.check()
    with campaign.store.exclusive(_PUSHING, wait=60.0):
        return oracle.remove_all() if everything else oracle.remove(campaign.withdrawn_questions())
