"""Offsets of transactions: a producer commits them, and the end of its transaction makes them count.

    TxnOffsetCommit --unless it is verified, or the transaction has pending offsets here--> MustVerify
                    --verified--> pending records            marker --> Kafka's records, or none

Three things are late at times, and must change nothing:

1. A commit whose transaction has ended. It is verified with the transaction's coordinator before it is
   written; a marker that is taken while it is makes the guard stale. Version 2 raises the epoch as well.
2. A marker of a former coordinator, or of an earlier transaction under a lower epoch: fenced.
3. A second delivery of a marker, after the next transaction began under the same epoch (version 1). The
   coordinator numbers what it sends, and nothing counts that is not above the last number that was taken.

All that one end changes is one batch, so what a producer may have pending is bound by what fits in one.
Of two pending offsets of a partition, and of a plain commit, the last one written counts at last, whichever
transaction ends first: it takes away those before it, which would not count any more.
"""

from __future__ import annotations

from coordinator.core.group_records import (
    CommittedOffset,
    EndedKey,
    OffsetKey,
    PendingKey,
    encode_offset,
    encode_offset_key,
)
from coordinator.core.groups.consumer.commits import check_member_epoch
from coordinator.core.groups.offsets import check_offset, drop_pending
from coordinator.core.groups.options import STRING_BYTES_MAX
from coordinator.core.groups.pending import PendingOffsets, bytes_of
from coordinator.core.groups.registry import Registry, Turn
from coordinator.core.groups.requests import (
    CommitPendingOffsets,
    EndPendingOffsets,
    MustVerify,
    OffsetsGuard,
    OffsetsReply,
    PendingOffsetsEnded,
)
from coordinator.core.groups.state import GroupState
from coordinator.core.machine import ShardRecord
from coordinator.core.pending_records import (
    EndedTransaction,
    PendingOffset,
    encode_ended,
    encode_ended_key,
    encode_pending,
    encode_pending_key,
)
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Outcome

VERSION_THAT_RAISES_EPOCHS = 2
"""`transaction.version` since which each end raises the epoch (KIP-890): the marker has the next one."""


def commit_pending_offsets(registry: Registry, turn: Turn, request: CommitPendingOffsets) -> None:
    """Keep the offsets that may be written until their transaction ends, or ask for its verification."""
    error = _check_group(registry, turn, request) or _check_producer(registry, request)
    if error is not ErrorCode.NONE:
        turn.reply(request.token, OffsetsReply(error))
        return
    guard = OffsetsGuard(registry.store.pending.ended.latest(request.producer_id))
    if not _is_open(registry, request):
        if request.guard is None:
            turn.reply(request.token, MustVerify(guard))
            return
        if request.guard != guard:
            turn.reply(request.token, OffsetsReply(ErrorCode.INVALID_TXN_STATE))
            return
    answers, written = [], {}
    for asked in request.offsets:
        error = check_offset(registry, asked)
        answers.append((asked.place, error))
        if error is ErrorCode.NONE:
            key = PendingKey(
                request.producer_id, OffsetKey(request.group_id, asked.place.topic, asked.place.partition)
            )
            written[key] = CommittedOffset(
                asked.offset,
                asked.leader_epoch,
                asked.metadata or "",
                turn.wall_ms,
                topic_id=asked.place.topic_id,
            )
    records, error = _pending(registry, request, written)
    if error is ErrorCode.NONE:
        turn.records += records
        turn.reply(request.token, OffsetsReply(ErrorCode.NONE, tuple(answers)))
    else:
        turn.reply(request.token, OffsetsReply(error))


def _check_group(registry: Registry, turn: Turn, request: CommitPendingOffsets) -> ErrorCode:
    """Return whether a client of this generation may commit (KIP-447). Producers of old clients know neither
    member nor generation, and are trusted. A commit proves nothing of the member's life: the producer made
    it."""
    if not request.group_id or len(request.group_id.encode()) > STRING_BYTES_MAX:
        return ErrorCode.INVALID_GROUP_ID
    names_member = request.generation_id >= 0 or request.member_id or request.instance_id is not None
    consumers = registry.find_consumers(request.group_id)
    if consumers is not None:
        return check_member_epoch(registry.consumers, consumers, request) if names_member else ErrorCode.NONE
    group = registry.find(turn, request.group_id)
    if group is None:
        return ErrorCode.ILLEGAL_GENERATION if request.generation_id >= 0 else ErrorCode.NONE
    if not names_member or (request.generation_id < 0 and group.state is GroupState.EMPTY):
        return ErrorCode.NONE
    return group.check_generation(request.member_id, request.instance_id, request.generation_id)


