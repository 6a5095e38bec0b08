"""What a topic of thousands of partitions costs a cluster of three brokers: `python -m bench creation`.

Real processes on this machine: ZooKeeper, two controllers, three brokers. A stock client writes to six
partitions that are there before. The leader of some of them is killed several times: before the topic is
created, beside the idle topic, and three seconds into a creation of it, for which it is deleted each time.
One kill says nothing, for it hits the moments of clients and of heartbeats as it happens. A partition is
usable when it is `online`: led by a broker that has its log, with every replica in sync. In the end the
three brokers, which hold all logs, are stopped together by SIGTERM.

The client connects again at once: librdkafka's own pause after a few lost connections grows to ten seconds,
and would be all that is measured.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import httpx

from bench.command import Narrator
from bench.machine import machine_facts
from bench.processor_time import cpu_seconds, peak_rss_mb
from localcluster.cluster import LocalCluster
from localcluster.load import ClientLoad, kill_leader

PARTITIONS: Final = 10_000
BEFORE, NEW = "before", "many"
BEFORE_PARTITIONS: Final = 6
RECORDS_PER_SECOND: Final = 200
SETTLE_SECONDS: Final = 4.0
KILL_AFTER_SECONDS: Final = 3.0
KILLS: Final = 4
RECONNECT_MS_MAX: Final = 100
STOP_SECONDS_MAX: Final = 120.0
USABLE_SECONDS_MAX: Final = 600.0
#: Counting states is work for the controller that is measured.
LOOK_EVERY_SECONDS: Final = 0.5
_HELD = re.compile(r"^springtide_controller_loop_held_ms_max(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE)
_STALLED = re.compile(r"^springtide_loop_stall_ms_max(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE)


@dataclass(slots=True)
class Row:
    name: str
    value: float
    unit: str

    def line(self) -> str:
        return f"{self.name:<66} {self.value:>10,.1f} {self.unit}"


@dataclass(slots=True)
class Measured:
    """Figures in the order in which they were taken."""

    tell: Callable[[str], None]
    rows: list[Row] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str) -> None:
        row = Row(name, value, unit)
        self.rows.append(row)
        self.tell(row.line())


def measure(directory: Path, tell: Callable[[str], None], *, partitions: int, kills: int) -> list[Row]:
    measured = Measured(tell)
    with LocalCluster(directory, controllers=2, on_progress=tell) as cluster:
        cluster.form()
        cluster.create_topic(BEFORE, partitions=BEFORE_PARTITIONS)
        load = ClientLoad(
            bootstrap_servers=cluster.bootstrap_servers,
            topic=BEFORE,
            partitions=BEFORE_PARTITIONS,
            records_per_second=RECORDS_PER_SECOND,
            client_config={"reconnect.backoff.max.ms": RECONNECT_MS_MAX},
        )
        with load:
            time.sleep(SETTLE_SECONDS)
            quiet = [_kill_in_peace(cluster, load, tell, 0) for _ in range(kills)]
            _add_stalls(measured, "killed leader: stall, nothing else going on", quiet)
            _add_share(cluster, measured, "before: processor share of a broker")
            _create(cluster, measured, partitions)
            _add_share(cluster, measured, "idle afterwards: processor share of a broker")
            _add_holds(cluster, measured, "creation")
            beside = [_kill_in_peace(cluster, load, tell, partitions) for _ in range(kills)]
            _add_stalls(measured, "killed leader: stall, beside the idle topic", beside)
            deletions: list[float] = []
            rounds = [_kill_while_creating(cluster, load, partitions, deletions, tell) for _ in range(kills)]
            measured.add("deletion: all logs gone (longest)", max(deletions), "s")
            _add_stalls(measured, "killed leader: stall, during a creation", [stall for stall, _ in rounds])
            usable = max(seconds for _, seconds in rounds)
            measured.add("creation with a killed broker: all partitions usable (longest)", usable, "s")
        _add_holds(cluster, measured, "in the end")
        _add_memory(cluster, measured)
        _stop_brokers(cluster, measured)
        cluster.stop()
    return measured.rows


def _kill(cluster: LocalCluster, load: ClientLoad, tell: Callable[[str], None]) -> float:
    return kill_leader(cluster, load, tell) * 1000


def _kill_in_peace(
    cluster: LocalCluster, load: ClientLoad, tell: Callable[[str], None], partitions: int
) -> float:
    stall_ms = _kill(cluster, load, tell)
    _wait_online(cluster, partitions)
    time.sleep(SETTLE_SECONDS)
    return stall_ms


def _add_stalls(measured: Measured, name: str, stalls_ms: Sequence[float]) -> None:
    measured.add(f"{name} (median of {len(stalls_ms)})", median(stalls_ms), "ms")
    measured.add(f"{name} (longest)", max(stalls_ms), "ms")


def _create(cluster: LocalCluster, measured: Measured, partitions: int) -> None:
    pids = {process.name: process.pid for process in cluster.processes if process.pid is not None}
    before = {name: cpu_seconds([pid]) for name, pid in pids.items()}
    begun = time.monotonic()
    cluster.create_topic(NEW, partitions=partitions, wait=False)
    measured.add("creation: 201", time.monotonic() - begun, "s")
    _wait_online(cluster, partitions)
    measured.add("creation: all partitions usable", time.monotonic() - begun, "s")
    for name, pid in pids.items():
        measured.add(f"creation: processor time of {name}", cpu_seconds([pid]) - before[name], "s")


def _add_share(cluster: LocalCluster, measured: Measured, name: str) -> None:
    """Add what brokers spend while only the client's few records come."""
    time.sleep(SETTLE_SECONDS)
    pids = [broker.process.pid for broker in cluster.brokers.values() if broker.process.pid is not None]
    before, begun = cpu_seconds(pids), time.monotonic()
    time.sleep(2 * SETTLE_SECONDS)
    share = (cpu_seconds(pids) - before) / (time.monotonic() - begun) / len(pids)
    measured.add(name, share * 100, "%")


