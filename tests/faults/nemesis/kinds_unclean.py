"""Where a topic prefers availability to its records: what takes the last in-sync replica away.

A run of these has no kind that harms a disk: a replica that lost its disk lost what it had set aside, too,
and then nobody could tell an election's losses from ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from localcluster.rest import RestPartition
from tests.checker.from_clients import RecordedProducer
from tests.faults.hosts.cluster import broker_host
from tests.faults.nemesis.arena import Arena, Ongoing
from tests.faults.nemesis.kinds import Kind, down

WAIT_SECONDS_MAX = 30.0
"""Followers leave the in-sync set after replica.lag.time.max.ms, and another is elected after the dead one's
session, when a controller is there to be told."""
POLL_SECONDS = 0.5
RECORDS = 10


def kill_lonely_leader(arena: Arena) -> Ongoing | None:
    """A leader's followers stand still until it is in sync alone; it acknowledges what only it has, and is
    killed; they go on. One of them leads then, without that."""
    views = None if arena.ongoing else arena.views()
    led = [(view, view.leader) for view in views or () if view.leader is not None]
    if not led:
        return None
    view, leader = arena.rng.choice(led)
    with ExitStack() as going_on:
        for broker_id in set(view.replicas) - {leader}:
            process = arena.cluster.brokers[broker_id].process
            process.pause()
            going_on.callback(process.resume)
        _wait_until(arena, view.partition, lambda now: now.isr == (leader,))
        _write(arena, leader, view.partition)
        fault = down(arena, "kill-lonely-leader", broker_host(leader))
    _wait_until(arena, view.partition, lambda now: now.leader not in (None, leader))
    return fault


def _wait_until(arena: Arena, partition: int, is_so: Callable[[RestPartition], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        if any(view.partition == partition and is_so(view) for view in arena.views() or ()):
            return
        time.sleep(POLL_SECONDS)


def _write(arena: Arena, leader: int, partition: int) -> None:
    """The load's clients may all wait for brokers that stand still, and nothing would be lost."""
    producer = RecordedProducer(
        arena.recorder,
        process=f"lonely-{arena.recorder.clock_ns()}",
        config={
            "bootstrap.servers": arena.cluster.brokers[leader].endpoint,
            "enable.idempotence": False,
        },
    )
    for _ in range(RECORDS):
        producer.send((arena.topic, partition))
    producer.close(flush_seconds=WAIT_SECONDS_MAX)


UNCLEAN_KINDS = (Kind("kill-lonely-leader", kill_lonely_leader, (6, 12), is_first=True),)
