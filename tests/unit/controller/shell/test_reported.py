"""What members reported is sampled, and forgotten with them."""

from __future__ import annotations

from controller.core.events import Heartbeat
from controller.core.last_hour import SAMPLE_MS, ClusterSample, MemberSample
from controller.core.records import (
    BrokerRegistration,
    Cause,
    Change,
    CoordinatorRegistration,
    MemberKind,
    MemberRecord,
    Record,
    RemoveMemberRecord,
)
from controller.shell.published import Published
from controller.shell.reported import Reported
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.groups import GroupLag, GroupNews
from springtide.contract.missing_topics import MissingTopic
from springtide.contract.session import DiskSpace, HeartbeatRequest, ProcessLoad

CHANGE = Change(cause=Cause.CLUSTER_CONFIGURED, at_ms=1)
MEMBER = 4
BROKER = MemberRecord(
    registration=BrokerRegistration(
        broker_id=MEMBER, broker_epoch=BrokerEpoch(1), incarnation_id="one", host="here", port=9092
    ),
    change=CHANGE,
)
COORDINATOR = MemberRecord(
    registration=CoordinatorRegistration(
        coordinator_id=MEMBER, coordinator_epoch=BrokerEpoch(2), incarnation_id="two", host="here", port=9092
    ),
    change=CHANGE,
)


class TestRemovedMember:
    def test_a_coordinator_under_a_removed_brokers_id_misses_nothing_of_the_brokers(self) -> None:
        reported, published = begin(BROKER)
        reported.take_heartbeat(heartbeat(broker_epoch=1), ControllerError.NONE)
        assert reported.missing_topics and reported.disks
        replay(
            reported, published, RemoveMemberRecord(kind=MemberKind.BROKER, member_id=MEMBER, change=CHANGE)
        )
        assert not reported.missing_topics and not reported.disks
        replay(reported, published, COORDINATOR)
        assert not reported.missing_topics and not reported.disks

    def test_a_broker_under_a_removed_coordinators_id_misses_nothing_of_the_coordinators(self) -> None:
        reported, published = begin(COORDINATOR)
        reported.take_heartbeat(heartbeat(broker_epoch=2), ControllerError.NONE)
        assert reported.missing_topics
        replay(
            reported,
            published,
            RemoveMemberRecord(kind=MemberKind.COORDINATOR, member_id=MEMBER, change=CHANGE),
        )
        replay(reported, published, BROKER)
        assert not reported.missing_topics


class TestLastHour:
    def test_a_sample_is_made_of_heartbeats_when_it_is_time(self) -> None:
        reported, _ = begin(BROKER)
        for second in range(0, 61, 5):
            load = ProcessLoad(connections=2, requests=second * 40)
            beat = heartbeat(broker_epoch=1, load=load, received_ms=second * 1_000)
            reported.take_heartbeat(beat, ControllerError.NONE)
            reported.sample(now_ms=second * 1_000, wall_ms=second * 1_000)
        assert reported.last_hour.times_ms == [SAMPLE_MS, 2 * SAMPLE_MS]
        assert reported.last_hour.of_members([MEMBER]) == [MemberSample(0, 0, 40, 2, 1, 2)] * 2
        replay(
            reported,
            Published("prod"),
            RemoveMemberRecord(kind=MemberKind.BROKER, member_id=MEMBER, change=CHANGE),
        )
        assert reported.last_hour.connections_of([MEMBER]) is None

    def test_a_former_process_tells_nothing(self) -> None:
        reported, _ = begin(BROKER)
        load = ProcessLoad(connections=2, requests=40)
        reported.take_heartbeat(heartbeat(broker_epoch=0, load=load), ControllerError.STALE_BROKER_EPOCH)
        assert reported.last_hour.connections_of([MEMBER]) is None

    def test_groups_are_told_by_their_coordinator(self) -> None:
        reported, _ = begin(COORDINATOR)
        lags = tuple(GroupLag(group_id=f"g{count}", records=count, ms=1) for count in range(3))
        for now_ms in (0, SAMPLE_MS):
            beat = heartbeat(broker_epoch=2, groups=GroupNews(lags=lags), received_ms=now_ms)
            reported.take_heartbeat(beat, ControllerError.NONE)
            reported.sample(now_ms=now_ms, wall_ms=now_ms)
        assert reported.last_hour.of_cluster() == [ClusterSample(0, 0, None, 0, 0, 2, 1)]


def begin(record: Record) -> tuple[Reported, Published]:
    published = Published("prod")
    reported = Reported(published)
    replay(reported, published, record)
    return reported, published


def replay(reported: Reported, published: Published, record: Record) -> None:
    """Publish a record as the driver does."""
    reported.forget(record)
    published.replay(record, 1)


def heartbeat(
    *,
    broker_epoch: int,
    load: ProcessLoad | None = None,
    groups: GroupNews | None = None,
    received_ms: int = 1,
) -> Heartbeat:
    missing = MissingTopic(topic="lines", asked=1, since_ms=1, last_ms=1, client_id="", software="")
    request = HeartbeatRequest(
        broker_id=MEMBER,
        broker_epoch=BrokerEpoch(broker_epoch),
        incarnation_id="one",
        missing_topics=(missing,),
        disk=DiskSpace(total_bytes=2, free_bytes=1),
        load=load,
        groups=groups,
    )
    return Heartbeat(request=request, received_ms=received_ms, wall_ms=1)
