"""WriteTxnMarkers: transaction coordinators end a transaction in the partitions that this broker leads.

A marker is answered once it is committed, as a batch with acks=all is; a coordinator asks again until each of
its markers is. Operators' tools ask, too, to end a transaction that no coordinator has any more. The logs of
coordinators are not written here: the markers of a group's offsets go to the group's coordinator.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from dataplane.core.results import AppendResult
from dataplane.core.transactions import MarkerToWrite
from dataplane.handlers.context import BrokerContext
from dataplane.handlers.list_offsets import error_of_unhosted
from dataplane.shell.produces import PartitionOfProduce, WaitingProduce
from springtide.contract.epochs import NO_LEADER_EPOCH
from springtide.levels import TRANSACTIONS, allows
from springtide.node.handlers.context import Request
from springtide.node.handlers.transaction_refusals import refuse
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Outcome
from springtide.wire.messages import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    WriteTxnMarkersWritableTxnMarker,
    WriteTxnMarkersWritableTxnMarkerPartitionResult,
    WriteTxnMarkersWritableTxnMarkerResult,
    WriteTxnMarkersWritableTxnMarkerTopicResult,
)

COMMIT_MS_MAX: Final = 30_000
"""The time that a marker has to be committed: Kafka's request.timeout.ms."""
MARKERS_MAX: Final = 10_000
"""Markers that one request may have written, which takes a third of a second; coordinators send 500."""


def handle(context: BrokerContext, request: Request, message: WriteTxnMarkersRequest) -> None:
    asked = [
        (marker, topic.name, *place)
        for marker in message.markers
        for topic in marker.topics
        for place in zip_longest(
            topic.partition_indexes,
            topic.leader_epochs[: len(topic.partition_indexes)],
            fillvalue=NO_LEADER_EPOCH,
        )
    ]

    def finish(results: Sequence[AppendResult]) -> None:
        errors = iter([result.error for result in results])
        request.reply(
            WriteTxnMarkersResponse(
                markers=tuple(
                    WriteTxnMarkersWritableTxnMarkerResult(
                        producer_id=marker.producer_id,
                        topics=tuple(
                            WriteTxnMarkersWritableTxnMarkerTopicResult(
                                name=topic.name,
                                partitions=tuple(
                                    WriteTxnMarkersWritableTxnMarkerPartitionResult(
                                        partition_index=partition, error_code=next(errors)
                                    )
                                    for partition in topic.partition_indexes
                                ),
                            )
                            for topic in marker.topics
                        ),
                    )
                    for marker in message.markers
                )
            )
        )

    if not (
        request.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, is_filter=True)
        or request.may(Operation.ALTER, ResourceType.CLUSTER)
    ):
        refuse(request, message, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return
    if not allows(context.level(), TRANSACTIONS):
        refuse(request, message, ErrorCode.UNSUPPORTED_VERSION)
        return
    if len(asked) > MARKERS_MAX:
        refuse(request, message, ErrorCode.INVALID_REQUEST)
        return
    if not asked:
        finish(())
        return
    waiting = WaitingProduce(len(asked), finish)
    for index, place in enumerate(asked):
        _write(context, request, PartitionOfProduce(waiting, index), *place)


def _write(
    context: BrokerContext,
    request: Request,
    part: PartitionOfProduce,
    marker: WriteTxnMarkersWritableTxnMarker,
    topic: str,
    partition: int,
    leader_epoch: int,
) -> None:
    """One partition, without an await from the first check to the last effect."""
    hosted = context.table.get_by_name(topic, partition)
    if hosted is None:
        part.settle(AppendResult(error=error_of_unhosted(context, topic, partition)))
        return
    if hosted.is_shard:
        part.settle(AppendResult(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return
    result, effects = hosted.replica.role.write_marker(
        MarkerToWrite(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            outcome=Outcome.COMMIT if marker.transaction_result else Outcome.ABORT,
            transaction_version=marker.transaction_version,
            attempt=marker.attempt,
            leader_epoch=leader_epoch,
        ),
        waiter=part,
        expires_ms=request.now_ms + COMMIT_MS_MAX,
        now_ms=request.now_ms,
        wall_ms=context.wall_ms(),
    )
    if result.is_waiting:
        context.table.note_waiters(hosted)
        context.produces.on_appended(part, result)
    else:
        part.settle(result)
    if effects:
        context.effects.run(hosted, effects)
