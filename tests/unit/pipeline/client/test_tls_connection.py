"""Connections over TLS, and with a login: what works, and what users are told where it does not."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig, client_config
from pipeline.client.connection import BrokerConnection
from pipeline.client.errors import AccessRefused, ConnectionLost, InvalidClientOption
from pipeline.client.messages import produce_request
from pipeline.client.pool import ConnectionPool
from pipeline.client.tls import JOINED_BYTES, joined_writes
from pipeline.client.values import LATEST, PartitionRange, TopicPartition
from springtide.security.sasl.exchange import Mechanism
from springtide.wire.apis import ApiKey
from tests.kit.pipeline.brokers import Body, Handler, ScriptedBroker
from tests.kit.pipeline.sasl_side import SaslSide, options
from tests.kit.springtide.certificates import PrivateCa

METADATA: Mapping[ApiKey, Handler] = {ApiKey.METADATA: lambda _: {}}


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> PrivateCa:
    return PrivateCa(tmp_path_factory.mktemp("ca"))


def listener(ca: PrivateCa, keystore: str, *, asks_for_certificates: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keystore)
    if asks_for_certificates:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(ca.file)
    return context


def config(broker: ScriptedBroker, **given: str) -> ClientConfig:
    host, port = broker.address
    named = {name.replace("_", "."): value for name, value in given.items()}
    return client_config({"bootstrap.servers": f"{host}:{port}"} | named)


def over_tls(ca: PrivateCa, **more: str) -> dict[str, str]:
    return {"security_protocol": "SSL", "ssl_truststore_location": ca.file} | more


def ask(broker: ScriptedBroker, **given: str) -> None:
    """Make a connection and ask for metadata."""
    connection = BrokerConnection(broker.address, config(broker, **given))
    try:
        connection.call(ApiKey.METADATA, {"topics": ()})
        assert connection.is_reusable
    finally:
        connection.close()


def test_a_client_and_a_broker_know_each_other_by_certificates(ca: PrivateCa) -> None:
    context = listener(ca, ca.keystore("broker"), asks_for_certificates=True)
    with ScriptedBroker(METADATA, context=context) as broker:
        ask(broker, **over_tls(ca, ssl_keystore_location=ca.keystore("alice")))


def test_large_requests_and_answers_go_over_tls_whole(ca: PrivateCa) -> None:
    body = bytes(range(256)) * 4_000
    asked: list[Any] = []

    def produce(message: Any) -> Any:
        (topic,) = message.topic_data
        asked.extend(bytes(one.records) for one in topic.partition_data)
        return Body(bytes(3 * JOINED_BYTES))

    with ScriptedBroker({ApiKey.PRODUCE: produce}, context=listener(ca, ca.keystore("broker"))) as broker:
        connection = BrokerConnection(broker.address, config(broker, **over_tls(ca)))
        batches = {TopicPartition("t", number): body[: 1_000 * number**2] for number in range(1, 20)}
        connection.send(ApiKey.PRODUCE, produce_request(batches, acks=-1, timeout_ms=1))
        frame, position = connection.receive()
        assert len(frame) - position == 3 * JOINED_BYTES
        connection.close()
    assert asked == list(batches.values())


def test_small_pieces_share_a_write_and_large_ones_are_not_copied() -> None:
    class Recorder:
        def __init__(self) -> None:
            self.sent: list[Any] = []

        def send(self, piece: Any) -> int:
            self.sent.append(piece)
            return len(piece)

    recorder = Recorder()
    send = joined_writes(recorder)  # type: ignore[arg-type]
    large = memoryview(bytes(JOINED_BYTES + 1))
    small = [memoryview(b"ab"), memoryview(b"c")]
    assert send([*small, large]) == 3
    assert send([large, *small]) == JOINED_BYTES + 1
    assert recorder.sent == [b"abc", large]
    assert recorder.sent[1] is large


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ssl_truststore_location": "other"}, "CA that is not trusted.*kafka.ssl.truststore.location"),
        ({}, "takes only clients with a certificate.*kafka.ssl.keystore.location"),
        ({"ssl_keystore_location": "other"}, "does not trust the certificate in kafka.ssl.keystore.location"),
    ],
)
def test_a_certificate_that_is_not_trusted_is_told_at_once(
    ca: PrivateCa, tmp_path: Path, given: dict[str, str], message: str
) -> None:
    other = PrivateCa(tmp_path)
    files = {"ssl_truststore_location": other.file, "ssl_keystore_location": other.keystore("mallory")}
    context = listener(ca, ca.keystore("broker"), asks_for_certificates=True)
    with (
        ScriptedBroker(METADATA, context=context) as broker,
        pytest.raises(AccessRefused, match=f"broker 127.0.0.1:.*{message}"),
    ):
        ask(broker, **over_tls(ca, **{name: files[name] for name in given}))


def test_a_broker_must_have_the_name_that_it_is_reached_by_unless_the_user_says_otherwise(
    ca: PrivateCa,
) -> None:
    context = listener(ca, ca.keystore("elsewhere", host="127.0.0.9"))
    with ScriptedBroker(METADATA, context=context) as broker:
        with pytest.raises(AccessRefused, match=r"not for 127\.0\.0\.1: .* kafka\.bootstrap\.servers"):
            ask(broker, **over_tls(ca))
        ask(broker, **over_tls(ca, ssl_endpoint_identification_algorithm=""))


def test_files_that_can_not_be_used_are_named(ca: PrivateCa) -> None:
    with (
        ScriptedBroker(METADATA) as broker,
        pytest.raises(InvalidClientOption, match=r"kafka\.ssl\.keystore\.location: cannot read /nowhere"),
    ):
        ask(broker, **over_tls(ca, ssl_keystore_location="/nowhere"))


def test_a_client_in_the_clear_is_told_that_the_listener_speaks_tls(ca: PrivateCa) -> None:
    alert = bytes((0x15, 3, 3, 0, 2, 2, 70))
    with ScriptedBroker({ApiKey.API_VERSIONS: lambda _: alert}) as broker:
        with pytest.raises(
            AccessRefused, match=r"it speaks TLS there: set kafka\.security\.protocol to SSL or"
        ):
            ask(broker)
        broker.handlers[ApiKey.API_VERSIONS] = lambda _: None
        with pytest.raises(
            ConnectionLost, match=r"perhaps it speaks TLS there: set kafka\.security\.protocol"
        ):
            ask(broker)


@pytest.mark.parametrize(
    ("says", "kind", "message"),
    [
        (
            b"\x00\x00\x00\x04oops",
            AccessRefused,
            "does not speak TLS there: set kafka.security.protocol to PLAIN",
        ),
        (b"", ConnectionLost, "perhaps it does not speak TLS there"),
    ],
)
def test_a_client_of_tls_is_told_that_the_listener_speaks_none(
    ca: PrivateCa, says: bytes, kind: type[Exception], message: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as other_side:

        def answer() -> None:
            with server.accept()[0] as connected:
                connected.recv(4096)
                connected.sendall(says)

        other_side.submit(answer)
        host, port = server.getsockname()
        given = {"bootstrap.servers": "b:1", "security.protocol": "SSL", "ssl.truststore.location": ca.file}
        with pytest.raises(kind, match=message):
            BrokerConnection((host, port), client_config(given))


@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_client_logs_in_over_tls(ca: PrivateCa, mechanism: Mechanism) -> None:
    side = SaslSide()
    handlers = {**METADATA, **side.handlers}
    with ScriptedBroker(handlers, context=listener(ca, ca.keystore("broker"))) as broker:
        login = {name.replace(".", "_"): value for name, value in options(mechanism).items()}
        ask(broker, **login | over_tls(ca, security_protocol="SASL_SSL"))
    assert side.session.principal == "alice"


def test_a_refused_login_ends_the_connection_and_names_the_broker() -> None:
    side = SaslSide(password="another")
    with ScriptedBroker({**METADATA, **side.handlers}) as broker:
        login = options(Mechanism.PLAIN) | {"bootstrap.servers": "b:1"}
        with pytest.raises(AccessRefused, match=r"broker 127\.0\.0\.1:\d+: Authentication failed.*check"):
            BrokerConnection(broker.address, client_config(login))
        assert broker.times_asked(ApiKey.METADATA) == 0


def test_a_client_does_not_try_a_refused_login_again() -> None:
    with ScriptedBroker({**METADATA, **SaslSide(password="another").handlers}) as broker:
        host, port = broker.address
        login = client_config(options(Mechanism.PLAIN) | {"bootstrap.servers": f"{host}:{port}"})
        client = Client(login, pool=ConnectionPool())
        with pytest.raises(AccessRefused):
            client.metadata(None)
        where = TopicPartition("t", 0)
        with pytest.raises(AccessRefused):
            client.list_offsets({where: LATEST})
        with pytest.raises(AccessRefused):
            list(client.fetch([PartitionRange(*where, 0, 1)]))
        assert broker.connections == 3


def test_a_listener_without_sasl_is_told_and_so_is_one_that_wants_it() -> None:
    few = {"api_keys": [{"api_key": int(ApiKey.METADATA), "min_version": 0, "max_version": 99}]}
    with ScriptedBroker({ApiKey.API_VERSIONS: lambda _: few, ApiKey.METADATA: lambda _: None}) as broker:
        login = client_config(options(Mechanism.PLAIN) | {"bootstrap.servers": "b:1"})
        with pytest.raises(AccessRefused, match=r"no SASL: set kafka\.security\.protocol to PLAINTEXT"):
            BrokerConnection(broker.address, login)
        with pytest.raises(ConnectionLost, match=r"perhaps it wants a login: kafka\.security\.protocol=SASL"):
            ask(broker)


def test_a_session_that_ends_is_renewed_before_a_request_when_no_answer_is_under_way() -> None:
    side = SaslSide(lifetime_ms_max=1)
    with ScriptedBroker({**METADATA, **side.handlers}) as broker:
        login = client_config(options(Mechanism.SCRAM_SHA_256) | {"bootstrap.servers": "b:1"})
        connection = BrokerConnection(broker.address, login)
        assert broker.times_asked(ApiKey.SASL_HANDSHAKE) == 1
        body = [b"\x01\x00\x00\x00"]
        for logins in (2, 3):
            side.now_ms += 2_000
            connection.send(ApiKey.METADATA, body)
            connection.send(ApiKey.METADATA, body)
            connection.receive()
            connection.receive()
            assert broker.times_asked(ApiKey.SASL_HANDSHAKE) == logins
        assert side.session.principal == "alice"
        assert connection.is_reusable
        connection.close()


def test_a_renewal_that_is_refused_ends_the_connection() -> None:
    side = SaslSide(lifetime_ms_max=1)
    with ScriptedBroker({**METADATA, **side.handlers}) as broker:
        login = client_config(options(Mechanism.PLAIN) | {"bootstrap.servers": "b:1"})
        connection = BrokerConnection(broker.address, login)
        broker.handlers |= SaslSide(password="changed").handlers
        with pytest.raises(AccessRefused, match="Authentication failed"):
            connection.call(ApiKey.METADATA, {"topics": ()})
        assert not connection.is_open
