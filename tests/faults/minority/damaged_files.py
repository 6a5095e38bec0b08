"""A file of one or two of five brokers is damaged while these are down; they return, and leaders are killed.

These are Jepsen's faults on NATS JetStream 2.12.1 (December 2025), where one flipped bit on one of five
nodes lost half of the acknowledged records, and a lost snapshot a whole stream. Here each kind of file that
a broker keeps is damaged in turn: one bit flipped, the end cut off, the file removed; ZooKeeper's and the
audit's files after them. The broker returns and catches up. Then two leaders in a row are killed, so that
the damaged broker leads or at least vouches, and everything is read. A broker that refuses to start must
name the file; it is then given an empty disk, as the documents say.

At the end all five lose power at once. A partition that fsyncs each record must lead again with all of it.
One that does not may wait for an operator, but must say so.

`lost` counts acknowledged records that are missing at the end of a round. Damage that loses nothing needs
no alarm, so what the broker's log said of it is only shown.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from localcluster.load import read_everything
from localcluster.processes import ProcessFailed
from tests.faults.family import Trial
from tests.faults.hosts.cluster import HostCluster
from tests.faults.minority.wounds import WOUNDS, files_of_kind, flip_bit_of_a_row

TOPIC = "orders"
BROKERS = 5
MINIMUM = 3
SEED = 20251208
RECORDS_A_ROUND = 300
RECORDS_A_FLUSH = 25
VALUE_BYTES = 200
PACE = {
    "log.segment.bytes": "32768",
    "log.scrub.interval.ms": "2000",
    "log.scrub.bytes.per.second": "8388608",
}
QUIET_SECONDS = 4.0
"""Two scrubs: what rots in a closed segment is found by then, before leaders are killed."""
READ_SECONDS_MAX = 60.0

LOG_FILES = ("*.log", "*.index", "*.snapshot", "leader-epochs", "partition.json", "seal")
BROKER_FILES = (
    "/high-watermark-checkpoint",
    "/recovery-point-checkpoint",
    "/log-start-offset-checkpoint",
    "/controller-epoch",
    "/meta.json",
    "/.mount-mark",
)
ZOOKEEPER_FILES = ("log.*", "snapshot.*")


@dataclass(frozen=True, slots=True)
class Round:
    """One damage: to which kind of file, how, at how many brokers, after a kill or a clean stop."""

    kind: str
    wound: str
    brokers: int = 1
    is_clean: bool = False


@dataclass(frozen=True, slots=True)
class Size:
    rounds: Sequence[Round]
    zookeeper: Sequence[str]


SIZES = {
    "ci": Size(
        (
            Round("*.log", "flipped bit"),
            Round("*.snapshot", "lost", brokers=2),
            Round("/meta.json", "flipped bit"),
            Round("*.log", "truncated", brokers=2, is_clean=True),
        ),
        zookeeper=("log.*",),
    ),
    "full": Size(
        tuple(
            Round(kind, wound, brokers, is_clean=(number + brokers) % 2 == 0)
            for number, kind in enumerate((*LOG_FILES, *BROKER_FILES))
            for wound, brokers in (("flipped bit", 1), ("truncated", 2), ("lost", 2))
        ),
        zookeeper=ZOOKEEPER_FILES,
    ),
}


class Minority:
    """The story's cluster, and all that was acknowledged in it."""

    def __init__(self, trial: Trial, cluster: HostCluster) -> None:
        self.trial = trial
        self.cluster = cluster
        self.draw = random.Random(SEED)
        self.acknowledged: dict[str, list[bytes]] = {}
        self._written = 0

    def write(self, topic: str) -> None:
        """Write some batches, each acknowledged by the whole in-sync set, from an idempotent client."""
        acknowledged = self.acknowledged.setdefault(topic, [])
        producer = Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "log_level": 0,
            }
        )

        def told(error: object, message: Any) -> None:
            if error is None:
                acknowledged.append(message.value())

        for number in range(RECORDS_A_ROUND):
            value = f"{topic}-{self._written:08d}-".encode().ljust(VALUE_BYTES, b".")
            producer.produce(topic, value=value, partition=0, on_delivery=told)
            self._written += 1
            if number % RECORDS_A_FLUSH == 0:
                producer.flush(READ_SECONDS_MAX)
        producer.flush(READ_SECONDS_MAX)
        self.trial.figures["records acknowledged"] = sum(map(len, self.acknowledged.values()))

    def missing(self, topic: str) -> int:
        """Return how many acknowledged records of a topic are not read."""
        read = read_everything(
            bootstrap_servers=self.cluster.bootstrap_servers,
            topic=topic,
            partitions=1,
            timeout_seconds=READ_SECONDS_MAX,
        )
        values = [record.value for record in read]
        self.trial.inconsistent += len(values) - len(set(values))
        return len(set(self.acknowledged[topic]) - set(values))

    def judge(self, what: str, topic: str = TOPIC) -> None:
        missing = self.missing(topic)
        self.trial.lost += missing
        self.trial.must(f"{what}: all of {len(self.acknowledged[topic])} acknowledged are read", not missing)

    # --- a damaged broker -----------------------------------------------------------------------------------

    def damage(self, planned: Round) -> None:
        cluster, trial = self.cluster, self.trial
        self.write(TOPIC)
        leader = cluster.leader(TOPIC, 0)
        victims = [leader, *(broker_id for broker_id in cluster.brokers if broker_id != leader)]
        victims = victims[: planned.brokers]
        if planned.kind == "seal":
            cluster.wait_until("the log is sealed", lambda: all(map(self._is_sealed, victims)))
        for broker_id in victims:
            (cluster.stop_broker if planned.is_clean else cluster.kill_broker)(broker_id)
        told: list[str] = []
        for broker_id in victims:
            path = self._choose(broker_id, planned.kind)
            if path is None:
                told.append(f"broker {broker_id} has no {planned.kind}")
                continue
            did = WOUNDS[planned.wound](path, self.draw)
            trial.faults[planned.wound] += 1
            told.append(f"broker {broker_id}: {path.name} {did}")
        self.write(TOPIC)
        marks = {broker_id: self._log_size(broker_id) for broker_id in victims}
        told += [told_by for broker_id in victims if (told_by := self._return(broker_id, planned))]
        cluster.wait_until_in_sync(TOPIC)
        time.sleep(QUIET_SECONDS)
        cluster.wait_until_in_sync(TOPIC)
        noticed = {broker_id: self._warnings(broker_id, marks[broker_id]) for broker_id in victims}
        self.kill_leaders()
        name = f"{planned.kind} {planned.wound}, {planned.brokers} of {BROKERS}"
        trial.tell(f"{name}: {'; '.join(told)}")
        for broker_id, lines in noticed.items():
            for line in lines:
                trial.tell(f"  broker {broker_id} says: {line}")
        self.judge(name)

    def _choose(self, broker_id: int, kind: str) -> Path | None:
        data = self.cluster.brokers[broker_id].data_directory
        found = files_of_kind(data, f"{TOPIC}-0", kind)
        return self.draw.choice(found) if found else None

    def _is_sealed(self, broker_id: int, topic: str = TOPIC) -> bool:
        return bool(files_of_kind(self.cluster.brokers[broker_id].data_directory, f"{topic}-0", "seal"))

    def _return(self, broker_id: int, planned: Round) -> str:
        """Start a damaged broker. One that refuses must name the file; its disk is then replaced by an empty
        one."""
        try:
            self.cluster.start_broker(broker_id)
            return ""
        except ProcessFailed as refusal:
            words = str(refusal)
        name = planned.kind.strip("/*")
        self.trial.must(f"broker {broker_id}, which refuses to start, names {name}", name in words)
        self.trial.count("brokers that refused and got an empty disk", 1)
        self.cluster.kill_broker(broker_id)
        self.cluster.wipe_broker_disk(broker_id)
        self.cluster.start_broker(broker_id)
        return f"broker {broker_id} refused to start: {words.strip().splitlines()[-1]}"

    def kill_leaders(self) -> None:
        """Kill the leader, then the next one, while the other stays away; start both again."""
        cluster, dead = self.cluster, []
        for _ in range(BROKERS - MINIMUM):
            leader = cluster.leader(TOPIC, 0)
            cluster.kill_broker(leader)
            dead.append(leader)
            self.trial.faults["leader killed"] += 1
            cluster.wait_until("another leads", partial(self._led_by_other_than, dead))
        self.write(TOPIC)
        for broker_id in dead:
            cluster.start_broker(broker_id)
        cluster.wait_until_in_sync(TOPIC)

    def _led_by_other_than(self, dead: Sequence[int]) -> bool:
        leader = self.cluster.partition(TOPIC, 0).leader
        return leader is not None and leader not in dead

    def _log_size(self, broker_id: int) -> int:
        return self.cluster.brokers[broker_id].process.log_path.stat().st_size

    def _warnings(self, broker_id: int, since: int) -> list[str]:
        """Return what the broker's log warned of since then, without time and logger."""
        with self.cluster.brokers[broker_id].process.log_path.open("rb") as log:
            log.seek(since)
            lines = log.read().decode(errors="replace").splitlines()
        warnings = [line for line in lines if "level=warning" in line or "level=error" in line]
        return [line.partition("logger=")[2].partition(" ")[2] for line in warnings]

    # --- the planes beside ----------------------------------------------------------------------------------

    def damage_zookeeper(self, kind: str) -> None:
        """A bit of one of three servers flips; then another server, and the active controller, are killed."""
        cluster, trial = self.cluster, self.trial
        before = [(view.replicas, view.leader_epoch) for view in cluster.partitions(TOPIC)]
        victim, other = cluster.zookeeper.servers[0], cluster.zookeeper.servers[1]
        victim.process.kill()
        found = sorted(path for path in cluster.directory.glob(f"zookeeper-1/data/version-2/{kind}"))
        did = WOUNDS["flipped bit"](found[-1], self.draw)
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
        after = [(view.replicas, view.leader_epoch) for view in cluster.partitions(TOPIC)]
        trial.must(
            "what ZooKeeper knows of the topic has not gone back",
            all(now[0] == then[0] and now[1] >= then[1] for then, now in zip(before, after, strict=True)),
        )
        self.kill_leaders()
        self.judge(f"ZooKeeper's {kind}, a flipped bit at 1 of 3")

    def damage_audit(self) -> None:
        """A bit of a row of the audit flips while no controller runs: the chain of hashes must say so."""
        cluster, trial = self.cluster, self.trial
        for index in cluster.controllers:
            cluster.kill_controller(index)
        flip_bit_of_a_row(cluster.directory / "audit.db")
        trial.faults["flipped bit"] += 1
        for index in cluster.controllers:
            cluster.start_controller(index)
        cluster.active_controller()
        found = cluster.api.get(f"/audit/verification?cluster={cluster.name}")
        trial.must(f"the audit's chain does not hold: {found}", not found["ok"])
        self.judge("SQL, a flipped bit")

    # --- all of them ----------------------------------------------------------------------------------------

    def cut_all_power(self) -> None:
        """Nothing that was not synced is there afterwards, at none of the five."""
        cluster, trial = self.cluster, self.trial
        cluster.create_topic(
            "durable", replication_factor=BROKERS, configs={"flush.messages": "1", "min.insync.replicas": "3"}
        )
        cluster.create_topic("busy", replication_factor=BROKERS, configs={"min.insync.replicas": "3"})
        cluster.wait_until(
            "logs that fsync each record are sealed",
            lambda: all(self._is_sealed(broker_id, "durable") for broker_id in cluster.brokers),
        )
        self.write("durable")
        self.write("busy")
        for broker in cluster.brokers.values():
            broker.process.pause()  # all stop in one moment: none sees another go
        for broker_id in cluster.brokers:
            cluster.cut_power(broker_id)
            trial.faults["power cut"] += 1
        for broker_id in cluster.brokers:
            cluster.start_broker(broker_id)
        cluster.wait_until_in_sync("durable")
        self.judge("power cut of all, flush.messages=1", "durable")
        self._judge_unsynced("busy")

    def _judge_unsynced(self, topic: str) -> None:
        """Its records were in memory only. Where they are gone, nobody leads and an alarm says so."""
        cluster, trial = self.cluster, self.trial
        view = cluster.partition(topic, 0)
        alarms = cluster.api.get(f"/clusters/{cluster.name}/alarms")["items"]
        trial.tell(f"{topic}: leader {view.leader}; alarms {sorted({alarm['code'] for alarm in alarms})}")
        if view.leader is not None:
            self.judge("power cut of all, synced by the system alone", topic)
            return
        is_told = any(alarm["code"] == "partition_leaderless" and topic in str(alarm) for alarm in alarms)
        trial.must(f"{topic}: nobody leads, and an alarm says so", is_told)
        trial.count("records that wait for an operator, told", len(self.acknowledged[topic]))


def tell_all(trial: Trial, size: Size) -> None:
    with HostCluster(trial.directory, brokers=BROKERS, broker_config=PACE) as cluster:
        cluster.form()
        cluster.create_topic(TOPIC, replication_factor=BROKERS, configs={"min.insync.replicas": str(MINIMUM)})
        story = Minority(trial, cluster)
        acts: list[Callable[[], None]] = [
            *(partial(story.damage, planned) for planned in size.rounds),
            *(partial(story.damage_zookeeper, kind) for kind in size.zookeeper),
            story.damage_audit,
            story.cut_all_power,
        ]
        for act in acts:
            act()
