"""The records that an unclean election would lose: each replica's log against each other's
(docs/replication.md 3.5, unclean election).

Only an operator, or an operator's tool, decides by such a preview. Only what a replica's registered
incarnation has said of its log since the partition lost its leader counts: a broker that came back may hold
less than its incarnation before. What an unreachable replica holds can't be known; what the last leader
reported before it went is shown as a bound from below.

Two logs are the same up to where the latest leader epoch that both have ends in one of them (KIP-101); what
either holds beyond that, the other lacks, even at the same offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from controller.core.image import ClusterImage
from springtide.contract.epochs import BrokerEpoch, PartitionEpoch
from springtide.contract.lag_report import LOG_EPOCHS_MAX, PartitionLag, ReplicaLogEnd
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState

SEALS_MIN: Final = 2
"""Members with a seal, for an election by it: one disk alone may have gone back."""


class HeldBy(msgspec.Struct, frozen=True, kw_only=True):
    """Records that a replica holds and the candidate lacks: [first_offset, next_offset). committed: how many
    of them lie below the highest high watermark that was told: those were acknowledged with acks=all.
    is_exact: False when the candidate's and this replica's histories are too long to find where they part."""

    broker_id: int
    first_offset: int
    next_offset: int
    committed: int
    is_exact: bool = True

    @property
    def records(self) -> int:
        return self.next_offset - self.first_offset


class CandidateLoss(msgspec.Struct, frozen=True, kw_only=True):
    """The loss if one replica is elected. log: None if the replica has not reported it. may_lead: live and
    not shutting down.

    held: what each other replica that told has beyond it; without those that have nothing. lost_records: the
        longest of these, and of what the last leader reported; None: its log is not known. lost_committed:
        of them, those known to be acknowledged with acks=all.
    """

    broker_id: int
    may_lead: bool
    log: ReplicaLogEnd | None
    held: tuple[HeldBy, ...] = ()
    lost_records: int | None = None
    lost_committed: int | None = None


class LossPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A partition without a leader, and what each choice would lose.

    unheard: replicas that have not told how far their logs go: they may hold more than is counted here.
    last_leader, last_log_end_offset, last_high_watermark: by the last report of the leader before; -1: none
        known, as after a controller's failover. known_committed: every offset below it is known to be
        committed, by all that controllers have heard and written down. candidates: in assignment order.
    """

    partition_epoch: PartitionEpoch
    unheard: tuple[int, ...]
    last_leader: int
    last_log_end_offset: int
    last_high_watermark: int
    known_committed: int
    candidates: tuple[CandidateLoss, ...]

    def candidate(self, broker_id: int) -> CandidateLoss | None:
        return next((c for c in self.candidates if c.broker_id == broker_id), None)

    @property
    def least(self) -> CandidateLoss | None:
        """Return the candidate that may lead and loses least; None if no candidate's log is known. Records
        known to be acknowledged count first, then the latest leader epoch, whose leader was elected with all
        that was committed, then all records; among equals it is the first in assignment order."""
        known = [(c, c.log) for c in self.candidates if c.may_lead and c.log is not None]
        least = min(
            known,
            key=lambda one: (one[0].lost_committed or 0, -one[1].latest_epoch, one[0].lost_records or 0),
            default=None,
        )
        return None if least is None else least[0]


def sealed_candidate(
    image: ClusterImage, state: PartitionState, told: Mapping[int, ReplicaLogEnd]
) -> int | None:
    """Return the replica that provably holds every committed record of a partition that has lost all its
    seats; None if there is none (3.9, after total power loss).

    Nothing was committed since the ISR last had the minimum, so each member of last_known_elr held all of it
    when its seat was taken, and one whose log is sealed under the broker's chain epoch still does. A disk
    that was put back to an earlier state of the same incarnation has an old seal, so one seal is no proof:
    two members must have one, and no replica may have told of more than the candidate holds.
    """
    if state.leader != NO_LEADER or state.isr or state.elr:
        return None
    sealed = [
        broker_id
        for broker_id in state.last_known_elr
        if broker_id in told
        and image.is_eligible(broker_id)
        and told[broker_id].seal_chain_epoch == image.brokers[broker_id].chain_epoch >= 0
    ]
    if len(sealed) < SEALS_MIN:
        return None
    return next((broker_id for broker_id in sealed if not _is_exceeded(broker_id, told)), None)


def _is_exceeded(broker_id: int, told: Mapping[int, ReplicaLogEnd]) -> bool:
    log = told[broker_id]
    return any(
        other.high_watermark > log.log_end_offset or _held_beyond(log, other_id, other, 0).records > 0
        for other_id, other in told.items()
        if other_id != broker_id
    )


class _Told(NamedTuple):
    broker_epoch: BrokerEpoch
    log_end: ReplicaLogEnd


