"""A batch of the metadata stream as effects, without a disk: what is asked for, in which order, and what an
answer changes. What becomes of it on a disk: shell/test_partitions.py."""

from __future__ import annotations

from typing import Any

from dataplane.core.applying import Answer, Applying, BatchEffect
from dataplane.core.broker import (
    LOGS_WANTED,
    REPORT_SOON,
    SETTLE,
    Broker,
    BrokerChanged,
    DeleteLog,
    Forgotten,
    KeepLog,
    LastKnown,
    NotApplied,
    OfReplica,
    SetAside,
    TakeUp,
    WhyAside,
    WhyDeleted,
)
from dataplane.core.hosted import Hosted
from dataplane.core.leader import Leader
from dataplane.core.log_port import LogError
from dataplane.core.replica import Replica
from dataplane.core.results import ReplicaOptions
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.partition_state import LeaderRecovery, PartitionKey, PartitionState, TopicState
from springtide.contract.updates import UpdateBatch
from tests.kit.dataplane.replica import TOPIC_ID, endpoint, held_lease, partition_state
from tests.kit.memory.log import MemoryLog

KEY = (TOPIC_ID, 0)
TOPIC = TopicState(topic_id=TOPIC_ID, topic="orders", partitions=1, replication_factor=3)


class MemoryHome:
    """Logs without a disk. asides: leader epochs of what lies in quarantine."""

    def __init__(self) -> None:
        self.asides: dict[PartitionKey, int] = {}
        self.brokers = {n: endpoint(n, 10 * n) for n in (1, 2, 3)}

    def aside_epoch(self, key: PartitionKey) -> int | None:
        return self.asides.get(key)

    def host(self, state: PartitionState) -> Hosted:
        replica = Replica(
            broker_id=1,
            topic_id=state.topic_id,
            partition=state.partition,
            log=MemoryLog(),
            lease=held_lease(),
            brokers=self.brokers,
            options=ReplicaOptions(),
        )
        return Hosted(topic=state.topic, topic_id=state.topic_id, partition=state.partition, replica=replica)


class World:
    """Broker 1, whose driver answers as it is told."""

    def __init__(self, *found: PartitionKey) -> None:
        self.broker: Broker[Hosted] = Broker(1)
        self.broker.found = dict.fromkeys(found)
        self.home = MemoryHome()

    def begin(
        self, *states: PartitionState, changed: tuple[int, ...] = (), **fields: Any
    ) -> Applying[Hosted]:
        batch = UpdateBatch(controller_epoch=ControllerEpoch(1), sequence=1, partitions=states, **fields)
        return Applying(
            self.broker, self.home, batch, topics_before={TOPIC_ID: TOPIC}, changed_brokers=changed
        )

    def apply(
        self, *states: PartitionState, answer: Answer = None, **fields: Any
    ) -> list[BatchEffect[Hosted]]:
        """Apply a batch to its end; return its effects but those of replicas. answer: to work on logs."""
        self.walk = self.begin(*states, **fields)
        return [effect for effect in rest_of(self.walk, answer) if not isinstance(effect, OfReplica)]

    def make(self, key: PartitionKey = KEY) -> Any:
        assert self.broker.creations.begin(count_max=1)
        return self.broker.on_made(key, self.home, now_ms=1)


def rest_of(walk: Applying[Hosted], answer: Answer = None) -> list[BatchEffect[Hosted]]:
    effects: list[BatchEffect[Hosted]] = []
    last: Answer = None
    while (effect := walk.advance(last, now_ms=1)) is not None:
        effects.append(effect)
        last = answer if isinstance(effect, TakeUp | SetAside | DeleteLog) else None
    return effects


def test_a_log_that_was_found_leads_at_once() -> None:
    world = World(KEY)
    assert world.apply(partition_state()) == [SETTLE]
    assert isinstance(world.broker.partitions[KEY].replica.role, Leader)
    assert world.broker.found == {}


def test_a_new_log_is_wanted_and_begins_under_the_latest_state() -> None:
    world = World()
    assert world.apply(partition_state(new_replicas=(1,))) == [LOGS_WANTED, SETTLE]
    world.apply(partition_state(new_replicas=(1,), partition_epoch=2, leader_epoch=2))
    assert not world.broker.partitions
    step, report = world.make()
    assert (step.hosted.replica.leader_epoch, report) == (2, REPORT_SOON)
    assert world.broker.by_name[("orders", 0)] is world.broker.partitions[KEY]


def test_i25_a_batch_that_gives_a_log_up_is_applied_when_the_log_is_gone() -> None:
    world = World()
    world.apply(partition_state(new_replicas=(1,)))
    world.broker.creations.begin(count_max=1)
    walk = world.begin(deleted_topics=(TOPIC_ID,))
    assert walk.advance(now_ms=1) == SETTLE
    assert world.broker.creations.must_settle
    assert world.broker.on_made(KEY, world.home, now_ms=2) == DeleteLog(KEY, WhyDeleted.GIVEN_UP)
    assert not world.broker.creations.must_settle
    assert walk.advance(now_ms=3) is None


def test_a_state_of_another_broker_deletes_what_was_moved_away_and_a_failure_is_this_entrys_alone() -> None:
    world = World(KEY)
    world.apply(partition_state())
    hosted = world.broker.partitions[KEY]
    moved = partition_state(replicas=(2, 3), isr=(2, 3), leader=2, leader_epoch=2, partition_epoch=2)
    effects = world.apply(moved, answer=LogError("the disk fails"))
    assert effects == [
        Forgotten(hosted),
        DeleteLog(KEY, WhyDeleted.MOVED_AWAY, had_replica=True),
        NotApplied(moved, "storage_error", "the disk fails"),
        SETTLE,
    ]
    assert [failure.code for failure in world.walk.failures] == ["storage_error"]
    assert (world.broker.partitions, world.broker.by_name, hosted.is_forgotten) == ({}, {}, True)


