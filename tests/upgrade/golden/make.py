"""Makes the golden files of the last release's level, by that release's own processes.

    python -m tests.upgrade.golden.make

It runs a cluster of the last release, fills it with one of everything that is stored, and keeps, under
tests/upgrade/golden/LEVEL: each znode, a broker's log directory, the SQL database, what brokers and
coordinators said to a controller and were answered, and a table that topics were landed in. Files that are
there already are not made again: they are what the tests hold this release to.

Exit status: 0 made; 1 they are there already, or the last release can't be built.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer
from kazoo.client import KazooClient

from localcluster.cluster import FIRST_COORDINATOR_ID, LocalCluster
from localcluster.processes import ProcessPlace
from springtide.levels import KEPT_DELETED_TOPICS, Level, allows
from tests.upgrade.golden.files import Exchange, Golden
from tests.upgrade.golden.recording_proxy import RecordingProxy
from tests.upgrade.last_release import NAMED, LastReleaseUnavailable, named, python

ZOOKEEPER_ROOT = "/springtide"
SMALL = {"segment.bytes": "4096"}
COMPACTED = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
PARTITIONS, KEYS, VALUE = 3, 5, b"." * 60
EXCHANGES_OF_A_KIND = 4
"""Kept of each verb and each set of fields; the later ones say the same again."""
WAIT_SECONDS_MAX = 90.0
KEPT_BROKER = 1
"""Whose log directory is kept. It is the first replica of all topics, and is stopped as an operator does."""
DRAINED_BROKER = 3
KILLED_BROKER = 4
"""Dead when znodes are read: replicas on their way to it wait, and one that it has is eligible to lead."""


class GoldenCluster(LocalCluster):
    """A cluster of the last release whose nodes find their controller behind a proxy."""

    def __init__(self, directory: Path, last: Path, proxy: RecordingProxy) -> None:
        self._proxy = proxy
        place = ProcessPlace(python=str(last), environment={"PYTHONPATH": ""})
        super().__init__(
            directory,
            brokers=4,
            coordinators=2,
            broker_config={
                "log.cleaner.backoff.ms": "500",
                "log.flush.offset.checkpoint.interval.ms": "1000",
            },
            place_of=lambda host: place,
            on_progress=print,
        )

    @property
    def controller_urls(self) -> list[str]:
        return [self._proxy.url]


def fill(cluster: GoldenCluster, level: Level) -> list[Consumer]:
    """Make one of everything that is stored at a level. Return members of a group that go on."""
    api, path = cluster.api, f"/clusters/{cluster.name}"
    rows = [[KEPT_BROKER, 2, 3], [KEPT_BROKER, 3, 2], [2, KEPT_BROKER, 3]]
    cluster.create_topic(
        "orders", assignments=rows, partitions=3, configs={**SMALL, "min.insync.replicas": "2"}
    )
    cluster.create_topic("latest", assignments=rows[:1], configs=COMPACTED)
    strict = {"min.insync.replicas": "3"}
    cluster.create_topic("strict", assignments=[[KEPT_BROKER, 2, KILLED_BROKER]], configs=strict)
    cluster.create_topic("gone", partitions=1)
    for number in range(3):
        write(cluster, "orders", [f"key-{key}" for key in range(KEYS)] * 20, partition=number)
    for _ in range(6):
        write(cluster, "latest", [f"key-{key}" for key in range(KEYS)] * 20)
        time.sleep(1)
    write(cluster, "latest", ["key-1"], deletes=True)
    write(cluster, "strict", ["a", "b"])
    for member in commit(cluster, "billing", "orders"):
        member.close()
    members = commit(cluster, "shipping", "orders")  # whose members stay
    api.post(f"{path}/acls", {"bindings": BINDINGS, "reason": "the new billing service"})
    put(cluster, f"{path}/users/billing", {"password": "correct horse battery staple", "reason": "billing"})
    put(cluster, f"{path}/users/audit", {"password": "another long password"})
    api.post(f"{path}/quotas:alter", {"entities": QUOTAS, "reason": "billing floods the others"})
    api.post(f"{path}/configs:alter", {"configs": {"log.retention.ms": "604800000"}, "reason": "a week"})
    put(cluster, f"{path}/policies/three-replicas", POLICY)
    put(
        cluster,
        f"{path}/webhooks/pager",
        {"url": "http://127.0.0.1:9/springtide", "reason": "the night shift"},
    )
    api.post(
        f"{path}/silences", {"code": "broker_fenced", "broker_id": 3, "minutes": 90, "reason": "repaired"}
    )
    api.post(f"{path}/verifications", VERIFICATION)
    cluster.delete_topic("gone")
    if allows(level, KEPT_DELETED_TOPICS):
        cluster.create_topic("kept", assignments=rows[:1], configs={"deleted.topic.retention.ms": "86400000"})
        write(cluster, "kept", ["a", "b"])
        cluster.delete_topic("kept")
    return members


def move(cluster: GoldenCluster) -> None:
    """Let a plan be carried out so slowly that a replica is on its way when znodes are read."""
    api, path = cluster.api, f"/clusters/{cluster.name}"
    write(cluster, "orders", [uuid.uuid4().hex for _ in range(2_000)], partition=2)
    goal = {"kind": "drain", "broker_ids": [DRAINED_BROKER]}
    api.post(f"{path}/plans", {"goal": goal, "reason": "store3 is to be replaced"})

    def made() -> str | None:
        plans = api.get(f"{path}/plans")["items"]
        return next((plan["id"] for plan in plans if plan["kind"] == "drain"), None)

    plan_id = cluster.wait_until("the plan is made", made)
    pace = {"throttle_bytes_per_s": 1_000, "max_concurrent_moves": 2}
    api.post(f"{path}/plans/{plan_id}:execute", pace)


BINDINGS = [
    {"operation": "read", "principal": "User:billing", "resource_type": "topic", "resource_name": "orders"},
    {
        "operation": "read",
        "pattern_type": "prefixed",
        "principal": "User:billing",
        "resource_type": "group",
        "resource_name": "billing",
    },
    {
        "operation": "write",
        "principal": "User:*",
        "resource_type": "topic",
        "resource_name": "*",
        "permission": "deny",
    },
]
QUOTAS = [
    {"user": "billing", "quotas": {"producer_byte_rate": 10_000_000}},
    {"user": "<default>", "quotas": {"request_percentage": 200}},
]
POLICY = {
    "sql": "SELECT topic, partition, count(*) AS replicas FROM planned_replicas GROUP BY topic, partition"
    " HAVING count(*) < 3",
    "description": "three replicas of everything",
    "reason": "lost a topic with two",
}
VERIFICATION: dict[str, Any] = {
    "began_at_ms": 1_795_305_600_000,
    "ended_at_ms": 1_795_305_720_000,
    "topics": 1,
    "records": 24_000,
    "batches": 1_200,
    "bytes": 2_640_000,
    "compared_bytes": 7_920_000,
    "partitions": [
        {
            "topic": "orders",
            "partition": 0,
            "first_offset": 0,
            "next_offset": 24_000,
            "records": 24_000,
            "findings": 1,
        }
    ],
    "partitions_total": 1,
    "findings": [
        {
            "kind": "crc_mismatch",
            "topic": "orders",
            "partition": 0,
            "broker_id": 3,
            "first_offset": 4_000,
            "last_offset": 4_019,
            "batches": 1,
            "detail": "stored CRC 1c6e0d58, the bytes have 77e1a9f0",
        }
    ],
    "findings_total": 1,
    "reason": "nightly",
}


def put(cluster: LocalCluster, path: str, body: Mapping[str, Any]) -> None:
    answer = cluster.rest.put(path, json=body, headers={"X-Actor": "alice"})
    assert answer.is_success, answer.text


def write(
    cluster: LocalCluster, topic: str, keys: Sequence[str], *, partition: int = 0, deletes: bool = False
) -> None:
    """Write by a new idempotent producer, a record a key, in batches that fit into a segment."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "batch.size": 2000}
    )
    failed: list[str] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(str(error))

    for key in keys:
        value = None if deletes else VALUE
        producer.produce(topic, value, key, partition=partition, on_delivery=on_delivery)
    assert producer.flush(30) == 0
    assert failed == []
    producer.close()


