"""DescribeLogDirs (KIP-113) in every version: replicas, dropped suffixes, filters, and a disk that failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dataplane.handlers.context import BrokerContext
from dataplane.handlers.table import HANDLERS
from dataplane.shell.divergent_logs import Listed
from dataplane.storage.divergent import DivergentRange, FoundCopy
from springtide.contract.epochs import LeaderEpoch
from springtide.node.handlers.context import Request
from springtide.wire import codec
from springtide.wire.apis import APIS, ApiKey, response_header_version
from springtide.wire.errors import ErrorCode

KEY = ApiKey.DESCRIBE_LOG_DIRS
VERSIONS = range(APIS[KEY].version_min, APIS[KEY].version_max + 1)


def hosted(topic: str, partition: int, *, size: int, end: int, high_watermark: int) -> Any:
    return SimpleNamespace(
        topic=topic,
        partition=partition,
        log=SimpleNamespace(size_bytes=size, log_end_offset=end),
        replica=SimpleNamespace(high_watermark=high_watermark),
    )


TABLE = [
    hosted("orders", 0, size=100, end=9, high_watermark=9),
    hosted("clicks", 0, size=5, end=1, high_watermark=0),
    hosted("orders", 2, size=0, end=0, high_watermark=0),
]
COPY = FoundCopy(
    "/data/divergent/orders-2.AAAAAAAAAAAAAAAAAAAAAA.x.0.batches",
    77,
    DivergentRange("AAAAAAAAAAAAAAAAAAAAAA", "orders", 2, 3, 8, 5, LeaderEpoch(1), 1, 1, "why"),
)
COPY_NAME = "orders-2.AAAAAAAAAAAAAAAAAAAAAA.x.0"


class Copies:
    directory = "/data/divergent"

    def __init__(self, listed: Listed) -> None:
        self._listed = listed

    def list(self, done: Callable[[Listed], None]) -> None:
        done(self._listed)


def ask(
    version: int, topics: Any = None, *, listed: Listed | None = None, failure: str | None = None
) -> dict[str, tuple[int, list[tuple[str, list[tuple[int, int, int]]]], tuple[int, int]]]:
    """directory -> (error, [(name, [(partition, size, lag)])], (usable, total bytes))."""
    sent: list[bytes] = []

    def complete(chunks: Sequence[Any]) -> None:
        sent.append(b"".join(bytes(chunk) for chunk in chunks))

    request = Request(
        api_key=KEY,
        api_version=version,
        correlation_id=9,
        frame=memoryview(codec.encode(codec.build(codec.request_type(KEY, version), {"topics": topics}))),
        body_position=0,
        answer=cast(Any, SimpleNamespace(complete=complete)),
        now_ms=0,
    )
    context = SimpleNamespace(
        table=TABLE,
        divergent_logs=Copies(listed or Listed((COPY,), usable_bytes=1_000, total_bytes=9_000)),
        log_dir_failure=lambda: failure,
        is_view_complete=lambda: True,
    )
    HANDLERS[KEY](cast(BrokerContext, context), request)
    (frame,) = sent
    header_bytes = 8 + response_header_version(KEY, version)
    answer = cast(Any, codec.decode(codec.response_type(KEY, version), frame, header_bytes))
    return {
        result.log_dir: (
            int(result.error_code),
            [
                (
                    topic.name,
                    [
                        (each.partition_index, each.partition_size, each.offset_lag)
                        for each in topic.partitions
                    ],
                )
                for topic in result.topics
            ],
            (getattr(result, "usable_bytes", -1), getattr(result, "total_bytes", -1)),
        )
        for result in answer.results
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_replicas_and_dropped_suffixes_are_told_in_every_version(version: int) -> None:
    sizes = (1_000, 9_000) if version >= 4 else (-1, -1)
    assert ask(version) == {
        "/data": (0, [("orders", [(0, 100, 0), (2, 0, 0)]), ("clicks", [(0, 5, 0)])], sizes),
        "/data/divergent": (0, [(COPY_NAME, [(2, 77, 0)])], sizes),
    }


def test_a_filter_goes_by_the_partition_that_a_copy_is_of() -> None:
    assert ask(4, [{"topic": "orders", "partitions": (2, 2, 7)}, {"topic": "none", "partitions": (0,)}]) == {
        "/data": (0, [("orders", [(2, 0, 0)])], (1_000, 9_000)),
        "/data/divergent": (0, [(COPY_NAME, [(2, 77, 0)])], (1_000, 9_000)),
    }
    clicks = ask(4, [{"topic": "clicks", "partitions": (0,)}])
    assert clicks["/data/divergent"] == (0, [], (1_000, 9_000))


def test_where_nothing_was_ever_dropped_there_is_one_directory() -> None:
    assert list(ask(4, listed=Listed())) == ["/data"]


def test_a_directory_that_failed_holds_nothing_that_could_be_told() -> None:
    failed = ask(4, failure="EIO", listed=Listed(failure="EIO"))
    error = ErrorCode.KAFKA_STORAGE_ERROR
    assert failed == {"/data": (error, [], (-1, -1)), "/data/divergent": (error, [], (-1, -1))}
