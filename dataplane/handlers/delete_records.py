"""DeleteRecords: a client moves the start of a partition's log (KIP-107).

The controller is asked before anything is deleted, as for every call that destroys something: it knows
whether such calls are open, and writes down who asked. Then the leader moves its log start. A partition is
answered when every replica that may be elected has stored as high a one (I37, what a client deleted stays
deleted).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from dataplane.core.results import DeletionResult
from dataplane.handlers.context import BrokerContext
from dataplane.handlers.list_offsets import error_of_unhosted
from dataplane.handlers.produce import TIMEOUT_MS_MAX
from dataplane.shell.hosted import HostedPartition
from springtide.contract.administration import AdminOutcome, DeleteRecordsCall, RecordsBefore, RecordsToDelete
from springtide.node.handlers.administer import administer
from springtide.node.handlers.context import Request
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

TopicPartition = tuple[str, int]


def handle(context: BrokerContext, request: Request, message: DeleteRecordsRequest) -> None:
    _DeleteRecords(context, request, message).start()


class _DeleteRecords:
    """One request while its partitions are deleted from."""

    def __init__(self, context: BrokerContext, request: Request, message: DeleteRecordsRequest) -> None:
        self._context = context
        self._request = request
        self._message = message
        self._expires_ms = request.now_ms + min(max(message.timeout_ms, 0), TIMEOUT_MS_MAX)
        #: The partitions that this broker leads, with the offset to delete up to.
        self._led: dict[str, dict[int, tuple[HostedPartition, int]]] = {}
        self._results: dict[TopicPartition, DeletionResult] = {}
        self._pending = 1  # the start itself

    def start(self) -> None:
        asked = Counter(
            (topic.name, partition.partition_index)
            for topic in self._message.topics
            for partition in topic.partitions
        )
        for topic in self._message.topics:
            may_delete = self._request.may(Operation.DELETE, ResourceType.TOPIC, topic.name)
            for partition in topic.partitions:
                place = (topic.name, partition.partition_index)
                if not may_delete:
                    self._results[place] = DeletionResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    continue
                hosted = self._context.table.get_by_name(*place)
                if asked[place] > 1:
                    self._results[place] = DeletionResult(ErrorCode.INVALID_REQUEST)
                elif hosted is None:
                    self._results[place] = DeletionResult(error_of_unhosted(self._context, *place))
                elif not hosted.replica.role.may_serve(self._request.now_ms):
                    self._results[place] = DeletionResult(hosted.replica.role.refusal)
                else:
                    self._led.setdefault(topic.name, {})[place[1]] = (hosted, partition.offset)
        call = DeleteRecordsCall(
            topics=tuple(
                RecordsToDelete(
                    topic=topic,
                    partitions=tuple(
                        RecordsBefore(partition=number, before_offset=offset)
                        for number, (_, offset) in numbers.items()
                    ),
                )
                for topic, numbers in self._led.items()
            )
        )
        administer(
            self._context,
            self._request,
            call,
            named=len(self._led),
            timeout_ms=self._message.timeout_ms,
            answer=self._on_granted,
        )

    def _on_granted(self, outcomes: Sequence[AdminOutcome]) -> None:
        for (topic, numbers), outcome in zip(self._led.items(), outcomes, strict=True):
            for number, (hosted, offset) in numbers.items():
                self._pending += 1
                if outcome.error_code:
                    self._settle((topic, number), DeletionResult(ErrorCode(outcome.error_code)))
                else:
                    self._delete((topic, number), hosted, offset)
        self._finish_one()

    def _delete(self, place: TopicPartition, hosted: HostedPartition, offset: int) -> None:
        """Delete from the replica that was found at first: by now its name may be another topic's (I21, topic
        ids decide)."""
        result, effects = hosted.replica.role.delete_records(
            offset,
            waiter=partial(self._settle, place),
            expires_ms=self._expires_ms,
            now_ms=self._context.mono_ms(),
        )
        if result.is_waiting:
            self._context.table.note_waiters(hosted)
        else:
            self._settle(place, result)
        self._context.effects.run(hosted, effects)

    def _settle(self, place: TopicPartition, result: DeletionResult) -> None:
        self._results[place] = result
        self._finish_one()

    def _finish_one(self) -> None:
        self._pending -= 1
        if self._pending == 0:
            self._reply()

    def _reply(self) -> None:
        self._request.reply(
            DeleteRecordsResponse(
                topics=tuple(
                    DeleteRecordsTopicResult(
                        name=topic.name,
                        partitions=tuple(
                            self._partition(topic.name, partition.partition_index)
                            for partition in topic.partitions
                        ),
                    )
                    for topic in self._message.topics
                )
            )
        )

    def _partition(self, topic: str, partition: int) -> DeleteRecordsPartitionResult:
        result = self._results[topic, partition]
        return DeleteRecordsPartitionResult(
            partition_index=partition, low_watermark=result.low_watermark, error_code=result.error
        )