class LogEnds:
    """The log ends that replicas of leaderless partitions told. Bounded: forgotten once there is a leader."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[PartitionKey, dict[int, _Told]] = {}

    def note(
        self, image: ClusterImage, broker_id: int, broker_epoch: BrokerEpoch, log_end: ReplicaLogEnd
    ) -> bool:
        """Take in a replica's report. Return False for a late copy, about a state that has passed or from a
        broker that is not a replica."""
        key = (log_end.topic_id, log_end.partition)
        state = image.partitions.get(key)
        if (
            state is None
            or key not in image.leaderless
            or broker_id not in state.replicas
            or log_end.leader_epoch != state.leader_epoch
            or len(log_end.epochs) > LOG_EPOCHS_MAX
        ):
            return False
        if key not in self._told and len(self._told) >= len(image.leaderless):
            self._told = {known: told for known, told in self._told.items() if known in image.leaderless}
        self._told.setdefault(key, {})[broker_id] = _Told(broker_epoch, log_end)
        return True

    @property
    def keys(self) -> tuple[PartitionKey, ...]:
        return tuple(self._told)

    def of(self, image: ClusterImage, state: PartitionState) -> dict[int, ReplicaLogEnd]:
        """Return log ends by broker, in assignment order: those told under this very state, by the registered
        incarnation."""
        told = self._told.get((state.topic_id, state.partition), {})
        found: dict[int, ReplicaLogEnd] = {}
        for broker_id in state.replicas:
            one, broker = told.get(broker_id), image.brokers.get(broker_id)
            if (
                one is not None
                and broker is not None
                and one.broker_epoch == broker.broker_epoch
                and one.log_end.leader_epoch == state.leader_epoch
            ):
                found[broker_id] = one.log_end
        return found


def preview_loss(
    image: ClusterImage,
    state: PartitionState,
    told: Mapping[int, ReplicaLogEnd],
    last: PartitionLag | None,
    *,
    floor: int = 0,
) -> LossPreview | None:
    """Return what an election would lose, or None while the partition has a leader. last: the latest report
    of a leader of this partition. floor: known to be committed by controllers (3.8, how a broker returns)."""
    if state.leader != NO_LEADER:
        return None
    if last is not None and last.leader_epoch >= state.leader_epoch:
        last = None
    high_watermark = max((floor, *(end.high_watermark for end in told.values())))
    if last is not None:
        high_watermark = max(high_watermark, last.high_watermark)
    candidates = tuple(
        _candidate(image, broker_id, told, state=state, last=last, high_watermark=high_watermark)
        for broker_id in state.replicas
    )
    return LossPreview(
        partition_epoch=state.partition_epoch,
        unheard=tuple(b for b in state.replicas if b not in told),
        last_leader=state.last_known_leader,
        last_log_end_offset=-1 if last is None else last.log_end_offset,
        last_high_watermark=-1 if last is None else last.high_watermark,
        known_committed=high_watermark,
        candidates=candidates,
    )


def _candidate(
    image: ClusterImage,
    broker_id: int,
    told: Mapping[int, ReplicaLogEnd],
    *,
    state: PartitionState,
    last: PartitionLag | None,
    high_watermark: int,
) -> CandidateLoss:
    may_lead, log = image.is_eligible(broker_id), told.get(broker_id)
    if log is None:
        return CandidateLoss(broker_id=broker_id, may_lead=may_lead, log=None)
    held = tuple(
        found
        for other_id, other in told.items()
        if other_id != broker_id and (found := _held_beyond(log, other_id, other, high_watermark)).records > 0
    )
    lost = max((one.records for one in held), default=0)
    committed = max((one.committed for one in held), default=0)
    if last is not None and state.last_known_leader not in told:
        # Its own log may be at the same offsets and yet another one: this is the least that is missing.
        lost = max(lost, last.log_end_offset - log.log_end_offset)
    committed = max(committed, high_watermark - log.log_end_offset)
    return CandidateLoss(
        broker_id=broker_id,
        may_lead=may_lead,
        log=log,
        held=held,
        lost_records=max(lost, committed),
        lost_committed=committed,
    )


def _held_beyond(log: ReplicaLogEnd, other_id: int, other: ReplicaLogEnd, high_watermark: int) -> HeldBy:
    """Return what the other replica has beyond the candidate's log. Nothing of it is committed where the
    candidate has records of a later leader epoch: the leader of that epoch was elected with every committed
    record (I1, leader completeness)."""
    parting, is_exact = parting_offset(log, other)
    first = max(parting, other.log_start_offset)
    return HeldBy(
        broker_id=other_id,
        first_offset=first,
        next_offset=other.log_end_offset,
        committed=0
        if log.latest_epoch > other.latest_epoch
        else max(0, min(high_watermark, other.log_end_offset) - first),
        is_exact=is_exact,
    )


def parting_offset(log: ReplicaLogEnd, other: ReplicaLogEnd) -> tuple[int, bool]:
    """The first offset that the two do not have in common, and whether that is exact. Histories that share
    no epoch share no record, unless one is too long to be told whole: then the offset may be too low."""
    ends = _epoch_ends(log.epochs, log.log_end_offset)
    for leader_epoch, end_offset in sorted(
        _epoch_ends(other.epochs, other.log_end_offset).items(), reverse=True
    ):
        if leader_epoch in ends:
            return min(ends[leader_epoch], end_offset), True
    is_whole = max(len(log.epochs), len(other.epochs)) < LOG_EPOCHS_MAX
    return max(log.log_start_offset, other.log_start_offset), is_whole


def _epoch_ends(epochs: Sequence[tuple[int, int]], log_end_offset: int) -> dict[int, int]:
    """Return where each epoch ends, exclusive: the next one's start, or the log's end."""
    next_starts = [start for _, start in epochs[1:]]
    return dict(zip((epoch for epoch, _ in epochs), [*next_starts, log_end_offset], strict=False))
