"""The order of a stop, and what the table gives for it."""

from __future__ import annotations

from dataplane.core.broker import Broker
from dataplane.core.hosted import Hosted
from dataplane.core.shutdown import SHUTDOWN, ShutdownStep
from tests.kit.dataplane.replica import TOPIC_ID, Bench


def test_each_step_is_taken_once_and_whatever_writes_or_promises_ends_before_the_logs_are_closed() -> None:
    assert sorted(SHUTDOWN, key=lambda step: step.value) == list(ShutdownStep)
    assert SHUTDOWN[0] is ShutdownStep.LEAVE, "a leader fetches and answers until others lead"
    assert SHUTDOWN[-1] is ShutdownStep.CLOSE_LOGS


def test_a_broker_that_closes_lets_its_replicas_go_with_their_high_watermarks() -> None:
    bench = Bench(high_watermark=3)
    hosted = Hosted(topic="orders", topic_id=TOPIC_ID, partition=0, replica=bench.replica)
    broker: Broker[Hosted] = Broker(1)
    broker.partitions[hosted.key] = hosted
    assert broker.close() == {hosted.key: bench.high_watermark}
    assert hosted.is_forgotten
