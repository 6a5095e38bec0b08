"""A controller stands for a cluster only if it would write back all that it read (U1)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from controller.core.records import (
    ClusterRecord,
    CoordinatorRegistration,
    MemberRecord,
    ProducerIdsRecord,
    Record,
    UpgradeRecord,
)
from controller.shell.kept_fields import WrittenByNewer
from controller.shell.levels import UnsupportedLevel
from controller.shell.meta import Node
from controller.shell.rows import chunk_path, level_path, topic_path
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.security import QuotaEntity
from springtide.levels import NEWEST, RELEASES, Level
from tests.kit.clocks import VirtualClock
from tests.kit.controller.security import SHA_256, acls_record, quotas_record, user_record
from tests.kit.controller.shell import (
    CHANGE,
    TOPIC_ID,
    begin_term,
    broker_record,
    load_store,
    make_cluster,
    partition_record,
    topic_record,
)
from tests.kit.memory.zookeeper import MemoryMeta, MemoryZooKeeper

pytestmark = pytest.mark.anyio

CHUNK = chunk_path("prod", TOPIC_ID, 1)
Row = dict[str, Any]


async def write_one_of_each(meta: MemoryMeta, clock: VirtualClock) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term, level=NEWEST)
    store = await load_store(meta, clock)
    coordinator = CoordinatorRegistration(
        coordinator_id=1001, coordinator_epoch=BrokerEpoch(2), incarnation_id="c", host="h", port=1
    )
    records: list[Record] = [
        ClusterRecord(cluster_id="CCCCCCCCCCCCCCCCCCCCCC", configs={"num.partitions": "3"}, change=CHANGE),
        ProducerIdsRecord(next_producer_id=1000, change=CHANGE),
        UpgradeRecord(pending_since_ms=7, change=CHANGE),
        broker_record(1),
        MemberRecord(registration=coordinator, change=CHANGE),
        acls_record("orders", "ALLOW alice@* READ"),
        acls_record("wide", *(f"ALLOW user-{number}@* READ" for number in range(300))),
        user_record("alice", SHA_256),
        quotas_record(QuotaEntity(user="alice"), consumer_byte_rate=5.0),
        *(partition_record(number) for number in range(150)),
        topic_record(150),
    ]
    await store.persist(records, term)


def change_row(zookeeper: MemoryZooKeeper, path: str, change: Callable[[Row], object]) -> None:
    """As another release, or a person, would write it: with other blanks, too."""
    node = zookeeper.nodes[path]
    row = json.loads(node.data)
    change(row)
    zookeeper.nodes[path] = Node(
        json.dumps(row).encode(), node.version, node.owner, node.created_zxid, node.modified_ms
    )


def rows_of(zookeeper: MemoryZooKeeper) -> list[str]:
    return sorted(path for path, node in zookeeper.nodes.items() if "prod" in path and node.data)


async def test_each_row_is_checked(zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock) -> None:
    await write_one_of_each(meta, clock)
    paths = rows_of(zookeeper)
    assert len(paths) == 14
    for path in paths:
        before = zookeeper.nodes[path]
        change_row(zookeeper, path, lambda row: row.update(colour="blue"))
        with pytest.raises(WrittenByNewer) as refused:
            await load_store(meta, clock)
        assert str(refused.value).startswith(
            f"{path} has `colour`, which this release, {RELEASES[NEWEST]}, would lose"
        )
        zookeeper.nodes[path] = before
    await load_store(meta, clock)


@pytest.mark.parametrize(
    ("path", "change", "named"),
    [
        (CHUNK, lambda row: row["partitions"][7].update(colour=1), "partitions[7].colour"),
        (CHUNK, lambda row: row["changes"][0].update(colour=1), "changes[0].colour"),
        ("/clusters/prod/brokers/1", lambda row: row["registration"].update(colour=1), "registration.colour"),
        ("/clusters/prod/users/alice", lambda row: row["secrets"]["scram"][0].update(colour=1), "scram[0]"),
        (topic_path("prod", TOPIC_ID), lambda row: row["state"].update(colour=1), "state.colour"),
    ],
)
async def test_a_field_that_would_be_lost_is_named_wherever_it_is(
    zookeeper: MemoryZooKeeper,
    meta: MemoryMeta,
    clock: VirtualClock,
    path: str,
    change: Callable[[Row], object],
    named: str,
) -> None:
    await write_one_of_each(meta, clock)
    change_row(zookeeper, path, change)
    with pytest.raises(WrittenByNewer) as refused:
        await load_store(meta, clock)
    assert path in str(refused.value)
    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (CHUNK, lambda row: row["changes"][0].update(cause="new_word")),
        (CHUNK, lambda row: row["partitions"][3].update(recovery="new_word")),
        ("/clusters/prod/brokers/1", lambda row: row["registration"].update(last_shutdown="new_word")),
        ("/clusters/prod/brokers/1", lambda row: row["change"].update(cause="new_word")),
        ("/clusters/prod", lambda row: row["change"].update(cause="new_word")),
        (topic_path("prod", TOPIC_ID), lambda row: row["change"].update(cause="new_word")),
    ],
)
async def test_a_word_that_is_not_known_is_named_and_is_no_corruption(
    zookeeper: MemoryZooKeeper,
    meta: MemoryMeta,
    clock: VirtualClock,
    path: str,
    change: Callable[[Row], object],
) -> None:
    await write_one_of_each(meta, clock)
    change_row(zookeeper, path, change)
    with pytest.raises(WrittenByNewer) as refused:
        await load_store(meta, clock)
    assert path in str(refused.value)
    assert "'new_word'" in str(refused.value)


async def test_a_word_of_acls_that_is_not_known_is_named(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    await write_one_of_each(meta, clock)
    for path in [path for path in rows_of(zookeeper) if "/acls/" in path]:
        before = zookeeper.nodes[path]
        zookeeper.nodes[path] = Node(before.data.replace(b'"READ"', b'"SNIFF"'), *fields_after_data(before))
        with pytest.raises(WrittenByNewer) as refused:
            await load_store(meta, clock)
        assert path in str(refused.value)
        assert "'SNIFF'" in str(refused.value)
        zookeeper.nodes[path] = before


def fields_after_data(node: Node) -> tuple[int, int, int, int]:
    return node.version, node.owner, node.created_zxid, node.modified_ms


async def test_a_row_of_an_older_release_which_lacks_fields_is_taken(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    await write_one_of_each(meta, clock)
    change_row(zookeeper, "/clusters/prod/brokers/1", lambda row: row["registration"].pop("labels"))
    change_row(zookeeper, "/clusters/prod", lambda row: row.pop("last_broker_epoch"))
    change_row(zookeeper, CHUNK, lambda row: None)
    quotas = next(path for path in rows_of(zookeeper) if "/quotas/" in path)
    change_row(zookeeper, quotas, lambda row: row["quotas"]["quotas"].update(consumer_byte_rate=5))
    await load_store(meta, clock)


async def test_the_level_is_looked_at_before_any_other_row(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    await write_one_of_each(meta, clock)
    for path in rows_of(zookeeper):
        change_row(zookeeper, path, lambda row: row.update(colour="blue"))
    change_row(zookeeper, level_path("prod"), lambda row: row.update(level=NEWEST + 1))
    with pytest.raises(UnsupportedLevel, match=f"'prod' is at level {NEWEST + 1}, and this release, 0"):
        await load_store(meta, clock)


async def test_a_cluster_at_level_0_has_the_rows_of_release_0_1(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    await make_cluster(meta, await begin_term(meta, clock), level=Level(0))
    assert level_path("prod") not in zookeeper.nodes
