"""A topic of thousands of partitions, the active controller killed after the 201, then a broker.

The partitions that were there before are written to all the while: how long they stand still when the broker
that leads them dies is measured twice, with nothing else going on and in the middle of the creation. In the
end every new partition must be `online`, no log may be called lost, and nothing acknowledged may be missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from localcluster.cluster import LocalCluster, WaitedTooLong
from localcluster.load import Load, read_everything
from localcluster.verdict import judge, seconds_to_next_write

BEFORE, NEW = "before", "many"
BEFORE_PARTITIONS = 6
RECORDS_PER_SECOND = 200
SETTLE_SECONDS = 4.0
#: After the 201 (seconds): the active controller dies, then the broker that leads partition 0 of `before`.
CONTROLLER_DIES, BROKER_DIES = 1.5, 3.0
TOLD_EVERY_SECONDS = 5.0


@dataclass(slots=True)
class Figures:
    """Seconds. usable: from the 201 until every new partition is led by who has its log, and whole."""

    partitions: int
    to_201: float = 0.0
    to_usable: float = 0.0
    stall_quiet: float = 0.0
    stall_creating: float = 0.0
    acknowledged: int = 0
    lost: int = 0
    failures: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        return [
            f"{self.partitions} partitions x 3 on three brokers",
            f"  answered 201 after           {self.to_201:8.1f} s",
            f"  all usable after             {self.to_usable:8.1f} s, both kills included",
            f"  stall of a killed leader's   {self.stall_quiet * 1000:8.0f} ms with nothing else going on",
            f"  existing partitions          {self.stall_creating * 1000:8.0f} ms during the creation",
            f"  acknowledged, lost           {self.acknowledged}, {self.lost}",
            *(f"  FAILED: {failure}" for failure in self.failures),
        ]


def run(
    directory: Path, tell: Callable[[str], None], *, partitions: int, usable_seconds_max: float
) -> Figures:
    figures = Figures(partitions)
    with LocalCluster(directory, controllers=2, on_progress=tell) as cluster:
        cluster.form()
        cluster.create_topic(BEFORE, partitions=BEFORE_PARTITIONS)
        load = Load(
            bootstrap_servers=cluster.bootstrap_servers,
            topic=BEFORE,
            partitions=BEFORE_PARTITIONS,
            records_per_second=RECORDS_PER_SECOND,
        )
        with load:
            time.sleep(SETTLE_SECONDS)
            figures.stall_quiet = _kill_leader(cluster, load, tell)
            cluster.wait_until_in_sync(BEFORE)
            time.sleep(SETTLE_SECONDS)
            _create(cluster, load, figures, tell)
            try:
                _wait_usable(cluster, figures, tell, seconds_max=usable_seconds_max)
            except WaitedTooLong as error:
                figures.failures.append(str(error))
        alarms = cluster.api.get(f"/clusters/{cluster.name}/alarms")["items"]
        figures.failures += [str(a) for a in alarms if a["code"] in ("log_missing", "partition_leaderless")]
        read = read_everything(
            bootstrap_servers=cluster.bootstrap_servers, topic=BEFORE, partitions=BEFORE_PARTITIONS
        )
        verdict = judge(load.acknowledged, read)
        figures.acknowledged = len(load.acknowledged)
        if not verdict.is_clean:
            figures.lost = 1
            figures.failures.append(verdict.describe())
    return figures


def _create(cluster: LocalCluster, load: Load, figures: Figures, tell: Callable[[str], None]) -> None:
    begun = time.monotonic()
    cluster.create_topic(NEW, partitions=figures.partitions, wait=False)
    answered = time.monotonic()
    figures.to_201 = answered - begun
    tell(f"201 after {figures.to_201:.1f} s")
    time.sleep(max(0.0, answered + CONTROLLER_DIES - time.monotonic()))
    active = cluster.active_controller()
    cluster.kill_controller(active)
    tell(f"SIGKILL to controller {active}, which is active")
    time.sleep(max(0.0, answered + BROKER_DIES - time.monotonic()))
    cluster.active_controller()
    figures.stall_creating = _kill_leader(cluster, load, tell)
    cluster.start_controller(active)
    figures.to_usable = answered  # completed by `_wait_usable`


def _kill_leader(cluster: LocalCluster, load: Load, tell: Callable[[str], None]) -> float:
    """SIGKILL to the leader of partition 0 of `before`; how long the slowest of those it led stood still."""
    victim = cluster.leader(BEFORE, 0)
    led = {n for n, view in enumerate(cluster.partitions(BEFORE)) if view.leader == victim}
    killed = time.monotonic()
    cluster.kill_broker(victim)
    tell(f"SIGKILL to broker {victim}, which leads {len(led)} of {BEFORE}'s partitions")

    def stalls() -> list[float] | None:
        found = seconds_to_next_write(list(load.acknowledged), after=killed)
        return [found[n] for n in led] if led <= set(found) else None

    stall = max(cluster.wait_until("its partitions are written to", stalls, timeout_seconds=120))
    tell(f"  which stood still for {stall * 1000:.0f} ms")
    cluster.start_broker(victim)
    return stall


def _wait_usable(
    cluster: LocalCluster, figures: Figures, tell: Callable[[str], None], *, seconds_max: float
) -> None:
    answered, figures.to_usable = figures.to_usable, 0.0
    total = figures.partitions + BEFORE_PARTITIONS
    told = first = time.monotonic()
    was = -1

    def usable() -> bool:
        nonlocal told, was
        states = cluster.api.get(f"/clusters/{cluster.name}/replication")["states"]
        now = time.monotonic()
        if was < 0:
            was = states["online"]
        if now - told >= TOLD_EVERY_SECONDS:
            told = now
            rate = (states["online"] - was) / (now - first)
            left = f"{(total - states['online']) / rate:.0f} s to go" if rate else "no progress yet"
            shown = ", ".join(f"{number} {word}" for word, number in states.items() if number)
            tell(f"  {now - answered:4.0f} s: {shown}; {rate:.0f} a second, {left}")
        return bool(states["online"] == total)

    cluster.wait_until("every partition is online", usable, timeout_seconds=seconds_max)
    figures.to_usable = time.monotonic() - answered
