"""A disk that fills up is alarmed by its share and by the time that is left, long before it is full."""

from __future__ import annotations

import pytest

from controller.core.disk_watch import HOUR_MS, SAMPLE_MS
from controller.core.effects import AlarmCode
from controller.core.events import (
    AddPartitions,
    AlterReassignments,
    CreateTopic,
    PartitionsAdded,
    ReassignmentsAltered,
    ReassignmentTarget,
    Refusal,
    RefusalCode,
    TopicCreated,
)
from springtide.contract.session import DiskSpace
from tests.kit.controller.core_cluster import Cluster, topic_id

TOTAL = 1_000 << 30


def seen(cluster: Cluster, *free_shares: float) -> list[tuple[AlarmCode, str]]:
    """Report these, one a sample; return the alarms of disks that are up then."""
    for share in free_shares:
        cluster.now_ms += SAMPLE_MS
        cluster.beat_all()
        cluster.heartbeat(2, disk=DiskSpace(free_bytes=int(TOTAL * share), total_bytes=TOTAL))
    return disk_alarms(cluster)


def disk_alarms(cluster: Cluster) -> list[tuple[AlarmCode, str]]:
    codes = (AlarmCode.DISK_BELOW_RESERVE, AlarmCode.DISK_FULL, AlarmCode.DISK_FILLS)
    return [(alarm.key.code, alarm.detail) for alarm in cluster.machine.alarms() if alarm.key.code in codes]


def report(cluster: Cluster, broker_id: int, *, is_short: bool) -> None:
    """Report a disk of 64 MiB that is full, and of which the broker takes records or not."""
    disk = DiskSpace(free_bytes=3 << 20, total_bytes=64 << 20, reserve_bytes=4 << 20, is_short=is_short)
    cluster.now_ms += 1
    cluster.heartbeat(broker_id, disk=disk)


def test_below_the_reserve_one_alarm_says_so_at_once_and_its_words_do_not_change() -> None:
    cluster = Cluster()
    assert [code for code, _ in seen(cluster, 0.04)] == ["disk_full"]
    report(cluster, 2, is_short=True)
    ((code, detail),) = disk_alarms(cluster)
    assert code == "disk_below_reserve"
    assert detail.startswith(
        "the disk of broker 2 (64 MiB) has less free than the reserve of 4 MiB (log.dir.reserve.bytes): "
        "producers to the partitions that it leads are refused"
    )
    report(cluster, 2, is_short=True)
    assert cluster.last.effects == ()
    report(cluster, 2, is_short=False)
    assert [code for code, _ in disk_alarms(cluster)] == ["disk_full"], "and at once what it is then"


def test_new_partitions_go_to_no_broker_below_its_reserve() -> None:
    cluster = Cluster()
    report(cluster, 2, is_short=True)
    made = cluster.step(
        CreateTopic(
            wall_ms=0, actor="ann", topic="a", topic_id=topic_id(7), partitions=6, replication_factor=2
        )
    ).reply
    assert isinstance(made, TopicCreated)
    assert {b for state in made.partitions for b in state.replicas} == {1, 3}
    refused = cluster.step(
        CreateTopic(
            wall_ms=0, actor="ann", topic="b", topic_id=topic_id(8), partitions=1, replication_factor=3
        )
    ).reply
    assert isinstance(refused, Refusal)
    assert refused.code is RefusalCode.REPLICATION_FACTOR_TOO_LARGE
    assert refused.detail == (
        "replication factor 3 needs as many brokers that may be given replicas; there are 2 with room on "
        "their disks; below their reserve: broker 2"
    )
    assert refused.hint is not None
    assert refused.hint.startswith("make room on these disks")
    added = cluster.step(AddPartitions(wall_ms=0, actor="ann", topic="a", partitions=12)).reply
    assert isinstance(added, PartitionsAdded)
    assert {b for state in added.partitions for b in state.replicas} == {1, 3}
    report(cluster, 2, is_short=False)
    assert seen(cluster, 0.5) == []
    again = cluster.step(AddPartitions(wall_ms=0, actor="ann", topic="a", partitions=18)).reply
    assert isinstance(again, PartitionsAdded)
    assert {b for state in again.partitions for b in state.replicas} == {1, 2, 3}


