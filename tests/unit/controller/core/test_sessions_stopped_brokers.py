"""A broker that was stopped in order and stays away is an alarm, after a time that is a setting."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.effects import AlarmCode, AlarmKey
from controller.core.events import BrokersMaintained, MaintainBrokers
from controller.core.options import ControllerOptions
from springtide.contract.session import ShutdownKind
from tests.kit.controller.core_cluster import Cluster

STOPPED = AlarmKey(code=AlarmCode.BROKER_STOPPED, broker_id=2)
GRACE_MS = ControllerOptions().stopped_alarm_ms
BEAT_MS = 5_000


def stop(cluster: Cluster, **states: Any) -> None:
    if states:
        event = MaintainBrokers(wall_ms=3, actor="ann", broker_ids=(2,), **states)
        cluster.ask(event, BrokersMaintained)
    cluster.heartbeat(2, wants_shutdown=True)
    cluster.kill(2)
    cluster.pass_ms(0)


def wait(cluster: Cluster, ms: int) -> None:
    for _ in range(ms // BEAT_MS):
        cluster.now_ms += BEAT_MS
        cluster.beat_all()
        cluster.pass_ms(0)
    cluster.pass_ms(ms % BEAT_MS)


def alarms(cluster: Cluster) -> dict[AlarmKey, str]:
    return {alarm.key: alarm.detail for alarm in cluster.machine.alarms()}


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ({}, "its replicas are out of sync; start it, or drain and remove it"),
        ({"demoted": True}, "it is in maintenance, as was asked (demoted)"),
        ({"draining": True}, "it is being drained, as was asked"),
    ],
)
def test_who_stays_away_is_an_alarm_after_the_grace_and_what_was_asked_for_is_said(
    states: dict[str, Any], words: str
) -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    stop(cluster, **states)
    wait(cluster, GRACE_MS - 1)
    assert alarms(cluster) == {}
    assert cluster.machine.next_deadline_ms() == cluster.now_ms + 1
    wait(cluster, 1)
    assert alarms(cluster)[STOPPED].startswith(
        f"broker 2 was stopped in order and has been away for more than 5 min: {words}"
    )
    cluster.restart(2, last_shutdown=ShutdownKind.CLEAN)
    assert alarms(cluster) == {}


def test_what_is_asked_for_while_it_is_away_is_said_too() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    stop(cluster)
    wait(cluster, GRACE_MS)
    said = []
    asked: list[dict[str, Any]] = [{"demoted": True}, {"demoted": False}, {"draining": True}]
    for states in asked:
        event = MaintainBrokers(wall_ms=3, actor="ann", broker_ids=(2,), **states)
        cluster.ask(event, BrokersMaintained)
        said.append(alarms(cluster)[STOPPED].partition(": ")[2].split(",")[0])
    assert said == [
        "it is in maintenance",
        "its replicas are out of sync; start it",
        "it is being drained",
    ]


def test_who_comes_back_in_time_is_none() -> None:
    cluster = Cluster()
    stop(cluster)
    wait(cluster, GRACE_MS - 1)
    cluster.restart(2, last_shutdown=ShutdownKind.CLEAN)
    wait(cluster, GRACE_MS)
    assert alarms(cluster) == {}


def test_another_controller_begins_to_count_again() -> None:
    cluster = Cluster()
    stop(cluster)
    wait(cluster, GRACE_MS - 1)
    cluster.fail_over()
    wait(cluster, GRACE_MS - 1)
    assert alarms(cluster) == {}
    wait(cluster, 1)
    assert set(alarms(cluster)) == {STOPPED}


def test_who_was_killed_has_the_alarm_of_a_dead_broker_alone() -> None:
    cluster = Cluster()
    cluster.kill(2)
    wait(cluster, 2 * GRACE_MS)
    assert set(alarms(cluster)) == {AlarmKey(code=AlarmCode.BROKER_FENCED, broker_id=2)}
