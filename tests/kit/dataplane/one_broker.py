"""One broker that leads "orders"-0 alone, and a connection to it on which a test sends what it likes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.raw import Raw

Test = Callable[[Raw, ClusterInProcess], Awaitable[None]]


def produce_fields(topic: str, records: bytes, *, partition: int = 0, acks: int = -1) -> dict[str, object]:
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout_ms": 5_000,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": records}]}],
    }


def on_a_broker(tmp_path: Path, test: Test) -> None:
    """Run `test` with a connection to a broker that leads "orders"-0 alone, and look after it once more."""

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1)
            topic_id = cluster.controller.create_topic("orders", ((1,),))
            table = cluster.brokers[1].broker.table
            await cluster.controller.wait_for(lambda: table.get(topic_id, 0) is not None, "it is hosted")
            stream = await trio.open_tcp_stream("127.0.0.1", cluster.brokers[1].port)
            async with stream:
                await test(Raw(stream), cluster)
            async with await trio.open_tcp_stream("127.0.0.1", cluster.brokers[1].port) as other:
                good = Raw(other)
                await good.begin(ApiKey.API_VERSIONS, 0, {})
                assert (await good.answer(ApiKey.API_VERSIONS, 0)).error_code == ErrorCode.NONE

    trio.run(run)