def test_a_state_with_a_word_of_a_later_release_is_not_applied_and_costs_no_log() -> None:
    world = World(KEY)
    later = partition_state(recovery=LeaderRecovery.UNKNOWN)
    detail = "the state is of a later release, and has a word that this one does not know"
    assert world.apply(later, full=True)[0] == NotApplied(later, "other", detail)
    assert [failure.code for failure in world.walk.failures] == ["other"]
    assert list(world.broker.found) == [KEY]


def test_i22_what_a_full_state_does_not_mention_is_set_aside_with_what_is_known() -> None:
    other = ("other", 0)
    world = World(KEY, other)
    state = partition_state()
    world.apply(state)
    hosted = world.broker.partitions[KEY]
    assert world.apply(full=True) == [
        SetAside(other, WhyAside.NOT_MENTIONED),
        Forgotten(hosted),
        SetAside(KEY, WhyAside.NOT_MENTIONED, LastKnown(0, state, TOPIC)),
        REPORT_SOON,
        SETTLE,
    ]
    assert world.broker.reports.take_set_aside()


def test_i21_a_topic_is_deleted_by_its_id_whether_its_logs_have_replicas_or_not() -> None:
    world = World(KEY, (TOPIC_ID, 1), ("other", 0))
    world.apply(partition_state())
    hosted = world.broker.partitions[KEY]
    assert world.apply(deleted_topics=(TOPIC_ID,)) == [
        Forgotten(hosted),
        DeleteLog(KEY, WhyDeleted.TOPIC_DELETED, had_replica=True),
        DeleteLog((TOPIC_ID, 1), WhyDeleted.TOPIC_DELETED),
        SETTLE,
    ]
    assert world.broker.found == {("other", 0): None}


def test_the_replicas_of_a_kept_topic_end_and_its_logs_stay_until_they_are_named_again() -> None:
    other = (TOPIC_ID, 1)
    world = World(KEY, other)
    world.apply(partition_state())
    hosted = world.broker.partitions[KEY]
    kept = world.apply(kept_topics=(TOPIC_ID,))
    assert kept == [Forgotten(hosted), KeepLog(KEY, hosted.replica.high_watermark), SETTLE]
    assert world.broker.found == dict.fromkeys((other, KEY)) and not world.broker.partitions
    assert world.apply(full=True, kept_topics=(TOPIC_ID,)) == [REPORT_SOON, SETTLE], "nothing set aside"
    assert world.apply(partition_state(leader_epoch=3, partition_epoch=3)) == [SETTLE]
    assert list(world.broker.partitions) == [KEY] and world.broker.found == {other: None}


def test_i22_kept_logs_are_deleted_when_their_topic_is_named_as_deleted_and_set_aside_when_it_is_not() -> (
    None
):
    world = World(KEY)
    world.apply(full=True, kept_topics=(TOPIC_ID,))
    assert world.apply(deleted_topics=(TOPIC_ID,)) == [DeleteLog(KEY, WhyDeleted.TOPIC_DELETED), SETTLE]
    world = World(KEY)
    world.apply(full=True, kept_topics=(TOPIC_ID,))
    assert SetAside(KEY, WhyAside.NOT_MENTIONED) in world.apply(full=True)


def test_a_log_that_is_still_to_be_made_is_given_up_with_a_topic_that_is_kept() -> None:
    world = World()
    world.apply(partition_state(new_replicas=(1,)))
    assert world.apply(kept_topics=(TOPIC_ID,)) == [SETTLE]
    assert not world.broker.creations.wanted and not world.broker.found


def test_a_log_in_quarantine_is_taken_up_if_the_state_is_newer_than_all_that_it_knew() -> None:
    world = World()
    world.home.asides[KEY] = 4
    older, newer = partition_state(leader_epoch=4), partition_state(leader_epoch=5)
    assert world.apply(older)[-2:] == [REPORT_SOON, SETTLE]
    assert [failure.code for failure in world.walk.failures] == ["log_missing"]
    assert world.apply(newer, answer=True) == [SETTLE, TakeUp(KEY), REPORT_SOON, SETTLE]
    assert KEY in world.broker.partitions


def test_a_log_in_quarantine_that_a_new_one_has_replaced_meanwhile_is_not_taken_up() -> None:
    """The new log was being made when a state came that would have taken the old one up."""
    world = World()
    world.home.asides[KEY] = 4
    assert LOGS_WANTED in world.apply(partition_state(leader_epoch=4, new_replicas=(1,)))
    world.broker.creations.begin(count_max=1)
    walk = world.begin(partition_state(leader_epoch=5, partition_epoch=2, new_replicas=(1,)))
    assert walk.advance(now_ms=1) == SETTLE
    del world.home.asides[KEY]
    assert world.broker.on_made(KEY, world.home, now_ms=2) == DeleteLog(KEY, WhyDeleted.GIVEN_UP)
    assert rest_of(walk) == [LOGS_WANTED, SETTLE]


def test_leaders_hear_of_changed_brokers_after_the_states_of_the_batch() -> None:
    world = World(KEY)
    effects = world.apply(partition_state(), changed=(2, 3))
    assert effects == [BrokerChanged(2), BrokerChanged(3), SETTLE]


def test_a_replica_that_is_at_rest_after_a_tick_is_restless_no_more() -> None:
    world = World(KEY)
    world.apply(partition_state(isr=(1,), replicas=(1,), min_insync_replicas=1))
    assert list(world.broker.restless) == [KEY]
    world.broker.on_tick(now_ms=500)
    assert list(world.broker.restless) == []
