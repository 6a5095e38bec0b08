"""ListPartitionReassignments: all that are under way, from the metadata stream (KIP-455)."""

from __future__ import annotations

from collections.abc import Iterator

from springtide.contract.partition_state import PartitionState
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers.administer import code_of, denial, message_of
from springtide.node.handlers.context import NodeContext, Request
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    ListPartitionReassignmentsOngoingPartitionReassignment,
    ListPartitionReassignmentsOngoingTopicReassignment,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(context: NodeContext, request: Request, message: ListPartitionReassignmentsRequest) -> None:
    refused = denial(request, Operation.DESCRIBE, ResourceType.CLUSTER)
    if refused is not None:
        request.reply(
            ListPartitionReassignmentsResponse(error_code=code_of(refused), error_message=message_of(refused))
        )
        return
    if not context.is_view_complete():
        request.reply(
            ListPartitionReassignmentsResponse(
                error_code=ErrorCode.NOT_CONTROLLER, error_message="this broker knows no topics yet"
            )
        )
        return
    asked = message.topics
    named = None if asked is None else {(t.name, number) for t in asked for number in t.partition_indexes}
    topics: dict[str, list[ListPartitionReassignmentsOngoingPartitionReassignment]] = {}
    for state in _running(context.view):
        if named is None or (state.topic, state.partition) in named:
            topics.setdefault(state.topic, []).append(
                ListPartitionReassignmentsOngoingPartitionReassignment(
                    partition_index=state.partition,
                    replicas=state.replicas,
                    adding_replicas=state.adding_replicas,
                    removing_replicas=state.removing_replicas,
                )
            )
    request.reply(
        ListPartitionReassignmentsResponse(
            topics=tuple(
                ListPartitionReassignmentsOngoingTopicReassignment(name=topic, partitions=tuple(found))
                for topic, found in topics.items()
            )
        )
    )


def _running(view: ClusterView) -> Iterator[PartitionState]:
    for topic in view.live_topics():
        states = view.partitions_of(topic.topic_id)
        yield from (states[number] for number in sorted(states) if states[number].is_reassigning)
