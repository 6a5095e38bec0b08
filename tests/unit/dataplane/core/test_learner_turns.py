"""Which replicas are bounded as learners, until when, and when a broker looks after those that wait."""

from __future__ import annotations

from typing import Any

import pytest

from dataplane.core.hosted import Hosted
from dataplane.core.learner_turns import LOOK_MS_MAX, WINDOW_MS_MIN, LearnerTurns
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import MoveThrottle, PartitionKey
from tests.kit.dataplane.replica import TOPIC_ID, Bench, log_of

RATE = 100_000
LEARNING: dict[str, Any] = {
    "replicas": (1, 2, 4),
    "isr": (1, 2),
    "adding_replicas": (4,),
    "throttle": MoveThrottle(rate=RATE, operation="op"),
}
NOW = 5_000


class Broker:
    """Broker 4, which learns a partition."""

    def __init__(self, *, fetch_wait_ms: int = 500) -> None:
        self.given: list[PartitionKey] = []
        self.told_waiting = 0
        self.turns = LearnerTurns(
            broker_id=4,
            grant_bytes_max=1 << 20,
            fetch_wait_ms=fetch_wait_ms,
            on_turn=lambda key, now_ms: self.given.append(key),
            on_waiting=self._on_waiting,
        )
        self.bench = Bench(4, log=log_of(1, 1))
        self.hosted = Hosted(topic="t", topic_id=TOPIC_ID, partition=0, replica=self.bench.replica)
        self.key = self.hosted.key

    def _on_waiting(self) -> None:
        self.told_waiting += 1

    def learn(self, **changes: Any) -> Broker:
        self.bench.apply(**{**LEARNING, **changes})
        self.turns.classify(self.hosted, NOW)
        return self

    def spend(self) -> None:
        """All that it may have now, and more."""
        while self.turns.ask(self.key, NOW):
            self.turns.throttle.settle(self.key, 10 * RATE, NOW)


def test_a_replica_is_bounded_while_it_learns() -> None:
    broker = Broker()
    broker.turns.classify(broker.hosted, NOW)
    assert (broker.hosted.is_learner, broker.key in broker.turns) == (False, False), "nothing is known of it"
    broker.learn()
    assert (broker.hosted.is_learner, broker.key in broker.turns) == (True, True)
    broker.learn(partition_epoch=2, isr=(1, 2, 4), adding_replicas=())
    assert (broker.hosted.is_learner, broker.key in broker.turns) == (False, False)


@pytest.mark.parametrize(("high_watermark", "is_bounded"), [(-1, True), (0, False), (2, False), (3, True)])
def test_it_is_bounded_no_more_once_it_has_what_is_committed(high_watermark: int, is_bounded: bool) -> None:
    broker = Broker().learn()
    epoch = LeaderEpoch(1)
    broker.turns.on_answer(broker.hosted, 0, leader_epoch=epoch, high_watermark=high_watermark, now_ms=NOW)
    assert (broker.key in broker.turns) is is_bounded
    broker.learn(leader_epoch=2, partition_epoch=2)
    assert broker.key in broker.turns, "under a new leader it begins anew"


def test_who_waits_is_looked_after_soon_and_not_before_a_millisecond() -> None:
    broker = Broker().learn()
    assert broker.turns.look_ms(NOW) is None
    broker.spend()
    broker.turns.give(NOW)
    assert (broker.given, broker.told_waiting) == ([], 1)
    assert broker.turns.look_ms(NOW) == LOOK_MS_MAX
    due_ms = NOW
    while broker.turns.look_ms(due_ms) == LOOK_MS_MAX:
        due_ms += 10
    assert 1 <= (broker.turns.look_ms(due_ms) or 0) < LOOK_MS_MAX
    assert broker.turns.look_ms(due_ms + LOOK_MS_MAX) == 1
    broker.turns.give(due_ms + LOOK_MS_MAX)
    assert (broker.given, broker.told_waiting) == ([broker.key], 1)


def test_a_higher_rate_is_felt_at_once() -> None:
    broker = Broker().learn(throttle=None)
    broker.turns.set_rate(RATE, NOW)
    broker.spend()
    broker.turns.set_rate(None, NOW)
    assert broker.given == [broker.key]


def test_who_gives_its_place_back_waits_no_more() -> None:
    broker = Broker().learn()
    broker.spend()
    broker.turns.release(broker.key, NOW)
    assert broker.turns.look_ms(NOW) is None


@pytest.mark.parametrize(("fetch_wait_ms", "window_ms"), [(500, WINDOW_MS_MIN), (800, 1_600)])
def test_what_could_not_be_fetched_while_an_answer_was_waited_for_may_be_fetched_after_it(
    fetch_wait_ms: int, window_ms: int
) -> None:
    assert Broker(fetch_wait_ms=fetch_wait_ms).turns.throttle.window_ms == window_ms
