"""What is asked of coordinators and leaders about groups, and what is made of their answers and failures."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from controller.shell import group_messages, kafka_groups, kafka_questions
from controller.shell.client_groups import (
    LATEST,
    CommittedPlace,
    DeletionNotStored,
    DeletionRefused,
    GroupAbsent,
    GroupBusy,
    GroupsUnavailable,
    LogPosition,
)
from controller.shell.clock import SystemClock
from controller.shell.kafka_groups import KafkaGroups
from controller.shell.kafka_questions import brokers_of, coordinators_of
from controller.shell.outcomes import OutcomeUnknown
from controller.shell.published import Published
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.session import ListenerAddress
from springtide.levels import CONSUMER_GROUPS
from springtide.tls import KafkaTls
from springtide.wire.apis import ApiKey
from springtide.wire.compression import Compression
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import FetchedPartition, encode_fetch_response
from springtide.wire.framing import FileChunk
from springtide.wire.record_batch import TimestampType
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.controller.kafka_node import Instead, KafkaNode, listening
from tests.kit.controller.kafka_views import ORDERS, broker, named, view
from tests.kit.springtide.certificates import PrivateCa

pytestmark = pytest.mark.anyio

RANGE_OF_ORDERS_1 = b"\0\0\0\0\0\1\0\6orders\0\0\0\1\0\0\0\1\xff\xff\xff\xff"


@pytest.fixture
def anyio_backend() -> str:
    """Real time, for real sockets."""
    return "asyncio"


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What passes is given up long before the question's time is over, also on a busy machine."""
    monkeypatch.setattr(kafka_questions, "RETRIED_MS_MAX", 100)
    monkeypatch.setattr(kafka_questions, "LIST_RETRIED_MS_MAX", 100)
    monkeypatch.setattr(kafka_questions, "RETRY_MS", 10)
    monkeypatch.setattr(kafka_groups, "RECORD_TIMES_MS_MAX", 1_000)


@pytest.fixture
def short_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_questions, "QUESTION_MS_MAX", 500)
    monkeypatch.setattr(kafka_questions, "FIND_MS_MAX", 200)


@pytest.fixture
async def node() -> AsyncIterator[KafkaNode]:
    """Broker 1 and coordinator 1001 in one."""
    async with listening() as found:
        found.answers[ApiKey.FIND_COORDINATOR] = named(found)
        yield found


def groups_of(published: Published, *, tls: KafkaTls | None = None) -> KafkaGroups:
    return KafkaGroups(lambda _: published, SystemClock(), tls=tls)


def group(group_id: str = "g", **fields: Any) -> dict[str, Any]:
    return {"group_id": group_id, "group_state": "Empty", "protocol_type": "consumer", **fields}


async def test_each_coordinator_tells_its_groups_of_consumers(node: KafkaNode) -> None:
    async with listening() as other:
        node.answers[ApiKey.LIST_GROUPS] = lambda _: {
            "groups": [group("a"), group("connect-b", protocol_type="connect")]
        }
        other.answers[ApiKey.LIST_GROUPS] = lambda _: {
            "groups": [group("c", group_state="PreparingRebalance", protocol_type="")]
        }
        listed, unanswered = await groups_of(view(node.port, other.port)).listed("prod")
    assert {(one.group_id, one.state, one.protocol_type) for one in listed} == {
        ("a", "empty", "consumer"),
        ("c", "preparing_rebalance", ""),
    }
    assert unanswered == []
    assert node.client_ids == {"springtide-controller"}  # who is told so by coordinators


async def test_groups_are_listed_though_a_coordinator_does_not_answer(node: KafkaNode) -> None:
    """It has died a moment ago, and is still listed."""
    async with listening() as gone:
        pass
    node.answers[ApiKey.LIST_GROUPS] = lambda _: {"groups": [group()]}
    listed, unanswered = await groups_of(view(node.port, gone.port)).listed("prod")
    assert [one.group_id for one in listed] == ["g"]
    assert len(unanswered) == 1
    assert unanswered[0].startswith(f"127.0.0.1:{gone.port}: ")
    with pytest.raises(GroupsUnavailable, match=f"127.0.0.1:{gone.port}: "):
        await groups_of(view(gone.port)).listed("prod")


