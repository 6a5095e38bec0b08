"""A consumer by assignment: one partition, from an offset onwards, written down poll by poll.

Half of them fetch in sessions (KIP-227), as stock clients do: what has not changed is not asked for again,
and an error ends neither the session nor the connection while the metadata names the same leader.

Some have a limit below one batch, and ask for partitions that are not there before their own, as one does
whose topic was made again with fewer: each answer gives them a batch all the same (KIP-74).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import iter_headers
from springtide.wire.records import iter_records
from tests.checker.history import Function, Item, Operation, Outcome
from tests.checker.values import decode_value
from tests.fullstack.kafka import ConnectionLost, KafkaConnection, Metadata

if TYPE_CHECKING:
    from tests.fullstack.clients import ClientHost

WAIT_MS = 500
FETCH_BYTES_MAX = (1, 300, 256 * 1024, 256 * 1024)
ABSENT_PARTITIONS = (0, 0, 8)
PARTITION_BYTES_MAX = (1, 600, 8_000, 64_000)
RETRY_MS = (20, 200)
LIST_OFFSETS_RATE = 0.05
LATEST = -1
SESSION_SHARE = 0.5
SESSION_ERRORS = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})


@dataclass(slots=True)
class _Session:
    """What both ends remember. epoch: of the next request. mentioned: the position that was asked for last,
    with its limit; None: nothing yet."""

    id: int = 0
    epoch: int = 0
    mentioned: tuple[int, int] | None = None


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
        self._fetches_in_session = self._random.random() < SESSION_SHARE
        self._session: _Session | None = None
        self._bytes_max = self._random.choice(FETCH_BYTES_MAX)
        self._absent = range(10_000, 10_000 + self._random.choice(ABSENT_PARTITIONS))
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
        self._session = _Session() if self._fetches_in_session else None
        try:
            while not self.is_done:
                if not await self._poll(connection) and not await self._is_led_by(address):
                    break
                if self._random.random() < LIST_OFFSETS_RATE and not await self._list_offsets(connection):
                    break
        finally:
            connection.close()

    async def _is_led_by(self, address: tuple[str, int]) -> bool:
        """Return whether to go on within the session, where there is one: the leader is the same."""
        if self._session is None or self._session.epoch == 0:
            return False
        self._metadata.forget(*self.key)
        await self._host.life.clock.sleep_ms(self._random.uniform(*RETRY_MS))
        await self._metadata.refresh(self.key[0])
        return self._metadata.leader_of(*self.key) == address

    async def _poll(self, connection: KafkaConnection) -> bool:
        """Return whether there was no error."""
        invoked_ns = self._host.life.world.now_ns
        session = self._session
        asked = (self.position, self._random.choice(PARTITION_BYTES_MAX))
        if session is not None and session.mentioned is not None and session.mentioned[0] == self.position:
            asked = session.mentioned
        answer = await connection.call(
            ApiKey.FETCH,
            {
                "max_wait_ms": WAIT_MS,
                "min_bytes": 1,
                "max_bytes": self._bytes_max,
                "session_id": 0 if session is None else session.id,
                "session_epoch": -1 if session is None else session.epoch,
                "topics": ()
                if session is not None and asked == session.mentioned
                else (self._asked(*asked),),
            },
        )
        if session is not None:
            if answer.error_code in SESSION_ERRORS or not answer.session_id:
                self._session = _Session()
                session = None
            else:
                session.id, session.epoch, session.mentioned = answer.session_id, session.epoch + 1, asked
        if answer.error_code != 0:
            return False
        if not answer.responses:
            return session is not None  # nothing is new
        told = next(
            (one for one in answer.responses[0].partitions if one.partition_index == self.key[1]), None
        )
        if told is None:
            return session is not None
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

    def _asked(self, offset: int, bytes_max: int) -> dict[str, object]:
        partitions = [
            {
                "partition": partition,
                "current_leader_epoch": -1,
                "fetch_offset": offset,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": bytes_max,
            }
            for partition in (*self._absent, self.key[1])
        ]
        return {"topic": self.key[0], "partitions": partitions}

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
