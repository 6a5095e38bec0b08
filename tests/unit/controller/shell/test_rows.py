"""Rows survive their encoding, and the sizes that splitting relies on are never too small."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.records import (
    BrokerRegistration,
    Cause,
    Change,
    CoordinatorRegistration,
    Member,
    MemberKind,
    MemberRecord,
    PartitionRecord,
)
from controller.shell.kept_fields import WrittenByNewer
from controller.shell.rows import (
    REASON_CHARS_MAX,
    ChunkRow,
    PartitionRow,
    change_bytes_max,
    chunk_frame_bytes_max,
    chunks_of,
    decode_chunk,
    encode_chunk,
    encode_row,
    member_path,
    partition_bytes_max,
    read_member,
)
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import (
    LeaderRecovery,
    MoveThrottle,
    PartitionState,
    Shard,
    WriterId,
)
from springtide.contract.session import ShutdownKind
from springtide.levels import Level, LevelRange
from tests.kit.controller.coordinator_cluster import CoordinatorCluster
from tests.kit.controller.shell import CHANGE, TOPIC_ID

numbers = st.integers(min_value=0, max_value=2**31 - 1)
ids = st.lists(numbers, max_size=6).map(tuple)
names = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=249)
texts = st.none() | st.text(max_size=REASON_CHARS_MAX)
throttles = st.none() | st.builds(
    MoveThrottle, rate=st.integers(min_value=1, max_value=2**63 - 1), operation=st.text(max_size=64)
)
shards = st.none() | st.builds(
    Shard,
    owner=st.integers(min_value=-1, max_value=2**31 - 1),
    standby=st.integers(min_value=-1, max_value=2**31 - 1),
    writer=st.builds(
        WriterId,
        st.integers(min_value=0, max_value=2**63 - 1),
        st.integers(min_value=0, max_value=2**15 - 1),
    ),
)
changes = st.builds(
    Change,
    cause=st.sampled_from(Cause),
    at_ms=st.integers(min_value=0, max_value=2**53),
    actor=st.text(max_size=50),
    reason=texts,
    request_id=st.none() | st.text(max_size=50),
    operation_id=st.none() | st.text(max_size=50),
)


@st.composite
def records(draw: st.DrawFn) -> list[PartitionRecord]:
    topic = draw(names)
    return [
        PartitionRecord(
            state=PartitionState(
                topic_id=TOPIC_ID,
                topic=topic,
                partition=number,
                replicas=draw(ids),
                adding_replicas=draw(ids),
                removing_replicas=draw(ids),
                original_replicas=draw(ids),
                throttle=draw(throttles),
                new_replicas=draw(ids),
                leader=draw(numbers),
                leader_epoch=LeaderEpoch(draw(numbers)),
                partition_epoch=PartitionEpoch(draw(numbers)),
                isr=draw(ids),
                elr=draw(ids),
                last_known_elr=draw(ids),
                last_known_leader=draw(st.integers(min_value=-1, max_value=2**31 - 1)),
                min_insync_replicas=draw(numbers),
                recovery=draw(st.sampled_from((LeaderRecovery.RECOVERED, LeaderRecovery.RECOVERING))),
                unclean_leader_epoch=LeaderEpoch(draw(st.integers(min_value=-1, max_value=2**31 - 1))),
                shard=draw(shards),
            ),
            change=draw(changes),
        )
        for number in sorted(draw(st.sets(numbers, max_size=5)))
    ]


@given(records())
def test_a_chunk_is_read_as_it_was_written(written: list[PartitionRecord]) -> None:
    topic = written[0].state.topic if written else "t"
    assert decode_chunk(encode_chunk(topic, TOPIC_ID, written)) == written


@given(records())
def test_a_chunk_is_what_its_row_says(written: list[PartitionRecord]) -> None:
    topic = written[0].state.topic if written else "t"
    data = encode_chunk(topic, TOPIC_ID, written)
    assert msgspec.json.encode(msgspec.json.decode(data, type=ChunkRow)) == data


@given(records())
def test_a_chunk_is_never_longer_than_its_bounds_say(written: list[PartitionRecord]) -> None:
    topic = written[0].state.topic if written else "t"
    bound = chunk_frame_bytes_max(topic) + sum(
        partition_bytes_max(record.state) + change_bytes_max(record.change) for record in written
    )
    assert len(encode_chunk(topic, TOPIC_ID, written)) <= bound


def test_rows_of_one_step_share_their_change() -> None:
    change = Change(cause=Cause.BROKER_DIED, at_ms=1)
    state = PartitionState(
        topic_id=TOPIC_ID,
        topic="orders",
        partition=0,
        replicas=(1,),
        leader=1,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=(1,),
        min_insync_replicas=1,
    )
    rows = [
        PartitionRecord(state=msgspec.structs.replace(state, partition=number), change=change)
        for number in range(100)
    ]
    assert encode_chunk("orders", TOPIC_ID, rows).count(b"broker_died") == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"\xff",
        b'{"topic":"t","topic_id":"x","changes":[],"partitions":[{"partition":0,"replicas":[1],"leader":1,'
        b'"leader_epoch":0,"partition_epoch":0,"isr":[1],"min_insync_replicas":1,"change":0}]}',
    ],
)
def test_bytes_that_are_no_chunk_are_an_error_and_not_an_empty_chunk(data: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_chunk(data)


@pytest.mark.parametrize(("partitions", "chunks"), [(1, 1), (100, 1), (101, 2), (250, 3)])
def test_chunks_hold_a_hundred_partitions(partitions: int, chunks: int) -> None:
    assert len(chunks_of(partitions)) == chunks


@pytest.mark.parametrize(
    "member",
    [
        BrokerRegistration(broker_id=3, broker_epoch=BrokerEpoch(9), incarnation_id="i", host="h", port=1),
        CoordinatorRegistration(
            coordinator_id=3, coordinator_epoch=BrokerEpoch(9), incarnation_id="i", host="h", port=1
        ),
    ],
    ids=lambda member: member.kind,
)
def test_a_members_row_calls_its_id_and_epoch_by_its_kind_and_does_not_name_the_kind(member: Member) -> None:
    record = MemberRecord(registration=member, change=CHANGE)
    data = encode_row(record, 4)
    assert data.startswith(b'{"registration":{"%s_id":3,"%s_epoch":9,' % (2 * (member.kind.encode(),)))
    assert b'"kind"' not in data
    assert read_member("/x", data, member.kind) == (record, 4)
    assert member_path("prod", member.kind, 3) == f"/clusters/prod/{member.kind}s/3"


def test_a_word_of_a_later_release_is_never_in_a_row() -> None:
    state = PartitionState(
        topic_id=TOPIC_ID,
        topic="orders",
        partition=0,
        replicas=(1,),
        leader=1,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=(1,),
        min_insync_replicas=1,
        recovery=LeaderRecovery.RECOVERING,
    )
    chunk = encode_chunk("orders", TOPIC_ID, [PartitionRecord(state=state, change=CHANGE)])
    with pytest.raises(msgspec.ValidationError, match="LeaderRecovery"):
        decode_chunk(chunk.replace(b'"recovering"', b'"of_next_year"'))
    unknown = msgspec.structs.replace(state, recovery=LeaderRecovery.UNKNOWN)
    with pytest.raises(msgspec.ValidationError, match="LeaderRecovery"):
        encode_chunk("orders", TOPIC_ID, [PartitionRecord(state=unknown, change=CHANGE)])

    broker = BrokerRegistration(
        broker_id=3,
        broker_epoch=BrokerEpoch(9),
        incarnation_id="i",
        host="h",
        port=1,
        last_shutdown=ShutdownKind.CLEAN,
    )
    row = encode_row(MemberRecord(registration=broker, change=CHANGE), 1)
    with pytest.raises(WrittenByNewer, match="last_shutdown = 'of_next_year'"):
        read_member("/b/3", row.replace(b'"clean"', b'"of_next_year"'), MemberKind.BROKER)
    broker = msgspec.structs.replace(broker, last_shutdown=ShutdownKind.UNKNOWN)
    with pytest.raises(msgspec.ValidationError, match="ShutdownKind"):
        encode_row(MemberRecord(registration=broker, change=CHANGE), 1)


#: As release 0.1 wrote it (commit c3ed4a10).
OF_0_2 = LevelRange(Level(0), Level(1))
BROKER_ROW_0_1 = (
    b'{"registration":{"broker_id":1,"broker_epoch":1,"incarnation_id":"1-a","host":"store1","port":9092,'
    b'"listeners":{},"rack":null,"log_dir_ids":["dir-1"],"offline_log_dir_ids":[],"admitted":false,'
    b'"fenced":true,"shutting_down":false,"cordoned":false,"draining":false,"demoted":false,"configs":{},'
    b'"assigned_rack":null,"own_rack":null,"labels":{},"last_shutdown":"first_start","registered_at_ms":0,'
    b'"version":"","chain_epoch":1,"epoch_before_recovery":-1,"worker_of":null},"change":{"cause":'
    b'"broker_registered","at_ms":0,"actor":"broker:1","reason":"last stop: first_start",'
    b'"request_id":null,"operation_id":null},"version":2}'
)
COORDINATOR_ROW_0_1 = (
    b'{"registration":{"coordinator_id":1001,"coordinator_epoch":1,"incarnation_id":"1001-a",'
    b'"host":"desk1001","port":9092,"listeners":{},"rack":null,"admitted":false,"fenced":true,'
    b'"draining":false,"demoted":false,"registered_at_ms":0,"version":""},"change":{"cause":'
    b'"coordinator_registered","at_ms":0,"actor":"coordinator:1001","reason":null,"request_id":null,'
    b'"operation_id":null},"version":2}'
)


def test_at_level_0_a_process_that_tells_levels_has_the_row_that_release_0_1_would_write() -> None:
    cluster = CoordinatorCluster(brokers=())
    cluster.levels[1] = OF_0_2
    cluster.register(1)
    assert encode_row(last_member(cluster), 2) == BROKER_ROW_0_1
    cluster = CoordinatorCluster(brokers=())
    cluster.levels[1001] = OF_0_2
    cluster.register_coordinator(1001)
    assert encode_row(last_member(cluster), 2) == COORDINATOR_ROW_0_1


def last_member(cluster: CoordinatorCluster) -> MemberRecord:
    return [record for record in cluster.records if isinstance(record, MemberRecord)][-1]


def test_each_field_of_a_partitions_state_is_read_back() -> None:
    writer = WriterId(producer_id=7, producer_epoch=8)
    values: dict[str, object] = {
        "replicas": (1, 2, 3, 4),
        "adding_replicas": (4,),
        "removing_replicas": (1,),
        "original_replicas": (1, 2, 3),
        "throttle": MoveThrottle(operation="op", rate=5),
        "new_replicas": (4,),
        "leader": 2,
        "leader_epoch": LeaderEpoch(3),
        "partition_epoch": PartitionEpoch(9),
        "isr": (2, 3),
        "elr": (1,),
        "last_known_elr": (4,),
        "last_known_leader": 1,
        "min_insync_replicas": 2,
        "recovery": LeaderRecovery.RECOVERING,
        "unclean_leader_epoch": LeaderEpoch(2),
        "high_watermark_floor": 11,
        "shard": Shard(owner=1001, standby=1002, writer=writer),
    }
    state = PartitionState(topic_id=TOPIC_ID, topic="orders", partition=5, **values)  # type: ignore[arg-type]
    fields = set(PartitionState.__struct_fields__) - {"topic_id", "topic", "partition"}
    assert set(values) == fields, "give the new one a value that is not its default"
    record = PartitionRecord(state=state, change=CHANGE)
    data = encode_chunk("orders", TOPIC_ID, [record])
    assert decode_chunk(data) == [record]
    (row,) = msgspec.json.decode(data)["partitions"]
    assert set(row) == fields | {"partition", "change"}, "none of them was at its default"


def test_a_row_of_a_chunk_has_each_field_of_a_partitions_state() -> None:
    """What `read_chunk` compares is the row: a field that the state alone has would be lost."""
    of_state = set(PartitionState.__struct_fields__) - {"topic", "topic_id"}
    assert set(PartitionRow.__struct_fields__) - {"change"} == of_state
