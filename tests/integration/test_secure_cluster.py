"""Security whole, with real processes and stock clients: `up --secure`, started once for all tests.

Everything speaks TLS, clients log in by SCRAM, and ACLs decide. Tests run in the file's order: the last ones
break what the first ones need.
"""

from __future__ import annotations

import asyncio
import io
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
from aiokafka.helpers import create_ssl_context
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ClusterMetadata
from cryptography import x509

from localcluster.__main__ import KCAT_LOGIN
from localcluster.access import ALICE, OPERATOR, VIEWER
from localcluster.cluster import LocalCluster
from localcluster.load import ClientLoad, ends_of, read_everything
from localcluster.tls import HOST
from localcluster.verdict import judge
from springtide.__main__ import execute

pytestmark = pytest.mark.timeout(240)

TOPIC, GROUP, PARTITIONS = "orders", "orders-billing", 3
VALUES = [b"%d" % number for number in range(100)]
SOME = VALUES[:20]
SECONDS_MAX = 60.0
SOON_SECONDS = 10.0
RECORDS_PER_SECOND = 300
BOB = "bob"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """With bob, too, whom no ACL allows anything."""
    with LocalCluster(coordinators=1, is_secure=True, has_users=True) as running:
        running.form()
        running.create_topic(TOPIC, partitions=PARTITIONS)
        running.clients[BOB] = running.access.add_user(running.api, running.name, BOB)
        yield running


def settings_of(cluster: LocalCluster, user: str) -> dict[str, Any]:
    return {**cluster.clients[user].settings, "log_level": 0, "error_cb": lambda error: None}


def test_alice_writes_and_reads_in_a_group_with_each_stock_client(cluster: LocalCluster) -> None:
    write(settings_of(cluster, ALICE), VALUES)
    assert sorted(read(settings_of(cluster, ALICE), len(VALUES)), key=int) == VALUES
    for round_trip in (over_kcat, over_kafka_python, over_aiokafka):
        name = f"{TOPIC}-{round_trip.__name__.replace('_', '-')}"
        cluster.create_topic(name)
        assert round_trip(cluster, name) == SOME, name

    told = {broker.port for broker in metadata_for(cluster, ALICE).brokers.values()}
    nodes = [*cluster.brokers.values(), *cluster.coordinators.values()]
    assert told <= {node.sasl_port for node in nodes}, "clients are told of their own listener"
    groups = cluster.api.get(f"/clusters/{cluster.name}/groups")["items"]
    assert GROUP in {group["group_id"] for group in groups}, "the controller asks coordinators over TLS"
    shown = cluster.api.get(f"/clusters/{cluster.name}/brokers")["items"]
    assert {one["protocol"] for broker in shown for one in broker["listeners"]} == {"SSL", "SASL_SSL"}
    assert all("springtide_certificate_expiry_time_seconds" in node.metrics() for node in nodes)


def test_bob_is_refused_everywhere_and_the_controller_explains_why(cluster: LocalCluster) -> None:
    bob = settings_of(cluster, BOB)
    assert refusal_of_a_write(bob) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert refusal_of_a_read(bob, GROUP) in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    )
    assert TOPIC not in metadata_for(cluster, BOB).topics, "what he may not see is not told"
    wrong = settings_of(cluster, ALICE) | {"sasl.password": "guessed"}
    assert has_failed_to_log_in(wrong)

    explained = springtide(cluster, "acls", "explain", "User:bob", "write", f"topic:{TOPIC}")
    assert "User:bob from each host may not write topic 'orders'" in explained
    assert "none of them is for this client" in explained
    explained = springtide(cluster, "acls", "explain", "User:alice", "write", f"topic:{TOPIC}")
    assert "a binding allows User:alice" in explained


