"""Processor time and memory of processes by their pids, from /proc: exactly those that were asked about.

Readings are taken by the load itself at the two ends of what it measures, so that starting a client and its
warm-up are in no figure. A process that is gone is an error: figures without it would flatter.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from bench.figures import Measurement, latency_percentiles_ms

_PROC = Path("/proc")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_TIMES = slice(11, 15)
"""Places in /proc/PID/stat after the command's closing bracket, see proc(5): user and system time, its own
and those of children that have ended."""
_IDLE, _IOWAIT, _STEAL = 3, 4, 7
"""Places in the first line of /proc/stat after `cpu`."""
_COUNTED = 8
"""Fields of that line up to `steal`; guest time, after it, is in user time already."""


def cpu_seconds_of_stat(stat: str) -> float:
    """User and system time of a process from the text of its /proc/PID/stat, all its threads together, and of
    its children that have ended.

    The command name may hold spaces and brackets: what follows the last bracket counts.
    """
    return sum(map(int, stat[stat.rindex(")") + 2 :].split()[_TIMES])) / _TICKS_PER_SECOND


def busy_seconds_of_stat(stat: str) -> float:
    """What all processors did but idle, wait for a disk, or work for another guest; from the text of
    /proc/stat."""
    ticks = [int(value) for value in stat.splitlines()[0].split()[1 : 1 + _COUNTED]]
    return (sum(ticks) - ticks[_IDLE] - ticks[_IOWAIT] - ticks[_STEAL]) / _TICKS_PER_SECOND


def cpu_seconds(pids: Sequence[int]) -> float:
    return sum(cpu_seconds_of_stat((_PROC / str(pid) / "stat").read_text("ascii", "replace")) for pid in pids)


def nodes(pids: Sequence[int]) -> list[list[int]]:
    """Return the processes of each node: a broker's workers are children of its first process."""
    workers = {pid: [child for child in children_of(pid) if child in pids] for pid in pids}
    all_workers = set(chain(*workers.values()))
    return [[pid, *workers[pid]] for pid in pids if pid not in all_workers]


def largest_rss_bytes(pids: Sequence[int]) -> int:
    """Resident memory of the largest node of them; 0 without any."""
    return max((sum(map(_rss_bytes, node)) for node in nodes(pids)), default=0)


def _rss_bytes(pid: int) -> int:
    return int((_PROC / str(pid) / "statm").read_text("ascii").split()[1]) * _PAGE_BYTES


def peak_rss_mb(pid: int) -> float:
    """Resident memory of a process at most, in MiB, since it began or `forget_peak_rss`."""
    found = re.search(
        r"^VmHWM:\s+(\d+) kB$", (_PROC / str(pid) / "status").read_text("ascii", "replace"), re.MULTILINE
    )
    assert found is not None
    return int(found[1]) / 1024


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has begun, and that have not ended."""
    return [
        int(child)
        for thread in (_PROC / str(pid) / "task").iterdir()
        for child in (thread / "children").read_text("ascii").split()
    ]


def forget_peak_rss(pids: Sequence[int]) -> None:
    for pid in pids:
        (_PROC / str(pid) / "clear_refs").write_text("5", "ascii")  # see proc(5)


def own_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True, slots=True)
class Reading:
    at: float
    """Seconds on the load's clock."""
    broker_cpu_s: float
    load_cpu_s: float
    machine_busy_s: float


def take_reading(at: float, broker_pids: Sequence[int]) -> Reading:
    return Reading(
        at,
        cpu_seconds(broker_pids),
        own_cpu_seconds(),
        busy_seconds_of_stat((_PROC / "stat").read_text("ascii")),
    )


def measure_between(
    before: Reading,
    after: Reading,
    *,
    broker_pids: Sequence[int],
    operations: int,
    records: int,
    moved_bytes: int,
    latencies_s: list[float],
) -> Measurement:
    """Everything of one run. Memory is read now."""
    p50_ms, p99_ms = latency_percentiles_ms(latencies_s)
    return Measurement(
        elapsed_s=after.at - before.at,
        operations=operations,
        records=records,
        bytes=moved_bytes,
        p50_ms=p50_ms,
        p99_ms=p99_ms,
        broker_cpu_s=after.broker_cpu_s - before.broker_cpu_s,
        broker_rss_bytes=largest_rss_bytes(broker_pids),
        load_cpu_s=after.load_cpu_s - before.load_cpu_s,
        machine_busy_s=after.machine_busy_s - before.machine_busy_s,
    )
