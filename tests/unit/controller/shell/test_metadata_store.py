"""What is persisted is what was decided, in its order, by the controller of the present epoch alone."""

from __future__ import annotations

from itertools import count, islice

import anyio
import pytest

from controller.core.acls import PATTERN_BYTES_MAX
from controller.core.records import (
    Cause,
    Change,
    ClusterRecord,
    CoordinatorRegistration,
    MemberKind,
    MemberRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RemoveMemberRecord,
    RemoveTopicRecord,
    SecurityRecord,
)
from controller.shell.acl_chunks import CHUNK_BYTES_MAX, CHUNKS, ROW_BYTES_MAX, number_of
from controller.shell.meta import Create, SetData
from controller.shell.metadata_store import Conflict, Fenced, MetadataCorrupt
from controller.shell.rows import (
    ZNODE_BYTES_MAX,
    chunk_path,
    head_path,
    members_path,
    topic_path,
)
from controller.shell.security_rows import encode_security, security_path
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.security import QuotaEntity
from tests.kit.clocks import VirtualClock
from tests.kit.controller.security import (
    SHA_256,
    SHA_512,
    acls_record,
    has_secrets,
    quotas_record,
    user_record,
)
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
from tests.kit.memory.zookeeper import REQUEST_BYTES_MAX, LostAnswer, MemoryMeta, MemoryZooKeeper

pytestmark = pytest.mark.anyio

READS, WRITES = "ALLOW alice@* READ", "ALLOW alice@* WRITE"


def topic(partitions: int, *, partition_epoch: int = 0) -> list[Record]:
    rows = [partition_record(number, partition_epoch=partition_epoch) for number in range(partitions)]
    return [*rows, topic_record(partitions)]


async def read_back(meta: MemoryMeta, clock: VirtualClock) -> list[Record]:
    store = await load_store(meta, clock)
    return [record for record, _ in store.records()]


async def read_members(meta: MemoryMeta, clock: VirtualClock) -> list[Record]:
    return [record for record in await read_back(meta, clock) if isinstance(record, MemberRecord)]


async def read_epochs(meta: MemoryMeta, clock: VirtualClock) -> dict[int, int]:
    """Partition epochs by partition, in order."""
    records = await read_back(meta, clock)
    states = [record.state for record in records if isinstance(record, PartitionRecord)]
    return {state.partition: state.partition_epoch for state in states}


