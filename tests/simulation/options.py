"""What one seed is: the size of the cluster, its pace, its clients, and how hard it is struck.

Every value is drawn from the seed and printed when it fails. The defaults are a small, plain cluster, for
tests that play their own schedule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from springtide.contract.session import worker_id
from tests.simulation.events import keyed_random

#: Of all seeds without and with coordinators, how many have compacted topics.
COMPACTED, COMPACTED_SHARDS = 0.12, 0.4
#: Of all seeds, how many have none, two or three coordinators, in percent.
COORDINATORS = (75, 20, 5)
RETENTION_MS = 4 * 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Times in milliseconds.

    lag_ms_max: replica.lag.time.max.ms. lease_ms < grace_ms leaves room for clocks that run 5 % fast or slow.
    fetch_wait_ms: how long a follower's fetch waits at the leader for news; 0: it is answered at once, and
        the follower asks again after some tens of milliseconds.
    flush_ms, checkpoint_ms: how often logs are flushed, each with a chance of one half, and high watermarks
        checkpointed.
    poll_wait_ms: how long a poll of the metadata stream waits at the controller.
    pace_ms: mean time between two batches of one producer, while it has room for another in flight.
    in_flight_max: batches that an idempotent producer has on their way at once, at most 5.
    plain_producers: further ones a partition, without idempotence, with acks=1 or acks=all by turns.
    consumers: readers a partition, from leaders, up to the high watermark.
    topics_max: how many further topics an operator keeps creating and deleting, one act every
        operator_pace_ms on the average.
    faults_ms: length of the safety phase. strike_pace_ms: mean time between strikes or volleys of them.
    unclean_election: whether topics have unclean.leader.election.enable, which gives the promise away.
    ongoing_max: faults that last at one time; more would leave nothing that could go wrong.
    over_budget: brokers may lose more than the promise covers; then a partition may stop, but not lie.
    retention_ms: how old records get; far older than a run, so that only a wrong clock can delete any.
        0: topics keep everything.
    plans: operators also move many partitions at once, empty brokers and retire them.
    coordinators: how many there are, of a topic with one shard; 0: there is no such topic.
    records_per_write: a step's records are persisted, and published, so many at a time.
    compacted: all topics are compacted: records have keys, and rounds go over the logs.
    family: half of the strikes are of this family (schedule.FAMILIES); "": all kinds alike.
    workers: so many of the brokers are workers of one host, again and again; 0: each is alone.
    mixed: processes are of two releases, this one and the last (releases/mixed.py).
    transactions: coordinators have groups and transactions, with producers of both versions.
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
    checkpoint_ms: int = 1_000
    pace_ms: int = 35
    records_max: int = 3
    in_flight_max: int = 1
    plain_producers: int = 0
    consumers: int = 0
    consumer_pace_ms: int = 200
    topics_max: int = 0
    operator_pace_ms: int = 4_500
    faults_ms: int = 20_000
    strike_pace_ms: int = 800
    ongoing_max: int = 6
    unclean_election: bool = False
    over_budget: bool = False
    retention_ms: int = 0
    plans: bool = False
    coordinators: int = 0
    records_per_write: int = 1_000
    compacted: bool = False
    family: str = ""
    workers: int = 0
    mixed: bool = False
    transactions: bool = False

    @property
    def members(self) -> dict[int, int | None]:
        """The brokers' ids, each with the broker that it is a worker of, if of any."""
        if not self.workers:
            return dict.fromkeys(range(1, self.brokers + 1))
        places = (divmod(n, self.workers) for n in range(self.brokers))
        return {worker_id(host + 1, number): host + 1 for host, number in places}

    @property
    def topic_configs(self) -> dict[str, str]:
        """Of every topic, by Kafka's names."""
        configs = {"min.insync.replicas": str(self.min_insync_replicas)}
        if self.unclean_election:
            configs["unclean.leader.election.enable"] = "true"
        return configs

    @property
    def least_minimum(self) -> int:
        """The smallest minimum in sync of any topic: that of coordinators has a majority of at most three."""
        return min(self.min_insync_replicas, 2) if self.coordinators else self.min_insync_replicas