async def test_a_coordinator_whose_shards_open_is_asked_again(node: KafkaNode) -> None:
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
    node.answers[ApiKey.LIST_GROUPS] = lambda _: {"error_code": codes.pop(0), "groups": [group()]}
    listed, unanswered = await groups_of(view(node.port)).listed("prod")
    assert (len(listed), unanswered) == (1, [])


async def test_a_group_is_told_in_our_words(node: KafkaNode) -> None:
    member = {
        "member_id": "m",
        "client_id": "app",
        "client_host": "/10.0.0.9",
        "member_assignment": RANGE_OF_ORDERS_1,
    }
    node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _: {
        "groups": [group(group_state="CompletingRebalance", protocol_data="range", members=[member])]
    }
    found = await groups_of(view(node.port)).described("prod", "g")
    assert (found.state, found.protocol_type, found.assignor) == ("completing_rebalance", "consumer", "range")
    assert (found.coordinator_id, found.endpoint) == (1001, f"127.0.0.1:{node.port}")
    assert found.members[0].assigned == (("orders", 1),)
    assert found.members[0].instance_id is None
    await node.all_left()


@pytest.mark.parametrize(
    "assignment", [b"", RANGE_OF_ORDERS_1[:-5], b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\xff\xff"]
)
async def test_a_member_whose_assignment_is_none_has_no_partitions(
    node: KafkaNode, assignment: bytes
) -> None:
    """Its leader may send any bytes."""
    node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _: {
        "groups": [group(members=[{"member_id": "m", "member_assignment": assignment}])]
    }
    found = await groups_of(view(node.port)).described("prod", "g")
    assert found.members[0].assigned == ()


@pytest.mark.parametrize(
    "fields", [{"group_state": "Dead", "protocol_type": ""}, {"protocol_type": "connect"}]
)
async def test_what_is_no_group_of_consumers_is_absent(node: KafkaNode, fields: dict[str, str]) -> None:
    node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _: {"groups": [group(**fields)]}
    with pytest.raises(GroupAbsent):
        await groups_of(view(node.port)).described("prod", "g")


async def test_a_group_of_the_newer_protocol_is_asked_for_where_the_cluster_has_them(node: KafkaNode) -> None:
    published = view(node.port)
    node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _: {"groups": [group(group_state="Dead", protocol_type="")]}
    topics = [{"topic_name": "orders", "partitions": [1, 3]}]
    member = {
        "member_id": "m",
        "instance_id": "i",
        "client_id": "app",
        "client_host": "/10.0.0.9",
        "assignment": {"topic_partitions": topics},
    }
    told: dict[str, Any] = {
        "group_id": "g",
        "group_state": "Reconciling",
        "assignor_name": "uniform",
        "members": [member],
    }
    node.answers[ApiKey.CONSUMER_GROUP_DESCRIBE] = lambda _: {"groups": [told]}
    with pytest.raises(GroupAbsent):
        await groups_of(published).described("prod", "g")
    published.image.level = CONSUMER_GROUPS.since
    found = await groups_of(published).described("prod", "g")
    assert (found.state, found.protocol_type, found.assignor) == ("reconciling", "consumer", "uniform")
    assert found.members[0].assigned == (("orders", 1), ("orders", 3))
    assert found.members[0].instance_id == "i"
    told["error_code"] = ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(GroupAbsent, match="its coordinator does not know it"):
        await groups_of(published).described("prod", "g")


async def test_a_coordinator_that_says_it_is_not_the_one_is_looked_up_anew(node: KafkaNode) -> None:
    codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
    node.answers[ApiKey.DELETE_GROUPS] = lambda _: {
        "results": [{"group_id": "g", "error_code": codes.pop(0)}]
    }
    await groups_of(view(node.port)).delete("prod", "g")
    assert node.asked == [ApiKey.FIND_COORDINATOR, ApiKey.DELETE_GROUPS] * 2
    moved = {"results": [{"group_id": "g", "error_code": ErrorCode.NOT_COORDINATOR}]}
    node.answers[ApiKey.DELETE_GROUPS] = lambda _: moved
    with pytest.raises(GroupsUnavailable, match="the cluster answered: Broker: Not coordinator"):
        await groups_of(view(node.port)).delete("prod", "g")


async def test_a_broker_that_is_silent_or_dead_costs_only_a_moment(
    node: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_questions, "FIND_MS_MAX", 100)
    node.answers[ApiKey.OFFSET_FETCH] = lambda _: {}
    async with listening() as silent, listening() as dead:
        silent.answers[ApiKey.FIND_COORDINATOR] = lambda _: Instead.BE_SILENT
        dead.answers[ApiKey.FIND_COORDINATOR] = lambda _: Instead.HANG_UP
        assert await groups_of(view(dead.port, silent.port, node.port)).committed("prod", "g") == {}
    published = view(silent.port, node.port)
    published.image.brokers[1] = broker(1, silent.port, fenced=True)
    assert [one.node_id for one in brokers_of(published)] == [2, 1]


def test_without_a_live_coordinator_or_a_broker_nobody_is_asked() -> None:
    with pytest.raises(GroupsUnavailable, match="no coordinator of 'prod' is admitted and live"):
        coordinators_of(view(9092, coordinator_fenced=True))
    with pytest.raises(GroupsUnavailable, match="no broker"):
        brokers_of(view())


async def test_partitions_without_an_offset_or_a_leader_are_left_out(node: KafkaNode) -> None:
    rows = [
        {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": -1},
        {"partition_index": 1, "committed_offset": -1, "committed_leader_epoch": -1},
        {"partition_index": 2, "committed_offset": 9, "committed_leader_epoch": 3},
    ]
    node.answers[ApiKey.OFFSET_FETCH] = lambda _: {"topics": [{"name": "orders", "partitions": rows}]}
    groups = groups_of(view(node.port))
    assert await groups.committed("prod", "g") == {
        ORDERS: CommittedPlace(offset=7),
        ("orders", 2): CommittedPlace(offset=9, leader_epoch=LeaderEpoch(3)),
    }
    told = {"partition_index": 0, "offset": 9, "timestamp": -1}
    unasked = {"partition_index": 5, "offset": 9, "timestamp": -1}
    node.answers[ApiKey.LIST_OFFSETS] = lambda _: {
        "topics": [{"name": "orders", "partitions": [told, unasked]}]
    }
    wanted = {ORDERS: LATEST, ("lost", 0): LATEST}
    assert await groups.log_offsets("prod", wanted) == {ORDERS: LogPosition(offset=9, timestamp_ms=None)}
    told["error_code"] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await groups.log_offsets("prod", wanted) == {}
    assert await groups.log_offsets("prod", {}) == {}


@pytest.mark.parametrize(
    ("code", "expected", "words"),
    [
        (ErrorCode.GROUP_ID_NOT_FOUND, GroupAbsent, "Broker: The group id does not exist"),
        (ErrorCode.NON_EMPTY_GROUP, GroupBusy, "Broker: The group is not empty"),
        (
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            GroupsUnavailable,
            "the cluster answered: Broker: Group authorization failed",
        ),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, GroupsUnavailable, "Broker: Coordinator not available"),
    ],
)
async def test_errors_say_what_became_of_the_request(
    node: KafkaNode, code: ErrorCode, expected: type[Exception], words: str
) -> None:
    groups = groups_of(view(node.port))
    node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _: {"groups": [group(error_code=code)]}
    node.answers[ApiKey.DELETE_GROUPS] = lambda _: {"results": [{"group_id": "g", "error_code": code}]}
    for ask in (groups.described, groups.delete):
        with pytest.raises(expected, match=words):
            await ask("prod", "g")
    await node.all_left()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NONE, None),
        (ErrorCode.REQUEST_TIMED_OUT, DeletionNotStored),
        (ErrorCode.POLICY_VIOLATION, DeletionRefused),
        (ErrorCode.OFFSET_OUT_OF_RANGE, DeletionRefused),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, GroupsUnavailable),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, GroupsUnavailable),
    ],
)
async def test_a_leader_is_asked_to_delete_records_once(
    node: KafkaNode, code: ErrorCode, expected: type[Exception] | None
) -> None:
    asked: list[Any] = []

    def answer(request: Any) -> dict[str, Any]:
        asked.append(request)
        partition = {"partition_index": 0, "low_watermark": 7, "error_code": code}
        return {"topics": [{"name": "orders", "partitions": [partition]}]}

    node.answers[ApiKey.DELETE_RECORDS] = answer
    published = view(node.port)
    published.image.coordinators.clear()
    groups = groups_of(published)
    if expected is None:
        await groups.delete_records("prod", ORDERS, 7)
    else:
        with pytest.raises(expected):
            await groups.delete_records("prod", ORDERS, 7)
    ((topic,),) = [request.topics for request in asked]
    assert (topic.name, [(one.partition_index, one.offset) for one in topic.partitions]) == (
        "orders",
        [(0, 7)],
    )
    with pytest.raises(GroupsUnavailable, match="it has no leader"):
        await groups.delete_records("prod", ("orders", 1), 7)


