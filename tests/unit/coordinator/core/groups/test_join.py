"""Members come, and rebalances begin and end as Kafka's do."""

from __future__ import annotations

import pytest

from coordinator.core.groups.options import AGAIN_MS_MIN, GroupOptions
from coordinator.core.groups.registry import JoinTimer
from coordinator.core.groups.requests import JoinedMember, JoinGroupReply, JoinProtocol, Leaver
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import RANGE, REBALANCE_MS, SESSION_MS, GroupDesk, subscription

SUBSCRIPTION = RANGE[0].metadata
ROUND_ROBIN = JoinProtocol("roundrobin", subscription("t"))


@pytest.fixture
def desk() -> GroupDesk:
    return GroupDesk()


# The first generation.


def test_the_first_rebalance_waits_for_more_members_and_the_leader_alone_gets_the_roster(
    desk: GroupDesk,
) -> None:
    first = desk.start_join(new_id="a")
    desk.wait(2_000)
    second = desk.start_join(new_id="b", instance_id="i")
    assert (desk.state, desk.replies.keys() & {first, second}) == ("PreparingRebalance", set())
    desk.wait(1_000)  # the first delay is over, but a member has come in it
    assert desk.state == "PreparingRebalance"
    desk.wait(3_000)
    roster = (JoinedMember("a", None, SUBSCRIPTION), JoinedMember("b", "i", SUBSCRIPTION))
    assert desk.joined(first) == JoinGroupReply(ErrorCode.NONE, "a", 1, "consumer", "range", "a", roster)
    assert desk.joined(second) == JoinGroupReply(ErrorCode.NONE, "b", 1, "consumer", "range", "a")
    assert desk.state == "CompletingRebalance"


def test_the_first_delay_never_exceeds_the_rebalance_timeout(desk: GroupDesk) -> None:
    first = desk.start_join(new_id="m-0", rebalance_ms=7_000)
    for number in range(1, 4):
        desk.wait(2_900)
        desk.start_join(new_id=f"m-{number}")
        assert (first in desk.replies) == (desk.now_ms > 7_000)
    assert desk.joined(first).generation_id == 1


def test_without_a_delay_the_first_member_has_its_generation_at_once() -> None:
    desk = GroupDesk(GroupOptions(initial_delay_ms=0))
    token = desk.start_join(new_id="a")
    desk.wait(0)
    assert desk.joined(token).generation_id == 1


def test_a_member_that_must_know_its_id_gets_one_and_joins_with_it(desk: GroupDesk) -> None:
    token = desk.start_join(new_id="a", requires_member_id=True)
    assert desk.joined(token) == JoinGroupReply(ErrorCode.MEMBER_ID_REQUIRED, "a")
    assert desk.state == "Empty"
    again = desk.start_join("a", requires_member_id=True)
    desk.wait(3_000)
    assert (desk.joined(again).error, desk.joined(again).leader) == (ErrorCode.NONE, "a")


