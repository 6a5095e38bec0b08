"""Looks at records on real processes that speak TLS and decide by ACLs: what stock clients wrote is shown to
who may read it, and to no other."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import httpx
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from admin_api.records.room.questions import AskedLog, LookRefusal, RecordLook
from admin_api.records.rooms import RecordRooms
from localcluster.access import ALICE, OPERATOR
from localcluster.cluster import LocalCluster
from springtide.tls import KafkaTls

pytestmark = pytest.mark.timeout(240)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS_MAX = 60.0
TOKEN = secrets.token_hex(24)
"""Of alice, with the role viewer."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, coordinators=0, is_secure=True, has_users=True) as running:
        running.form()
        tokens = running.directory / "clients" / "tokens"
        tokens.write_text(f"{tokens.read_text()}{ALICE} viewer {TOKEN}\n")
        running.kill_controller(1)
        running.start_controller(1)
        running.wait_until("the controller is active", lambda: running.active_controller() == 1)
        yield running


def tls_of(cluster: LocalCluster) -> KafkaTls:
    """Return what the cluster's controller shows to brokers."""
    assert cluster.tls is not None
    flags = cluster.tls.controller_flags
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    return KafkaTls(given["--kafka-ca"], given["--kafka-client-cert"], given["--kafka-client-key"])


def look(cluster: LocalCluster, topic: str, *, by: str = OPERATOR, **query: Any) -> httpx.Response:
    path = f"/clusters/{cluster.name}/topics/{topic}/records"
    if by == OPERATOR:
        return cluster.rest.get(path, params=query, timeout=SECONDS_MAX)
    assert cluster.tls is not None
    url, headers = cluster.controller_urls[0], {"Authorization": f"Bearer {TOKEN}"}
    return httpx.get(f"{url}{path}", params=query, headers=headers, verify=cluster.tls.context)


def shown(cluster: LocalCluster, topic: str, **query: Any) -> list[str]:
    answer = look(cluster, topic, **query)
    assert answer.status_code == 200, answer.text
    assert answer.json()["unread"] == []
    return [item["value"]["data"] for item in answer.json()["items"]]


def write(cluster: LocalCluster, topic: str, *values: str, **options: Any) -> None:
    partition = options.pop("partition", 0)
    producer = Producer({**cluster.clients[ALICE].settings, "linger.ms": 50, **options})
    for value in values:
        producer.produce(topic, value, key=f"key of {value}", partition=partition, headers={"from": b"\xff"})
    assert producer.flush(SECONDS_MAX) == 0


def test_records_of_each_codec_and_the_newest_across_partitions_are_shown(cluster: LocalCluster) -> None:
    cluster.create_topic("orders", partitions=3)
    written: list[str] = []
    for number, codec in enumerate(CODECS):
        values = [f"{codec} {'x' * 100} {count}" for count in range(20)]
        write(cluster, "orders", *values, partition=number % 2, **{"compression.codec": codec})
        written += values
    assert shown(cluster, "orders", limit=30) == written[-1:-31:-1]
    assert sorted(shown(cluster, "orders", start="earliest", limit=1000)) == sorted(written)
    assert shown(cluster, "orders", partition=2) == []
    assert shown(cluster, "orders", value="LZ4", ignore_case="true", key="19") == [written[79]]
    answer = look(cluster, "orders", partition=1, offset=5, limit=1).json()
    (item,) = answer["items"]
    assert (item["partition"], item["offset"], item["timestamp_type"]) == (1, 5, "create_time")
    assert item["headers"] == [
        {"name": "from", "value": {"encoding": "hex", "data": "ff", "size_bytes": 1, "truncated": False}}
    ]
    assert (answer["position"], answer["stopped"]) == ("1-6", "limit")
    assert look(cluster, "orders", position="1-6", limit=1).json()["items"][0]["offset"] == 6


