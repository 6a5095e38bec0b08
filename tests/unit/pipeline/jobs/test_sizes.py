"""How many bytes a job is to read, asked of brokers that answer as they are told."""

from __future__ import annotations

from typing import Any

from pipeline.client.client import Client
from pipeline.client.values import PartitionRange
from pipeline.jobs.sizes import log_bytes
from springtide.wire.apis import ApiKey
from tests.kit.pipeline.brokers import Says, ScriptedBroker
from tests.kit.pipeline.land_world import NOON_MS, Logs


def sizes(**partitions: int) -> Any:
    """Answer DescribeLogDirs: bytes of partitions of orders, by number."""

    def answer(message: Any) -> Says:
        told = [
            {
                "partition_index": int(number[1:]),
                "partition_size": size,
                "offset_lag": 0,
                "is_future_key": False,
            }
            for number, size in partitions.items()
        ]
        topics = [{"name": "orders", "partitions": told}]
        return {"error_code": 0, "results": [{"error_code": 0, "log_dir": "/data", "topics": topics}]}

    return answer


def test_a_range_has_its_share_of_its_log() -> None:
    with ScriptedBroker({ApiKey.DESCRIBE_LOG_DIRS: sizes(p0=1000, p1=600)}) as broker:
        logs = Logs(broker)
        logs.make("orders", 2)
        logs.write("orders", 0, [NOON_MS] * 10)
        logs.write("orders", 1, [NOON_MS] * 6)
        with Client(logs.config) as client:
            client.metadata(["orders"])
            whole, half = PartitionRange("orders", 1, 0, 6), PartitionRange("orders", 0, 5, 10)
            assert log_bytes(client, [whole, half]) == 1100
            assert log_bytes(client, [whole, whole, whole]) == 1800, "three replicas are read"
            assert log_bytes(client, []) == 0


def test_what_a_broker_does_not_tell_is_unknown() -> None:
    for handlers in ({ApiKey.DESCRIBE_LOG_DIRS: sizes(p1=600)}, {ApiKey.DESCRIBE_LOG_DIRS: lambda _: None}):
        with ScriptedBroker(handlers) as broker:
            logs = Logs(broker)
            logs.make("orders", 2)
            logs.write("orders", 0, [NOON_MS])
            with Client(logs.config) as client:
                client.metadata(["orders"])
                assert log_bytes(client, [PartitionRange("orders", 0, 0, 1)]) is None