async def test_what_was_persisted_is_read_back_as_the_same_records(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    written: list[Record] = [
        ClusterRecord(cluster_id="CCCCCCCCCCCCCCCCCCCCCC", configs={"num.partitions": "3"}, change=CHANGE),
        ProducerIdsRecord(next_producer_id=1000, change=CHANGE),
        broker_record(1),
        broker_record(2),
        *topic(250),
    ]
    await store.persist(written, term)
    assert await read_back(meta, clock) == written


async def test_a_hundred_partitions_share_a_znode(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    await (await load_store(meta, clock)).persist(topic(250), term)
    chunks = sorted(path for path in zookeeper.nodes if "/partitions-" in path)
    assert chunks == [chunk_path("prod", TOPIC_ID, number) for number in range(3)]


async def test_records_of_a_group_become_one_write(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    await store.persist(topic(10), term)
    writes_before = len(zookeeper.history)
    # The same partition twice, and a broker: the later state of each is all that has to be written.
    await store.persist(
        [partition_record(3, partition_epoch=1), broker_record(1), partition_record(3, partition_epoch=2)],
        term,
    )
    assert len(zookeeper.history) == writes_before + 1
    assert (await read_epochs(meta, clock))[3] == 2


async def test_a_large_batch_is_split_below_the_request_limit_and_keeps_its_order(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    await store.persist(topic(9_000), term)
    writes_before = len(zookeeper.history)
    exclusions = [partition_record(number, partition_epoch=1) for number in range(9_000)]
    await store.persist([*exclusions, broker_record(7)], term)
    writes = zookeeper.history[writes_before:]
    assert len(writes) > 1
    for write in writes:
        assert (
            sum(len(op.path) + len(getattr(op, "data", b"")) for op in write.operations) < REQUEST_BYTES_MAX
        )
    # The registration is in the last write: never before an exclusion (I11, unproven logs lose their seats
    # first).
    holders = [i for i, write in enumerate(writes) if any("/brokers/7" in op.path for op in write.operations)]
    assert holders == [len(writes) - 1]


async def test_after_a_crash_between_two_writes_a_prefix_of_the_records_stands(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    await store.persist(topic(9_000), term)
    meta.hold_writes()
    async with anyio.create_task_group() as tasks:
        records: list[Record] = [partition_record(number, partition_epoch=1) for number in range(9_000)]
        tasks.start_soon(store.persist, [*records, broker_record(7)], term)
        await meta.until_held(2)
        meta.forget_held_writes(after=1)
        meta.release_writes()
        await anyio.sleep(0.1)
        tasks.cancel_scope.cancel()
    epochs = list((await read_epochs(zookeeper.connect(), clock)).values())
    assert 0 < sum(epochs) < 9_000
    assert epochs == sorted(epochs, reverse=True)
    assert "/clusters/prod/brokers/7" not in zookeeper.nodes


async def test_a_controller_that_was_replaced_changes_nothing(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    other = zookeeper.connect()
    await other.start_write([SetData("/controller_epoch", b'{"controller_epoch":2}', 0)]).outcome()
    nodes = dict(zookeeper.nodes)
    with pytest.raises(Fenced):
        await store.persist(topic(3), term)
    assert zookeeper.nodes == nodes


@pytest.mark.parametrize("is_applied", [True, False])
async def test_a_write_whose_answer_was_lost_is_read_back_and_done_once(
    is_applied: bool, zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    head_before = zookeeper.nodes[head_path("prod")].version
    meta.faults.append(LostAnswer(is_applied=is_applied))
    await store.persist(topic(3), term)
    await store.persist([partition_record(1, partition_epoch=1)], term)
    assert zookeeper.nodes[head_path("prod")].version == head_before + 2
    assert len(await read_back(meta, clock)) == 1 + 4


@pytest.mark.parametrize("applied", [(True, False), (False, False), (False, True)])
async def test_lost_answers_in_the_middle_of_a_split_batch_leave_no_gap(
    applied: tuple[bool, bool], zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    meta.faults.extend(LostAnswer(is_applied=is_applied) for is_applied in applied)
    told: list[int] = []
    await store.persist(topic(9_000), term, on_persisted=told.append)
    assert told == sorted(set(told)) and told[-1] == 9_001
    assert await read_back(meta, clock) == [record for record, _ in store.records()]
    assert len(await read_back(meta, clock)) == 1 + 9_001


async def test_a_foreign_hand_on_a_row_is_a_conflict_and_not_overwritten(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    await store.persist(topic(3), term)
    path = chunk_path("prod", TOPIC_ID, 0)
    node = await meta.get(path)
    assert node is not None
    await meta.start_write([SetData(path, node.data, node.version)]).outcome()
    with pytest.raises(Conflict, match="bad_version"):
        await store.persist([partition_record(1, partition_epoch=1)], term)


async def test_removing_a_topic_removes_its_chunks(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    await store.persist(topic(250), term)
    await store.persist(
        [
            topic_record(250, deleting=True),
            RemoveTopicRecord(topic_id=TOPIC_ID, topic="orders", change=CHANGE),
        ],
        term,
    )
    assert not any(TOPIC_ID in path for path in zookeeper.nodes)


async def test_a_topic_made_and_removed_in_one_group_leaves_nothing(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    removal = RemoveTopicRecord(topic_id=TOPIC_ID, topic="orders", change=CHANGE)
    await store.persist([*topic(3), removal, broker_record(1)], term)
    assert not any(TOPIC_ID in path for path in zookeeper.nodes)
    assert "/clusters/prod/brokers/1" in zookeeper.nodes


async def test_partitions_without_an_announced_topic_are_offered_for_removal(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    await (await load_store(meta, clock)).persist(topic(3)[:-1], term)  # A crash before the announcement.
    assert zookeeper.nodes[topic_path("prod", TOPIC_ID)].data == b""
    store = await load_store(meta, clock)
    assert [type(record) for record, _ in store.records()] == [ClusterRecord]
    assert [orphan.topic_id for orphan in store.orphans()] == [TOPIC_ID]
    await store.persist(store.orphans(), term)
    assert not any(TOPIC_ID in path for path in zookeeper.nodes)


async def test_a_broker_that_is_removed_and_returns_goes_on_counting_versions(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    await store.persist([broker_record(1)], term)
    await store.persist(
        [RemoveMemberRecord(kind=MemberKind.BROKER, member_id=1, change=CHANGE), broker_record(2)], term
    )
    await store.persist([broker_record(1, broker_epoch=9)], term)
    numbers = {
        record.registration.member_id: number
        for record, number in (await load_store(meta, clock)).records()
        if isinstance(record, MemberRecord)
    }
    assert numbers == {1: 5, 2: 4}  # The cluster's own row was 1, the first registration 2, its removal 3.


async def test_coordinators_are_read_back_in_a_directory_that_comes_with_the_first(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    assert members_path("prod", MemberKind.COORDINATOR) not in zookeeper.nodes
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
    await store.persist([first], term)
    await store.persist([second], term)
    assert await read_members(meta, clock) == [first, second]
    store = await load_store(meta, clock)
    await store.persist(
        [RemoveMemberRecord(kind=MemberKind.COORDINATOR, member_id=1001, change=CHANGE), second], term
    )
    assert await read_members(meta, clock) == [second]


async def test_acls_users_and_quotas_are_read_back_in_folders_that_come_with_the_first(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    entity = QuotaEntity(user="alice", client_id="<default>")
    first: list[Record] = [
        acls_record("a", READS, WRITES),
        acls_record("b/.", READS),
        quotas_record(entity, producer_byte_rate=1024.0),
        user_record(".", SHA_512),
        user_record("alice", SHA_256, SHA_512),
    ]
    await store.persist(first, term)
    assert {path for path in zookeeper.nodes if path.count("/") == 4} == {
        f"/clusters/prod/{row}"
        for row in (
            f"acls/chunk-{number_of('topic:literal:a')}",
            f"acls/chunk-{number_of('topic:literal:b%2F.')}",
            "quotas/user=alice,client-id=%3Cdefault%3E",
            "users/%2E",
            "users/alice",
        )
    }
    assert sorted((await read_back(meta, clock))[1:], key=repr) == sorted(first, key=repr)
    store = await load_store(meta, clock)
    left: list[Record] = [acls_record("a", WRITES), user_record("alice", SHA_256)]
    gone: list[Record] = [acls_record("b/."), quotas_record(entity), user_record(".")]
    await store.persist([*gone, *left], term)
    assert (await read_back(meta, clock))[1:] == left


async def test_bindings_that_come_back_go_on_counting_versions(meta: MemoryMeta, clock: VirtualClock) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    await store.persist([acls_record("a", READS), acls_record("a"), acls_record("a", WRITES)], term)
    await store.persist([acls_record("a")], term)
    await store.persist([acls_record("a", READS)], term)
    found = [(record, number) for record, number in (await load_store(meta, clock)).records()]
    assert found[1:] == [(acls_record("a", READS), 6)]  # The cluster's own row was 1.


ACLS = "/clusters/prod/acls"


async def test_many_patterns_take_few_znodes_and_are_read_back(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    given: list[Record] = [acls_record(f"topic-{number}", READS) for number in range(2_000)]
    await store.persist(given, term)
    assert sum(path.startswith(f"{ACLS}/") for path in zookeeper.nodes) <= CHUNKS
    assert sorted((await read_back(meta, clock))[1:], key=repr) == sorted(given, key=repr)
    await store.persist([acls_record(f"topic-{number}") for number in range(2_000)], term)
    assert [path for path in zookeeper.nodes if path.startswith(f"{ACLS}/")] == []
    assert len(await read_back(meta, clock)) == 1


async def test_a_pattern_with_a_znode_of_its_own_is_read_and_moves_into_its_chunk_when_it_changes(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    """As clusters have them that were written before there were chunks."""
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    old: list[SecurityRecord] = [acls_record("a", READS), acls_record("b", READS)]
    rows = [Create(security_path("prod", one), encode_security(one, 2)) for one in old]
    await meta.start_write([Create(ACLS, b""), *rows]).outcome()
    store = await load_store(meta, clock)
    assert (await read_back(meta, clock))[1:] == old
    await store.persist([acls_record("a", WRITES), acls_record("b")], term)
    assert [path for path in zookeeper.nodes if path.startswith(f"{ACLS}/")] == [
        f"{ACLS}/chunk-{number_of('topic:literal:a')}"
    ]
    assert (await read_back(meta, clock))[1:] == [acls_record("a", WRITES)]


async def test_a_row_that_grows_leaves_its_chunk_and_comes_back_when_it_shrinks(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    large = acls_record("a", *(f"ALLOW {'x' * 900}{number}@* READ" for number in range(ROW_BYTES_MAX // 800)))
    chunk, own = f"{ACLS}/chunk-{number_of('topic:literal:a')}", f"{ACLS}/topic:literal:a"
    for record, place in ((acls_record("a", READS), chunk), (large, own), (acls_record("a", WRITES), chunk)):
        await store.persist([record], term)
        assert [path for path in zookeeper.nodes if path.startswith(f"{ACLS}/")] == [place]
        assert (await read_back(meta, clock))[1:] == [record]


async def test_a_chunk_that_is_full_takes_no_more_rows(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    names = (name for name in map(str, count()) if number_of(f"topic:literal:{name}") == 0)
    lines = [f"ALLOW {'x' * 900}{number}@* READ" for number in range(ROW_BYTES_MAX // 1_200)]
    given: list[Record] = [acls_record(name, *lines) for name in islice(names, CHUNK_BYTES_MAX // 5_000)]
    await store.persist(given, term)
    sizes = {path: len(node.data) for path, node in zookeeper.nodes.items() if path.startswith(f"{ACLS}/")}
    assert CHUNK_BYTES_MAX // 2 < sizes.pop(f"{ACLS}/chunk-0") <= CHUNK_BYTES_MAX + ROW_BYTES_MAX
    assert 0 < len(sizes) < len(given)
    assert sorted((await read_back(meta, clock))[1:], key=repr) == sorted(given, key=repr)


async def test_a_row_of_another_chunk_is_reported(meta: MemoryMeta, clock: VirtualClock) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    await store.persist([acls_record("a", READS)], term)
    number = number_of("topic:literal:a")
    node = await meta.get(f"{ACLS}/chunk-{number}")
    assert node is not None
    await meta.start_write([Create(f"{ACLS}/chunk-{number ^ 1}", node.data)]).outcome()
    with pytest.raises(MetadataCorrupt, match=f"chunk-{number ^ 1} holds the row of another chunk"):
        await load_store(meta, clock)


async def test_the_largest_row_of_a_pattern_is_written_alone_and_read_back(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    lines = [f"ALLOW {'x' * 900}{number:04d}@* READ" for number in range(PATTERN_BYTES_MAX // 1_030)]
    largest = acls_record("a", *lines)
    await store.persist([acls_record("b", READS), largest, acls_record("c", READS)], term)
    assert len(zookeeper.nodes["/clusters/prod/acls/topic:literal:a"].data) < ZNODE_BYTES_MAX
    assert largest in await read_back(meta, clock)


async def test_a_row_under_another_name_is_reported(meta: MemoryMeta, clock: VirtualClock) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    await store.persist([user_record("alice", SHA_256)], term)
    node = await meta.get("/clusters/prod/users/alice")
    assert node is not None
    await meta.start_write([Create("/clusters/prod/users/bob", node.data)]).outcome()
    with pytest.raises(MetadataCorrupt, match="/clusters/prod/users/bob holds the row of another name"):
        await load_store(meta, clock)


async def test_what_is_said_of_a_conflict_has_no_secret(meta: MemoryMeta, clock: VirtualClock) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    await store.persist([user_record("alice", SHA_256)], term)
    path = "/clusters/prod/users/alice"
    node = await meta.get(path)
    assert node is not None
    await meta.start_write([SetData(path, node.data, node.version)]).outcome()
    with pytest.raises(Conflict, match="bad_version at SetData /clusters/prod/users/alice") as conflict:
        await store.persist([user_record("alice", SHA_512)], term)
    assert not has_secrets(str(conflict.value))


async def test_a_missing_chunk_is_reported_and_not_read_as_an_empty_one(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    await (await load_store(meta, clock)).persist(topic(150), term)
    del zookeeper.nodes[chunk_path("prod", TOPIC_ID, 1)]
    with pytest.raises(MetadataCorrupt, match="partitions-1 is missing"):
        await load_store(meta, clock)


async def test_an_overlong_reason_is_cut_in_zookeeper_and_the_chunk_stays_writable(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    term = await begin_term(meta, clock)
    await make_cluster(meta, term)
    store = await load_store(meta, clock)
    await store.persist(topic(100), term)
    for number in range(100):
        long = Change(cause=Cause.LEADER_ELECTED, at_ms=number, reason="\x01" * 50_000)
        record = partition_record(number, partition_epoch=1)
        await store.persist([type(record)(state=record.state, change=long)], term)
    assert len(zookeeper.nodes[chunk_path("prod", TOPIC_ID, 0)].data) < 1_000_000
