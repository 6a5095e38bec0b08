"""Requests of operators: describe, list and delete groups."""

from __future__ import annotations

from coordinator.core.groups.consumer.admin import delete_consumer_group
from coordinator.core.groups.offsets import tombstone
from coordinator.core.groups.registry import Registry, Turn
from coordinator.core.groups.requests import (
    DeleteGroups,
    DeleteGroupsReply,
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    DescribeGroupsReply,
    ListedGroup,
    ListGroups,
    ListGroupsReply,
)
from coordinator.core.groups.state import CONSUMER_TYPE, ClassicGroup, GroupState
from springtide.wire.errors import ErrorCode

CLASSIC = "classic"
CONSUMER = "consumer"
"""Types of groups."""


def describe_groups(registry: Registry, turn: Turn, request: DescribeGroups) -> None:
    turn.reply(
        request.token, DescribeGroupsReply(tuple(_describe(registry, turn, g) for g in request.group_ids))
    )


def _describe(registry: Registry, turn: Turn, group_id: str) -> DescribedGroup:
    group = _committed(registry, group_id)
    if group is None:
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, group_id, GroupState.DEAD)
    is_stable = group.state is GroupState.STABLE
    if is_stable and group_id in registry.live and registry.store.is_under_way(group_id):
        turn.waits = True
    return DescribedGroup(
        ErrorCode.NONE,
        group_id,
        group.state,
        group.protocol_type or "",
        (group.protocol or "") if is_stable else "",
        tuple(
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol) if is_stable else b"",
                member.assignment,
            )
            for member in group.members.values()
        ),
    )


def list_groups(registry: Registry, turn: Turn, request: ListGroups) -> None:
    states = {state.lower() for state in request.states}
    types = {name.lower() for name in request.types}
    found = (
        _list(registry, group_id) for group_id in sorted(registry.store.group_ids() | registry.live.keys())
    )
    listed = tuple(
        one
        for one in found
        if one and (not states or one.state.lower() in states) and (not types or one.group_type in types)
    )
    turn.reply(request.token, ListGroupsReply(listed))


def _list(registry: Registry, group_id: str) -> ListedGroup | None:
    consumers = registry.consumers.store.committed(group_id)
    if consumers is not None:
        return ListedGroup(group_id, CONSUMER_TYPE, consumers.state, CONSUMER)
    group = _committed(registry, group_id)
    if group is None:
        return None
    return ListedGroup(group_id, group.protocol_type or "", group.state, CLASSIC)


def _committed(registry: Registry, group_id: str) -> ClassicGroup | None:
    """Return a group of the classic protocol for a reader: as it lives here, or as the committed records have
    it."""
    live, store = registry.live.get(group_id), registry.store
    if store.consumers.committed(group_id) is not None:
        return None
    stored = store.groups.committed(group_id)
    if live is None and stored is not None:
        return ClassicGroup.load(group_id, stored)
    if live is None and (store.committed_offsets(group_id) or store.pending.places(group_id)):
        return ClassicGroup(group_id, changed_ms=-1)
    return live


def delete_groups(registry: Registry, turn: Turn, request: DeleteGroups) -> None:
    """Delete groups without members, and all that they have committed, in one batch. One that an open
    transaction commits for stays (KAFKA-19163)."""
    errors = tuple(
        (group_id, _delete(registry, turn, group_id)) for group_id in dict.fromkeys(request.group_ids)
    )
    turn.reply(request.token, DeleteGroupsReply(errors))
    turn.waits = True  # a deletion that is under way already is told once it is committed


def _delete(registry: Registry, turn: Turn, group_id: str) -> ErrorCode:
    group = registry.find(turn, group_id)
    consumers = registry.find_consumers(group_id)
    if group is None and consumers is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    has_members = group is not None and group.state is not GroupState.EMPTY
    if has_members or (consumers and consumers.members) or registry.store.pending.places(group_id):
        return ErrorCode.NON_EMPTY_GROUP
    turn.records += (tombstone(key) for key, _ in registry.store.latest_offsets(group_id))
    if consumers is not None:
        delete_consumer_group(registry, turn, consumers)
    if group is not None:
        registry.delete(turn, group)
    return ErrorCode.NONE
