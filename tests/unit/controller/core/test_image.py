"""The image apart from the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy

import msgspec

from controller.core.image import ClusterImage
from controller.core.records import (
    Cause,
    Change,
    CoordinatorRegistration,
    MemberKind,
    MemberRecord,
    PartitionRecord,
    RemoveMemberRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.partition_state import (
    NO_LEADER,
    LeaderRecovery,
    PartitionKey,
    PartitionState,
    Shard,
    WriterId,
)
from tests.kit.controller.core_cluster import Cluster, changed, topic_id


def test_what_a_copy_replays_does_not_move_its_original() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), (2, 3, 1))
    image = cluster.image
    before = deepcopy(vars(image))
    copy = image.copy()
    assert vars(copy) == before
    change = Change(cause=Cause.BROKER_DIED, at_ms=1)
    for state in image.partitions.values():
        after = msgspec.structs.replace(state, leader=NO_LEADER, isr=(), elr=(3,), partition_epoch=9)
        copy.replay(PartitionRecord(state=after, change=change))
    fenced = msgspec.structs.replace(image.brokers[1], fenced=True, demoted=True)
    copy.replay(MemberRecord(registration=fenced, change=change))
    assert (len(copy.leaderless), len(copy.below_min), copy.demoted) == (2, 2, {1: None})
    assert vars(image) == before
    rows = copy.rows()
    assert (rows.brokers, rows.topics, rows.partitions) == (copy.brokers, copy.topics, copy.partitions)
    shown = deepcopy(vars(rows))
    copy.replay(RemoveTopicRecord(topic_id=topic_id(0), topic="orders-0", change=change))
    assert (copy.partitions, copy.topics, copy.leaderless) == ({}, {}, {})
    assert vars(image) == before
    assert vars(rows) == shown


def check_indexes(image: ClusterImage) -> None:
    """Each index is what the rows of living topics say."""
    living = {key: state for key, state in image.partitions.items() if key[0] not in image.deletions}

    def grouped(pairs: Iterable[tuple[int, PartitionKey]]) -> dict[int, set[PartitionKey]]:
        found: dict[int, set[PartitionKey]] = {}
        for broker_id, key in pairs:
            found.setdefault(broker_id, set()).add(key)
        return found

    def kept(index: dict[int, dict[PartitionKey, None]]) -> dict[int, set[PartitionKey]]:
        return {broker_id: set(keys) for broker_id, keys in index.items() if keys}

    rows = living.items()
    assert kept(image.replicas_of) == grouped((b, key) for key, one in rows for b in one.replicas)
    assert kept(image.seats_of) == grouped((b, key) for key, one in rows for b in (*one.isr, *one.elr))
    led = {key: one for key, one in rows if one.leader != NO_LEADER}
    assert kept(image.leader_of) == grouped((one.leader, key) for key, one in led.items())
    first = Counter(one.replicas[0] for one in living.values())
    assert {b: count for b, count in image.preferred_counts.items() if count} == first
    assert set(image.leaderless) == set(living) - set(led)
    assert set(image.not_preferred) == {key for key, one in led.items() if one.leader != one.replicas[0]}
    assert set(image.below_min) == {key for key, one in rows if len(one.isr) < one.min_insync_replicas}
    assert set(image.under_replicated) == {key for key, one in rows if len(one.isr) < one.replication_factor}
    assert set(image.recovering) == {key for key, one in rows if one.recovery is LeaderRecovery.RECOVERING}
    assert set(image.reassigning) == {key for key, one in rows if one.original_replicas}
    assert set(image.unconfirmed_new) == {key for key, one in rows if one.new_replicas}
    assert set(image.shards) == {key for key, one in rows if one.shard is not None}


CHANGE = Change(cause=Cause.LEADER_ELECTED, at_ms=1)


def test_indexes_say_what_the_rows_say_whatever_a_partition_becomes_and_when_its_topic_goes() -> None:
    cluster = Cluster()
    for number in (0, 1):
        cluster.create((1, 2, 3), (2, 3, 1), number=number, configs={"min.insync.replicas": "2"})
    image = cluster.image
    check_indexes(image)
    whole = changed(cluster.partition(), new_replicas=())
    states: list[PartitionState] = [
        whole,
        changed(whole, isr=(1,), elr=(2,)),
        changed(whole, leader=NO_LEADER, isr=(), elr=(1, 2)),
        changed(whole, leader=2, isr=(2, 3), recovery=LeaderRecovery.RECOVERING),
        changed(whole, replicas=(2, 1, 3)),  # 1 leads, and is not the first any more
        changed(whole, replicas=(1, 2, 3, 4), original_replicas=(1, 2, 3), adding_replicas=(4,)),
        changed(whole, replicas=(4, 2), isr=(2, 4), leader=4, new_replicas=(4,)),
    ]
    for before in states:
        for after in states:
            for state in (before, after):
                image.replay(PartitionRecord(state=state, change=CHANGE))
                check_indexes(image)
    for state in states:
        copy = image.copy()
        copy.replay(PartitionRecord(state=state, change=CHANGE))
        gone = msgspec.structs.replace(copy.topics[topic_id()], deleting=True)
        removal = RemoveTopicRecord(topic_id=topic_id(), topic="orders-0", change=CHANGE)
        # The topic's deletion begins, a state of it comes late, and it is over; or it is over at once.
        at_once = copy.copy()
        for record in (
            TopicRecord(state=gone, change=CHANGE),
            PartitionRecord(state=whole, change=CHANGE),
            removal,
        ):
            copy.replay(record)
            check_indexes(copy)
        at_once.replay(removal)
        check_indexes(at_once)
        assert {key[0] for key in copy.partitions} == {key[0] for key in at_once.partitions} == {topic_id(1)}
        assert set(copy.announced_at) == set(at_once.announced_at) == {topic_id(1)}


def test_a_removed_broker_leaves_nothing_behind() -> None:
    cluster = Cluster(brokers=(1, 2))
    image = cluster.image
    demoted = msgspec.structs.replace(image.brokers[2], demoted=True)
    image.replay(MemberRecord(registration=demoted, change=CHANGE))
    assert image.broker_sequences[2] == image.sequence
    assert (set(image.demoted), set(image.worker_ids)) == ({2}, {1, 2})
    image.replay(RemoveMemberRecord(kind=MemberKind.BROKER, member_id=2, change=CHANGE))
    assert not image.demoted
    assert not image.is_eligible(2)
    for rows in (
        image.brokers,
        image.worker_ids,
        image.broker_sequences,
        image.registered_sequences,
        image.admitted_sequences,
    ):
        assert set(rows) == {1}


def test_a_worker_is_found_under_the_broker_that_it_belongs_to_now() -> None:
    image = Cluster(brokers=(1, 2)).image
    for worker_of, workers in ((1, {1: (1, 2)}), (None, {1: (1,), 2: (2,)})):
        row = msgspec.structs.replace(image.brokers[2], worker_of=worker_of)
        for _ in range(2):
            image.replay(MemberRecord(registration=row, change=CHANGE))
            assert {broker_id: found for broker_id, found in image.worker_ids.items() if found} == workers


def test_when_a_coordinator_registered_and_was_admitted_is_known_until_it_is_removed() -> None:
    image = ClusterImage()
    assert image.cluster_id == ""
    known = []
    for epoch, admitted in ((5, False), (5, True), (7, True), (7, True)):
        row = CoordinatorRegistration(
            coordinator_id=9,
            coordinator_epoch=BrokerEpoch(epoch),
            incarnation_id="a",
            host="h",
            port=1,
            admitted=admitted,
        )
        image.replay(MemberRecord(registration=row, change=CHANGE))
        known.append((image.registered_sequences[9], image.admitted_sequences.get(9)))
    assert known == [(1, None), (1, 2), (3, 2), (3, 2)]
    older = msgspec.structs.replace(row, coordinator_id=8, coordinator_epoch=6)
    image.replay(MemberRecord(registration=older, change=CHANGE))
    assert image.last_broker_epoch == 7
    image.replay(RemoveMemberRecord(kind=MemberKind.COORDINATOR, member_id=9, change=CHANGE))
    assert [set(of) for of in (image.registered_sequences, image.admitted_sequences)] == [{8}, {8}]


def test_a_topic_goes_with_the_partitions_that_it_has_whether_it_was_announced_or_not() -> None:
    cluster = Cluster()
    for number in (0, 1, 2):
        cluster.create((1, 2, 3), (2, 3, 1), number=number)
    whole = cluster.image
    removal = RemoveTopicRecord(topic_id=topic_id(1), topic="orders-1", change=CHANGE)
    for is_announced in (True, False):
        image = whole.copy()
        if is_announced:
            wider = msgspec.structs.replace(image.topics[topic_id(1)], partitions=3)
            image.replay(TopicRecord(state=wider, change=CHANGE))
        else:
            del image.topics[topic_id(1)]
        image.replay(removal)
        check_indexes(image)
        assert {key[0] for key in image.partitions} == {topic_id(0), topic_id(2)}
        assert image.changes_since(image.sequence - 1) == [("topic", topic_id(1))]


def test_of_a_topic_that_ends_a_late_state_is_a_change_like_any_other_and_its_shards_are_none() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    image = cluster.image
    sharded = changed(cluster.partition(), partition=1, shard=Shard(writer=WriterId(1)))
    wider = msgspec.structs.replace(image.topics[topic_id()], partitions=2)
    for record in (PartitionRecord(state=sharded, change=CHANGE), TopicRecord(state=wider, change=CHANGE)):
        image.replay(record)
    check_indexes(image)
    assert set(image.shards) == {(topic_id(), 1)}
    ends = msgspec.structs.replace(image.topics[topic_id()], deleting=True)
    image.replay(TopicRecord(state=ends, change=CHANGE))
    image.replay(PartitionRecord(state=sharded, change=CHANGE))
    assert image.changes_since(image.sequence - 1) == [("partition", (topic_id(), 1))]
    assert not image.shards


def test_changes_are_remembered_so_far_back_and_no_further() -> None:
    image = ClusterImage(start_sequence=10, change_log_entries_max=2)
    row = MemberRecord(registration=Cluster(brokers=(1,)).image.brokers[1], change=CHANGE)
    for _ in range(3):
        image.replay(row)
    assert image.change_log_start == 10
    assert [len(image.changes_since(sequence) or ()) for sequence in (10, 11, 12, 13)] == [3, 2, 1, 0]
    assert image.changes_since(9) is None
    assert image.changes_since(14) is None
    image.replay(row)
    assert image.change_log_start == 12
    assert image.changes_since(11) is None
    assert [len(image.changes_since(sequence) or ()) for sequence in (12, 13, 14)] == [2, 1, 0]
