"""SIGKILL to each role in turn under load: nothing acknowledged is lost, nothing is written twice.

A stock idempotent producer writes without pause while a role is killed, mended and killed again. After the
last round everything is read back by a fresh consumer and compared, record by record, with what was
acknowledged. Each role is killed once, or `--rounds` times.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from localcluster.cluster import LocalCluster
from localcluster.load import ClientLoad, ends_of, read_everything
from localcluster.verdict import judge, longest_silence, seconds_to_next_write

pytestmark = [pytest.mark.timeout(1800)]

RECORDS_PER_SECOND = 500
RECONNECT_BACKOFF_MS_MAX = 500
RECOVERY_SECONDS_MAX = 60.0
"""For the slowest single round; the table tells how far below it we are."""

MEDIAN_SECONDS_MAX = 5.0
"""A bound for a loaded two-core machine, below the six seconds of grace that nothing here may need. The
published figure, and the aim (under a second), is the table's."""

CONTROLLER_OUTAGE_SECONDS = 60.0
SILENCE_SECONDS_MAX = 10.0

Note = Callable[[str, list[float]], None]


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
def battle(cluster: LocalCluster, *, partitions: int) -> Iterator[Battle]:
    """Puts a new topic under load; afterwards reads everything back and compares."""
    topic = f"battle-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(topic, partitions=partitions, replication_factor=3)
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


# --- one round of each role -------------------------------------------------------------------------------


def kill_leader(fought: Battle, number: int) -> None:
    cluster = fought.cluster
    victim = cluster.leader(fought.topic, number % fought.partitions)
    fought.strike(lambda: cluster.kill_broker(victim))
    cluster.start_broker(victim)


def kill_follower(fought: Battle, number: int) -> None:
    cluster = fought.cluster
    view = cluster.partition(fought.topic, 0)
    followers = [broker_id for broker_id in view.replicas if broker_id != view.leader]
    victim = followers[number % len(followers)]
    fought.strike(lambda: cluster.kill_broker(victim))
    cluster.start_broker(victim)


def kill_active_controller(fought: Battle, number: int) -> None:
    cluster = fought.cluster
    victim = cluster.active_controller()
    fought.strike(lambda: cluster.kill_controller(victim))
    cluster.wait_until("the other controller is active", lambda: cluster.active_controller() != victim)
    cluster.start_controller(victim)


def restart_zookeeper(fought: Battle, number: int) -> None:
    fought.strike(fought.cluster.restart_zookeeper)


@dataclass(frozen=True)
class Role:
    name: str
    strike: Callable[[Battle, int], None]
    partitions: int
    """One for the follower: with more, every broker leads something."""


ROLES = [
    Role("leader", kill_leader, partitions=3),
    Role("follower", kill_follower, partitions=1),
    Role("active controller of two", kill_active_controller, partitions=3),
    Role("ZooKeeper, restarted", restart_zookeeper, partitions=3),
]
BY_ROLE = pytest.mark.parametrize("role", ROLES, ids=[role.name for role in ROLES])


@BY_ROLE
def test_killing_a_role_loses_and_repeats_nothing(
    breakable_cluster: LocalCluster, role: Role, rounds: int, note_recovery: Note
) -> None:
    with battle(breakable_cluster, partitions=role.partitions) as fought:
        for number in range(rounds):
            role.strike(fought, number)
            fought.settle()
    note_recovery(role.name, fought.recoveries)
    ordered = sorted(fought.recoveries)
    assert ordered[len(ordered) // 2] < MEDIAN_SECONDS_MAX


@pytest.mark.slow
def test_writes_go_on_while_no_controller_is_up_for_a_minute(
    breakable_cluster: LocalCluster, note_recovery: Note
) -> None:
    cluster = breakable_cluster
    with battle(cluster, partitions=3) as fought:
        down_at = time.monotonic()
        for index in cluster.controllers:
            cluster.kill_controller(index)
        cluster.wait_until(
            "the outage is over",
            lambda: time.monotonic() - down_at >= CONTROLLER_OUTAGE_SECONDS,
            timeout_seconds=CONTROLLER_OUTAGE_SECONDS + 5,
        )
        up_at = time.monotonic()
        silence = longest_silence(fought.load.acknowledged, since=down_at, until=up_at)
        for index in cluster.controllers:
            cluster.start_controller(index)
    note_recovery("every controller, a minute", [silence])
    assert silence < SILENCE_SECONDS_MAX
