"""A disk that fills up is alarmed by its share and by the time that is left, long before it is full."""

from __future__ import annotations

import pytest

from controller.core.disk_watch import HOUR_MS, SAMPLE_MS
from controller.core.effects import AlarmCode
from springtide.contract.session import DiskSpace
from tests.kit.controller.core_cluster import Cluster

TOTAL = 1_000 << 30


def seen(cluster: Cluster, *free_shares: float) -> list[tuple[AlarmCode, str]]:
    """Report these, one a sample; return the alarms of disks that are up then."""
    for share in free_shares:
        cluster.now_ms += SAMPLE_MS
        cluster.beat_all()
        cluster.heartbeat(2, disk=DiskSpace(free_bytes=int(TOTAL * share), total_bytes=TOTAL))
    codes = (AlarmCode.DISK_FULL, AlarmCode.DISK_FILLS)
    return [(alarm.key.code, alarm.detail) for alarm in cluster.machine.alarms() if alarm.key.code in codes]


@pytest.mark.parametrize(
    ("share", "code"),
    [(0.151, None), (0.149, "disk_fills"), (0.051, "disk_fills"), (0.049, "disk_full"), (0.0, "disk_full")],
)
def test_a_share_is_an_alarm_at_once(share: float, code: str | None) -> None:
    found = seen(Cluster(), share)
    assert [one for one, _ in found] == ([] if code is None else [code])
    if code is not None:
        percent = int(share * 100)
        assert found[0][1].startswith(f"the disk of broker 2 has {percent} % of 1000 GiB free. A full disk")


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
