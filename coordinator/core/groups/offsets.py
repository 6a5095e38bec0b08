"""Committed offsets: commit, fetch, delete.

A commit is answered once it is committed, and a fetch reads what is. Topic ids are kept with offsets: those
of a deleted topic are not given to one that was created under its name since. What an open transaction is
about to commit (transactions.py) makes an offset unstable, from the moment on that it is applied: a member
that has just been given the partition must not begin before what its former owner had committed (KIP-447).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from coordinator.core.group_records import (
    CommittedOffset,
    OffsetKey,
    PendingKey,
    encode_offset,
    encode_offset_key,
)
from coordinator.core.groups.consumer.commits import check_fetcher, check_member_epoch
from coordinator.core.groups.consumer.sessions import keep_alive
from coordinator.core.groups.options import STRING_BYTES_MAX
from coordinator.core.groups.registry import Committing, Registry, Turn
from coordinator.core.groups.requests import (
    CommitOffsets,
    DeleteOffsets,
    FetchOffsets,
    FetchOffsetsReply,
    GroupOffsets,
    GroupPlaces,
    OffsetPlace,
    OffsetsReply,
    OffsetToCommit,
)
from coordinator.core.groups.state import CONSUMER_TYPE, GroupState
from coordinator.core.machine import ShardRecord
from coordinator.core.pending_records import encode_pending_key
from springtide.wire.errors import ErrorCode

INT64_MAX = 2**63 - 1


def commit_offsets(registry: Registry, turn: Turn, request: CommitOffsets) -> None:
    """Write the offsets that may be written. The empty group id is legal: old clients commit under it."""
    error = ErrorCode.INVALID_GROUP_ID
    if len(request.group_id.encode()) <= STRING_BYTES_MAX:
        error = _check_commit(registry, turn, request)
    if error is not ErrorCode.NONE:
        turn.reply(request.token, OffsetsReply(error))
        return
    expires_ms = None
    if request.retention_ms is not None:
        expires_ms = min(turn.wall_ms + request.retention_ms, INT64_MAX)
    answers = []
    for asked in request.offsets:
        error = check_offset(registry, asked)
        answers.append((asked.place, error))
        if error is ErrorCode.NONE:
            key = OffsetKey(request.group_id, asked.place.topic, asked.place.partition)
            value = CommittedOffset(
                asked.offset,
                asked.leader_epoch,
                asked.metadata or "",
                turn.wall_ms,
                expires_ms,
                asked.place.topic_id,
            )
            turn.records.append(ShardRecord(encode_offset_key(key), encode_offset(value)))
            drop_pending(turn, (older for older, _ in registry.store.pending.at(key)))
    turn.reply(request.token, OffsetsReply(ErrorCode.NONE, tuple(answers)))
    if turn.records and request.member_id:
        turn.work = Committing(request.group_id, request.member_id)
        registry.committing[turn.work] += 1


def on_commit_settled(registry: Registry, turn: Turn, work: Committing) -> None:
    """Let a member's session begin again, now that its commit is answered."""
    registry.committing[work] -= 1
    if not registry.committing[work]:
        del registry.committing[work]
    group_id, member_id = work
    consumers = registry.find_consumers(group_id)
    if consumers is not None and (member := consumers.members.get(member_id)):
        keep_alive(registry, turn, group_id, member_id, member)
    elif (group := registry.live.get(group_id)) and (own := group.members.get(member_id)):
        registry.keep_alive(turn, group, own)


