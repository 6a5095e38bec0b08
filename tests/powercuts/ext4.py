"""Real power cuts: the storage engine works on an ext4 whose power goes at a random moment.

A forked writer runs the workload and tells through a pipe how many operations of the disk are done. When it
has come far enough the file system is shut down without flushing its journal, the writer is killed, the
volume is mounted again as after a boot, and the real recovery opens it. What it must find tells a replay of
the same seed on the disk in memory, up to the last operation that was told, and two beyond.
"""

from __future__ import annotations

import os
import shutil
import signal
import struct
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

from dataplane.storage.disk import PosixDisk
from tests.kit.memory.disk import MemoryDisk
from tests.powercuts.ledger import Expected, Ledger
from tests.powercuts.reporting_disk import ReportingDisk
from tests.powercuts.verdict import judge, recover
from tests.powercuts.volume import Volume, ext4_volume
from tests.powercuts.workload import Workload
from tests.proof.part import Part, save

STEPS = 70
OPERATIONS_MAX = 500
SYNC_SHARE = 0.25
"""So often somebody else syncs the file system on the way: then more survives than was asked for."""
PROGRESS_SECONDS = 10.0
FAILURES_SHOWN = 20
_COUNT = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Cut:
    """done: operations that the writer knew to be done. logs, batches: found by the recovery."""

    seed: int
    done: int
    logs: int
    batches: int
    wrong: tuple[str, ...]


def cut_once(volume: Volume, seed: int, *, disk_made: type[ReportingDisk] = ReportingDisk) -> Cut:
    """One writer, one power cut, one recovery."""
    random = Random(f"power cut {seed}")
    path = f"{volume.mount}/{seed}"
    done, ended = _write_until_cut(volume, path, seed, random, disk_made)
    volume.mount_again()
    expected = expected_after(seed, path, done)
    found = recover(PosixDisk(), path, is_power_cut=True) if Path(path).exists() or done else None
    wrong = [] if found is None else judge(found, expected, is_power_cut=True)
    if ended:
        wrong.append(f"workload: the writer ended with exit code {ended} before the power cut")
    shutil.rmtree(path, ignore_errors=True)
    logs = {} if found is None else found.logs
    return Cut(
        seed,
        done,
        len(logs),
        sum(len(log.batches) for log in logs.values()),
        tuple(f"{line} [seed {seed}, after {done} operations]" for line in wrong),
    )


def sweep(*, cuts: int, first: int = 0) -> Part:
    """So many power cuts, from seed `first` on. Leaves the part `power-cuts`."""
    began = time.monotonic()
    shown = began
    total: Counter[str] = Counter()
    failures: list[str] = []
    with ext4_volume() as volume:
        for seed in range(first, first + cuts):
            cut = cut_once(volume, seed)
            total.update(cuts=1, operations=cut.done, logs=cut.logs, batches=cut.batches)
            failures += cut.wrong
            now = time.monotonic()
            if now - shown >= PROGRESS_SECONDS:
                shown = now
                rate = total["cuts"] / (now - began)
                print(f"{total['cuts']:,} power cuts, {rate:.1f} a second, {len(failures)} bad", flush=True)
    seconds = time.monotonic() - began
    part = Part(
        name="power-cuts",
        seconds=round(seconds, 1),
        figures={
            "power cuts": total["cuts"],
            "operations of the disk before them": total["operations"],
            "logs recovered": total["logs"],
            "batches read back": total["batches"],
            "power cuts a second": round(total["cuts"] / seconds, 1),
        },
        faults={"power cut": total["cuts"]},
        failures=failures[:FAILURES_SHOWN],
    )
    save(part)
    return part


def expected_after(seed: int, path: str, done: int) -> Expected:
    """What may be found when the writer's `done`th operation was told and its next one perhaps done, too."""
    disk = MemoryDisk()
    disk.mkdir(path.rpartition("/")[0])
    ledger = Ledger()
    seen: list[Expected] = [ledger.expected()] if not done else []
    count = 0

    def look(_operation: str, _path: str, is_done: bool) -> None:
        nonlocal count
        if count >= done:
            seen.append(ledger.expected())
        if is_done:
            count += 1
            if count >= done:
                seen.append(ledger.expected())
        if count >= done + 2:
            raise _FarEnough

    disk.on_operation = look
    try:
        Workload(disk, path, seed, ledger).run(STEPS)
        seen.append(ledger.expected())
    except _FarEnough:
        pass
    expected = seen[0]
    for later in seen[1:]:
        expected = expected.widened(later)
    return expected


class _FarEnough(Exception):
    pass


def _write_until_cut(
    volume: Volume, path: str, seed: int, random: Random, disk_made: type[ReportingDisk]
) -> tuple[int, int]:
    """How many operations were told to be done, and the exit code of a writer that failed before the cut."""
    target = random.randint(0, OPERATIONS_MAX)
    sync_at = random.randint(0, target) if random.random() < SYNC_SHARE else None
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _write(writing, path, seed, disk_made)
    os.close(writing)
    done = ended = 0
    told = b"begins"
    try:
        while done < target and (told := os.read(reading, _COUNT.size)):
            (done,) = _COUNT.unpack(told)
            if done == sync_at:
                volume.sync()
        time.sleep(random.random() * 0.002)
        volume.cut_power()
    finally:
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        if not told and os.WIFEXITED(status):
            ended = os.WEXITSTATUS(status)
        while told := os.read(reading, _COUNT.size):
            (done,) = _COUNT.unpack(told)
        os.close(reading)
    return done, ended


def _write(pipe: int, path: str, seed: int, disk_made: type[ReportingDisk]) -> None:
    """The writer's process, which does not return."""
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        os.write(pipe, _COUNT.pack(done))

    try:
        Workload(disk_made(tell), path, seed).run(STEPS)
    except BaseException:  # the power is gone, whatever that looks like from here
        os._exit(1)
    os._exit(0)
