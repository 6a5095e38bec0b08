"""Fetch: the sessions' bookkeeping, each partition's replica, and the answer without copying a record.

Followers and consumers take the same road and part only at the replica. Before version 13 topics go by name;
an unknown name gets a key of its own in the session, so that it can be answered with an error each time, like
any other partition. Once a name stands for another topic, the session ends: its client would not name the
topic again. Under an unknown name a debugging consumer may read what a truncation dropped.

A consumer needs the right to read each topic, which is judged with each evaluation. A follower must be a
member of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from dataplane.core.fetch import ConsumerFetch, ReplicaFetch
from dataplane.core.fetch_session import (
    FINAL_EPOCH,
    AskedPartition,
    FetchPosition,
    FetchSession,
    FollowedPartition,
    SessionRequest,
)
from dataplane.core.fetches import Fetch, FetchedAnswer
from dataplane.core.results import FetchResult
from dataplane.handlers.context import BrokerContext
from dataplane.handlers.leaders import LeaderHints
from dataplane.handlers.list_offsets import ISOLATION_LEVELS, error_of_unhosted_id
from dataplane.shell.hosted import HostedPartition
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.partition_state import PartitionKey
from springtide.node.authorization import ClientRights
from springtide.node.clock import last_beat
from springtide.node.core.quota_limits import QuotaName
from springtide.node.handlers.context import Request
from springtide.node.handlers.metadata import is_legal_topic_name
from springtide.node.topic_ids import topic_id_bytes, topic_id_text
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import (
    TOPIC_ID_SINCE,
    FetchPartition,
    FetchRequest,
    Topic,
    decode_fetch_request,
)
from springtide.wire.fetch_response import (
    AppliedRound,
    FetchedPartition,
    encode_fetch_frame,
    encode_fetch_response,
)

MAX_WAIT_MS_MAX = 5 * 60 * 1000
PARTITION_BYTES_MIN = 1
NAME_PREFIX = "name:"
"""Begins the session key of a topic name that stands for no topic; no topic id has a colon."""

_LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def handle(context: BrokerContext, request: Request) -> None:
    message = decode_fetch_request(
        request.api_version, request.frame, request.body_position, on_rest=request.on_rest
    )
    rights = request.rights
    if rights is not None and message.replica_id >= 0 and not rights.may_replicate():
        _refuse_follower(request, message)
        return
    if message.isolation_level not in ISOLATION_LEVELS:  # an error of the whole, as Kafka's
        code = int(ErrorCode.UNKNOWN_SERVER_ERROR)
        refused = [FetchedPartition(one.topic, one.partition, code, -1, -1, -1) for one in message.partitions]
        request.reply_chunks(encode_fetch_response(request.api_version, refused, error_code=code))
        return
    connection = request.answer.connection
    connection.may_be_members = True
    if message.replica_id >= 0 and not message.partitions and message.session_epoch == FINAL_EPOCH:
        # A follower that fetches nothing, outside its session, ends the wait of its request before this one.
        if isinstance(connection.fetch_session, FetchSession):
            context.fetches.hurry(connection.fetch_session)
        request.reply_chunks(encode_fetch_response(request.api_version, ()))
        return
    now_ms = request.now_ms
    uses_topic_ids = request.api_version >= TOPIC_ID_SINCE
    fetches = context.fetches
    bytes_min = 0 if message.replica_id >= 0 else PARTITION_BYTES_MIN
    partitions = [
        AskedPartition((_topic_key(context, one.topic), one.partition), _position(one, bytes_min), one.mark)
        for one in message.partitions
    ]
    forgotten = [(_topic_key(context, topic), partition) for topic, partition in message.forgotten]
    opened = fetches.sessions.open(
        SessionRequest(
            session_id=message.session_id,
            session_epoch=message.session_epoch,
            replica_id=message.replica_id,
            broker_epoch=BrokerEpoch(message.broker_epoch),
            uses_topic_ids=uses_topic_ids,
            partitions=partitions,
            forgotten=forgotten,
            principal=connection.principal,
        ),
        now_ms=now_ms,
    )
    if isinstance(opened, FetchSession) and not uses_topic_ids:
        asked = zip(message.partitions, partitions, strict=True)
        names = {one.topic: found.key[0] for one, found in asked if isinstance(one.topic, str)}
        opened = _with_names(context, opened, names)
    if isinstance(opened, ErrorCode):
        request.note_errors((opened,))
        request.reply_chunks(
            encode_fetch_response(
                request.api_version,
                (),
                error_code=int(opened),
                throttle_time_ms=request.throttle_time_ms(),
            )
        )
        return
    if opened.is_replica:
        # It follows these no longer, so that its session must not count as following them either.
        for key in forgotten:
            hosted = context.table.get(*key)
            leader = None if hosted is None else hosted.replica.leading
            if leader is not None:
                leader.on_replica_gone(opened.replica_id, opened.contact)
    opened.rights = rights
    opened.isolation = ISOLATION_LEVELS[message.isolation_level]
    connection.fetch_session = opened
    max_bytes = min(max(message.max_bytes, PARTITION_BYTES_MIN), context.config.fetch_max_bytes)
    is_throttled = False
    if request.account is not None:
        window_bytes = request.account.window_max(QuotaName.CONSUMER_BYTE_RATE)
        if window_bytes is not None:  # an answer can have no more within its quota
            max_bytes = max(int(min(max_bytes, window_bytes)), PARTITION_BYTES_MIN)
            is_throttled = request.account.is_over(QuotaName.CONSUMER_BYTE_RATE)
    fetches.start(
        Fetch(
            session=opened,
            min_bytes=min(message.min_bytes, max_bytes),
            max_bytes=max_bytes,
            is_throttled=is_throttled,
            deadline_ms=wait_until_ms(message.max_wait_ms, now_ms=now_ms, is_replica=opened.is_replica),
            context=request,
            is_gone=lambda: connection.closed,
        )
    )


def _position(asked: FetchPartition, bytes_min: int) -> FetchPosition:
    return FetchPosition(
        asked.fetch_offset,
        LeaderEpoch(asked.last_fetched_epoch),
        LeaderEpoch(asked.leader_epoch),
        asked.log_start_offset,
        max(asked.max_bytes, bytes_min),
        asked.wants_producers,
    )


def _with_names(
    context: BrokerContext, session: FetchSession, names: Mapping[str, str]
) -> FetchSession | ErrorCode:
    """Return the session with the names of the request, or end it: a topic was created, or deleted."""
    if any(_topic_key(context, name) != key for name, key in session.names.items()):
        context.fetches.sessions.close(session)
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session.note_names(names)
    return session


def wait_until_ms(max_wait_ms: int, *, now_ms: int, is_replica: bool) -> int:
    """Return when a fetch is answered at the latest. A follower's wait ends at a beat, so that
    brokers at rest wake once for all that they wait for."""
    wait_ms = min(max(max_wait_ms, 0), MAX_WAIT_MS_MAX)
    return last_beat(now_ms + wait_ms, wait_ms) if is_replica else now_ms + wait_ms


def _refuse_follower(request: Request, message: FetchRequest) -> None:
    """Refuse each partition, or a session: none is ever begun."""
    if message.session_epoch > 0:
        error, refused = ErrorCode.FETCH_SESSION_ID_NOT_FOUND, []
    else:
        error, code = ErrorCode.NONE, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        refused = [FetchedPartition(one.topic, one.partition, code, -1, -1, -1) for one in message.partitions]
    request.note_errors((error, *(one.error_code for one in refused)))
    request.reply_chunks(encode_fetch_response(request.api_version, refused, error_code=int(error)))


def _topic_key(context: BrokerContext, topic: Topic) -> str:
    if isinstance(topic, bytes):
        return topic_id_text(topic)
    known = context.view.topic_by_name(topic)
    return NAME_PREFIX + topic if known is None else known.topic_id


def evaluate(
    context: BrokerContext,
    session: FetchSession,
    followed: FollowedPartition,
    *,
    max_bytes: int,
    at_least_one: bool,
    now_ms: int,
) -> FetchResult:
    """Evaluate one partition of a session: return what the session may be told of it now."""
    topic_id, partition = followed.key
    hosted = context.table.get(topic_id, partition)
    if context.view.is_authorizer_on:
        error = _denial(context, session, topic_id, hosted)
        if error is not ErrorCode.NONE:
            return FetchResult(error=error)
    if hosted is None:
        if session.is_debugging and topic_id.startswith(NAME_PREFIX) and context.is_view_complete():
            return context.divergent_logs.fetch(
                topic_id[len(NAME_PREFIX) :],
                followed.key,
                fetch_offset=followed.position.fetch_offset,
                max_bytes=max_bytes,
                at_least_one=at_least_one,
            )
        return FetchResult(error=_error_of_unhosted(context, session, topic_id, partition))
    if session.is_replica:
        learners = context.table.served_learners
        if learners.bucket is not None:
            limit = learners.limit(followed.key, hosted.replica, session.replica_id, now_ms)
            if limit is not None:
                max_bytes = min(max_bytes, limit)
                at_least_one = at_least_one and limit > 0
        fetch = ReplicaFetch(
            session.replica_id,
            session.broker_epoch,
            followed.position,
            max_bytes,
            at_least_one,
            session.contact,
            followed.take_mark(),
        )
        result, effects = hosted.replica.role.on_replica_fetch(fetch, now_ms=now_ms)
    else:
        asked = ConsumerFetch(
            followed.position, max_bytes, at_least_one, session.is_debugging, session.isolation
        )
        result, effects = hosted.replica.role.on_consumer_fetch(asked, now_ms=now_ms)
        if session.is_debugging:
            result = msgspec.structs.replace(result, applied_round=applied_round(hosted))
    if effects:
        context.effects.run(hosted, effects)
    return result


def _denial(
    context: BrokerContext, session: FetchSession, topic_id: str, hosted: HostedPartition | None
) -> ErrorCode:
    """Return why the client may not read a topic of its session, or NONE. What a truncation dropped is its
    topic's. An id that no topic has is answered as unknown."""
    rights = cast(ClientRights | None, session.rights)
    if rights is None:  # it has waited since before ACLs decided: a consumer asks again
        return ErrorCode.NONE if session.is_replica else ErrorCode.NOT_LEADER_OR_FOLLOWER
    name = ""
    if topic_id.startswith(NAME_PREFIX):
        name = topic_id[len(NAME_PREFIX) :]
        name, topic_id = context.divergent_logs.topic_of(name) or (name, "")
    known = context.view.topic_by_id(topic_id)
    if hosted is not None:
        name = hosted.topic
    elif known is not None:
        name = known.topic
    if not name or rights.may(Operation.READ, ResourceType.TOPIC, name):
        return ErrorCode.NONE
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED


def applied_round(hosted: HostedPartition) -> AppliedRound | None:
    """Return what a reader of this replica is told of rounds of compaction. None: there were none, or the log
    was copied from one that has applied others, so that it has not come to any round's records yet."""
    rounds = hosted.log.rounds
    if rounds.compacted_to > rounds.reaches or not (hosted.is_compacted or rounds.reaches):
        return None
    offset = -1 if rounds.applied is None else rounds.applied.offset
    return AppliedRound(offset, rounds.reaches, max(rounds.floor, rounds.floor_known))


def _error_of_unhosted(
    context: BrokerContext, session: FetchSession, topic_id: str, partition: int
) -> ErrorCode:
    if topic_id.startswith(NAME_PREFIX):
        if not is_legal_topic_name(topic_id[len(NAME_PREFIX) :]):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if context.is_view_complete():
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    error = error_of_unhosted_id(context, topic_id, partition)
    is_unknown_id = error is ErrorCode.UNKNOWN_TOPIC_ID and not session.uses_topic_ids
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_unknown_id else error


def respond(
    context: BrokerContext, fetch: Fetch, session: FetchSession, answers: list[FetchedAnswer]
) -> None:
    """Encode and send. Record bytes stay where they are."""
    request = fetch.context
    assert isinstance(request, Request)
    throttle_time_ms = 0
    if request.account is not None:
        size_bytes = sum(answer.size_bytes for answer in answers)
        request.account.charge(QuotaName.CONSUMER_BYTE_RATE, size_bytes)
        throttle_time_ms = request.throttle_time_ms()
    if not throttle_time_ms and len(answers) == 1 and session.uses_topic_ids and answers[0].is_plain:
        _respond_plainly(context, request, session, answers[0])
        return
    leaders = LeaderHints(context, request.listener)
    partitions = [_encode_partition(context, request, session, answer, leaders) for answer in answers]
    request.reply_chunks(
        encode_fetch_response(
            request.api_version,
            partitions,
            session_id=session.session_id,
            throttle_time_ms=throttle_time_ms,
            node_endpoints=leaders.endpoints,
        )
    )


