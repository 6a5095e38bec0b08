"""TxnOffsetCommit, markers and stable offsets as bytes, before real machines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.core.offsets_question import OffsetsQuestion
from springtide.levels import Level
from springtide.node.sharding import GROUPS_TOPIC, shard_of
from springtide.security.acls.model import ANONYMOUS, Operation, ResourceType
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_shards import SHARDS, Coordinator

COMMIT, MARKERS, FETCH = ApiKey.TXN_OFFSET_COMMIT, ApiKey.WRITE_TXN_MARKERS, ApiKey.OFFSET_FETCH
COMMITS = range(APIS[COMMIT].version_min, APIS[COMMIT].version_max + 1)
ID, GROUP = "payments", "g"
SHARD = shard_of(GROUP, SHARDS)
PRODUCER, EPOCH = 1_000, 3


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator()
    coordinator.has_topic("orders", 2)
    return coordinator


def commit(
    coordinator: Coordinator,
    version: int,
    *offsets: tuple[str, int, int],
    rights: Any = None,
    **fields: Any,
) -> list[ErrorCode]:
    topics = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": number, "committed_offset": offset, "committed_metadata": "m"}
            ],
        }
        for topic, number, offset in offsets or (("orders", 0, 7),)
    ]
    asked: dict[str, Any] = {
        "transactional_id": ID,
        "group_id": GROUP,
        "producer_id": PRODUCER,
        "producer_epoch": EPOCH,
        "topics": topics,
    }
    (answer,) = coordinator.start(COMMIT, version, rights=rights, **(asked | fields))
    return [ErrorCode(topic.partitions[0].error_code) for topic in answer.topics]


def end(
    coordinator: Coordinator, places: dict[str, tuple[int, ...]], version: int = 2, **fields: Any
) -> list[ErrorCode]:
    marker = {
        "producer_id": PRODUCER,
        "producer_epoch": EPOCH,
        "transaction_result": True,
        "topics": [{"name": name, "partition_indexes": numbers} for name, numbers in places.items()],
        "coordinator_epoch": 1,
    }
    answer = coordinator.ask(MARKERS, version, markers=[marker | fields])
    (result,) = answer.markers
    assert result.producer_id == PRODUCER
    return [ErrorCode(one.error_code) for topic in result.topics for one in topic.partitions]


def fetch(
    coordinator: Coordinator, version: int, *, is_all: bool = False
) -> list[tuple[int, int, ErrorCode]]:
    topics = None if is_all else [{"name": "orders", "partition_indexes": (0, 1)}]
    one = {"group_id": GROUP, "topics": topics}
    answer = coordinator.ask(FETCH, version, groups=[one], require_stable=True, **one)
    found = answer.groups[0] if version >= 8 else answer
    return [
        (one.partition_index, one.committed_offset, ErrorCode(one.error_code))
        for topic in found.topics
        for one in topic.partitions
    ]


@pytest.mark.parametrize("version", COMMITS)
def test_every_version_commits_and_the_marker_makes_it_count(coordinator: Coordinator, version: int) -> None:
    assert commit(coordinator, version, ("orders", 0, 7), ("none", 0, 1)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert coordinator.link.asked == [OffsetsQuestion(ID, PRODUCER, EPOCH, SHARD, is_verify_only=version < 5)]
    assert fetch(coordinator, 9)[0][2] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert end(coordinator, {GROUPS_TOPIC: (SHARD,)}) == [ErrorCode.NONE]
    assert fetch(coordinator, 9)[0] == (0, 7, ErrorCode.NONE)


@pytest.mark.parametrize("version", [7, 8, 9])
def test_unstable_offsets_are_refused_one_by_one(coordinator: Coordinator, version: int) -> None:
    commit(coordinator, 5)
    unstable = (0, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert fetch(coordinator, version) == [unstable, (1, -1, ErrorCode.NONE)]
    assert fetch(coordinator, version, is_all=True) == [unstable]


@pytest.mark.parametrize(
    ("version", "error", "told"),
    [
        (0, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (5, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (3, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (5, ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE),
        (5, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (5, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (5, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_what_the_transactions_coordinator_says_is_told_in_the_clients_words(
    coordinator: Coordinator, version: int, error: ErrorCode, told: ErrorCode
) -> None:
    coordinator.link.error = error
    assert commit(coordinator, version) == [told]
    assert fetch(coordinator, 9)[0] == (0, -1, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("version", "error", "told"),
    [
        (1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (5, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (5, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_while_the_shard_is_not_served_each_client_hears_what_it_can_bear(
    coordinator: Coordinator, version: int, error: ErrorCode, told: ErrorCode
) -> None:
    """KAFKA-9656: old clients give up on a coordinator that loads."""
    coordinator.shards.errors[SHARD] = error
    assert commit(coordinator, version) == [told]


def test_a_generation_is_told_since_version_3(coordinator: Coordinator) -> None:
    assert commit(coordinator, 3, generation_id=4, member_id="m") == [ErrorCode.ILLEGAL_GENERATION]
    assert coordinator.link.asked == [], "what is refused anyway is not asked about"


def test_rights_are_those_on_the_id_the_group_and_the_topics(coordinator: Coordinator) -> None:
    def refusing(kind: str) -> Any:
        def may(operation: Operation, resource: ResourceType, *_: object, **__: object) -> bool:
            return resource.name != kind

        return SimpleNamespace(principal=ANONYMOUS, may=may)

    assert commit(coordinator, 5, rights=refusing("TRANSACTIONAL_ID")) == [
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ]
    assert commit(coordinator, 5, rights=refusing("GROUP")) == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    assert commit(coordinator, 5, rights=refusing("TOPIC")) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_below_level_2_nothing_is_stored(coordinator: Coordinator) -> None:
    coordinator.level = Level(1)
    assert commit(coordinator, 3) == [ErrorCode.UNSUPPORTED_VERSION]
    assert end(coordinator, {GROUPS_TOPIC: (SHARD,)}) == [ErrorCode.UNSUPPORTED_VERSION]
    assert all(desk.records == [] for desk in coordinator.shards.desks.values())


def test_markers_are_for_shards_that_are_here_and_for_no_other_partition() -> None:
    coordinator = Coordinator(owned=[SHARD])
    coordinator.has_topic("orders", 2)
    other = (SHARD + 1) % SHARDS
    assert end(coordinator, {GROUPS_TOPIC: (SHARD, other), "orders": (0,)}, version=1) == [
        ErrorCode.NONE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    assert end(coordinator, {}) == []


def test_the_number_of_a_delivery_is_read_from_the_request(coordinator: Coordinator) -> None:
    for _ in range(2):
        commit(coordinator, 3)
        assert end(coordinator, {GROUPS_TOPIC: (SHARD,)}, attempt=5) == [ErrorCode.NONE]
    assert fetch(coordinator, 9)[0][2] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert end(coordinator, {GROUPS_TOPIC: (SHARD,)}, attempt=6) == [ErrorCode.NONE]
    assert fetch(coordinator, 9)[0] == (0, 7, ErrorCode.NONE)
