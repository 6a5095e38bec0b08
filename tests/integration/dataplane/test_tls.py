"""Listeners with TLS, between processes and for stock clients, on real sockets."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from springtide.node import tls_files
from springtide.tls import TlsFilesInvalid, client_context
from tests.kit.dataplane.clients_in_threads import read_group_blocking
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.secret_file import write_secret
from tests.kit.springtide.certificates import PrivateCa

TOPIC = "orders"
LARGE = [bytes([number]) * 700_000 for number in range(12)]
SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> PrivateCa:
    return PrivateCa(tmp_path_factory.mktemp("ca"))


def configs(ca: PrivateCa, keystore: str, **more: str) -> dict[str, str]:
    return {
        "listeners": "INTERNAL://127.0.0.1:0,CLIENTS://127.0.0.1:0,HOME://127.0.0.1:0",
        "listener.security.protocol.map": "INTERNAL:SSL,CLIENTS:SSL,HOME:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "listener.name.internal.ssl.client.auth": "required",
        "ssl.keystore.location": keystore,
        "ssl.truststore.location": ca.file,
    } | {name.replace("_", "."): value for name, value in more.items()}


def client(ca: PrivateCa, bootstrap: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": ca.file,
        "log_level": 0,
    } | {name.replace("_", "."): value for name, value in more.items()}


def write(settings: dict[str, Any], values: list[bytes]) -> None:
    failed: list[object] = []
    producer = Producer(settings | {"enable.idempotence": True, "message.max.bytes": 2_000_000})
    for value in values:
        producer.produce(TOPIC, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(SECONDS_MAX) == 0
    assert failed == []


def brokers_told(settings: dict[str, Any], *, seconds: float = SECONDS_MAX) -> set[int]:
    with AdminClient(settings) as client:
        return {broker.port for broker in client.list_topics(timeout=seconds).brokers.values()}


def run(tmp_path: Path, test: Callable[[ClusterInProcess], Awaitable[None]]) -> None:
    async def main() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            with trio.fail_after(4 * SECONDS_MAX):
                await test(cluster)

    trio.run(main)


def wait_for(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    return await trio.to_thread.run_sync(function, *arguments)


def test_a_cluster_replicates_and_serves_groups_over_tls(ca: PrivateCa, tmp_path: Path) -> None:
    """Also from files: brokers keep next to nothing in memory."""

    async def test(cluster: ClusterInProcess) -> None:
        cluster.tail_bytes_max = 4_096
        settings = configs(ca, ca.keystore("broker"))
        await cluster.form(1, 2, 3, configs=settings)
        await cluster.form_coordinators(1001, configs=settings | {"group.initial.rebalance.delay.ms": "0"})
        topic_id = cluster.controller.create_topic(TOPIC, ((1, 2, 3),))
        await cluster.wait_isr(topic_id, 1, 2, 3)
        over_tls = client(ca, cluster.bootstrap("CLIENTS"))
        await in_thread(write, over_tls, LARGE)
        assert await in_thread(read_group_blocking, over_tls, TOPIC, len(LARGE)) == LARGE
        plain = {"bootstrap.servers": cluster.bootstrap("HOME")}
        nodes = [broker.process.node for broker in cluster.brokers.values()]
        # Bindings of librdkafka are told of coordinators as well.
        nodes += [coordinator.process.node for coordinator in cluster.coordinators.values()]
        for name, asker in (("CLIENTS", over_tls), ("HOME", plain)):
            ports = {node.listeners.named[name].port for node in nodes}
            assert await in_thread(brokers_told, asker) == ports

    run(tmp_path, test)


def test_who_does_not_speak_tls_or_shows_nothing_is_refused_and_others_go_on(
    ca: PrivateCa, tmp_path: Path
) -> None:
    def refused(address: tuple[str, int], context: ssl.SSLContext) -> None:
        with (
            pytest.raises((ssl.SSLError, ConnectionError)),
            context.wrap_socket(socket.create_connection(address), server_hostname="127.0.0.1") as secured,
        ):
            secured.sendall(b"\x00\x00\x00\x00")
            assert secured.recv(1) == b"", "a refusal may also come as an end"
            raise ConnectionResetError

    async def test(cluster: ClusterInProcess) -> None:
        await cluster.form(1, configs=configs(ca, ca.keystore("broker")))
        cluster.controller.create_topic(TOPIC, ((1,),))
        named = cluster.brokers[1].process.node.listeners.named
        plain: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap("CLIENTS"), "log_level": 0}
        with pytest.raises(KafkaException):
            await in_thread(lambda: brokers_told(plain, seconds=2))
        nothing_to_show = ssl.create_default_context(cafile=ca.file)
        await in_thread(refused, ("127.0.0.1", named["INTERNAL"].port), nothing_to_show)
        stranger = PrivateCa(tmp_path)
        shows_anothers = ssl.create_default_context(cafile=ca.file)
        shows_anothers.load_cert_chain(stranger.keystore("mallory"))
        await in_thread(refused, ("127.0.0.1", named["INTERNAL"].port), shows_anothers)
        assert cluster.brokers[1].broker.counters.connections_closed_malformed >= 3
        await in_thread(write, client(ca, cluster.bootstrap("CLIENTS")), [b"still here"])

    run(tmp_path, test)


def test_a_renewed_certificate_is_shown_to_new_connections_and_old_ones_go_on(
    ca: PrivateCa, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_files, "LOOK_MS", 50)
    keystore = tmp_path / "keystore.pem"
    write_secret(keystore, Path(ca.keystore("first")).read_text())

    def connect(port: int) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=ca.file)
        return context.wrap_socket(
            socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX), server_hostname="127.0.0.1"
        )

    def is_shown(name: bytes, port: int) -> bool:
        with connect(port) as secured:
            return name in (secured.getpeercert(binary_form=True) or b"")

    def replace(text: str) -> None:
        write_secret(tmp_path / "new.pem", text).replace(keystore)

    def walk(port: int) -> None:
        with connect(port) as old:
            replace("half written")
            wait_for(lambda: "certificate_not_renewed" in caplog.text)
            assert is_shown(b"first", port)
            replace(Path(ca.keystore("second")).read_text())
            wait_for(lambda: is_shown(b"second", port))
            old.sendall(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff")  # ApiVersions
            assert old.recv(8)[4:] == b"\x00\x00\x00\x07"

    async def test(cluster: ClusterInProcess) -> None:
        await cluster.form(1, configs=configs(ca, str(keystore), metrics_security_protocol="SSL"))
        node = cluster.brokers[1].process.node
        await in_thread(walk, node.listeners.named["CLIENTS"].port)
        assert node.status is not None
        await in_thread(wait_for, partial(is_shown, b"second", node.status.address[1]))

    run(tmp_path, test)


def test_the_page_of_metrics_is_for_those_that_show_a_certificate(
    ca: PrivateCa, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    settings = {"metrics.security.protocol": "SSL", "listener.name.metrics.ssl.client.auth": "required"}

    def ask(url: str, context: ssl.SSLContext) -> str:
        return httpx.get(url, verify=context, timeout=SECONDS_MAX).text

    async def test(cluster: ClusterInProcess) -> None:
        keystore = ca.keystore("broker")
        await cluster.form(1, configs=configs(ca, keystore, **settings))
        await cluster.form_coordinators(1001, configs=configs(ca, keystore, **settings))
        knows_prometheus = client_context(ca=ca.file, cert=keystore, key=keystore)
        for node in (cluster.brokers[1].process.node, cluster.coordinators[1001].process.node):
            assert node.status is not None
            url = f"https://127.0.0.1:{node.status.address[1]}/metrics"
            assert f"metrics_served url={url}" in caplog.text
            page = await in_thread(ask, url, knows_prometheus)
            assert 'springtide_certificate_expiry_time_seconds{listener="METRICS"}' in page
            with pytest.raises(httpx.HTTPError):
                await in_thread(ask, url, client_context(ca=ca.file, cert=None, key=None))
            with pytest.raises(httpx.HTTPError):
                await in_thread(ask, url.replace("https", "http"), knows_prometheus)
            assert await in_thread(ask, url, knows_prometheus)
        for cause in ("peer did not return a certificate", "http request"):
            assert caplog.text.count(f"peer=127.0.0.1 cause=TLS: {cause}") == 2

    run(tmp_path, test)


def test_files_that_can_not_be_used_end_the_start_with_a_reason(ca: PrivateCa, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")

    async def test(cluster: ClusterInProcess) -> None:
        opening = partial(cluster.open, 1, configs=configs(ca, missing))
        with pytest.raises(TlsFilesInvalid, match="missing"):
            await opening()

    run(tmp_path, test)


def test_a_process_says_that_its_certificate_is_refused_and_that_it_is_spoken_to_in_tls(
    ca: PrivateCa, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Broker 2 shows the certificate of another CA."""
    stranger = PrivateCa(tmp_path)
    caplog.set_level("INFO")

    async def test(cluster: ClusterInProcess) -> None:
        await cluster.start(1, configs=configs(ca, ca.keystore("broker")))
        await cluster.start(2, configs=configs(ca, stranger.keystore("mallory")))
        image = cluster.controller.image
        await cluster.controller.wait_for(lambda: {1, 2} <= image.brokers.keys(), "both register")
        cluster.controller.admit(1, 2)
        await cluster.wait_active(1, 2)
        cluster.controller.create_topic(TOPIC, ((1, 2),))
        told = "cause=tlsv1 alert unknown ca failures=1"
        await in_thread(wait_for, lambda: told in caplog.text)

        def speaks_tls(port: int) -> None:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                context = ssl.create_default_context(cafile=ca.file)
                context.wrap_socket(
                    socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1"
                )

        await in_thread(speaks_tls, cluster.brokers[1].process.node.listeners.named["HOME"].port)
        assert "the client speaks TLS, and this listener does not" in caplog.text

    run(tmp_path, test)
