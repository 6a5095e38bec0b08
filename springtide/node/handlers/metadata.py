"""Metadata: live brokers and coordinators, topics and leaders, as the metadata stream last told them.

Clients are told of active ones only. Coordinators are listed, after the brokers, for clients that look the id
that FindCoordinator names up here (listed_coordinators.py). A name without a topic may be its first use
(using.py).

A process that has had no full state yet ends the connection, and the client asks another one: kafka-python's
consumer ends on an answer without brokers. In Kafka, too, a broker serves only once it has caught up with the
metadata.

A client that may not describe a topic is not told whether it exists: among all topics it is left out, and
under its name it is refused. Ids are not secret: they are refused as by Kafka, without the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from uuid import UUID

from springtide.contract.partition_state import NO_LEADER, PartitionState, TopicState
from springtide.node.cluster_view import ClusterView
from springtide.node.core.listed_coordinators import are_listed
from springtide.node.handlers import authorized_operations
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.using import use_absent
from springtide.node.refusals import UNKNOWN_SOFTWARE
from springtide.node.sharding import INTERNAL_TOPICS
from springtide.node.topic_ids import topic_id_text, topic_id_uuid
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ALLOWS_SINCE = 4

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")


def is_legal_topic_name(name: str) -> bool:
    return _LEGAL_NAME.match(name) is not None and name not in (".", "..")


def handle(context: NodeContext, request: Request, message: MetadataRequest) -> None:
    if not context.is_view_complete():
        request.turn_away()
        return
    asked = message.topics
    if request.api_version == 0 and not asked:
        asked = None  # v0 had no null: an empty list meant all
    view, client = context.view, request.answer.connection
    coordinators = (
        view.coordinators_for_clients(request.now_ms)
        if are_listed(
            client.software,
            unknown=UNKNOWN_SOFTWARE,
            api_version=request.api_version,
            all_topics=asked is None,
            may_be_members=client.may_be_members,
        )
        else []
    )
    if asked is None:
        topics = [
            _topic(view, live, request, message)
            for live in view.live_topics()
            if request.may(Operation.DESCRIBE, ResourceType.TOPIC, live.topic, is_filter=True)
        ]
    else:
        topics = list(_asked_topics(context, request, message))
    request.reply(
        MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(
                    node_id=node.broker_id, host=address[0], port=address[1], rack=node.rack
                )
                for node in (*view.brokers_for_clients(request.now_ms), *coordinators)
                if (address := node.address_for(request.listener)) is not None
            ),
            cluster_id=view.cluster_id,
            controller_id=view.controller_for_clients(),
            topics=tuple(topics),
            cluster_authorized_operations=authorized_operations.of_cluster(request, message),
        )
    )


def _asked_topics(
    context: NodeContext, request: Request, message: MetadataRequest
) -> Iterable[MetadataResponseTopic]:
    view = context.view
    # Until version 3 a client could not say whether it only looks.
    may_make = request.api_version < ALLOWS_SINCE or message.allow_auto_topic_creation
    for one in message.topics or ():
        topic_id, name = one.topic_id, one.name
        if topic_id is not None:
            topic = view.topic_by_id(topic_id_text(topic_id.bytes))
            absent = ErrorCode.UNKNOWN_TOPIC_ID
        elif name is None or not is_legal_topic_name(name):
            yield _failed(ErrorCode.INVALID_TOPIC_EXCEPTION, name, topic_id)
            continue
        else:
            topic = view.topic_by_name(name)
            absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        described = name if topic is None else topic.topic
        if described is not None and not request.may(Operation.DESCRIBE, ResourceType.TOPIC, described):
            yield _failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None if topic_id else name, topic_id)
        elif topic is not None and not topic.deleting:
            yield _topic(view, topic, request, message)
        elif topic_id is None and name is not None:
            error = use_absent(context, request, name) if may_make else absent
            if not context.first_uses.is_making(name):
                context.missing_topics.note(name, request.answer.connection, now_ms=request.now_ms)
            yield _failed(error, name, topic_id)
        else:
            yield _failed(absent, name, topic_id)


def _failed(error: ErrorCode, name: str | None, topic_id: UUID | None) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=name or "", topic_id=topic_id)


def _topic(
    view: ClusterView, topic: TopicState, request: Request, message: MetadataRequest
) -> MetadataResponseTopic:
    """Return a topic with its partitions; without them while it is being made. kafka-go dials a partition
    without a leader at no address, and asks again after an error of the topic."""
    states, topic_id = view.partitions_of(topic.topic_id), topic_id_uuid(topic.topic_id)
    partitions = tuple(_partition(view, states[number], request.now_ms) for number in sorted(states))
    if all(one.leader_id == NO_LEADER for one in partitions) and any(
        (topic.topic_id, number) in view.unmade for number in states
    ):
        return _failed(ErrorCode.LEADER_NOT_AVAILABLE, topic.topic, topic_id)
    return MetadataResponseTopic(
        name=topic.topic,
        topic_id=topic_id,
        is_internal=topic.topic in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=authorized_operations.of_topic(request, message, topic.topic),
    )


def _partition(view: ClusterView, state: PartitionState, now_ms: int) -> MetadataResponsePartition:
    error, leader = leader_of(view, state, now_ms)
    return MetadataResponsePartition(
        error_code=error,
        partition_index=state.partition,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        offline_replicas=offline_replicas(view, state),
    )


def leader_of(view: ClusterView, state: PartitionState, now_ms: int) -> tuple[ErrorCode, int]:
    """Return the error of a partition and its leader, as clients are told them."""
    leader = state.leader
    # Brokers make their logs in one order and at about one pace. While ours is missing, the leader's may be
    # missing too, and a client that is told to wait asks again sooner than one that the leader refused.
    is_unmade = (state.topic_id, state.partition) in view.unmade
    if leader != NO_LEADER and not is_unmade and view.may_be_named_leader(leader, now_ms):
        return ErrorCode.NONE, leader
    return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER


def offline_replicas(view: ClusterView, state: PartitionState) -> tuple[int, ...]:
    """Return the replicas whose brokers are not active."""
    return tuple(replica for replica in state.replicas if not view.is_active(replica))
