"""ConsumerGroupHeartbeat: members join, come to their targets, and are told so. KAFKA-: its issues."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core.consumer_group_records import (
    TargetEpoch,
    encode_consumer_key,
    encode_consumer_value,
)
from coordinator.core.group_records import ConsumerGroupKey, ConsumerRecord, decode_key
from coordinator.core.groups.consumer.requests import ConsumerHeartbeatReply
from coordinator.core.groups.consumer.state import MemberState
from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.options import GroupOptions
from coordinator.core.machine import ShardRecord
from coordinator.core.topic_partitions import PartitionsByTopic, by_topic
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.consumer_desk import NOTHING, REBALANCE_MS, ConsumerDesk, every, some, topic
from tests.kit.coordinator.group_desk import GROUP
from tests.kit.coordinator.machine_desk import WALL_MS

T = topic("t", 4)


@pytest.fixture
def desk() -> ConsumerDesk:
    return ConsumerDesk(T)


def written(desk: ConsumerDesk, since: int) -> list[tuple[int, bool]]:
    """Return the types of the records since one, and whether they have a value."""
    return [(int.from_bytes(one.key[:2]), one.value is not None) for one in desk.records[since:]]


def two_members(desk: ConsumerDesk) -> None:
    """a has partitions 0 and 1, b 2 and 3, both at epoch 3."""
    desk.join("a")
    desk.join("b")
    desk.wait(1_000)
    desk.beat("a", 2, owned=some(T, 0, 1, 2, 3))
    desk.beat("a", 2, owned=some(T, 0, 1))
    assert desk.beat("b", 2).assigned == some(T, 2, 3)
    assert {name: one.current.epoch for name, one in desk.group.members.items()} == {"a": 3, "b": 3}


def test_the_first_member_gets_all_at_epoch_2(desk: ConsumerDesk) -> None:
    """KAFKA-20268: epoch 1 is that of the empty target."""
    reply = desk.join("a")
    assert reply == ConsumerHeartbeatReply(ErrorCode.NONE, "a", 2, 5_000, every(T))
    assert written(desk, 0) == [(5, True), (3, True), (7, True), (6, True), (8, True)]
    assert desk.group.target == TargetEpoch(2, WALL_MS)


def test_a_heartbeat_that_changes_nothing_writes_nothing_and_tells_nothing(desk: ConsumerDesk) -> None:
    desk.join("a")
    before = len(desk.records)
    assert desk.beat("a", 2) == ConsumerHeartbeatReply(ErrorCode.NONE, "a", 2, 5_000, None)
    assert len(desk.records) == before


def test_a_partition_is_given_on_once_its_member_shows_that_it_is_gone(desk: ConsumerDesk) -> None:
    desk.join("a")
    assert desk.join("b").assigned == NOTHING
    assert desk.group.is_due, "the second target waits for its interval"
    desk.wait(1_000)
    assert not desk.group.is_due, "no heartbeat was needed for it"
    assert desk.beat("b", 2).assigned is None
    assert desk.member("b").current.state == MemberState.UNRELEASED_PARTITIONS
    asked = desk.beat("a", 2)
    assert (asked.member_epoch, asked.assigned) == (2, some(T, 0, 1))
    assert desk.beat("b", 3).assigned is None
    assert desk.beat("a", 2, owned=some(T, 0, 1)).member_epoch == 3
    assert desk.beat("b", 3).assigned == some(T, 2, 3)


def test_a_member_that_shows_something_else_is_told_again(desk: ConsumerDesk) -> None:
    two_members(desk)
    assert desk.beat("a", 3, owned=some(T, 0)).assigned == some(T, 0, 1)


def test_what_a_member_is_told_at_the_epoch_that_it_knows_it_is_told_until_it_shows_that_it_heard(
    desk: ConsumerDesk,
) -> None:
    """librdkafka repeats a heartbeat without an answer as it was. A storm left two members with partitions
    that they had to give up, and two partitions with nobody, until the rebalance timeout. (Kafka tells once.)
    """
    desk.join("a")
    desk.join("b")
    desk.wait(1_000)
    for _ in range(3):  # the answers are lost
        assert desk.beat("a", 2).assigned == some(T, 0, 1)
    desk.beat("b", 2)
    desk.beat("a", 2, owned=some(T, 0, 1))
    assert desk.beat("a", 3).assigned is None
    desk.beat("b", 3)
    joined = desk.join("c").member_epoch
    desk.wait(1_000)
    desk.beat("b", 3)
    desk.beat("a", 3)
    epoch = desk.beat("c", joined).member_epoch
    assert epoch > joined
    assert desk.beat("c", epoch).assigned is None, "who knows an epoch has heard what came with it"
    given_up = by_topic([*desk.revoking("a").items(), *desk.revoking("b").items()])
    for name in "ab":
        desk.beat(name, 3, owned=desk.assigned_to(name))
    for _ in range(3):
        assert desk.beat("c", epoch).assigned == given_up
    assert desk.beat("c", epoch, owned=given_up).assigned is None
    assert desk.beat("c", epoch).assigned is None


def test_news_that_were_not_heard_are_told_with_the_next_epoch(desk: ConsumerDesk) -> None:
    two_members(desk)
    joined = desk.join("c").member_epoch
    desk.wait(1_000)
    desk.beat("b", 3)
    desk.beat("a", 3)
    epoch = desk.beat("c", joined).member_epoch
    for name in "ab":
        desk.beat(name, 3, owned=desk.assigned_to(name))
    news = desk.beat("c", epoch).assigned
    desk.know(T, topic("u", 1))
    desk.join("d", "u")
    desk.wait(1_000)
    reply = desk.beat("c", epoch)
    assert (reply.member_epoch, reply.assigned) == (epoch + 1, news)
    assert desk.beat("c", epoch + 1).assigned is None


def test_what_is_full_is_answered_fully(desk: ConsumerDesk) -> None:
    two_members(desk)
    full = desk.beat("a", 3, topics=("t",), owned=some(T, 0, 1), rebalance_timeout_ms=REBALANCE_MS)
    assert full.assigned == some(T, 0, 1)


def test_members_are_refused_by_the_order_of_the_checks(desk: ConsumerDesk) -> None:
    assert desk.error("a", 3) is ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.error("a", -1) is ErrorCode.GROUP_ID_NOT_FOUND
    desk.join("a")
    assert desk.error("x", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.error("x", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.error("a", 3) is ErrorCode.FENCED_MEMBER_EPOCH
    assert desk.error("a", 1) is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_epoch_before_is_right_for_a_member_that_has_not_heard_of_the_present_one(
    desk: ConsumerDesk,
) -> None:
    two_members(desk)
    assert desk.error("a", 2, owned=some(T, 0, 3)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert desk.beat("a", 2, owned=some(T, 0)).assigned == some(T, 0, 1)
    assert desk.error("a", 1) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_repeat_that_shows_nothing_is_right_at_the_epoch_before_and_gives_nothing_up(
    desk: ConsumerDesk,
) -> None:
    """librdkafka repeats a heartbeat that was not answered within its interval, without what it consumes.
    Kafka fences it, and it gives up all that it has."""
    two_members(desk)
    desk.join("c")
    desk.wait(1_000)
    assert desk.beat("b", 2).assigned == some(T, 2), "it has not heard yet that it has epoch 3"
    assert desk.revoking("b") == some(T, 3)
    assert desk.error("b", 3) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert desk.beat("b", 3, owned=some(T, 2)).member_epoch == 4


def test_a_heartbeat_at_the_epoch_before_gives_nothing_up(desk: ConsumerDesk) -> None:
    """franz-go#889: the heartbeat of before comes once more, after a later one."""
    two_members(desk)
    desk.join("c")
    desk.wait(1_000)
    late = desk.beat("b", 2, owned=NOTHING)
    assert late.assigned is not None
    assert desk.member("b").current.revoking, "what b has to give up, which the client does not know"
    desk.beat("c", 3)
    assert desk.member("c").current.assigned == {}