def _check_commit(registry: Registry, turn: Turn, request: CommitOffsets) -> ErrorCode:
    """Return whether this client may commit for the group now. GROUP_ID_NOT_FOUND is ILLEGAL_GENERATION to
    clients before version 9."""
    consumers = registry.find_consumers(request.group_id)
    if consumers is not None:
        return check_member_epoch(registry.consumers, consumers, request)
    group = registry.find(turn, request.group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND if request.generation_id >= 0 else ErrorCode.NONE
    if request.generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    error = group.check_generation(request.member_id, request.instance_id, request.generation_id)
    if error is not ErrorCode.NONE:
        return error
    if group.state is GroupState.COMPLETING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def check_offset(registry: Registry, asked: OffsetToCommit) -> ErrorCode:
    if len(asked.metadata or "") > registry.options.metadata_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    if len(asked.place.topic.encode()) > STRING_BYTES_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.NONE


def fetch_offsets(registry: Registry, turn: Turn, request: FetchOffsets) -> None:
    found = (_fetch(registry, asked) for asked in request.groups)
    if request.requires_stable:
        found = (
            _with_unstable(registry, one, asked) for one, asked in zip(found, request.groups, strict=True)
        )
    turn.reply(request.token, FetchOffsetsReply(tuple(found)))


def _fetch(registry: Registry, asked: GroupPlaces) -> GroupOffsets:
    store, group_id = registry.store, asked.group_id
    if error := check_fetcher(store.consumers, asked):
        return GroupOffsets(group_id, (), error=error)
    if asked.places is None:
        found = store.committed_offsets(group_id)
        return GroupOffsets(
            group_id, tuple((OffsetPlace(k.topic, k.partition, v.topic_id), v) for k, v in found)
        )
    answers = []
    for place in asked.places:
        value = store.offsets.committed(OffsetKey(group_id, place.topic, place.partition))
        is_of_topic = value is not None and _may_be_same(value, place)
        answers.append((place, value if is_of_topic else None))
    return GroupOffsets(group_id, tuple(answers))


def _with_unstable(registry: Registry, found: GroupOffsets, asked: GroupPlaces) -> GroupOffsets:
    """Return what was found with the places that are unstable. Of a group's whole also those that have no
    offset yet."""
    if found.error:
        return found
    pending, group_id = registry.store.pending, found.group_id
    offsets = dict(found.offsets)
    if asked.places is None:
        for key in pending.places(group_id):
            of_topic = {one.offset.topic_id for one in pending.in_either_view(key)}
            named = [place for place in offsets if place[:2] == key[1:3]]
            offsets |= {OffsetPlace(*key[1:3], topic_id): None for topic_id in of_topic if not named}
    unstable = frozenset(
        place
        for place in offsets
        for one in pending.in_either_view(OffsetKey(group_id, place.topic, place.partition))
        if _may_be_same(one.offset, place)
    )
    return GroupOffsets(group_id, tuple(offsets.items()), unstable)


def _may_be_same(value: CommittedOffset, place: OffsetPlace) -> bool:
    """Return whether an offset may be that of a topic: only two ids that differ prove the contrary."""
    return value.topic_id is None or place.topic_id is None or value.topic_id == place.topic_id


def delete_offsets(registry: Registry, turn: Turn, request: DeleteOffsets) -> None:
    """Delete offsets of topics that no member subscribes. In a group of another type than consumers the
    coordinator does not know what is subscribed, so such a group has to be empty. An offset that an open
    transaction may replace stays until it has ended: its other half, the records, would count without it."""
    group = registry.find(turn, request.group_id)
    consumers = registry.find_consumers(request.group_id)
    if not request.group_id:
        turn.reply(request.token, OffsetsReply(ErrorCode.INVALID_GROUP_ID))
    elif consumers is not None:
        _delete(registry, turn, request, consumers.subscribed().__contains__)
    elif group is None:
        turn.reply(request.token, OffsetsReply(ErrorCode.GROUP_ID_NOT_FOUND))
    elif group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_TYPE:
        turn.reply(request.token, OffsetsReply(ErrorCode.NON_EMPTY_GROUP))
    else:
        _delete(registry, turn, request, partial(group.is_subscribed, subscribed=group.subscribed()))
    turn.waits = True  # a deletion that is under way already is told once it is committed


def _delete(
    registry: Registry, turn: Turn, request: DeleteOffsets, is_subscribed: Callable[[str], bool]
) -> None:
    answers = []
    for place in request.places:
        key, error = OffsetKey(request.group_id, place.topic, place.partition), ErrorCode.NONE
        if is_subscribed(place.topic):
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        elif registry.store.pending.at(key):
            error = ErrorCode.UNSTABLE_OFFSET_COMMIT
        elif registry.store.offsets.latest(key) is not None:
            turn.records.append(tombstone(key))
        answers.append((place, error))
    turn.reply(request.token, OffsetsReply(ErrorCode.NONE, tuple(answers)))


def tombstone(key: OffsetKey) -> ShardRecord:
    return ShardRecord(encode_offset_key(key), None)


def drop_pending(turn: Turn, keys: Iterable[PendingKey]) -> None:
    """Take pending offsets away: their transaction has ended, or a later commit has replaced them."""
    turn.records += (ShardRecord(encode_pending_key(key), None) for key in keys)
