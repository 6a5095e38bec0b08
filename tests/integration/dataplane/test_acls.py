"""ACLs in a cluster that speaks TLS inside and SASL to stock clients, on real sockets."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import kafka
import kafka.errors
import pytest
import trio
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec import structs

from controller.core.events import AlterAcls, AlterUsers, UserToAlter
from springtide.contract.security import AUTHORIZER, STANDARD_AUTHORIZER
from springtide.security.acls.model import AclBinding, AclFilter
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.springtide.acl_lines import acl
from tests.kit.springtide.certificates import PrivateCa
from tests.kit.springtide.users import user

TOPIC, GROUP = "orders", "billing"
SECONDS_MAX = 60.0
NO_TOPIC, NO_GROUP = KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED
OF_ALICE = (
    f"ALLOW alice@* WRITE TOPIC {TOPIC}",
    f"ALLOW alice@* READ TOPIC {TOPIC}",
    f"ALLOW alice@* READ GROUP {GROUP}",
)


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> PrivateCa:
    return PrivateCa(tmp_path_factory.mktemp("ca"))


def configs(ca: PrivateCa) -> dict[str, str]:
    return {
        "listeners": "INTERNAL://127.0.0.1:0,CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "INTERNAL:SSL,CLIENTS:SASL_SSL",
        "inter.broker.listener.name": "INTERNAL",
        "listener.name.internal.ssl.client.auth": "required",
        "ssl.keystore.location": ca.keystore("broker"),
        "ssl.truststore.location": ca.file,
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }


class Setting:
    """A cluster of two brokers and a coordinator, whose authorizer is on; alice may use the topic."""

    def __init__(self, cluster: ClusterInProcess, ca: PrivateCa) -> None:
        self.cluster, self.ca = cluster, ca

    def change(self, *added: str, removed: tuple[str, ...] = ()) -> None:
        controller = self.cluster.controller
        filters = tuple(map(as_filter, map(acl, removed)))
        controller.submit(AlterAcls(wall_ms=0, actor="test", added=tuple(map(acl, added)), removed=filters))

    async def told(self) -> None:
        """Wait until each process has the controller's ACLs."""
        image = self.cluster.controller.image
        bindings = sorted(binding for of_pattern in image.acls.values() for binding in of_pattern.bindings)
        views = [running.process.view for running in self.cluster.brokers.values()]
        views += [running.process.view for running in self.cluster.coordinators.values()]
        await self.cluster.controller.wait_for(
            lambda: all(view.is_authorizer_on and list(view.acls.bindings) == bindings for view in views),
            "all are told of the ACLs",
        )

    async def served(self) -> None:
        """Wait until coordinators serve their shards, which they open with connections of their own."""
        coordinators = [running.process for running in self.cluster.coordinators.values()]
        await self.cluster.controller.wait_for(
            lambda: all(
                len(shards.served()) == len(shards.owned())
                for one in coordinators
                for shards in (one.shards, one.transactions)
            ),
            "all shards are served",
        )

    def client(self, name: str, **more: Any) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.cluster.bootstrap("CLIENTS"),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.ca.file,
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": name,
            "sasl.password": f"{name}'s secret",
            "log_level": 0,
        }
        return settings | {key.replace("_", "."): value for key, value in more.items()}

    @property
    def connections_opened(self) -> int:
        return sum(running.process.counters.connections_opened for running in self.cluster.brokers.values())


def as_filter(binding: AclBinding) -> AclFilter:
    return AclFilter(**structs.asdict(binding))


def run(ca: PrivateCa, tmp_path: Path, test: Callable[[Setting], Awaitable[None]]) -> None:
    async def main() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            with trio.fail_after(4 * SECONDS_MAX):
                settings = configs(ca)
                await cluster.form(1, 2, configs=settings)
                await cluster.form_coordinators(
                    1001, configs=settings | {"group.initial.rebalance.delay.ms": "0"}
                )
                topic_id = cluster.controller.create_topic(TOPIC, ((1, 2),))
                cluster.controller.configure({AUTHORIZER: STANDARD_AUTHORIZER})
                known = tuple(
                    UserToAlter(user=name, upsertions=user(name, f"{name}'s secret").scram)
                    for name in ("alice", "bob")
                )
                cluster.controller.submit(AlterUsers(wall_ms=0, actor="test", users=known))
                setting = Setting(cluster, ca)
                setting.change(*OF_ALICE)
                await setting.told()
                await cluster.wait_isr(topic_id, 1, 2)
                await test(setting)

    trio.run(main)


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    return await trio.to_thread.run_sync(function, *arguments)


def write(producer: Producer, value: bytes) -> int | None:
    """Return the code of the error, None if the record is acknowledged."""
    errors: list[Any] = []
    try:
        producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    except KafkaException as refused:  # the client's own, from the metadata that it has
        return int(refused.args[0].code())
    assert producer.flush(SECONDS_MAX) == 0
    (error,) = errors
    return None if error is None else error.code()