def commit(cluster: LocalCluster, group: str, topic: str) -> list[Consumer]:
    """Read a topic as a dynamic and a static member of a group, and commit. Return the members."""
    members = [
        Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "client.id": f"member-{number}",
                "log_level": 0,
                **({"group.instance.id": "static-1"} if number else {}),
            }
        )
        for number in range(2)
    ]
    for member in members:
        member.subscribe([topic])
    read: dict[Consumer, set[int]] = {member: set() for member in members}
    ends = time.monotonic() + WAIT_SECONDS_MAX
    while not all(read.values()) or sum(map(len, read.values())) < PARTITIONS:
        assert time.monotonic() < ends, f"the group does not read: {list(read.values())}"
        for member in members:
            for message in member.consume(100, timeout=0.5):
                assert message.error() is None, message.error()
                read[member].add(message.partition() or 0)
    for member in members:
        member.commit(asynchronous=False)
    return members


def read_znodes(cluster: LocalCluster) -> dict[str, bytes]:
    """Return what each znode holds, by its path."""
    client = KazooClient(hosts=cluster.zookeeper.connection_string + ZOOKEEPER_ROOT, read_only=True)
    client.start(timeout=15)
    found: dict[str, bytes] = {}

    def walk(place: str) -> None:
        found[place or "/"], _ = client.get(place or "/")
        for child in sorted(client.get_children(place or "/")):
            walk(f"{place}/{child}")

    walk("")
    client.stop()
    client.close()
    return found


