"""Writes of a cluster's store over a real ZooKeeper: fenced, split, read back."""

from __future__ import annotations

import os

import anyio
import pytest

from controller.core.records import (
    Cause,
    Change,
    ClusterRecord,
    CoordinatorRegistration,
    MemberKind,
    MemberRecord,
    PartitionRecord,
    Record,
    RemoveMemberRecord,
    TopicRecord,
)
from controller.shell.clock import Ids, SystemClock
from controller.shell.kazoo_meta import KazooMeta
from controller.shell.leadership import Leadership, Term
from controller.shell.listeners import TcpListeners
from controller.shell.meta import Committed
from controller.shell.metadata_store import ClusterStore, Fenced, cluster_creation
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState, TopicState
from springtide.contract.security import QuotaEntity
from tests.integration.controller.conftest import OpenMeta
from tests.kit.controller.security import SHA_256, acls_record, has_secrets, quotas_record, user_record

pytestmark = pytest.mark.anyio

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
CHANGE = Change(cause=Cause.LEADER_ELECTED, at_ms=1)
IDS = Ids(os.urandom)


def partition(number: int, partition_epoch: int) -> Record:
    state = PartitionState(
        topic_id=TOPIC_ID,
        topic="orders",
        partition=number,
        replicas=(1, 2, 3),
        leader=1,
        leader_epoch=LeaderEpoch(partition_epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        isr=(1, 2, 3),
        min_insync_replicas=2,
    )
    return PartitionRecord(state=state, change=CHANGE)


def topic(partitions: int) -> list[Record]:
    state = TopicState(topic_id=TOPIC_ID, topic="orders", partitions=partitions, replication_factor=3)
    return [*(partition(number, 0) for number in range(partitions)), TopicRecord(state=state, change=CHANGE)]


class Elected:
    """Wins an election and keeps the term while the test goes on."""

    def __init__(self, meta: KazooMeta, name: str) -> None:
        clock = SystemClock()
        self.meta = meta
        self.term: Term | None = None
        self._serving = anyio.Event()
        self.leadership = Leadership(
            meta=meta,
            clock=clock,
            ids=IDS,
            listeners=TcpListeners(clock),
            controller_id=name,
            url="http://127.0.0.1:1",
        )

    async def serve(self, term: Term) -> None:
        self.term = term
        self._serving.set()
        await anyio.sleep_forever()

    async def wait(self) -> Term:
        await self._serving.wait()
        assert self.term is not None
        return self.term


async def make_cluster(meta: KazooMeta, term: Term) -> ClusterStore:
    operations = cluster_creation(
        "prod",
        ClusterRecord(cluster_id=IDS.new_id(), change=CHANGE),
        term=term,
        write_id=IDS.new_id(),
    )
    assert await meta.start_write(operations).outcome() == Committed()
    return await load(meta)


async def load(meta: KazooMeta) -> ClusterStore:
    store = ClusterStore(meta=meta, clock=SystemClock(), ids=IDS, cluster="prod")
    assert await store.load()
    return store


async def test_what_a_controller_writes_after_the_next_was_elected_is_not_applied(
    open_meta: OpenMeta,
) -> None:
    async with open_meta() as old_meta, open_meta() as new_meta, anyio.create_task_group() as tasks:
        old, new = Elected(old_meta, "old"), Elected(new_meta, "new")
        tasks.start_soon(old.leadership.run, old.serve)
        old_term = await old.wait()
        store = await make_cluster(old_meta, old_term)
        await store.persist(topic(3), old_term)
        tasks.start_soon(new.leadership.run, new.serve)
        with anyio.fail_after(20):
            while new.leadership.active is None:  # noqa: ASYNC110 - until it waits for the claim to go
                await anyio.sleep(0.01)
        old_term.resign("paused, in the eyes of the others")
        new_term = await new.wait()
        assert new_term.controller_epoch == old_term.controller_epoch + 1
        with pytest.raises(Fenced):
            await store.persist([partition(0, 1)], old_term)
        assert [r for r, _ in (await load(new_meta)).records()][1:] == topic(3)
        await (await load(new_meta)).persist([partition(0, 1)], new_term)
        tasks.cancel_scope.cancel()


async def test_the_directory_of_coordinators_comes_with_the_first_of_them(open_meta: OpenMeta) -> None:
    async with open_meta() as meta, anyio.create_task_group() as tasks:
        elected = Elected(meta, "c1")
        tasks.start_soon(elected.leadership.run, elected.serve)
        term = await elected.wait()
        store = await make_cluster(meta, term)
        first, second = (
            MemberRecord(
                registration=CoordinatorRegistration(
                    coordinator_id=number,
                    coordinator_epoch=BrokerEpoch(number),
                    incarnation_id="i",
                    host="h",
                    port=9092,
                ),
                change=CHANGE,
            )
            for number in (1001, 1002)
        )
        await store.persist([first, second], term)
        assert [r for r, _ in (await load(meta)).records()][1:] == [first, second]
        store = await load(meta)
        await store.persist(
            [RemoveMemberRecord(kind=MemberKind.COORDINATOR, member_id=1001, change=CHANGE), second], term
        )
        assert [r for r, _ in (await load(meta)).records()][1:] == [second]
        tasks.cancel_scope.cancel()


async def test_rows_of_acls_users_and_quotas_come_and_go(
    open_meta: OpenMeta, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with open_meta() as meta, anyio.create_task_group() as tasks:
        elected = Elected(meta, "c1")
        tasks.start_soon(elected.leadership.run, elected.serve)
        store = await make_cluster(meta, await elected.wait())
        entity, reads = QuotaEntity(user="a/b", client_id="<default>"), "ALLOW User!@* READ"
        written: list[Record] = [
            acls_record("ü~!/%", reads),
            quotas_record(entity, producer_byte_rate=1.0),
            user_record("..", SHA_256),
            user_record("x" * 255, SHA_256),
        ]
        await store.persist(written, await elected.wait())
        assert sorted([r for r, _ in (await load(meta)).records()][1:], key=repr) == sorted(written, key=repr)
        store = await load(meta)
        gone: list[Record] = [acls_record("ü~!/%"), quotas_record(entity), user_record("..")]
        await store.persist(gone, await elected.wait())
        assert [r for r, _ in (await load(meta)).records()][1:] == [written[-1]]
        tasks.cancel_scope.cancel()
    assert "Received response" in caplog.text
    assert not has_secrets(caplog.text)


async def test_twenty_thousand_partitions_are_written_in_split_batches_and_read_back(
    open_meta: OpenMeta,
) -> None:
    async with open_meta(session_timeout_ms=10_000) as meta, anyio.create_task_group() as tasks:
        elected = Elected(meta, "c1")
        tasks.start_soon(elected.leadership.run, elected.serve)
        term = await elected.wait()
        store = await make_cluster(meta, term)
        clock = SystemClock()
        await store.persist(topic(20_000), term)
        started_ms = clock.now_mono_ms()
        await store.persist([partition(number, 1) for number in range(20_000)], term)
        written_ms = clock.now_mono_ms()
        loaded = await load(meta)
        read_ms = clock.now_mono_ms()
        print(
            f"20,000 partitions: written in {written_ms - started_ms} ms, read in {read_ms - written_ms} ms"
        )
        assert [record for record, _ in loaded.records()] == [record for record, _ in store.records()]
        tasks.cancel_scope.cancel()
