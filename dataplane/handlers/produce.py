"""Produce: check each batch, hand it to its replica, answer when the last partition is settled.

Check, append and state update of a partition are one call without an await (appending.py); what has to wait
for replication waits in the replica and comes back through Produces. Partitions fail one by one: a bad batch
says nothing about its neighbours. With acks=0 there is no answer to carry an error, so the connection is
closed instead, as in Kafka, and the client looks for the leader again. A client without the right to write to
a topic gets the same answer whether or not it exists.

A request with a transactional id may hold batches of a transaction; whether a batch is of one, its own header
says, as in Kafka. One that opens a transaction in its partition waits for the coordinator's word.
"""

from __future__ import annotations

from collections.abc import Sequence

from dataplane.core.results import AppendResult, TxnContext
from dataplane.core.verifications import ADDS_SINCE
from dataplane.handlers.appending import ProduceTerms, append
from dataplane.handlers.context import BrokerContext
from dataplane.handlers.leaders import LeaderHints
from dataplane.handlers.list_offsets import error_of_unhosted, error_of_unhosted_id
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.produces import PartitionOfProduce, ProduceWaiter, WaitingProduce
from springtide.levels import TRANSACTIONS, allows
from springtide.node.authorization import ClientRights
from springtide.node.handlers.context import Request
from springtide.node.topic_ids import topic_id_text
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.apis import APIS, TOO_OLD_ERROR, ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import Topic
from springtide.wire.leader_hints import CurrentLeader
from springtide.wire.produce import (
    ZSTD_SINCE,
    ProducedPartition,
    ProduceOutcome,
    ProduceRequest,
    decode_produce_request,
    encode_produce_frame,
    encode_produce_response,
)
from springtide.wire.produced_records import check_produced_records, plain_batch_header
from springtide.wire.record_batch import HEADER_BYTES, BatchHeader, check_produced_batch, decode_header
from springtide.wire.refused_records import RefusedRecords, refused_records

SERVED_SINCE = APIS[ApiKey.PRODUCE].served_since
ACKS_ALL = -1
ACKS_NONE = 0
ACKS_LEADER = 1
TIMEOUT_MS_MAX = 10 * 60 * 1000
"""A producer may wait this long for its in-sync set; it is the client's own delivery timeout that counts."""

DECOMPRESSED_FACTOR_MAX = 64
"""What a batch may unfold to, in multiples of max.message.bytes."""

TRANSACTIONAL_ID_CHARS_MAX = 2**15 - 1
"""As Kafka's: longer ones have no place in the older versions of its requests."""

NO_TRANSACTIONS = "this cluster has no transactions yet"
_RECORD_ERRORS = frozenset({ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP})
_LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

