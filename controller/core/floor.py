"""A check of candidates' logs against what is known to be committed, and against each other: a tripwire, not
a proof (3.8, how a broker returns).

A member of the ELR holds every committed record by the rules, and is elected for that (3.2, election from the
ELR). If its log is still shorter than a high watermark that a controller has heard of, its disk has lost
something that nothing else showed. So where one has been heard of, and where several members live, one of
them is elected only when its present incarnation has told, under the present state, how far its log goes, and
that is far enough. A member that falls short loses its seat in a record.

Of several live members each has to tell, and the one that goes farthest leads: what one of them has and
another lacks may be committed as well. One that is live and does not tell is waited for until it is fenced.
What one told counts after its death, too, until its broker registers again: one with less is elected then by
an operator alone, who sees how much less.

High watermarks come from leaders' reports, from replicas that tell of their logs, and from the rows: what
was heard is written down with each state that has no leader or an ELR, so a controller that takes over begins
with it. An old one counts as well: what was committed stays so, until an unclean election.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.image import ClusterImage
from controller.core.loss import LogEnds
from springtide.contract.lag_report import PartitionLag, ReplicaLogEnd
from springtide.contract.partition_state import PartitionKey, PartitionState


class Floors:
    """The highest high watermark heard of each partition, in this controller's life or by the rows."""

    __slots__ = ("_highest", "_log_ends")

    def __init__(self, log_ends: LogEnds) -> None:
        self._log_ends = log_ends
        #: With the unclean election under which it was heard: what came before another does not count.
        self._highest: dict[PartitionKey, tuple[int, int]] = {}

    def note_lag(self, state: PartitionState, lag: PartitionLag) -> None:
        """Note the lag that the leader of this state reports."""
        self._note(state, lag.high_watermark)

    def note_log_end(self, state: PartitionState, log_end: ReplicaLogEnd) -> None:
        """Note the log end that a replica reports. A report counts for nothing if the replica has not heard
        of an unclean election since."""
        newest = log_end.latest_epoch
        if newest >= state.unclean_leader_epoch:
            self._note(state, log_end.high_watermark)

    def _note(self, state: PartitionState, high_watermark: int) -> None:
        if high_watermark > self.of(state):
            key = (state.topic_id, state.partition)
            self._highest[key] = (state.unclean_leader_epoch, high_watermark)

    def of(self, state: PartitionState) -> int:
        """0: nothing is known to be committed."""
        unclean_leader_epoch, high_watermark = self._highest.get((state.topic_id, state.partition), (-1, 0))
        if unclean_leader_epoch != state.unclean_leader_epoch:
            return state.high_watermark_floor
        return max(high_watermark, state.high_watermark_floor)

    def unproven(
        self, image: ClusterImage, state: PartitionState, *, out: int | None = None
    ) -> tuple[int, ...]:
        """Members of the ELR that may not be elected: too short, shorter than another that told, or all while
        a live one has not told; none where there is nothing to compare a log with. out: a broker that loses
        its seat."""
        floor = self.of(state) if state.elr else 0
        told = self._log_ends.of(image, state) if state.elr else {}
        if self._is_awaited(image, state, told, out):
            return state.elr
        members = [b for b in state.elr if b != out and b in told]
        if not floor and not members:
            return ()
        whole = [b for b in members if told[b].log_end_offset >= floor]
        longest = max((_reach(told[b]) for b in whole), default=None)
        return tuple(b for b in state.elr if b not in whole or _reach(told[b]) != longest)

    def awaits(self, image: ClusterImage, state: PartitionState) -> bool:
        """Return whether a live member of the ELR has yet to tell, and may lead then."""
        return bool(state.elr) and self._is_awaited(image, state, self._log_ends.of(image, state), None)

    def _is_awaited(
        self,
        image: ClusterImage,
        state: PartitionState,
        told: Mapping[int, ReplicaLogEnd],
        out: int | None,
    ) -> bool:
        live = [b for b in state.elr if b != out and image.is_eligible(b)]
        has_measure = len(live) > 1 or self.of(state) > 0 or any(b in told for b in state.elr if b != out)
        return has_measure and any(b not in told for b in live)

    def short(self, image: ClusterImage, state: PartitionState) -> dict[int, int]:
        """Return the members of the ELR whose logs end too early, with where they end."""
        floor = self.of(state) if state.elr else 0
        told = self._log_ends.of(image, state) if floor else {}
        return {b: told[b].log_end_offset for b in state.elr if b in told and told[b].log_end_offset < floor}

    def forget(self, image: ClusterImage) -> None:
        """Forget partitions that are gone."""
        self._highest = {key: known for key, known in self._highest.items() if key in image.partitions}


def _reach(log_end: ReplicaLogEnd) -> tuple[int, int]:
    """Of two logs the one whose last leader epoch is later has all that was committed before it."""
    return log_end.latest_epoch, log_end.log_end_offset
