"""Copies read from scripted brokers: what is listed, what is still being opened, what is gone or damaged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.client.client import describe_log_dirs
from pipeline.client.config import ClientConfig
from pipeline.client.errors import RetriesExhausted
from pipeline.client.pool import ConnectionPool
from pipeline.client.values import BrokerLogDir, LogDirReplica
from pipeline.errors import CopyUnreadable
from pipeline.salvage.reading import CopyReader
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import DEBUGGING_CONSUMER_ID
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.clocks import ManualClock
from tests.kit.pipeline.brokers import Says, ScriptedBroker, in_turn, metadata_of

NAME = "orders-1.AAAAAAAAAAAAAAAAAAAABw.00000000000000000005-00000000000000000009.0"


def batch(base_offset: int, count: int = 2) -> bytes:
    return encode_batch([NewRecord(None, b"v%d" % n, 1) for n in range(count)], base_offset=base_offset)


def fetched(
    records: bytes = b"", *, high_watermark: int = 7, error: ErrorCode = ErrorCode.NONE, name: str = NAME
) -> Says:
    return {
        "responses": [
            {
                "topic": name,
                "partitions": [
                    {
                        "partition_index": 1,
                        "error_code": error,
                        "high_watermark": high_watermark,
                        "log_start_offset": 5,
                        "records": records,
                    }
                ],
            }
        ]
    }


class World:
    def __init__(self, broker: ScriptedBroker, pool: ConnectionPool) -> None:
        self.broker = broker
        self.pool = pool
        self.clock = ManualClock(0)
        self.config = ClientConfig(bootstrap=(broker.address,), retry_budget_ms=5_000)
        broker.handlers[ApiKey.METADATA] = lambda _: metadata_of({4: broker}, {})

    def says(self, *answers: Says) -> None:
        self.broker.handlers[ApiKey.FETCH] = in_turn(*answers)

    @property
    def reader(self) -> CopyReader:
        return CopyReader(
            self.config, pool=self.pool, clock_ms=self.clock.mono_ms, sleep_s=self.clock.sleep_s
        )

    def read(self, start: int = 5, end: int = 9) -> list[tuple[bytes, int]]:
        found = self.reader.read(4, NAME, 1, start_offset=start, end_offset=end)
        return [(bytes(one.records), one.next_offset) for one in found]

    def asked_for(self) -> list[Any]:
        return [message for api, message in self.broker.asked if api is ApiKey.FETCH]


@pytest.fixture
def world() -> Iterator[World]:
    pool = ConnectionPool()
    with ScriptedBroker({}) as broker:
        yield World(broker, pool)
        pool.close()


def test_a_copy_is_read_to_its_end_by_its_name(world: World) -> None:
    world.says(fetched(batch(4) + batch(6)), fetched(batch(8, 1)))
    assert world.read() == [(batch(4) + batch(6), 8), (batch(8, 1), 9)]
    asked = world.asked_for()
    assert {message.replica_id for message in asked} == {DEBUGGING_CONSUMER_ID}
    assert [message.topics[0].topic for message in asked] == [NAME, NAME]
    assert [message.topics[0].partitions[0].fetch_offset for message in asked] == [5, 8]
    assert asked[0].topics[0].partitions[0].current_leader_epoch == -1


def test_a_piece_in_the_middle_ends_where_it_should(world: World) -> None:
    world.says(fetched(batch(4) + batch(6) + batch(8)))
    assert world.read(5, 7) == [(batch(4) + batch(6), 8)]
    world.says(fetched(batch(8)))
    assert world.read(6, 8) == [], "a gap up to the end"
    world.says(fetched(b""))
    assert world.read() == []


def test_a_copy_that_is_being_opened_is_asked_for_again(world: World) -> None:
    world.says(fetched(high_watermark=-1), fetched(high_watermark=-1), fetched(batch(5), high_watermark=6))
    assert world.reader.high_watermark(4, NAME, 1, first_offset=5) == 6
    assert len(world.clock.slept_s) == 2
    world.says(fetched(high_watermark=-1))
    with pytest.raises(RetriesExhausted, match="still opening"):
        world.read()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not have it any more"),
        (ErrorCode.OFFSET_OUT_OF_RANGE, "does not hold the offsets"),
        (ErrorCode.CORRUPT_MESSAGE, "damaged"),
    ],
)
def test_what_can_not_be_read_is_told_at_once(world: World, error: ErrorCode, message: str) -> None:
    world.says(fetched(error=error))
    with pytest.raises(CopyUnreadable, match=f"broker 4: .*{message}"):
        world.read()
    assert world.clock.slept_s == []


def test_trouble_that_may_pass_is_waited_for(world: World) -> None:
    world.says(fetched(error=ErrorCode.KAFKA_STORAGE_ERROR), None, fetched(batch(5, 4)))
    assert world.read() == [(batch(5, 4), 9)]
    world.says(fetched(error=ErrorCode.KAFKA_STORAGE_ERROR))
    with pytest.raises(RetriesExhausted, match="KAFKA_STORAGE_ERROR"):
        world.read()


@pytest.mark.parametrize(
    "lie",
    [
        fetched(batch(5), name="another"),
        fetched(batch(2)),
        fetched(batch(5)[:-1]),
        fetched(b"\0" * 80),
        fetched(batch(7) + batch(5)),
    ],
)
def test_answers_that_are_none_do_not_go_on_for_ever(world: World, lie: Says) -> None:
    world.says(lie)
    with pytest.raises(RetriesExhausted):
        world.read()


def test_a_broker_that_is_not_alive_is_waited_for(world: World) -> None:
    world.broker.handlers[ApiKey.METADATA] = lambda _: metadata_of({3: world.broker}, {})
    with pytest.raises(RetriesExhausted, match="broker 4 is not alive"):
        world.read()


def test_log_directories_are_described(world: World) -> None:
    def line(partition: int, size: int) -> dict[str, object]:
        return {"partition_index": partition, "partition_size": size, "offset_lag": 0, "is_future_key": False}

    world.broker.handlers[ApiKey.DESCRIBE_LOG_DIRS] = lambda message: {
        "results": [
            {"log_dir": "/data", "topics": [{"name": "t", "partitions": [line(0, 5), line(1, 6)]}]},
            {"log_dir": "/data/divergent", "error_code": ErrorCode.KAFKA_STORAGE_ERROR, "topics": []},
        ]
    }
    assert describe_log_dirs(world.broker.address, world.config, pool=world.pool) == [
        BrokerLogDir("/data", ErrorCode.NONE, (LogDirReplica("t", 0, 5), LogDirReplica("t", 1, 6))),
        BrokerLogDir("/data/divergent", ErrorCode.KAFKA_STORAGE_ERROR, ()),
    ]