@dataclass(frozen=True, slots=True)
class Shape:
    """What kind of run: how busy its clients are, how long faults strike, and how slowly its clocks tick.

    All in milliseconds. name: as a table calls such runs. share: of all seeds, in percent. pace_ms: of a
    producer. strike_pace_ms: mean time between strikes. What a node does by the clock takes most of a run in
    which little happens, so the long ones have the timeouts of a cluster in production, and the short ones
    those that make an election quick.
    """

    name: str
    share: int
    pace_ms: tuple[int, int]
    faults_ms: tuple[int, int]
    strike_pace_ms: tuple[int, int]
    heartbeat_ms: tuple[int, ...]
    leases: tuple[int, ...]
    session_timeout_ms: tuple[int, ...]
    lag_ms_max: tuple[int, ...]
    fetch_wait_ms: tuple[int, ...]
    poll_wait_ms: tuple[int, ...]
    tick_ms: tuple[int, ...]
    report_ms: int
    flush_ms: tuple[int, ...]
    checkpoint_ms: int
    consumer_pace_ms: tuple[int, ...]
    operator_pace_ms: int


#: A strike a third of a second, and a few seconds of them.
DENSE = Shape(
    name="short, dense runs",
    share=84,
    pace_ms=(30, 120),
    faults_ms=(3_000, 8_000),
    strike_pace_ms=(150, 500),
    heartbeat_ms=(500,),
    leases=(4, 4, 6, 10),
    session_timeout_ms=(2_000, 4_000),
    lag_ms_max=(600, 600, 1_000, 2_000),
    fetch_wait_ms=(0, 100, 300, 500),
    poll_wait_ms=(500, 1_000),
    tick_ms=(100,),
    report_ms=250,
    flush_ms=(100, 700),
    checkpoint_ms=1_000,
    consumer_pace_ms=(50, 200),
    operator_pace_ms=2_000,
)
#: Strikes that leave time for what comes after each: an ISR that grows again, a leader that goes home.
STEADY = Shape(
    name="runs of a minute or two",
    share=4,
    pace_ms=(300, 1_000),
    faults_ms=(60_000, 100_000),
    strike_pace_ms=(500, 3_000),
    heartbeat_ms=(500, 800, 1_000),
    leases=(4, 6, 10),
    session_timeout_ms=(2_000, 4_000, 8_000),
    lag_ms_max=(600, 1_000, 2_000),
    fetch_wait_ms=(300, 500),
    poll_wait_ms=(1_000, 3_000),
    tick_ms=(250, 500),
    report_ms=500,
    flush_ms=(700, 3_000),
    checkpoint_ms=1_000,
    consumer_pace_ms=(200, 1_000),
    operator_pace_ms=4_500,
)
#: A quarter of an hour: what adds up slowly, or comes with the hundredth failover.
LONG = Shape(
    name="runs of a quarter of an hour",
    share=12,
    pace_ms=(3_000, 9_000),
    faults_ms=(800_000, 1_200_000),
    strike_pace_ms=(8_000, 16_000),
    heartbeat_ms=(1_000, 1_500, 2_000),
    leases=(4,),
    session_timeout_ms=(8_000, 12_000),
    lag_ms_max=(4_000, 6_000),
    fetch_wait_ms=(1_500, 2_500),
    poll_wait_ms=(5_000, 8_000),
    tick_ms=(1_000,),
    report_ms=2_000,
    flush_ms=(3_000, 10_000),
    checkpoint_ms=5_000,
    consumer_pace_ms=(3_000, 8_000),
    operator_pace_ms=45_000,
)
SHAPES = (DENSE, STEADY, LONG)


