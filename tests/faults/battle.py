"""A topic under the load of a stock idempotent producer, on a cluster that is being broken: afterwards
everything is read back by a fresh consumer and compared, record by record, with what was acknowledged.

The client is stock but for one setting, `reconnect.backoff.max.ms`. librdkafka doubles the pause before it
connects to a broker again with every connection that ends, and forgets the pause only when it has let the
broker alone for this time (10 s unless set), not when a connection succeeds. Where each broker is killed
every few seconds the pauses add up, and the client keeps away from a healthy leader that it knows: its own
trace of 25 rounds shows the new leader learnt 0.1 s after a kill, then "Delaying next reconnect by 8107ms",
for a wait of 8.3 s in all. With half a second, the worst of 20 rounds took 0.9 s. That is the client's doing
and no measure of a failover, so it is set to what somebody would set who wants short failovers.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from localcluster.cluster import LocalCluster
from localcluster.load import ClientLoad, ends_of, read_everything
from localcluster.verdict import judge, seconds_to_next_write

RECORDS_PER_SECOND = 500
RECONNECT_BACKOFF_MS_MAX = 500
RECOVERY_SECONDS_MAX = 60.0
"""For the slowest single round; the table tells how far below it we are."""


@dataclass
class Battle:
    """A topic under load on a cluster that is being broken."""

    cluster: LocalCluster
    topic: str
    partitions: int
    load: ClientLoad
    recoveries: list[float] = field(default_factory=list)

    def wait_for_writes(self, *, after: float, seen: int) -> dict[int, float]:
        """Waits until every partition has acknowledged a record produced since `after`; seconds by partition.

        `seen`: how many acknowledgements there were at `after`; those before it need not be looked at.
        """

        def complete() -> dict[int, float] | None:
            waited = seconds_to_next_write(self.load.acknowledged[seen:], after=after)
            return waited if len(waited) == self.partitions else None

        return self.cluster.wait_until(
            "every partition acknowledges writes", complete, timeout_seconds=RECOVERY_SECONDS_MAX
        )

    def settle(self) -> None:
        """Waits until the next kill meets a cluster that is whole."""
        self.cluster.wait_until_in_sync(self.topic)
        self.cluster.active_controller()
        self.wait_for_writes(after=time.monotonic(), seen=len(self.load.acknowledged))

    def strike(self, kill: Callable[[], None]) -> None:
        """Kills, and notes how long the worst partition waited for its next acknowledged write."""
        killed_at, seen = time.monotonic(), len(self.load.acknowledged)
        kill()
        self.recoveries.append(max(self.wait_for_writes(after=killed_at, seen=seen).values()))


@contextmanager
def battle(
    cluster: LocalCluster, *, partitions: int, assignments: Sequence[Sequence[int]] | None = None
) -> Iterator[Battle]:
    """Puts a new topic under load; afterwards reads everything back and compares. assignments: the brokers of
    each partition; None: the controller chooses."""
    topic = f"battle-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(topic, partitions=partitions, replication_factor=3, assignments=assignments)
    load = ClientLoad(
        bootstrap_servers=cluster.bootstrap_servers,
        topic=topic,
        partitions=partitions,
        records_per_second=RECORDS_PER_SECOND,
        client_config={"reconnect.backoff.max.ms": RECONNECT_BACKOFF_MS_MAX},
    )
    with load:
        fought = Battle(cluster, topic, partitions, load)
        fought.settle()
        yield fought
        fought.settle()
    read = read_everything(
        bootstrap_servers=cluster.bootstrap_servers,
        topic=topic,
        partitions=partitions,
        at_least=ends_of(load.acknowledged),
    )
    verdict = judge(load.acknowledged, read)
    assert verdict.acknowledged > 0
    assert verdict.is_clean, verdict.describe()
    assert load.failed == []
