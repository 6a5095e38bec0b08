"""What is damaged beside brokers' files: ZooKeeper's, the audit's; and the power of all brokers is cut."""

from __future__ import annotations

import time

from tests.faults.minority.kinds import ORDERS
from tests.faults.minority.story import BROKERS, READ_SECONDS_MAX, Story
from tests.faults.minority.wounds import WOUNDS, flip_bit_of_a_row

ZOOKEEPER_FILES = ("log.*", "snapshot.*")


def damage_zookeeper(story: Story, kind: str) -> None:
    """A bit of one of three servers flips; then another server, and the active controller, are killed."""
    cluster, trial = story.cluster, story.trial
    before = [(view.replicas, view.leader_epoch) for view in cluster.partitions(ORDERS)]
    victim, other = cluster.zookeeper.servers[0], cluster.zookeeper.servers[1]
    victim.process.kill()
    found = sorted(path for path in cluster.directory.glob(f"zookeeper-1/data/version-2/{kind}"))
    did = WOUNDS["flipped bit"](found[-1], story.draw)
    trial.faults["flipped bit"] += 1
    trial.tell(f"zookeeper 1: {found[-1].name} {did}")
    victim.process.start()
    ends = time.monotonic() + READ_SECONDS_MAX
    while victim.mode() is None and victim.process.is_running and time.monotonic() < ends:
        time.sleep(0.2)
    if victim.mode() is None:
        trial.tell("zookeeper 1 refuses to start; it is given an empty directory")
        trial.count("ZooKeeper servers that refused", 1)
        victim.process.kill()
        for path in cluster.directory.glob("zookeeper-1/data/version-2/*"):
            path.unlink()
        victim.process.start()
        cluster.wait_until("zookeeper 1 serves", victim.mode)
    other.process.kill()
    active = cluster.active_controller()
    cluster.kill_controller(active)
    cluster.start_controller(active)
    cluster.active_controller()
    other.process.start()
    after = [(view.replicas, view.leader_epoch) for view in cluster.partitions(ORDERS)]
    trial.must(
        "what ZooKeeper knows of the topic has not gone back",
        all(now[0] == then[0] and now[1] >= then[1] for then, now in zip(before, after, strict=True)),
    )
    story.kill_leaders()
    story.judge(f"ZooKeeper's {kind}, a flipped bit at 1 of 3")


def damage_audit(story: Story) -> None:
    """A bit of a row of the audit flips while no controller runs: the chain of hashes must say so."""
    cluster, trial = story.cluster, story.trial
    for index in cluster.controllers:
        cluster.kill_controller(index)
    flip_bit_of_a_row(cluster.directory / "audit.db")
    trial.faults["flipped bit"] += 1
    for index in cluster.controllers:
        cluster.start_controller(index)
    cluster.active_controller()
    found = cluster.api.get(f"/audit/verification?cluster={cluster.name}")
    trial.must(f"the audit's chain does not hold: {found}", not found["ok"])
    story.judge("SQL, a flipped bit")


def cut_all_power(story: Story) -> None:
    """Nothing that was not synced is there afterwards, at none of the five."""
    cluster, trial = story.cluster, story.trial
    cluster.create_topic(
        "durable", replication_factor=BROKERS, configs={"flush.messages": "1", "min.insync.replicas": "3"}
    )
    cluster.create_topic("busy", replication_factor=BROKERS, configs={"min.insync.replicas": "3"})
    cluster.wait_until(
        "logs that fsync each record are sealed",
        lambda: all(_is_sealed(story, broker_id, "durable") for broker_id in cluster.brokers),
    )
    story.write("durable")
    story.write("busy")
    for broker in cluster.brokers.values():
        broker.process.pause()  # all stop in one moment: none sees another go
    for broker_id in cluster.brokers:
        cluster.cut_power(broker_id)
        trial.faults["power cut"] += 1
    for broker_id in cluster.brokers:
        cluster.start_broker(broker_id)
    cluster.wait_until_in_sync("durable")
    story.judge("power cut of all, flush.messages=1", "durable")
    _judge_unsynced(story, "busy")


def _judge_unsynced(story: Story, topic: str) -> None:
    """Its records were in memory only. Where they are gone, nobody leads and an alarm says so."""
    cluster, trial = story.cluster, story.trial
    view = cluster.partition(topic, 0)
    alarms = cluster.api.get(f"/clusters/{cluster.name}/alarms")["items"]
    trial.tell(f"{topic}: leader {view.leader}; alarms {sorted({alarm['code'] for alarm in alarms})}")
    if view.leader is not None:
        story.judge("power cut of all, synced by the system alone", topic)
        return
    is_told = any(alarm["code"] == "partition_leaderless" and topic in str(alarm) for alarm in alarms)
    trial.must(f"{topic}: nobody leads, and an alarm says so", is_told)
    trial.count("records that wait for an operator, told", len(story.acknowledged[topic]))


def _is_sealed(story: Story, broker_id: int, topic: str) -> bool:
    return any(story.cluster.brokers[broker_id].data_directory.glob(f"{topic}-0.*/seal"))