def _delete(cluster: LocalCluster) -> float:
    """Delete the topic. Return the seconds until no broker has a log of it."""
    begun = time.monotonic()
    response = cluster.rest.delete(f"/clusters/{cluster.name}/topics/{NEW}", params={"reason": "benchmark"})
    response.raise_for_status()
    data = [broker.data_directory for broker in cluster.brokers.values()]

    def gone() -> bool:
        time.sleep(LOOK_EVERY_SECONDS)
        return not any(path.name.startswith(f"{NEW}-") for where in data for path in where.iterdir())

    cluster.wait_until("its logs are gone", gone, timeout_seconds=USABLE_SECONDS_MAX)
    return time.monotonic() - begun


def _kill_while_creating(
    cluster: LocalCluster,
    load: ClientLoad,
    partitions: int,
    deletions: list[float],
    tell: Callable[[str], None],
) -> tuple[float, float]:
    """Delete the topic and create it again. Return the stall in milliseconds, and the seconds until all
    partitions are usable."""
    deletions.append(_delete(cluster))
    time.sleep(SETTLE_SECONDS)
    begun = time.monotonic()
    cluster.create_topic(NEW, partitions=partitions, wait=False)
    time.sleep(max(0.0, begun + KILL_AFTER_SECONDS - time.monotonic()))
    stall_ms = _kill(cluster, load, tell)
    _wait_online(cluster, partitions)
    return stall_ms, time.monotonic() - begun


def _stop_brokers(cluster: LocalCluster, measured: Measured) -> None:
    begun = time.monotonic()
    for broker in cluster.brokers.values():
        broker.process.begin_stop()
    for broker in cluster.brokers.values():
        assert broker.process.stop(timeout_seconds=STOP_SECONDS_MAX), broker.process.last_words()
    measured.add("three brokers stopped together", time.monotonic() - begun, "s")


def _wait_online(cluster: LocalCluster, partitions: int) -> None:
    def online() -> bool:
        time.sleep(LOOK_EVERY_SECONDS)
        states = cluster.api.get(f"/clusters/{cluster.name}/replication")["states"]
        return bool(states["online"] == partitions + BEFORE_PARTITIONS)

    cluster.wait_until("every partition is online", online, timeout_seconds=USABLE_SECONDS_MAX)


def _add_holds(cluster: LocalCluster, measured: Measured, when: str) -> None:
    """Add for how long each loop was held at most since its process started."""
    active = cluster.controllers[cluster.active_controller()]
    page = httpx.get(f"{active.url}/metrics").text
    measured.add(f"{when}: longest hold of the active controller's loop", _figure(_HELD, page), "ms")
    for broker in cluster.brokers.values():
        hold_ms = _figure(_STALLED, broker.metrics())
        measured.add(f"{when}: longest hold of the loop of {broker.process.name}", hold_ms, "ms")


def _add_memory(cluster: LocalCluster, measured: Measured) -> None:
    for process in cluster.processes:
        if process.pid is not None:
            measured.add(f"{process.name}: memory at most", peak_rss_mb(process.pid), "MB")


def _figure(pattern: re.Pattern[str], page: str) -> float:
    found = pattern.search(page)
    assert found is not None, pattern.pattern
    return float(found[1])


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--partitions", type=int, default=PARTITIONS, metavar="N")
    parser.add_argument("--kills", type=int, default=KILLS, metavar="N", help="of each kind")


def run(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="springtide-bench-creation-") as directory:
        rows = measure(Path(directory), Narrator(), partitions=options.partitions, kills=options.kills)
    print(f"\n{options.partitions} partitions of three replicas on three brokers\n")
    for row in rows:
        print(row.line())
    print("\n" + ", ".join(f"{name}: {value}" for name, value in machine_facts().items()))
    return 0
