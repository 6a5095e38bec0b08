"""What one seed is: the size of the cluster, its pace, its clients, and how hard it is struck.

Every value is drawn from the seed and printed when it fails. The defaults are a small, plain cluster, for
tests that play their own schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.simulation.events import keyed_random


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Times in milliseconds.

    lag_ms_max: replica.lag.time.max.ms. lease_ms < grace_ms leaves room for clocks that run 5 % fast or slow.
    fetch_wait_ms: how long a follower's fetch waits at the leader for news; 0: it is answered at once, and
        the follower asks again after some tens of milliseconds.
    poll_wait_ms: how long a poll of the metadata stream waits at the controller.
    pace_ms: mean time between two batches of one producer, while it has room for another in flight.
    in_flight_max: batches that an idempotent producer has on their way at once, at most 5.
    plain_producers: further ones a partition, without idempotence, with acks=1 or acks=all by turns.
    consumers: readers a partition, from leaders, up to the high watermark.
    topics_max: how many further topics an operator keeps creating and deleting.
    faults_ms: length of the safety phase. strike_pace_ms: mean time between strikes or volleys of them.
    unclean_election: whether topics have unclean.leader.election.enable, which gives the promise away.
    ongoing_max: faults that last at one time; more would leave nothing that could go wrong.
    over_budget: brokers may lose more than the promise covers; then a partition may stop, but not lie.
    """

    brokers: int = 3
    controllers: int = 1
    partitions: int = 2
    replication_factor: int = 3
    min_insync_replicas: int = 2
    producers: int = 2
    lag_ms_max: int = 2_000
    lease_ms: int = 5_000
    grace_ms: int = 6_000
    session_timeout_ms: int = 4_000
    heartbeat_interval_ms: int = 500
    preferred_leader_delay_ms: int = 5_000
    proposal_retry_ms: int = 300
    fetch_wait_ms: int = 0
    fetch_bytes_max: int = 4_096
    poll_wait_ms: int = 1_000
    tick_ms: int = 100
    report_ms: int = 250
    flush_ms: int = 700
    pace_ms: int = 35
    records_max: int = 3
    in_flight_max: int = 1
    plain_producers: int = 0
    consumers: int = 0
    consumer_pace_ms: int = 200
    topics_max: int = 0
    faults_ms: int = 20_000
    strike_pace_ms: int = 800
    ongoing_max: int = 6
    unclean_election: bool = False
    over_budget: bool = False

    @property
    def topic_configs(self) -> dict[str, str]:
        """Of every topic, by Kafka's names."""
        configs = {"min.insync.replicas": str(self.min_insync_replicas)}
        if self.unclean_election:
            configs["unclean.leader.election.enable"] = "true"
        return configs


#: How busy: (share, pace of a producer, length of the safety phase, pace of strikes).
_PACES = (
    (40, (20, 60), (12_000, 25_000), (200, 600)),
    (35, (150, 600), (60_000, 100_000), (500, 2_000)),
    (25, (400, 1_500), (200_000, 330_000), (1_500, 4_000)),
)


def draw_options(seed: int) -> ClusterOptions:
    random = keyed_random(seed, "options")
    brokers = random.choices((1, 2, 3, 4, 5, 6, 7), (2, 6, 45, 25, 15, 4, 3))[0]
    replication_factor = min(brokers, random.choice((2, 3, 3, 3, 4, 5)))
    majority = replication_factor // 2 + 1
    minimum = random.choice((majority, majority, majority, min(2, replication_factor), 1))
    pace, length, strikes = random.choices([p[1:] for p in _PACES], [p[0] for p in _PACES])[0]
    is_dense = length[1] <= 30_000
    heartbeat_ms = 500 if is_dense else random.choice((500, 800, 1_000))
    lease_ms = heartbeat_ms * random.choice((4, 6, 10))
    session_timeout_ms = random.choice((2_000, 4_000, 8_000))
    return ClusterOptions(
        brokers=brokers,
        controllers=random.choices((1, 2, 3), (30, 50, 20))[0],
        partitions=random.choice((1, 1, 2, 3)) if is_dense else random.choice((1, 2, 3, 4)),
        replication_factor=replication_factor,
        min_insync_replicas=minimum,
        producers=random.choice((1, 1, 2)),
        lag_ms_max=random.choice((600, 1_000, 2_000)),
        lease_ms=lease_ms,
        grace_ms=lease_ms * 6 // 5 + 200,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=heartbeat_ms,
        preferred_leader_delay_ms=random.choice((200, 1_000, 5_000)),
        proposal_retry_ms=random.choice((100, 300, 1_000)),
        fetch_wait_ms=random.choice((0, 100, 300, 500)) if is_dense else random.choice((300, 500)),
        fetch_bytes_max=random.choice((300, 1_000, 4_096)),
        poll_wait_ms=random.choice((500, 1_000)) if is_dense else random.choice((1_000, 3_000)),
        tick_ms=100 if is_dense else random.choice((250, 500)),
        report_ms=250 if is_dense else 500,
        flush_ms=random.choice((100, 700)) if is_dense else random.choice((700, 3_000)),
        pace_ms=random.randint(*pace),
        records_max=random.choice((1, 5, 20)),
        in_flight_max=random.choice((1, 1, 2, 5)),
        plain_producers=random.choice((0, 0, 1)),
        consumers=random.choice((0, 1)),
        consumer_pace_ms=_pace(random, is_dense),
        topics_max=random.choice((0, 0, 1, 2)),
        faults_ms=random.randint(*length),
        strike_pace_ms=random.randint(*strikes),
        ongoing_max=random.choice((1, 2, 3, 6)),
        over_budget=random.random() < 0.1,
    )


def _pace(random: Random, is_dense: bool) -> int:
    return random.choice((50, 200)) if is_dense else random.choice((200, 1_000))
