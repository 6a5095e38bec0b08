"""The second topic: compacted, written in transactions of which some are aborted.

Its reader must find the last committed value of each key, and no value of an aborted transaction.
"""

from __future__ import annotations

from confluent_kafka import Producer

from localcluster.load import read_everything
from tests.faults.family import Trial
from tests.faults.hosts.cluster import HostCluster
from tests.faults.minority.kinds import LEDGER

CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "4096",
    "min.cleanable.dirty.ratio": "0.1",
    "min.compaction.lag.ms": "20000",
    "min.insync.replicas": "3",
}
"""What is younger than the lag keeps its aborted transactions, so there are indexes of them to strike."""
KEYS = 20
TRANSACTIONS = 12
RECORDS_A_TRANSACTION = 10
ABORTED_EACH = 3
VALUE_BYTES = 100
ANSWER_SECONDS_MAX = 60.0


class Ledger:
    """`newest`: the last committed value of each key; `aborted`: values that nobody may read as committed."""

    def __init__(self, cluster: HostCluster, trial: Trial) -> None:
        self._cluster = cluster
        self._trial = trial
        self._written = 0
        self.newest: dict[bytes, bytes] = {}
        self.aborted: set[bytes] = set()

    def write(self) -> None:
        """Write some transactions; raise KafkaException if one can't be ended."""
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap_servers,
                "transactional.id": LEDGER,
                "log_level": 0,
            }
        )
        producer.init_transactions(ANSWER_SECONDS_MAX)
        for number in range(1, TRANSACTIONS + 1):
            producer.begin_transaction()
            written: dict[bytes, bytes] = {}
            for _ in range(RECORDS_A_TRANSACTION):
                key = b"%02d" % (self._written % KEYS)
                written[key] = b"%s-%08d-" % (key, self._written) + b"." * VALUE_BYTES
                producer.produce(LEDGER, written[key], key=key, partition=0)
                self._written += 1
            if number % ABORTED_EACH:
                producer.commit_transaction(ANSWER_SECONDS_MAX)
                self.newest |= written
            else:
                producer.flush(ANSWER_SECONDS_MAX)
                self.aborted |= set(written.values())
                producer.abort_transaction(ANSWER_SECONDS_MAX)
        self._trial.count("transactions", TRANSACTIONS)

    def judge(self, what: str) -> None:
        read = read_everything(
            bootstrap_servers=self._cluster.bootstrap_servers,
            topic=LEDGER,
            partitions=1,
            client_config={"isolation.level": "read_committed"},
            timeout_seconds=ANSWER_SECONDS_MAX,
        )
        values = [record.value for record in read]
        found = {value[:2]: value for value in values}
        missing = sum(found.get(key) != value for key, value in self.newest.items())
        undone = len(self.aborted & set(values))
        self._trial.lost += missing
        self._trial.inconsistent += undone
        self._trial.must(
            f"{what}: {LEDGER} has each of {len(self.newest)} keys as committed last ({missing} not), and "
            f"none of {len(self.aborted)} aborted records ({undone} are read)",
            not missing and not undone,
        )
