"""What a seed chooses before it begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from controller.core.options import ControllerOptions

SHARDS_SIMULATED = 2
"""Partitions of the coordinators' topic."""
MAINTAINED = 0.4
"""Share of the seeds in which replicas are moved; they have a broker more, so that there is where to."""
PLANNED = 0.7
"""Share of those in which the operator plans as well."""
COORDINATED = 0.15
"""Share of the seeds that have coordinators and groups of clients."""
SPARE = 0.5
"""Share of those in which another broker waits to be added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Small segments and short lags, so that rolls, ISR changes and checkpoints happen within seconds.

    min_insync_replicas: set on the topic only where it differs from our default, a majority of its replicas.
    flush_messages: 0 leaves flushing to the page cache, as in production. over_budget: whether faults may
    lose more at once than the promise covers. churn: whether an operator makes and deletes topics meanwhile.
    maintains: whether one moves replicas, changes settings and takes brokers into maintenance. plans: whether
    that one also drains, plans, changes the replication factor, and adds the broker that is there beyond
    `brokers` if there is a spare. coordinators: with groups of clients; 0: neither.
    """

    brokers: int = 3
    controllers: int = 1
    partitions: int = 2
    replication_factor: int = 3
    min_insync_replicas: int = 2
    unclean: bool = False
    lag_ms_max: int = 2_000
    segment_bytes: int = 16 * 1024
    flush_messages: int = 0
    over_budget: bool = False
    churn: bool = False
    maintains: bool = False
    plans: bool = False
    spare: bool = False
    coordinators: int = 0
    producer_pause_ms: tuple[float, float] = (20.0, 200.0)

    @property
    def least_minimum(self) -> int:
        """Return the smallest minimum of all topics: how many brokers may not lose something at one time."""
        return self.min_insync_replicas

    def broker_configs(self) -> dict[str, str]:
        configs = {
            "replica.lag.time.max.ms": str(self.lag_ms_max),
            "log.segment.bytes": str(self.segment_bytes),
            "log.index.interval.bytes": "1024",
            "replica.high.watermark.checkpoint.interval.ms": "1000",
            "log.flush.offset.checkpoint.interval.ms": "3000",
            "log.flush.scheduler.interval.ms": "500",
            "log.retention.check.interval.ms": "5000",
            "replica.socket.timeout.ms": "5000",
            "controlled.shutdown.timeout.ms": "5000",
            "log.scrub.interval.ms": "3000",
            "log.scrub.bytes.per.second": "1048576",
        }
        if self.flush_messages:
            configs["log.flush.interval.messages"] = str(self.flush_messages)
        return configs

    def topic_configs(self) -> dict[str, str]:
        configs = {}
        if self.min_insync_replicas != self.replication_factor // 2 + 1:
            configs["min.insync.replicas"] = str(self.min_insync_replicas)
        if self.unclean:
            configs["unclean.leader.election.enable"] = "true"
        return configs

    def controller_options(self) -> ControllerOptions:
        return ControllerOptions(shards=SHARDS_SIMULATED)


def draw_options(random: Random, coordinated: Random) -> Options:
    """coordinated: what draws how many coordinators there are; apart, so that seeds without any are what they
    were before there were some."""
    drawn = _draw_brokers(random)
    return (
        replace(drawn, coordinators=coordinated.choice([2, 2, 3]))
        if coordinated.random() < COORDINATED
        else drawn
    )


def _draw_brokers(random: Random) -> Options:
    brokers = random.choice([3, 3, 3, 4])
    drawn = Options(
        brokers=brokers,
        controllers=random.choice([1, 2, 2]),
        partitions=random.choice([1, 2, 2]),
        replication_factor=3,
        min_insync_replicas=2,
        lag_ms_max=random.choice([600, 2_000]),
        segment_bytes=random.choice([8 * 1024, 16 * 1024, 1024 * 1024]),
        flush_messages=random.choice([0, 0, 0, 1, 20]),
        churn=random.random() < 0.5,
    )
    if random.random() < MAINTAINED:
        drawn = replace(drawn, brokers=drawn.brokers + 1, maintains=True)
        if random.random() < PLANNED:
            return replace(drawn, plans=True, spare=random.random() < SPARE)
    return drawn
