"""The pipeline's client against brokers with TLS and SASL: what works, and what each refusal says."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from pipeline.client.client import Client
from pipeline.client.config import client_config
from pipeline.client.errors import ClientError
from pipeline.client.pool import ConnectionPool
from pipeline.client.values import PartitionRange, ProduceResult, TopicPartition
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.springtide.certificates import PrivateCa
from tests.kit.springtide.token_issuer import TokenIssuer, token_issuer
from tests.kit.springtide.users import users

WHERE = TopicPartition("orders", 0)
SECONDS_MAX = 120.0
LISTENERS = {
    "listeners": "CLIENTS://127.0.0.1:0,HOME://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:SSL,HOME:PLAINTEXT",
    "inter.broker.listener.name": "CLIENTS",
    "ssl.client.auth": "required",
}
LARGE = [bytes([number]) * 300_000 for number in range(9)]


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    with closing(ConnectionPool()) as made:
        yield made


def client(pool: ConnectionPool, bootstrap: str, **given: str) -> Client:
    named = {name.replace("_", "."): value for name, value in given.items()}
    config = client_config({"bootstrap.servers": bootstrap} | named)
    return Client(config, pool=pool)


def write_and_read(over_tls: Client) -> list[bytes]:
    """Return the batches that come back of those that were written."""
    batches = [encode_batch([NewRecord(None, value, 1_700_000_000_000)]) for value in LARGE]
    for batch in batches:
        over_tls.produce({WHERE: batch})
    with over_tls.fetch([PartitionRange(*WHERE, 0, len(LARGE))]) as stream:
        stored = b"".join(bytes(fetched.records) for fetched in stream)
    return [value for value in LARGE if value in stored]


def refusal(refused: Client) -> str:
    with pytest.raises(ClientError) as caught:
        refused.refresh([WHERE.topic])
    return f"{type(caught.value).__name__}: {caught.value}"


def run(directory: Path, test: Callable[[ClusterInProcess], Awaitable[None]]) -> None:
    async def main() -> None:
        async with cluster_in_process(directory) as cluster:
            with trio.fail_after(SECONDS_MAX):
                await test(cluster)

    trio.run(main)


async def refused(pool: ConnectionPool, bootstrap: str, **given: str) -> str:
    return await trio.to_thread.run_sync(lambda: refusal(client(pool, bootstrap, **given)))


def test_records_go_both_ways_over_tls_with_a_clients_certificate(
    tmp_path: Path, pool: ConnectionPool
) -> None:
    ca, stranger = PrivateCa(tmp_path), PrivateCa(tmp_path, name="stranger")
    tls = {"security_protocol": "SSL", "ssl_truststore_location": ca.file}
    shown = {"ssl_keystore_location": ca.keystore("alice")}
    configs = LISTENERS | {"ssl.keystore.location": ca.keystore("broker"), "ssl.truststore.location": ca.file}

    async def test(cluster: ClusterInProcess) -> None:
        await cluster.form(1, 2, configs=configs)
        topic_id = cluster.controller.create_topic(WHERE.topic, ((1, 2),))
        await cluster.wait_isr(topic_id, 1, 2)
        secured, plain = cluster.bootstrap("CLIENTS"), cluster.bootstrap("HOME")
        over_tls = client(pool, secured, **tls, **shown)
        assert await trio.to_thread.run_sync(write_and_read, over_tls) == LARGE
        told = await refused(pool, secured, **tls)
        assert "AccessRefused" in told and "name the file of one and its key in kafka.ssl.keystore" in told
        told = await refused(pool, secured, **tls | {"ssl_truststore_location": stranger.file}, **shown)
        assert "AccessRefused" in told and "name the CA's file in kafka.ssl.truststore.location" in told
        told = await refused(pool, secured)
        assert "it speaks TLS there: set kafka.security.protocol to SSL or SASL_SSL" in told
        assert "does not speak TLS there" in await refused(pool, plain, **tls, **shown)

    run(tmp_path / "cluster", test)


def test_alice_logs_in_by_each_mechanism_and_again_before_her_session_ends(
    tmp_path: Path, pool: ConnectionPool
) -> None:
    ca = PrivateCa(tmp_path)
    tls = {"security_protocol": "SASL_SSL", "ssl_truststore_location": ca.file}
    password = tls | {"sasl_username": "alice", "sasl_password": "secret"}

    def write_until(over_tls: Client, is_over: Callable[[], bool]) -> None:
        """Write on one connection, which a broker would cut at its session's end."""
        batch = encode_batch([NewRecord(None, b"again", 1_700_000_000_000)])
        ends = time.monotonic() + SECONDS_MAX / 2
        while not is_over():
            assert time.monotonic() < ends
            (result,) = over_tls.produce_once({WHERE: batch}).values()
            assert isinstance(result, ProduceResult) and result.error is ErrorCode.NONE

    async def test(cluster: ClusterInProcess, issuer: TokenIssuer) -> None:
        configs = {
            "listeners": "INTERNAL://127.0.0.1:0,CLIENTS://127.0.0.1:0",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:SASL_SSL",
            "inter.broker.listener.name": "INTERNAL",
            "ssl.keystore.location": ca.keystore("broker"),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            "connections.max.reauth.ms": "2000",
            "connection.failed.authentication.delay.ms": "10",
        }
        await cluster.form(1, configs=configs | issuer.configs)
        topic_id = cluster.controller.create_topic(WHERE.topic, ((1,),))
        await cluster.wait_isr(topic_id, 1)
        broker = cluster.brokers[1].broker
        broker.view.users = users(alice="secret")
        secured, plain = cluster.bootstrap("CLIENTS"), cluster.bootstrap("INTERNAL")

        def counted(name: str) -> float:
            families = {one.name: one.samples for one in broker.authentication.collect()}
            return next(found[0].value for full, found in families.items() if full.endswith(f"_{name}"))

        for mechanism, login in (
            ("OAUTHBEARER", tls | {"sasl_oauthbearer_token": issuer.token("alice")}),
            ("PLAIN", password),
            ("SCRAM-SHA-256", password),
        ):
            logged_in = client(pool, secured, sasl_mechanism=mechanism, **login)
            assert await trio.to_thread.run_sync(write_and_read, logged_in) == LARGE
        await trio.to_thread.run_sync(
            write_until, logged_in, lambda: counted("successful_reauthentication") >= 2
        )
        assert (counted("failed_authentication"), counted("expired_connections_killed")) == (0, 0)

        told = await refused(pool, secured, sasl_mechanism="PLAIN", **password | {"sasl_password": "guess"})
        assert "AccessRefused" in told and "check kafka.sasl.username and kafka.sasl.password" in told
        told = await refused(pool, secured, sasl_mechanism="SCRAM-SHA-512", **password)
        assert "set kafka.sasl.mechanism to one that is (PLAIN, SCRAM-SHA-256, OAUTHBEARER)" in told
        told = await refused(pool, secured, **tls | {"security_protocol": "SSL"})
        assert "perhaps it wants a login: kafka.security.protocol=SASL_SSL" in told
        over_tcp = password | {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
        assert "this listener has no SASL" in await refused(pool, plain, **over_tcp)

    with token_issuer() as issuer:
        run(tmp_path / "cluster", lambda cluster: test(cluster, issuer))
