"""A lost record counts as found only where its value stands at its offset in its partition."""

from __future__ import annotations

from pathlib import Path
from random import Random

from dataplane.storage.divergent import DivergentCopy, copy_divergent
from dataplane.storage.health import DirectoryHealth
from dataplane.storage.recovery import OpenedLog
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.records import NewRecord, encode_batch
from tests.checker.check import check
from tests.checker.history import History
from tests.faults.jepsen2013.divergent_copies import Copy, dump_operations, find_in_copies, read_copies
from tests.faults.jepsen2013.tally import Write
from tests.kit.dataplane.storage import PARTITION, append, open_log
from tests.kit.jepsen import final_read, send, value_of
from tests.kit.memory.disk import MemoryDisk

ITEMS = ((7, value_of(5, 0)), (8, value_of(9, 0)))
HELD = Copy(broker=1, partition=0, high_watermark=9, path="/data/divergent/a.batches", items=ITEMS)


def test_a_write_is_found_by_value_partition_and_offset() -> None:
    there = Write(5, 0, 7, value_of(5, 0))
    moved = Write(5, 0, 8, value_of(5, 0))
    elsewhere = Write(5, 1, 7, value_of(5, 0))
    assert find_in_copies([there, moved, elsewhere], [HELD]) == {there: (HELD,), moved: (), elsewhere: ()}


def test_copies_are_read_from_every_brokers_disk_and_only_the_topics() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    assert isinstance(opened, OpenedLog)
    values = [value_of(integer, 0) for integer in (0, 5, 9)]
    append(opened.log, encode_batch([NewRecord(value=value.encode()) for value in values], leader_epoch=0))
    written = copy_divergent(
        disk,
        "/data/divergent",
        opened.log,
        first_offset=1,
        high_watermark=3,
        leader_epoch=LeaderEpoch(2),
        reason="test",
        now_ms=0,
        health=DirectoryHealth("/data"),
    )
    assert isinstance(written, DivergentCopy)
    disk.crash_machine(Random(1))
    directories = {1: Path("/data"), 2: Path("/nothing/was/ever/cut")}
    (copy,) = read_copies(directories, PARTITION.topic, disk=disk)
    assert (copy.broker, copy.partition, copy.high_watermark) == (1, 0, 3)
    assert copy.items == ((1, values[1]), (2, values[2]))
    assert read_copies(directories, "another", disk=disk) == []


def test_the_checker_calls_a_lost_record_hidden_when_it_is_given_the_copy() -> None:
    operations = [
        send(5, 0, at=1, until=2, offset=7),
        final_read(0, at=3),
        *dump_operations([HELD], "jepsen", now_ns=4_000_000_000),
    ]
    figures = check(History.of(operations)).figures
    assert (figures.lost, figures.hidden) == (1, 1)
