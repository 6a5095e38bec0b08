"""Where a lost record went: the copies that replicas made of what a truncation was about to drop.

Losing a record under settings that ask for it is the operator's choice; losing it without a trace would be
ours. Read with the product's own reader, once the replicas are in sync again: what is cut is cut by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dataplane.storage.disk import Disk, PosixDisk
from dataplane.storage.divergent import list_copies
from tests.checker.history import Function, Item, Operation, Outcome
from tests.checker.values import decode_value
from tests.faults.jepsen2013.tally import Write
from tests.kit.dataplane.divergent_copies import read_copy


@dataclass(frozen=True, slots=True)
class Copy:
    """What one replica of one partition set aside at one truncation."""

    broker: int
    partition: int
    high_watermark: int
    """The replica's own: what is below it was committed by its account."""
    path: str
    items: tuple[Item, ...]


def read_copies(data_directories: Mapping[int, Path], topic: str, *, disk: Disk | None = None) -> list[Copy]:
    """Every copy of the topic. data_directories: by broker. Raises LogError when one is not whole."""
    disk = PosixDisk() if disk is None else disk
    copies = []
    for broker, directory in sorted(data_directories.items()):
        for found in list_copies(disk, f"{directory}/divergent"):
            if found.range.topic != topic:
                continue
            items = tuple(
                (record.offset, decode_value(record.value or b"")) for record in read_copy(disk, found)
            )
            copies.append(Copy(broker, found.range.partition, found.range.high_watermark, found.path, items))
    return copies


def find_in_copies(lost: Iterable[Write], copies: Iterable[Copy]) -> dict[Write, tuple[Copy, ...]]:
    """For each lost write the copies that hold its value, in its partition, at its offset."""
    holders: dict[tuple[int, int, str], list[Copy]] = {}
    for copy in copies:
        for offset, value in copy.items:
            holders.setdefault((copy.partition, offset, value), []).append(copy)
    return {write: tuple(holders.get((write.partition, write.offset, write.value), ())) for write in lost}


def dump_operations(copies: Iterable[Copy], topic: str, *, now_ns: int) -> list[Operation]:
    """The copies as the checker takes them: contents without a high watermark, which only say where a record
    is that is missing elsewhere."""
    return [
        Operation(
            process=f"broker-{copy.broker} divergent {Path(copy.path).name[-60:]}",
            f=Function.DUMP,
            type=Outcome.OK,
            t_invoke_ns=now_ns,
            t_return_ns=now_ns,
            key=(topic, copy.partition),
            items=copy.items,
        )
        for copy in copies
    ]
