"""Groups go from the classic protocol to the other one and back while their members are at work (KIP-848).
KAFKA-: its issues."""

from __future__ import annotations

import pytest

from coordinator.core.groups.consumer.requests import ConsumerHeartbeatReply
from coordinator.core.groups.consumer.state import AWAY, MemberState
from coordinator.core.groups.history import NOT_KNOWN
from coordinator.core.groups.options import GroupOptions, MigrationPolicy
from coordinator.core.groups.requests import JoinGroupReply, JoinProtocol, Leaver, SyncGroupReply
from coordinator.core.groups.state import GroupState
from coordinator.core.groups.subscription import write_assignment
from coordinator.core.topic_partitions import each_partition, stamp
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.consumer_desk import NOTHING, ConsumerDesk, every, metadata, some, topic
from tests.kit.coordinator.group_desk import GROUP, REBALANCE_MS, SESSION_MS

T = topic("t", 4)
HALVES = {"c": some(T, 0, 1), "d": some(T, 2, 3)}


@pytest.fixture
def desk() -> ConsumerDesk:
    return ConsumerDesk(T, topic("u", 2))


def written(desk: ConsumerDesk, since: int) -> list[tuple[int, bool]]:
    return [(int.from_bytes(one.key[:2]), one.value is not None) for one in desk.records[since:]]


def with_policy(policy: MigrationPolicy, size_max: int = 9) -> ConsumerDesk:
    options = GroupOptions(migration_policy=policy, consumer_size_max=size_max)
    return ConsumerDesk(T, topic("u", 2), options=options)


def mixed(desk: ConsumerDesk) -> None:
    """c, classic, has 0 and 1; a has 2 and 3; both are at epoch 2."""
    desk.form_classic({"c": every(T)})
    desk.join("a")
    assert desk.heartbeat("c", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    desk.join_classic("c", owned=every(T))
    assert desk.sync_classic("c", 1) == some(T, 0, 1)
    assert desk.join_classic("c", owned=some(T, 0, 1)).generation_id == 2
    assert desk.sync_classic("c", 2) == some(T, 0, 1)
    assert desk.beat("a", 2).assigned == some(T, 2, 3)


# --- upgrade ---------------------------------------------------------------------------------------


def test_a_live_group_is_upgraded_and_its_members_keep_what_they_have(desk: ConsumerDesk) -> None:
    desk.form_classic(HALVES)
    before = len(desk.records)
    reply = desk.join("a")
    assert (reply.error, reply.member_epoch, reply.assigned) == (ErrorCode.NONE, 2, NOTHING)
    assert written(desk, before) == [
        (2, False),
        *[(5, True), (5, True), (3, True), (7, True), (7, True), (6, True), (8, True), (8, True)],
        *[(5, True), (3, True), (7, True), (7, True), (6, True), (8, True)],
    ]
    for name, partitions in HALVES.items():
        member = desk.member(name)
        assert (member.current.epoch, member.current.state) == (1, MemberState.STABLE)
        assert member.current.assigned == stamp(partitions, 1)
        assert member.about.topics == ("t",)
        assert member.about.classic is not None
        assert member.about.classic.session_timeout_ms == SESSION_MS
    assert GROUP not in desk.machine.registry.live
    assert desk.machine.registry.members == desk.machine.registry.protocol_bytes == 0


def test_an_empty_classic_group_of_any_type_makes_way_whatever_the_policy() -> None:
    desk = with_policy(MigrationPolicy.DISABLED)
    desk.form("old")
    desk.leave(Leaver("old"))
    before = len(desk.records)
    assert desk.join("a").member_epoch == 2
    assert written(desk, before)[0] == (2, False)
    desk.wait(SESSION_MS)
    assert GROUP not in desk.machine.registry.live


@pytest.mark.parametrize("policy", [MigrationPolicy.DOWNGRADE, MigrationPolicy.DISABLED])
def test_a_policy_can_forbid_upgrades(policy: MigrationPolicy) -> None:
    desk = with_policy(policy)
    generation = desk.form_classic(HALVES)
    reply = desk.join("a")
    assert (reply.error, f"migration.policy is {policy}" in reply.message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        True,
    )
    assert desk.heartbeat("c", generation) is ErrorCode.NONE


def test_a_group_that_is_too_large_for_the_other_protocol_stays() -> None:
    desk = with_policy(MigrationPolicy.BIDIRECTIONAL, 1)
    desk.form_classic(HALVES)
    assert "2 members, and group.consumer.max.size is 1" in desk.join("a").message


def test_a_group_without_room_for_the_joiner_stays_as_it_is() -> None:
    desk = with_policy(MigrationPolicy.BIDIRECTIONAL, 2)
    generation = desk.form_classic(HALVES)
    before = len(desk.records)
    assert desk.join("a").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(desk.records) == before
    assert desk.heartbeat("c", generation) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("protocol_type", "said", "assignment", "why"),
    [
        ("connect", metadata("t"), b"", "(protocol type connect)"),
        ("consumer", b"not a subscription", b"", "can't be read"),
        ("consumer", metadata("t"), b"not an assignment", "can't be read"),
        (
            "consumer",
            metadata("t"),
            write_assignment([], 0)[:-4] + b"\x00\x00\x00\x01x",
            "tells members more than partitions",
        ),
    ],
    ids=["another type", "no subscription", "no assignment", "user data"],
)
def test_a_group_that_the_coordinator_could_not_assign_stays(
    desk: ConsumerDesk, protocol_type: str, said: bytes, assignment: bytes, why: str
) -> None:
    token = desk.start_join(protocols=(JoinProtocol("range", said),), protocol_type=protocol_type)
    desk.wait(3_000)
    joined = desk.joined(token)
    desk.start_sync(joined.member_id, joined.generation_id, {joined.member_id: assignment})
    reply = desk.join("a")
    assert reply.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert reply.message.startswith("the group has members of the classic protocol and can't be converted: ")
    assert reply.message.endswith(why)
    assert desk.heartbeat(joined.member_id, joined.generation_id) is ErrorCode.NONE


