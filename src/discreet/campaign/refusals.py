"""What a campaign refuses before it goes on: another plan than it has in hand, records that changed, open questions.

Guarantee: nothing here charges or draws; a refusal leaves the campaign as it was.
"""

from __future__ import annotations

from collections.abc import Iterable

from discreet.campaign.recipe import Answering
from discreet.campaign.replanning import replannings
from discreet.campaign.view import CampaignView
from discreet.campaign.withdrawing import manifest_key, nulled
from discreet.errors import NotNow, PoolChanged
from discreet.pools import VerifiedPool, macs_at
from discreet.storage import WithdrawnRecord


class RefusingCampaign(CampaignView):
    """A campaign that can tell whether it may go on."""

    def _check_answered(self, phase: int, *, partial: bool) -> None:
        if isinstance(self.recipe, Answering) and not self.answered:
            raise NotNow(
                f"training phase {phase}",
                "the house did not answer its questions yet, and nobody else does",
                "Let it answer first (discreet ask, or answer())",
            )
        mine = [question for question in self.open() if question.phase == phase]
        if mine and not partial:
            raise NotNow(
                f"training phase {phase}",
                "some of its questions are open",  # how many is the owner's: see status
                "Tell their answers (a skip is one), or train with partial=True (--partial)",
            )

    def _check_can_withdraw(self) -> None:
        """Only records of a private pool can be taken back."""
        if self.recipe.released:
            raise NotNow(
                f"withdrawing from {self.name}",
                "its texts were released, which cannot be taken back, and nothing reads the log any more",
                "Remove the rows from your log: the next campaign will not count them",
            )
        if isinstance(self.recipe, Answering):
            raise NotNow(
                f"withdrawing from {self.name}",
                "its questions are about public records; private ones are in votes that were counted at its creation",
                "Take their records out of [private] and create a campaign of another name; what was paid stays paid",
            )

    def _follow(self) -> list[WithdrawnRecord]:
        """The pool as other processes left it: with nulls for what was withdrawn meanwhile, which is returned."""
        gone = self.store.withdrawn()
        erased = {one.id for one in gone if one.erased and one.place < len(self.pool)}
        if erased != self.pool.withdrawn:
            self.pool = nulled(self.store, self.pool, most=len(self.pool))
        return gone

    def _check_plan(self) -> None:
        """A process that has the old plan in hand must not go on by it."""
        if len(replannings(self.store.transitions())) != self._replanned:
            raise NotNow(f"going on with {self.name}", "another process re-planned it", "Load the campaign again")

    def _check_whole(self) -> None:
        """A query that is begun without the newest records could not be gone on with by a process that has them."""
        enrolled = sum(cohort.size for cohort in self.store.pool_cohorts())
        if enrolled != len(self.pool):
            raise PoolChanged(
                f"asking in {self.name}",
                f"{enrolled} records are enrolled, and this process has {len(self.pool)}",
                "Load the campaign again",
            )

    def _verified_pool(self) -> VerifiedPool:
        """The pool, each record compared with its enrolled code when it is read."""
        marked = [one.id for one in self.store.withdrawn() if not one.erased]  # gone from the file already, perhaps
        return VerifiedPool(self.pool, manifest_key(self.store), self.store.macs, besides=marked)

    def _check_verified(self, pool: VerifiedPool) -> None:
        """Refuse to charge for a query if any enrolled record changed, whether it was asked before or not."""
        pool.check(name=self.name, progress=lambda done, whole: self.watch("checking", done, whole))

    def _check_records(self, ids: Iterable[str]) -> None:
        """Refuse records that are not what they were when they were enrolled."""
        wanted = [one for one in ids if one not in self.pool.withdrawn]
        key = manifest_key(self.store)
        stored = self.store.macs_of(wanted)
        now = macs_at(self.pool, key, self.pool.places(wanted))
        if any(stored.get(name) != code for name, code in now):
            raise PoolChanged(  # how many are used, or changed, is the owner's
                f"using records of {self.name}",
                "some of them are not what they were when they were enrolled",
                "Restore them; discreet pool check looks at all of them",
            )
