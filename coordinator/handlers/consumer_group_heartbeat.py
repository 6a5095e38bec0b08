"""ConsumerGroupHeartbeat: a member of a `consumer` group joins, tells what it consumes, leaves (KIP-848).

Each refusal says why: clients write it to their own logs, and end on most of the errors. The order of the
checks is Kafka's.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from coordinator.core.groups.consumer.checks import HeartbeatRefusal, refusal_of
from coordinator.core.groups.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatReply
from coordinator.core.topic_partitions import PartitionsByTopic, by_topic
from coordinator.handlers.asking import TOLD, shard_in
from coordinator.handlers.context import CoordinatorContext
from springtide.levels import CONSUMER_GROUPS
from springtide.node.handlers.context import Request, check_level
from springtide.node.handlers.group_refusals import CLASSIC_ONLY
from springtide.node.sharding import GROUPS_TOPIC
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatAssignmentTopicPartitions,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from springtide.wire.typed import write_message

MEMBER_NAMES_ITSELF_SINCE = 1
NAME_CHARS_MAX = 100
"""Of an id or a list of topics in a text about them."""
ANSWERS_KEPT_MAX = 10_000
"""Some 300 bytes each."""


def handle(context: CoordinatorContext, request: Request, message: ConsumerGroupHeartbeatRequest) -> None:
    may_be_new = request.api_version < MEMBER_NAMES_ITSELF_SINCE
    connection = request.answer.connection

    said = ConsumerHeartbeat(
        token=0,
        group_id=message.group_id,
        member_id=message.member_id,
        new_member_id=context.new_member_suffix() if may_be_new and not message.member_id else "",
        member_epoch=message.member_epoch,
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        client_id=connection.client_id or "",
        client_host=f"/{connection.peer}",  # as Java writes an address
        principal=request.principal,
        rebalance_timeout_ms=message.rebalance_timeout_ms,
        topics=message.subscribed_topic_names,
        pattern=message.subscribed_topic_regex,
        assignor=message.server_assignor,
        owned=_owned(message),
    )

    def answered(reply: object) -> None:
        if isinstance(reply, ConsumerHeartbeatReply) and reply.error is ErrorCode.NONE:
            if reply.assigned is None and request.account is None:
                request.reply_chunks([_body(request.api_version, reply)])
            else:
                request.reply(_response(reply))
        elif isinstance(reply, ConsumerHeartbeatReply):
            refuse(HeartbeatRefusal(reply.error, reply.message or _why(reply.error, message)))
        else:
            assert isinstance(reply, ErrorCode)
            refuse(HeartbeatRefusal(TOLD.get(reply, reply), ""))

    def refuse(refusal: HeartbeatRefusal) -> None:
        answer = ConsumerGroupHeartbeatResponse(
            error_code=refusal.error, error_message=refusal.message or None
        )
        request.reply(answer, cause=refusal.message)

    refusal = _refusal(context, request, message) or refusal_of(said, context.group_options)
    if refusal is not None:
        refuse(refusal)
    else:
        shard = shard_in(context, GROUPS_TOPIC, message.group_id)
        context.shards.submit(shard, lambda token: replace(said, token=token), answered)


def _refusal(
    context: CoordinatorContext, request: Request, message: ConsumerGroupHeartbeatRequest
) -> HeartbeatRefusal | None:
    """Return why the member may not come here at all; None: it may."""
    if error := check_level(context, CONSUMER_GROUPS):
        return HeartbeatRefusal(error, CLASSIC_ONLY if error is ErrorCode.UNSUPPORTED_VERSION else "")
    if not request.may(Operation.READ, ResourceType.GROUP, message.group_id):
        text = f"no right to READ the group {_short(message.group_id)}"
        return HeartbeatRefusal(ErrorCode.GROUP_AUTHORIZATION_FAILED, text)
    denied = [
        name
        for name in message.subscribed_topic_names or ()
        if not request.may(Operation.DESCRIBE, ResourceType.TOPIC, name)
    ]
    if denied:
        text = f"no right to DESCRIBE {len(denied)} of the topics: {', '.join(denied)[:NAME_CHARS_MAX]}"
        return HeartbeatRefusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
    return None


def _why(error: ErrorCode, message: ConsumerGroupHeartbeatRequest) -> str:
    """Return what an error of the group's means."""
    group, member = f"the group {_short(message.group_id)}", f"the member {_short(message.member_id)}"
    instance = f"the instance id {_short(message.instance_id or '')}"
    epoch = message.member_epoch
    texts = {
        ErrorCode.GROUP_ID_NOT_FOUND: f"{group} does not exist, or its members use the classic protocol",
        ErrorCode.UNKNOWN_MEMBER_ID: f"{group} does not have {member}: it left, or was given up",
        ErrorCode.FENCED_MEMBER_EPOCH: f"{member} of {group} is not at epoch {epoch}: it has to join again",
        ErrorCode.UNRELEASED_INSTANCE_ID: f"{instance} is in use in {group}: by one process at a time only",
        ErrorCode.FENCED_INSTANCE_ID: f"{instance} of {group} was taken over by another member",
        ErrorCode.GROUP_MAX_SIZE_REACHED: f"{group} has no room for another member or a longer subscription",
    }
    return texts.get(error, "")


def _short(name: str) -> str:
    return repr(name[:NAME_CHARS_MAX])


def _owned(message: ConsumerGroupHeartbeatRequest) -> PartitionsByTopic | None:
    if message.topic_partitions is None:
        return None
    return by_topic(
        (topic.topic_id, topic.partitions) for topic in message.topic_partitions if topic.topic_id is not None
    )


@lru_cache(maxsize=ANSWERS_KEPT_MAX)
def _body(api_version: int, reply: ConsumerHeartbeatReply) -> bytes:
    """Return the answer that members at rest get to each of their heartbeats."""
    return write_message(_response(reply), api_version)


def _response(reply: ConsumerHeartbeatReply) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if reply.assigned is not None:
        assignment = ConsumerGroupHeartbeatAssignment(
            topic_partitions=tuple(
                ConsumerGroupHeartbeatAssignmentTopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in reply.assigned.items()
            )
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=assignment,
    )
