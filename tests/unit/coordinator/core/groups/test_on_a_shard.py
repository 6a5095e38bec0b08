"""Groups on a shard's runtime: a member's life across two coordinators and a log that refuses."""

from __future__ import annotations

from msgspec.structs import replace

from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.options import GroupOptions
from coordinator.core.groups.requests import (
    CommitOffsets,
    FetchOffsets,
    FetchOffsetsReply,
    GroupPlaces,
    JoinGroup,
    JoinGroupReply,
    MemberHeartbeat,
    MemberHeartbeatReply,
    OffsetPlace,
    OffsetsReply,
    OffsetToCommit,
    Request,
    SyncGroup,
    SyncGroupReply,
)
from coordinator.core.shard_ports import RequestCame
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.fenced_log import FencedLog
from tests.kit.coordinator.group_desk import RANGE
from tests.kit.coordinator.shard_desk import ControllerOfOne, ShardDesk

PLACE = OffsetPlace("t", 0)


def opened(log: FencedLog, controller: ControllerOfOne) -> ShardDesk:
    desk = ShardDesk(log, controller, new_machine=lambda: GroupMachine(GroupOptions(initial_delay_ms=0)))
    desk.open()
    return desk


def ask(desk: ShardDesk, request: Request) -> object:
    desk.step(RequestCame(request.token, request))
    return desk.answers.get(request.token)


def join(desk: ShardDesk, token: int) -> JoinGroupReply:
    request = JoinGroup(
        token=token,
        group_id="g",
        member_id="",
        new_member_id="a",
        instance_id=None,
        client_id="client",
        client_host="/10.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=RANGE,
        requires_member_id=False,
        may_skip_assignment=True,
    )
    assert ask(desk, request) is None
    desk.wait()
    reply = desk.answers[token]
    assert isinstance(reply, JoinGroupReply)
    return reply


def sync(token: int, generation_id: int) -> SyncGroup:
    return SyncGroup(
        token=token, group_id="g", generation_id=generation_id, member_id="a", assignments=(("a", b"t-0"),)
    )


def heartbeat(token: int) -> MemberHeartbeat:
    return MemberHeartbeat(token=token, group_id="g", generation_id=1, member_id="a")


def test_a_member_goes_on_under_the_next_coordinator() -> None:
    log, controller = FencedLog(), ControllerOfOne()
    first = opened(log, controller)
    assert join(first, 1).generation_id == 1
    first.is_holding = True
    assert ask(first, sync(2, 1)) is ask(first, sync(3, 1)) is None
    first.deliver()
    assigned = SyncGroupReply(ErrorCode.NONE, "consumer", "range", b"t-0")
    assert first.answers[2] == first.answers[3] == assigned
    first.is_holding = False
    commit = CommitOffsets(
        token=4, group_id="g", generation_id=1, member_id="a", offsets=(OffsetToCommit(PLACE, 7),)
    )
    assert ask(first, commit) == OffsetsReply(ErrorCode.NONE, ((PLACE, ErrorCode.NONE),))
    second = opened(log, controller)
    assert ask(second, heartbeat(5)) == MemberHeartbeatReply(ErrorCode.NONE)
    fetched = ask(second, FetchOffsets(token=6, groups=(GroupPlaces("g", None),)))
    assert isinstance(fetched, FetchOffsetsReply)
    assert [value and value.offset for _, value in fetched.groups[0].offsets] == [7]
    assert ask(first, sync(7, 1)) == assigned  # nothing of it is written: it tells what it was once told
    assert ask(first, replace(commit, token=8)) is ErrorCode.NOT_COORDINATOR


def test_a_coordinator_that_was_replaced_and_has_not_heard_of_it_tells_members_nothing() -> None:
    """13.8: it may have stood still for so long that another has given what they have to others."""
    log, controller = FencedLog(), ControllerOfOne()
    first = opened(log, controller)
    assert join(first, 1).generation_id == 1
    ask(first, sync(2, 1))
    first.is_current = False
    assert ask(first, heartbeat(3)) == MemberHeartbeatReply(ErrorCode.NONE), "the log shows that it is not"
    opened(log, controller)
    assert ask(first, sync(4, 1)) is ErrorCode.NOT_COORDINATOR
    assert ask(first, heartbeat(5)) is ErrorCode.NOT_COORDINATOR


def test_a_log_that_refuses_assignments_keeps_the_group_alive_and_answers_heartbeats() -> None:
    log = FencedLog()
    desk = opened(log, ControllerOfOne())
    assert join(desk, 1).generation_id == 1
    log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert ask(desk, sync(2, 1)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert ask(desk, heartbeat(3)) == MemberHeartbeatReply(ErrorCode.REBALANCE_IN_PROGRESS)
