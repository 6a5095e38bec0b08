"""When silence has an effect, and who is asked whether a process still runs."""

from __future__ import annotations

from controller.core.effects import ProbeBroker
from tests.kit.controller.core_cluster import Cluster


def probed(cluster: Cluster) -> list[int]:
    return [effect.broker_id for effect in cluster.last.effects if isinstance(effect, ProbeBroker)]


def test_the_next_deadline_is_that_of_the_longest_silence_of_those_that_are_not_fenced() -> None:
    cluster = Cluster()
    late_ms = cluster.options.probe_after_ms + 1
    cluster.kill(3)
    cluster.heartbeat(3, applied=-1)  # heard, and fenced still
    cluster.now_ms += 300
    cluster.heartbeat(1)
    cluster.now_ms += 200
    cluster.heartbeat(2)
    cluster.pass_ms(0)
    assert cluster.machine.next_deadline_ms() == cluster.now_ms - 200 + late_ms


def test_the_listener_of_a_late_broker_is_probed_and_that_of_a_fenced_one_is_not() -> None:
    cluster = Cluster()
    cluster.kill(3)
    cluster.heartbeat(3, applied=-1)
    cluster.pass_ms(cluster.options.probe_after_ms)
    assert not probed(cluster)
    cluster.pass_ms(1)
    assert probed(cluster) == [1, 2]
    cluster.heartbeat(1)
    cluster.heartbeat(2)
    cluster.pass_ms(0)
    assert cluster.machine.next_deadline_ms() == cluster.now_ms + cluster.options.probe_after_ms + 1


def test_a_broker_is_fenced_at_the_end_of_the_grace_even_if_it_was_probed_just_before() -> None:
    cluster = Cluster(brokers=(1,))
    end_ms = cluster.now_ms + cluster.options.grace_ms + 1
    cluster.pass_ms(cluster.options.grace_ms)
    assert probed(cluster) == [1]
    assert cluster.machine.next_deadline_ms() == end_ms


def test_silence_is_forgiven_up_to_now_and_not_beyond() -> None:
    cluster = Cluster()
    cluster.machine.forgive_silence(10_000, cluster.now_ms)
    cluster.pass_ms(cluster.options.grace_ms + 1)
    assert cluster.broker(1).fenced