def test_a_transaction_needs_a_right_to_its_id_and_its_offsets_and_markers_cross_members_connections(
    cluster: LocalCluster,
) -> None:
    """Leaders and coordinators ask each other, and send markers, as members of the cluster."""
    topic, group = "ledger", "ledger-readers"
    cluster.create_topic(topic)
    settings = settings_of(cluster, OPERATOR) | {"transactional.id": "ledger"}
    reader = Consumer(
        settings_of(cluster, OPERATOR)
        | {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    producer = Producer(settings)
    try:
        producer.init_transactions(SECONDS_MAX)
        for ends in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            producer.produce(topic, ends.__name__.encode(), partition=0)
            offset = TopicPartition(topic, 0, 1)
            producer.send_offsets_to_transaction([offset], reader.consumer_group_metadata(), SECONDS_MAX)
            ends(SECONDS_MAX)
        reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        message = reader.poll(SECONDS_MAX)
        assert message is not None and message.value() == b"commit_transaction"
        (committed,) = reader.committed([TopicPartition(topic, 0)], SECONDS_MAX)
        assert committed.offset == 1
    finally:
        reader.close()
    with pytest.raises(KafkaException) as refused:
        Producer(settings_of(cluster, BOB) | {"transactional.id": "ledger"}).init_transactions(SECONDS_MAX)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_the_viewer_sees_and_does_not_read_and_the_operator_may_do_everything(cluster: LocalCluster) -> None:
    viewer = settings_of(cluster, VIEWER)
    assert TOPIC in metadata_for(cluster, VIEWER).topics
    assert refusal_of_a_write(viewer) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert refusal_of_a_read(viewer, GROUP) == KafkaError.GROUP_AUTHORIZATION_FAILED
    read_all = read(settings_of(cluster, OPERATOR), len(VALUES), group="any-group")
    assert sorted(read_all, key=int) == VALUES


def test_records_are_deleted_over_rest_where_tokens_and_acls_decide(cluster: LocalCluster) -> None:
    """The leader asks the controller, to which Kafka's clients have no right of their own here."""
    topic = "crumbs"
    cluster.create_topic(topic)
    producer = Producer(settings_of(cluster, OPERATOR))
    for value in SOME:
        producer.produce(topic, value)
    assert producer.flush(SECONDS_MAX) == 0
    path = f"/clusters/{cluster.name}/topics/{topic}/partitions/0:delete-records"
    done = cluster.api.post(path, {"before_offset": 15, "reason": "stale"}).json()
    assert (done["log_start_offset_before"], done["log_start_offset"], done["log_end_offset"]) == (0, 15, 20)
    rows = cluster.api.get(f"/audit?topic={topic}&cause=delete_records")["items"]
    assert [(row["reason"], row["outcome"]["outcome"]) for row in rows] == [("stale", "succeeded")]


def test_passwords_and_tokens_are_in_their_files_only(cluster: LocalCluster) -> None:
    files = list((cluster.directory / "clients").iterdir())
    assert {f"{user}.{end}" for user in cluster.clients for end in ("conf", "properties")} < {
        file.name for file in files
    }
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert cluster.tokens is not None
    passwords = [found.settings["sasl.password"] for found in cluster.clients.values()]
    passwords.append(cluster.tokens.read())
    seen = "".join(file.read_text(errors="replace") for file in cluster.log_directory.iterdir())
    for process in cluster.processes:
        seen += Path(f"/proc/{process.pid}/cmdline").read_text()
    seen += str(cluster.audit())
    assert not any(password in seen for password in passwords)


def test_a_password_a_certificate_and_a_leader_change_under_load_and_no_acknowledged_record_is_lost(
    cluster: LocalCluster,
) -> None:
    topic = f"{TOPIC}-load"
    cluster.create_topic(topic, partitions=PARTITIONS)
    alice = settings_of(cluster, ALICE)
    load = ClientLoad(
        bootstrap_servers=cluster.sasl_bootstrap_servers,
        topic=topic,
        partitions=PARTITIONS,
        records_per_second=RECORDS_PER_SECOND,
        client_config={name: value for name, value in alice.items() if name != "error_cb"},
    )

    def goes_on(what: str) -> None:
        before = len(load.acknowledged)
        more = before + RECORDS_PER_SECOND
        cluster.wait_until(f"writes after {what}", lambda: len(load.acknowledged) >= more)

    with load:
        goes_on("the start")
        cluster.api.put(f"/clusters/{cluster.name}/users/{ALICE}", {"password": "another one"})
        cluster.wait_until("the old password is of no use", lambda: has_failed_to_log_in(alice))
        load.log_in(ALICE, "another one")
        cluster.access.write(cluster.clients[ALICE], ALICE, "another one")
        goes_on("the change of the password")

        assert cluster.tls is not None
        nodes = [*cluster.brokers.values(), *cluster.coordinators.values()]
        before = {serial_of(node.sasl_port) for node in nodes}
        cluster.tls.certificate(HOST)
        cluster.wait_until("all show it", lambda: not before & {serial_of(node.sasl_port) for node in nodes})
        goes_on("the renewal of the certificate")

        cluster.kill_broker(cluster.leader(load.topic, 0))
        goes_on("the death of a leader")
    assert load.failed == []
    everything = read_everything(
        bootstrap_servers=cluster.sasl_bootstrap_servers,
        topic=topic,
        partitions=PARTITIONS,
        at_least=ends_of(load.acknowledged),
        client_config=settings_of(cluster, ALICE) | {"group.id": GROUP},
    )
    verdict = judge(load.acknowledged, everything)
    assert verdict.is_clean, verdict
    assert verdict.acknowledged == load.produced


def test_a_deleted_user_is_out_within_seconds(cluster: LocalCluster) -> None:
    out: list[int] = []
    alice = settings_of(cluster, ALICE) | {"error_cb": lambda error: out.append(error.code())}
    producer = Producer(alice | {"acks": "all", "message.timeout.ms": 5_000})
    producer.produce(TOPIC, b"before")
    assert producer.flush(SECONDS_MAX) == 0
    assert KafkaError._AUTHENTICATION not in out
    springtide(cluster, "users", "delete", ALICE, "--yes")
    deadline = time.monotonic() + SOON_SECONDS
    while KafkaError._AUTHENTICATION not in out:
        assert time.monotonic() < deadline, out
        producer.poll(0.05)
    refused: list[Any] = []
    producer.produce(TOPIC, b"after", on_delivery=lambda error, _: refused.append(error))
    producer.flush(SECONDS_MAX)
    (error,) = refused
    assert error is not None
    assert has_failed_to_log_in(settings_of(cluster, ALICE))


# --- clients ----------------------------------------------------------------------------------------------


def over_kcat(cluster: LocalCluster, topic: str) -> list[bytes]:
    """As `up --secure` prints it."""
    file = cluster.clients[ALICE].librdkafka
    common = ("kcat", "-q", "-F", str(file), *KCAT_LOGIN.split(), "-t", topic)
    sent = b"\n".join(SOME)
    subprocess.run([*common, "-P", "-X", "acks=all"], input=sent, timeout=SECONDS_MAX, check=True)
    read = [*common, "-C", "-o", "beginning", "-e"]
    return subprocess.run(read, capture_output=True, timeout=SECONDS_MAX, check=True).stdout.split()


def over_kafka_python(cluster: LocalCluster, topic: str) -> list[bytes]:
    alice = cluster.clients[ALICE].settings
    settings = {
        "bootstrap_servers": alice["bootstrap.servers"].split(","),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": alice["ssl.ca.location"],
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": alice["sasl.username"],
        "sasl_plain_password": alice["sasl.password"],
    }
    producer = kafka.KafkaProducer(acks="all", **settings)
    for value in SOME:
        producer.send(topic, value)
    producer.flush(SECONDS_MAX)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        group_id=f"{topic}-readers",
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(SECONDS_MAX * 1000),
        **settings,
    )
    try:
        return [next(consumer).value for _ in SOME]
    finally:
        consumer.close()


def over_aiokafka(cluster: LocalCluster, topic: str) -> list[bytes]:
    alice = cluster.clients[ALICE].settings
    settings = {
        "bootstrap_servers": alice["bootstrap.servers"],
        "security_protocol": "SASL_SSL",
        "ssl_context": create_ssl_context(cafile=alice["ssl.ca.location"]),
        "sasl_mechanism": alice["sasl.mechanism"],
        "sasl_plain_username": alice["sasl.username"],
        "sasl_plain_password": alice["sasl.password"],
    }

    async def round_trip() -> list[bytes]:
        async with aiokafka.AIOKafkaProducer(acks="all", **settings) as producer:
            for value in SOME:
                await producer.send_and_wait(topic, value)
        consumer = aiokafka.AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings)
        async with consumer, asyncio.timeout(SECONDS_MAX):
            return [(await consumer.getone()).value for _ in SOME]

    return asyncio.run(round_trip())


