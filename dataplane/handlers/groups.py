"""What a broker answers about groups: it tells all, and asks their coordinators for tools that ask here.

Groups live at coordinators. The first broker tells all groups, of all coordinators (group_lists.py, in
springtide.node). Some tools go on to ask the node that told them a group for its members and offsets, without
FindCoordinator (kafka_exporter): so DescribeGroups, and OffsetFetch of one group, are asked of the group's
coordinator here. The broker checks what its client may know, and asks as itself. What changes a group is
refused: for that the client has to find the coordinator.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from dataplane.handlers.context import BrokerContext
from springtide.contract.updates import BrokerEndpoint
from springtide.node.handlers import authorized_operations
from springtide.node.handlers.context import Request
from springtide.node.handlers.group_lists import asks_coordinators, visible
from springtide.node.handlers.group_refusals import no_offset, refuse, refuse_on_broker
from springtide.node.sharding import GROUPS_TOPIC, may_be_hashed, shard_of
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    DescribeGroupsDescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
)

OF_SEVERAL_SINCE = 8
"""The first version of OffsetFetch that names several groups. Who knows it asks FindCoordinator."""


def list_groups(context: BrokerContext, request: Request, message: ListGroupsRequest) -> None:
    """Tell all groups if this is the first broker that the client is told of, or else none."""
    view = context.view
    if not context.is_view_complete():
        refuse(request, message, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return
    if asks_coordinators(request) or not is_first(context, request) or not view.has_groups():
        request.reply(ListGroupsResponse())
        return
    coordinators = [one for _, one in sorted(view.coordinators.items()) if one.active]

    def done(answers: Sequence[ListGroupsResponse | None]) -> None:
        errors = [
            ErrorCode.COORDINATOR_NOT_AVAILABLE if answer is None else answer.error_code for answer in answers
        ] or [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        if error := next(filter(None, errors), None):
            refuse(request, message, error)  # a part must not be taken for all
            return
        # One that moves from coordinator to coordinator meanwhile may be told by both.
        groups = {group.group_id: group for answer in filter(None, answers) for group in answer.groups}
        seen = visible(request, list(groups))
        told = tuple(group for group_id, group in groups.items() if group_id in seen)
        request.reply(ListGroupsResponse(groups=told))

    calls = [(one, message) for one in coordinators]
    context.coordinator_calls.start(ListGroupsResponse, request.api_version, calls, done)


def describe_groups(context: BrokerContext, request: Request, message: DescribeGroupsRequest) -> None:
    """Ask the coordinators of the groups that the client may describe."""
    asked = list(dict.fromkeys(message.groups))
    if not _may_ask(context, asked):
        refuse_on_broker(context, request, message)
        return
    told: dict[str, DescribeGroupsDescribedGroup] = {}
    by_owner: dict[int, tuple[BrokerEndpoint, list[str]]] = {}
    for group_id in asked:
        owner = _owner_of(context, group_id)
        if not request.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            told[group_id] = _failed(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        elif owner is None:
            told[group_id] = _failed(group_id, ErrorCode.NOT_COORDINATOR)
        else:
            by_owner.setdefault(owner.broker_id, (owner, []))[1].append(group_id)
    calls = [(owner, DescribeGroupsRequest(groups=tuple(groups))) for owner, groups in by_owner.values()]

    def done(answers: Sequence[DescribeGroupsResponse | None]) -> None:
        found = [group for answer in answers if answer is not None for group in answer.groups]
        for group in found:
            allowed = authorized_operations.of_group(request, message, group.group_id)
            told[group.group_id] = structs.replace(group, authorized_operations=allowed)
        absent = ErrorCode.COORDINATOR_NOT_AVAILABLE
        groups = tuple(told.get(one) or _failed(one, absent) for one in asked)
        request.reply(DescribeGroupsResponse(groups=groups))

    context.coordinator_calls.start(DescribeGroupsResponse, request.api_version, calls, done)


def offset_fetch(context: BrokerContext, request: Request, message: OffsetFetchRequest) -> None:
    """Ask the group's coordinator for the offsets of topics that the client may describe."""
    if request.api_version >= OF_SEVERAL_SINCE or not _may_ask(context, [message.group_id]):
        refuse_on_broker(context, request, message)
        return
    owner = _owner_of(context, message.group_id)
    if not request.may(Operation.DESCRIBE, ResourceType.GROUP, message.group_id):
        refuse(request, message, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    if owner is None:
        refuse(request, message, ErrorCode.NOT_COORDINATOR)
        return
    is_all = message.topics is None
    named = message.topics or ()
    allowed = {one.name for one in named if request.may(Operation.DESCRIBE, ResourceType.TOPIC, one.name)}
    denied = [
        OffsetFetchResponseTopic(
            name=one.name,
            partitions=tuple(
                no_offset(number, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for number in one.partition_indexes
            ),
        )
        for one in named
        if one.name not in allowed
    ]
    to_ask = None if is_all else tuple(one for one in named if one.name in allowed)
    call = (owner, structs.replace(message, topics=to_ask))

    def done(answers: Sequence[OffsetFetchResponse | None]) -> None:
        (answer,) = answers
        if answer is None:
            refuse(request, message, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        topics = [one for one in answer.topics if not is_all or _may_see(request, one.name)]
        request.reply(structs.replace(answer, topics=(*topics, *denied)))

    context.coordinator_calls.start(OffsetFetchResponse, request.api_version, [call], done)


def _may_see(request: Request, topic: str) -> bool:
    return request.may(Operation.DESCRIBE, ResourceType.TOPIC, topic, is_filter=True)


def is_first(context: BrokerContext, request: Request) -> bool:
    """Return whether no broker before this one in Metadata's list can be asked for all groups."""
    listed = (one.broker_id for one in context.view.active_brokers() if one.address_for(request.listener))
    return next(listed, context.broker_id) == context.broker_id


def _may_ask(context: BrokerContext, group_ids: list[str]) -> bool:
    return context.is_view_complete() and context.view.has_groups() and may_be_hashed(group_ids)


def _owner_of(context: BrokerContext, group_id: str) -> BrokerEndpoint | None:
    topic = context.view.topic_by_name(GROUPS_TOPIC)
    if topic is None:
        return None
    return context.view.shard_owner(GROUPS_TOPIC, shard_of(group_id, topic.partitions))


def _failed(group_id: str, error: ErrorCode) -> DescribeGroupsDescribedGroup:
    return DescribeGroupsDescribedGroup(group_id=group_id, error_code=error)