def _respond_plainly(
    context: BrokerContext, request: Request, session: FetchSession, answer: FetchedAnswer
) -> None:
    """The usual answer to a follower, and to a consumer of one partition."""
    key, result = answer.followed.key, answer.result
    _count(context, key, session, answer.size_bytes)
    request.answer.complete(
        encode_fetch_frame(
            correlation_id=request.correlation_id,
            session_id=session.session_id,
            topic_id=topic_id_bytes(key[0]),
            partition=key[1],
            offsets=(result.high_watermark, result.last_stable_offset, result.log_start_offset),
            records=() if result.records is None else result.records.parts,
            records_bytes=answer.size_bytes,
        )
    )


def _encode_partition(
    context: BrokerContext,
    request: Request,
    session: FetchSession,
    answer: FetchedAnswer,
    leaders: LeaderHints,
) -> FetchedPartition:
    key = answer.followed.key
    result = answer.result
    topic = _wire_topic(context, session, key[0])
    if result.error is not ErrorCode.NONE:
        context.counters.failed_fetch_requests += 1
        request.note_errors((result.error,))
        hint = None
        if result.error in _LEADER_ERRORS:
            hint = leaders.of(key[0], key[1])
        return FetchedPartition(
            topic,
            key[1],
            int(result.error),
            result.high_watermark,
            result.high_watermark,
            result.log_start_offset,
            current_leader=hint,
        )
    _count(context, key, session, answer.size_bytes)
    return FetchedPartition(
        topic,
        key[1],
        0,
        result.high_watermark,
        result.last_stable_offset,
        result.log_start_offset,
        () if result.records is None else result.records.parts,
        diverging_epoch=result.diverging,
        compacted=result.compacted,
        applied_round=result.applied_round,
        producers=result.producers,
        aborted=result.aborted,
    )


def _wire_topic(context: BrokerContext, session: FetchSession, topic_id: str) -> Topic:
    if session.uses_topic_ids:
        return topic_id_bytes(topic_id)
    if topic_id.startswith(NAME_PREFIX):
        return topic_id[len(NAME_PREFIX) :]
    known = context.view.topic_by_id(topic_id)
    if known is not None:
        return known.topic
    # Deleted since the client asked for it.
    return next((name for name, one in session.names.items() if one == topic_id), "")


def _count(context: BrokerContext, key: PartitionKey, session: FetchSession, size_bytes: int) -> None:
    if not size_bytes:
        return
    if session.is_replica:
        context.counters.replication_bytes_out += size_bytes
        learners = context.table.served_learners
        if learners.by_partition and session.replica_id in learners.by_partition.get(key, ()):
            context.counters.reassignment_bytes_out += size_bytes
            learners.on_sent(size_bytes, now_ms=context.mono_ms())
        return
    hosted = context.table.get(*key)
    if hosted is not None:
        context.table.note_read(hosted, size_bytes)
