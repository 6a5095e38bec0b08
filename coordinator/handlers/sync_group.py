"""SyncGroup: the leader brings the assignments of a generation, each member gets its own (KIP-345, 559).

While the shard opens, a member is told to join anew, as by Kafka's coordinators: clients do not expect
COORDINATOR_LOAD_IN_PROGRESS here, and aiokafka ends its consumer on it.
"""

from __future__ import annotations

from coordinator.core.groups.requests import SyncGroup, SyncGroupReply
from coordinator.handlers.asking import ask_group
from coordinator.handlers.context import CoordinatorContext
from springtide.node.handlers.context import Request
from springtide.node.handlers.group_refusals import refuse
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import SyncGroupRequest, SyncGroupResponse

PROTOCOL_SINCE = 5
"""The first version in which a member must say what it believes the group's protocol to be."""


def handle(context: CoordinatorContext, request: Request, message: SyncGroupRequest) -> None:
    if request.api_version >= PROTOCOL_SINCE and None in (message.protocol_type, message.protocol_name):
        refuse(request, message, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return

    def make(token: int) -> SyncGroup:
        return SyncGroup(
            token=token,
            group_id=message.group_id,
            generation_id=message.generation_id,
            member_id=message.member_id,
            instance_id=message.group_instance_id,
            protocol_type=message.protocol_type,
            protocol=message.protocol_name,
            assignments=tuple((one.member_id, one.assignment) for one in message.assignments),
        )

    def answer(reply: SyncGroupReply) -> None:
        request.reply(
            SyncGroupResponse(
                error_code=reply.error,
                protocol_type=reply.protocol_type,
                protocol_name=reply.protocol,
                assignment=reply.assignment,
            )
        )

    ask_group(context, request, message, make, answer, while_opening=ErrorCode.REBALANCE_IN_PROGRESS)
