"""Errors of shards as clients hear them, and hostile requests: each is answered, or waits."""

from __future__ import annotations

import random
from typing import Any

import pytest

from coordinator.handlers.table import HANDLERS
from springtide.node.handlers.group_lists import OUR_PREFIX
from springtide.node.sharding import HASHED_CHARS_MAX
from springtide.wire import codec
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_shards import SHARDS, Coordinator
from tests.kit.springtide.asking import error_codes, fields_of
from tests.kit.springtide.random_message import random_message

OF_GROUPS = (
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
)
WAIT = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
SHARED_FIELDS: dict[str, Any] = {
    "group_id": "g",
    "groups_names": ["g"],
    "member_id": "m",
    "protocol_type": "consumer",
    "protocol_name": "range",
    "session_timeout_ms": 10_000,
    "topics": [{"name": "orders", "partitions": [{"partition_index": 0}], "partition_indexes": [0]}],
}


def each_version(*keys: ApiKey) -> list[Any]:
    return [
        pytest.param(key, version, id=f"{key.kafka_name}-{version}")
        for key in keys
        for version in range(APIS[key].served_since, APIS[key].version_max + 1)
    ]


def ask(coordinator: Coordinator, key: ApiKey, version: int) -> Any:
    groups: list[Any] = ["g"] if key is ApiKey.DESCRIBE_GROUPS else [{"group_id": "g", "topics": None}]
    coordinator.has_topic("orders", 1)
    fields = SHARED_FIELDS | {"groups": groups}
    if version == 10:
        fields["topics"] = []  # by id: the group's own error is enough
    return coordinator.ask(key, version, client_id=f"{OUR_PREFIX}broker-1", **fields)


WHILE_OPENING = {ApiKey.HEARTBEAT: ErrorCode.NONE, ApiKey.SYNC_GROUP: ErrorCode.REBALANCE_IN_PROGRESS}
"""What clients are told instead of COORDINATOR_LOAD_IN_PROGRESS, as Kafka's coordinators tell them."""


def test_a_coordinator_answers_all_that_it_lists() -> None:
    assert set(HANDLERS) == set(APIS)


@pytest.mark.parametrize(
    ("of_shard", "to_client"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("key", OF_GROUPS)
def test_what_a_shard_says_is_told_as_coordinators_do(
    key: ApiKey, of_shard: ErrorCode, to_client: ErrorCode
) -> None:
    for version in range(APIS[key].version_min, APIS[key].version_max + 1):
        coordinator = Coordinator()
        coordinator.shards.errors = dict.fromkeys(range(SHARDS), of_shard)
        if of_shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            to_client = WHILE_OPENING.get(key, of_shard)
        is_absent = key is ApiKey.LIST_GROUPS and to_client is ErrorCode.NOT_COORDINATOR
        names_nothing = key is ApiKey.OFFSET_COMMIT and version == 10
        expected = set() if is_absent or names_nothing else {int(to_client)} - {ErrorCode.NONE}
        assert error_codes(ask(coordinator, key, version)) - {ErrorCode.NONE} == expected, version


@pytest.mark.parametrize("key", [key for key in OF_GROUPS if key is not ApiKey.LIST_GROUPS])
def test_before_the_topic_of_groups_exists_nobody_coordinates(key: ApiKey) -> None:
    coordinator = Coordinator()
    for topic in coordinator.view.live_topics():
        coordinator.lacks_topic(topic.topic_id)
    version = APIS[key].version_min
    assert error_codes(ask(coordinator, key, version)) - {ErrorCode.NONE} == {ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize(("key", "version"), each_version(*OF_GROUPS))
def test_any_request_is_answered_or_waits(key: ApiKey, version: int) -> None:
    """Nulls, empty and long texts, extreme numbers: also after a group of such texts has come about."""
    coordinator = Coordinator(session_timeout_ms_min=0)
    coordinator.has_topic("topic-1", 1)
    for seed in range(40):
        rng = random.Random(seed)
        asked_key, asked_version = (key, version) if seed % 2 else (ApiKey.JOIN_GROUP, 5)
        asked = random_message(codec.request_type(asked_key, asked_version), rng)
        answers = coordinator.start(
            asked_key, asked_version, rng.choice([None, "", "жук"]), **fields_of(asked)
        )
        coordinator.wait(rng.choice([0, 3_000, 3_600_000]))
        assert len(answers) == 1 or asked_key in WAIT


@pytest.mark.parametrize("key", [ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_FETCH])
def test_a_group_id_longer_than_any_can_be_is_refused_without_its_neighbours(key: ApiKey) -> None:
    names = ["g" * 40_000, "g"]
    groups: list[Any] = names if key is ApiKey.DESCRIBE_GROUPS else [{"group_id": name} for name in names]
    version = APIS[key].version_max
    answer = Coordinator().ask(key, version, groups=groups, groups_names=names)
    first, second = answer.results if key is ApiKey.DELETE_GROUPS else answer.groups
    assert first.error_code == ErrorCode.INVALID_GROUP_ID
    assert second.error_code != ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("key", [ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_FETCH])
def test_more_names_than_can_be_hashed_while_others_wait_are_refused(key: ApiKey) -> None:
    names = [f"{number}".ljust(32_767, "g") for number in range(HASHED_CHARS_MAX // 32_767 + 1)]
    groups: list[Any] = names if key is ApiKey.DESCRIBE_GROUPS else [{"group_id": name} for name in names]
    answer = Coordinator().ask(key, APIS[key].version_max, groups=groups, groups_names=names)
    told = answer.results if key is ApiKey.DELETE_GROUPS else answer.groups
    assert [one.error_code for one in told] == [ErrorCode.INVALID_REQUEST] * len(names)


def test_group_ids_may_have_any_character() -> None:
    names = ["", "\0", "a\nb", "жук", "\N{ROCKET}", "../..", "g" * 32_767]
    answer = Coordinator().ask(ApiKey.DESCRIBE_GROUPS, 6, groups=names)
    assert [group.group_id for group in answer.groups] == names
    assert {group.error_code for group in answer.groups} == {ErrorCode.GROUP_ID_NOT_FOUND}


RECORDS = (
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DELETE_RECORDS,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.PRODUCE,
)


@pytest.mark.parametrize(("key", "version"), each_version(*RECORDS))
def test_a_coordinator_leads_no_partition(key: ApiKey, version: int) -> None:
    partition = {"partition": 3, "partition_index": 3, "index": 3, "records": b""}
    topic = {
        "topic": "orders",
        "name": "orders",
        "partitions": [partition],
        "partition_indexes": [3],
        "partition_data": [partition],
    }
    fields = {"topics": [topic], "topic_data": [topic], "session_epoch": 0, "acks": -1}
    answer = Coordinator().ask(key, version, **fields)
    (told,) = getattr(answer, "topics", ()) or answer.responses
    (refused,) = getattr(told, "partitions", ()) or told.partition_responses
    number = next(
        getattr(refused, name) for name in ("partition_index", "partition", "index") if hasattr(refused, name)
    )
    assert (refused.error_code, number) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 3)
    assert {"orders"} >= {getattr(told, name, "") for name in ("name", "topic")} - {""}


def test_a_fetch_session_is_not_known_here() -> None:
    answer = Coordinator().ask(ApiKey.FETCH, 18, session_id=7, session_epoch=3)
    assert (answer.error_code, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ())


def test_a_coordinator_has_no_disk() -> None:
    assert Coordinator().ask(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=None).results == ()
