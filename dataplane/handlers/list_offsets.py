"""ListOffsets: the earliest and latest offset, the first record at or after a timestamp (KIP-79), and the
record with the largest (KIP-734).

v0 is answered for both ends of a log with the one offset that later versions answer. A timestamp meant
segments there, not records, so it is refused.

Both ends of a log are known at once. A timestamp is looked up in the log: here, if what has to be read was
written just now, else in a thread while the loop goes on, and the replica judges what came of it. The answer
leaves when the last partition has its own.
"""

from __future__ import annotations

from collections import Counter

from dataplane.core.results import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    OffsetResult,
    TimestampLookup,
)
from dataplane.core.transactions import IsolationLevel
from dataplane.handlers.context import BrokerContext
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.lookups import Found, look_up
from springtide.contract.epochs import LeaderEpoch
from springtide.node.handlers.context import Request
from springtide.node.handlers.metadata import is_legal_topic_name
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

TIMESTAMPS_SINCE = 1
SPECIAL_SINCE = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""The version that brought a special timestamp (KIP-734, KIP-405, KIP-1005, KIP-1023)."""
OFFSET_NOT_AVAILABLE_SINCE = 5
"""Clients of earlier versions know only LEADER_NOT_AVAILABLE for it (KIP-207)."""
ISOLATION_LEVELS = tuple(IsolationLevel)
"""By number. Any other is answered as by Kafka, with UNKNOWN_SERVER_ERROR."""
LOOKUPS_AGAIN_MAX = 3
"""A log whose oldest part goes away under a lookup is looked up again so many times."""


def handle(context: BrokerContext, request: Request, message: ListOffsetsRequest) -> None:
    _ListOffsets(context, request, message).start()


class _ListOffsets:
    """One request while its partitions are looked up."""

    def __init__(self, context: BrokerContext, request: Request, message: ListOffsetsRequest) -> None:
        self._context = context
        self._request = request
        self._message = message
        self._results: dict[tuple[int, int], OffsetResult] = {}
        self._pending = 1  # the start itself

    def start(self) -> None:
        asked = Counter(
            (topic.name, partition.partition_index)
            for topic in self._message.topics
            for partition in topic.partitions
        )
        is_level_known = self._message.isolation_level in ISOLATION_LEVELS
        for row, topic in enumerate(self._message.topics):
            may_describe = self._request.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
            for column, partition in enumerate(topic.partitions):
                self._pending += 1
                place = (row, column)
                if not may_describe:
                    self._settle(place, OffsetResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                elif not is_level_known:
                    self._settle(place, OffsetResult(ErrorCode.UNKNOWN_SERVER_ERROR))
                elif asked[topic.name, partition.partition_index] > 1:
                    self._settle(place, OffsetResult(ErrorCode.INVALID_REQUEST))
                else:
                    self._begin(place, topic.name, partition)
        self._finish_one()

    def _begin(self, place: tuple[int, int], topic: str, asked: ListOffsetsPartition) -> None:
        context, request = self._context, self._request
        hosted = context.table.get_by_name(topic, asked.partition_index)
        if hosted is None:
            error = error_of_unhosted(context, topic, asked.partition_index)
            self._settle(place, OffsetResult(error))
            return
        since = 0 if asked.timestamp in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP) else TIMESTAMPS_SINCE
        if request.api_version < SPECIAL_SINCE.get(asked.timestamp, since):
            self._settle(place, OffsetResult(ErrorCode.UNSUPPORTED_VERSION))
            return
        result = hosted.replica.role.list_offset(
            asked.timestamp,
            leader_epoch=LeaderEpoch(asked.current_leader_epoch),
            now_ms=request.now_ms,
            isolation=ISOLATION_LEVELS[self._message.isolation_level],
        )
        self._go_on(place, hosted, result, LOOKUPS_AGAIN_MAX)

    def _go_on(
        self,
        place: tuple[int, int],
        hosted: HostedPartition,
        result: OffsetResult | TimestampLookup,
        again_max: int,
    ) -> None:
        if isinstance(result, OffsetResult):
            self._settle(place, result)
            return
        if again_max == 0:
            self._settle(place, OffsetResult(ErrorCode.OFFSET_NOT_AVAILABLE))
            return
        context, lookup = self._context, result

        def done(found: Found) -> None:
            now_ms = context.mono_ms()
            following, effects = hosted.replica.role.on_looked_up(lookup, found, now_ms=now_ms)
            context.effects.run(hosted, effects)
            self._go_on(place, hosted, following, again_max - 1)

        if hosted.log.is_lookup_cold(lookup.timestamp_ms):
            context.lookups.start(hosted.log, lookup, done)
        else:
            done(look_up(hosted.log, lookup))

    def _settle(self, place: tuple[int, int], result: OffsetResult) -> None:
        self._results[place] = result
        self._finish_one()

    def _finish_one(self) -> None:
        self._pending -= 1
        if self._pending == 0:
            self._reply()

    def _reply(self) -> None:
        self._request.reply(
            ListOffsetsResponse(
                topics=tuple(
                    ListOffsetsTopicResponse(
                        name=topic.name,
                        partitions=tuple(
                            self._partition(partition.partition_index, self._results[row, column])
                            for column, partition in enumerate(topic.partitions)
                        ),
                    )
                    for row, topic in enumerate(self._message.topics)
                )
            )
        )

    def _partition(self, number: int, result: OffsetResult) -> ListOffsetsPartitionResponse:
        error = result.error
        if error is ErrorCode.OFFSET_NOT_AVAILABLE and self._request.api_version < OFFSET_NOT_AVAILABLE_SINCE:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(
            partition_index=number,
            error_code=error,
            timestamp=result.timestamp_ms,
            offset=result.offset,
            old_style_offsets=() if result.offset < 0 else (result.offset,),
            leader_epoch=result.leader_epoch,
        )


def error_of_unhosted(context: BrokerContext, topic: str, partition: int) -> ErrorCode:
    """Return why there is no replica of a named partition here."""
    if not is_legal_topic_name(topic):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    known = context.view.topic_by_name(topic)
    if known is not None and context.view.state(known.topic_id, partition) is not None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    # Before the first full state this broker does not know what is absent.
    return (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if context.is_view_complete()
        else ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


def error_of_unhosted_id(context: BrokerContext, topic_id: str, partition: int) -> ErrorCode:
    """Return why there is no replica here of a partition whose topic is given by its id."""
    if context.view.topic_by_id(topic_id) is None:
        return ErrorCode.UNKNOWN_TOPIC_ID if context.is_view_complete() else ErrorCode.NOT_LEADER_OR_FOLLOWER
    if context.view.state(topic_id, partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NOT_LEADER_OR_FOLLOWER
