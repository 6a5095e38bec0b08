"""What happens to disks: power cuts, full and broken and slow disks, empty and older ones, rotten bytes.

All but a full and a slow disk are *lossy*: the replica may lack afterwards what it had acknowledged. The
arena lets them strike only where the promise holds in spite of it.
"""

from __future__ import annotations

from pathlib import Path

from dataplane.storage.partition_file import PARTITION_FILE
from tests.faults.hosts.disk import can_throttle
from tests.faults.nemesis.arena import Arena, Ongoing, number_of
from tests.faults.nemesis.kinds import Kind, start

SLOW_BYTES_PER_SECOND = 128 * 1024
ROTTEN_BYTES = 16
SEGMENT_BYTES_MIN = 4096


def power_cut(arena: Arena) -> Ongoing | None:
    """The machine loses what it had not synced."""
    host = arena.pick_lossy()
    if host is None:
        return None
    broker_id = number_of(host)
    arena.cluster.cut_power(broker_id)
    return Ongoing("power-cut", (host,), f"power-cut {host}", lambda: start(arena, host), True)


def power_cut_and_kill_in_recovery(arena: Arena) -> Ongoing | None:
    """The power goes, and the process that recovers from it is killed before it is done."""
    host = arena.pick_lossy()
    if host is None:
        return None
    broker_id = number_of(host)
    process = arena.cluster.brokers[broker_id].process
    arena.cluster.cut_power(broker_id)
    process.start()

    def heal() -> None:
        process.kill()
        start(arena, host)

    return Ongoing("kill-in-recovery", (host,), f"kill-in-recovery {host}", heal, True)


def fill_disk(arena: Arena) -> Ongoing | None:
    """The broker gives its disk up; when there is room again it must be started anew."""
    host = arena.pick(arena.brokers)
    if host is None:
        return None
    broker_id = number_of(host)
    disk = arena.cluster.disk(broker_id)
    disk.fill()

    def heal() -> None:
        arena.cluster.kill_broker(broker_id)
        disk.free()
        start(arena, host)

    return Ongoing("fill-disk", (host,), f"fill-disk {host}", heal)


def break_disk(arena: Arena) -> Ongoing | None:
    """Writes succeed and fsync fails: what was not on the disk by then never gets there. A disk whose file
    system did not outlive that is replaced by an empty one."""
    host = arena.pick_lossy()
    if host is None:
        return None
    broker_id = number_of(host)
    disk = arena.cluster.disk(broker_id)
    disk.break_medium()

    def heal() -> None:
        arena.cluster.turn_off(broker_id)
        disk.mend_medium()
        if not disk.is_sound():
            disk.format()
        arena.cluster.turn_on(broker_id)

    return Ongoing("break-disk", (host,), f"break-disk {host}", heal, True)


def slow_disk(arena: Arena) -> Ongoing | None:
    if not can_throttle():
        return None
    host = arena.pick(arena.brokers)
    if host is None:
        return None
    disk = arena.cluster.disk(number_of(host))
    disk.throttle(SLOW_BYTES_PER_SECOND)
    return Ongoing("slow-disk", (host,), f"slow-disk {host}", disk.unthrottle)


def empty_disk(arena: Arena) -> Ongoing | None:
    """The machine comes back with a new, empty disk."""
    host = arena.pick_lossy()
    if host is None:
        return None
    broker_id = number_of(host)
    arena.cluster.turn_off(broker_id)
    arena.cluster.disk(broker_id).format()
    return Ongoing(
        "empty-disk", (host,), f"empty-disk {host}", lambda: arena.cluster.turn_on(broker_id), True
    )


def older_disk(arena: Arena) -> Ongoing | None:
    """The disk is copied while the machine is off; it serves again for a while, acknowledging; then it comes
    back with the copy, as somebody restores a backup."""
    host = arena.pick_lossy()
    if host is None:
        return None
    broker_id = number_of(host)
    cluster, disk = arena.cluster, arena.cluster.disk(broker_id)
    cluster.turn_off(broker_id)
    disk.keep()
    cluster.turn_on(broker_id)

    def heal() -> None:
        cluster.turn_off(broker_id)
        disk.put_back()
        cluster.turn_on(broker_id)

    return Ongoing("older-disk", (host,), f"older-disk {host}", heal, True)


def rot_log(arena: Arena) -> Ongoing | None:
    """While the broker is down, bytes in the middle of a log's last segment change: recovery must neither cut
    there nor serve it. (What rots in older segments is for the scrub: tests/faults/rot.)"""
    host = arena.pick_lossy()
    if host is None:
        return None
    segments = [
        max(folder.glob("*.log"))
        for folder in arena.cluster.brokers[number_of(host)].data_directory.iterdir()
        if (folder / PARTITION_FILE).is_file() and any(folder.glob("*.log"))
    ]
    large = sorted(path for path in segments if path.stat().st_size >= SEGMENT_BYTES_MIN)
    if not large:
        return None
    path = arena.rng.choice(large)
    process = arena.cluster.process_on(host)
    process.kill()
    rot(path, at=arena.rng.uniform(0.1, 0.9))
    note = f"rot-log {host} {path.parent.name.partition('.')[0]}"
    return Ongoing("rot-log", (host,), note, process.start, True)


def rot(path: Path, *, at: float) -> None:
    """Flips the bits of a few bytes of a file, as a medium does that forgets. at: 0 to 1."""
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        position = int((size - ROTTEN_BYTES) * at)
        file.seek(position)
        rotten = bytes(byte ^ 0xFF for byte in file.read(ROTTEN_BYTES))
        file.seek(position)
        file.write(rotten)


DISK_KINDS = (
    Kind("power-cut", power_cut, (0.2, 4)),
    Kind("kill-in-recovery", power_cut_and_kill_in_recovery, (0.3, 1.5)),
    Kind("fill-disk", fill_disk, (3, 8)),
    Kind("break-disk", break_disk, (5, 9)),
    Kind("slow-disk", slow_disk, (4, 10)),
    Kind("empty-disk", empty_disk, (0.5, 4)),
    Kind("older-disk", older_disk, (5, 9)),
    Kind("rot-log", rot_log, (0.2, 2)),
)
