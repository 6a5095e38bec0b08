"""DescribeGroups: the state, members and assignments of groups."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.groups.requests import DescribedGroup, DescribeGroups
from coordinator.handlers.asking import GROUPS, ask_named
from coordinator.handlers.context import CoordinatorContext
from springtide.node.handlers import authorized_operations
from springtide.node.handlers.context import Request
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    DescribeGroupsDescribedGroup,
    DescribeGroupsDescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

GROUP_ID_NOT_FOUND_SINCE = 6
"""Before it a group that does not exist is a dead one, without an error (KIP-1043)."""


def handle(context: CoordinatorContext, request: Request, message: DescribeGroupsRequest) -> None:
    groups = tuple(dict.fromkeys(message.groups))  # answered once each: none can be asked for a thousandfold

    def done(found: Sequence[DescribedGroup | ErrorCode]) -> None:
        told = tuple(
            DescribeGroupsDescribedGroup(group_id=group_id, error_code=group)
            if isinstance(group, ErrorCode)
            else _described(
                group, request.api_version, authorized_operations.of_group(request, message, group_id)
            )
            for group_id, group in zip(groups, found, strict=True)
        )
        request.reply(DescribeGroupsResponse(groups=told))

    ask_named(
        context,
        request,
        groups,
        kind=GROUPS,
        name_of=str,
        make=lambda token, of_shard: DescribeGroups(token=token, group_ids=of_shard),
        entries=lambda reply: reply.groups,
        done=done,
    )


def _described(group: DescribedGroup, api_version: int, allowed: int) -> DescribeGroupsDescribedGroup:
    error = group.error if api_version >= GROUP_ID_NOT_FOUND_SINCE else ErrorCode.NONE
    return DescribeGroupsDescribedGroup(
        error_code=error,
        error_message=f"there is no group '{group.group_id}' of the classic protocol" if error else None,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=tuple(
            DescribeGroupsDescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ),
        authorized_operations=allowed,
    )
