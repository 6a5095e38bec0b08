"""The turns of the throttled learners that a broker hosts: throttle.py, for those whom it bounds. Pure.

A learner is bounded until it has reached its leader's high watermark. From then on, in that leader epoch, the
leader may count it in its maximal ISR, and what is written waits for it (I2, the leader is never laxer). A
replica that is in sync, or was a replica before, never gets here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dataplane.core.hosted import Hosted
from dataplane.core.throttle import LearnerThrottle
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import PartitionKey
from springtide.contract.throttles import is_learner

WINDOW_MS_MIN: Final = 1_000
"""A learner's turn may come while its leader's answer to others is pending; what it could not fetch in that
time it may fetch afterwards."""
LOOK_MS_MAX: Final = 100
"""A learner that begins to wait may be due before those that waited already."""


class LearnerTurns:
    """on_turn: this partition, which had to wait, has been granted its next fetch. on_waiting: there are
    learners that wait: call `give` when `look_ms` says."""

    def __init__(
        self,
        *,
        broker_id: int,
        grant_bytes_max: int,
        fetch_wait_ms: int,
        on_turn: Callable[[PartitionKey, int], None],
        on_waiting: Callable[[], None],
    ) -> None:
        self._broker_id = broker_id
        self._on_turn = on_turn
        self._on_waiting = on_waiting
        self.throttle = LearnerThrottle(
            grant_bytes_max=grant_bytes_max, window_ms=max(WINDOW_MS_MIN, 2 * fetch_wait_ms)
        )

    def __contains__(self, key: PartitionKey) -> bool:
        """Return whether the learner of this partition is bounded."""
        return key in self.throttle

    def classify(self, hosted: Hosted, now_ms: int) -> None:
        """Look at the partition again: its state, or its position, has changed."""
        state = hosted.replica.state
        hosted.is_learner = state is not None and is_learner(state, self._broker_id)
        if state is not None and hosted.is_learner and hosted.caught_up_epoch != state.leader_epoch:
            self.throttle.add(hosted.key, state.throttle, now_ms)
        else:
            self.throttle.remove(hosted.key, now_ms)

    def forget(self, key: PartitionKey, now_ms: int) -> None:
        """Note that the replica follows no leader."""
        self.throttle.remove(key, now_ms)

    def set_rate(self, rate: int | None, now_ms: int) -> None:
        """Set the rate of all learners together; None: there is none."""
        self.throttle.set_rate(rate, now_ms)
        self.give(now_ms)

    def ask(self, key: PartitionKey, now_ms: int) -> int:
        """Return the bytes for the next fetch; 0: wait for the turn."""
        return self.throttle.ask(key, now_ms)

    def release(self, key: PartitionKey, now_ms: int) -> None:
        self.throttle.release(key, now_ms)

    def on_answer(
        self, hosted: Hosted, size_bytes: int, *, leader_epoch: LeaderEpoch, high_watermark: int, now_ms: int
    ) -> None:
        """A learner's fetch in `leader_epoch` was answered, and applied. high_watermark: -1: not told."""
        self.throttle.settle(hosted.key, size_bytes, now_ms)
        if 0 <= high_watermark <= hosted.replica.log.log_end_offset:
            hosted.caught_up_epoch = leader_epoch
            self.classify(hosted, now_ms)

    def give(self, now_ms: int) -> None:
        """Let each learner fetch whose turn has come."""
        if not self.throttle:
            return
        for key, _ in self.throttle.admit(now_ms):
            self._on_turn(key, now_ms)
        if self.throttle.waiting:
            self._on_waiting()

    def look_ms(self, now_ms: int) -> int | None:
        """Return how long to wait before the next look; None: no learner waits."""
        wait_ms = self.throttle.wait_ms(now_ms)
        return None if wait_ms is None else min(max(wait_ms, 1), LOOK_MS_MAX)
