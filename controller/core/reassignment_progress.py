"""The progress of reassignments, and the reason that holds one up. A query: it decides nothing, and what it
remembers (when a replica last advanced, how fast it copied) lasts for one controller's life."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from controller.core.copying import CopyBook, CopyEstimate, throttled_rate
from controller.core.image import ClusterImage
from springtide.contract.epochs import PartitionEpoch
from springtide.contract.lag_report import FollowerLag, PartitionLag
from springtide.contract.partition_state import NO_LEADER, LeaderRecovery, PartitionKey, PartitionState
from springtide.contract.throttles import is_learner


class BlockedReason(StrEnum):
    """Why a reassignment does not get on by itself, the root first. The names are stable."""

    #: There is no leader to copy from, nor to propose the targets for the ISR.
    LEADERLESS = "leaderless"
    #: The leader was chosen uncleanly and has not confirmed its log yet: no replica joins its ISR.
    LEADER_RECOVERING = "leader_recovering"
    #: A target is down, or shutting down.
    TARGET_OFFLINE = "target_offline"
    #: All targets are in sync, the leader is to go, and none of them may lead.
    NO_SUCCESSOR = "no_successor"
    #: A target has not advanced for `reassignment_stall_ms` and lacks records.
    NO_PROGRESS = "no_progress"
    #: A learner may copy less than producers write: it falls behind, and would for ever.
    THROTTLED_BELOW_PRODUCE_RATE = "throttled_below_produce_rate"


class TargetProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One target. is_learner: it had no replica before. log_end_offset, lag_records: by its leader's last
    report in this leader epoch; None: not heard of yet, or it leads.

    Of a learner that is not in sync, besides: remaining_bytes, copied_bytes: of the leader's log as it is
    now. rate: bytes per second copied lately. eta_ms_p50, eta_ms_p90: see copying.py; None: not to be told.
    throttled_rate: the lowest rate that bounds it; None: unthrottled.
    """

    broker_id: int
    is_learner: bool
    in_sync: bool
    log_end_offset: int | None = None
    lag_records: int | None = None
    copied_bytes: int | None = None
    remaining_bytes: int | None = None
    rate: int | None = None
    eta_ms_p50: int | None = None
    eta_ms_p90: int | None = None
    throttled_rate: int | None = None


class ReassignmentProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One running reassignment. size_bytes: of the leader's log, which each learner copies; None: not
    reported yet. blocked: None while it gets on."""

    topic_id: str
    topic: str
    partition: int
    partition_epoch: PartitionEpoch
    original_replicas: tuple[int, ...]
    target_replicas: tuple[int, ...]
    targets: tuple[TargetProgress, ...]
    size_bytes: int | None = None
    blocked: BlockedReason | None = None
    detail: str = ""

    @property
    def remaining(self) -> int:
        """Return the number of targets that are not in sync yet."""
        return sum(not target.in_sync for target in self.targets)

    @property
    def remaining_bytes(self) -> int | None:
        """Return the bytes that all learners together lack; None if one learner's are not known."""
        return _sum(t.remaining_bytes for t in self.targets if t.is_learner and not t.in_sync)

    @property
    def copied_bytes(self) -> int | None:
        """Return the bytes that all learners together have; None if one learner's are not known."""
        return _sum(self.size_bytes if t.in_sync else t.copied_bytes for t in self.targets if t.is_learner)


class AdvanceBook:
    """The time at which each replica on its way into an ISR last advanced, as its leader reported it. copies:
    how fast the learners among them copy."""

    __slots__ = ("_since", "copies")

    def __init__(self) -> None:
        self.copies = CopyBook()
        self._since: dict[PartitionKey, dict[int, tuple[int, int]]] = {}

    def note(self, image: ClusterImage, lag: PartitionLag, now_ms: int) -> None:
        """A leader's report about a partition that is being reassigned."""
        if len(self._since) > 2 * len(image.reassigning) + 100:  # those that have ended
            self._since = {key: kept for key, kept in self._since.items() if key in image.reassigning}
            self.copies.forget_ended(image)
        known = self._since.setdefault((lag.topic_id, lag.partition), {})
        for follower in lag.followers:
            before = known.get(follower.broker_id)
            if before is None or before[0] != follower.log_end_offset or follower.lag_records == 0:
                known[follower.broker_id] = (follower.log_end_offset, now_ms)
        state = image.partitions.get((lag.topic_id, lag.partition))
        if state is not None:
            self.copies.note(image, state, lag, now_ms)

    def still_for_ms(self, key: PartitionKey, broker_id: int, now_ms: int) -> int:
        _, since_ms = self._since.get(key, {}).get(broker_id, (0, now_ms))
        return now_ms - since_ms


