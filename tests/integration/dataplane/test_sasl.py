"""SASL on the listeners of a broker, for stock clients, on real sockets."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
import trio
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka.net.sasl.oauth import AbstractTokenProvider

from springtide.contract.security import UserSecrets
from tests.kit.dataplane.clients_in_threads import read_blocking, read_group_blocking
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.springtide.certificates import PrivateCa
from tests.kit.springtide.token_issuer import TokenIssuer, token_issuer
from tests.kit.springtide.users import users

TOPIC = "orders"
SECONDS_MAX = 60.0
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> PrivateCa:
    return PrivateCa(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenIssuer]:
    with token_issuer() as found:
        yield found


def configs(ca: PrivateCa, issuer: TokenIssuer, **more: str) -> dict[str, str]:
    return {
        "listeners": "INTERNAL://127.0.0.1:0,CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:SASL_SSL",
        "inter.broker.listener.name": "INTERNAL",
        "ssl.keystore.location": ca.keystore("broker"),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        **issuer.configs,
    } | {name.replace("_", "."): value for name, value in more.items()}


class Account:
    """Who logs in, at a cluster, in the words of each client."""

    def __init__(
        self, cluster: ClusterInProcess, ca: PrivateCa, mechanism: str, secret: str, *, user: str = "alice"
    ) -> None:
        self.bootstrap = cluster.bootstrap("CLIENTS")
        self.ca, self.mechanism, self.user, self.secret = ca, mechanism, user, secret

    @property
    def confluent(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.ca.file,
            "sasl.mechanism": self.mechanism,
            "log_level": 0,
        }
        if self.mechanism == "OAUTHBEARER":
            return settings | {"oauth_cb": lambda _config: (self.secret, time.time() + 600)}
        return settings | {"sasl.username": self.user, "sasl.password": self.secret}

    def python(self, provider: Any) -> dict[str, Any]:
        """For kafka-python and aiokafka."""
        settings: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=self.ca.file),
            "sasl_mechanism": self.mechanism,
        }
        if self.mechanism == "OAUTHBEARER":
            return settings | {"sasl_oauth_token_provider": provider}
        return settings | {"sasl_plain_username": self.user, "sasl_plain_password": self.secret}


def write_by_confluent(account: Account, value: bytes) -> None:
    producer = Producer(account.confluent | {"acks": "all"})
    failed: list[object] = []
    producer.produce(TOPIC, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(SECONDS_MAX) == 0
    assert failed == []


def write_by_kafka_python(account: Account, value: bytes) -> None:
    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return account.secret

    producer = kafka.KafkaProducer(**account.python(Provider()), acks="all")
    try:
        producer.send(TOPIC, value).get(timeout=SECONDS_MAX)
    finally:
        producer.close()


def write_by_aiokafka(account: Account, value: bytes) -> None:
    class Provider(AioTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return account.secret

    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(**account.python(Provider()), acks="all")
        await producer.start()
        try:
            await producer.send_and_wait(TOPIC, value)
        finally:
            await producer.stop()

    asyncio.run(write())


def write_by_kcat(account: Account, value: bytes) -> None:
    """Write with the librdkafka of the system, which is often one before 2.6.1."""
    settings = [part for key, text in account.confluent.items() for part in ("-X", f"{key}={text}")]
    subprocess.run(["kcat", "-P", "-t", TOPIC, *settings], input=value, timeout=SECONDS_MAX, check=True)


CLIENTS: dict[str, Callable[[Account, bytes], None]] = {
    "confluent": write_by_confluent,
    "kafka-python": write_by_kafka_python,
    "aiokafka": write_by_aiokafka,
    **({"kcat": write_by_kcat} if shutil.which("kcat") else {}),
}


def run(
    tmp_path: Path, settings: dict[str, str], test: Callable[[ClusterInProcess], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            with trio.fail_after(4 * SECONDS_MAX):
                await cluster.form(1, configs=settings)
                topic_id = cluster.controller.create_topic(TOPIC, ((1,),))
                await cluster.wait_isr(topic_id, 1)
                tell(cluster, users(alice="secret", bob="other"))
                await test(cluster)

    trio.run(main)


def tell(cluster: ClusterInProcess, known: dict[str, UserSecrets]) -> None:
    cluster.brokers[1].broker.view.users = known


def counted(cluster: ClusterInProcess, name: str) -> float:
    for family in cluster.brokers[1].broker.authentication.collect():
        if family.name.endswith(f"_{name}"):
            (sample,) = family.samples
            return sample.value
    raise AssertionError(name)


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    return await trio.to_thread.run_sync(function, *arguments)


def test_each_client_logs_in_by_each_mechanism(ca: PrivateCa, issuer: TokenIssuer, tmp_path: Path) -> None:
    async def test(cluster: ClusterInProcess) -> None:
        quick = {"group.initial.rebalance.delay.ms": "0"}
        await cluster.form_coordinators(1001, configs=configs(ca, issuer) | quick)
        cluster.coordinators[1001].process.view.users = users(alice="secret")
        expected = []
        for name, write in CLIENTS.items():
            for mechanism in MECHANISMS:
                if (name, mechanism) == ("kcat", "OAUTHBEARER"):
                    continue  # it takes no token that it has not fetched itself
                secret = issuer.token("alice") if mechanism == "OAUTHBEARER" else "secret"
                value = f"{name} by {mechanism}".encode()
                await in_thread(write, Account(cluster, ca, mechanism, secret), value)
                expected.append(value)
        reader = Account(cluster, ca, "SCRAM-SHA-512", "secret").confluent
        assert await in_thread(read_group_blocking, reader, TOPIC, len(expected)) == expected
        assert counted(cluster, "successful_authentication") >= len(expected)
        assert counted(cluster, "failed_authentication") == 0

    run(tmp_path, configs(ca, issuer), test)


def test_wrong_secrets_are_refused_and_the_client_is_told_why(
    ca: PrivateCa, issuer: TokenIssuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    def error_of(account: Account) -> str:
        """Return what librdkafka says of its failure to log in."""
        errors: list[KafkaError] = []
        deadline = time.monotonic() + SECONDS_MAX
        with AdminClient(account.confluent | {"error_cb": errors.append}) as admin:
            while not any(error.code() == KafkaError._AUTHENTICATION for error in errors):
                assert time.monotonic() < deadline
                admin.poll(0.1)
        return next(error.str() for error in errors if error.code() == KafkaError._AUTHENTICATION)

    def ask(account: Account) -> None:
        with AdminClient(account.confluent) as admin:
            admin.list_topics(timeout=2)

    async def test(cluster: ClusterInProcess) -> None:
        told = {
            (user, mechanism): await in_thread(error_of, Account(cluster, ca, mechanism, "guess", user=user))
            for user in ("alice", "stranger")
            for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        }
        assert all("the credentials are invalid" in error for error in told.values()), told
        forged = Account(cluster, ca, "OAUTHBEARER", issuer.token("alice", aud="another"))
        assert "invalid_token" in await in_thread(error_of, forged)
        with pytest.raises(KafkaException):
            await in_thread(ask, forged)
        assert counted(cluster, "successful_authentication") == 0
        assert counted(cluster, "failed_authentication") >= len(told) + 1
        await in_thread(write_by_confluent, Account(cluster, ca, "PLAIN", "secret"), b"still here")
        assert "guess" not in caplog.text
        assert "authentication_failed" in caplog.text

    run(tmp_path, configs(ca, issuer, connection_failed_authentication_delay_ms="10"), test)


def test_a_user_that_is_deleted_while_it_writes_is_cut_off_and_what_was_acknowledged_stays(
    ca: PrivateCa, issuer: TokenIssuer, tmp_path: Path
) -> None:
    acknowledged: list[bytes] = []
    errors: list[KafkaError] = []

    def write_until_refused(account: Account) -> None:
        settings = account.confluent | {"acks": "all", "enable.idempotence": True, "linger.ms": 1}
        producer = Producer(settings | {"error_cb": errors.append, "message.timeout.ms": 5_000})

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                acknowledged.append(message.value())

        deadline = time.monotonic() + SECONDS_MAX
        number = 0
        while not any(error.code() == KafkaError._AUTHENTICATION for error in errors):
            assert time.monotonic() < deadline
            producer.produce(TOPIC, b"%d" % number, on_delivery=delivered)
            number += 1
            producer.poll(0.001)
        producer.purge()
        producer.flush(SECONDS_MAX)

    async def test(cluster: ClusterInProcess) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                in_thread, write_until_refused, Account(cluster, ca, "SCRAM-SHA-512", "secret")
            )
            while len(acknowledged) < 100:  # noqa: ASYNC110 - a thread fills it
                await trio.sleep(0.01)
            deleted_at = time.monotonic()
            tell(cluster, users(bob="other"))
        assert time.monotonic() - deleted_at < 30
        assert counted(cluster, "revoked_connections_killed") >= 1
        stored = await in_thread(read_blocking, cluster.bootstrap(), TOPIC, len(acknowledged))
        assert stored == sorted(acknowledged, key=int)

    run(tmp_path, configs(ca, issuer), test)


def test_a_client_logs_in_again_on_its_connection_before_its_session_ends(
    ca: PrivateCa, issuer: TokenIssuer, tmp_path: Path
) -> None:
    """TN#665: there a login again broke the connection."""

    def write_by_confluent(account: Account) -> None:
        producer = Producer(account.confluent | {"acks": "all"})
        failed: list[object] = []
        for number in range(60):
            producer.produce(
                TOPIC, b"%d" % number, on_delivery=lambda error, _: failed.append(error) if error else None
            )
            producer.flush(SECONDS_MAX)
            time.sleep(0.1)
        assert failed == []

    def write_by_kafka_python(account: Account) -> None:
        producer = kafka.KafkaProducer(**account.python(None), acks="all")
        for number in range(60):
            producer.send(TOPIC, b"%d" % number).get(timeout=SECONDS_MAX)
            time.sleep(0.1)
        producer.close()

    async def test(cluster: ClusterInProcess) -> None:
        async with trio.open_nursery() as nursery:
            for write in (write_by_confluent, write_by_kafka_python):
                nursery.start_soon(in_thread, write, Account(cluster, ca, "SCRAM-SHA-256", "secret"))
        assert counted(cluster, "successful_reauthentication") >= 4
        assert counted(cluster, "failed_reauthentication") == 0
        assert counted(cluster, "expired_connections_killed") == 0

    run(tmp_path, configs(ca, issuer, connections_max_reauth_ms="2500"), test)