def test_empty_user_data_is_none(desk: ConsumerDesk) -> None:
    """kafka-python's assignors tell that."""
    token = desk.start_join_classic(new_id="c")
    desk.wait(3_000)
    told = write_assignment([("t", 0)], 0)[:-4] + bytes(4)
    desk.start_sync("c", desk.joined(token).generation_id, {"c": told})
    assert desk.join("a").error is ErrorCode.NONE


def test_requests_that_wait_are_answered_and_members_join_again(desk: ConsumerDesk) -> None:
    generation = desk.form_classic(HALVES)
    waiting = desk.start_join_classic("c", "t", "u")
    assert desk.join("a").error is ErrorCode.NONE
    assert desk.joined(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat("d", generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.joined(desk.start_join_classic("c", "t", "u")).error is ErrorCode.NONE


def test_a_member_that_waits_for_its_assignment_joins_again(desk: ConsumerDesk) -> None:
    desk.form_classic(HALVES)
    tokens = [desk.start_join_classic("d", "t", "u"), desk.start_join_classic("c", "t", "u")]
    generation = desk.joined(tokens[0]).generation_id
    waiting = desk.start_sync("d", generation)
    desk.join("a")
    assert desk.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    late = desk.start_sync("c", generation, protocol_type="consumer", protocol="range")
    assert desk.synced(late).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.member("c").current.assigned == stamp(HALVES["c"], generation)


def test_a_group_in_its_first_rebalance_is_upgraded(desk: ConsumerDesk) -> None:
    """It has no protocol yet, and was never stored."""
    waiting = desk.start_join_classic(new_id="c")
    assert desk.join("a").error is ErrorCode.NONE
    assert desk.joined(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.join_classic("c").error is ErrorCode.NONE
    assert set(desk.group.members) == {"c", "a"}


def test_what_a_member_has_not_heard_that_it_has_to_give_up_is_not_given_on(desk: ConsumerDesk) -> None:
    """c consumes all, and has joined again, so that d gets its half with the generation after this one."""
    desk.form_classic({"c": every(T)})
    joining = [desk.start_join_classic(new_id="d")]
    desk.start_join_classic("c", owned=every(T))
    generation = desk.joined(joining[0]).generation_id
    told = {"c": write_assignment([("t", 0), ("t", 1)], 3), "d": write_assignment([], 3)}
    leader = desk.joined(joining[0]).leader
    desk.start_sync(leader, generation, told)
    assert desk.join("a").assigned == NOTHING
    assert desk.revoking("c") == some(T, 2, 3)
    assert desk.heartbeat("c", generation) is ErrorCode.REBALANCE_IN_PROGRESS
    desk.join_classic("c", owned=every(T))
    told_now = desk.sync_classic("c", generation)
    assert {*each_partition(told_now)} <= {*each_partition(some(T, 0, 1))}
    assert desk.beat("a", desk.member("a").current.epoch).assigned is None
    desk.join_classic("c", owned=desk.assigned_to("c"))
    assert desk.beat("a", desk.member("a").current.epoch).assigned == desk.target("a")


def test_a_partition_that_two_members_were_assigned_is_the_first_ones(desk: ConsumerDesk) -> None:
    desk.form_classic({"c": some(T, 0, 1), "d": some(T, 1, 2)})
    desk.join("a")
    assert desk.assigned_to("d") == some(T, 2)
    assert desk.group.owners[T.topic_id][1] == "c"


def test_the_consumer_that_replaces_a_static_member_need_not_wait_for_its_session(desk: ConsumerDesk) -> None:
    """KAFKA-17228: a static member of the classic protocol does not leave."""
    desk.form_classic({"c": every(T)}, instance_id="i")
    reply = desk.join("a", instance_id="i")
    assert (reply.error, reply.assigned) == (ErrorCode.NONE, every(T))
    assert set(desk.group.members) == {"a"}
    assert desk.member("a").about.classic is None
    assert desk.heartbeat("c", 1, "i") is ErrorCode.FENCED_INSTANCE_ID


def test_a_lost_members_partitions_are_assigned_at_the_upgrade(desk: ConsumerDesk) -> None:
    """A static member returns with the other protocol and subscribes what it did; the epoch rises
    nevertheless: the member that is gone had partitions."""
    desk.form_classic({"c": some(T, 0, 1)}, instance_id="i")
    desk.machine.registry.live[GROUP].members["c"].assignment = write_assignment([("t", 0)], 3)
    assert desk.join("a", instance_id="i").assigned == every(T)


def test_a_refused_upgrade_leaves_the_group_as_its_record_has_it(desk: ConsumerDesk) -> None:
    generation = desk.form_classic(HALVES)
    desk.is_holding = True
    token = desk.start_join_consumers("a")
    desk.refuse()
    desk.is_holding = False
    assert desk.replies[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert desk.heartbeat("c", generation) is ErrorCode.NONE
    assert desk.described().error is ErrorCode.GROUP_ID_NOT_FOUND
    desk.wait(2 * SESSION_MS)
    assert desk.describe().members == (), "their sessions had begun again"


def test_offsets_stay(desk: ConsumerDesk) -> None:
    generation = desk.form_classic(HALVES)
    assert desk.commit_offsets("c", generation).error is ErrorCode.NONE
    desk.join("a")
    assert desk.fetch() == {("t", 0): 7}
    assert desk.commit_offsets("c", generation).error is ErrorCode.NONE
    assert desk.commit_offsets("c", generation + 1).error is ErrorCode.ILLEGAL_GENERATION
    desk.leave(Leaver("a"))
    assert desk.fetch() == {("t", 0): 7}


# --- members of the classic protocol meanwhile -----------------------------------------------------


def test_a_classic_member_gives_partitions_up_by_a_rebalance_of_its_own(desk: ConsumerDesk) -> None:
    mixed(desk)
    assert desk.heartbeat("c", 2) is ErrorCode.NONE
    assert desk.described().state == "Stable"


def test_a_join_is_answered_at_once_and_none_leads(desk: ConsumerDesk) -> None:
    mixed(desk)
    first = desk.join_classic(new_id="d", requires_member_id=True)
    assert first == JoinGroupReply(ErrorCode.MEMBER_ID_REQUIRED, "d")
    assert "d" not in desk.group.members
    desk.wait(1_000)
    assert desk.join_classic("d") == JoinGroupReply(ErrorCode.NONE, "d", 3, "consumer", "range", "", ())
    reply = desk.synced(desk.start_sync("d", 3, protocol_type="consumer", protocol="range"))
    assert reply == SyncGroupReply(ErrorCode.NONE, "consumer", "range", write_assignment([], 3))


def test_an_eager_member_has_given_all_up_before_it_joins(desk: ConsumerDesk) -> None:
    desk.form_classic({"c": every(T)})
    desk.join("a")
    assert desk.join_classic("c").generation_id == 2
    assert desk.beat("a", 2).assigned == some(T, 2, 3)
    assert desk.sync_classic("c", 2) == some(T, 0, 1)


def test_a_classic_member_is_told_of_nothing_that_others_may_still_consume(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.wait(1_000)
    desk.join_classic("c")
    assert desk.target("c") == some(T, 0, 1) or desk.target("c") == some(T, 2, 3)
    assert desk.sync_classic("c", 3) == NOTHING
    assert desk.heartbeat("c", 3) is ErrorCode.NONE, "it would get nothing by joining again"
    desk.beat("a", 2)
    desk.beat("a", 2, owned=desk.target("a"))
    assert desk.heartbeat("c", 3) is ErrorCode.REBALANCE_IN_PROGRESS
    desk.join_classic("c")
    assert desk.sync_classic("c", 3) == desk.target("c")


def test_a_classic_member_is_called_only_once_there_is_a_newer_target(desk: ConsumerDesk) -> None:
    """KAFKA-20272: by an epoch without a target it would join again and again."""
    mixed(desk)
    desk.wait(100)
    desk.join("b")
    assert desk.group.is_due
    assert desk.heartbeat("c", 2) is ErrorCode.NONE
    assert desk.sync_classic("c", 2) == some(T, 0, 1)
    desk.wait(1_000)
    assert desk.heartbeat("c", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.synced(desk.start_sync("c", 2)).error is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("must_sync", [True, False])
def test_a_classic_member_that_misses_its_next_step_is_given_up(desk: ConsumerDesk, must_sync: bool) -> None:
    mixed(desk)
    if must_sync:
        desk.join_classic("c", owned=some(T, 0, 1))
    else:
        desk.join("b")
        desk.wait(1_000)
        assert desk.heartbeat("c", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(REBALANCE_MS // 5_000):
        assert "c" in desk.group.members
        desk.heartbeat("c", 2)
        for name in {"a", "b"} & desk.group.members.keys():
            desk.beat(name, desk.member(name).current.epoch)
        desk.wait(5_000)
    assert "c" not in desk.group.members
    assert desk.rebalance.causes[-1].kind == "missed_rebalance"


def test_the_session_of_a_classic_member_is_its_own(desk: ConsumerDesk) -> None:
    mixed(desk)
    desk.wait(SESSION_MS - 1)
    desk.heartbeat("c", 2)
    desk.wait(SESSION_MS - 1)
    assert "c" in desk.group.members
    desk.wait(1)
    assert set(desk.group.members) == {"a"}


def test_requests_of_classic_members_are_refused_by_the_order_of_the_checks(desk: ConsumerDesk) -> None:
    mixed(desk)
    assert desk.heartbeat("x", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID, "it speaks the other protocol"
    assert desk.heartbeat("c", 1) is ErrorCode.ILLEGAL_GENERATION
    assert desk.synced(desk.start_sync("x", 2)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.synced(desk.start_sync("c", 1)).error is ErrorCode.ILLEGAL_GENERATION
    wrong = desk.start_sync("c", 2, protocol="sticky")
    assert desk.synced(wrong).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_classic_members_have_a_protocol_in_common(desk: ConsumerDesk) -> None:
    mixed(desk)
    other = desk.join_classic("", name="sticky", new_id="d")
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.join_classic("c", name="sticky").error is ErrorCode.NONE, "it is the only one"
    connect = desk.start_join_classic(new_id="d", protocol_type="connect")
    assert desk.joined(connect).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    malformed = desk.start_join(new_id="d", protocols=(JoinProtocol("sticky", b"?"),))
    assert desk.joined(malformed).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("policy", list(MigrationPolicy))
def test_a_policy_can_forbid_that_classic_members_join(policy: MigrationPolicy) -> None:
    desk = with_policy(policy)
    desk.join("a")
    is_off = policy is MigrationPolicy.DISABLED
    expected = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_off else ErrorCode.NONE
    assert desk.join_classic(new_id="c").error is expected


def test_a_full_group_takes_no_classic_member() -> None:
    desk = with_policy(MigrationPolicy.BIDIRECTIONAL, 2)
    mixed(desk)
    assert desk.join_classic(new_id="d").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.join_classic("c").error is ErrorCode.NONE


def test_members_of_both_protocols_leave_by_leave_group(desk: ConsumerDesk) -> None:
    mixed(desk)
    desk.join("s", instance_id="i")
    errors = desk.leave(Leaver("x"), Leaver("", "i"), Leaver("c"))
    assert errors == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE, ErrorCode.NONE]
    assert set(desk.group.members) == {"a"}


def test_a_static_member_that_was_replaced_does_not_steal_its_seat_back(desk: ConsumerDesk) -> None:
    mixed(desk)
    desk.join("s", instance_id="i")
    late = desk.join_classic("old", instance_id="i")
    assert late.error is ErrorCode.FENCED_INSTANCE_ID


def test_a_commit_of_a_classic_member_with_an_old_generation_is_of_an_illegal_one(desk: ConsumerDesk) -> None:
    mixed(desk)
    assert desk.commit_offsets("c", 2).error is ErrorCode.NONE
    assert desk.commit_offsets("c", 0).error is ErrorCode.ILLEGAL_GENERATION
    assert desk.commit_offsets("c", 3).error is ErrorCode.ILLEGAL_GENERATION


def test_nothing_is_told_before_it_is_committed(desk: ConsumerDesk) -> None:
    mixed(desk)
    desk.is_holding = True
    joining = desk.start_join_classic("c", "t", "u", owned=some(T, 0, 1))
    syncing = desk.start_sync("c", 2)
    assert not {joining, syncing} & desk.replies.keys()
    desk.commit()
    assert {joining, syncing} <= desk.replies.keys()


# --- downgrade -------------------------------------------------------------------------------------


def test_the_last_consumer_leaves_and_the_group_is_of_the_classic_protocol_again(desk: ConsumerDesk) -> None:
    mixed(desk)
    before = len(desk.records)
    assert desk.error("a", -1) is ErrorCode.NONE
    gone = [(kind, False) for kind in (8, 8, 7, 7, 6, 5, 5, 3)]
    assert written(desk, before) == [*gone, (2, True)]
    stored = desk.machine.registry.store.groups.latest(GROUP)
    assert stored is not None
    assert (stored.generation_id, stored.protocol, stored.leader) == (2, "range", None)
    assert [(one.member_id, one.assignment) for one in stored.members] == [
        ("c", write_assignment([("t", 0), ("t", 1)], 3))
    ]
    assert desk.state == GroupState.PREPARING
    assert desk.heartbeat("c", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = desk.join_classic("c", owned=some(T, 0, 1))
    assert (joined.generation_id, joined.leader) == (3, "c")
    assert desk.machine.registry.consumers.store.members == 0


@pytest.mark.parametrize("how", ["committed", "refused"])
def test_that_there_is_no_such_group_any_more_is_told_once_that_is_committed(
    desk: ConsumerDesk, how: str
) -> None:
    """Clients end on it."""
    mixed(desk)
    desk.is_holding = True
    desk.start_beat("a", -1)
    late = desk.start_beat("b", 2)
    assert late not in desk.replies
    if how == "committed":
        desk.commit()
        assert desk.answer(late, ConsumerHeartbeatReply).error is ErrorCode.GROUP_ID_NOT_FOUND
    else:
        desk.refuse()
        assert desk.replies[late] is ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize("how", ["silent", "removed"])
def test_it_is_so_however_the_last_consumer_goes(desk: ConsumerDesk, how: str) -> None:
    mixed(desk)
    if how == "removed":
        desk.leave(Leaver("a"))
    for _ in range(9):
        desk.heartbeat("c", 2)
        desk.wait(5_000)
    assert desk.described().error is ErrorCode.GROUP_ID_NOT_FOUND
    assert {one.member_id for one in desk.describe().members} == {"c"}


def test_the_rebalance_after_a_downgrade_survives_its_coordinator(desk: ConsumerDesk) -> None:
    """In Kafka it does not: c would consume half of the topic for ever."""
    mixed(desk)
    desk.error("a", -1)
    desk.fail_over()
    assert desk.heartbeat("c", 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_member_of_all_leaves_an_empty_group_as_it_is(desk: ConsumerDesk) -> None:
    mixed(desk)
    desk.leave(Leaver("c"), Leaver("a"))
    assert desk.described().state == "Empty"


@pytest.mark.parametrize(
    ("policy", "size_max"),
    [(MigrationPolicy.UPGRADE, 9), (MigrationPolicy.BIDIRECTIONAL, 1)],
    ids=["the policy", "group.max.size"],
)
def test_a_downgrade_can_be_forbidden(policy: MigrationPolicy, size_max: int) -> None:
    desk = with_policy(policy)
    mixed(desk)
    desk.wait(1_000)
    desk.join_classic("d")
    desk.sync_classic("d", 3)
    desk.options = GroupOptions(migration_policy=policy, size_max=size_max)
    desk.fail_over()
    desk.error("a", -1)
    assert set(desk.group.members) == {"c", "d"}
    desk.leave(Leaver("d"))
    is_still_forbidden = policy is MigrationPolicy.UPGRADE
    assert (desk.describe().error is ErrorCode.GROUP_ID_NOT_FOUND) == is_still_forbidden


def static(desk: ConsumerDesk, **said: object) -> None:
    """c, classic, has 0 and 1; a, static as i, has 2 and 3; both are at epoch 2."""
    desk.form_classic({"c": every(T)})
    desk.join("a", instance_id="i", **said)
    desk.join_classic("c")
    desk.sync_classic("c", 2)
    assert desk.beat("a", 2).assigned == some(T, 2, 3)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_classic_member_takes_the_last_instance_and_nothing_moves(desk: ConsumerDesk, leaves: bool) -> None:
    static(desk)
    if leaves:
        desk.beat("a", AWAY, instance_id="i")
    reply = desk.join_classic(new_id="e", instance_id="i", name="range")
    assert (reply.error, reply.generation_id, reply.leader) == (ErrorCode.NONE, 2, "e")
    assert reply.skip_assignment, "it watches the topics"
    assert {one.member_id for one in reply.members} == {"c", "e"}
    assert desk.state == GroupState.STABLE
    assert desk.sync_classic("e", 2, instance_id="i") == some(T, 2, 3)
    assert desk.heartbeat("c", 2) is ErrorCode.NONE
    assert desk.error("a", 2, instance_id="i") is ErrorCode.GROUP_ID_NOT_FOUND
    desk.fail_over()
    assert desk.state == GroupState.STABLE


def test_with_another_subscription_a_rebalance_follows(desk: ConsumerDesk) -> None:
    """KAFKA-19546."""
    static(desk)
    token = desk.start_join_classic("", "u", new_id="e", instance_id="i")
    assert token not in desk.replies
    assert desk.heartbeat("c", 2) is ErrorCode.REBALANCE_IN_PROGRESS or desk.state == GroupState.PREPARING
    desk.start_join_classic("c")
    assert desk.joined(token).error is ErrorCode.NONE


def test_with_a_target_that_is_due_a_rebalance_follows(desk: ConsumerDesk) -> None:
    """KAFKA-20273."""
    static(desk)
    desk.wait(100)
    desk.know(topic("t", 6), topic("u", 2))
    token = desk.start_join_classic(new_id="e", instance_id="i")
    assert (token in desk.replies, desk.state) == (False, GroupState.PREPARING)


def test_a_client_that_can_not_be_told_to_skip_the_assignment_makes_one(desk: ConsumerDesk) -> None:
    static(desk)
    token = desk.start_join_classic(new_id="e", instance_id="i", may_skip=False)
    assert (token in desk.replies, desk.state) == (False, GroupState.PREPARING)


def test_a_classic_member_takes_the_instance_of_one_with_a_pattern(desk: ConsumerDesk) -> None:
    """KAFKA-19720: the pattern is not its own."""
    static(desk, pattern="t.*")
    desk.join("b")
    desk.join_classic(new_id="e", instance_id="i")
    assert desk.member("e").about.pattern is None
    assert not desk.group.asked


def test_a_refused_downgrade_leaves_the_group_as_it_was(desk: ConsumerDesk) -> None:
    mixed(desk)
    desk.is_holding = True
    desk.start_beat("a", -1)
    waiting = desk.start_join_classic("c", owned=some(T, 0, 1))
    desk.refuse()
    desk.is_holding = False
    assert waiting in desk.replies
    assert desk.beat("a", 2).error is ErrorCode.NONE
    assert desk.heartbeat("c", 2) is ErrorCode.NONE
    assert desk.machine.registry.members == 0
    desk.wait(45_000)
    assert desk.group.members == {}, "their sessions had begun again"


def test_a_group_that_is_converted_twice_at_once_gives_nothing_to_two_members(desk: ConsumerDesk) -> None:
    """c has to give half of the topic up when the group goes back, and forth again before its rebalance."""
    desk.form_classic({"c": every(T)})
    desk.join("a")
    desk.wait(1_000)
    desk.join_classic(new_id="d")
    desk.join_classic("c", owned=every(T))
    desk.error("a", -1)
    assert desk.join("a").assigned == NOTHING
    assert {*desk.group.owners[T.topic_id].values()} == {"c"}


# --- what people are told --------------------------------------------------------------------------


def test_conversions_are_told_as_causes_and_nothing_before_is_forgotten(desk: ConsumerDesk) -> None:
    mixed(desk)
    joined, _ = desk.machine.registry.history.of(GROUP)
    upgraded = desk.rebalance
    assert joined.causes[0].kind == "joined"
    assert (upgraded.causes[0].kind, upgraded.to_move, upgraded.moved) == ("converted", 2, 2)
    assert upgraded.reason == (
        "member a joined from host /10.0.0.1 as the first one with the consumer protocol, to which the group "
        "was converted"
    )
    assert upgraded.ended_ms != NOT_KNOWN
    desk.error("a", -1)
    assert desk.rebalance.reason == (
        "member a left, and the group was converted to the classic protocol, which all others speak"
    )
    desk.wait(500)
    generation = desk.join_classic("c", owned=some(T, 0, 1)).generation_id
    desk.start_sync("c", generation, {"c": write_assignment(desk.named(every(T)), 3)})
    (moved,) = desk.rebalance.moves
    assert (moved.before, moved.after, moved.count, moved.unowned_ms_max) == ("a", "c", 2, 500)
    assert desk.rebalance.ended_ms != NOT_KNOWN


def test_a_conversion_without_a_rebalance_leaves_none_under_way(desk: ConsumerDesk) -> None:
    desk.join("a", instance_id="i")
    desk.join_classic(instance_id="i", new_id="c")
    assert desk.described().error is ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.machine.registry.history.under_way(GROUP) is None


def test_a_refused_conversion_is_told(desk: ConsumerDesk) -> None:
    desk.form_classic(HALVES)
    desk.is_holding = True
    desk.start_join_consumers("a")
    desk.refuse()
    desk.is_holding = False
    assert [cause.kind for cause in desk.rebalance.causes] == ["converted", "not_written"]
    assert desk.rebalance.ended_ms != NOT_KNOWN


def test_there_and_back_and_there(desk: ConsumerDesk) -> None:
    mixed(desk)
    desk.error("a", -1)
    generation = desk.join_classic("c", owned=some(T, 0, 1)).generation_id
    desk.start_sync("c", generation, {"c": write_assignment([("t", n) for n in range(4)], 3)})
    assert desk.join("a").member_epoch == generation + 1
    assert desk.assigned_to("c") == every(T)