ERROR_MESSAGES = {
    ErrorCode.UNSUPPORTED_VERSION: "record batches of format 2 (Produce v3 and later) are required",
    ErrorCode.INVALID_TXN_STATE: "the partition is not in this producer's transaction; nothing was written",
    ErrorCode.TRANSACTION_ABORTABLE: (
        "the partition is not in this producer's transaction, which can only be aborted; nothing was written"
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: "only the coordinators of this cluster write to this topic",
    ErrorCode.UNKNOWN_PRODUCER_ID: "what comes before this batch is not stored; nothing was written",
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        "nothing was written: fewer in-sync replicas than min.insync.replicas, or this log does not know the "
        "producer and takes its batch when it comes again, or no coordinator has confirmed its transaction"
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "written, but the in-sync set fell below min.insync.replicas",
}


class SingleProduce:
    """A request of one partition, which nearly all are: waiter and answer in one object."""

    __slots__ = ("_context", "_message", "_request", "result")

    def __init__(self, context: BrokerContext, request: Request, message: ProduceRequest) -> None:
        self._context = context
        self._request = request
        self._message = message
        self.result: AppendResult

    def settle(self, result: AppendResult) -> None:
        request, message = self._request, self._message
        is_throttled = request.account is not None and request.throttle_time_ms() > 0
        if result.error is not ErrorCode.NONE or message.acks == ACKS_NONE or is_throttled:
            _finish(self._context, request, message, [result])
            return
        topic, partition, _ = message.partitions[0]
        request.answer.complete(
            (
                encode_produce_frame(
                    request.api_version,
                    correlation_id=request.correlation_id,
                    topic=topic,
                    partition=partition,
                    base_offset=result.base_offset,
                    log_append_time_ms=result.log_append_time_ms,
                    log_start_offset=result.log_start_offset,
                ),
            )
        )


def handle(context: BrokerContext, request: Request) -> None:
    message = decode_produce_request(
        request.api_version, request.frame, request.body_position, on_rest=request.on_rest
    )
    partitions = message.partitions
    refusal = _refusal(context, request, message)
    txn = None
    if message.transactional_id is not None and refusal is ErrorCode.NONE:
        txn = TxnContext(message.transactional_id, request.api_version >= ADDS_SINCE)
    expires_ms = request.now_ms + min(max(message.timeout_ms, 0), TIMEOUT_MS_MAX)
    terms = ProduceTerms(request, message.acks, expires_ms, txn)
    wall_ms = context.wall_ms()
    rights = request.rights
    if len(partitions) == 1:
        waiter = SingleProduce(context, request, message)
        if rights is not None and refusal is ErrorCode.NONE:
            refusal = _denial(context, rights, partitions[0][0])
        _produce_partition(context, terms, partitions[0], waiter, refusal, wall_ms)
        return
    if not partitions:
        _finish(context, request, message, [])
        return
    waiting = WaitingProduce(len(partitions), lambda results: _finish(context, request, message, results))
    denials: dict[Topic, ErrorCode] = {}
    if rights is not None and refusal is ErrorCode.NONE:
        topics = {produced[0]: None for produced in partitions}
        denials = {topic: _denial(context, rights, topic) for topic in topics}
    for index, produced in enumerate(partitions):
        part = PartitionOfProduce(waiting, index)
        _produce_partition(context, terms, produced, part, denials.get(produced[0], refusal), wall_ms)


def _produce_partition(
    context: BrokerContext,
    terms: ProduceTerms,
    produced: ProducedPartition,
    waiter: ProduceWaiter,
    refusal: ErrorCode,
    wall_ms: int,
) -> None:
    """One partition, without an await from the first check to the last effect."""
    topic, partition, records = produced
    table, produces = context.table, context.produces
    request, txn = terms.request, terms.txn
    if isinstance(topic, bytes):
        hosted = table.get(topic_id_text(topic), partition)
    else:
        hosted = table.get_by_name(topic, partition)
    if refusal is not ErrorCode.NONE:
        produces.on_appended(waiter, AppendResult(error=refusal))
        return
    if hosted is None:
        produces.on_appended(waiter, AppendResult(error=_error_of_unhosted(context, topic, partition)))
        return
    size = len(records)
    error = ErrorCode.NONE
    header = plain_batch_header(
        records,
        max_message_bytes=hosted.max_message_bytes,
        needs_keys=hosted.needs_keys,
        timestamp_ms_min=hosted.timestamp_ms_min(wall_ms),
        timestamp_ms_max=hosted.timestamp_ms_max(wall_ms),
    )
    if header is None:
        header = decode_header(records) if size >= HEADER_BYTES else None
        error = check_produced_batch(
            records,
            max_message_bytes=hosted.max_message_bytes,
            header=header,
            is_zstd_allowed=request.api_version >= ZSTD_SINCE,
            is_transactional_allowed=txn is not None,
        )
        if error is ErrorCode.NONE and header is not None:
            error, header, records = check_produced_records(
                records,
                header,
                decompressed_bytes_max=hosted.max_message_bytes * DECOMPRESSED_FACTOR_MAX,
                needs_keys=hosted.needs_keys,
                is_append_time=hosted.is_append_time,
                timestamp_ms_min=hosted.timestamp_ms_min(wall_ms),
                timestamp_ms_max=hosted.timestamp_ms_max(wall_ms),
            )
    if error is ErrorCode.NONE and size > hosted.segment_bytes:
        error = ErrorCode.RECORD_LIST_TOO_LARGE
    if error is not ErrorCode.NONE or header is None:
        if error is ErrorCode.INVALID_TXN_STATE and allows(context.level(), TRANSACTIONS) and txn is None:
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED  # it names none, as Kafka says
        leader = hosted.replica.leading
        if leader is not None:
            leader.on_unread()
        refused = _refused(hosted, records, header, wall_ms) if error in _RECORD_ERRORS else None
        produces.on_appended(waiter, AppendResult(error=error, refused=refused))
        return
    append(context, terms, hosted, header, records, waiter, now_ms=request.now_ms, wall_ms=wall_ms)


def _refused(
    hosted: HostedPartition, records: memoryview, header: BatchHeader | None, wall_ms: int
) -> RefusedRecords:
    """Return which records a batch is refused for. The checks have left it as it came."""
    return refused_records(
        records,
        header,
        decompressed_bytes_max=hosted.max_message_bytes * DECOMPRESSED_FACTOR_MAX,
        needs_keys=hosted.needs_keys,
        is_append_time=hosted.is_append_time,
        timestamp_ms_min=hosted.timestamp_ms_min(wall_ms),
        timestamp_ms_max=hosted.timestamp_ms_max(wall_ms),
    )


def _denial(context: BrokerContext, rights: ClientRights, topic: Topic) -> ErrorCode:
    """Return why the client may not write to the topic, or NONE. Coordinators alone write to theirs: a client
    that names another's writer in a batch does not pass for one."""
    view = context.view
    if isinstance(topic, bytes):
        known = view.topic_by_id(topic_id_text(topic))
        if known is None:
            return error_of_unhosted_id(context, topic_id_text(topic), 0)
        name = known.topic
    else:
        known, name = view.topic_by_name(topic), topic
    if not rights.may(Operation.WRITE, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    state = None if known is None else view.state(known.topic_id, 0)
    if state is not None and state.shard is not None and not rights.is_member:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.NONE


def _error_of_unhosted(context: BrokerContext, topic: Topic, partition: int) -> ErrorCode:
    if isinstance(topic, bytes):
        return error_of_unhosted_id(context, topic_id_text(topic), partition)
    return error_of_unhosted(context, topic, partition)


def _refusal(context: BrokerContext, request: Request, message: ProduceRequest) -> ErrorCode:
    """Return what is wrong with the whole request, or NONE. Each of its partitions is answered with it."""
    if request.api_version < SERVED_SINCE:
        return TOO_OLD_ERROR
    if message.acks not in (ACKS_ALL, ACKS_NONE, ACKS_LEADER):
        return ErrorCode.INVALID_REQUIRED_ACKS
    transactional_id = message.transactional_id
    if transactional_id is None:
        return ErrorCode.NONE
    if not allows(context.level(), TRANSACTIONS):
        return ErrorCode.INVALID_TXN_STATE
    if not request.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if message.acks != ACKS_ALL:
        return ErrorCode.INVALID_REQUIRED_ACKS
    if len(transactional_id) > TRANSACTIONAL_ID_CHARS_MAX:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _finish(
    context: BrokerContext, request: Request, message: ProduceRequest, results: Sequence[AppendResult]
) -> None:
    """The last partition is settled."""
    if message.acks == ACKS_NONE and request.api_version >= SERVED_SINCE:
        if any(result.error is not ErrorCode.NONE for result in results):
            request.note_errors(result.error for result in results)
            request.answer.connection.close()
        else:
            request.reply_nothing()
        return
    outcomes: list[ProduceOutcome] = []
    leaders = LeaderHints(context, request.listener)
    for asked, result in zip(message.partitions, results, strict=True):
        if result.error is ErrorCode.NONE:
            outcomes.append(
                ProduceOutcome(
                    asked[0],
                    asked[1],
                    0,
                    result.base_offset,
                    result.log_append_time_ms,
                    result.log_start_offset,
                )
            )
        else:
            request.note_errors((result.error,))
            outcomes.append(_failed_outcome(context, asked, result, leaders))
    request.reply_chunks(
        [
            encode_produce_response(
                request.api_version,
                outcomes,
                throttle_time_ms=request.throttle_time_ms(),
                node_endpoints=leaders.endpoints,
            )
        ]
    )


def _failed_outcome(
    context: BrokerContext,
    asked: ProducedPartition,
    result: AppendResult,
    leaders: LeaderHints,
) -> ProduceOutcome:
    """An error, and where the leader is if that is what was wrong (KIP-951)."""
    topic, partition, _ = asked
    hint: CurrentLeader | None = None
    if result.error in _LEADER_ERRORS:
        hint = leaders.of(_topic_id(context, topic), partition)
    refused = result.refused
    return ProduceOutcome(
        topic,
        partition,
        int(result.error),
        log_start_offset=result.log_start_offset,
        error_message=_message(context, result.error) if refused is None else refused.message,
        current_leader=hint,
        record_errors=() if refused is None else refused.records,
    )


def _message(context: BrokerContext, error: ErrorCode) -> str | None:
    if error is ErrorCode.KAFKA_STORAGE_ERROR:
        failure = context.log_dir_failure()
        if failure is not None:
            return f"the log directory failed: {failure}"
        return str(context.room) if context.room.is_short else None
    if error is ErrorCode.INVALID_TXN_STATE and not allows(context.level(), TRANSACTIONS):
        return NO_TRANSACTIONS
    return ERROR_MESSAGES.get(error)


def _topic_id(context: BrokerContext, topic: Topic) -> str:
    """Return the id in its text, or "" for a name that no topic has."""
    if isinstance(topic, bytes):
        return topic_id_text(topic)
    known = context.view.topic_by_name(topic)
    return "" if known is None else known.topic_id
