"""ConsumerGroupHeartbeat and ConsumerGroupDescribe as bytes, before a real machine, and what requests about
groups of every kind say of a `consumer` group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from springtide.levels import CONSUMER_GROUPS, Level
from springtide.node.handlers.group_lists import OUR_PREFIX
from springtide.node.topic_ids import topic_id_uuid
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.consumer_desk import metadata
from tests.kit.coordinator.group_shards import Coordinator

BEAT, DESCRIBE = ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE
GROUP, MEMBER = "g", "m"
JOIN = {
    "group_id": GROUP,
    "member_id": MEMBER,
    "member_epoch": 0,
    "rebalance_timeout_ms": 60_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator()
    coordinator.level = CONSUMER_GROUPS.since
    coordinator.has_topic("t", 2)
    return coordinator


def topic_id(name: str) -> UUID:
    return topic_id_uuid(name[0] * 21 + "A")


def join(coordinator: Coordinator, version: int = 1, **fields: Any) -> Any:
    return coordinator.ask(BEAT, version, **(JOIN | fields))


def beat(coordinator: Coordinator, epoch: int, **fields: Any) -> Any:
    said = {"group_id": GROUP, "member_id": MEMBER, "member_epoch": epoch, "rebalance_timeout_ms": -1}
    return coordinator.ask(BEAT, 1, **(said | fields))


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_beats_and_leaves(coordinator: Coordinator, version: int) -> None:
    joined = join(coordinator, version)
    assert (joined.error_code, joined.error_message) == (ErrorCode.NONE, None)
    assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == (MEMBER, 2, 5_000)
    (assigned,) = joined.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (topic_id("t"), (0, 1))

    told = beat(coordinator, 2, topic_partitions=[{"topic_id": topic_id("t"), "partitions": [1, 0]}])
    assert (told.error_code, told.member_epoch, told.assignment) == (ErrorCode.NONE, 2, None)
    assert beat(coordinator, -1).member_epoch == -1
    assert beat(coordinator, 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_only_version_0_makes_the_members_id(coordinator: Coordinator) -> None:
    assert join(coordinator, 0, member_id="").member_id.startswith("suffix-")
    refused = join(coordinator, 1, member_id="")
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "the member id is empty",
    )


def test_a_topic_that_changes_is_assigned_anew(coordinator: Coordinator) -> None:
    join(coordinator)
    coordinator.has_topic("t", 3)
    coordinator.wait(1_000)
    told = beat(coordinator, 2)
    assert (told.member_epoch, told.assignment.topic_partitions[0].partitions) == (3, (0, 1, 2))


def test_below_the_level_members_are_told_which_protocol_there_is(coordinator: Coordinator) -> None:
    coordinator.level = Level(CONSUMER_GROUPS.since - 1)
    refused = join(coordinator)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "group.protocol=classic" in refused.error_message
    (group,) = coordinator.ask(DESCRIBE, 1, group_ids=[GROUP]).groups
    assert group.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_process_that_does_not_know_its_level_yet_is_asked_again(coordinator: Coordinator) -> None:
    coordinator.level, coordinator.is_view_complete = Level(0), False
    refused = join(coordinator)
    assert (refused.error_code, refused.error_message) == (ErrorCode.NOT_COORDINATOR, None)


def allowed(*rights: str) -> Any:
    def may(operation: Operation, kind: ResourceType, name: str, *, is_filter: bool = False) -> bool:
        return f"{operation.name} {kind.name} {name}" in rights

    return SimpleNamespace(principal="User:alice", may=may)


@pytest.mark.parametrize(
    ("lines", "error", "text"),
    [
        (("DESCRIBE TOPIC t",), ErrorCode.GROUP_AUTHORIZATION_FAILED, "READ the group 'g'"),
        (("READ GROUP g",), ErrorCode.TOPIC_AUTHORIZATION_FAILED, "DESCRIBE 1 of the topics: t"),
    ],
)
def test_rights_on_the_group_and_each_topic_are_needed(
    coordinator: Coordinator, lines: tuple[str, ...], error: ErrorCode, text: str
) -> None:
    refused = join(coordinator, rights=allowed(*lines))
    assert refused.error_code == error
    assert text in refused.error_message


def test_a_pattern_shows_what_the_clients_principal_may_see(coordinator: Coordinator) -> None:
    pattern: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "t.*"}
    assert join(coordinator, **pattern, rights=allowed("READ GROUP g")).error_code == ErrorCode.NONE
    (question,) = (one for desk in coordinator.shards.desks.values() for one in desk.questions)
    ((who,),) = question.asked.values()
    assert (list(question.asked), who.principal) == (["t.*"], "User:alice")


def test_a_pattern_that_can_not_be_used_is_refused_in_the_engines_words(coordinator: Coordinator) -> None:
    refused = join(coordinator, subscribed_topic_names=None, subscribed_topic_regex="t(")
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.error_message == "missing ): t("


def test_what_is_wrong_with_a_heartbeat_alone_is_told_before_the_shard_is_looked_for() -> None:
    nowhere = Coordinator(owned=())
    nowhere.level = CONSUMER_GROUPS.since
    assert join(nowhere, subscribed_topic_names=None).error_code == ErrorCode.INVALID_REQUEST
    refused = join(nowhere, server_assignor="mine")
    assert refused.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert refused.error_message == "the assignors are uniform, range"
    assert join(nowhere).error_code == ErrorCode.NOT_COORDINATOR


def test_each_refusal_of_a_group_says_why(coordinator: Coordinator) -> None:
    def texts(answer: Any) -> tuple[ErrorCode, str]:
        return ErrorCode(answer.error_code), answer.error_message

    assert texts(beat(coordinator, 1)) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "the group 'g' does not exist, or its members use the classic protocol",
    )
    join(coordinator, instance_id="i")
    assert "'other': it left" in texts(beat(coordinator, 2, member_id="other"))[1]
    assert "'m' of the group 'g' is not at epoch 7" in texts(beat(coordinator, 7))[1]
    error, text = texts(join(coordinator, member_id="other", instance_id="i"))
    assert error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert text.startswith("the instance id 'i' is in use in the group 'g'")


@pytest.mark.parametrize("version", [0, 1])
def test_a_group_is_described(coordinator: Coordinator, version: int) -> None:
    join(coordinator, instance_id="i", rack_id="r")
    asked = {"group_ids": [GROUP, "none", GROUP], "include_authorized_operations": True}
    group, none = coordinator.ask(DESCRIBE, version, **asked).groups
    assert (group.error_code, group.group_id, group.group_state) == (ErrorCode.NONE, GROUP, "Stable")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (2, 2, "uniform")
    assert group.authorized_operations == 3400
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == (
        MEMBER,
        "i",
        "r",
        2,
    )
    assert (member.client_id, member.client_host) == ("client", "/10.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (("t",), None)
    assert member.assignment == member.target_assignment
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_id, assigned.topic_name, assigned.partitions) == (topic_id("t"), "t", (0, 1))
    if version:
        assert member.member_type == 1
    assert (none.error_code, none.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "there is no group 'none' of the consumer protocol",
    )


def test_a_member_of_the_classic_protocol_is_described_as_one(coordinator: Coordinator) -> None:
    """KIP-1099."""
    join(coordinator)
    protocols = [{"name": "range", "metadata": metadata("t")}]
    coordinator.ask(
        ApiKey.JOIN_GROUP,
        3,
        group_id=GROUP,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    (group,) = coordinator.ask(DESCRIBE, 1, group_ids=[GROUP]).groups
    types = {member.member_type: member for member in group.members}
    assert types.keys() == {0, 1}
    assert (types[1].member_id, types[0].subscribed_topic_names) == (MEMBER, ("t",))


def test_a_group_of_topics_that_a_client_may_not_know_is_not_described(coordinator: Coordinator) -> None:
    """KAFKA-18813."""
    coordinator.has_topic("u", 1)
    join(coordinator, subscribed_topic_names=["t", "u"])
    rights = allowed("DESCRIBE GROUP g", "DESCRIBE TOPIC t")
    (group,) = coordinator.ask(DESCRIBE, 1, group_ids=[GROUP], rights=rights).groups
    assert (group.error_code, group.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ())
    assert "u" not in group.error_message.split()


def test_a_topic_that_is_deleted_is_not_in_an_assignment(coordinator: Coordinator) -> None:
    join(coordinator)
    coordinator.lacks_topic("t" * 21 + "A")
    (group,) = coordinator.ask(DESCRIBE, 1, group_ids=[GROUP]).groups
    assert group.members[0].assignment.topic_partitions == ()


# --- the other requests about groups ---------------------------------------------------------------


def commit(coordinator: Coordinator, version: int, epoch: int, member_id: str = MEMBER) -> int:
    partitions = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
    answer = coordinator.ask(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id=GROUP,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[{"name": "t", "topic_id": topic_id("t"), "partitions": partitions}],
    )
    ((partition,),) = (topic.partitions for topic in answer.topics)
    return int(partition.error_code)


@pytest.mark.parametrize(
    ("version", "right", "stale"),
    [
        (8, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION),
        (9, ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH),
        (10, ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
def test_a_commit_has_the_members_epoch(
    coordinator: Coordinator, version: int, right: ErrorCode, stale: ErrorCode
) -> None:
    """Versions without epochs are not for members of the protocol, as in Kafka."""
    join(coordinator)
    assert commit(coordinator, version, 2) == right
    assert commit(coordinator, version, 1) == stale
    assert commit(coordinator, version, 2, "other") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(coordinator, version, -1, "") == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [9, 10])
def test_a_fetch_may_name_the_member_and_its_epoch(coordinator: Coordinator, version: int) -> None:
    join(coordinator)
    commit(coordinator, version, 2)
    topics = [{"name": "t", "topic_id": topic_id("t"), "partition_indexes": [0]}]

    def fetch(**member: Any) -> Any:
        groups = [{"group_id": GROUP, "topics": topics, **member}]
        (group,) = coordinator.ask(ApiKey.OFFSET_FETCH, version, groups=groups).groups
        return group

    for member in ({}, {"member_id": MEMBER, "member_epoch": 2}):
        assert fetch(**member).topics[0].partitions[0].committed_offset == 5
    for member, error in (
        ({"member_id": MEMBER, "member_epoch": 1}, ErrorCode.STALE_MEMBER_EPOCH),
        ({"member_id": "other", "member_epoch": 2}, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        assert (fetch(**member).error_code, fetch(**member).topics) == (error, ())


def test_in_a_transaction_an_old_epoch_is_an_illegal_generation(coordinator: Coordinator) -> None:
    join(coordinator)
    answer = coordinator.ask(
        ApiKey.TXN_OFFSET_COMMIT,
        5,
        transactional_id="x",
        group_id=GROUP,
        producer_id=1,
        producer_epoch=0,
        generation_id=1,
        member_id=MEMBER,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}],
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_describe_groups_knows_it_as_dead(coordinator: Coordinator, version: int, error: ErrorCode) -> None:
    join(coordinator)
    (group,) = coordinator.ask(ApiKey.DESCRIBE_GROUPS, version, groups=[GROUP]).groups
    assert (group.error_code, group.group_state) == (error, "Dead")


def test_it_is_listed_by_type_and_state(coordinator: Coordinator) -> None:
    join(coordinator)

    def listed(**filters: Any) -> list[tuple[str, str, str]]:
        answer = coordinator.ask(ApiKey.LIST_GROUPS, 5, client_id=f"{OUR_PREFIX}broker-1", **filters)
        return [(one.group_id, one.group_state, one.group_type) for one in answer.groups]

    assert listed(types_filter=["Consumer"], states_filter=["stable"]) == [(GROUP, "Stable", "consumer")]
    assert listed(types_filter=["classic"]) == listed(states_filter=["Empty"]) == []


def test_it_is_deleted_when_it_is_empty(coordinator: Coordinator) -> None:
    join(coordinator)
    commit(coordinator, 9, 2)

    def delete() -> int:
        return int(coordinator.ask(ApiKey.DELETE_GROUPS, 2, groups_names=[GROUP]).results[0].error_code)

    assert delete() == ErrorCode.NON_EMPTY_GROUP
    beat(coordinator, -1)
    assert delete() == ErrorCode.NONE
    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND
