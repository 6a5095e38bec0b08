"""Topics brought back from quarantine (11.5, logs that were set aside)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from controller.core.effects import AlarmCode, AlarmKey
from controller.core.events import BringBackTopics, Refusal, RefusalCode, Report, TopicsBroughtBack
from springtide.contract.epochs import LeaderEpoch, PartitionEpoch
from springtide.contract.holdings import SetAsideLog
from springtide.contract.lag_report import LagReport
from springtide.contract.partition_state import NO_LEADER, PartitionState, TopicState
from tests.kit.controller.core_cluster import Cluster, topic_id

ID = topic_id(7)
KEY = (ID, 0)
TOPIC = TopicState(
    topic_id=ID, topic="later", partitions=1, replication_factor=3, configs={"retention.ms": "5000"}
)


def state(leader: int, *isr: int, leader_epoch: int = 6, partition_epoch: int = 14) -> PartitionState:
    return PartitionState(
        topic_id=ID,
        topic="later",
        partition=0,
        replicas=(1, 2, 3),
        leader=leader,
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        isr=isr,
        min_insync_replicas=2,
    )


def log(
    end: int, *, leader_epoch: int = 6, state: PartitionState | None = None, is_whole: bool = True
) -> SetAsideLog:
    return SetAsideLog(
        directory=f"later-0.{ID}",
        topic_id=ID,
        topic="later",
        partition=0,
        why="not in the controller's full state",
        leader_epoch=LeaderEpoch(leader_epoch),
        log_start_offset=0,
        log_end_offset=end,
        high_watermark=end,
        is_whole=is_whole,
        state=state,
        topic_state=None if state is None else TOPIC,
    )


def tell(cluster: Cluster, logs: Mapping[int, SetAsideLog | Sequence[SetAsideLog] | None]) -> None:
    for broker_id, found in logs.items():
        report = LagReport(
            broker_id=broker_id,
            broker_epoch=cluster.broker(broker_id).broker_epoch,
            set_aside=(found,) if isinstance(found, SetAsideLog) else tuple(found or ()),
        )
        cluster.step(Report(wall_ms=0, request=report))


def brought_back(logs: dict[int, SetAsideLog | None]) -> PartitionState:
    cluster = Cluster()
    tell(cluster, logs)
    cluster.ask(BringBackTopics(wall_ms=0, actor="ann"), TopicsBroughtBack)
    assert cluster.image.topics[ID].topic == "later"
    return cluster.image.partitions[KEY]


def test_the_leader_of_the_highest_epoch_leads_again_and_every_epoch_is_above_what_was_heard() -> None:
    cluster = Cluster()
    tell(cluster, {1: log(9, leader_epoch=5), 2: log(7, state=state(2, 1, 2)), 3: None})
    before = cluster.image.next_producer_id
    cluster.ask(BringBackTopics(wall_ms=0, actor="ann"), TopicsBroughtBack)
    after = cluster.image.partitions[KEY]
    assert (after.replicas, after.leader, after.isr, after.elr) == ((1, 2, 3), 2, (2,), ())
    assert (after.leader_epoch, after.partition_epoch, after.last_known_leader) == (15, 15, NO_LEADER)
    assert cluster.image.topics[ID] == TOPIC  # with its settings
    assert cluster.image.next_producer_id > before


def test_epochs_that_no_log_names_are_below_the_number_of_records_and_never_come_back() -> None:
    """The topic was brought back before and nothing was written to it: its logs know no leader epoch."""
    cluster = Cluster()
    cluster.image.records_before = 400
    tell(cluster, {1: log(9, leader_epoch=-1), 2: None, 3: None})
    records = cluster.image.records
    cluster.ask(BringBackTopics(wall_ms=0, actor="ann"), TopicsBroughtBack)
    after = cluster.image.partitions[KEY]
    assert (after.leader_epoch, after.partition_epoch) == (records + 1, records + 1)
    assert cluster.image.records > records


def test_without_a_state_it_is_the_longest_of_all_logs_by_epoch_and_then_by_end() -> None:
    after = brought_back({1: log(9, leader_epoch=5), 2: log(7), 3: log(8)})
    assert (after.replicas, after.leader, after.isr) == ((1, 2, 3), 3, (3,))


@pytest.mark.parametrize(
    "logs",
    [
        {1: log(9), 2: log(5, is_whole=False), 3: log(9)},
        {1: log(9, state=state(2, 2)), 2: None, 3: log(9)},
        {1: log(9, state=state(2, 2)), 2: log(5, state=state(2, 2), is_whole=False), 3: log(9)},
    ],
)
def test_where_a_log_may_have_been_longer_nobody_is_chosen(logs: dict[int, SetAsideLog | None]) -> None:
    after = brought_back(logs)
    assert (after.isr, after.elr, after.leader, after.last_known_elr) == ((), (), NO_LEADER, ())


def test_a_broker_that_has_not_told_is_waited_for_or_given_up() -> None:
    cluster = Cluster()
    tell(cluster, {1: log(9), 2: log(9)})
    event = BringBackTopics(wall_ms=0, actor="ann")
    refused = cluster.ask(event, Refusal)
    assert (refused.code, cluster.last.records) == (RefusalCode.RECOVERY_INCOMPLETE, ())
    tell(cluster, {3: None})
    cluster.register(9)  # waits, and can have no log of the cluster's
    cluster.kill(3)  # and may have a longer log when it is back
    assert cluster.ask(event, Refusal).code is RefusalCode.RECOVERY_INCOMPLETE
    cluster.ask(msgspec.structs.replace(event, gone_brokers=(3,)), TopicsBroughtBack)
    assert cluster.image.partitions[KEY].isr == (1,)


def test_where_nothing_is_set_aside_nobody_is_waited_for() -> None:
    assert Cluster().ask(BringBackTopics(wall_ms=0, actor="ann"), TopicsBroughtBack).topics == ()


def named(number: int, name: str, found: SetAsideLog, *, partition: int = 0) -> SetAsideLog:
    return msgspec.structs.replace(found, topic_id=topic_id(number), topic=name, partition=partition)


def test_each_of_several_topics_is_judged_by_its_own_logs() -> None:
    """Those of 7 are whole; of 6 and of 8 one is damaged, which may have been the longest."""
    cluster = Cluster()
    others = [(6, "sooner", 3), (8, "latest", 2)]
    whole = [log(9), *(named(number, name, log(9), partition=last) for number, name, last in others)]
    damaged = [
        log(9),
        *(named(number, name, log(8, is_whole=False), partition=last) for number, name, last in others),
    ]
    tell(cluster, {1: damaged, 2: whole, 3: whole})
    done = cluster.ask(BringBackTopics(wall_ms=0, actor="ann"), TopicsBroughtBack)
    assert [(topic.topic, topic.partitions) for topic in done.topics] == [
        ("sooner", 4),
        ("later", 1),
        ("latest", 3),
    ]
    assert KEY not in done.undecided
    assert {(topic_id(6), 3), (topic_id(8), 2)} <= set(done.undecided)


def test_two_topics_of_one_name_are_not_both_brought_back() -> None:
    cluster = Cluster()
    tell(cluster, {1: [log(9), named(8, "later", log(9))], 2: None, 3: None})
    refused = cluster.ask(BringBackTopics(wall_ms=0, actor="ann"), Refusal)
    assert (refused.code, refused.field) == (RefusalCode.TOPIC_ALREADY_EXISTS, "topic_ids")
    assert "two topics" in refused.detail


def test_a_topic_of_which_only_a_damaged_log_is_left_comes_back_for_a_person_to_decide() -> None:
    after = brought_back({1: log(5, state=state(2, 2), is_whole=False), 2: None, 3: None})
    assert (after.isr, after.leader) == ((), NO_LEADER)


def test_where_all_replicas_are_gone_those_that_hold_a_log_are_the_replicas() -> None:
    elsewhere = msgspec.structs.replace(state(7, 7), replicas=(7, 8))
    assert brought_back({1: None, 2: log(9, state=elsewhere), 3: None}).replicas == (2,)


@pytest.mark.parametrize(
    ("number", "why"),
    [(0, "is being deleted"), (1, None), (7, None), (9, "is set aside by no broker")],
)
def test_which_topics_can_be_asked_for(number: int, why: str | None) -> None:
    """0 is being deleted, 1 is there, 7 is set aside, 9 is unknown."""
    cluster = Cluster()
    for there in (0, 1):
        cluster.create((1, 2, 3), number=there)
    cluster.delete()
    tell(cluster, {1: log(9), 2: None, 3: None})
    reply = cluster.step(BringBackTopics(wall_ms=0, actor="ann", topic_ids=(topic_id(number),))).reply
    assert isinstance(reply, TopicsBroughtBack) if why is None else isinstance(reply, Refusal)
    assert why is None or (isinstance(reply, Refusal) and why in reply.detail)


def test_a_dry_run_writes_nothing_and_a_second_call_changes_nothing() -> None:
    cluster = Cluster()
    tell(cluster, {1: log(9), 2: log(9), 3: log(9)})
    event = BringBackTopics(wall_ms=0, actor="ann")
    planned = cluster.ask(msgspec.structs.replace(event, dry_run=True), TopicsBroughtBack)
    assert (len(planned.topics), cluster.last.records) == (1, ())
    done = cluster.ask(event, TopicsBroughtBack)
    assert done.partitions == planned.partitions
    for again in (event, msgspec.structs.replace(event, topic_ids=(ID,))):
        assert cluster.ask(again, TopicsBroughtBack).topics == ()
        assert cluster.last.records == ()


def test_a_name_that_is_taken_by_another_topic_refuses_and_writes_nothing() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))  # orders-0
    tell(cluster, {1: msgspec.structs.replace(log(9), topic="orders-0"), 2: None, 3: None})
    refused = cluster.ask(BringBackTopics(wall_ms=0, actor="ann"), Refusal)
    assert (refused.code, cluster.last.records) == (RefusalCode.TOPIC_ALREADY_EXISTS, ())
    assert refused.hint is not None and ID in refused.hint


def test_a_topic_of_which_nobody_holds_a_log_is_not_made_up() -> None:
    cluster = Cluster()
    tell(cluster, {1: None, 2: None, 3: None})
    refused = cluster.ask(BringBackTopics(wall_ms=0, actor="ann", topic_ids=(ID,)), Refusal)
    assert refused.code is RefusalCode.UNKNOWN_TOPIC


def test_a_log_with_records_that_was_set_aside_is_an_alarm_until_it_is_told_of_no_more() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.delete()
    of_topic_that_ends = named(0, "orders-0", log(12), partition=1)
    tell(cluster, {1: log(0), 2: [log(1), of_topic_that_ends]})
    (alarm,) = cluster.machine.alarms()
    assert alarm.key == AlarmKey(code=AlarmCode.LOG_SET_ASIDE, topic_id=ID, partition=0, broker_id=2)
    assert "1 records" in alarm.detail
    tell(cluster, {2: None})
    assert cluster.machine.alarms() == ()


def test_a_log_of_a_partition_that_its_topic_has_not_is_an_alarm_too() -> None:
    """A recovery from other brokers' logs made the topic again without its last partition, and no word."""
    cluster = Cluster()
    tell(cluster, {1: log(12), 2: log(12), 3: None})
    cluster.ask(BringBackTopics(wall_ms=0, actor="ann"), TopicsBroughtBack)
    tell(cluster, {1: None, 2: log(12), 3: None})
    assert not any(alarm.key.code is AlarmCode.LOG_SET_ASIDE for alarm in cluster.machine.alarms())
    tell(cluster, {1: msgspec.structs.replace(log(9), partition=1)})
    (alarm,) = (a for a in cluster.machine.alarms() if a.key.code is AlarmCode.LOG_SET_ASIDE)
    assert alarm.key == AlarmKey(code=AlarmCode.LOG_SET_ASIDE, topic_id=ID, partition=1, broker_id=1)
    assert "quarantine/" in alarm.detail
