"""When the name of a deleted topic is free (4.6, deletion): no leader of it may acknowledge anything then."""

from __future__ import annotations

import pytest

from controller.core.effects import ProbeBroker
from controller.core.events import (
    CreateTopic,
    ElectUnclean,
    MemberRemoved,
    Refusal,
    RefusalCode,
    RemoveMember,
    TopicCreated,
)
from controller.core.options import ControllerOptions
from controller.core.records import Cause, RemoveTopicRecord, TopicRecord
from springtide.contract.session import ShutdownKind
from tests.kit.controller.core_cluster import Cluster, hear, topic_id

GRACE_MS = 6_000


def again(number: int = 1) -> CreateTopic:
    return CreateTopic(
        wall_ms=0, actor="ann", topic_id=topic_id(number), topic="orders-0", assignments=((1, 2, 3),)
    )


def is_held(cluster: Cluster) -> bool:
    return "orders-0" in cluster.image.held_names


def beat(cluster: Cluster, *broker_ids: int, until_ms: int) -> None:
    """Time passes in steps, and these brokers are heard meanwhile."""
    while cluster.now_ms < until_ms:
        for broker_id in broker_ids:
            cluster.heartbeat(broker_id)
        cluster.pass_ms(500)


@pytest.mark.parametrize("replicas", [(1, 2, 3), (1,)])
def test_a_name_is_held_until_every_broker_has_stopped(replicas: tuple[int, ...]) -> None:
    """Also a broker without a replica: it may not have heard yet that it leads no more."""
    cluster = Cluster()
    cluster.create(replicas)
    cluster.delete()
    cluster.applied(1)
    cluster.applied(2)
    refusal = cluster.ask(again(), Refusal)
    assert (refusal.code, "is being deleted" in refusal.detail) == (RefusalCode.TOPIC_ALREADY_EXISTS, True)
    cluster.applied(3)
    assert [type(r) for r in cluster.last.records] == [RemoveTopicRecord]
    cluster.ask(again(), TopicCreated)
    assert cluster.image.topic_ids == {"orders-0": topic_id(1)}


def test_what_a_broker_applied_before_the_deletion_does_not_free_the_name() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    before = cluster.image.sequence
    cluster.delete()
    for broker_id in (1, 2, 3):
        cluster.applied(broker_id, sequence=before)
    assert is_held(cluster)


def test_a_dead_leader_holds_no_name_and_its_log_is_deleted_when_it_is_back() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.kill(1)
    cluster.delete()
    cluster.applied(2)
    cluster.applied(3)
    (record,) = cluster.last.records
    assert isinstance(record, TopicRecord)
    assert (record.state.deleting, record.state.name_is_free) == (True, True)
    assert record.change.cause is Cause.TOPIC_NAME_FREED
    cluster.ask(again(), TopicCreated)
    cluster.restart(1)
    assert topic_id() not in cluster.image.topics
    assert cluster.image.topic_ids == {"orders-0": topic_id(1)}


def test_a_process_that_has_begun_since_must_confirm_the_deletion_itself() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.delete()
    cluster.applied(1)
    cluster.applied(2)
    cluster.kill(1)
    cluster.register(1, "b", last_shutdown=ShutdownKind.PROCESS_CRASH)
    cluster.applied(3)
    assert topic_id() in cluster.image.deletions
    cluster.heartbeat(1)
    assert topic_id() not in cluster.image.deletions


def test_a_name_that_is_free_is_free_under_the_next_controller() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.kill(1)
    cluster.delete()
    cluster.applied(2)
    cluster.applied(3)
    cluster.fail_over()
    assert topic_id() in cluster.image.deletions
    cluster.ask(again(), TopicCreated)


def test_once_the_name_is_free_only_the_replicas_are_waited_for() -> None:
    cluster = Cluster()
    cluster.create((1, 2))
    cluster.kill(1)
    cluster.delete()
    cluster.applied(2)
    cluster.applied(3)
    cluster.fail_over()
    cluster.restart(1)
    assert topic_id() in cluster.image.deletions
    cluster.applied(2)
    assert topic_id() not in cluster.image.topics


def test_what_a_leader_reported_goes_with_its_topic() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    hear(cluster, 7)
    cluster.delete()
    cluster.beat_all()
    assert not cluster.machine.lags


def test_a_name_is_held_for_a_grace_from_when_its_last_broker_was_fenced_alone() -> None:
    cluster = Cluster(ControllerOptions(auto_leader_rebalance=False), brokers=(1,))
    cluster.create((1,))
    cluster.create((1,), number=1)
    cluster.delete()
    cluster.pass_ms(GRACE_MS + 1)
    first_ms = cluster.now_ms + GRACE_MS + 1
    assert cluster.broker(1).fenced
    cluster.now_ms += 10
    cluster.delete(1)
    cluster.pass_ms(2_000)
    assert cluster.machine.next_deadline_ms() == first_ms
    cluster.now_ms = first_ms - 1
    cluster.pass_ms(0)
    assert is_held(cluster)
    cluster.pass_ms(1)
    assert not is_held(cluster)
    assert cluster.machine.next_deadline_ms() == first_ms + 10
    cluster.pass_ms(10)
    assert not cluster.image.held_names
    assert cluster.machine.next_deadline_ms() is None


def test_a_name_is_held_by_the_next_controller_until_its_own_stream_was_applied() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.delete()
    cluster.applied(1)
    cluster.applied(2)
    cluster.fail_over()
    cluster.applied(1)
    cluster.applied(2)
    cluster.ask(again(), Refusal)
    cluster.applied(3)
    cluster.ask(again(), TopicCreated)


def test_a_silent_leader_holds_the_name_until_it_is_fenced_and_no_follower_vouches_for_it() -> None:
    """It has a lease until the grace is over. After that acks=1 lives from vouching followers for a lease."""
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.delete()
    began_ms = cluster.now_ms
    beat(cluster, 2, 3, until_ms=began_ms + GRACE_MS + 500)
    assert cluster.broker(1).fenced
    assert is_held(cluster)
    deadline_ms = cluster.machine.next_deadline_ms()
    assert deadline_ms is not None and deadline_ms <= cluster.now_ms + GRACE_MS + 1
    beat(cluster, 2, 3, until_ms=began_ms + 2 * GRACE_MS + 1_500)
    assert not is_held(cluster)
    assert topic_id() in cluster.image.deletions
    cluster.ask(again(), TopicCreated)


def test_a_leader_and_a_follower_that_are_cut_off_together_hold_the_name() -> None:
    """They are all of ISR and ELR, so they acknowledge for as long as they vouch for each other."""
    cluster = Cluster()
    cluster.create((1, 2))
    cluster.delete()
    beat(cluster, 3, until_ms=cluster.now_ms + 5 * GRACE_MS)
    assert cluster.broker(1).fenced and cluster.broker(2).fenced
    refusal = cluster.ask(again(), Refusal)
    assert refusal.hint is not None and "[1, 2]" in refusal.hint
    cluster.heartbeat(2)
    assert is_held(cluster)
    beat(cluster, 2, 3, until_ms=cluster.now_ms + GRACE_MS + 1_000)
    cluster.ask(again(), TopicCreated)


def test_two_that_are_cut_off_hold_no_name_if_they_are_not_all_that_may_lead() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.delete()
    beat(cluster, 3, until_ms=cluster.now_ms + 2 * GRACE_MS + 2_000)
    cluster.ask(again(), TopicCreated)


def test_after_an_unclean_election_any_two_that_are_cut_off_hold_the_name() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.pass_ms(100)
    for broker_id in (1, 2, 3):
        cluster.created(broker_id)
    cluster.pass_ms(1_000)
    cluster.propose(1, 2)
    beat(cluster, 3, until_ms=cluster.now_ms + 2 * GRACE_MS)
    assert cluster.partition().leader == -1
    cluster.step(
        ElectUnclean(
            wall_ms=0,
            actor="ann",
            topic_id=topic_id(),
            partition=0,
            broker_id=3,
            partition_epoch=cluster.partition().partition_epoch,
        )
    )
    assert cluster.partition().isr == (3,)
    cluster.delete()
    beat(cluster, 3, until_ms=cluster.now_ms + 3 * GRACE_MS)
    assert is_held(cluster)


def test_removing_the_brokers_that_hold_a_name_frees_it() -> None:
    cluster = Cluster()
    cluster.create((1, 2))
    cluster.delete()
    beat(cluster, 3, until_ms=cluster.now_ms + 3 * GRACE_MS)
    assert is_held(cluster)
    cluster.ask(RemoveMember(wall_ms=0, actor="ann", member_id=1), MemberRemoved)
    cluster.ask(RemoveMember(wall_ms=0, actor="ann", member_id=2), MemberRemoved)
    assert topic_id() not in cluster.image.topics
    assert not is_held(cluster)


def test_a_controller_that_took_over_asks_once_whether_the_fenced_brokers_are_dead() -> None:
    cluster = Cluster()
    cluster.create((1, 2))
    cluster.kill(1, 2)
    cluster.register(9)  # waits, and can lead nothing
    cluster.delete()
    cluster.fail_over()
    cluster.applied(3)
    assert is_held(cluster)
    probed = [effect.broker_id for effect in cluster.last.effects if isinstance(effect, ProbeBroker)]
    assert probed == [1, 2]
    cluster.now_ms += cluster.options.probe_interval_ms
    cluster.heartbeat(3)
    assert not [effect for effect in cluster.last.effects if isinstance(effect, ProbeBroker)]
    cluster.kill(1, 2)
    assert not is_held(cluster)


def test_a_broker_that_was_called_dead_and_is_heard_holds_the_name_again() -> None:
    cluster = Cluster()
    cluster.create((1, 2))
    cluster.kill(1)
    before = cluster.image.sequence
    cluster.delete()
    cluster.heartbeat(1, applied=before)
    cluster.applied(2)
    cluster.applied(3)
    assert is_held(cluster)