def write_once_permitted(producer: Producer, value: bytes) -> int | None:
    """Write until the client has new metadata: it refuses a topic by itself that it was refused before."""
    ends = time.monotonic() + SECONDS_MAX
    while (error := write(producer, value)) == NO_TOPIC and time.monotonic() < ends:
        time.sleep(0.1)
    return error


def poll(consumer: Consumer) -> bytes | int | None:
    """Return a value or the code of an error."""
    ends = time.monotonic() + SECONDS_MAX
    while time.monotonic() < ends:
        message = consumer.poll(0.2)
        if message is not None:
            error = message.error()
            return message.value() if error is None else error.code()
    raise AssertionError("nothing came")


def test_a_client_may_do_what_the_acls_say_and_another_does_not_learn_what_there_is(
    ca: PrivateCa, tmp_path: Path
) -> None:
    def use_as_alice(setting: Setting) -> None:
        assert write(Producer(setting.client("alice", acks="all", enable_idempotence=True)), b"one") is None
        consumer = Consumer(setting.client("alice", group_id=GROUP, auto_offset_reset="earliest"))
        consumer.subscribe([TOPIC])
        assert poll(consumer) == b"one"
        consumer.commit(asynchronous=False)
        (committed,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=SECONDS_MAX)
        assert committed.offset == 1
        consumer.close()
        with AdminClient(setting.client("alice")) as admin:
            assert TOPIC in admin.list_topics(timeout=SECONDS_MAX).topics

    def try_as_bob(setting: Setting) -> None:
        with AdminClient(setting.client("bob")) as admin:
            assert admin.list_topics(timeout=SECONDS_MAX).topics == {}
            for name in (TOPIC, "absent"):
                error = admin.list_topics(name, timeout=SECONDS_MAX).topics[name].error
                assert error is not None and error.code() == NO_TOPIC
            with pytest.raises(KafkaException) as refused:
                admin.create_topics([NewTopic("bobs", 1, 1)])["bobs"].result(SECONDS_MAX)
            assert refused.value.args[0].code() == NO_TOPIC
            assert write(Producer(setting.client("bob", acks="all")), b"bob's") == NO_TOPIC
            consumer = Consumer(setting.client("bob", group_id=GROUP))
            consumer.subscribe([TOPIC])
            assert poll(consumer) in (NO_TOPIC, NO_GROUP)
            consumer.close()
            groups = admin.list_consumer_groups().result(SECONDS_MAX)
            assert (groups.valid, groups.errors) == ([], [])

    def try_by_kafka_python(setting: Setting) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=setting.cluster.bootstrap("CLIENTS"),
            security_protocol="SASL_SSL",
            ssl_cafile=setting.ca.file,
            sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username="bob",
            sasl_plain_password="bob's secret",
            enable_idempotence=False,
        )
        with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
            producer.send(TOPIC, b"bob's").get(timeout=SECONDS_MAX)
        producer.close()

    async def test(setting: Setting) -> None:
        for use in (use_as_alice, try_as_bob, try_by_kafka_python):
            await in_thread(use, setting)

    run(ca, tmp_path, test)


def test_changes_act_on_open_connections_at_once(ca: PrivateCa, tmp_path: Path) -> None:
    async def test(setting: Setting) -> None:
        setting.change(f"ALLOW bob@* DESCRIBE TOPIC {TOPIC}")
        await setting.told()
        producer = Producer(setting.client("bob", acks="all", enable_idempotence=False))
        assert await in_thread(write, producer, b"no") == NO_TOPIC
        consumer = Consumer(setting.client("alice", group_id=GROUP, auto_offset_reset="earliest"))
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        given = f"ALLOW bob@* WRITE TOPIC {TOPIC}"
        setting.change(given)
        await setting.told()
        assert await in_thread(write_once_permitted, producer, b"one") is None
        assert await in_thread(poll, consumer) == b"one"
        await setting.served()
        before = setting.connections_opened
        setting.change(f"DENY alice@* READ TOPIC {TOPIC}")
        await setting.told()
        assert await in_thread(write, producer, b"two") is None
        assert await in_thread(poll, consumer) == NO_TOPIC
        setting.change(removed=(given,))
        await setting.told()
        assert await in_thread(write, producer, b"no") == NO_TOPIC
        assert setting.connections_opened == before
        await in_thread(consumer.close)

    run(ca, tmp_path, test)


def test_a_client_on_the_inter_broker_listener_is_no_member_by_its_own_certificate(
    ca: PrivateCa, tmp_path: Path
) -> None:
    async def test(setting: Setting) -> None:
        pair = ca.issue("mallory", host="10.9.9.9")
        settings = {
            "bootstrap.servers": setting.cluster.bootstrap("INTERNAL"),
            "security.protocol": "SSL",
            "ssl.ca.location": ca.file,
            "ssl.certificate.location": pair.cert,
            "ssl.key.location": pair.key,
            "log_level": 0,
        }
        assert await in_thread(write, Producer(settings), b"mallory's") == NO_TOPIC
        setting.change(f"ALLOW CN=mallory@127.0.0.1 WRITE TOPIC {TOPIC}")
        await setting.told()
        assert await in_thread(write, Producer(settings), b"mallory's") is None

    run(ca, tmp_path, test)
