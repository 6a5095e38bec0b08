"""Which record of a batch a leader refuses, and how a client learns of it: Kafka's answers, byte by byte."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from tests.integration.dataplane.test_bytes_on_the_wire import on_a_broker, produce_fields
from tests.kit.dataplane.cluster_in_process import ClusterInProcess
from tests.kit.dataplane.raw import Raw

MINUTE_MS = 60_000


@pytest.mark.parametrize(
    ("ahead_ms", "error"),
    [(59 * MINUTE_MS, ErrorCode.NONE), (61 * MINUTE_MS, ErrorCode.INVALID_TIMESTAMP)],
)
def test_a_record_is_dated_an_hour_ahead_at_most_unless_the_topic_says_otherwise(
    tmp_path: Path, ahead_ms: int, error: ErrorCode
) -> None:
    """One record a year ahead would keep its segment, and all that size alone does not end, for a year."""

    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        record = NewRecord(None, b"early", int(time.time() * 1000) + ahead_ms)
        assert (await wire.produce_batch("orders", encode_batch([record])))[0] == error

    on_a_broker(tmp_path, test)
