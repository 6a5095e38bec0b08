"""What a topic of thousands of partitions costs a cluster of three brokers: `python -m bench.creation`.

Real processes on this machine: ZooKeeper, two controllers, three brokers. A stock client writes to six
partitions that are there before. The topic is created, deleted, and created again; the leader of existing
partitions is killed before, and three seconds into the second creation. A partition is usable when it is
`online`: led by a broker that has its log, with every replica in sync.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from bench.machine import machine_facts
from bench.processor_time import cpu_seconds
from localcluster.__main__ import Narrator
from localcluster.cluster import LocalCluster
from localcluster.load import Load
from localcluster.stall import kill_leader

PARTITIONS: Final = 10_000
BEFORE, NEW = "before", "many"
BEFORE_PARTITIONS: Final = 6
RECORDS_PER_SECOND: Final = 200
SETTLE_SECONDS: Final = 4.0
KILL_AFTER_SECONDS: Final = 3.0
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
        return f"{self.name:<62} {self.value:>10,.1f} {self.unit}"


@dataclass(slots=True)
class Measured:
    """Figures in the order in which they were taken."""

    tell: Callable[[str], None]
    rows: list[Row] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str) -> None:
        row = Row(name, value, unit)
        self.rows.append(row)
        self.tell(row.line())


def run(directory: Path, tell: Callable[[str], None], *, partitions: int) -> list[Row]:
    measured = Measured(tell)
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
            measured.add("killed leader: stall, nothing else going on", _kill(cluster, load, tell), "ms")
            cluster.wait_until_in_sync(BEFORE)
            time.sleep(SETTLE_SECONDS)
            _create(cluster, measured, partitions)
            _idle(cluster, measured)
            _delete(cluster, measured)
            time.sleep(SETTLE_SECONDS)
            _create_and_kill(cluster, load, measured, partitions)
        _processes(cluster, measured)
        cluster.stop()
    return measured.rows


def _kill(cluster: LocalCluster, load: Load, tell: Callable[[str], None]) -> float:
    return kill_leader(cluster, load, tell) * 1000


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


def _idle(cluster: LocalCluster, measured: Measured) -> None:
    """What so many partitions cost while nobody uses them."""
    time.sleep(SETTLE_SECONDS)
    pids = [broker.process.pid for broker in cluster.brokers.values() if broker.process.pid is not None]
    before, begun = cpu_seconds(pids), time.monotonic()
    time.sleep(2 * SETTLE_SECONDS)
    share = (cpu_seconds(pids) - before) / (time.monotonic() - begun) / len(pids)
    measured.add("idle afterwards: processor share of a broker", share * 100, "%")


def _delete(cluster: LocalCluster, measured: Measured) -> None:
    begun = time.monotonic()
    response = cluster.rest.delete(f"/clusters/{cluster.name}/topics/{NEW}", params={"reason": "benchmark"})
    response.raise_for_status()
    data = [broker.data_directory for broker in cluster.brokers.values()]

    def gone() -> bool:
        time.sleep(LOOK_EVERY_SECONDS)
        return not any(path.name.startswith(f"{NEW}-") for where in data for path in where.iterdir())

    cluster.wait_until("its logs are gone", gone, timeout_seconds=USABLE_SECONDS_MAX)
    measured.add("deletion: all logs gone", time.monotonic() - begun, "s")


def _create_and_kill(cluster: LocalCluster, load: Load, measured: Measured, partitions: int) -> None:
    begun = time.monotonic()
    cluster.create_topic(NEW, partitions=partitions, wait=False)
    time.sleep(max(0.0, begun + KILL_AFTER_SECONDS - time.monotonic()))
    measured.add("killed leader: stall, during a creation", _kill(cluster, load, measured.tell), "ms")
    _wait_online(cluster, partitions)
    measured.add("creation with a killed broker: all usable", time.monotonic() - begun, "s")


def _wait_online(cluster: LocalCluster, partitions: int) -> None:
    def online() -> bool:
        time.sleep(LOOK_EVERY_SECONDS)
        states = cluster.api.get(f"/clusters/{cluster.name}/replication")["states"]
        return bool(states["online"] == partitions + BEFORE_PARTITIONS)

    cluster.wait_until("every partition is online", online, timeout_seconds=USABLE_SECONDS_MAX)


def _processes(cluster: LocalCluster, measured: Measured) -> None:
    active = cluster.controllers[cluster.active_controller()]
    page = httpx.get(f"{active.url}/metrics").text
    measured.add("active controller: longest hold of its loop", _figure(_HELD, page), "ms")
    for broker in cluster.brokers.values():
        name = broker.process.name
        measured.add(f"{name}: longest hold of its loop", _figure(_STALLED, broker.metrics()), "ms")
    for process in cluster.processes:
        if process.pid is not None:
            measured.add(f"{process.name}: memory at most", _memory_mb(process.pid), "MB")


def _figure(pattern: re.Pattern[str], page: str) -> float:
    found = pattern.search(page)
    assert found is not None, pattern.pattern
    return float(found[1])


def _memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.creation", description=__doc__)
    parser.add_argument("--partitions", type=int, default=PARTITIONS, metavar="N")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="springtide-bench-creation-") as directory:
        rows = run(Path(directory), Narrator(), partitions=options.partitions)
    print(f"\n{options.partitions} partitions of three replicas on three brokers\n")
    for row in rows:
        print(row.line())
    print("\n" + ", ".join(f"{name}: {value}" for name, value in machine_facts().items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