@pytest.mark.parametrize("moves", [False, True])
def test_a_member_that_was_behind_is_asked_to_show_again_what_it_consumes(
    desk: ConsumerDesk, moves: bool
) -> None:
    """What it showed at the epoch before is not believed, and a Java client does not repeat it unasked if it
    has just that: it would be given up after its rebalance timeout."""
    two_members(desk)
    desk.join("c")
    desk.wait(1_000)
    desk.beat("b", 2, owned=some(T, 2))
    assert desk.revoking("b") == some(T, 3)
    if moves:
        desk.fail_over()
    assert desk.error("b", 3) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert desk.beat("b", 3).member_epoch == 3, "it is asked once"
    assert desk.beat("b", 3, owned=some(T, 2)).member_epoch == 4


def test_a_member_may_join_anew_with_its_id_at_any_time(desk: ConsumerDesk) -> None:
    two_members(desk)
    assert desk.join("a").assigned == some(T, 0, 1)
    assert desk.group.epoch == 3


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_heartbeat_that_comes_twice_is_answered_twice(desk: ConsumerDesk, epoch: int) -> None:
    """franz-go#889. Both wait for the records of the first."""
    desk.join("a")
    desk.is_holding = True
    said = {"topics": ("t",), "owned": NOTHING, "rebalance_timeout_ms": REBALANCE_MS, "rack_id": "r"}
    tokens = [desk.start_beat("a", epoch, **said) for _ in range(2)]
    assert not desk.replies.keys() & set(tokens)
    desk.commit()
    assert desk.replies[tokens[0]] == desk.replies[tokens[1]]


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_leave_that_comes_twice_is_answered_twice(desk: ConsumerDesk, epoch: int) -> None:
    """franz-go#889."""
    desk.join("a", instance_id="i")
    desk.is_holding = True
    tokens = [desk.start_beat("a", epoch, instance_id="i") for _ in range(2)]
    desk.commit()
    first, second = (desk.replies[token] for token in tokens)
    assert isinstance(first, ConsumerHeartbeatReply)
    assert isinstance(second, ConsumerHeartbeatReply)
    assert first.error is ErrorCode.NONE
    assert second.error is (ErrorCode.NONE if epoch == -2 else ErrorCode.UNKNOWN_MEMBER_ID)


