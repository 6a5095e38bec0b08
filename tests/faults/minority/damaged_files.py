"""A file of one or two of five brokers is damaged while these are down; they return, and leaders are killed.

These are Jepsen's faults on NATS JetStream 2.12.1 (December 2025), where one flipped bit on one of five
nodes lost half of the acknowledged records, and a lost snapshot a whole stream. Here each kind of file that
a broker keeps (kinds.py) is damaged in turn: one bit flipped, the end cut off, the file removed; ZooKeeper's
and the audit's files after them. The broker returns, catches up and leads, and everything is read. Then two
leaders in a row are killed, so that the damaged broker at least vouches, and everything is read again. A
broker that refuses to start must name the file; it is then given an empty disk, as the documents say. A round
that finds no file to strike fails.

At the end all five lose power at once. A partition that fsyncs each record must lead again with all of it.
One that does not may wait for an operator, but must say so.

`lost` counts acknowledged records that are missing at the end of a round. Damage that loses nothing needs
no alarm, so what the broker's log said of it is only shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from localcluster.processes import ProcessFailed
from tests.faults.family import Trial
from tests.faults.hosts.cluster import HostCluster
from tests.faults.minority.beside import ZOOKEEPER_FILES, cut_all_power, damage_audit, damage_zookeeper
from tests.faults.minority.kinds import (
    BROKER_FILES,
    CLEAN_SHUTDOWN,
    EMPTY_FILES,
    LEDGER,
    LEDGER_FILES,
    LOG_FILES,
    ORDERS,
    ROTTEN,
    files_of_kind,
    of_no_kind,
    topic_of,
)
from tests.faults.minority.ledger import CONFIGS
from tests.faults.minority.story import BROKERS, MINIMUM, Story
from tests.faults.minority.wounds import WOUNDS, flip_bit

PACE = {
    "log.segment.bytes": "32768",
    "log.scrub.interval.ms": "2000",
    "log.scrub.bytes.per.second": "8388608",
    "log.cleaner.backoff.ms": "500",
}
QUIET_SECONDS = 4.0
"""Two scrubs: what rots in a closed segment is found by then, before leaders are killed."""
CHECKPOINT_SECONDS_MAX = 120.0
"""A broker writes where its scrub is once a minute."""


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
            Round("*.txnindex", "flipped bit"),
            Round("compacted", "lost", brokers=2),
        ),
        zookeeper=("log.*",),
    ),
    "full": Size(
        (
            *(
                Round(kind, wound, brokers, is_clean=kind == CLEAN_SHUTDOWN or (number + brokers) % 2 == 0)
                for number, kind in enumerate((*LOG_FILES, *LEDGER_FILES, *BROKER_FILES))
                for wound, brokers in (("flipped bit", 1), ("truncated", 2), ("lost", 2))
            ),
            *(Round(kind, "lost", brokers=2) for kind in EMPTY_FILES),
        ),
        zookeeper=ZOOKEEPER_FILES,
    ),
}


class Minority(Story):
    """Damages the files of brokers."""

    def damage(self, planned: Round) -> None:
        cluster, trial = self.cluster, self.trial
        name = f"{planned.kind} {planned.wound}, {planned.brokers} of {BROKERS}"
        topic = topic_of(planned.kind)
        self.write(ORDERS)
        self.ledger.write()
        self.elect_preferred(topic)
        victims = self._victims(planned, topic)
        for broker_id in victims:
            if planned.kind == ROTTEN:
                self._rot(broker_id)
            elif planned.is_clean:
                cluster.stop_broker(broker_id)
            else:
                cluster.kill_broker(broker_id)
        for broker_id in victims:
            found = self._files(broker_id, planned.kind)
            trial.must(f"{name}: broker {broker_id} has a file to strike", bool(found))
            if found:
                path = self.draw.choice(found)
                trial.tell(f"broker {broker_id}: {path.name} {WOUNDS[planned.wound](path, self.draw)}")
                trial.faults[planned.wound] += 1
        self.write(ORDERS)
        marks = {broker_id: self._log_size(broker_id) for broker_id in victims}
        for broker_id in victims:
            self._return(broker_id, planned)
        self.wait_until_in_sync()
        time.sleep(QUIET_SECONDS)
        self.wait_until_in_sync()
        for broker_id in victims:
            for line in self._warnings(broker_id, marks[broker_id]):
                trial.tell(f"  broker {broker_id} says: {line}")
        self.elect_preferred(topic)
        self.judge_both(f"{name}, led by {cluster.leader(topic, 0)} of {victims}")
        self.kill_leaders(topic)
        self.judge_both(name)

    def _victims(self, planned: Round, topic: str) -> list[int]:
        """Return the brokers to strike: the leader first, if it has such a file."""
        replicas = self.cluster.partition(topic, 0).replicas
        if planned.kind in (CLEAN_SHUTDOWN, ROTTEN):  # they come to be as the broker goes
            return list(replicas[: planned.brokers])

        def found() -> list[int] | None:
            having = [broker_id for broker_id in replicas if self._files(broker_id, planned.kind)]
            return having[: planned.brokers] if len(having) >= planned.brokers else None

        return self.cluster.wait_until(
            f"brokers have {planned.kind}", found, timeout_seconds=CHECKPOINT_SECONDS_MAX
        )

    def _files(self, broker_id: int, kind: str) -> list[Path]:
        return files_of_kind(self.cluster.brokers[broker_id].data_directory, kind)

    def _rot(self, broker_id: int) -> None:
        """Have the broker's scrub find a flipped bit while no leader can mend it; then kill the broker."""
        cluster = self.cluster
        cluster.stop_broker(broker_id)
        flip_bit(self._files(broker_id, "*.log")[0], self.draw)
        others = [other.process for other in cluster.brokers.values() if other.process.is_running]
        for process in others:
            process.pause()
        try:
            cluster.start_broker(broker_id)
            cluster.wait_until("the scrub finds it", lambda: bool(self._files(broker_id, ROTTEN)))
            cluster.kill_broker(broker_id)
        finally:
            for process in others:
                process.resume()

    def _return(self, broker_id: int, planned: Round) -> None:
        """Start a damaged broker. One that refuses must name the file; its disk is then replaced by an empty
        one."""
        try:
            self.cluster.start_broker(broker_id)
            return
        except ProcessFailed as refusal:
            words = str(refusal)
        name = planned.kind.strip("/*")
        self.trial.must(f"broker {broker_id}, which refuses to start, names {name}", name in words)
        self.trial.count("brokers that refused and got an empty disk", 1)
        self.cluster.kill_broker(broker_id)
        self.cluster.wipe_broker_disk(broker_id)
        self.cluster.start_broker(broker_id)
        self.trial.tell(f"broker {broker_id} refused to start: {words.strip().splitlines()[-1]}")

    def _log_size(self, broker_id: int) -> int:
        return self.cluster.brokers[broker_id].process.log_path.stat().st_size

    def _warnings(self, broker_id: int, since: int) -> list[str]:
        """Return what the broker's log warned of since then, without time and logger."""
        with self.cluster.brokers[broker_id].process.log_path.open("rb") as log:
            log.seek(since)
            lines = log.read().decode(errors="replace").splitlines()
        warnings = [line for line in lines if "level=warning" in line or "level=error" in line]
        return [line.partition("logger=")[2].partition(" ")[2] for line in warnings]

    def copy_a_compacted_log(self) -> None:
        """Give two brokers empty disks, so that they copy a log which lacks records."""
        self.ledger.write()
        replicas = self.cluster.partition(LEDGER, 0).replicas
        self.cluster.wait_until(
            "each replica is compacted",
            lambda: all(self._files(broker_id, "compacted") for broker_id in replicas),
        )
        for broker_id in replicas[:2]:
            self.cluster.kill_broker(broker_id)
            self.cluster.wipe_broker_disk(broker_id)
            self.cluster.start_broker(broker_id)
            self.wait_until_in_sync()

    def find_kinds(self) -> None:
        """Look at the files that there are: none may be of a kind that is not struck."""
        found: set[str] = set()
        for broker in self.cluster.brokers.values():
            found |= of_no_kind(broker.data_directory)
        self.trial.must(f"files of a kind that no round knows: {sorted(found)}", not found)


def tell_all(trial: Trial, size: Size) -> None:
    with HostCluster(trial.directory, brokers=BROKERS, coordinators=1, broker_config=PACE) as cluster:
        cluster.form()
        cluster.create_topic(
            ORDERS, replication_factor=BROKERS, configs={"min.insync.replicas": str(MINIMUM)}
        )
        cluster.create_topic(LEDGER, replication_factor=BROKERS, configs=CONFIGS)
        story = Minority(trial, cluster)
        acts: list[Callable[[], None]] = [
            *(partial(story.damage, planned) for planned in size.rounds),
            story.find_kinds,
            *(partial(damage_zookeeper, story, kind) for kind in size.zookeeper),
            partial(damage_audit, story),
            partial(cut_all_power, story),
        ]
        if any(planned.kind == "copied" for planned in size.rounds):
            acts.insert(0, story.copy_a_compacted_log)
        for act in acts:
            act()
