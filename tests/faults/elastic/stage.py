"""A cluster under load of stock clients, and what can be asked of it while brokers come and go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from localcluster.cluster import LocalCluster
from localcluster.processes import ProcessFailed
from localcluster.rest import ControllerApi, Json, RestFailed, open_rest_client
from tests.checker.check import check
from tests.checker.from_clients import RecordedProducer, Recorder, ends_of, read_finally
from tests.checker.history import History, Key, Operation, write_history
from tests.checker.verdict import Verdict
from tests.faults.elastic.balance import Assignment, Load, loads
from tests.faults.nemesis.disks import dump_replicas
from tests.faults.nemesis.load import Client
from tests.faults.nemesis.load import Load as Clients
from tests.faults.nemesis.placement import NotTold, compare_views
from tests.faults.nemesis.worker import CONSUMER, KAFKA_PYTHON, PRODUCER

TOPIC, PARTITIONS, COPIES = "orders", 60, 3
CLIENTS = (
    Client("librdkafka-1", PRODUCER, 200),
    Client("kafka-python-1", KAFKA_PYTHON, 50),
    Client("reader-1", CONSUMER),
)
SIZES = 5
"""Kinds of partitions: the largest holds so many times as much as the smallest."""
PRELOADED_RECORDS = 16
"""In the smallest partitions."""
RECORD_BYTES = 4_000
SETTLED_SECONDS_MAX = 60.0
OPERATION_SECONDS_MAX = 150.0
FINAL_READ_SECONDS_MAX = 60.0
CATCH_UP_SECONDS = 2.0
VIEWS_AGREE_SECONDS_MAX = 20.0

Tell = Callable[[str], None]
Watch = Callable[[Json], None]
"""Called with each look at an operation that goes on."""


@dataclass(frozen=True, slots=True)
class Picture:
    """How the topic lies at one moment; sizes are those that leaders have reported."""

    assignment: Assignment
    leaders: Mapping[int, int]
    sizes: Mapping[int, int]

    def loads(self, brokers: Sequence[int]) -> dict[int, Load]:
        return loads(self.assignment, self.leaders, self.sizes, brokers)


@dataclass
class Stage:
    """Built by `stage`. trouble: whatever should not be, in words."""

    cluster: LocalCluster
    clients: Clients
    recorder: Recorder
    tell: Tell
    trouble: list[str] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)

    # --- what is asked over REST --------------------------------------------------------------------------

    def picture(self) -> Picture:
        """Waits until every partition has a leader that has reported its size, which only the active
        controller hears."""

        def look() -> Picture | None:
            active = self.cluster.controllers[self.cluster.active_controller()]
            with open_rest_client([active.url]) as client:
                views = ControllerApi(client).partitions(self.cluster.name, TOPIC)
            sizes = {view.partition: view.document["size_bytes"] for view in views}
            leaders = {view.partition: view.leader for view in views}
            if None in sizes.values() or None in leaders.values():
                return None
            return Picture(
                assignment={view.partition: view.replicas for view in views},
                leaders={number: leader for number, leader in leaders.items() if leader is not None},
                sizes=sizes,
            )

        return self.cluster.wait_until("every partition's size is known", look)

    def ask(self, path: str, body: Json) -> Json:
        """POST, which is repeated under one key while no controller is active."""
        answer: Json = self.cluster.api.post(path, body).json()
        return answer

    def follow(self, operation_id: str, watch: Watch | None = None) -> Json:
        """Looks again and again until it has succeeded; returns its last state. Raises RestFailed."""
        deadline = time.monotonic() + OPERATION_SECONDS_MAX
        while True:
            if ended := self.clients.ended():
                raise ProcessFailed("; ".join(ended))
            self.cluster.require_alive()
            operation = self.cluster.api.get(f"/operations/{operation_id}", timeout_seconds=60.0)
            if watch is not None:
                watch(operation)
            if operation["state"] in {"succeeded", "failed", "cancelled"}:
                break
            if time.monotonic() > deadline:
                raise RestFailed(f"operation {operation_id} has not ended: {operation}")
            time.sleep(0.02)
        if operation["state"] != "succeeded":
            raise RestFailed(f"operation {operation_id} ended as {operation['state']}: {operation}")
        return operation

    def moves(self, operation_id: str) -> list[Json]:
        """Every move of an operation that carries out a plan."""
        found: list[Json] = []
        query = "?limit=1000"
        while True:
            page = self.cluster.api.get(f"/operations/{operation_id}/moves{query}")
            found += page["items"]
            if not page.get("next_page_token"):
                return found
            query = f"?limit=1000&page_token={page['next_page_token']}"

    def wait_until_settled(self) -> None:
        """Every replica is in sync, and led by whoever is preferred."""

        def settled() -> bool:
            views = self.cluster.partitions(TOPIC)
            return all(
                set(view.isr) == set(view.replicas) and view.leader == view.replicas[0] for view in views
            )

        self.cluster.wait_until(
            "every replica is in sync and preferred leaders lead",
            settled,
            timeout_seconds=SETTLED_SECONDS_MAX,
        )

    def replicas_on_disk(self, broker_id: int) -> list[str]:
        """Directories of the topic's partitions on a broker's disk."""
        return sorted(
            folder.name
            for folder in self.cluster.brokers[broker_id].data_directory.glob(f"{TOPIC}-*")
            if folder.is_dir()
        )

    # --- the end ------------------------------------------------------------------------------------------

    def finish(self, brokers: Sequence[int]) -> Verdict:
        """Ends the clients, reads everything back, compares what everybody says, stops the brokers, reads
        their disks, and judges. brokers: those that are to run."""
        self.trouble += self.clients.stop(producers=True)
        time.sleep(CATCH_UP_SECONDS)  # The reader's, to the end of what is there.
        self.trouble += self.clients.stop(producers=False)
        done = self.clients.operations()
        keys: list[Key] = [(TOPIC, partition) for partition in range(PARTITIONS)]
        self.tell("reading everything back")
        bootstrap = ",".join(self.cluster.brokers[broker_id].endpoint for broker_id in brokers)
        unfinished = read_finally(
            self.recorder,
            config={"bootstrap.servers": bootstrap},
            keys=keys,
            timeout_seconds=FINAL_READ_SECONDS_MAX,
            at_least=ends_of(History.of([*done, *self.recorder.history().operations])),
        )
        self.trouble += [f"the final read did not reach the end of {key[1]}" for key in sorted(unfinished)]
        self.trouble += self._differences(brokers)
        self.tell("stopping the brokers and reading their disks")
        for broker in self.cluster.brokers.values():
            broker.process.begin_stop()
        for broker in self.cluster.brokers.values():
            broker.process.stop()
        directories = {number: self.cluster.brokers[number].data_directory for number in brokers}
        for dump in dump_replicas(directories, TOPIC, now_ns=self.recorder.clock_ns()):
            self.recorder.add(dump)
        merged = sorted(
            [*done, *self.recorder.history().operations], key=lambda operation: operation.t_return_ns
        )
        with (self.cluster.directory / "history.jsonl").open("wb") as stream:
            write_history(stream, merged)
        self.tell(f"checking {len(merged)} operations")
        self.operations = merged
        return check(History.of(merged))

    def _differences(self, brokers: Sequence[int]) -> list[str]:
        """What REST and the brokers still say otherwise than ZooKeeper when they had time to hear of it."""
        deadline = time.monotonic() + VIEWS_AGREE_SECONDS_MAX
        while True:
            try:
                found = [each.explanation for each in compare_views(self.cluster, TOPIC, brokers=brokers)]
            except (RestFailed, NotTold) as error:
                found = [f"the views could not be compared: {error}"]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.5)


@contextmanager
def stage(directory: Path, *, brokers: int, first: Sequence[int], tell: Tell) -> Iterator[Stage]:
    """Two controllers and so many brokers, of which the first are members and hold a topic of 60 partitions
    of unequal sizes, into which clients write and from which they read; the others wait."""
    with LocalCluster(directory, brokers=brokers, controllers=2, on_progress=tell) as cluster:
        tell(f"admitting brokers {', '.join(map(str, first))}")
        cluster.add_brokers(first)
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=COPIES)
        recorder = Recorder()
        tell("filling the partitions, unequally")
        preload(recorder, ",".join(cluster.brokers[broker_id].endpoint for broker_id in first))
        clients = Clients(
            directory=directory,
            # As an application knows it: the brokers that there were when it was started.
            bootstrap_servers=",".join(cluster.brokers[broker_id].endpoint for broker_id in first),
            topic=TOPIC,
            partitions=PARTITIONS,
            clients=CLIENTS,
        )
        clients.start()
        try:
            yield Stage(cluster, clients, recorder, tell)
        finally:
            clients.kill()


def preload(recorder: Recorder, bootstrap_servers: str) -> None:
    """Writes 16 to 80 records of 4 KB to each partition. Raises ProcessFailed."""
    producer = RecordedProducer(
        recorder, process="preload", config={"bootstrap.servers": bootstrap_servers, "linger.ms": 20}
    )
    for partition in range(PARTITIONS):
        for _ in range(PRELOADED_RECORDS * (1 + partition % SIZES)):
            while producer.send((TOPIC, partition), value_bytes=RECORD_BYTES) is None:
                producer.poll(0.05)
        producer.poll(0)
    if unanswered := producer.close(flush_seconds=60.0):
        raise ProcessFailed(f"{unanswered} records of the preload were never answered")
