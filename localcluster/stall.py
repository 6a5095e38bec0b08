"""How long partitions stand still when their leader dies, seen by a stock client that goes on writing."""

from __future__ import annotations

import time
from collections.abc import Callable

from localcluster.cluster import LocalCluster
from localcluster.load import Load
from localcluster.verdict import seconds_to_next_write

STALL_SECONDS_MAX = 120.0


def kill_leader(cluster: LocalCluster, load: Load, tell: Callable[[str], None]) -> float:
    """Send SIGKILL to the leader of partition 0 of the load's topic, and start it again afterwards. Return
    the seconds until the slowest of the partitions that it led was written to again."""
    victim = cluster.leader(load.topic, 0)
    led = {n for n, view in enumerate(cluster.partitions(load.topic)) if view.leader == victim}
    acknowledged_before = len(load.acknowledged)
    killed = time.monotonic()
    cluster.kill_broker(victim)
    tell(f"SIGKILL to broker {victim}, which leads {len(led)} of {load.topic}'s partitions")

    def stalls() -> list[float] | None:
        found = seconds_to_next_write(load.acknowledged[acknowledged_before:], after=killed)
        return [found[n] for n in led] if led <= set(found) else None

    stall = max(
        cluster.wait_until("its partitions are written to", stalls, timeout_seconds=STALL_SECONDS_MAX)
    )
    tell(f"  which stood still for {stall * 1000:.0f} ms")
    cluster.start_broker(victim)
    return stall
