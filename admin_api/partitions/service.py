"""Showing partitions, and electing leaders by hand."""

from __future__ import annotations

from admin_api.http.conditions import Precondition
from admin_api.http.models import LastChange, last_change
from admin_api.http.problems import ProblemError
from admin_api.partitions.models import (
    FollowerView,
    PartitionView,
)
from admin_api.topics.service import find_topic
from controller.face.cluster import Engine, KnownCluster
from springtide.contract.lag_report import PartitionLag
from springtide.contract.partition_state import NO_EPOCH, NO_LEADER, LeaderRecovery, PartitionState


def find_partition(view: KnownCluster, cluster: str, topic: str, number: int) -> PartitionState:
    state = view.image.partitions.get((find_topic(view, cluster, topic).topic_id, number))
    if state is None:
        raise ProblemError("partition_not_found", f"topic {topic!r} has no partition {number}")
    return state


def decided_partition(
    engine: Engine, cluster: str, topic: str, number: int, condition: Precondition
) -> PartitionState:
    """Return the partition as it is decided now; raise precondition_failed unless it is the one that the
    change was decided on."""
    view = engine.cluster(cluster)
    shown = find_partition(view, cluster, topic, number)
    decided = view.decided.partitions.get((shown.topic_id, number))
    condition.check(
        None if decided is None else version_of(decided), what=f"partition {number} of topic {topic!r}"
    )
    return decided or shown


def version_of(state: PartitionState) -> str:
    """Return the partition's version, which is never that of a partition of an earlier topic of the same
    name."""
    return f"{state.topic_id}-{state.partition_epoch}"


def show_partition(view: KnownCluster, state: PartitionState) -> PartitionView:
    key = (state.topic_id, state.partition)
    change = view.last_change_of_partition(key)
    why = view.explain(key)
    return partition_view(state, lag=view.lag(key), why=why, last_change=last_change(change))


def partition_view(
    state: PartitionState,
    *,
    lag: PartitionLag | None,
    why: str | None,
    last_change: LastChange | None,
) -> PartitionView:
    # A report under an earlier leadership describes another leader's log.
    if lag is not None and lag.leader_epoch != state.leader_epoch:
        lag = None
    return PartitionView.of(
        state,
        state=state_word(state),
        leader=None if state.leader == NO_LEADER else state.leader,
        last_known_leader=None if state.last_known_leader == NO_LEADER else state.last_known_leader,
        unclean_leader_epoch=None if state.unclean_leader_epoch == NO_EPOCH else state.unclean_leader_epoch,
        log_start_offset=None if lag is None else lag.log_start_offset,
        log_end_offset=None if lag is None else lag.log_end_offset,
        high_watermark=None if lag is None else lag.high_watermark,
        size_bytes=None if lag is None else lag.size_bytes,
        followers=_followers(state, lag),
        why=why,
        last_change=last_change,
    )


def state_word(state: PartitionState) -> str:
    """Return the worst state that applies to the partition."""
    if state.leader == NO_LEADER:
        return "leaderless"
    if state.recovery is LeaderRecovery.RECOVERING:
        return "recovering"
    if len(state.isr) < state.min_insync_replicas:
        return "under_min_isr"
    if len(state.isr) < state.replication_factor:
        return "under_replicated"
    if state.leader in state.new_replicas:
        return "creating"
    return "online"


def _followers(state: PartitionState, lag: PartitionLag | None) -> list[FollowerView]:
    return [
        FollowerView(
            broker_id=follower.broker_id,
            in_sync=follower.broker_id in state.isr,
            log_end_offset=None if follower.log_end_offset < 0 else follower.log_end_offset,
            lag_records=follower.lag_records,
            lag_ms=follower.lag_ms,
        )
        for follower in (() if lag is None else lag.followers)
    ]
