"""Producers that wait for their records to be committed.

One queue a partition, in order of the offset that the high watermark has to reach. One pass completes all
waiters that a move of the high watermark released; no task wakes only to look and sleep again.

A waiter remembers the leader epoch in which its record was written. It succeeds only if the high watermark is
reached *and* the log still holds that epoch at that offset (I4, acknowledged means committed): a task that
merely wakes on "high watermark >= x" could acknowledge another leader's record. Demotion, deletion, storage
failure and a lapsed lease fail all waiters at once (L1, no waiter hangs; KAFKA-9198); the outcome is then
unknown to the producer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from operator import itemgetter
from typing import NamedTuple

from dataplane.core.leader_epochs import LeaderEpochs
from springtide.contract.epochs import LeaderEpoch

NEVER_EXPIRES_MS = 2**62


class Waiting(NamedTuple):
    """One waiter. `required_offset`: one past its last record. `leader_epoch`: in which that record was
    written."""

    required_offset: int
    leader_epoch: LeaderEpoch
    expires_ms: int
    waiter: object


_required_offset = itemgetter(0)


class Purgatory:
    __slots__ = ("_queue", "next_expiry_ms")

    def __init__(self) -> None:
        self._queue: deque[Waiting] = deque()
        #: No waiter expires before this; it may be early, never late.
        self.next_expiry_ms = NEVER_EXPIRES_MS

    def __len__(self) -> int:
        return len(self._queue)

    def add(
        self, waiter: object, *, required_offset: int, leader_epoch: LeaderEpoch, expires_ms: int
    ) -> None:
        waiting = Waiting(required_offset, leader_epoch, expires_ms, waiter)
        queue = self._queue
        if not queue or queue[-1][0] <= required_offset:
            queue.append(waiting)
        else:  # a duplicate: its offset lies before those of newer records
            queue.insert(bisect_right(queue, required_offset, key=_required_offset), waiting)
        self.next_expiry_ms = min(self.next_expiry_ms, expires_ms)

    def complete_to(
        self, high_watermark: int, *, leader_epoch: LeaderEpoch, epochs: LeaderEpochs
    ) -> tuple[tuple[object, ...], tuple[object, ...]]:
        """Return the (committed, overwritten) waiters that the high watermark has reached, in offset order.
        Overwritten: another record is now at the offset of the waiter's record."""
        queue = self._queue
        if not queue or queue[0][0] > high_watermark:
            return (), ()
        committed: list[object] = []
        overwritten: list[object] = []
        while queue and queue[0][0] <= high_watermark:
            waiting = queue.popleft()
            # Records of the current leadership are in place by construction: a leader never truncates.
            if (
                waiting.leader_epoch == leader_epoch
                or epochs.epoch_at(waiting.required_offset - 1) == waiting.leader_epoch
            ):
                committed.append(waiting.waiter)
            else:
                overwritten.append(waiting.waiter)
        if not queue:
            self.next_expiry_ms = NEVER_EXPIRES_MS
        return tuple(committed), tuple(overwritten)

    def expire(self, now_ms: int) -> tuple[object, ...]:
        """Take out the waiters whose time is up."""
        if now_ms < self.next_expiry_ms:
            return ()
        expired = tuple(waiting.waiter for waiting in self._queue if waiting.expires_ms <= now_ms)
        self._queue = deque(waiting for waiting in self._queue if waiting.expires_ms > now_ms)
        self.next_expiry_ms = min((waiting.expires_ms for waiting in self._queue), default=NEVER_EXPIRES_MS)
        return expired

    def take_all(self) -> tuple[object, ...]:
        taken = tuple(waiting.waiter for waiting in self._queue)
        self._queue.clear()
        self.next_expiry_ms = NEVER_EXPIRES_MS
        return taken