async def test_a_deletion_whose_answer_is_lost_is_unknown_and_one_that_was_not_heard_is_not(
    node: KafkaNode,
) -> None:
    node.answers[ApiKey.DELETE_RECORDS] = lambda _: Instead.HANG_UP
    with pytest.raises(OutcomeUnknown, match="it closed the connection"):
        await groups_of(view(node.port)).delete_records("prod", ORDERS, 7)
    async with listening() as gone:
        pass
    with pytest.raises(GroupsUnavailable, match=f"127.0.0.1:{gone.port}: "):
        await groups_of(view(gone.port)).delete_records("prod", ORDERS, 7)


@pytest.mark.parametrize("instead", [Instead.HANG_UP, b"\xff" * 40, b"", {"results": []}])
async def test_a_write_whose_answer_is_lost_is_sent_once_and_said_to_be_unknown(
    node: KafkaNode, instead: Any
) -> None:
    node.answers[ApiKey.DELETE_GROUPS] = lambda _: instead
    node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _: Instead.HANG_UP
    groups = groups_of(view(node.port))
    with pytest.raises(OutcomeUnknown, match="no coordinator answered within 5 s: 127"):
        await groups.delete("prod", "g")
    assert node.asked.count(ApiKey.DELETE_GROUPS) == 1
    with pytest.raises(GroupsUnavailable, match="it closed the connection"):
        await groups.described("prod", "g")


