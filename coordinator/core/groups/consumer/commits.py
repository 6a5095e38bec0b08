"""Who may commit and fetch offsets of a `consumer` group."""

from __future__ import annotations

from uuid import UUID

from coordinator.core.groups.consumer.groups import ConsumerGroups
from coordinator.core.groups.consumer.state import ConsumerGroup, Member
from coordinator.core.groups.consumer.store import ConsumerStore
from coordinator.core.groups.requests import CommitOffsets, CommitPendingOffsets, GroupPlaces, OffsetPlace
from coordinator.core.topic_partitions import epoch_of, merged
from springtide.wire.errors import ErrorCode


def check_member_epoch(
    consumers: ConsumerGroups, group: ConsumerGroup, request: CommitOffsets | CommitPendingOffsets
) -> ErrorCode:
    """Return whether a client may commit: one that knows its epoch, or one at an earlier epoch that has had
    all of the partitions since then (KIP-1251): a commit is often under way while the epoch rises. A group
    without members takes commits of clients without an epoch.

    Versions of OffsetCommit without epochs are for members of the classic protocol: UNSUPPORTED_VERSION.
    """
    member_epoch = request.generation_id
    if member_epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if isinstance(request, CommitOffsets) and not (request.knows_epochs or member.about.classic):
        return ErrorCode.UNSUPPORTED_VERSION
    current = member.current
    if 0 <= member_epoch == current.epoch:
        return ErrorCode.NONE
    if not 0 <= member_epoch < current.epoch:
        return stale(member)
    has = merged(current.assigned, current.revoking)
    for asked in request.offsets:
        topic_id = _topic_id(consumers, asked.place)
        since = None if topic_id is None else epoch_of(has, topic_id, asked.place.partition)
        if since is None or since > member_epoch:
            return stale(member)
    return ErrorCode.NONE


def check_fetcher(store: ConsumerStore, asked: GroupPlaces) -> ErrorCode:
    """Return whether a client may fetch: one that names no member, or one that knows its committed epoch. In
    groups of another type, and without one, members do not count, as in Kafka."""
    if (asked.member_id is None and asked.member_epoch < 0) or not store.has_committed(asked.group_id):
        return ErrorCode.NONE
    member = store.committed_member(asked.group_id, asked.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if asked.member_epoch == member.current.epoch:
        return ErrorCode.NONE
    return stale(member)


def stale(member: Member) -> ErrorCode:
    """Return the error of another epoch than the member's."""
    is_classic = member.about.classic is not None
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH


def _topic_id(consumers: ConsumerGroups, place: OffsetPlace) -> UUID | None:
    known = (consumers.topics or {}).get(place.topic)
    return place.topic_id if known is None or place.topic_id is not None else known.topic_id
