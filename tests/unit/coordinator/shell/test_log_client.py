"""A shard's log client: each batch is answered once, whatever the leader sends."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from coordinator.core.shard_ports import LOST, AppendBatch, BatchAnswered, LogWasRead
from coordinator.shell.log_client import PRODUCE_VERSION, LogClient, LogParts
from springtide.node.clock import MachineClock
from springtide.node.topic_ids import topic_id_bytes
from springtide.wire.errors import ErrorCode
from springtide.wire.framing import encode_response_frame
from springtide.wire.produce import ProduceOutcome, encode_produce_response
from tests.kit.springtide.memory_net import MemoryChannel

pytestmark = pytest.mark.anyio

TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"


def frame(correlation_id: int, body: bytes) -> bytes:
    return b"".join(
        cast("list[bytes]", encode_response_frame(correlation_id, [body], has_flexible_header=True))
    )


def produced(base_offset: int, *, partitions: int = 1) -> bytes:
    outcome = ProduceOutcome(topic_id_bytes(TOPIC), 0, ErrorCode.NONE, base_offset)
    return encode_produce_response(PRODUCE_VERSION, [outcome] * partitions)


async def heard_of(*sent: bytes, attempts: int = 2) -> list[tuple[int, ErrorCode]]:
    """What is heard of so many appends, if the leader sends these bytes and closes the connection."""
    channel = MemoryChannel()
    channel.incoming += b"".join(sent)
    channel.is_ended = True
    heard: list[BatchAnswered | LogWasRead] = []
    leader = SimpleNamespace(broker_id=1, broker_epoch=1, host="store1", port=9092)

    async def connect(host: str, port: int) -> MemoryChannel:
        return channel

    async with trio.open_nursery() as nursery:

        def spawn(run: Callable[[], Awaitable[None]]) -> None:
            nursery.start_soon(run)

        parts: Any = LogParts(
            view=cast(Any, SimpleNamespace(state=lambda *_: SimpleNamespace(leader=1), brokers={1: leader})),
            net=cast(Any, SimpleNamespace(connect=connect)),
            clock=cast(Any, MachineClock()),
            rng=random.Random(1),
            spawn=spawn,
            client_id="coordinator-1001",
        )
        client = LogClient((TOPIC, 0), parts, heard.append)
        for attempt in range(1, attempts + 1):
            client.append(AppendBatch(attempt, 1, b"batch"))
        await trio.sleep(10)
        client.stop()
    assert channel.is_closed
    return [(one.attempt, one.error) for one in heard if isinstance(one, BatchAnswered)]


async def test_answers_come_in_the_order_of_the_batches() -> None:
    found = await heard_of(frame(1, produced(7)), frame(2, produced(8)))
    assert found == [(1, ErrorCode.NONE), (2, ErrorCode.NONE)]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0",
        frame(1, produced(7))[:-1],
        frame(2, produced(7)),
        frame(1, produced(7, partitions=2)),
        frame(1, produced(7, partitions=0)),
        frame(1, b"\xff" * 20),
        frame(1, b""),
        b"\x7f\xff\xff\xff" + bytes(100),
    ],
)
async def test_each_batch_is_lost_once_where_an_answer_does_not_fit(answer: bytes) -> None:
    assert await heard_of(answer) == [(1, LOST), (2, LOST)]


async def test_what_was_answered_before_the_connection_ended_is_not_lost() -> None:
    assert await heard_of(frame(1, produced(7)), b"\xff" * 9) == [(1, ErrorCode.NONE), (2, LOST)]