@pytest.mark.usefixtures("short_questions")
async def test_a_cluster_that_never_answers_is_waited_for_so_long(node: KafkaNode) -> None:
    node.answers[ApiKey.DELETE_GROUPS] = lambda _: Instead.BE_SILENT
    node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _: Instead.BE_SILENT
    groups = groups_of(view(node.port))
    silence = r"no coordinator answered within 0\.5 s"
    for ask, expected in ((groups.delete, OutcomeUnknown), (groups.described, GroupsUnavailable)):
        with pytest.raises(expected, match=silence), anyio.fail_after(5):
            await ask("prod", "g")
    await node.all_left()


async def test_the_answer_to_another_request_is_none(node: KafkaNode) -> None:
    node.correlation_shift = 1
    with pytest.raises(GroupsUnavailable, match="answer 2 where 1 is due"):
        await groups_of(view(node.port)).described("prod", "g")


async def test_a_write_that_reached_nobody_changed_nothing(node: KafkaNode) -> None:
    async with listening() as gone:
        pass
    node.answers[ApiKey.FIND_COORDINATOR] = named(gone)
    with pytest.raises(GroupsUnavailable, match=f"127.0.0.1:{gone.port}: "):
        await groups_of(view(node.port)).delete("prod", "g")


async def test_a_commit_that_members_stand_in_the_way_of_is_refused(node: KafkaNode) -> None:
    asked = []
    place = {"partition_index": 0, "error_code": ErrorCode.UNKNOWN_MEMBER_ID}

    def answer(message: Any) -> dict[str, Any]:
        asked.append(message)
        return {"topics": [{"name": "orders", "partitions": [place]}]}

    node.answers[ApiKey.OFFSET_COMMIT] = answer
    groups = groups_of(view(node.port))
    with pytest.raises(GroupBusy, match="Broker: Unknown member"):
        await groups.commit("prod", "g", {ORDERS: 1})
    place["error_code"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unset = await groups.commit("prod", "g", {ORDERS: 1})
    assert unset == {ORDERS: "Broker: Unknown topic or partition"}
    place["error_code"] = ErrorCode.NONE
    assert await groups.commit("prod", "g", {ORDERS: 1}) == {}
    assert (asked[0].group_id, asked[0].member_id, asked[0].topics[0].partitions[0].committed_offset) == (
        "g",
        "",
        1,
    )


async def test_an_id_with_a_nul_names_the_group_of_that_id(node: KafkaNode) -> None:
    asked = []

    def answer(message: Any) -> dict[str, Any]:
        asked.append(message.key)
        return {"error_code": ErrorCode.INVALID_GROUP_ID}

    node.answers[ApiKey.FIND_COORDINATOR] = answer
    with pytest.raises(GroupAbsent, match=r"Invalid group\.id"):
        await groups_of(view(node.port)).described("prod", "billing\0x")
    assert asked == ["billing\0x"]


# --- records ---------------------------------------------------------------------------------------


def fetched(records: bytes = b"", **more: Any) -> bytes:
    orders = FetchedPartition("orders", 0, records=(records,), high_watermark=100, **more)
    return b"".join(one for one in encode_fetch_response(12, [orders]) if not isinstance(one, FileChunk))


def batch(base_offset: int, *times: int, **more: Any) -> bytes:
    return encode_batch([NewRecord(timestamp=time) for time in times], base_offset=base_offset, **more)


async def times_of(node: KafkaNode, offset: int, *answers: bytes) -> dict[tuple[str, int], int]:
    left = list(answers)
    node.answers[ApiKey.FETCH] = lambda _: left.pop(0) if left else Instead.BE_SILENT
    return await groups_of(view(node.port)).record_times("prod", {ORDERS: offset, ("lost", 0): 0})


async def test_the_time_of_the_first_record_at_or_after_an_offset_is_read(node: KafkaNode) -> None:
    assert await times_of(node, 12, fetched(batch(10, 100, 200, 300))) == {ORDERS: 300}
    appended = batch(10, 100, 200, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert await times_of(node, 10, fetched(appended)) == {ORDERS: 200}
    control = batch(12, 1, is_control=True)
    assert await times_of(node, 12, fetched(control), fetched(batch(13, 400))) == {ORDERS: 400}
    await node.all_left()


async def test_where_the_log_begins_later_its_first_record_counts(node: KafkaNode) -> None:
    deleted = fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=20)
    assert await times_of(node, 3, deleted, fetched(batch(20, 500))) == {ORDERS: 500}
    beyond = fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=0)
    assert await times_of(node, 3, beyond) == {}


