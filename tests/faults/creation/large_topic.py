"""A topic of thousands of partitions, the active controller killed after the 201, then a broker.

The partitions that were there before are written to all the while: how long they stand still when the broker
that leads them dies is measured twice, with nothing else going on and in the middle of the creation. In the
end every new partition must be `online`, no log may be called lost, and nothing acknowledged may be missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from localcluster.cluster import LocalCluster, WaitedTooLong
from localcluster.load import ClientLoad, read_everything
from localcluster.verdict import judge, seconds_to_next_write
from tests.faults.family import Trial

BEFORE, NEW = "before", "many"
BEFORE_PARTITIONS = 6
RECORDS_PER_SECOND = 200
SETTLE_SECONDS = 4.0
STALL_SECONDS_MAX = 120.0
#: After the 201 (seconds): the active controller dies, then the broker that leads partition 0 of `before`.
CONTROLLER_DIES, BROKER_DIES = 1.5, 3.0
TOLD_EVERY_SECONDS = 5.0
#: Counting states is work for the controller, which has enough to do.
LOOK_EVERY_SECONDS = 0.5


SIZES = {"ci": (1_500, 120.0), "full": (10_000, 420.0)}
"""Partitions, and seconds within which they must be usable: led by who has its log, and whole."""


def run(trial: Trial, size: tuple[int, float]) -> None:
    partitions, usable_seconds_max = size
    figures = trial.figures
    with LocalCluster(trial.directory, controllers=2, on_progress=trial.tell) as cluster:
        cluster.form()
        cluster.create_topic(BEFORE, partitions=BEFORE_PARTITIONS)
        load = ClientLoad(
            bootstrap_servers=cluster.bootstrap_servers,
            topic=BEFORE,
            partitions=BEFORE_PARTITIONS,
            records_per_second=RECORDS_PER_SECOND,
        )
        with load:
            time.sleep(SETTLE_SECONDS)
            figures["stall ms of existing partitions, quiet"] = _kill_leader(cluster, load, trial)
            cluster.wait_until_in_sync(BEFORE)
            time.sleep(SETTLE_SECONDS)
            answered = _create(cluster, load, trial, partitions=partitions)
            try:
                _wait_usable(
                    cluster,
                    trial.tell,
                    partitions=partitions,
                    answered=answered,
                    seconds_max=usable_seconds_max,
                )
                seconds = round(time.monotonic() - answered, 1)
                figures["seconds to all usable, with both kills"] = seconds
            except WaitedTooLong as error:
                trial.failures.append(str(error))
        alarms = cluster.api.get(f"/clusters/{cluster.name}/alarms")["items"]
        trial.failures += [str(a) for a in alarms if a["code"] in ("log_missing", "partition_leaderless")]
        read = read_everything(
            bootstrap_servers=cluster.bootstrap_servers, topic=BEFORE, partitions=BEFORE_PARTITIONS
        )
        verdict = judge(load.acknowledged, read)
        figures["records acknowledged"] = len(load.acknowledged)
        trial.lost = len(verdict.lost)
        if not verdict.is_clean:
            trial.failures.append(verdict.describe())


def _create(cluster: LocalCluster, load: ClientLoad, trial: Trial, *, partitions: int) -> float:
    """Create the topic and kill both; when the 201 came."""
    begun = time.monotonic()
    cluster.create_topic(NEW, partitions=partitions, wait=False)
    answered = time.monotonic()
    trial.figures["partitions created"] = partitions
    trial.figures["seconds to 201"] = round(answered - begun, 1)
    trial.tell(f"201 after {answered - begun:.1f} s")
    time.sleep(max(0.0, answered + CONTROLLER_DIES - time.monotonic()))
    active = cluster.active_controller()
    cluster.kill_controller(active)
    trial.faults["kill_controller"] += 1
    trial.tell(f"SIGKILL to controller {active}, which is active")
    time.sleep(max(0.0, answered + BROKER_DIES - time.monotonic()))
    cluster.active_controller()
    trial.figures["stall ms of existing partitions, during the creation"] = _kill_leader(cluster, load, trial)
    cluster.start_controller(active)
    return answered


def _kill_leader(cluster: LocalCluster, load: ClientLoad, trial: Trial) -> int:
    """Send SIGKILL to the leader of partition 0 of the load's topic, and start it again afterwards. Return
    the milliseconds until the slowest of the partitions that it led was written to again."""
    trial.faults["kill_broker"] += 1
    victim = cluster.leader(load.topic, 0)
    led = {n for n, view in enumerate(cluster.partitions(load.topic)) if view.leader == victim}
    acknowledged_before = len(load.acknowledged)
    killed = time.monotonic()
    cluster.kill_broker(victim)
    trial.tell(f"SIGKILL to broker {victim}, which leads {len(led)} of {load.topic}'s partitions")

    def stalls() -> list[float] | None:
        found = seconds_to_next_write(load.acknowledged[acknowledged_before:], after=killed)
        return [found[n] for n in led] if led <= set(found) else None

    stall = max(
        cluster.wait_until("its partitions are written to", stalls, timeout_seconds=STALL_SECONDS_MAX)
    )
    trial.tell(f"  which stood still for {stall * 1000:.0f} ms")
    cluster.start_broker(victim)
    return round(stall * 1000)


def _wait_usable(
    cluster: LocalCluster,
    tell: Callable[[str], None],
    *,
    partitions: int,
    answered: float,
    seconds_max: float,
) -> None:
    total = partitions + BEFORE_PARTITIONS
    told = first = time.monotonic()
    was = -1

    def usable() -> bool:
        nonlocal told, was
        time.sleep(LOOK_EVERY_SECONDS)
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