def reassignment_progress(
    image: ClusterImage,
    lags: Mapping[PartitionKey, PartitionLag],
    advances: AdvanceBook,
    key: PartitionKey,
    *,
    now_ms: int,
    stall_ms: int,
    behind_ms: int,
) -> ReassignmentProgress:
    """Return the progress of one partition in `image.reassigning`."""
    state = image.partitions[key]
    lag = lags.get(key)
    if lag is not None and lag.leader_epoch != state.leader_epoch:
        lag = None
    followers = {} if lag is None else {follower.broker_id: follower for follower in lag.followers}
    targets = []
    behind: list[tuple[int, int]] = []  # broker, rate
    for broker_id in state.target_replicas:
        follower = followers.get(broker_id)
        rate = throttled_rate(image, state, broker_id)
        estimate = CopyEstimate()
        if follower is not None and follower.remaining_bytes >= 0:
            estimate = advances.copies.estimate(state, follower, behind_ms=behind_ms)
        if rate is not None and estimate.is_falling_behind:
            behind.append((broker_id, rate))
        targets.append(_target(state, broker_id, lag, follower=follower, rate=rate, estimate=estimate))
    blocked = _why_blocked(image, advances, key, state, behind, now_ms=now_ms, stall_ms=stall_ms)
    reason, detail = (None, "") if blocked is None else blocked
    return ReassignmentProgress(
        topic_id=state.topic_id,
        topic=state.topic,
        partition=state.partition,
        partition_epoch=state.partition_epoch,
        original_replicas=state.original_replicas,
        target_replicas=state.target_replicas,
        targets=tuple(targets),
        size_bytes=None if lag is None else lag.size_bytes,
        blocked=reason,
        detail=detail,
    )


def behind_throttle(
    image: ClusterImage, advances: AdvanceBook, lag: PartitionLag, *, behind_ms: int
) -> dict[int, int | None]:
    """Return the rate under which each learner in a leader's current report falls behind; None for a learner
    that does not."""
    state = image.partitions[lag.topic_id, lag.partition]
    found: dict[int, int | None] = {}
    for follower in lag.followers:
        if follower.remaining_bytes >= 0 and is_learner(state, follower.broker_id):
            rate = throttled_rate(image, state, follower.broker_id)
            estimate = advances.copies.estimate(state, follower, behind_ms=behind_ms)
            found[follower.broker_id] = rate if estimate.is_falling_behind else None
    return found


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _target(
    state: PartitionState,
    broker_id: int,
    lag: PartitionLag | None,
    *,
    follower: FollowerLag | None,
    rate: int | None,
    estimate: CopyEstimate,
) -> TargetProgress:
    is_known = follower is not None and follower.log_end_offset >= 0
    remaining = None
    if follower is not None and follower.remaining_bytes >= 0 and is_learner(state, broker_id):
        remaining = follower.remaining_bytes
    return TargetProgress(
        broker_id=broker_id,
        is_learner=broker_id in state.adding_replicas,
        in_sync=broker_id in state.isr,
        log_end_offset=follower.log_end_offset if follower is not None and is_known else None,
        lag_records=follower.lag_records if follower is not None and is_known else None,
        copied_bytes=None if lag is None or remaining is None else max(0, lag.size_bytes - remaining),
        remaining_bytes=remaining,
        rate=estimate.rate,
        eta_ms_p50=estimate.eta_ms_p50,
        eta_ms_p90=estimate.eta_ms_p90,
        throttled_rate=rate,
    )


def _why_blocked(
    image: ClusterImage,
    advances: AdvanceBook,
    key: PartitionKey,
    state: PartitionState,
    behind: Sequence[tuple[int, int]],
    *,
    now_ms: int,
    stall_ms: int,
) -> tuple[BlockedReason, str] | None:
    if state.leader == NO_LEADER:
        return BlockedReason.LEADERLESS, "the partition has no leader to copy from"
    if state.recovery is LeaderRecovery.RECOVERING:
        return BlockedReason.LEADER_RECOVERING, f"broker {state.leader} has not confirmed its log yet"
    missing = [b for b in state.target_replicas if b not in state.isr]
    for broker_id in missing:
        if not image.is_eligible(broker_id):
            broker = image.brokers.get(broker_id)
            status = "not registered" if broker is None else broker.status.value
            return BlockedReason.TARGET_OFFLINE, f"broker {broker_id} is {status}"
    if not missing:
        return BlockedReason.NO_SUCCESSOR, f"none of {list(state.target_replicas)} may lead now"
    for broker_id in missing:
        still_ms = advances.still_for_ms(key, broker_id, now_ms)
        if still_ms >= stall_ms:
            return (
                BlockedReason.NO_PROGRESS,
                f"broker {broker_id} has not advanced for {still_ms // 1_000} s",
            )
    for broker_id, rate in behind:
        return (
            BlockedReason.THROTTLED_BELOW_PRODUCE_RATE,
            f"broker {broker_id} may copy {rate} bytes/s and falls behind what is produced: raise the rate",
        )
    return None