def of_family(options: ClusterOptions, family: str) -> ClusterOptions:
    """Return the options for a sweep of one family: in that of hosts with workers brokers are workers, in
    that of two releases processes are of either."""
    options = replace(options, family=family, mixed=family == "mixed")
    if family == "transactions":
        compacted = options.compacted or options.pace_ms % 2 == 0  # half of the seeds
        return replace(
            options,
            transactions=True,
            coordinators=max(2, options.coordinators),
            brokers=max(3, options.brokers),
            partitions=1,
            replication_factor=max(3, options.replication_factor),
            min_insync_replicas=max(2, options.min_insync_replicas),
            producers=1,
            plain_producers=0,
            topics_max=0,
            plans=False,
            over_budget=False,
            compacted=compacted,
            in_flight_max=1 if compacted else options.in_flight_max,
        )
    if family != "workers":
        return options
    brokers = max(4, options.brokers)
    factor = min(options.replication_factor, -(-brokers // 2))
    minimum = min(options.min_insync_replicas, factor)
    return replace(
        options, brokers=brokers, workers=2, replication_factor=factor, min_insync_replicas=minimum
    )


def draw_shape(seed: int) -> Shape:
    random = keyed_random(seed, "shape")
    return random.choices(SHAPES, [shape.share for shape in SHAPES])[0]


def shape_of(options: ClusterOptions) -> Shape | None:
    """The one that such options are drawn for; None for those that were made by hand."""
    fitting = (s for s in SHAPES if s.faults_ms[0] <= options.faults_ms <= s.faults_ms[1])
    return next(fitting, None)


def draw_options(seed: int, shape: Shape | None = None) -> ClusterOptions:
    """shape: instead of the one that the seed draws."""
    random = keyed_random(seed, "options")
    shape = shape or draw_shape(seed)
    brokers = random.choices((1, 2, 3, 4, 5, 6, 7), (2, 6, 45, 25, 15, 4, 3))[0]
    replication_factor = min(brokers, random.choice((2, 3, 3, 3, 4, 5)))
    majority = replication_factor // 2 + 1
    minimum = random.choice((majority, majority, majority, min(2, replication_factor), 1))
    heartbeat_ms = random.choice(shape.heartbeat_ms)
    lease_ms = heartbeat_ms * random.choice(shape.leases)
    coordinators = keyed_random(seed, "coordinators").choices((0, 2, 3), COORDINATORS)[0]
    share = COMPACTED_SHARDS if coordinators else COMPACTED
    compacted = keyed_random(seed, "compaction").random() < share
    drawn = ClusterOptions(
        brokers=brokers,
        controllers=random.choices((1, 2, 3), (30, 50, 20))[0],
        partitions=random.choice((1, 1, 2, 3)),
        replication_factor=replication_factor,
        min_insync_replicas=minimum,
        producers=random.choice((1, 1, 2)),
        lag_ms_max=random.choice(shape.lag_ms_max),
        lease_ms=lease_ms,
        grace_ms=lease_ms * 6 // 5 + 200,
        session_timeout_ms=random.choice(shape.session_timeout_ms),
        heartbeat_interval_ms=heartbeat_ms,
        preferred_leader_delay_ms=random.choice((200, 1_000, 5_000)),
        proposal_retry_ms=random.choice((100, 300, 1_000)),
        fetch_wait_ms=random.choice(shape.fetch_wait_ms),
        fetch_bytes_max=random.choice((300, 1_000, 4_096)),
        poll_wait_ms=random.choice(shape.poll_wait_ms),
        tick_ms=random.choice(shape.tick_ms),
        report_ms=shape.report_ms,
        flush_ms=random.choice(shape.flush_ms),
        checkpoint_ms=shape.checkpoint_ms,
        pace_ms=random.randint(*shape.pace_ms),
        records_max=random.choice((1, 5, 12)),
        in_flight_max=random.choice((1, 1, 2, 5)),
        plain_producers=random.choice((0, 0, 1)),
        consumers=random.choice((0, 1)),
        consumer_pace_ms=random.choice(shape.consumer_pace_ms),
        topics_max=random.choice((0, 0, 1, 2)),
        operator_pace_ms=shape.operator_pace_ms,
        faults_ms=random.randint(*shape.faults_ms),
        strike_pace_ms=random.randint(*shape.strike_pace_ms),
        ongoing_max=random.choice((1, 2, 3, 6)),
        over_budget=random.random() < 0.1,
        retention_ms=RETENTION_MS,
        plans=random.random() < 0.25,
        coordinators=coordinators,
        records_per_write=random.choice((1_000, 7)),
        compacted=compacted,
    )
    # Of several batches in flight only the last is known after a round and a restart, as in Kafka.
    return replace(drawn, in_flight_max=1) if compacted else drawn
