"""ZooKeeper restored from a backup while brokers run, and the cluster recovered by one call (docs/backup.md).

Back up, go on writing, make another topic and write to it, fail over, restore the backup; see that the
metadata went back and that nothing is decided; recover; write on, and read everything. In full size with
three controllers and three ZooKeepers, and every broker is killed and started again while it is back.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from localcluster.cluster import LocalCluster
from localcluster.load import Load, ends_of, read_everything
from localcluster.rest import RestFailed
from localcluster.verdict import judge
from tests.faults.family import Trial

PARTITIONS = 6
RECORDS_PER_SECOND = 200
STEP_SECONDS = 3.0
SERVERS = {"ci": 1, "full": 3}
"""Controllers, and ZooKeepers."""


def run(trial: Trial, servers: int) -> None:
    with LocalCluster(trial.directory, brokers=3, controllers=servers, zookeepers=servers) as cluster:
        Run(cluster, trial, restarts_brokers=servers > 1).conduct()


class Run:
    """One cluster's way there and back."""

    def __init__(self, cluster: LocalCluster, trial: Trial, *, restarts_brokers: bool) -> None:
        self.cluster = cluster
        self.trial = trial
        self.tell = trial.tell
        self.restarts_brokers = restarts_brokers

    def conduct(self) -> None:
        cluster = self.cluster
        cluster.form()
        with self._load("before") as before:
            time.sleep(STEP_SECONDS)
            self._back_up()
            time.sleep(STEP_SECONDS)
            with self._load("made-later") as later:
                time.sleep(STEP_SECONDS)
                # Elections and in-sync sets that the backup has not heard of.
                cluster.kill_broker(cluster.leader("before", 0))
                time.sleep(STEP_SECONDS)
                self._start_brokers()
                for topic in ("before", "made-later"):
                    cluster.wait_until_in_sync(topic)
                self.tell("restoring ZooKeeper from the backup")
                self._restore()
                self.trial.faults["ZooKeeper put back"] += 1
                self._see_that_it_went_back()
                self._recover()
                time.sleep(STEP_SECONDS)
        for topic, load in (("before", before), ("made-later", later)):
            self._read(topic, load)

    def _load(self, topic: str) -> Load:
        self.cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        return Load(
            bootstrap_servers=self.cluster.bootstrap_servers,
            topic=topic,
            partitions=PARTITIONS,
            records_per_second=RECORDS_PER_SECOND,
        )

    def _start_brokers(self) -> None:
        for broker_id, broker in self.cluster.brokers.items():
            if not broker.process.is_running:
                self.cluster.start_broker(broker_id)

    # -- ZooKeeper's data --

    def _copies(self) -> list[tuple[Path, Path]]:
        return [
            (server.data_directory, self.cluster.directory / f"backup-{server.server_id}")
            for server in self.cluster.zookeeper.servers
        ]

    def _back_up(self) -> None:
        """Between two runs of the servers: what a copy of a running server's directory amounts to."""
        self.cluster.zookeeper.kill()
        for data, backup in self._copies():
            shutil.copytree(data, backup)
        self.cluster.zookeeper.start()
        self.tell("backed up")

    def _restore(self) -> None:
        """While controllers run: whoever restores may forget to stop them."""
        self.cluster.zookeeper.kill()
        for data, backup in self._copies():
            shutil.rmtree(data)
            shutil.copytree(backup, data)
        self.cluster.zookeeper.start()

    # -- being back --

    def _see_that_it_went_back(self) -> None:
        path = f"/clusters/{self.cluster.name}"
        began = time.monotonic()

        def has_gone_back() -> bool | None:
            try:
                return self.cluster.api.get(path)["health"] == "metadata_went_back" or None
            except RestFailed:
                return None

        self.cluster.wait_until("the metadata is known to have gone back", has_gone_back)
        self.trial.figures["seconds until it was known"] = round(time.monotonic() - began, 1)
        alarms = self.cluster.api.get(f"{path}/alarms")["items"]
        self.tell(alarms[0]["detail"])
        if alarms[0]["code"] != "metadata_went_back":
            self.trial.failures.append(f"the first alarm is {alarms[0]['code']}")
        answer = self.cluster.rest.post("/topics", json={"name": "never", "partitions": 1})
        if (answer.status_code, answer.json().get("code")) != (503, "metadata_went_back"):
            self.trial.failures.append(f"a topic could be created: {answer.status_code} {answer.text[:200]}")
        if self.restarts_brokers:
            for broker_id in self.cluster.brokers:
                self.cluster.kill_broker(broker_id)
            self._start_brokers()
            self.tell("killed every broker and started it again")

    def _recover(self) -> None:
        url = f"/clusters/{self.cluster.name}:recover-metadata"
        began = time.monotonic()

        def recovered() -> dict[str, object] | None:
            answer = self.cluster.rest.post(url, json={"reason": "restored from a backup"})
            if answer.status_code == 200:
                found: dict[str, object] = answer.json()
                return found
            self.tell(answer.text[:300])
            time.sleep(1.0)
            return None

        found = self.cluster.wait_until("the metadata is recovered", recovered)
        self.tell(f"recovered: {found}")
        if found["undecided"]:
            self.trial.failures.append(f"nobody is known to hold all of {found['undecided']}")
        for topic in ("before", "made-later"):
            self.cluster.wait_until_in_sync(topic)
        self.trial.figures["seconds until all were in sync again"] = round(time.monotonic() - began, 1)

    def _read(self, topic: str, load: Load) -> None:
        records = read_everything(
            bootstrap_servers=self.cluster.bootstrap_servers,
            topic=topic,
            partitions=PARTITIONS,
            at_least=ends_of(load.acknowledged),
        )
        verdict = judge(load.acknowledged, records)
        self.tell(f"{topic}: {verdict.describe()}")
        self.trial.figures[f"records acknowledged, topic {topic}"] = verdict.acknowledged
        self.trial.lost += len(verdict.lost)
        self.trial.inconsistent += len(verdict.duplicated) + len(verdict.misplaced)
        if load.failed:
            self.trial.failures.append(
                f"{topic}: the client gave up on {len(load.failed)} records: {load.failed[0]}"
            )