def test_a_pending_id_lapses_after_the_session_and_its_group_with_it(desk: GroupDesk) -> None:
    desk.start_join(new_id="a", requires_member_id=True)
    desk.wait(10_000)
    assert desk.describe().error is ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.joined(desk.start_join("a")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_a_pending_member_and_no_longer_than_it_may_come(desk: GroupDesk) -> None:
    desk.form("a")
    desk.start_join(new_id="b", requires_member_id=True)
    token = desk.start_join("a")
    assert token not in desk.replies
    desk.heartbeat("a", 1)
    desk.wait(10_000)
    assert desk.joined(token).generation_id == 2


def test_an_unknown_member_or_group_is_told_so(desk: GroupDesk) -> None:
    assert desk.joined(desk.start_join("nobody")).error is ErrorCode.UNKNOWN_MEMBER_ID
    desk.form("a")
    assert desk.joined(desk.start_join("nobody")).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.joined(desk.start_join("a", instance_id="i")).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "g" * 40_000}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"new_id": "é" * 20_000}, ErrorCode.POLICY_VIOLATION),
        ({"protocols": (JoinProtocol("range", bytes(256 * 1024)),)}, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_a_join_out_of_bounds_is_refused_and_leaves_nothing(
    desk: GroupDesk, changes: dict[str, str], error: ErrorCode
) -> None:
    assert desk.joined(desk.start_join(**changes)).error is error  # type: ignore[arg-type]
    assert desk.listed().groups == ()


# Protocols.


def test_members_vote_for_a_protocol_that_all_of_them_speak(desk: GroupDesk) -> None:
    other = JoinProtocol("sticky", subscription("t"))
    both = (other, ROUND_ROBIN)
    tokens = [desk.start_join(new_id="a", protocols=(*RANGE, ROUND_ROBIN))]
    tokens += [desk.start_join(new_id=name, protocols=(*both, *RANGE)) for name in ("b", "c")]
    desk.wait(6_000)
    assert [desk.joined(token).protocol for token in tokens] == ["roundrobin"] * 3
    assert desk.joined(tokens[0]).members[1].metadata == ROUND_ROBIN.metadata


def test_a_member_without_a_common_protocol_or_of_another_type_is_refused(desk: GroupDesk) -> None:
    desk.form("a")
    refused = (
        desk.start_join(protocols=(ROUND_ROBIN,)),
        desk.start_join(protocol_type="connect"),
        desk.start_join("a", protocols=(ROUND_ROBIN,)),
    )
    assert {desk.joined(token).error for token in refused} == {ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
    assert desk.state == "Stable"


def test_a_group_of_connect_workers_has_its_own_type_and_protocols(desk: GroupDesk) -> None:
    sessioned = (JoinProtocol("sessioned", b"any bytes"),)
    token = desk.start_join(new_id="w", protocol_type="connect", protocols=sessioned)
    desk.wait(3_000)
    assert desk.joined(token).protocol_type == "connect"
    desk.sync_all(1, "w")
    assert desk.describe().protocol_type == "connect"
    assert desk.describe().members[0].metadata == b"any bytes"


# Members that come again.


def test_a_member_that_is_not_back_in_time_is_removed_and_its_leadership_passes_on(desk: GroupDesk) -> None:
    desk.form("a", "b", "c")
    tokens = [
        desk.start_join("b"),
        desk.start_join("c", protocols=(JoinProtocol("range", subscription("u")),)),
    ]
    # b has changed nothing, so it was answered with its generation; c has begun a rebalance.
    assert desk.joined(tokens[0]).generation_id == 1
    again = desk.start_join("b")
    for _ in range(REBALANCE_MS // 5_000):
        desk.heartbeat("a", 1)
        desk.wait(5_000)
    replies = [desk.joined(token) for token in (again, tokens[1])]
    assert [(reply.generation_id, reply.leader) for reply in replies] == [(2, "b"), (2, "b")]
    assert [member.member_id for member in replies[0].members] == ["b", "c"]
    assert desk.heartbeat("a", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_comes_again_unchanged_gets_the_present_generation(desk: GroupDesk) -> None:
    desk.form("a", "b")
    assert desk.joined(desk.start_join("b")) == JoinGroupReply(
        ErrorCode.NONE, "b", 1, "consumer", "range", "a"
    )
    assert desk.state == "Stable"


def test_a_leader_that_comes_again_begins_a_rebalance(desk: GroupDesk) -> None:
    desk.form("a", "b")
    token = desk.start_join("a")
    assert desk.state == "PreparingRebalance"
    desk.start_join("b")
    assert desk.joined(token).generation_id == 2


def test_a_join_whose_answer_was_lost_is_answered_again(desk: GroupDesk) -> None:
    first = desk.start_join(new_id="a")
    desk.wait(3_000)
    assert desk.joined(desk.start_join("a")) == desk.joined(first)


def test_a_second_join_of_a_member_takes_the_place_of_the_first(desk: GroupDesk) -> None:
    desk.form("a", "b")
    lost, kept = desk.start_join("a"), desk.start_join("a")
    assert desk.joined(lost).error is ErrorCode.REBALANCE_IN_PROGRESS
    desk.start_join("b")
    assert desk.joined(kept).error is ErrorCode.NONE


def test_a_new_member_waits_longer_than_its_session_but_not_for_ever(desk: GroupDesk) -> None:
    """It has no member id yet, so it cannot send heartbeats (KAFKA-7610)."""
    token = desk.start_join(new_id="a", rebalance_ms=3_600_000)
    desk.wait(3_000)
    assert desk.joined(token).generation_id == 1
    desk.sync_all(1, "a")
    late = desk.start_join(new_id="b", session_ms=6_000)
    for _ in range(60):
        desk.heartbeat("a", 1)
        assert late not in desk.replies
        desk.wait(5_000)
    assert desk.joined(late).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_known_member_that_waits_for_a_generation_outlives_its_session(desk: GroupDesk) -> None:
    desk.form("a", "b")
    token = desk.start_join("a")
    for _ in range(5):
        desk.heartbeat("b", 1)
        desk.wait(5_000)
    desk.start_join("b")
    assert desk.joined(token).generation_id == 2


# Static members.


def test_a_static_member_comes_back_without_a_rebalance_and_the_old_process_is_fenced(
    desk: GroupDesk,
) -> None:
    desk.form("a", statics={"s": "i"})
    token = desk.start_join(new_id="s2", instance_id="i")
    assert desk.joined(token) == JoinGroupReply(ErrorCode.NONE, "s2", 1, "consumer", "range", "a")
    assert desk.state == "Stable"
    assert desk.synced(desk.start_sync("s2", 1, instance_id="i")).assignment == b"s"
    assert desk.heartbeat("s", 1, "i") is ErrorCode.FENCED_INSTANCE_ID
    assert desk.heartbeat("s", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    desk.fail_over()
    assert desk.heartbeat("s2", 1, "i") is ErrorCode.NONE


def test_a_static_members_session_begins_again_when_it_is_told_its_new_id(desk: GroupDesk) -> None:
    desk.form("a", statics={"s": "i"})
    desk.is_holding = True
    token = desk.start_join(new_id="s2", instance_id="i")
    desk.wait(SESSION_MS - 1)
    desk.heartbeat("a", 1)
    desk.commit()
    assert desk.joined(token).member_id == "s2"
    desk.wait(SESSION_MS - 1)
    assert desk.heartbeat("s2", 1, "i") is ErrorCode.NONE


@pytest.mark.parametrize("may_skip", [True, False])
def test_a_static_leader_that_comes_back_does_not_assign_anew(desk: GroupDesk, *, may_skip: bool) -> None:
    """KIP-814: it gets the roster and is told to skip; an older client is told its predecessor's id."""
    desk.form(statics={"s": "i", "t": "j"})
    reply = desk.joined(desk.start_join(new_id="s2", instance_id="i", may_skip=may_skip))
    assert reply.skip_assignment is may_skip
    assert reply.leader == ("s2" if may_skip else "s")
    assert [member.member_id for member in reply.members] == (["t", "s2"] if may_skip else [])


@pytest.mark.parametrize(
    "protocols", [(ROUND_ROBIN, *RANGE), (JoinProtocol("range", subscription("t", "u")), ROUND_ROBIN)]
)
def test_a_static_member_that_comes_back_with_other_topics_or_assignors_begins_a_rebalance(
    desk: GroupDesk, protocols: tuple[JoinProtocol, ...]
) -> None:
    token = desk.start_join(new_id="s", instance_id="i", protocols=(*RANGE, ROUND_ROBIN))
    desk.wait(3_000)
    desk.sync_all(1, "s")
    token = desk.start_join(new_id="s2", instance_id="i", protocols=protocols)
    assert desk.joined(token).generation_id == 2


def test_what_an_assignor_adds_to_the_same_topics_is_no_reason_for_a_rebalance(desk: GroupDesk) -> None:
    desk.form(statics={"s": "i"})
    protocols = (JoinProtocol("range", subscription("t", rest=b"owned partitions")),)
    assert desk.joined(desk.start_join(new_id="s2", instance_id="i", protocols=protocols)).generation_id == 1


def test_a_static_member_that_comes_back_in_a_rebalance_takes_the_place_of_its_waiting_self(
    desk: GroupDesk,
) -> None:
    desk.form("a", statics={"s": "i"})
    waiting = desk.start_join("s", instance_id="i", protocols=(JoinProtocol("range", b""),))
    token = desk.start_join(new_id="s2", instance_id="i")
    assert desk.joined(waiting).error is ErrorCode.FENCED_INSTANCE_ID
    desk.start_join("a")
    assert desk.joined(token).member_id == "s2"


def test_an_instance_that_comes_back_before_its_assignment_begins_another_rebalance(desk: GroupDesk) -> None:
    """The leader assigns to the old member id."""
    tokens = [desk.start_join(new_id="a"), desk.start_join(new_id="s", instance_id="i")]
    desk.wait(6_000)
    waiting = desk.start_sync("s", 1, instance_id="i")
    again = desk.start_join(new_id="s2", instance_id="i")
    assert desk.synced(waiting).error is ErrorCode.FENCED_INSTANCE_ID
    assert desk.state == "PreparingRebalance"
    desk.start_join("a")
    assert (desk.joined(tokens[0]).generation_id, desk.joined(again).generation_id) == (1, 2)


def test_a_static_member_that_is_away_keeps_its_seat_until_its_session_ends(desk: GroupDesk) -> None:
    desk.form("a", statics={"s": "i"})
    desk.start_join("a", rebalance_ms=6_000)
    assert desk.heartbeat("s", 1, "i") is ErrorCode.REBALANCE_IN_PROGRESS
    desk.start_join("a", rebalance_ms=6_000)
    desk.wait(9_999)
    assert [member.member_id for member in desk.describe().members] == ["a", "s"]


def test_while_only_static_members_are_left_and_none_is_back_there_is_no_generation(desk: GroupDesk) -> None:
    token = desk.start_join(new_id="s", instance_id="i", session_ms=200_000)
    other = desk.start_join(new_id="a")
    desk.wait(6_000)
    desk.sync_all(1, "s", "a")
    desk.leave(Leaver("a"))
    desk.wait(REBALANCE_MS + 1)
    assert (desk.joined(token).generation_id, desk.joined(other).generation_id) == (1, 1)
    assert desk.state == "PreparingRebalance"
    back = desk.start_join(new_id="s2", instance_id="i")
    assert (desk.joined(back).generation_id, desk.joined(back).leader) == (2, "s2")


def test_a_rebalance_timeout_of_nothing_does_not_keep_the_coordinator_busy(desk: GroupDesk) -> None:
    desk.form("a", statics={"s": "i"})
    desk.start_join("a")
    desk.start_join("s", instance_id="i", rebalance_ms=0)
    desk.sync_all(2, "a", "s")
    desk.leave(Leaver("a"))
    desk.wait(0)
    assert desk.state == "PreparingRebalance"
    assert desk.timers[JoinTimer("g")] == desk.now_ms + AGAIN_MS_MIN


# Bounds.


def test_a_full_group_refuses_new_members_and_keeps_its_own() -> None:
    desk = GroupDesk(GroupOptions(size_max=2))
    desk.form("a", "b")
    refused = desk.joined(desk.start_join(new_id="c"))
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.joined(desk.start_join("b")).error is ErrorCode.NONE


def test_a_static_member_that_was_started_again_has_its_place_in_a_full_group() -> None:
    """KAFKA-20601: there its full group refused it."""
    desk = GroupDesk(GroupOptions(size_max=2))
    desk.form("a", statics={"b": "i"})
    assert desk.joined(desk.start_join(new_id="b-2", instance_id="i")).error is ErrorCode.NONE
    assert desk.joined(desk.start_join(new_id="c", instance_id="j")).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_above_a_lowered_limit_shrinks_to_those_that_come_back_first() -> None:
    desk = GroupDesk()
    desk.form("a", "b", "c")
    desk.options = GroupOptions(size_max=2)
    desk.fail_over()
    assert desk.state == "PreparingRebalance"
    tokens = [desk.start_join(name) for name in ("c", "a", "b")]
    assert desk.joined(tokens[2]).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [desk.joined(token).generation_id for token in tokens[:2]] == [2, 2]


def test_what_the_members_of_a_shard_say_is_bounded_in_bytes() -> None:
    desk = GroupDesk(GroupOptions(shard_bytes_max=100))

    def join(group_id: str, size: int, member_id: str = "", new_id: str = "") -> ErrorCode:
        protocols = (JoinProtocol("range", bytes(size - len("range"))),)
        token = desk.start_join(member_id, new_id=new_id, protocols=protocols, group_id=group_id)
        told = desk.replies.get(token)  # none yet: it waits for its generation
        return told.error if isinstance(told, JoinGroupReply) else ErrorCode.NONE

    assert join("g", 60, new_id="a") is ErrorCode.NONE
    assert join("h", 41, new_id="b") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert join("h", 40, new_id="b") is ErrorCode.NONE
    assert join("h", 41, "b") is ErrorCode.GROUP_MAX_SIZE_REACHED, "nor may a member grow"
    assert join("g", 50, "a") is ErrorCode.NONE
    assert join("h", 50, "b") is ErrorCode.NONE
    desk.fail_over()
    assert join("i", 100, new_id="c") is ErrorCode.NONE, "nothing of them was stored"


def test_pending_members_of_a_group_and_members_of_a_shard_are_bounded() -> None:
    desk = GroupDesk(GroupOptions(pending_max=2, members_max=4))
    errors = [
        desk.joined(desk.start_join(requires_member_id=True, group_id=group)).error for group in "gggghhh"
    ]
    assert errors == [
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]
    desk.wait(10_000)  # they have all lapsed
    assert desk.joined(desk.start_join(requires_member_id=True)).error is ErrorCode.MEMBER_ID_REQUIRED