def test_who_leaves_and_joins_again_is_answered_in_this_order(desk: ConsumerDesk) -> None:
    """KAFKA-19335: the answer to the leave came last, and the client took itself for gone."""
    desk.join("a")
    desk.is_holding = True
    left = desk.start_beat("a", -1)
    joined = desk.start_join_consumers("a")
    desk.commit()
    assert list(desk.replies)[-2:] == [left, joined]
    assert desk.replies[left] == ConsumerHeartbeatReply(ErrorCode.NONE, "a", -1)
    assert desk.member("a").current.epoch > 0
    desk.is_holding = False
    desk.wait(45_000)
    assert desk.group.members == {}, "the session of the one that joined runs"


def test_what_comes_back_to_the_member_that_was_to_give_it_up_is_its_own(desk: ConsumerDesk) -> None:
    """KAFKA-16147: its entry in the index of owners was taken away with what it gave up."""
    desk.join("a")
    desk.join("b")
    desk.wait(1_000)
    desk.beat("a", 2)
    desk.beat("b", -1)
    desk.wait(1_000)
    given_up = desk.revoking("a")[T.topic_id]
    reply = desk.beat("a", 2, owned=some(T, *sorted({0, 1, 2, 3} - {*given_up})))
    assert reply.assigned == every(T)
    assert desk.group.owners == {T.topic_id: dict.fromkeys(range(4), "a")}


def test_a_topic_that_a_member_drops_is_gone_from_the_answer_before_there_is_a_target(
    desk: ConsumerDesk,
) -> None:
    """KAFKA-19431."""
    u = topic("u", 1)
    desk.know(T, u)
    desk.join("a", "t", "u")
    reply = desk.beat("a", 2, topics=("t",))
    assert desk.group.is_due
    assert reply.assigned == every(T)
    assert desk.revoking("a") == every(u)


@pytest.mark.parametrize("owned", [None, some(T, 0), NOTHING])
def test_a_member_in_a_state_of_a_later_release_has_to_show_that_it_holds_nothing(
    desk: ConsumerDesk, owned: PartitionsByTopic | None
) -> None:
    desk.join("a")
    key = ConsumerGroupKey(ConsumerRecord.CURRENT, GROUP, "a")
    later = replace(desk.member("a").current, state=9)
    desk.machine.apply(ShardRecord(encode_consumer_key(key), encode_consumer_value(later)), len(desk.records))
    expected = ErrorCode.NONE if owned == NOTHING else ErrorCode.FENCED_MEMBER_EPOCH
    assert desk.error("a", 2, owned=owned) is expected


def test_a_member_that_calls_from_another_host_is_written_and_not_assigned_anew(desk: ConsumerDesk) -> None:
    two_members(desk)
    before = len(desk.records)
    desk.beat("a", 3, rack_id="r2")
    assert written(desk, before) == [(5, True)]
    assert desk.group.epoch == 3


def test_of_two_faults_the_one_that_lets_a_client_join_again_is_told(desk: ConsumerDesk) -> None:
    """Clients end on a pattern that is wrong: it is looked at last."""
    two_members(desk)
    wrong = {"topics": (), "pattern": "("}
    assert desk.error("x", 3, **wrong) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.error("a", 9, **wrong) is ErrorCode.FENCED_MEMBER_EPOCH
    assert desk.error("a", 3, instance_id="i", **wrong) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.error("a", 3, **wrong) is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_the_last_leaver_leaves_a_target_that_is_not_due(desk: ConsumerDesk) -> None:
    """KAFKA-20442."""
    desk.join("a")
    before = len(desk.records)
    assert desk.error("a", -1) is ErrorCode.NONE
    assert written(desk, before) == [(8, False), (7, False), (5, False), (3, True), (6, True)]
    assert (desk.group.epoch, desk.group.target.epoch) == (3, 3)
    assert desk.join("b").member_epoch == 4


