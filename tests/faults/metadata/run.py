"""ZooKeeper that goes back while brokers run, and the cluster recovered by one call (docs/backup.md).

Two times, on one cluster of four brokers and three ZooKeepers:

1. ZooKeeper and SQL are restored from backups, with the controllers stopped. After the backup a topic was
   made on brokers 1 to 3, and another on broker 4 alone. Every broker is killed while the metadata is back,
   and broker 4 is given up in the recovery. Then it comes back: its logs are set aside and listed, and their
   topic is brought back by one call.
2. A ZooKeeper server that lagged and one that was emptied form a quorum, without the one that had everything.
   Controllers and brokers run on. Since the server's lag a topic was made, and a leader failed over.

Each time it must be known that the metadata went back, nothing may be decided before the recovery, and in the
end every acknowledged record is read. In full size with three controllers, a longer load, and PostgreSQL
where it is installed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from localcluster.cluster import LocalCluster
from localcluster.load import ClientLoad, ends_of, read_everything
from localcluster.rest import Json
from localcluster.verdict import judge
from tests.faults.family import Trial
from tests.faults.metadata.databases import Database, Postgres, Sqlite
from tests.kit.postgres import running_postgres

PARTITIONS = 6
RECORDS_PER_SECOND = 200
#: It is given up in the first recovery, and holds the only log of one topic.
ABSENT = 4


class Size(NamedTuple):
    controllers: int
    step_seconds: float
    wants_postgres: bool


SIZES = {"ci": Size(1, 3.0, False), "full": Size(3, 8.0, True)}


def run(trial: Trial, size: Size) -> None:
    with ExitStack() as stack:
        database: Database
        flags: tuple[str, ...] = ()
        if size.wants_postgres and shutil.which("pg_restore"):
            url = stack.enter_context(running_postgres())
            flags, database = ("--database-url", url), Postgres(url)
        else:
            database = Sqlite(trial.directory / "audit.db")
        cluster = LocalCluster(
            trial.directory, brokers=4, controllers=size.controllers, zookeepers=3, controller_flags=flags
        )
        stack.enter_context(cluster)
        Run(cluster, database, trial, step_seconds=size.step_seconds).conduct()


class Run:
    """One cluster's way there and back, twice."""

    def __init__(
        self, cluster: LocalCluster, database: Database, trial: Trial, *, step_seconds: float
    ) -> None:
        self.cluster = cluster
        self.database = database
        self.trial = trial
        self.tell = trial.tell
        self.step_seconds = step_seconds
        self.backup = cluster.directory / "backup"
        self.loads: list[ClientLoad] = []

    def conduct(self) -> None:
        self.cluster.form()
        with self._load("before"):
            self._rest()
            self._back_up()
            self._rest()
            self._restore_from_backup()
            self._rest()
            self._let_a_lagging_and_an_emptied_server_form_a_quorum()
            self._rest()
        for load in self.loads:
            self._read(load)
        self._verify_audit("in the end")

    # -- the first time --

    def _back_up(self) -> None:
        """ZooKeeper's between two runs of its servers: what a copy of a running server's directory amounts
        to."""
        cluster = self.cluster
        cluster.zookeeper.kill()
        for server in cluster.zookeeper.servers:
            shutil.copytree(server.data_directory, self.backup / f"zookeeper-{server.server_id}")
        cluster.zookeeper.start()
        self.database.back_up(self.backup)
        self.tell(f"backed up ZooKeeper and {self.database.name}")

    def _restore_from_backup(self) -> None:
        cluster = self.cluster
        with self._load("made-later"):
            with self._load("alone", brokers=(ABSENT,)):
                self._rest()
            self._fail_over("made-later")
            noted = self._verify_audit("before the restore")
            self.tell("restoring ZooKeeper and SQL from the backups")
            for controller in cluster.controllers.values():
                controller.process.stop()
            cluster.zookeeper.kill()
            for server in cluster.zookeeper.servers:
                shutil.rmtree(server.data_directory)
                shutil.copytree(self.backup / f"zookeeper-{server.server_id}", server.data_directory)
            self.database.restore(self.backup)
            cluster.zookeeper.start()
            self.trial.faults[f"ZooKeeper and {self.database.name} put back"] += 1
            for index in cluster.controllers:
                cluster.start_controller(index)
            self._see_that_it_went_back("a backup")
            for broker_id in cluster.brokers:
                cluster.kill_broker(broker_id)
            for broker_id in cluster.brokers:
                if broker_id != ABSENT:
                    cluster.start_broker(broker_id)
            self.tell(f"killed every broker and started all but {ABSENT} again")
            self._recover("a backup", gone=[ABSENT])
            self._verify_audit("after the restore")
            # The chain fits, since it is as it was written; only what was noted elsewhere tells of the loss.
            there = self._verification(to_seq=noted["last_seq"])
            if (there["chain_position"], there["hash"]) == (noted["chain_position"], noted["hash"]):
                self.trial.failures.append("a restored history can't be told from the one that was noted")
            self._bring_back_alone()

    def _bring_back_alone(self) -> None:
        cluster = self.cluster
        cluster.start_broker(ABSENT)
        path = f"/clusters/{cluster.name}"

        def listed() -> list[Json] | None:
            logs: list[Json] = cluster.api.get(f"{path}/set-aside-logs")["items"]
            return [log for log in logs if log["topic"] == "alone"] or None

        logs = cluster.wait_until("the logs of a topic that nobody knows are listed", listed)
        found = [(log["broker_id"], log["partition"], log["can_come_back"]) for log in logs]
        if found != [(ABSENT, number, True) for number in range(PARTITIONS)]:
            self.trial.failures.append(f"set aside: {logs}")
        codes = {alarm["code"] for alarm in cluster.api.get(f"{path}/alarms")["items"]}
        if "log_set_aside" not in codes:
            self.trial.failures.append(f"logs are set aside, and the alarms are {codes}")
        answer = cluster.api.post(f"{path}:bring-back-topics", {"reason": "broker 4 is back"}).json()
        self.tell(f"brought back: {answer['topics']}, undecided {answer['undecided']}")
        if (answer["topics"], answer["undecided"]) != (["alone"], []):
            self.trial.failures.append(f"brought back: {answer}")
        cluster.wait_until_in_sync("alone")
        self.trial.figures["logs brought back"] = len(logs)

    # -- the second time --

    def _let_a_lagging_and_an_emptied_server_form_a_quorum(self) -> None:
        cluster = self.cluster
        emptied, complete, lagging = cluster.zookeeper.servers
        lagging.process.kill()
        self.tell("a ZooKeeper server begins to lag")
        self._rest()
        with self._load("made-while-it-lagged"):
            self._fail_over("before")
            emptied.process.kill()
            complete.process.kill()
            shutil.rmtree(emptied.data_directory)
            for server in (emptied, lagging):
                server.start()
            for server in (emptied, lagging):
                server.wait_ready()
            self.trial.faults["a lagging and an emptied ZooKeeper form a quorum"] += 1
            self.tell("the lagging server and an emptied one are a quorum")
            self._see_that_it_went_back("a lagging server")
            self._recover("a lagging server", gone=[])
            # What it has is another history: it joins as a new one (docs/backup.md).
            shutil.rmtree(complete.data_directory)
            complete.start()
            complete.wait_ready()
            self._rest()

    # -- both --

    def _rest(self) -> None:
        time.sleep(self.step_seconds)

    @contextmanager
    def _load(self, topic: str, *, brokers: tuple[int, ...] = (1, 2, 3)) -> Iterator[None]:
        """Writes to a new topic. Each partition begins with another of the brokers."""
        rotated = [[*brokers[n % len(brokers) :], *brokers[: n % len(brokers)]] for n in range(PARTITIONS)]
        body = {"name": topic, "cluster": self.cluster.name, "assignments": rotated}
        self.cluster.api.post("/topics", body)
        self.cluster.wait_until_in_sync(topic)
        load = ClientLoad(
            bootstrap_servers=self.cluster.bootstrap_servers,
            topic=topic,
            partitions=PARTITIONS,
            records_per_second=RECORDS_PER_SECOND,
        )
        self.loads.append(load)
        with load:
            yield

    def _fail_over(self, topic: str) -> None:
        """Elections and in-sync sets of which the older ZooKeeper has not heard."""
        cluster = self.cluster
        victim = cluster.leader(topic, 0)
        cluster.kill_broker(victim)
        self._rest()
        cluster.start_broker(victim)
        for each in ("before", topic):
            cluster.wait_until_in_sync(each)

    def _see_that_it_went_back(self, how: str) -> None:
        path = f"/clusters/{self.cluster.name}"
        began = time.monotonic()

        def first_alarm() -> Json | None:
            """The active controller's: a standby sees the metadata, not the brokers."""
            alarms = self.cluster.api.get(f"{path}/alarms")["items"]
            return alarms[0] if alarms and alarms[0]["code"] == "metadata_went_back" else None

        alarm = self.cluster.wait_until("the metadata is known to have gone back", first_alarm)
        self.trial.figures[f"{how}: seconds until it was known"] = round(time.monotonic() - began, 1)
        self.tell(alarm["detail"])
        answer = self.cluster.rest.post("/topics", json={"name": "never", "partitions": 1})
        if (answer.status_code, answer.json().get("code")) != (503, "metadata_went_back"):
            self.trial.failures.append(
                f"{how}: a topic could be created: {answer.status_code} {answer.text[:200]}"
            )

    def _recover(self, how: str, *, gone: list[int]) -> None:
        url = f"/clusters/{self.cluster.name}:recover-metadata"
        began = time.monotonic()

        def recovered() -> Json | None:
            answer = self.cluster.rest.post(url, json={"reason": how, "gone_brokers": gone})
            if answer.status_code == 200:
                found: Json = answer.json()
                return found
            self.tell(answer.text[:300])
            time.sleep(1.0)
            return None

        found = self.cluster.wait_until("the metadata is recovered", recovered)
        self.tell(f"recovered: {found}")
        if found["undecided"]:
            self.trial.failures.append(f"{how}: nobody is known to hold all of {found['undecided']}")
        for load in self.loads:
            if load.topic != "alone":
                self.cluster.wait_until_in_sync(load.topic)
        self.trial.figures[f"{how}: seconds until all were in sync again"] = round(
            time.monotonic() - began, 1
        )

    def _verify_audit(self, when: str) -> Json:
        answer = self._verification()
        self.tell(
            f"the audit {when}: ok {answer['ok']}, {answer['rows']} rows, position {answer['chain_position']}"
        )
        if not answer["ok"]:
            self.trial.failures.append(f"the audit {when}: {answer['mismatch']}")
        self.trial.figures[f"audit rows {when}"] = answer["rows"]
        return answer

    def _verification(self, to_seq: int | None = None) -> Json:
        bound = "" if to_seq is None else f"&to_seq={to_seq}"
        return self.cluster.api.get(f"/audit/verification?cluster={self.cluster.name}{bound}")

    def _read(self, load: ClientLoad) -> None:
        records = read_everything(
            bootstrap_servers=self.cluster.bootstrap_servers,
            topic=load.topic,
            partitions=PARTITIONS,
            at_least=ends_of(load.acknowledged),
        )
        verdict = judge(load.acknowledged, records)
        self.tell(f"{load.topic}: {verdict.describe()}")
        self.trial.figures[f"records acknowledged, topic {load.topic}"] = verdict.acknowledged
        self.trial.lost += len(verdict.lost)
        self.trial.inconsistent += len(verdict.duplicated) + len(verdict.misplaced)
        if load.failed:
            self.trial.failures.append(
                f"{load.topic}: the client gave up on {len(load.failed)}: {load.failed[0]}"
            )
