"""aiokafka."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiokafka
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code
from aiokafka.structs import TopicPartition

from tests.interop.drivers.answer import serve
from tests.interop.drivers.members import Polls, return_static, share

SECONDS = 30.0
Asked = dict[str, Any]


class Aiokafka:
    """One method a call of rows.py, each with an event loop of its own."""

    def version(self, asked: Asked) -> str:
        return str(aiokafka.__version__)

    def connect(self, asked: Asked) -> int:
        return len(_by_admin(asked, lambda admin: admin.describe_cluster())["brokers"])

    def list_topics(self, asked: Asked) -> list[str]:
        return [*_by_admin(asked, lambda admin: admin.list_topics())]

    def create(self, asked: Asked) -> None:
        new = NewTopic(asked["topic"], asked["partitions"], asked["replication_factor"])
        told = _by_admin(asked, lambda admin: admin.create_topics([new]))
        _check(told.topic_errors[0][1])

    def delete(self, asked: Asked) -> None:
        told = _by_admin(asked, lambda admin: admin.delete_topics([asked["topic"]]))
        _check(told.topic_error_codes[0][1])

    def describe_configs(self, asked: Asked) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, asked["topic"])
        (told,) = _by_admin(asked, lambda admin: admin.describe_configs([resource]))
        code, _, _, _, settings = told.resources[0]
        _check(code)
        return next(str(setting[1]) for setting in settings if setting[0] == asked["setting"])

    def alter_configs(self, asked: Asked) -> None:
        resource = ConfigResource(
            ConfigResourceType.TOPIC, asked["topic"], {asked["setting"]: asked["value"]}
        )
        (told,) = _by_admin(asked, lambda admin: admin.alter_configs([resource]))
        _check(told.resources[0][0])

    def delete_records(self, asked: Asked) -> None:
        before = {TopicPartition(asked["topic"], 0): RecordsToDelete(asked["offset"])}
        _by_admin(asked, lambda admin: admin.delete_records(before))

    def produce(self, asked: Asked) -> None:
        asyncio.run(self._produce(asked))

    async def _produce(self, asked: Asked) -> None:
        producer = aiokafka.AIOKafkaProducer(
            **_common(asked),
            acks="all",
            enable_idempotence=asked["idempotent"],
            compression_type=None if asked["codec"] == "none" else asked["codec"],
        )
        await producer.start()
        try:
            pending = [
                await producer.send(
                    asked["topic"], key=b"k%d" % number, value=b"value %d" % number, partition=0
                )
                for number in range(asked["count"])
            ]
            async with asyncio.timeout(SECONDS):
                await asyncio.gather(*pending)
        finally:
            await producer.stop()

    def transact(self, asked: Asked) -> None:
        asyncio.run(self._transact(asked))

    async def _transact(self, asked: Asked) -> None:
        async with _transactional(asked) as producer:
            await producer.begin_transaction()
            await _write(producer, asked, b"lost")
            await producer.abort_transaction()
            async with producer.transaction():
                await _write(producer, asked, b"value")

    def copy(self, asked: Asked) -> None:
        asyncio.run(self._copy(asked))

    async def _copy(self, asked: Asked) -> None:
        partition = TopicPartition(asked["topic"], 0)
        deadline = time.monotonic() + SECONDS
        async with _consumer(asked, group_id=asked["group"]) as consumer, _transactional(asked) as producer:
            consumer.subscribe([asked["topic"]])
            async with producer.transaction():
                copied = 0
                while copied < asked["count"] and time.monotonic() < deadline:
                    for message in (await consumer.getmany(timeout_ms=200)).get(partition, []):
                        await producer.send(asked["topic"], message.value, message.key, partition=1)
                        copied += 1
                offset = await consumer.position(partition)
                await producer.send_offsets_to_transaction({partition: offset}, asked["group"])

    def take_over(self, asked: Asked) -> bool:
        return asyncio.run(self._take_over(asked))

    async def _take_over(self, asked: Asked) -> bool:
        async with _transactional(asked) as first:
            await first.begin_transaction()
            await _write(first, asked, b"lost")
            async with _transactional(asked) as second, second.transaction():
                await _write(second, asked, b"value")
            try:
                await first.commit_transaction()
            except KafkaError:
                return True
            return False

    def fetch(self, asked: Asked) -> list[list[str]]:
        return asyncio.run(self._fetch(asked))

    def fetch_committed(self, asked: Asked) -> list[list[str]]:
        return asyncio.run(self._fetch(asked, isolation_level="read_committed"))

    async def _fetch(self, asked: Asked, **settings: Any) -> list[list[str]]:
        partition = TopicPartition(asked["topic"], 0)
        found: list[list[str]] = []
        deadline = time.monotonic() + SECONDS
        async with _consumer(asked, **settings) as consumer:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            while len(found) < asked["count"] and time.monotonic() < deadline:
                for message in (await consumer.getmany(timeout_ms=200)).get(partition, []):
                    found.append([message.key.decode(), message.value.decode()])
        return found

    def offset_by_time(self, asked: Asked) -> int:
        return asyncio.run(self._offset_by_time(asked))

    async def _offset_by_time(self, asked: Asked) -> int:
        partition = TopicPartition(asked["topic"], 0)
        async with _consumer(asked) as consumer:
            found = await consumer.offsets_for_times({partition: asked["timestamp_ms"]})
            return int(found[partition].offset)

    def group_share(self, asked: Asked) -> dict[str, Any]:
        return share(lambda instance: Polls(lambda polls: asyncio.run(_take_part(asked, instance, polls))))

    def group_static(self, asked: Asked) -> dict[str, Any]:
        return return_static(
            lambda instance: Polls(lambda polls: asyncio.run(_take_part(asked, instance, polls)))
        )

    def group_resume(self, asked: Asked) -> list[list[str]]:
        asyncio.run(_read_and_commit(asked, asked["offset"]))
        return asyncio.run(_read_and_commit(asked, asked["count"] - asked["offset"]))

    def list_groups(self, asked: Asked) -> list[str]:
        return [group[0] for group in _by_admin(asked, lambda admin: admin.list_consumer_groups())]

    def describe_group(self, asked: Asked) -> dict[str, Any]:
        (told,) = _by_admin(asked, lambda admin: admin.describe_consumer_groups([asked["group"]]))
        code, _, state, _, _, members, *_ = told.groups[0]
        _check(code)
        return {"state": state, "members": len(members)}

    def group_offsets(self, asked: Asked) -> int:
        told = _by_admin(asked, lambda admin: admin.list_consumer_group_offsets(asked["group"]))
        return int(told[TopicPartition(asked["topic"], 0)].offset)

    def reset_group(self, asked: Asked) -> None:
        asyncio.run(self._reset_group(asked))

    async def _reset_group(self, asked: Asked) -> None:
        """Commit as a consumer without a subscription: it has no call for administrators."""
        partition = TopicPartition(asked["topic"], 0)
        async with _consumer(asked, group_id=asked["group"]) as consumer:
            consumer.assign([partition])
            await consumer.commit({partition: asked["offset"]})


async def _take_part(asked: Asked, instance: str, polls: Polls) -> None:
    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            polls.assigned([one.partition for one in assigned])

        def on_partitions_revoked(self, revoked: Any) -> None:
            polls.revoked()

    async with _consumer(asked, group_id=asked["group"], group_instance_id=instance or None) as consumer:
        consumer.subscribe([asked["topic"]], listener=Listener())
        while polls.is_open:
            await consumer.getmany(timeout_ms=100)


async def _read_and_commit(asked: Asked, count: int) -> list[list[str]]:
    partition = TopicPartition(asked["topic"], 0)
    found: list[list[str]] = []
    deadline = time.monotonic() + SECONDS
    async with _consumer(asked, group_id=asked["group"]) as consumer:
        consumer.subscribe([asked["topic"]])
        while len(found) < count and time.monotonic() < deadline:
            told = await consumer.getmany(timeout_ms=200, max_records=count - len(found))
            for message in told.get(partition, []):
                found.append([message.key.decode(), message.value.decode()])
        await consumer.commit()
    return found


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def _common(asked: Asked) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": asked["bootstrap"]}
    login = asked["login"]
    if not login:
        return settings
    context = ssl.create_default_context(cafile=login["ca"])
    if login["identity"]:
        context.load_cert_chain(login["identity"])
    settings |= {"security_protocol": login["protocol"], "ssl_context": context}
    if login["mechanism"]:
        settings["sasl_mechanism"] = login["mechanism"]
    if login["token"]:
        settings["sasl_oauth_token_provider"] = _Token(login["token"])
    elif login["mechanism"]:
        settings |= {"sasl_plain_username": login["user"], "sasl_plain_password": login["password"]}
    return settings


def _check(code: int) -> None:
    """Raise the client's error of that code, if it is one."""
    if code:
        raise for_code(code)()


def _by_admin(asked: Asked, call: Callable[[Any], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        admin = AIOKafkaAdminClient(**_common(asked))
        await admin.start()
        try:
            return await call(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


@asynccontextmanager
async def _transactional(asked: Asked) -> AsyncIterator[Any]:
    producer = aiokafka.AIOKafkaProducer(**_common(asked), transactional_id=asked["group"])
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def _write(producer: Any, asked: Asked, word: bytes) -> None:
    """Write the records in the open transaction; return when they are acknowledged."""
    pending = [
        await producer.send(asked["topic"], b"%s %d" % (word, number), b"k%d" % number, partition=0)
        for number in range(asked["count"])
    ]
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*pending)


@asynccontextmanager
async def _consumer(asked: Asked, **settings: Any) -> AsyncIterator[Any]:
    if settings:
        settings |= {
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 500,
        }
    consumer = aiokafka.AIOKafkaConsumer(**_common(asked), check_crcs=True, **settings)
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


if __name__ == "__main__":
    serve(Aiokafka())
