"""What a coordinator's takeover costs by the size of a shard: `python -m bench shard_replay [--mib 100]`.

A log of offset commits of that size is replayed as a coordinator reads it: all of it, as one does that has
never followed the shard; and its last portion alone, the most that a level standby lacks. Nothing but the
replay is measured: no network, no disk. Times are the processor's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from coordinator.core.group_records import CommittedOffset, OffsetKey, encode_offset, encode_offset_key
from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.options import GroupOptions
from coordinator.core.replay import ShardReplay
from coordinator.shell.log_client import FOLLOW_BYTES_MIN, READ_BYTES_MAX
from springtide.contract.partition_state import WRITER_IDS
from springtide.wire.records import NewRecord, encode_batch

MIB: Final = 1024 * 1024
GROUPS, PARTITIONS = 500, 40
"""The log has so many keys, which are rewritten again and again; a commit is of one group's partitions."""
TRIES = 9
WALL_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Figures:
    """tail_ms: the median of some tries."""

    records: int
    log_bytes: int
    whole_s: float
    tail_records: int
    tail_ms: float


def batches(size_bytes: int, *, first: int = 0) -> Iterator[bytes]:
    """Yield batches of about this size in all, one a commit. first: the number of the first commit."""
    written, number = 0, first
    while written < size_bytes:
        group = f"group-{number % GROUPS}"
        value = encode_offset(CommittedOffset(number, 3, "", WALL_MS + number, None, None))
        batch = encode_batch(
            [
                NewRecord(encode_offset_key(OffsetKey(group, "orders", partition)), value, number)
                for partition in range(PARTITIONS)
            ],
            producer_id=WRITER_IDS.start + 1,
            producer_epoch=0,
            base_sequence=number * PARTITIONS,
            base_offset=number * PARTITIONS,
        )
        yield batch
        written += len(batch)
        number += 1


def reads(log: Sequence[bytes], portion: int) -> Iterator[bytes]:
    """Yield the log in portions of whole batches, as a leader answers reads."""
    part: list[bytes] = []
    size = 0
    for batch in log:
        part.append(batch)
        size += len(batch)
        if size >= portion:
            yield b"".join(part)
            part, size = [], 0
    if part:
        yield b"".join(part)


def measure(size_bytes: int) -> Figures:
    log = list(batches(size_bytes))
    replay = ShardReplay(GroupMachine(GroupOptions()))
    began = time.process_time()
    for portion in reads(log, READ_BYTES_MAX):
        replay.read(portion)
    whole_s = time.process_time() - began
    records = replay.position
    took_ms = []
    for _ in range(TRIES):
        tail = list(batches(FOLLOW_BYTES_MIN, first=replay.position // PARTITIONS))
        began = time.process_time()
        replay.read(b"".join(tail))
        replay.machine.opened(0, WALL_MS)
        took_ms.append((time.process_time() - began) * 1_000)
    return Figures(records, sum(map(len, log)), whole_s, len(tail) * PARTITIONS, median(took_ms))


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mib", type=int, default=100)


def run(options: argparse.Namespace) -> int:
    found = measure(options.mib * MIB)
    print(f"log                 {found.log_bytes / MIB:,.0f} MiB, {found.records:,} records")
    print(f"replay of all       {found.whole_s:.2f} s, {found.whole_s / found.records * 1e6:.1f} us a record")
    print(f"replay of the tail  {found.tail_ms:.1f} ms, {found.tail_records:,} records, as a level standby")
    return 0
