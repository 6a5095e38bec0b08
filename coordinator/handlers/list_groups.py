"""ListGroups: the groups of the shards that this process owns, for brokers and controllers, which ask each
coordinator. Others are told none here, and all by a broker (group_lists.py).

A shard that opens fails the whole, so that a client asks again rather than take a part for all; one that has
gone to another process meanwhile has no groups here. A client that may not describe the cluster gets the
groups that it may describe.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.groups.requests import ListedGroup, ListGroups, ListGroupsReply
from coordinator.handlers.asking import ask_shards
from coordinator.handlers.context import CoordinatorContext
from springtide.node.handlers.context import Request
from springtide.node.handlers.group_lists import asks_coordinators, visible
from springtide.node.handlers.group_refusals import refuse
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import ListGroupsListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(context: CoordinatorContext, request: Request, message: ListGroupsRequest) -> None:
    if not asks_coordinators(request):
        request.reply(ListGroupsResponse())
        return

    def make(token: int) -> ListGroups:
        return ListGroups(
            token=token,
            states=message.states_filter,
            types=message.types_filter,
        )

    def done(replies: Mapping[int, ListGroupsReply | ErrorCode]) -> None:
        groups: list[ListedGroup] = []
        for reply in replies.values():
            if not isinstance(reply, ErrorCode):
                groups += reply.groups
            elif reply is not ErrorCode.NOT_COORDINATOR:
                refuse(request, message, reply)
                return
        seen = visible(request, [group.group_id for group in groups])
        request.reply(
            ListGroupsResponse(
                groups=tuple(
                    ListGroupsListedGroup(
                        group_id=group.group_id,
                        protocol_type=group.protocol_type,
                        group_state=group.state,
                        group_type=group.group_type,
                    )
                    for group in groups
                    if group.group_id in seen
                )
            )
        )

    ask_shards(context.shards, dict.fromkeys(context.shards.owned(), make), done)
