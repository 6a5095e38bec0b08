"""The turns of the throttled learners that this broker hosts: core/throttle.py, given the time.

A learner is bounded until it has reached its leader's high watermark. From then on, in that leader epoch, the
leader may count it in its maximal ISR, and what is written waits for it (I2, the leader is never laxer). A
replica that is in sync, or was a replica before, never gets here.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from dataplane.core.throttle import LearnerThrottle
from dataplane.shell.hosted import HostedPartition
from springtide.contract.partition_state import PartitionKey
from springtide.contract.throttles import FOLLOWER_RATE, effective_rate, is_learner
from springtide.node.clock import Clock
from springtide.node.cluster_view import ClusterView

WINDOW_MS_MIN = 1_000
"""A learner's turn may come while its leader's answer to others is pending; what it could not fetch in that
time it may fetch afterwards."""
LOOK_MS_MAX = 100
"""A learner that begins to wait may be due before those that waited already."""


class LearnerTurns:
    """`on_turn`: this partition, which had to wait, has been granted its next fetch."""

    def __init__(
        self,
        *,
        broker_id: int,
        view: ClusterView,
        clock: Clock,
        grant_bytes_max: int,
        fetch_wait_ms: int,
        on_turn: Callable[[PartitionKey], None],
    ) -> None:
        self._broker_id = broker_id
        self._view = view
        self._clock = clock
        self._on_turn = on_turn
        self._wake = trio.Event()
        self.throttle = LearnerThrottle(
            grant_bytes_max=grant_bytes_max, window_ms=max(WINDOW_MS_MIN, 2 * fetch_wait_ms)
        )

    def __contains__(self, key: PartitionKey) -> bool:
        """Return whether the learner of this partition is bounded."""
        return key in self.throttle

    def classify(self, hosted: HostedPartition) -> None:
        """Look at the partition again: its state, or its position, has changed."""
        state = hosted.replica.state
        now_ms = self._clock.mono_ms()
        hosted.is_learner = state is not None and is_learner(state, self._broker_id)
        if state is not None and hosted.is_learner and hosted.caught_up_epoch != state.leader_epoch:
            self.throttle.add(hosted.key, state.throttle, now_ms)
        else:
            self.throttle.remove(hosted.key, now_ms)

    def forget(self, key: PartitionKey) -> None:
        """Note that the replica follows no leader."""
        self.throttle.remove(key, self._clock.mono_ms())

    def on_rates_changed(self) -> None:
        me = self._view.brokers.get(self._broker_id)
        rate = effective_rate(FOLLOWER_RATE, {} if me is None else me.configs, self._view.cluster_configs)
        self.throttle.set_rate(rate, self._clock.mono_ms())
        self.give()

    def ask(self, key: PartitionKey) -> int:
        """Bytes for the next fetch; 0: wait for `on_turn`."""
        return self.throttle.ask(key, self._clock.mono_ms())

    def release(self, key: PartitionKey) -> None:
        self.throttle.release(key, self._clock.mono_ms())

    def on_answer(
        self, hosted: HostedPartition, size_bytes: int, *, leader_epoch: int, high_watermark: int
    ) -> None:
        """A learner's fetch in `leader_epoch` was answered, and applied. high_watermark: -1: not told."""
        self.throttle.settle(hosted.key, size_bytes, self._clock.mono_ms())
        if 0 <= high_watermark <= hosted.log.log_end_offset:
            hosted.caught_up_epoch = leader_epoch
            self.classify(hosted)

    def give(self) -> None:
        """Let the learners go on that may; `run` looks at the others again."""
        if not self.throttle:
            return
        for key, _ in self.throttle.admit(self._clock.mono_ms()):
            self._on_turn(key)
        if self.throttle.waiting:
            self._wake.set()

    async def run(self) -> None:
        while True:
            wait_ms = self.throttle.wait_ms(self._clock.mono_ms())
            if wait_ms is None:
                self._wake = trio.Event()
                await self._wake.wait()
            else:
                await self._clock.sleep_ms(min(max(wait_ms, 1), LOOK_MS_MAX))
                self.give()
