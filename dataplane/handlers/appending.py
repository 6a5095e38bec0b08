"""A checked batch on its way into its replica's log: at once, or once its transaction's coordinator allows.

Check, append and state update of a partition are one call without an await (docs/replication.md 8.1, an await
between check and act). A batch that opens a transaction is judged twice so: once before its coordinator is
asked, when nothing of it is written, and once with the guard that the leader gave for the question. In
between the leadership may have ended, also to come back, and the client may have left: then nothing is
written.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec import structs

from dataplane.core.guards import Guard
from dataplane.core.leader import Leader
from dataplane.core.results import AppendResult, TxnContext
from dataplane.core.verifications import (
    SEND_AGAIN,
    ClaimedPlace,
    ClaimedTransaction,
    ReleasedBatches,
    producer_error,
)
from dataplane.handlers.context import BrokerContext
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.produces import ProduceWaiter
from springtide.node.handlers.context import Request
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import BatchHeader


class ProduceTerms(msgspec.Struct, frozen=True, gc=False):
    """What all batches of a Produce request share. txn: None without a transactional id."""

    request: Request
    acks: int
    expires_ms: int
    txn: TxnContext | None = None


@dataclass(slots=True, eq=False)
class _ParkedBatch:
    """leader: the leadership that has asked."""

    terms: ProduceTerms
    hosted: HostedPartition
    leader: Leader | None
    header: BatchHeader
    records: memoryview
    waiter: ProduceWaiter


def append(
    context: BrokerContext,
    terms: ProduceTerms,
    hosted: HostedPartition,
    header: BatchHeader,
    records: memoryview,
    waiter: ProduceWaiter,
    *,
    now_ms: int,
    wall_ms: int,
) -> None:
    """Have the replica append the batch, or the coordinator asked first; settle the waiter now or later."""
    txn = terms.txn
    result, effects = hosted.replica.role.append(
        header,
        records,
        acks=terms.acks,
        waiter=waiter,
        expires_ms=terms.expires_ms,
        now_ms=now_ms,
        wall_ms=wall_ms,
        txn=txn,
    )
    if result.must_verify is not None:
        assert txn is not None, "only a request with a transactional id has batches of transactions"
        context.verification.park(
            ClaimedTransaction(
                txn.transactional_id, header.producer_id, header.producer_epoch, not txn.is_v2
            ),
            ClaimedPlace(hosted.topic, hosted.partition, hosted.topic_id),
            result.must_verify,
            _ParkedBatch(terms, hosted, hosted.replica.leading, header, records, waiter),
            size_bytes=len(records),
            expires_ms=terms.expires_ms,
            now_ms=now_ms,
        )
        return
    if result.error is ErrorCode.NONE:
        hosted.bytes_in += len(records)
        hosted.messages_in += header.record_count
        if result.is_waiting:
            context.table.note_waiters(hosted)
    context.produces.on_appended(waiter, result)
    if effects:
        context.effects.run(hosted, effects)


def on_released(context: BrokerContext, released: ReleasedBatches) -> None:
    """Append what a coordinator has confirmed, in order, or answer what it has not."""
    now_ms, wall_ms = context.mono_ms(), context.wall_ms()
    for batch in released.batches:
        assert isinstance(batch, _ParkedBatch)
        terms, hosted = batch.terms, batch.hosted
        request = terms.request
        error = producer_error(released.error, request.api_version)
        if error is ErrorCode.NONE and hosted.replica.leading is not batch.leader:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif error is ErrorCode.NONE and request.answer.connection.closed:
            error = SEND_AGAIN
        if error is not ErrorCode.NONE:
            context.produces.on_appended(batch.waiter, AppendResult(error=error))
            continue
        assert isinstance(released.guard, Guard) and terms.txn is not None
        txn = structs.replace(terms.txn, verified=released.guard)
        append(
            context,
            structs.replace(terms, txn=txn),
            hosted,
            batch.header,
            batch.records,
            batch.waiter,
            now_ms=now_ms,
            wall_ms=wall_ms,
        )