def _check_producer(registry: Registry, request: CommitPendingOffsets) -> ErrorCode:
    """Return whether no later epoch of the producer is known: before anything is verified (KAFKA-18042)."""
    pending, producer_id, epoch = registry.store.pending, request.producer_id, request.producer_epoch
    if producer_id < 0 or epoch < 0:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    ended = pending.ended.latest(producer_id)
    of_producer = pending.of_producer(producer_id)
    known = max((value.producer_epoch for _, value in of_producer), default=-1)
    if epoch < max(known, -1 if ended is None else ended.producer_epoch):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if ended is None and not of_producer and pending.producers_max >= registry.options.producers_max:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.NONE


def _is_open(registry: Registry, request: CommitPendingOffsets) -> bool:
    """Return whether this transaction has pending offsets in the shard: then its coordinator knows of it."""
    found = registry.store.pending.of_producer(request.producer_id)
    return any(value.producer_epoch == request.producer_epoch for _, value in found)


def _pending(
    registry: Registry, request: CommitPendingOffsets, written: dict[PendingKey, CommittedOffset]
) -> tuple[list[ShardRecord], ErrorCode]:
    """Return the records of pending offsets; or none and the reason, if there is no room for them."""
    pending, options = registry.store.pending, registry.options
    present = dict(pending.of_producer(request.producer_id))
    before = sum(bytes_of(key, value) for key, value in present.items())
    records = []
    for key, value in written.items():
        order = 1 + max((one.order for _, one in pending.at(key.place)), default=-1)
        present[key] = PendingOffset(request.producer_epoch, order, value)
        records.append(ShardRecord(encode_pending_key(key), encode_pending(present[key])))
    at_end = sum(bytes_of(key, value, len(_older(pending, key, value))) for key, value in present.items())
    if at_end > options.transaction_bytes_max:
        return [], ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    more = sum(bytes_of(key, value) for key, value in present.items()) - before
    if pending.size_bytes + more > options.pending_bytes_max:
        return [], ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return records, ErrorCode.NONE


def _older(pending: PendingOffsets, key: PendingKey, value: PendingOffset) -> list[PendingKey]:
    """Return other producers' pending offsets of the partition that were written before this one."""
    return [other for other, one in pending.at(key.place) if other != key and one.order < value.order]


def end_pending_offsets(registry: Registry, turn: Turn, request: EndPendingOffsets) -> None:
    """Take a marker: what the transaction has pending counts from now on, or is gone. It is told once that is
    committed, so that who hears of the end reads its offsets (KAFKA-17507)."""
    error, is_new = _judge(registry.store.pending.ended.latest(request.producer_id), request)
    if is_new:
        _end(registry, turn, request)
    turn.reply(request.token, PendingOffsetsEnded(error))
    turn.waits = True  # an earlier delivery may be under way


def _judge(ended: EndedTransaction | None, request: EndPendingOffsets) -> tuple[ErrorCode, bool]:
    """Return what a marker is answered, and whether it ends anything. ended: the last one that was taken."""
    if ended is None:
        return ErrorCode.NONE, True
    if request.coordinator_epoch < ended.coordinator_epoch:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED, False
    if request.producer_epoch < ended.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH, False
    is_same = request.producer_epoch == ended.producer_epoch
    if is_same and request.transaction_version >= VERSION_THAT_RAISES_EPOCHS:
        return ErrorCode.NONE, False  # KAFKA-19999: the coordinator's own, sent again
    is_same_coordinator = request.coordinator_epoch == ended.coordinator_epoch
    is_late = is_same_coordinator and 0 <= request.attempt <= ended.attempt
    return ErrorCode.NONE, not is_late


def _end(registry: Registry, turn: Turn, request: EndPendingOffsets) -> None:
    pending = registry.store.pending
    raises_epochs = request.transaction_version >= VERSION_THAT_RAISES_EPOCHS
    last_epoch = request.producer_epoch - raises_epochs
    for key, value in pending.of_producer(request.producer_id):
        if value.producer_epoch > last_epoch:
            continue
        if request.outcome is Outcome.COMMIT:
            turn.records.append(ShardRecord(encode_offset_key(key.place), encode_offset(value.offset)))
            drop_pending(turn, _older(pending, key, value))
        drop_pending(turn, [key])
    ended = EndedTransaction(request.producer_epoch, request.coordinator_epoch, request.attempt, turn.wall_ms)
    key_of_ended = encode_ended_key(EndedKey(request.producer_id))
    turn.records.append(ShardRecord(key_of_ended, encode_ended(ended)))


def expire_ended(registry: Registry, turn: Turn, producer_id: int, expiry_ms: int) -> None:
    """Forget how the last transaction of a producer ended that has long done nothing here."""
    pending = registry.store.pending
    ended = pending.ended.latest(producer_id)
    if ended is None or pending.of_producer(producer_id):
        return
    if expiry_ms - ended.ended_ms >= registry.options.ended_retention_ms:
        turn.records.append(ShardRecord(encode_ended_key(EndedKey(producer_id)), None))