def test_alice_sees_her_own_topics_only_and_each_look_is_in_the_audit(cluster: LocalCluster) -> None:
    cluster.create_topic("private")
    assert look(cluster, "private").status_code == 200  # the operator is a super user
    refused = look(cluster, "private", by=ALICE)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert look(cluster, "orders", by=ALICE, partition=0).status_code == 200
    rows = [row for row in cluster.audit(entity="topic") if row["cause"] == "read_records"]
    assert [(row["actor"], row["topic"]) for row in rows[:2]] == [(ALICE, "orders"), (OPERATOR, "private")]
    assert rows[0]["outcome"]["detail"].startswith("50 records of ")
    assert "xxx" not in str(rows)


def test_a_deleted_beginning_is_told_by_its_range(cluster: LocalCluster) -> None:
    cluster.create_topic("orders-cut")
    write(cluster, "orders-cut", *(f"v{number}" for number in range(10)))
    with AdminClient({**cluster.clients[OPERATOR].settings}) as admin:
        (pending,) = admin.delete_records([TopicPartition("orders-cut", 0, 4)]).values()
        pending.result(SECONDS_MAX)
    refused = look(cluster, "orders-cut", partition=0, offset=3)
    assert (refused.status_code, refused.json()["code"]) == (422, "offset_out_of_range")
    assert refused.json()["facts"] == {"partition": 0, "log_start_offset": 4, "log_end_offset": 10}
    assert shown(cluster, "orders-cut", start="earliest") == [f"v{number}" for number in range(4, 10)]
    assert shown(cluster, "orders-cut", partition=0, offset=10) == []


def test_a_topic_that_was_made_again_is_not_read_in_its_place(cluster: LocalCluster) -> None:
    before = cluster.create_topic("orders-again")
    write(cluster, "orders-again", "old")
    assert shown(cluster, "orders-again") == ["old"]
    cluster.delete_topic("orders-again")
    cluster.create_topic("orders-again")
    write(cluster, "orders-again", "new", "newer")
    assert shown(cluster, "orders-again") == ["newer", "new"]
    host, _, port = cluster.brokers[cluster.leader("orders-again", 0)].registered.rpartition(":")
    late = RecordLook(
        topic="orders-again", topic_id=before["topic_id"], logs=(AskedLog(0, host, int(port), 0),)
    )
    rooms = RecordRooms(tls_of(cluster))
    summary, body = anyio.run(partial(rooms.look, late, has_tls=True))
    assert (summary.refused, body) == (LookRefusal.TOPIC, b"")


def test_a_partition_whose_leader_is_gone_is_an_error_that_passes(cluster: LocalCluster) -> None:
    cluster.create_topic("orders-alone", replication_factor=1)
    write(cluster, "orders-alone", "here")
    leader = cluster.leader("orders-alone", 0)
    cluster.kill_broker(leader)
    try:
        answer = look(cluster, "orders-alone")
        assert (answer.status_code, answer.json()["code"]) == (503, "log_unavailable")
    finally:
        cluster.start_broker(leader)
    cluster.wait_until("it is shown again", lambda: look(cluster, "orders-alone").status_code == 200)
    assert shown(cluster, "orders-alone") == ["here"]


def test_the_holes_of_a_compacted_log_are_passed_in_both_directions(cluster: LocalCluster) -> None:
    configs = {"cleanup.policy": "compact", "segment.bytes": "4096", "min.cleanable.dirty.ratio": "0.1"}
    cluster.create_topic("orders-table", configs=configs)
    producer = Producer({**cluster.clients[ALICE].settings, "batch.num.messages": 5})
    for number in range(300):
        producer.produce("orders-table", f"{number}", key=f"key {number % 10}", partition=0)
    assert producer.flush(SECONDS_MAX) == 0

    def kept() -> list[int]:
        answer = look(cluster, "orders-table", start="earliest", limit=1000)
        return [item["offset"] for item in answer.json()["items"]]

    cluster.wait_until("a round of compaction", lambda: len(kept()) < 200)
    found = kept()
    assert found[-1] == 299
    newest = look(cluster, "orders-table", limit=1000).json()
    assert [item["offset"] for item in newest["items"]][: len(found)] == kept()[::-1]
    hole = next(offset for offset in range(300) if offset not in kept())
    first = look(cluster, "orders-table", partition=0, offset=hole, limit=1).json()["items"][0]
    assert first["offset"] > hole
