"""A disk goes back under one boot, once while another replica is whole, which must lead, and once as that of
the last one in sync, when nobody may.

The machine runs on, under the same boot id. What was acknowledged must not be lost, and nothing silently.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from localcluster.cluster import LocalCluster
from tests.faults.family import Trial
from tests.faults.hosts.cluster import HostCluster

ROUNDS = {"ci": 1, "full": 4}
RECORDS = 400
WATCH_SECONDS = 5.0
READ_SECONDS_MAX = 120.0
STORED_SECONDS = 1.5
"""After so long the first high watermark of a partition is stored."""


def tell_all(trial: Trial, rounds: int) -> None:
    with HostCluster(trial.directory, brokers=3, controllers=1, zookeepers=1) as cluster:
        cluster.form()
        for number in range(rounds):
            another_replica_is_whole(trial, cluster, f"whole-{number}", is_young=number % 2 == 0)
            it_was_the_last(trial, cluster, f"last-{number}", is_young=number % 2 == 0)


def another_replica_is_whole(trial: Trial, cluster: HostCluster, topic: str, *, is_young: bool) -> None:
    """All processes die; the volume of the last leader goes back. The other member of the ELR must lead."""
    cluster.create_topic(topic, replication_factor=3, configs={"min.insync.replicas": "2"})
    written = write(trial, cluster, topic)
    if not is_young:
        time.sleep(STORED_SECONDS)
    victim = kill_all_but_one(cluster, topic)
    epoch = broker(cluster, victim)["broker_epoch"]
    cluster.kill_broker(victim)
    reattach(trial, cluster, victim)
    trial.tell(f"{topic}: broker {victim} is started first and alone")
    cluster.start_broker(victim)
    must_say_machine_crash(trial, cluster, victim, epoch_before=epoch)
    watch_nobody_leads(trial, cluster, topic)
    start_others(cluster, victim)
    leader = cluster.leader(topic, 0)
    trial.must(f"{topic}: broker {leader} leads, not {victim}", leader != victim)
    cluster.wait_until_in_sync(topic)
    missing = len(written - read(trial, cluster, topic))
    trial.lost += missing
    trial.must(f"{topic}: all of {len(written)} acknowledged records are read", not missing)


def it_was_the_last(trial: Trial, cluster: HostCluster, topic: str, *, is_young: bool) -> None:
    """With a minimum of 1 the last in-sync replica has records that nobody else has, and its volume goes
    back: no leader, and an alarm that says why."""
    cluster.create_topic(topic, replication_factor=3, configs={"min.insync.replicas": "1"})
    victim = kill_all_but_one(cluster, topic)
    write(trial, cluster, topic)
    if not is_young:
        time.sleep(STORED_SECONDS)
    epoch = broker(cluster, victim)["broker_epoch"]
    cluster.kill_broker(victim)
    reattach(trial, cluster, victim)
    cluster.start_broker(victim)
    must_say_machine_crash(trial, cluster, victim, epoch_before=epoch)
    start_others(cluster, victim)
    watch_nobody_leads(trial, cluster, topic)
    codes = {alarm["code"] for alarm in alarms(cluster) if topic in str(alarm) or "broker" in str(alarm)}
    trial.must(f"{topic}: alarms say so: {sorted(codes)}", {"partition_leaderless", "logs_unproven"} <= codes)
    cluster.rest.delete(f"/clusters/{cluster.name}/topics/{topic}")


def kill_all_but_one(cluster: HostCluster, topic: str) -> int:
    """Kill the followers, one after another; the leader, who is left, is alone in the ISR."""
    last = cluster.leader(topic, 0)
    others = [broker_id for broker_id in cluster.brokers if broker_id != last]
    for broker_id in others:
        cluster.kill_broker(broker_id)
    cluster.wait_until(
        f"broker {last} is alone in the ISR of {topic}",
        lambda: set(cluster.partition(topic, 0).isr) == {last},
    )
    return last


def reattach(trial: Trial, cluster: HostCluster, broker_id: int) -> None:
    """The broker's process is dead. Its volume is detached without a flush and attached again; the boot id
    stays."""
    disk = cluster.disk(broker_id)
    disk.cut_power()
    disk.unmount()
    disk.mount()
    trial.faults["reattach_disk"] += 1
    trial.tell(f"broker {broker_id}: killed, its volume detached without a flush and attached again")


def start_others(cluster: LocalCluster, victim: int) -> None:
    for broker_id in cluster.brokers:
        if broker_id != victim:
            cluster.start_broker(broker_id)


def must_say_machine_crash(trial: Trial, cluster: HostCluster, broker_id: int, *, epoch_before: int) -> None:
    def last_shutdown() -> str | None:
        view = broker(cluster, broker_id)
        is_back = view["state"] == "active" and view["broker_epoch"] > epoch_before
        return str(view["last_shutdown"]) if is_back else None

    kind = cluster.wait_until(f"broker {broker_id} is active", last_shutdown)
    trial.must(f"broker {broker_id} says machine_crash: {kind}", kind == "machine_crash")


def broker(cluster: HostCluster, broker_id: int) -> Any:
    return cluster.api.get(f"/clusters/{cluster.name}/brokers/{broker_id}")


def watch_nobody_leads(trial: Trial, cluster: HostCluster, topic: str) -> None:
    deadline = time.monotonic() + WATCH_SECONDS
    leaders = set()
    while time.monotonic() < deadline:
        leaders.add(cluster.partition(topic, 0).leader)
        time.sleep(0.2)
    trial.must(f"{topic}: nobody leads for {WATCH_SECONDS:g} s: {leaders}", leaders == {None})


def alarms(cluster: HostCluster) -> list[Any]:
    found: list[Any] = cluster.api.get(f"/clusters/{cluster.name}/alarms")["items"]
    return found


def write(trial: Trial, cluster: HostCluster, topic: str) -> set[bytes]:
    """Values that were acknowledged with acks=all."""
    acknowledged: set[bytes] = set()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})

    def told(error: object, message: Any) -> None:
        if error is None:
            acknowledged.add(message.value())

    for number in range(RECORDS):
        producer.produce(topic, value=f"{topic}-{number}".encode(), partition=0, on_delivery=told)
    producer.flush(60.0)
    assert len(acknowledged) == RECORDS, f"{topic}: only {len(acknowledged)} of {RECORDS} were acknowledged"
    trial.count("records acknowledged", len(acknowledged))
    trial.tell(f"{topic}: {len(acknowledged)} records acknowledged")
    return acknowledged


def read(trial: Trial, cluster: HostCluster, topic: str) -> set[bytes]:
    """From offset 0 to the end."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "tale", "enable.auto.commit": False}
    )
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end_offset = consumer.get_watermark_offsets(partition, timeout=30.0)
        consumer.assign([partition])
        values: set[bytes] = set()
        offset, deadline = 0, time.monotonic() + READ_SECONDS_MAX
        while offset < end_offset and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                values.add(message.value() or b"")
                offset = (message.offset() or 0) + 1
        trial.count("records read", len(values))
        return values
    finally:
        consumer.close()
