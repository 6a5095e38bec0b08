"""DescribeLogDirs (KIP-113): what this broker has on its disk, and what truncations left of other logs.

Two directories are told: the log directory with a line for each replica, and `divergent/` in it, if there is
anything, where each copy of a dropped suffix stands as a topic of its own name. That name is what Fetch takes
to read the copy (docs/replication.md, 5.6, reading what was cut). A filter of topics and partitions goes by
those that the copies are of. A client that may not describe the cluster is told of neither, nor is any client
before this broker knows whether ACLs decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from dataplane.handlers.context import BrokerContext
from dataplane.shell.divergent_logs import Listed
from dataplane.shell.hosted import HostedPartition
from springtide.node.handlers.context import Request
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode

IsAsked = Callable[[str, int], bool]
"""(topic, partition)."""


def handle(context: BrokerContext, request: Request) -> None:
    is_asked = _filter(cast(Any, request.decode()).topics)
    error = ErrorCode.NONE
    if not request.may(Operation.DESCRIBE, ResourceType.CLUSTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    elif not context.is_view_complete():
        error = ErrorCode.BROKER_NOT_AVAILABLE
    if error is not ErrorCode.NONE:
        request.reply({"error_code": error, "results": ()})
        return

    def done(listed: Listed) -> None:
        results = [_log_dir(context, listed, is_asked)]
        if listed.failure is not None or listed.found:
            results.append(_divergent(context, listed, is_asked))
        request.reply({"error_code": ErrorCode.NONE, "results": results})

    context.divergent_logs.list(done)


def _filter(topics: Any) -> IsAsked:
    if topics is None:
        return lambda topic, partition: True
    asked: dict[str, set[int]] = {}
    for topic in topics:
        asked.setdefault(topic.topic, set()).update(topic.partitions)
    return lambda topic, partition: partition in asked.get(topic, ())


def _log_dir(context: BrokerContext, listed: Listed, is_asked: IsAsked) -> dict[str, object]:
    failure = context.log_dir_failure()
    topics: dict[str, list[dict[str, object]]] = {}
    if failure is None:
        for hosted in context.table:
            if is_asked(hosted.topic, hosted.partition):
                topics.setdefault(hosted.topic, []).append(_replica(hosted))
    return {
        "error_code": ErrorCode.NONE if failure is None else ErrorCode.KAFKA_STORAGE_ERROR,
        "log_dir": context.divergent_logs.directory.rpartition("/")[0],
        "topics": [{"name": name, "partitions": replicas} for name, replicas in topics.items()],
        "total_bytes": listed.total_bytes,
        "usable_bytes": listed.usable_bytes,
    }


def _replica(hosted: HostedPartition) -> dict[str, object]:
    log = hosted.log
    return {
        "partition_index": hosted.partition,
        "partition_size": log.size_bytes,
        "offset_lag": max(hosted.replica.high_watermark - log.log_end_offset, 0),
        "is_future_key": False,
    }


def _divergent(context: BrokerContext, listed: Listed, is_asked: IsAsked) -> dict[str, object]:
    return {
        "error_code": ErrorCode.NONE if listed.failure is None else ErrorCode.KAFKA_STORAGE_ERROR,
        "log_dir": context.divergent_logs.directory,
        "topics": [
            {
                "name": found.name,
                "partitions": [
                    {
                        "partition_index": found.range.partition,
                        "partition_size": found.size_bytes,
                        "offset_lag": 0,
                        "is_future_key": False,
                    }
                ],
            }
            for found in listed.found
            if is_asked(found.range.topic, found.range.partition)
        ],
        "total_bytes": listed.total_bytes,
        "usable_bytes": listed.usable_bytes,
    }
