"""A Kafka client's connection: requests made from Kafka's own definitions, answers matched by order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from springtide.node.peer_requests import receive
from springtide.wire.apis import ApiKey
from springtide.wire.client import WireAnswer, WireClient, request_body
from tests.fullstack.http import send_all
from tests.fullstack.process_life import Life
from tests.fullstack.sockets import SimChannel, SimNet

CONNECT_MS = 1_000
ANSWER_MS = 4_000

VERSIONS = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 8,
}
"""What these clients speak. Fetch 12, OffsetCommit 9 and OffsetFetch 8 name topics, later ones give ids."""


class ConnectionLost(Exception):
    """No answer, and there will be none."""


class Ask:
    """A request under way."""

    def __init__(self) -> None:
        self._answered = trio.Event()
        self._answer: Any = None
        self._is_lost = False

    def settle(self, answer: object) -> None:
        self._answer = answer
        self._answered.set()

    def lose(self) -> None:
        self._is_lost = True
        self._answered.set()

    async def answer(self) -> Any:
        """Raises ConnectionLost."""
        await self._answered.wait()
        if self._is_lost:
            raise ConnectionLost
        return self._answer


class KafkaConnection:
    """One connection to one broker. `run` reads the answers; whoever opened it runs it."""

    def __init__(self, life: Life, channel: SimChannel, client_id: str) -> None:
        self._life = life
        self._channel = channel
        self._client: WireClient[Ask] = WireClient(client_id, answer_bytes_max=64 * 1024 * 1024)
        self.is_lost = False

    @classmethod
    async def open(cls, life: Life, net: SimNet, address: tuple[str, int], client_id: str) -> KafkaConnection:
        """Raises ConnectionLost."""
        with life.clock.timeout_ms(CONNECT_MS):
            try:
                return cls(life, await net.connect(*address), client_id)
            except OSError as error:
                raise ConnectionLost from error
        raise ConnectionLost

    async def ask(self, api: ApiKey, fields: Mapping[str, object]) -> Ask:
        """Sends; the answer is the caller's to await. Raises ConnectionLost."""
        if self.is_lost:
            raise ConnectionLost
        version = VERSIONS[api]
        ask = Ask()
        pieces = self._client.ask(api, version, [request_body(api, version, fields)], ask)
        try:
            await send_all(self._channel, b"".join(pieces))
        except (OSError, trio.ClosedResourceError) as error:
            self.close()
            raise ConnectionLost from error
        return ask

    async def call(self, api: ApiKey, fields: Mapping[str, object]) -> Any:
        """Asks and reads the answer, for connections that carry one request at a time. Raises
        ConnectionLost."""
        ask = await self.ask(api, fields)
        with self._life.clock.timeout_ms(ANSWER_MS):
            await self._read_until(ask)
            return await ask.answer()
        self.close()
        raise ConnectionLost

    async def read_answers(self) -> None:
        """Settles asks until the connection ends. Silence ends it too."""
        while not self.is_lost:
            with self._life.clock.timeout_ms(ANSWER_MS) as scope:
                await self._read_one()
            if scope.cancelled_caught and self._client.in_flight:
                self.close()

    async def _read_until(self, ask: Ask) -> None:
        while not self.is_lost and any(asked.note is ask for asked in self._client.in_flight):
            await self._read_one()

    async def _read_one(self) -> None:
        try:
            answer: WireAnswer[Ask] = await receive(self._channel, self._client)
        except (OSError, trio.ClosedResourceError):
            self.close()
        else:
            answer.asked.note.settle(answer.message())

    def close(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._channel.close()
            for asked in self._client.in_flight:
                asked.note.lose()


class Metadata:
    """Where partitions are led, as a client knows it."""

    def __init__(self, life: Life, net: SimNet, bootstrap: list[tuple[str, int]], client_id: str) -> None:
        self._life = life
        self._net = net
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._turn = 0
        self._leaders: dict[tuple[str, int], tuple[str, int]] = {}

    def know_only(self, address: tuple[str, int]) -> None:
        self._bootstrap = [address]

    def leader_of(self, topic: str, partition: int) -> tuple[str, int] | None:
        return self._leaders.get((topic, partition))

    def forget(self, topic: str, partition: int) -> None:
        self._leaders.pop((topic, partition), None)

    async def refresh(self, topic: str) -> dict[str, str]:
        """Asks one broker after another until one answers for the topic. The topic's error and id by name;
        empty when nobody answered."""
        for _ in self._bootstrap:
            address = self._bootstrap[self._turn % len(self._bootstrap)]
            self._turn += 1
            try:
                answer = await self._ask(address, topic)
            except ConnectionLost:
                continue
            brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
            for found in answer.topics:
                for partition in found.partitions:
                    address_of = brokers.get(partition.leader_id)
                    if partition.error_code == 0 and address_of is not None:
                        self._leaders[(topic, partition.partition_index)] = address_of
                return {"error": found.error_code.name.lower(), "topic_id": str(found.topic_id or "")}
        return {}

    async def _ask(self, address: tuple[str, int], topic: str) -> Any:
        connection = await KafkaConnection.open(self._life, self._net, address, self._client_id)
        try:
            return await connection.call(
                ApiKey.METADATA,
                {"topics": ({"name": topic, "topic_id": None},), "allow_auto_topic_creation": False},
            )
        finally:
            connection.close()