@pytest.mark.parametrize(
    "answer",
    [
        fetched(batch(10, 100)[:-1] + b"\xff"),
        fetched(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        b"\xff" * 30,
        b"",
    ],
)
async def test_a_leader_that_gives_no_records_leaves_the_partition_out(
    node: KafkaNode, answer: bytes
) -> None:
    assert await times_of(node, 10, answer) == {}
    assert node.asked.count(ApiKey.FETCH) == 1


async def test_a_batch_that_expands_beyond_all_measure_is_not_opened(
    node: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_messages, "DECOMPRESSED_BYTES_MAX", 1_000)
    bomb = encode_batch([NewRecord(value=bytes(100_000))], base_offset=10, compression=Compression.GZIP)
    assert await times_of(node, 10, fetched(bomb)) == {}


async def test_reading_ends_when_its_time_is_over(node: KafkaNode) -> None:
    with anyio.fail_after(5):
        assert await times_of(node, 10) == {}
    with anyio.fail_after(5):
        assert await times_of(node, 10, *[fetched()] * 3) == {}


# --- TLS -------------------------------------------------------------------------------------------


def speaks_tls(published: Published) -> Published:
    one = published.image.brokers[1]
    address = ListenerAddress(host=one.host, port=one.port, protocol="SSL")
    published.image.brokers[1] = msgspec.structs.replace(one, listeners={"INTERNAL": address})
    return published


async def test_a_cluster_whose_brokers_speak_tls_is_asked_over_tls(tmp_path: Path) -> None:
    ca = PrivateCa(tmp_path)
    pair = ca.issue("node")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    context.load_verify_locations(ca.file)
    context.verify_mode = ssl.CERT_REQUIRED
    async with listening(context) as node:
        node.answers[ApiKey.FIND_COORDINATOR] = named(node)
        node.answers[ApiKey.OFFSET_FETCH] = lambda _: {}
        published = speaks_tls(view(node.port))
        trusting = groups_of(published, tls=KafkaTls(ca.file, pair.cert, pair.key))
        assert await trusting.committed("prod", "g") == {}
        with pytest.raises(GroupsUnavailable, match="its certificate is refused"):
            await groups_of(published).committed("prod", "g")
        with pytest.raises(GroupsUnavailable, match="no coordinator answered"):
            await groups_of(published, tls=KafkaTls(ca.file)).committed("prod", "g")
        with pytest.raises(GroupsUnavailable, match=r"gone\.pem"):
            await groups_of(published, tls=KafkaTls(str(tmp_path / "gone.pem"))).committed("prod", "g")


def test_the_protocol_of_a_listener_for_clients_says_nothing() -> None:
    published = view(9092)
    assert not kafka_questions.speaks_tls(published)
    public = ListenerAddress(host="public", port=9093, protocol="SSL")
    published.image.brokers[1] = msgspec.structs.replace(
        published.image.brokers[1], listeners={"CLIENTS": public}
    )
    assert not kafka_questions.speaks_tls(published)
    assert kafka_questions.speaks_tls(speaks_tls(published))


@pytest.mark.usefixtures("short_questions")
async def test_questions_beyond_the_limit_wait_for_their_turn(
    node: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_questions, "QUESTIONS_AT_ONCE_MAX", 2)
    node.answers[ApiKey.FIND_COORDINATOR] = lambda _: Instead.BE_SILENT
    groups = groups_of(view(node.port))
    failed = []

    async def ask() -> None:
        with pytest.raises(GroupsUnavailable):
            await groups.described("prod", "g")
        failed.append(node.open)

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
        await anyio.sleep(0.1)
        assert node.open == 2
    assert len(failed) == 5


async def test_a_group_of_the_consumer_protocol_is_asked_for_by_its_own_request(node: KafkaNode) -> None:
    node.answers[ApiKey.DESCRIBE_GROUPS] = lambda _: {"groups": [group(group_state="Dead")]}

    def part(*partitions: int) -> dict[str, Any]:
        return {"topic_partitions": [{"topic_name": "orders", "partitions": partitions}]}

    member = {"member_id": "a", "member_epoch": 6, "client_id": "app", "client_host": "/10.0.0.1"}
    node.answers[ApiKey.CONSUMER_GROUP_DESCRIBE] = lambda _: {
        "groups": [
            {
                "group_id": "g",
                "group_state": "Reconciling",
                "group_epoch": 7,
                "assignment_epoch": 7,
                "assignor_name": "uniform",
                "members": [
                    {**member, "assignment": part(0, 1), "target_assignment": part(0), "member_type": 1}
                ],
            }
        ]
    }
    published = view(node.port)
    with pytest.raises(GroupAbsent):
        await groups_of(published).described("prod", "g")
    published.image.level = CONSUMER_GROUPS.since
    found = await groups_of(published).described("prod", "g")
    assert (found.state, found.epoch, found.target_epoch, found.assignor) == ("reconciling", 7, 7, "uniform")
    (told,) = found.members
    assert (told.epoch, told.is_classic) == (6, False)
    assert (told.assigned, told.target) == ((("orders", 0), ("orders", 1)), (("orders", 0),))
