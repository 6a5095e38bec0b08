"""DescribeGroups, ListGroups and DeleteGroups as bytes, before real machines."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.node.handlers.group_lists import OUR_PREFIX
from springtide.node.sharding import shard_of
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import GROUP
from tests.kit.coordinator.group_shards import SHARDS, Coordinator

DESCRIBE, LIST, DELETE = ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.DELETE_GROUPS
OURS = f"{OUR_PREFIX}broker-1"
OTHERS = [f"g{number}" for number in range(8)]


@pytest.fixture
def coordinator() -> Coordinator:
    """With the stable group GROUP of member "a", and empty groups in all shards."""
    coordinator = Coordinator()
    coordinator.has_topic("t", 1)
    desks = coordinator.shards.desks
    desk = desks[shard_of(GROUP, SHARDS)]
    desk.answered = dict.fromkeys(range(1, 100), lambda _: None)
    desk.form("a")
    for group_id in OTHERS:
        desk = desks[shard_of(group_id, SHARDS)]
        desk.answered.setdefault(desk.tokens + 1, lambda _: None)
        desk.commit_offsets(group_id=group_id)
    return coordinator


@pytest.mark.parametrize("version", range(APIS[DESCRIBE].version_max + 1))
def test_a_group_and_its_members_are_described(coordinator: Coordinator, version: int) -> None:
    (group,) = coordinator.ask(DESCRIBE, version, groups=[GROUP], include_authorized_operations=True).groups
    assert (group.error_code, group.group_id, group.group_state) == (ErrorCode.NONE, GROUP, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == ("a", "client", "/10.0.0.1")
    assert member.member_assignment == b"a"
    if version >= 3:
        assert group.authorized_operations == 3400


@pytest.mark.parametrize(("version", "error"), [(0, 0), (5, 0), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_group_that_does_not_exist_is_dead(version: int, error: int) -> None:
    (group,) = Coordinator().ask(DESCRIBE, version, groups=["nothing"]).groups
    assert (group.error_code, group.group_id, group.group_state) == (error, "nothing", "Dead")
    told = "there is no group 'nothing' of the classic protocol" if error else None
    assert getattr(group, "error_message", None) == told


def test_groups_of_several_shards_are_described_once_each_in_order(coordinator: Coordinator) -> None:
    answer = coordinator.ask(DESCRIBE, 6, groups=[*OTHERS, GROUP, *OTHERS])
    assert [group.group_id for group in answer.groups] == [*OTHERS, GROUP]
    assert {group.error_code for group in answer.groups} == {0}


@pytest.mark.parametrize("version", range(APIS[LIST].version_max + 1))
def test_groups_of_all_shards_are_listed(coordinator: Coordinator, version: int) -> None:
    answer = coordinator.ask(LIST, version, client_id=OURS)
    assert answer.error_code == ErrorCode.NONE
    listed = {group.group_id: group for group in answer.groups}
    assert set(listed) == {GROUP, *OTHERS}
    assert listed[GROUP].protocol_type == "consumer"
    if version >= 4:
        assert (listed[GROUP].group_state, listed["g1"].group_state) == ("Stable", "Empty")
    if version >= 5:
        assert listed[GROUP].group_type == "classic"


def test_a_client_that_comes_to_a_coordinator_is_told_none(coordinator: Coordinator) -> None:
    """A broker tells it all."""
    answer = coordinator.ask(LIST, 5, client_id="rdkafka")
    assert (answer.error_code, answer.groups) == (ErrorCode.NONE, ())


def test_groups_are_listed_by_state_and_type(coordinator: Coordinator) -> None:
    def names(**filters: Any) -> list[str]:
        return [group.group_id for group in coordinator.ask(LIST, 5, client_id=OURS, **filters).groups]

    assert names(states_filter=["stable"]) == [GROUP]
    assert names(states_filter=["Stable"], types_filter=["Consumer"]) == []
    assert len(names(types_filter=["Classic", "nonsense"])) == len(OTHERS) + 1


def test_a_shard_that_opens_fails_a_list_and_one_that_is_gone_does_not(coordinator: Coordinator) -> None:
    shard = shard_of("g1", SHARDS)
    coordinator.shards.errors[shard] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    answer = coordinator.ask(LIST, 5, client_id=OURS)
    assert (answer.error_code, answer.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())
    coordinator.shards.errors[shard] = ErrorCode.NOT_COORDINATOR
    answer = coordinator.ask(LIST, 5, client_id=OURS)
    assert answer.error_code == ErrorCode.NONE
    assert {shard_of(group.group_id, SHARDS) for group in answer.groups} == set(range(SHARDS)) - {shard}


def test_a_process_without_shards_lists_nothing() -> None:
    answer = Coordinator(owned=()).ask(LIST, 5, client_id=OURS)
    assert (answer.error_code, answer.groups) == (ErrorCode.NONE, ())


@pytest.mark.parametrize("version", range(APIS[DELETE].version_max + 1))
def test_groups_are_deleted_wherever_they_are(coordinator: Coordinator, version: int) -> None:
    answer = coordinator.ask(DELETE, version, groups_names=["g1", GROUP, "nothing", "g2", "g1"])
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        ("g1", ErrorCode.NONE),
        (GROUP, ErrorCode.NON_EMPTY_GROUP),
        ("nothing", ErrorCode.GROUP_ID_NOT_FOUND),
        ("g2", ErrorCode.NONE),
    ]
    assert len(coordinator.ask(LIST, 0, client_id=OURS).groups) == len(OTHERS) - 1


def test_no_groups_are_answered_with_none() -> None:
    assert Coordinator().ask(DESCRIBE, 0, groups=[]).groups == ()
    assert Coordinator().ask(DELETE, 0, groups_names=[]).results == ()