def test_a_silent_member_is_given_up_and_its_partitions_go_to_the_others(desk: ConsumerDesk) -> None:
    two_members(desk)
    for _ in range(9):
        desk.wait(5_000)
        desk.beat("b", desk.member("b").current.epoch)
    assert set(desk.group.members) == {"b"}
    assert desk.beat("b", desk.member("b").current.epoch, owned=some(T, 2, 3)).assigned == every(T)


def test_a_member_that_keeps_partitions_is_given_up_after_its_rebalance_timeout(desk: ConsumerDesk) -> None:
    desk.join("a", rebalance_timeout_ms=20_000)
    desk.join("b")
    desk.wait(1_000)
    desk.beat("b", 2)
    desk.beat("a", 2)
    desk.wait(19_999)
    assert set(desk.group.members) == {"a", "b"}
    desk.wait(1)
    assert set(desk.group.members) == {"b"}
    assert desk.error("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_without_time_is_given_up_once_it_could_have_heard(desk: ConsumerDesk) -> None:
    desk.join("a", rebalance_timeout_ms=0)
    desk.join("b")
    desk.wait(1_000)
    desk.is_holding = True
    desk.start_beat("a", 2)
    desk.wait(5_000)
    assert set(desk.group.members) == {"a", "b"}
    desk.is_holding = False
    desk.commit()
    desk.wait(0)
    assert set(desk.group.members) == {"b"}


def test_new_topics_and_partitions_are_assigned_with_the_next_heartbeat(desk: ConsumerDesk) -> None:
    assert desk.join("a", "t", "u").assigned == every(T)
    u = topic("u", 1)
    desk.know(topic("t", 5), u)
    desk.wait(1_000)
    reply = desk.beat("a", 2)
    assert (reply.member_epoch, reply.assigned) == (3, every(topic("t", 5), u))


def test_no_group_is_served_before_topics_are_known(desk: ConsumerDesk) -> None:
    two_members(desk)
    silent = GroupMachine(GroupOptions())
    for offset, record in enumerate(desk.records):
        silent.apply(record, offset)
    desk.machine = silent
    assert desk.error("a", 3) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_the_assignor_that_most_ask_for_assigns_anew(desk: ConsumerDesk) -> None:
    """Kafka 4.4: the preferred assignor alone changes."""
    two_members(desk)
    desk.wait(1_000)
    desk.beat("a", 3, assignor="range")
    assert (desk.group.epoch, desk.rebalance.assignor) == (4, "range")
    desk.wait(1_000)
    desk.beat("b", 3, assignor="range")
    assert desk.group.epoch == 4


def test_a_full_group_takes_no_new_member(desk: ConsumerDesk) -> None:
    desk.options = GroupOptions(consumer_size_max=1)
    desk.fail_over()
    desk.join("a")
    assert desk.join("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.join("a").error is ErrorCode.NONE


def test_a_group_without_members_makes_way_for_the_classic_protocol(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.beat("a", -1)
    before = len(desk.records)
    desk.form("old")
    assert written(desk, before) == [(6, False), (3, False), (2, True)]
    assert desk.described().error is ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.state == "Stable"


def test_a_refused_heartbeat_changes_nothing(desk: ConsumerDesk) -> None:
    desk.join("a")
    desk.is_holding = True
    token = desk.start_beat("a", -1)
    desk.refuse()
    assert desk.replies[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    desk.is_holding = False
    assert desk.error("a", 2) is ErrorCode.NONE
    desk.wait(45_000)
    assert desk.group.members == {}, "its session had begun again"


def test_a_new_coordinator_goes_on(desk: ConsumerDesk) -> None:
    two_members(desk)
    desk.fail_over()
    assert desk.beat("a", 3).assigned == some(T, 0, 1), "it does not know what the last one has told"
    assert desk.beat("a", 3).assigned == some(T, 0, 1), "nor whether that was heard"
    desk.beat("a", 3, owned=some(T, 0, 1))
    assert desk.beat("a", 3) == ConsumerHeartbeatReply(ErrorCode.NONE, "a", 3, 5_000, None)
    desk.wait(45_000)
    assert desk.group.members == {}


def test_the_keys_of_a_group_that_is_deleted_are_all_gone(desk: ConsumerDesk) -> None:
    desk.join("a")
    assert desk.delete(GROUP) == [ErrorCode.NON_EMPTY_GROUP]
    desk.beat("a", -1)
    assert desk.delete(GROUP) == [ErrorCode.NONE]
    last = {record.key: record.value for record in desk.records}
    assert set(last.values()) == {None}
    assert {decode_key(key)[0] for key in last} == set(ConsumerRecord) - {ConsumerRecord.PATTERN}
    assert desk.error("a", 2) is ErrorCode.GROUP_ID_NOT_FOUND
