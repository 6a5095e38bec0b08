"""A broker without the native part beside one with it: what they refuse, and each byte that they store."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.processes import ProcessPlace
from springtide.native.record_walk import NATIVE_VARIABLE, choose_implementation
from tests.faults import frames
from tests.faults.bad_batches import BAD_BATCHES, INVALID_RECORD
from tests.faults.frames import Batch, record, varint
from tests.faults.wire import Wire

pytestmark = [pytest.mark.timeout(300)]

TOPIC = "walked"
WITHOUT, WITH = 1, 2
"""Ids of the brokers; each leads the partition whose number is one less."""
WALKED = {WITHOUT: "python", WITH: choose_implementation({}).name}
FIELDS = b"\0" + varint(0) + varint(0) + varint(-1) + varint(-1)
"""A record until its headers: no key, no value."""


def framed(body: bytes) -> bytes:
    return varint(len(body)) + body


UNSOUND = {
    "a header without a key": framed(FIELDS + varint(1) + varint(-1) + varint(-1)),
    "more headers than there are": framed(FIELDS + varint(2) + varint(1) + b"k" + varint(-1)),
    "a byte after the fields": framed(FIELDS + varint(0) + b"x"),
    "a value of minus two bytes": framed(FIELDS[:-1] + varint(-2) + varint(0)),
    "an offset out of turn": record(b"a", offset_delta=1),
    "a record that the next one is part of": record(b"a")[:-1],
}
HONEST = {
    "one record": Batch(),
    "two records": Batch(
        records=record(b"a", key=b"k") + record(b"b", offset_delta=1), count=2, last_offset_delta=1
    ),
    "headers": Batch(records=framed(FIELDS + varint(1) + varint(1) + b"k" + varint(-1))),
    "gzip": Batch(records=gzip.compress(record(b"a" * 1000), mtime=0), attributes=1),
    "a time that its header leaves open": Batch(max_timestamp_ms=-1),
    "a time that its header puts off": Batch(max_timestamp_ms=2**63 - 1),
}


@pytest.fixture(scope="module")
def both() -> Iterator[LocalCluster]:
    """One broker that is told to do without, and one that takes what was built."""

    def place_of(host: str) -> ProcessPlace:
        return ProcessPlace(environment={NATIVE_VARIABLE: "off" if host == f"broker-{WITHOUT}" else "auto"})

    with LocalCluster(brokers=2, place_of=place_of) as cluster:
        cluster.form()
        cluster.create_topic(TOPIC, partitions=2, replication_factor=1, assignments=[[WITHOUT], [WITH]])
        for broker_id in (WITHOUT, WITH):
            cluster.wait_until("it leads", partial(takes, cluster, broker_id, Batch()))
        yield cluster


def takes(cluster: LocalCluster, broker_id: int, batch: Batch) -> bool:
    return code(cluster, broker_id, batch.encode()) == 0


def code(cluster: LocalCluster, broker_id: int, batch: bytes | None) -> int:
    with Wire(cluster.brokers[broker_id].port) as wire:
        wire.send(frames.frame(frames.produce(TOPIC, batch, partition=broker_id - 1)))
        return frames.only_partition_error(frames.PRODUCE, wire.receive())


def test_a_broker_says_by_what_it_walks_records(both: LocalCluster) -> None:
    for broker_id, name in WALKED.items():
        node = both.brokers[broker_id]
        log = node.process.log_path.read_text(encoding="utf-8")
        assert f"records_walked_by implementation={name} " in log
        assert (f'cause="{NATIVE_VARIABLE}=off"' in log) == (broker_id == WITHOUT)
        assert f"springtide_native_records {int(name == 'native')}" in node.metrics()


def test_both_refuse_the_same_and_store_the_same_bytes(both: LocalCluster) -> None:
    for name, (batch, expected) in BAD_BATCHES.items():
        assert [code(both, broker_id, batch) for broker_id in WALKED] == [expected, expected], name
    for name, records in UNSOUND.items():
        answered = [code(both, broker_id, Batch(records=records).encode()) for broker_id in WALKED]
        assert answered == [INVALID_RECORD, INVALID_RECORD], name
    before = stored(both, WITHOUT)
    for name, honest in HONEST.items():
        assert all(takes(both, broker_id, honest) for broker_id in WALKED), name
    without, with_it = (stored(both, broker_id) for broker_id in WALKED)
    assert len(without) > len(before)
    assert without == with_it


def stored(cluster: LocalCluster, broker_id: int) -> bytes:
    """Return the segment of the broker's partition, as its page cache has it."""
    (segment,) = Path(cluster.brokers[broker_id].data_directory).rglob(f"{TOPIC}-{broker_id - 1}*/*.log")
    return segment.read_bytes()
