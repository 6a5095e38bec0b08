"""A consumer by assignment: one partition, from an offset onwards, written down poll by poll."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from springtide.wire.apis import ApiKey
from springtide.wire.record_batch import iter_headers
from springtide.wire.records import iter_records
from tests.checker.history import Function, Item, Operation, Outcome
from tests.checker.values import decode_value
from tests.fullstack.kafka import ConnectionLost, KafkaConnection, Metadata

if TYPE_CHECKING:
    from tests.fullstack.clients import ClientHost

WAIT_MS = 500
FETCH_BYTES_MAX = 256 * 1024
PARTITION_BYTES_MAX = (600, 8_000, 64_000)
RETRY_MS = (20, 200)
LIST_OFFSETS_RATE = 0.05
LATEST = -1


class Consumer:
    """`run` reads until `stop`, or as the final read until it has reached `until`."""

    def __init__(
        self, host: ClientHost, *, name: str, topic: str, partition: int, final: bool = False, until: int = -1
    ) -> None:
        self.name = name
        self.key = (topic, partition)
        self.position = 0
        self.high_watermark = -1
        self.is_stopped = False
        self.until = until
        self._final = final
        self._host = host
        self._random = host.life.world.random("consumer", name)
        self._metadata = Metadata(host.life, host.net, host.bootstrap, name)

    def stop(self) -> None:
        self.is_stopped = True

    @property
    def is_done(self) -> bool:
        if self.is_stopped:
            return True
        at_end = self._final and self.high_watermark >= 0
        return at_end and self.position >= max(self.until, self.high_watermark)

    async def run(self) -> None:
        now_ns = self._host.life.world.now_ns
        self._host.record(
            Operation(
                process=self.name,
                f=Function.ASSIGN,
                type=Outcome.OK,
                t_invoke_ns=now_ns,
                t_return_ns=now_ns,
                key=self.key,
                from_offset=0,
            )
        )
        while not self.is_done:
            with suppress(ConnectionLost):
                await self._read_until_trouble()
            self._metadata.forget(*self.key)
            await self._host.life.clock.sleep_ms(self._random.uniform(*RETRY_MS))

    async def _read_until_trouble(self) -> None:
        address = self._metadata.leader_of(*self.key)
        if address is None:
            await self._metadata.refresh(self.key[0])
            address = self._metadata.leader_of(*self.key)
        if address is None:
            return
        connection = await KafkaConnection.open(self._host.life, self._host.net, address, self.name)
        try:
            while not self.is_done and await self._poll(connection):
                if self._random.random() < LIST_OFFSETS_RATE and not await self._list_offsets(connection):
                    break
        finally:
            connection.close()

    async def _poll(self, connection: KafkaConnection) -> bool:
        """Whether this leader is worth asking again."""
        invoked_ns = self._host.life.world.now_ns
        answer = await connection.call(
            ApiKey.FETCH,
            {
                "max_wait": WAIT_MS,
                "min_bytes": 1,
                "max_bytes": FETCH_BYTES_MAX,
                "session_epoch": -1,
                "topics": (
                    {
                        "topic": self.key[0],
                        "partitions": (
                            {
                                "partition": self.key[1],
                                "current_leader_epoch": -1,
                                "fetch_offset": self.position,
                                "last_fetched_epoch": -1,
                                "log_start_offset": -1,
                                "partition_max_bytes": self._random.choice(PARTITION_BYTES_MAX),
                            },
                        ),
                    },
                ),
            },
        )
        if answer.error_code != 0 or not answer.responses:
            return False
        told = answer.responses[0].partitions[0]
        if told.error_code != 0:
            return False
        items = tuple(self._items(told))
        if items:
            self.position = items[-1][0] + 1
        self.high_watermark = told.high_watermark
        self._host.record(
            Operation(
                process=self.name,
                f=Function.POLL,
                type=Outcome.OK,
                t_invoke_ns=invoked_ns,
                t_return_ns=self._host.life.world.now_ns,
                key=self.key,
                items=items,
                high_watermark=None,  # a new leader's may lag, and no client relies on it
                log_start_offset=told.log_start_offset,
                final=self._final,
            )
        )
        return True

    async def _list_offsets(self, connection: KafkaConnection) -> bool:
        """Asks for the end: that, unlike a fetch's watermark, must never go back (KIP-207)."""
        invoked_ns = self._host.life.world.now_ns
        partition = {"partition_index": self.key[1], "current_leader_epoch": -1, "timestamp": LATEST}
        answer = await connection.call(
            ApiKey.LIST_OFFSETS,
            {"replica_id": -1, "topics": ({"name": self.key[0], "partitions": (partition,)},)},
        )
        told = answer.topics[0].partitions[0]
        if told.error_code != 0:
            return False
        self._host.record(
            Operation(
                process=self.name,
                f=Function.LIST_OFFSETS,
                type=Outcome.OK,
                t_invoke_ns=invoked_ns,
                t_return_ns=self._host.life.world.now_ns,
                key=self.key,
                high_watermark=told.offset,
            )
        )
        return True

    def _items(self, told: Any) -> list[Item]:
        view = memoryview(bytes(told.records or b""))
        items: list[Item] = []
        for start, header in iter_headers(view):
            for record in iter_records(view[start : start + header.size_bytes]):
                if record.offset >= self.position:
                    items.append((record.offset, decode_value(bytes(record.value or b""))))
        return items
