"""DescribeLogDirs (KIP-113): what this broker has on its disk, and what truncations left of other logs.

Two directories are told: the log directory with a line for each replica, and `divergent/` in it, if there is
anything, where each copy of a dropped suffix stands as a topic of its own name. That name is what Fetch takes
to read the copy (docs/replication.md, 5.6, reading what was cut). A filter of topics and partitions goes by
those that the copies are of. A client that may not describe the cluster is told of neither, nor is any client
before this broker knows whether ACLs decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dataplane.handlers.context import BrokerContext
from dataplane.shell.divergent_logs import Listed
from dataplane.shell.hosted import HostedPartition
from springtide.node.handlers.context import Request
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    DescribeLogDirsDescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

IsAsked = Callable[[str, int], bool]
"""(topic, partition)."""


def handle(context: BrokerContext, request: Request, message: DescribeLogDirsRequest) -> None:
    is_asked = _filter(message.topics)
    error = ErrorCode.NONE
    if not request.may(Operation.DESCRIBE, ResourceType.CLUSTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    elif not context.is_view_complete():
        error = ErrorCode.BROKER_NOT_AVAILABLE
    if error is not ErrorCode.NONE:
        request.reply(DescribeLogDirsResponse(error_code=error))
        return

    def done(listed: Listed) -> None:
        results = [_log_dir(context, listed, is_asked)]
        if listed.failure is not None or listed.found:
            results.append(_divergent(context, listed, is_asked))
        request.reply(DescribeLogDirsResponse(results=tuple(results)))

    context.divergent_logs.list(done)


def _filter(topics: Sequence[DescribeLogDirsDescribableLogDirTopic] | None) -> IsAsked:
    if topics is None:
        return lambda topic, partition: True
    asked: dict[str, set[int]] = {}
    for topic in topics:
        asked.setdefault(topic.topic, set()).update(topic.partitions)
    return lambda topic, partition: partition in asked.get(topic, ())


def _log_dir(context: BrokerContext, listed: Listed, is_asked: IsAsked) -> DescribeLogDirsResult:
    failure = context.log_dir_failure()
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    if failure is None:
        for hosted in context.table:
            if is_asked(hosted.topic, hosted.partition):
                topics.setdefault(hosted.topic, []).append(_replica(hosted))
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE if failure is None else ErrorCode.KAFKA_STORAGE_ERROR,
        log_dir=context.divergent_logs.directory.rpartition("/")[0],
        topics=tuple(
            DescribeLogDirsTopic(name=name, partitions=tuple(replicas)) for name, replicas in topics.items()
        ),
        total_bytes=listed.total_bytes,
        usable_bytes=listed.usable_bytes,
    )


def _replica(hosted: HostedPartition) -> DescribeLogDirsPartition:
    log = hosted.log
    return DescribeLogDirsPartition(
        partition_index=hosted.partition,
        partition_size=log.size_bytes,
        offset_lag=max(hosted.replica.high_watermark - log.log_end_offset, 0),
    )


def _divergent(context: BrokerContext, listed: Listed, is_asked: IsAsked) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE if listed.failure is None else ErrorCode.KAFKA_STORAGE_ERROR,
        log_dir=context.divergent_logs.directory,
        topics=tuple(
            DescribeLogDirsTopic(
                name=found.name,
                partitions=(
                    DescribeLogDirsPartition(
                        partition_index=found.range.partition, partition_size=found.size_bytes
                    ),
                ),
            )
            for found in listed.found
            if is_asked(found.range.topic, found.range.partition)
        ),
        total_bytes=listed.total_bytes,
        usable_bytes=listed.usable_bytes,
    )
