"""Where a topic prefers availability to its records: what takes the last in-sync replica away.

A run of these has no kind that harms a disk: a replica that lost its disk lost what it had set aside, too,
and then nobody could tell an election's losses from ours.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from tests.faults.hosts.cluster import broker_host
from tests.faults.nemesis.arena import Arena, Ongoing
from tests.faults.nemesis.kinds import Kind, down

ALONE_SECONDS_MAX = 30.0
"""Followers leave the in-sync set after replica.lag.time.max.ms, when a controller is there to be told."""
ALONE_FOR_SECONDS = 2.0
POLL_SECONDS = 0.5


def kill_lonely_leader(arena: Arena) -> Ongoing | None:
    """A leader's followers stand still until it is in sync alone; a while later it is killed, and they go on.
    One of them leads then, without what the dead one acknowledged alone."""
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
        deadline = time.monotonic() + ALONE_SECONDS_MAX
        while time.monotonic() < deadline and not _is_alone(arena, view.partition):
            time.sleep(POLL_SECONDS)
        time.sleep(ALONE_FOR_SECONDS)
        return down(arena, "kill-lonely-leader", broker_host(leader))


def _is_alone(arena: Arena, partition: int) -> bool:
    return any(view.partition == partition and len(view.isr) == 1 for view in arena.views() or ())


UNCLEAN_KINDS = (Kind("kill-lonely-leader", kill_lonely_leader, (6, 12)),)
"""Down long enough that the others elect without it."""
