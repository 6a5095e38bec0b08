"""OffsetCommit, OffsetFetch and OffsetDelete as bytes, before real machines, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.node.sharding import shard_of
from springtide.node.topic_ids import topic_id_uuid
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_shards import SHARDS, Coordinator

COMMIT, FETCH, DELETE = ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE
COMMITS = range(APIS[COMMIT].version_min, APIS[COMMIT].version_max + 1)
FETCHES = range(APIS[FETCH].version_min, APIS[FETCH].version_max + 1)
BY_ID = 10


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator()
    coordinator.has_topic("orders", 2)
    return coordinator


def id_of(coordinator: Coordinator, topic: str) -> Any:
    found = coordinator.view.topic_by_name(topic)
    return None if found is None else topic_id_uuid(found.topic_id)


def commit(
    coordinator: Coordinator, version: int, *offsets: tuple[str, int, int], group_id: str = "g", **fields: Any
) -> list[ErrorCode]:
    """Commit (topic, partition, offset) as a client without a generation; return the errors."""
    topics = [
        {
            "name": topic,
            "topic_id": id_of(coordinator, topic),
            "partitions": [
                {
                    "partition_index": partition,
                    "committed_offset": offset,
                    "committed_leader_epoch": 5,
                    "committed_metadata": "m",
                }
            ],
        }
        for topic, partition, offset in offsets
    ]
    answer = coordinator.ask(
        COMMIT, version, **({"group_id": group_id, "member_id": "", "topics": topics} | fields)
    )
    assert [topic.partitions[0].partition_index for topic in answer.topics] == [one[1] for one in offsets]
    return [ErrorCode(topic.partitions[0].error_code) for topic in answer.topics]


def fetch(coordinator: Coordinator, version: int, topics: Any, group_id: str = "g") -> Any:
    """Return the answer for one group: an entry of `groups`, or the whole answer before version 8."""
    one = {"group_id": group_id, "topics": topics}
    answer = coordinator.ask(FETCH, version, groups=[one], **one)
    return answer.groups[0] if version >= 8 else answer


def told(answer: Any) -> list[tuple[int, int, ErrorCode]]:
    """Return (partition, offset, error) of an answer, topic by topic."""
    return [
        (one.partition_index, one.committed_offset, ErrorCode(one.error_code))
        for topic in answer.topics
        for one in topic.partitions
    ]


def orders(coordinator: Coordinator, *partitions: int) -> list[dict[str, Any]]:
    return [{"name": "orders", "topic_id": id_of(coordinator, "orders"), "partition_indexes": partitions}]


@pytest.mark.parametrize("version", COMMITS)
def test_what_any_version_commits_is_fetched(coordinator: Coordinator, version: int) -> None:
    assert commit(coordinator, version, ("orders", 0, 7)) == [ErrorCode.NONE]
    assert told(fetch(coordinator, 10, orders(coordinator, 0))) == [(0, 7, ErrorCode.NONE)]


@pytest.mark.parametrize("version", FETCHES)
def test_every_version_fetches_what_was_committed_and_says_what_was_not(
    coordinator: Coordinator, version: int
) -> None:
    commit(coordinator, 6, ("orders", 0, 7))
    answer = fetch(coordinator, version, orders(coordinator, 0, 1))
    assert told(answer) == [(0, 7, ErrorCode.NONE), (1, -1, ErrorCode.NONE)]
    (topic,) = answer.topics
    assert [one.metadata for one in topic.partitions] == ["m", ""]
    if version >= 5:
        assert [one.committed_leader_epoch for one in topic.partitions] == [5, -1]
    if version == BY_ID:
        assert topic.topic_id == id_of(coordinator, "orders")
    else:
        assert topic.name == "orders"


@pytest.mark.parametrize("version", [2, 7, 8, 10])
def test_null_topics_ask_for_all_that_is_committed(coordinator: Coordinator, version: int) -> None:
    commit(coordinator, 2, ("orders", 1, 7), ("orders", 0, 3))
    assert told(fetch(coordinator, version, None)) == [(0, 3, ErrorCode.NONE), (1, 7, ErrorCode.NONE)]


def test_several_groups_are_fetched_from_the_shards_that_they_are_in() -> None:
    coordinator = Coordinator(owned=range(SHARDS - 1))
    coordinator.has_topic("orders", 1)
    groups = [f"g{number}" for number in range(20)]
    lost = {group_id for group_id in groups if shard_of(group_id, SHARDS) == SHARDS - 1}
    assert 0 < len(lost) < len(groups)
    for offset, group_id in enumerate(groups):
        commit(coordinator, 9, ("orders", 0, offset), group_id=group_id)
    asked = [{"group_id": group_id, "topics": orders(coordinator, 0)} for group_id in groups]
    answer = coordinator.ask(FETCH, 8, groups=asked)
    assert [group.group_id for group in answer.groups] == groups
    for offset, group in enumerate(answer.groups):
        if group.group_id in lost:
            assert (group.error_code, group.topics) == (ErrorCode.NOT_COORDINATOR, ())
        else:
            assert told(group) == [(0, offset, ErrorCode.NONE)]


def test_a_group_that_is_named_twice_is_refused_and_its_neighbours_are_not(coordinator: Coordinator) -> None:
    asked = [{"group_id": group_id, "topics": None} for group_id in ("g", "h", "g")]
    answer = coordinator.ask(FETCH, 9, groups=asked)
    assert [(group.group_id, group.error_code) for group in answer.groups] == [
        ("g", ErrorCode.INVALID_REQUEST),
        ("h", ErrorCode.NONE),
        ("g", ErrorCode.INVALID_REQUEST),
    ]


@pytest.mark.parametrize("version", [1, 10])
def test_a_partition_that_is_named_often_is_answered_once(coordinator: Coordinator, version: int) -> None:
    commit(coordinator, 9, ("orders", 0, 7))
    asked = orders(coordinator, 0, 0, 1) + orders(coordinator, 1, 0)
    assert told(fetch(coordinator, version, asked)) == [(0, 7, ErrorCode.NONE), (1, -1, ErrorCode.NONE)]


def test_topics_and_partitions_that_do_not_exist_have_their_own_errors(coordinator: Coordinator) -> None:
    offsets = (("orders", 0, 1), ("orders", 2, 1), ("nothing", 0, 1))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(coordinator, 9, *offsets) == [ErrorCode.NONE, unknown, unknown]
    assert commit(coordinator, 10, *offsets) == [ErrorCode.NONE, unknown, ErrorCode.UNKNOWN_TOPIC_ID]
    assert commit(coordinator, 9, ("nothing", 0, 1)) == [unknown]
    nothing = [{"name": "nothing", "topic_id": None, "partition_indexes": [0]}]
    assert told(fetch(coordinator, 9, nothing)) == [(0, -1, ErrorCode.NONE)]
    assert told(fetch(coordinator, 10, nothing)) == [(0, -1, ErrorCode.UNKNOWN_TOPIC_ID)]


@pytest.mark.parametrize("version", [9, 10])
def test_a_topic_that_came_back_does_not_inherit_offsets(coordinator: Coordinator, version: int) -> None:
    commit(coordinator, version, ("orders", 0, 7))
    found = coordinator.view.topic_by_name("orders")
    assert found is not None
    coordinator.lacks_topic(found.topic_id)
    assert told(fetch(coordinator, version, None)) == []
    coordinator.has_topic("orders", 2, topic_id="n" * 21 + "A")
    assert told(fetch(coordinator, version, orders(coordinator, 0))) == [(0, -1, ErrorCode.NONE)]
    assert told(fetch(coordinator, version, None)) == []


def test_a_position_in_a_topic_that_is_gone_is_taken_for_one_in_its_namesake_where_it_is_told_by_name(
    coordinator: Coordinator,
) -> None:
    """A member that runs on while its topic is made again (docs/applications.md): by name nothing tells which
    topic it has read, as with Kafka; by id it is refused."""
    old = id_of(coordinator, "orders")
    found = coordinator.view.topic_by_name("orders")
    assert found is not None
    coordinator.lacks_topic(found.topic_id)
    coordinator.has_topic("orders", 2, topic_id="n" * 21 + "A")
    partition = {"partition_index": 0, "committed_offset": 1_000}
    by_id = [{"topic_id": old, "partitions": [partition]}]
    answer = coordinator.ask(COMMIT, BY_ID, group_id="g", member_id="", topics=by_id)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert commit(coordinator, BY_ID - 1, ("orders", 0, 1_000)) == [ErrorCode.NONE]
    assert told(fetch(coordinator, BY_ID, orders(coordinator, 0))) == [(0, 1_000, ErrorCode.NONE)]


def test_a_process_that_knows_no_topics_yet_refuses_as_another_coordinator() -> None:
    coordinator = Coordinator()
    for topic in coordinator.view.live_topics():
        coordinator.lacks_topic(topic.topic_id)
    for version in (9, 10):
        assert commit(coordinator, version, ("orders", 0, 1)) == [ErrorCode.NOT_COORDINATOR]


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_generation_of_a_group_that_is_gone_is_refused_in_words_that_the_client_knows(
    coordinator: Coordinator, version: int, error: ErrorCode
) -> None:
    fields: dict[str, Any] = {"generation_id_or_member_epoch": 3, "member_id": "m"}
    assert commit(coordinator, version, ("orders", 0, 7), **fields) == [error]


def test_the_retention_of_old_clients_is_kept(coordinator: Coordinator) -> None:
    commit(coordinator, 2, ("orders", 0, 7), retention_time_ms=1_000)
    commit(coordinator, 2, ("orders", 1, 7), retention_time_ms=-1)
    coordinator.wait(20 * 60_000)
    assert told(fetch(coordinator, 2, None)) == [(1, 7, ErrorCode.NONE)]
    assert commit(coordinator, 2, ("orders", 0, 8), retention_time_ms=2**63 - 1) == [ErrorCode.NONE]
    assert commit(coordinator, 2, ("orders", 1, 8), retention_time_ms=-(2**63)) == [ErrorCode.NONE]
    coordinator.wait(20 * 60_000)
    assert len(told(fetch(coordinator, 2, None))) == 2


def test_metadata_may_be_null_and_not_too_long(coordinator: Coordinator) -> None:
    def ask(metadata: str | None) -> int:
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": metadata}
        topics = [{"name": "orders", "partitions": [partition]}]
        answer = coordinator.ask(COMMIT, 9, group_id="g", member_id="", topics=topics)
        return int(answer.topics[0].partitions[0].error_code)

    assert ask(None) == ErrorCode.NONE
    assert ask("x" * 5_000) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_offsets_are_deleted_where_nobody_subscribes(coordinator: Coordinator) -> None:
    def ask(*partitions: int) -> Any:
        entries = [{"partition_index": number} for number in partitions]
        return coordinator.ask(DELETE, 0, group_id="g", topics=[{"name": "orders", "partitions": entries}])

    answer = ask(0)
    assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, ())
    commit(coordinator, 9, ("orders", 0, 7), ("orders", 1, 8))
    answer = ask(0, 9)
    assert answer.error_code == ErrorCode.NONE
    assert [one.error_code for one in answer.topics[0].partitions] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert told(fetch(coordinator, 9, None)) == [(1, 8, ErrorCode.NONE)]