def metadata_for(cluster: LocalCluster, user: str) -> ClusterMetadata:
    with AdminClient(settings_of(cluster, user)) as client:
        return client.list_topics(timeout=30)


def write(settings: dict[str, Any], values: list[bytes]) -> None:
    failed: list[object] = []
    producer = Producer(settings | {"acks": "all", "enable.idempotence": True})
    for value in values:
        producer.produce(TOPIC, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(SECONDS_MAX) == 0
    assert failed == []


def read(settings: dict[str, Any], count: int, *, group: str = GROUP) -> list[bytes]:
    consumer = Consumer(settings | {"group.id": group, "auto.offset.reset": "earliest"})
    values: list[bytes] = []
    ends = time.monotonic() + SECONDS_MAX
    try:
        consumer.subscribe([TOPIC])
        while len(values) < count:
            assert time.monotonic() < ends, f"{len(values)} of {count} came"
            for message in consumer.consume(count, timeout=1.0):
                if (value := message.value()) is not None and message.error() is None:
                    values.append(value)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values


def refusal_of_a_write(settings: dict[str, Any]) -> int:
    codes: list[int] = []
    producer = Producer(settings | {"acks": "all"})
    producer.produce(TOPIC, b"x", on_delivery=lambda error, _: codes.append(error.code() if error else 0))
    producer.flush(SECONDS_MAX)
    (code,) = codes
    return code


def refusal_of_a_read(settings: dict[str, Any], group: str) -> int:
    """Return the first error that a consumer of the group is told."""
    consumer = Consumer(settings | {"group.id": group})
    ends = time.monotonic() + SECONDS_MAX
    try:
        consumer.subscribe([TOPIC])
        while time.monotonic() < ends:
            message = consumer.poll(1.0)
            if message is not None and (error := message.error()) is not None:
                return error.code()
    except KafkaException as refused:
        return int(refused.args[0].code())
    finally:
        consumer.close()
    raise AssertionError("the consumer was refused nothing")


def has_failed_to_log_in(settings: dict[str, Any]) -> bool:
    """Return whether a new connection with these settings is refused; False if it is let in."""
    codes: list[int] = []
    client = Producer(settings | {"error_cb": lambda error: codes.append(error.code())})
    ends = time.monotonic() + SOON_SECONDS
    while KafkaError._AUTHENTICATION not in codes:
        assert time.monotonic() < ends, codes
        try:
            client.list_topics(timeout=0.5)
        except KafkaException:
            client.poll(0)
        else:
            return False
    return True


def serial_of(port: int) -> int:
    """Return the serial number of the certificate that a server shows now."""
    shown = ssl.get_server_certificate(("127.0.0.1", port), timeout=SOON_SECONDS)
    return x509.load_pem_x509_certificate(shown.encode("ascii")).serial_number


def springtide(cluster: LocalCluster, *arguments: str) -> str:
    """What the command line printed, in this process."""
    assert cluster.tls is not None
    assert cluster.tokens is not None
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    where = ("--url", ",".join(cluster.controller_urls), "--cluster", cluster.name)
    known = ("--ca-file", str(cluster.tls.ca), "--token-file", str(cluster.tokens.operator))
    status = execute([*arguments, *where, *known], {}, out, err, columns=None)
    assert status == 0, err.getvalue()
    out.flush()
    return out.buffer.getvalue().decode()