def few(exchanges: Sequence[Exchange]) -> list[Exchange]:
    """Return a few of each kind: of one verb, and of the same fields in request and answer."""
    kinds: dict[object, int] = {}
    kept: list[Exchange] = []
    for each in exchanges:
        kind = (each.path.split("/")[4], each.verb, each.status, _fields(each.request), _fields(each.answer))
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] <= (1 if each.verb in {"poll", "heartbeat"} else EXCHANGES_OF_A_KIND):
            kept.append(each)
    return kept


def _fields(body: str) -> tuple[str, ...]:
    """Return the fields of a body that are not empty."""
    try:
        found = json.loads(body)
    except ValueError:
        return ()
    return tuple(sorted(name for name, value in found.items() if value)) if isinstance(found, dict) else ()


def make(last: Path, golden: Golden) -> None:
    with tempfile.TemporaryDirectory(prefix="springtide-golden-") as scratch:
        directory = Path(scratch)
        proxy = RecordingProxy(lambda: cluster.controllers[1].port)
        cluster = GoldenCluster(directory / "cluster", last, proxy)
        with proxy, cluster:
            cluster.form()
            members = fill(cluster, golden.level)
            land(cluster, last, directory / "table")
            golden.keep_folder("table", directory / "table")
            move(cluster)
            time.sleep(3)
            cluster.kill_coordinator(FIRST_COORDINATOR_ID)
            cluster.kill_broker(KILLED_BROKER)
            time.sleep(10)
            golden.keep_znodes(read_znodes(cluster))
            cluster.stop_broker(KEPT_BROKER)
            golden.keep_folder("log_directory", cluster.brokers[KEPT_BROKER].data_directory)
            for controller in cluster.controllers.values():
                controller.process.stop()
            for member in members:
                member.close()
            golden.keep_exchanges(few(proxy.exchanges))
            golden.keep_database(cluster.directory / "audit.db")


def land(cluster: LocalCluster, last: Path, table: Path) -> None:
    """Land a topic twice, by the last release's own job, as it is installed."""
    command = [
        *(str(last), "-m", "pipeline", "land", "orders", "latest", str(table)),
        *("--engine", "local", "--compact", "--bootstrap-server", cluster.bootstrap_servers),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for _ in range(2):
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        write(cluster, "latest", ["key-2", "key-3"])


def main() -> int:
    argparse.ArgumentParser(
        prog="python -m tests.upgrade.golden.make",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    golden = Golden(named(NAMED.read_text(encoding="utf-8")).level)
    if golden.folder.exists():
        print(f"{golden.folder} is there: golden files are made once", file=sys.stderr)
        return 1
    try:
        last = python()
    except LastReleaseUnavailable as reason:
        print(f"no last release: {reason}", file=sys.stderr)
        return 1
    golden.folder.mkdir()
    try:
        make(last, golden)
    except BaseException:
        golden.remove()
        raise
    size = sum(path.stat().st_size for path in golden.folder.iterdir())
    print(f"{golden.folder}: {size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
