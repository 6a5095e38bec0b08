"""What members reported is forgotten with them."""

from __future__ import annotations

from controller.core.events import Heartbeat
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
from springtide.contract.errors import ControllerError
from springtide.contract.missing_topics import MissingTopic
from springtide.contract.session import DiskSpace, HeartbeatRequest

CHANGE = Change(cause=Cause.CLUSTER_CONFIGURED, at_ms=1)
MEMBER = 4
BROKER = MemberRecord(
    registration=BrokerRegistration(
        broker_id=MEMBER, broker_epoch=1, incarnation_id="one", host="here", port=9092
    ),
    change=CHANGE,
)
COORDINATOR = MemberRecord(
    registration=CoordinatorRegistration(
        coordinator_id=MEMBER, coordinator_epoch=2, incarnation_id="two", host="here", port=9092
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


def begin(record: Record) -> tuple[Reported, Published]:
    published = Published("prod")
    reported = Reported(published)
    replay(reported, published, record)
    return reported, published


def replay(reported: Reported, published: Published, record: Record) -> None:
    """Publish a record as the driver does."""
    reported.forget(record)
    published.replay(record, 1)


def heartbeat(*, broker_epoch: int) -> Heartbeat:
    missing = MissingTopic(topic="lines", asked=1, since_ms=1, last_ms=1, client_id="", software="")
    request = HeartbeatRequest(
        broker_id=MEMBER,
        broker_epoch=broker_epoch,
        incarnation_id="one",
        missing_topics=(missing,),
        disk=DiskSpace(total_bytes=2, free_bytes=1),
    )
    return Heartbeat(request=request, received_ms=1, wall_ms=1)
