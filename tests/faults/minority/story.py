"""The cluster of the story, all that was acknowledged in it, and what is done to it in each round."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any

from confluent_kafka import Producer

from localcluster.load import read_everything
from tests.faults.family import Trial
from tests.faults.hosts.cluster import HostCluster
from tests.faults.minority.kinds import LEDGER, ORDERS
from tests.faults.minority.ledger import Ledger

BROKERS = 5
MINIMUM = 3
SEED = 20251208
RECORDS_A_ROUND = 300
RECORDS_A_FLUSH = 25
VALUE_BYTES = 200
READ_SECONDS_MAX = 60.0


class Story:
    """The story's cluster, and all that was acknowledged in it."""

    def __init__(self, trial: Trial, cluster: HostCluster) -> None:
        self.trial = trial
        self.cluster = cluster
        self.draw = random.Random(SEED)
        self.ledger = Ledger(cluster, trial)
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

    def judge(self, what: str, topic: str = ORDERS) -> None:
        missing = self.missing(topic)
        self.trial.lost += missing
        self.trial.must(f"{what}: all of {len(self.acknowledged[topic])} acknowledged are read", not missing)

    def wait_until_in_sync(self) -> None:
        for topic in (ORDERS, LEDGER):
            self.cluster.wait_until_in_sync(topic)

    def elect_preferred(self, topic: str) -> None:
        """Ensure that the first replica leads; the controller may do the same meanwhile."""
        path = f"/clusters/{self.cluster.name}/topics/{topic}/partitions/0:elect-leader"

        def leads() -> bool:
            view = self.cluster.partition(topic, 0)
            if view.leader != view.replicas[0]:
                self.cluster.api.post(path, {"election": "preferred", "reason": "the struck one has to lead"})
            return view.leader == view.replicas[0]

        self.cluster.wait_until(f"{topic}: the preferred leader leads", leads)

    def judge_both(self, what: str) -> None:
        self.judge(what)
        self.ledger.judge(what)

    def kill_leaders(self, topic: str = ORDERS) -> None:
        """Kill the leader, then the next one, while the other stays away; start both again."""
        cluster, dead = self.cluster, []
        for _ in range(BROKERS - MINIMUM):
            leader = cluster.leader(topic, 0)
            cluster.kill_broker(leader)
            dead.append(leader)
            self.trial.faults["leader killed"] += 1
            cluster.wait_until("another leads", partial(self._led_by_other_than, topic, dead))
        self.write(ORDERS)
        for broker_id in dead:
            cluster.start_broker(broker_id)
        self.wait_until_in_sync()

    def _led_by_other_than(self, topic: str, dead: Sequence[int]) -> bool:
        leader = self.cluster.partition(topic, 0).leader
        return leader is not None and leader not in dead
