"""The bench of a shard's replay measures a log of the size that it says, and its tail."""

from __future__ import annotations

from bench.shard_replay import MIB, PARTITIONS, measure
from coordinator.shell.log_client import FOLLOW_BYTES_MIN


def test_a_log_is_replayed_whole_and_then_its_tail() -> None:
    found = measure(MIB // 4)
    assert MIB // 4 <= found.log_bytes < MIB // 4 + 10_000
    assert found.records % PARTITIONS == found.tail_records % PARTITIONS == 0
    assert found.tail_records * found.log_bytes >= found.records * FOLLOW_BYTES_MIN
    assert found.whole_s > 0
    assert found.tail_ms > 0
