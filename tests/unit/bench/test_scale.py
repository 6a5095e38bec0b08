"""Stand-ins for brokers remember who leads; written rows are what a controller reads."""

from __future__ import annotations

import msgspec
import pytest

from bench.stand_in_brokers import StandIn, Told, ToldBatch
from bench.written_rows import znodes
from controller.core.image import ClusterImage
from controller.core.records import Cause, Change, ClusterRecord, MemberKind
from controller.shell.clock import Ids
from controller.shell.leadership import CLUSTERS_PATH
from controller.shell.meta import Committed, Create
from controller.shell.metadata_store import ClusterStore
from controller.shell.rows import (
    HeadRow,
    cluster_path,
    encode_row,
    head_path,
    members_path,
    topics_path,
)
from springtide.contract.epochs import ControllerEpoch
from tests.kit.clocks import EagerClock
from tests.kit.memory.zookeeper import MemoryZooKeeper


def told(partition: int, leader: int, *, epoch: int = 0) -> Told:
    return Told(topic_id="t", partition=partition, leader=leader, leader_epoch=epoch, replicas=(1, 2, 3))


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_stand_in_counts_what_it_was_told_and_what_a_dead_broker_still_leads() -> None:
    broker = StandIn(2, "prod", ["http://127.0.0.1:1"])
    await broker.apply(ToldBatch(full=True, sequence=5, partitions=(told(0, 1), told(1, 2), told(7, 1))))
    assert (broker.told, broker.waits_for, broker.is_idle) == (3, 0, False)
    broker.watch(1)
    assert broker.waits_for == 2
    await broker.apply(ToldBatch(sequence=6, partitions=(told(0, 2, epoch=1),)))
    assert (broker.told, broker.waits_for) == (3, 1)
    await broker.apply(
        ToldBatch(full=True, sequence=7, partitions=(told(0, 2, epoch=1), told(7, 3, epoch=1)))
    )
    assert (broker.told, broker.waits_for) == (2, 0)


@pytest.mark.anyio
@pytest.mark.parametrize("partitions", [7, 250])
async def test_written_rows_are_read_as_healthy_topics(partitions: int) -> None:
    meta = MemoryZooKeeper().connect()
    change = Change(cause=Cause.CLUSTER_CREATED, at_ms=0)
    written = list(znodes("prod", [1, 2, 3, 4], topics=3, partitions=partitions, records=1))
    records = 1 + sum(count for _, _, count in written)
    head = HeadRow(write_id="w", controller_epoch=ControllerEpoch(1), records=records)
    cluster = ClusterRecord(cluster_id="c", change=change)
    await meta.start_write(
        [
            Create(CLUSTERS_PATH, b""),
            Create(cluster_path("prod"), encode_row(cluster, 1)),
            Create(head_path("prod"), msgspec.json.encode(head)),
            Create(members_path("prod", MemberKind.BROKER), b""),
            Create(topics_path("prod"), b""),
        ]
    ).outcome()
    creations = [Create(path, data) for path, data, _ in written]
    assert await meta.start_write(creations).outcome() == Committed()
    store = ClusterStore(meta=meta, clock=EagerClock(), ids=Ids(bytes), cluster="prod")
    assert await store.load()
    image = ClusterImage()
    for record, _ in store.records():
        image.replay(record)
    assert records == 1 + 3 * (partitions + 1) == image.records
    assert len(image.partitions) == 3 * partitions
    assert not image.under_replicated and not image.unconfirmed_new and not image.not_preferred
    assert isinstance(next(store.records())[0], ClusterRecord)
    assert msgspec.json.decode(written[0][1])["state"]["partitions"] == partitions