def test_no_move_begins_to_a_broker_below_its_reserve_and_one_on_its_way_goes_on() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3), (1, 2, 3))

    def move(partition: int) -> Refusal | None:
        target = ReassignmentTarget(topic_id=topic_id(), partition=partition, replicas=(4, 2, 3))
        event = AlterReassignments(wall_ms=0, actor="ann", targets=(target,))
        return cluster.ask(event, ReassignmentsAltered).results[0].refusal

    assert move(0) is None
    report(cluster, 4, is_short=True)
    refusal = move(1)
    assert refusal is not None
    assert refusal.code is RefusalCode.INELIGIBLE_BROKER, "an operation that moves it waits"
    assert refusal.detail == "the disk of broker 4 is below its reserve: it can't take a replica now"
    assert cluster.partition(number=0).adding_replicas == (4,)
    report(cluster, 4, is_short=False)
    assert move(1) is None


def test_a_disk_that_is_nearly_full_gets_partitions_only_for_want_of_others() -> None:
    cluster = Cluster()
    assert [code for code, _ in seen(cluster, 0.04)] == ["disk_full"]
    for number, factor, brokers in ((7, 2, {1, 3}), (8, 3, {1, 2, 3})):
        made = cluster.step(
            CreateTopic(
                wall_ms=0,
                actor="ann",
                topic=f"t{number}",
                topic_id=topic_id(number),
                partitions=6,
                replication_factor=factor,
            )
        ).reply
        assert isinstance(made, TopicCreated)
        assert {b for state in made.partitions for b in state.replicas} == brokers


@pytest.mark.parametrize(
    ("share", "code"),
    [(0.151, None), (0.149, "disk_fills"), (0.051, "disk_fills"), (0.049, "disk_full"), (0.0, "disk_full")],
)
def test_a_share_is_an_alarm_at_once(share: float, code: str | None) -> None:
    found = seen(Cluster(), share)
    assert [one for one, _ in found] == ([] if code is None else [code])
    if code is not None:
        percent = int(share * 100)
        assert found[0][1].startswith(
            f"the disk of broker 2 has {percent} % of 1000 GiB free. Below its reserve"
        )


@pytest.mark.parametrize(("hours", "code"), [(7, None), (5, "disk_fills"), (0.9, "disk_full")])
def test_a_disk_with_much_room_that_fills_fast_is_an_alarm_by_the_time_left(
    hours: float, code: str | None
) -> None:
    rate = 0.8 * SAMPLE_MS / (hours * HOUR_MS)
    cluster = Cluster()
    assert seen(cluster, *(0.8 - rate * number for number in range(4))) == [], "no rate is known yet"
    found = seen(cluster, 0.8 - rate * 4)
    assert [one for one, _ in found] == ([] if code is None else [code])
    if hours == 5:
        assert "is full in 4 hours at the rate of the last ten minutes" in found[0][1]


def test_an_alarm_does_not_come_and_go_at_its_bound_and_ends_when_there_is_room() -> None:
    cluster = Cluster()
    assert [code for code, _ in seen(cluster, 0.149)] == ["disk_fills"]
    assert [code for code, _ in seen(cluster, 0.152, 0.17, 0.149, 0.179)] == ["disk_fills"]
    assert seen(cluster, 0.181) == []
    assert [code for code, _ in seen(cluster, 0.04)] == ["disk_full"]
    assert [code for code, _ in seen(cluster, *[0.1] * 21)] == ["disk_fills"], "the worse one goes"


def test_steps_of_retention_and_a_short_burst_are_no_rate() -> None:
    saw = [0.5, 0.499, 0.498, 0.497, 0.496] * 10
    assert seen(Cluster(), *saw) == []


def test_a_broker_that_does_not_know_is_not_alarmed() -> None:
    cluster = Cluster()
    cluster.heartbeat(2)
    assert cluster.machine.alarms() == ()
