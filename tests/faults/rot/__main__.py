"""`python -m tests.faults.rot [--size ci|full]`: bytes rot in closed segments of real brokers.

Leaders and followers in turn. Each time the scrub has to find them, an operator to be told, the seat to go
and come back, and the file to be as it was, byte for byte.

The bytes are written through the file system, so memory shows them as the disk does. A disk that rots behind
the page cache is what tier B has.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from localcluster.cluster import LocalCluster
from tests.faults.family import Trial, run_family
from tests.faults.nemesis.kinds_disk import rot

TOPIC = "orders"
PACE = {
    "log.scrub.interval.ms": "2000",
    "log.scrub.bytes.per.second": "8388608",
    "log.segment.bytes": "65536",
}
RECORDS = 2_000
VALUE = b"v" * 200
ROUNDS = {"ci": 2, "full": 8}
READ_SECONDS_MAX = 120.0


def produce(cluster: LocalCluster, count: int, *, first: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 5})
    for number in range(first, first + count):
        producer.produce(TOPIC, key=str(number), value=VALUE, partition=0)
        if number % 50 == 0:
            producer.flush(20.0)  # batches of some fifty: a segment holds many
    if producer.flush(20.0):
        raise RuntimeError("records were not acknowledged")


def read_all(cluster: LocalCluster, end: int) -> int:
    """How many of the records 0 to `end` are read, each once and in order."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "rot", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    count, due = 0, time.monotonic() + READ_SECONDS_MAX
    while count < end and time.monotonic() < due:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None and message.key() == str(count).encode():
            count += 1
    consumer.close()
    return count


def closed_segment(cluster: LocalCluster, broker_id: int) -> Path:
    folders = cluster.brokers[broker_id].data_directory.glob(f"{TOPIC}-0.*")
    return sorted(path for folder in folders for path in folder.glob("*.log"))[0]


def metric(cluster: LocalCluster, broker_id: int, name: str) -> float:
    lines = cluster.brokers[broker_id].metrics().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def is_audited(cluster: LocalCluster) -> bool:
    return any(row["cause"] == "replica_rotten" for row in cluster.audit(entity="partition", topic=TOPIC))


def rot_one(cluster: LocalCluster, broker_id: int, *, at: float) -> float:
    """Seconds until it was whole and in sync again."""
    path = closed_segment(cluster, broker_id)
    before = path.read_bytes()
    mended = metric(cluster, broker_id, "springtide_scrub_mended_bytes_total")
    epoch = cluster.partition(TOPIC, 0).leader_epoch
    began = time.monotonic()
    rot(path, at=at)
    cluster.wait_until(
        f"broker {broker_id} has mended its bytes",
        lambda: metric(cluster, broker_id, "springtide_scrub_mended_bytes_total") > mended,
    )
    cluster.wait_until_in_sync(TOPIC)
    took = time.monotonic() - began
    if path.read_bytes() != before:
        raise RuntimeError(f"{path} is not what it was")
    if cluster.partition(TOPIC, 0).leader_epoch == epoch:
        raise RuntimeError(f"broker {broker_id} was rotten and kept its seat")
    cluster.wait_until("the audit tells of it", lambda: is_audited(cluster))
    return took


def story(trial: Trial, rounds: int) -> None:
    slowest = 0.0
    with LocalCluster(trial.directory, broker_config=PACE) as cluster:
        cluster.form()
        cluster.create_topic(TOPIC, replication_factor=3)
        produce(cluster, RECORDS, first=0)
        for number in range(rounds):
            leader = cluster.leader(TOPIC, 0)
            followers = [broker_id for broker_id in cluster.brokers if broker_id != leader]
            broker_id = leader if number % 2 == 0 else followers[0]
            trial.faults["rot"] += 1
            took = rot_one(cluster, broker_id, at=0.2 + 0.6 * number / rounds)
            slowest = max(slowest, took)
            role = "leader" if broker_id == leader else "follower"
            trial.tell(f"broker {broker_id}, {role}: rotten, mended, in sync after {took:.1f} s")
        read = read_all(cluster, RECORDS)
    trial.lost = RECORDS - read
    trial.figures |= {
        "records acknowledged": RECORDS,
        "records read": read,
        "worst seconds from rot to in sync": round(slowest, 1),
    }


if __name__ == "__main__":
    sys.exit(run_family("rot", story, ROUNDS))
