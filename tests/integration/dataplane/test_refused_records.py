"""Which record of a batch a leader refuses, and how a client learns of it: Kafka's answers, byte by byte."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from springtide.wire.refused_records import NO_KEY
from tests.kit.dataplane.cluster_in_process import ClusterInProcess
from tests.kit.dataplane.one_broker import on_a_broker, produce_fields
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


@pytest.mark.parametrize("version", [7, 8, 9, 12])
@pytest.mark.parametrize("is_alone", [True, False])
def test_the_answer_names_the_records_without_a_key_that_a_compacted_topic_refuses(
    tmp_path: Path, version: int, is_alone: bool
) -> None:
    """KIP-467: since Produce v8."""

    async def test(wire: Raw, cluster: ClusterInProcess) -> None:
        hosted = cluster.brokers[1].broker.table.get_by_name("orders", 0)
        assert hosted is not None
        hosted.is_compacted = True
        mixed = encode_batch([NewRecord(b"k", b"v", 1), NewRecord(None, b"v", 1)])
        fields: Any = produce_fields("orders", mixed)
        if not is_alone:
            other = {"index": 7, "records": mixed}
            fields["topic_data"][0]["partition_data"].append(other)
        answer = await wire.ask(ApiKey.PRODUCE, version, fields)
        refused = answer.responses[0].partition_responses[0]
        assert (refused.error_code, hosted.log.log_end_offset) == (ErrorCode.INVALID_RECORD, 0)
        if version >= 8:
            (one,) = refused.record_errors
            assert (one.batch_index, one.batch_index_error_message) == (1, NO_KEY)
            assert NO_KEY in refused.error_message

    on_a_broker(tmp_path, test)