def test_a_client_is_known_by_its_certificate(ca: PrivateCa, issuer: TokenIssuer, tmp_path: Path) -> None:
    settings = configs(
        ca,
        issuer,
        listener_security_protocol_map="INTERNAL:PLAINTEXT,CLIENTS:SSL",
        ssl_client_auth="required",
        ssl_truststore_location=ca.file,
        ssl_principal_mapping_rules="RULE:CN=(.*)/$1/U",
    )
    pair = ca.issue("alice")

    context = ssl.create_default_context(cafile=ca.file)
    context.load_cert_chain(pair.cert, pair.key)

    def connect(port: int) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
        connected = context.wrap_socket(plain, server_hostname="127.0.0.1")
        connected.sendall(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff")  # ApiVersions
        assert connected.recv(8)[4:] == b"\x00\x00\x00\x07"
        return connected

    async def test(cluster: ClusterInProcess) -> None:
        port = cluster.brokers[1].process.node.listeners.named["CLIENTS"].port
        connected = await in_thread(connect, port)
        known = {
            (connection.principal, connection.certificate_names)
            for connection in cluster.brokers[1].broker.server._connections
            if connection.listener == "CLIENTS"
        }
        connected.close()
        assert known == {("User:ALICE", frozenset({"127.0.0.1"}))}

    run(tmp_path, settings, test)
