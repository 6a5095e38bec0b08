"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup as bytes, before a real machine, in the oldest and newest
versions."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import RANGE, SESSION_MS
from tests.kit.coordinator.group_shards import Coordinator

PROTOCOLS = [{"name": own.name, "metadata": own.metadata} for own in RANGE]
DELAY_MS = 3_000


class Versions(NamedTuple):
    join: int
    sync: int
    heartbeat: int
    leave: int


OLDEST = Versions(0, 0, 0, 0)
NEWEST = Versions(
    *(
        APIS[key].version_max
        for key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP)
    )
)


def start_join(
    coordinator: Coordinator,
    version: int,
    member_id: str = "",
    client_id: str | None = "client",
    **fields: Any,
) -> list[Any]:
    wanted: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
    }
    return coordinator.start(ApiKey.JOIN_GROUP, version, client_id, **(wanted | fields))


def join_alone(coordinator: Coordinator, version: int, **fields: Any) -> Any:
    """Return the answer to the only member of a new group."""
    answers = start_join(coordinator, version, **fields)
    if version >= 4 and fields.get("group_instance_id") is None:
        (required,) = answers
        assert (required.error_code, required.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
        answers = start_join(coordinator, version, required.member_id, **fields)
    assert answers == []
    coordinator.wait(DELAY_MS)
    (joined,) = answers
    return joined


def sync(coordinator: Coordinator, version: int, joined: Any, assignment: bytes = b"all") -> Any:
    return coordinator.ask(
        ApiKey.SYNC_GROUP,
        version,
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": joined.member_id, "assignment": assignment}],
    )


def beat(coordinator: Coordinator, version: int, joined: Any) -> ErrorCode:
    answer = coordinator.ask(
        ApiKey.HEARTBEAT,
        version,
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
    )
    return ErrorCode(answer.error_code)


@pytest.mark.parametrize("versions", [OLDEST, NEWEST])
def test_a_member_joins_is_assigned_beats_and_leaves(versions: Versions) -> None:
    coordinator = Coordinator()
    joined = join_alone(coordinator, versions.join)
    assert joined.member_id == joined.leader
    assert joined.member_id.startswith("client-suffix-")
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (ErrorCode.NONE, 1, "range")
    ((of_roster),) = joined.members
    assert (of_roster.member_id, of_roster.metadata) == (joined.member_id, RANGE[0].metadata)

    synced = sync(coordinator, versions.sync, joined)
    assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"all")
    if versions is NEWEST:
        assert (joined.protocol_type, joined.skip_assignment) == ("consumer", False)
        assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
    assert beat(coordinator, versions.heartbeat, joined) is ErrorCode.NONE

    leaving = {"member_id": joined.member_id}
    left = coordinator.ask(ApiKey.LEAVE_GROUP, versions.leave, group_id="g", members=[leaving], **leaving)
    assert left.error_code == ErrorCode.NONE
    if versions is NEWEST:
        assert [(one.member_id, one.error_code) for one in left.members] == [(joined.member_id, 0)]
    assert beat(coordinator, versions.heartbeat, joined) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(APIS[ApiKey.JOIN_GROUP].version_max + 1))
def test_every_version_of_join_is_answered_with_the_member(version: int) -> None:
    coordinator = Coordinator()
    joined = join_alone(coordinator, version)
    assert (joined.error_code, joined.member_id) == (ErrorCode.NONE, joined.leader)


def test_the_first_version_waits_for_other_members_as_long_as_a_session_lasts() -> None:
    """It has no rebalance timeout."""
    coordinator = Coordinator()
    first = join_alone(coordinator, 0)
    sync(coordinator, 0, first)
    second = start_join(coordinator, 0)
    coordinator.wait(SESSION_MS - 1)
    assert second == []
    coordinator.wait(1)
    assert second[0].error_code == ErrorCode.NONE


def test_a_member_says_what_it_believes_the_protocol_to_be() -> None:
    coordinator = Coordinator()
    joined = join_alone(coordinator, 9)
    asked = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id, "protocol_type": "consumer"}
    for said in ({}, {"protocol_name": "other"}):
        answer = coordinator.ask(ApiKey.SYNC_GROUP, 5, **asked, **said)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.ask(ApiKey.SYNC_GROUP, 4, **asked).error_code == ErrorCode.NONE


def test_only_the_leader_gets_the_members() -> None:
    coordinator = Coordinator()
    answers = [start_join(coordinator, 3), start_join(coordinator, 3)]
    for _ in range(3):
        coordinator.wait(DELAY_MS)
    leader, follower = (answer for (answer,) in answers)
    assert len(leader.members) == 2
    assert (follower.members, follower.leader) == ((), leader.member_id)


def test_a_static_member_is_named_by_its_instance_and_fenced_by_its_successor() -> None:
    coordinator = Coordinator()
    instance = {"group_instance_id": "host-1"}
    first = join_alone(coordinator, 9, **instance)
    assert first.member_id.startswith("host-1-suffix-")
    assert first.members[0].group_instance_id == "host-1"
    sync(coordinator, 5, first)
    (second,) = start_join(coordinator, 9, **instance)
    assert second.skip_assignment
    assert second.generation_id == first.generation_id
    old = coordinator.ask(
        ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id=first.member_id, **instance
    )
    assert old.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_an_operator_removes_members_by_their_instances() -> None:
    coordinator = Coordinator()
    join_alone(coordinator, 9, group_instance_id="host-1")
    leavers = [{"member_id": "", "group_instance_id": name} for name in ("host-1", "host-2")]
    left = coordinator.ask(ApiKey.LEAVE_GROUP, 3, group_id="g", members=leavers)
    assert left.error_code == ErrorCode.NONE
    assert [(one.group_instance_id, one.error_code) for one in left.members] == [
        ("host-1", ErrorCode.NONE),
        ("host-2", ErrorCode.UNKNOWN_MEMBER_ID),
    ]


@pytest.mark.parametrize("version", [0, 2])
def test_the_one_leaver_of_old_versions_has_the_error_of_the_whole(version: int) -> None:
    left = Coordinator().ask(ApiKey.LEAVE_GROUP, version, group_id="g", member_id="nobody")
    assert left.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_without_a_name_is_a_member_like_others() -> None:
    coordinator = Coordinator()
    (required,) = start_join(coordinator, 4, client_id=None)
    assert required.member_id == "-suffix-1"


def test_a_client_with_a_long_name_gets_a_short_member_id() -> None:
    (required,) = start_join(Coordinator(), 4, client_id="c" * 30_000)
    assert required.member_id == "c" * 255 + "-suffix-1"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "g" * 40_000}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": -1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": [{"name": "range", "metadata": bytes(300_000)}]}, ErrorCode.POLICY_VIOLATION),
        ({"protocols": [{"name": "", "metadata": b""}] * 50_000}, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_what_no_member_can_be_is_refused_in_words_of_the_protocol(
    fields: dict[str, Any], error: ErrorCode
) -> None:
    (answer,) = start_join(Coordinator(), 9, **fields)
    assert (answer.error_code, answer.generation_id) == (error, -1)
