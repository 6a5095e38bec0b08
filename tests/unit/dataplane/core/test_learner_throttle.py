"""Throttled learners: never faster than their rates, never stopped by them, and each in its turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.core.throttle import GRANT_BYTES_MIN, LearnerThrottle, TokenBucket
from springtide.contract.partition_state import MoveThrottle, PartitionKey

MIB = 1024 * 1024
SLOW = MoveThrottle(rate=100_000, operation="slow")
FAST = MoveThrottle(rate=10 * MIB, operation="fast")


def key(number: int) -> PartitionKey:
    return ("topic", number)


class Learners:
    """Learners with endless logs: each grant is answered at once with whole batches of `batch_bytes`."""

    def __init__(
        self, *throttles: MoveThrottle | None, rate: int | None = None, batch_bytes: int = 1_000
    ) -> None:
        self.now_ms = 5_000
        self.batch_bytes = batch_bytes
        self.throttle = LearnerThrottle(grant_bytes_max=MIB, window_ms=1_000)
        self.throttle.set_rate(rate, self.now_ms)
        self.copied = {key(number): 0 for number in range(len(throttles))}
        for number, throttle in enumerate(throttles):
            self.throttle.add(key(number), throttle, self.now_ms)
        for each in self.copied:
            self._go_on(each, self.throttle.ask(each, self.now_ms))

    def _go_on(self, each: PartitionKey, granted: int) -> None:
        while granted:
            used = max(granted // self.batch_bytes, 1) * self.batch_bytes
            self.copied[each] += used
            self.throttle.settle(each, used, self.now_ms)
            granted = self.throttle.ask(each, self.now_ms)

    def run(self, ms: int, *, step_ms: int = 10) -> None:
        for _ in range(0, ms, step_ms):
            self.now_ms += step_ms
            for each, granted in self.throttle.admit(self.now_ms):
                self._go_on(each, granted)

    @property
    def total(self) -> int:
        return sum(self.copied.values())


@given(
    rate=st.integers(1, 10**9),
    window_ms=st.integers(1, 5_000),
    steps=st.lists(st.tuples(st.integers(0, 2_000), st.integers(-5_000, 10**6)), max_size=20),
)
def test_a_bucket_gains_its_rate_and_holds_no_more_than_its_window(
    rate: int, window_ms: int, steps: list[tuple[int, int]]
) -> None:
    bucket = TokenBucket(rate, window_ms=window_ms, now_ms=0)
    capacity = max(rate * window_ms, 1_000)  # in thousandths of a byte
    level, now_ms = capacity, 0
    for pause_ms, size in steps:
        now_ms += pause_ms
        level = min(capacity, level + rate * pause_ms)
        assert bucket.level(now_ms) == level // 1_000
        level = min(capacity, level - size * 1_000)
        bucket.take(size, now_ms)
        wait_ms = bucket.wait_ms(now_ms)
        assert bucket.level(now_ms + wait_ms) >= bucket.grant_min
        level = min(capacity, level + rate * wait_ms)
        now_ms += wait_ms


def test_waiting_is_as_short_as_can_be() -> None:
    bucket = TokenBucket(1_000, window_ms=1_000, now_ms=0)
    bucket.take(1_500, 0)
    assert bucket.level(0) == -500
    assert bucket.wait_ms(0) == 1_500
    assert bucket.level(1_499) == bucket.grant_min - 1
    assert bucket.level(1_500) == bucket.grant_min


def test_what_a_bucket_gained_is_in_it_before_something_is_taken_out() -> None:
    bucket = TokenBucket(1_000, window_ms=1_000, now_ms=0)
    bucket.take(1_000, 0)
    bucket.take(500, 5_000)
    assert bucket.level(5_000) == 500


def test_nobody_waits_for_a_bucket_that_holds_the_least_grant_and_a_part_of_a_byte() -> None:
    for rate, window_ms in ((3, 500), (1_000, 1_000)):
        assert TokenBucket(rate, window_ms=window_ms, now_ms=0).wait_ms(0) == 0


@pytest.mark.parametrize("batch_bytes", [100, 1_000, 300_000, 3 * MIB])
@pytest.mark.parametrize("rate", [10_000, 200_000, 5 * MIB, 50 * MIB])
def test_a_learner_reaches_its_rate_and_does_not_exceed_it(rate: int, batch_bytes: int) -> None:
    learners = Learners(MoveThrottle(rate=rate, operation="m"), batch_bytes=batch_bytes)
    learners.run(20_000)
    allowed = (
        rate * 21 + batch_bytes
    )  # twenty seconds, the full bucket, and one batch too large for its grant
    assert learners.total <= allowed
    assert learners.total >= min(rate * 20, allowed - batch_bytes) - max(batch_bytes, GRANT_BYTES_MIN)


def test_learners_of_one_operation_share_its_rate_evenly() -> None:
    learners = Learners(SLOW, SLOW, SLOW, SLOW)
    learners.run(60_000)
    assert learners.total <= SLOW.rate * 61 + MIB
    share = learners.total / 4
    assert all(abs(copied - share) <= 2 * GRANT_BYTES_MIN for copied in learners.copied.values())


def test_the_brokers_rate_bounds_all_operations_together_and_a_slow_one_holds_up_nobody() -> None:
    learners = Learners(SLOW, FAST, None, rate=1_000_000)
    learners.run(60_000)
    assert 0.95 * 60_000_000 <= learners.total <= 61_000_000 + MIB
    slow, fast, without = learners.copied.values()
    assert 0.9 * SLOW.rate * 60 <= slow <= SLOW.rate * 61 + MIB, "it gets its turn, and its own rate"
    assert min(fast, without) > 0.4 * learners.total


def test_every_learner_advances_however_low_the_rate_and_however_large_the_batches() -> None:
    learners = Learners(*[MoveThrottle(rate=1_000, operation="m")] * 5, batch_bytes=20_000)
    learners.run(200_000, step_ms=100)
    assert all(copied >= 20_000 for copied in learners.copied.values())
    assert learners.total <= 1_000 * 201 + 20_000


def test_without_a_rate_nobody_waits_and_nothing_is_counted() -> None:
    throttle = LearnerThrottle(grant_bytes_max=MIB, window_ms=1_000)
    throttle.add(key(0), None, 0)
    for _ in range(100):
        assert throttle.ask(key(0), 0) == MIB
        throttle.settle(key(0), MIB, 0)
    assert throttle.wait_ms(0) is None


def test_lifting_the_rate_lets_those_that_wait_go_on_at_once() -> None:
    throttle = LearnerThrottle(grant_bytes_max=MIB, window_ms=1_000)
    throttle.set_rate(1_000, 0)
    for number in range(3):
        throttle.add(key(number), None, 0)
    assert throttle.ask(key(0), 0) == 1_000
    assert [throttle.ask(key(number), 0) for number in (1, 2)] == [0, 0]
    assert throttle.wait_ms(0) == 1_000
    assert throttle.admit(999) == []
    throttle.set_rate(None, 999)
    assert [(grant.key, grant.size_bytes) for grant in throttle.admit(999)] == [(key(1), MIB), (key(2), MIB)]
    assert throttle.waiting == 0


def test_what_a_fetch_did_not_use_is_there_for_the_next() -> None:
    throttle = LearnerThrottle(grant_bytes_max=MIB, window_ms=1_000)
    throttle.add(key(0), SLOW, 0)
    throttle.add(key(1), SLOW, 0)
    assert throttle.ask(key(0), 0) == SLOW.rate
    assert throttle.ask(key(0), 0) == SLOW.rate, "asked again before the answer: the same grant"
    assert throttle.ask(key(1), 0) == 0
    throttle.settle(key(0), 10_000, 0)
    assert throttle.admit(0) == [(key(1), SLOW.rate - 10_000)]
    throttle.remove(key(1), 0)  # moved away, in the middle of its fetch
    assert throttle.ask(key(0), 0) == SLOW.rate - 10_000


def test_one_that_goes_leaves_no_place_in_line_and_an_operation_ends_with_its_last() -> None:
    throttle = LearnerThrottle(grant_bytes_max=MIB, window_ms=1_000)
    throttle.add(key(0), SLOW, 0)
    throttle.add(key(1), SLOW, 0)
    throttle.settle(key(0), throttle.ask(key(0), 0), 0)
    assert throttle.ask(key(1), 0) == 0
    throttle.remove(key(1), 0)
    throttle.remove(key(1), 0)
    assert throttle.admit(10_000) == []
    assert throttle.wait_ms(10_000) is None
    throttle.add(key(0), FAST, 10_000)  # another rate for the same move
    assert throttle.ask(key(0), 10_000) == MIB
    throttle.remove(key(0), 10_000)
    assert (len(throttle), key(0) in throttle) == (0, False)


def throttled(*throttles: MoveThrottle | None, rate: int | None = None) -> LearnerThrottle:
    """The first learner has taken all that it may, at time 0."""
    throttle = LearnerThrottle(grant_bytes_max=MIB, window_ms=1_000)
    throttle.set_rate(rate, 0)
    for number, each in enumerate(throttles):
        throttle.add(key(number), each, 0)
    drain(throttle, 0)
    return throttle


def drain(throttle: LearnerThrottle, number: int) -> None:
    while granted := throttle.ask(key(number), 0):
        throttle.settle(key(number), granted, 0)


def test_an_operations_bucket_is_there_as_long_as_one_of_its_learners() -> None:
    throttle = throttled(SLOW, SLOW)
    throttle.remove(key(0), 0)
    throttle.add(key(0), SLOW, 0)
    assert throttle.ask(key(0), 0) == 0, "the other one has gone on with it"
    for number in (0, 1):
        throttle.remove(key(number), 0)
    throttle.add(key(0), SLOW, 0)
    assert throttle.ask(key(0), 0) == SLOW.rate


def test_who_goes_on_at_another_rate_or_at_none_waits_no_more() -> None:
    throttle = throttled(SLOW)
    assert throttle.waiting == 1
    throttle.add(key(0), FAST, 0)
    assert throttle.waiting == 0
    throttle = throttled(None, rate=1_000)
    throttle.set_rate(None, 0)
    assert (throttle.ask(key(0), 0), throttle.waiting) == (MIB, 0)


def test_nobody_goes_ahead_of_who_waits() -> None:
    throttle = throttled(SLOW, FAST)
    assert throttle.ask(key(1), 0) == 0
    assert [grant.key for grant in throttle.admit(10_000)] == [key(0), key(1)]


def test_the_wait_is_that_of_the_first_line_whose_turn_comes_and_of_the_broker() -> None:
    both = throttled(SLOW, FAST)
    drain(both, 1)
    assert both.wait_ms(0) == 0, "the fast line's bucket is full"
    alone = throttled(SLOW)
    assert [alone.wait_ms(now_ms) for now_ms in (0, 655, 656)] == [656, 1, 0]
    by_broker = throttled(None, rate=100_000)
    assert [by_broker.wait_ms(now_ms) for now_ms in (0, 655, 656)] == [656, 1, 0]
    slower = throttled(SLOW, rate=1_000_000)
    assert slower.wait_ms(0) == 656
