"""Learners copy no faster than they may (KIP-73): token buckets, and a queue in which each learner gets its
turn.

A learner is granted a number of bytes before each fetch. What the leader sends is known only with the answer,
which holds at least one whole batch; the difference is given back, or owed. So over any period learners copy
at most what the rate allows, plus the bucket's content, plus one batch for each grant that was exceeded. The
excess is waited for before the next grant.

Learners of one operation wait in their own line, because each operation may have its own rate. The lines take
turns at what the broker may take in altogether. A waiting learner is first in its line after finitely many
grants and is then sent a batch of any size: however low the rate, every learner advances.

Pure: time comes as milliseconds of a monotonic clock. Replicas that are in sync are not throttled.
"""

from __future__ import annotations

from typing import NamedTuple

from springtide.contract.partition_state import MoveThrottle, PartitionKey

GRANT_BYTES_MIN = 64 * 1024
"""The least grant: a bucket with less collects first, unless it can't hold as much."""
_SCALE = 1_000
"""Buckets count thousandths of a byte: whole numbers for every rate and millisecond."""


class TokenBucket:
    """A bucket filled at `rate` bytes per second. It holds at most what `window_ms` bring, begins full, and
    may be overdrawn."""

    __slots__ = ("_capacity", "_filled_ms", "_level", "rate")

    def __init__(self, rate: int, *, window_ms: int, now_ms: int) -> None:
        assert rate > 0 and window_ms > 0
        self.rate = rate
        self._capacity = max(rate * window_ms, _SCALE)
        self._level = self._capacity
        self._filled_ms = now_ms

    def level(self, now_ms: int) -> int:
        """Return the level in whole bytes; negative while overdrawn."""
        if now_ms > self._filled_ms:
            self._level = min(self._capacity, self._level + self.rate * (now_ms - self._filled_ms))
            self._filled_ms = now_ms
        return self._level // _SCALE

    def take(self, size_bytes: int, now_ms: int) -> None:
        """Take bytes out. A negative size gives back what was not used."""
        self.level(now_ms)
        self._level = min(self._capacity, self._level - size_bytes * _SCALE)

    @property
    def grant_min(self) -> int:
        return min(GRANT_BYTES_MIN, self._capacity // _SCALE)

    def wait_ms(self, now_ms: int) -> int:
        """Return the time until the bucket holds the least grant; 0 if it does already."""
        lacking = self.grant_min * _SCALE - self._level if self.level(now_ms) < self.grant_min else 0
        return -(-lacking // self.rate)


class Grant(NamedTuple):
    key: PartitionKey
    size_bytes: int


class _Line:
    """The learners of one operation at one rate, or those limited only by the broker's rate."""

    __slots__ = ("bucket", "members", "waiting")

    def __init__(self, bucket: TokenBucket | None) -> None:
        self.bucket = bucket
        self.members = 0
        self.waiting: dict[PartitionKey, None] = {}  # an ordered set


class LearnerThrottle:
    """All learners of a broker that follow a leader. grant_bytes_max: what one fetch asks of a partition.
    window_ms: at least as long as a fetch may have to wait for its turn, or the rates are not reached."""

    __slots__ = ("_broker", "_granted", "_lines", "_of", "grant_bytes_max", "window_ms")

    def __init__(self, *, grant_bytes_max: int, window_ms: int) -> None:
        self.grant_bytes_max = grant_bytes_max
        self.window_ms = window_ms
        self._broker: TokenBucket | None = None
        self._of: dict[PartitionKey, MoveThrottle | None] = {}
        self._lines: dict[MoveThrottle | None, _Line] = {}
        self._granted: dict[PartitionKey, int] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._of

    @property
    def waiting(self) -> int:
        return sum(len(line.waiting) for line in self._lines.values())

    @property
    def rate(self) -> int | None:
        """The broker's rate; None if unthrottled."""
        return None if self._broker is None else self._broker.rate

    def set_rate(self, rate: int | None, now_ms: int) -> None:
        """Set the broker's rate, for all learners together; None removes it. Grants already given stay
        valid."""
        if rate != self.rate:
            self._broker = None if rate is None else self._bucket(rate, now_ms)

    def add(self, key: PartitionKey, throttle: MoveThrottle | None, now_ms: int) -> None:
        """Add a learner, or move it to another rate. Idempotent."""
        if key in self._of:
            if self._of[key] == throttle:
                return
            self.remove(key, now_ms)
        self._of[key] = throttle
        line = self._lines.get(throttle)
        if line is None:
            bucket = None if throttle is None else self._bucket(throttle.rate, now_ms)
            line = self._lines[throttle] = _Line(bucket)
        line.members += 1

    def remove(self, key: PartitionKey, now_ms: int) -> None:
        """Remove a replica that is no longer a learner, or not followed. An operation's bucket goes with its
        last learner."""
        if key not in self._of:
            return
        self.release(key, now_ms)
        throttle = self._of.pop(key)
        line = self._lines[throttle]
        line.members -= 1
        if not line.members:
            del self._lines[throttle]

    def ask(self, key: PartitionKey, now_ms: int) -> int:
        """Return the bytes that this learner's next fetch may ask for: the grant it has, or a new one if no
        learner has to wait. Return 0 if it must wait in line."""
        line = self._lines[self._of[key]]
        if line.bucket is None and self._broker is None:
            line.waiting.pop(key, None)
            return self.grant_bytes_max
        granted = self._granted.get(key)
        if granted is not None:
            return granted
        is_first = not any(other.waiting for other in self._lines.values())
        if is_first and self._is_ready(line.bucket, now_ms) and self._is_ready(self._broker, now_ms):
            return self._grant(line, key, now_ms)
        line.waiting[key] = None
        return 0

    def settle(self, key: PartitionKey, used_bytes: int, now_ms: int) -> None:
        """Settle the grant: the fetch was answered with `used_bytes`."""
        granted = self._granted.pop(key, None)
        if granted is not None:
            self._take(self._lines[self._of[key]], used_bytes - granted, now_ms)

    def release(self, key: PartitionKey, now_ms: int) -> None:
        """Drop the learner's grant and its place in line."""
        self.settle(key, 0, now_ms)
        self._lines[self._of[key]].waiting.pop(key, None)

    def admit(self, now_ms: int) -> list[Grant]:
        """Return the grants that are due, one of each line in turn, for as long as there is something to
        grant."""
        grants: list[Grant] = []
        is_moving = True
        while is_moving and self._is_ready(self._broker, now_ms):
            is_moving = False
            for throttle, line in list(self._lines.items()):
                if not line.waiting or not self._is_ready(line.bucket, now_ms):
                    continue
                if not self._is_ready(self._broker, now_ms):
                    break
                is_moving = True
                key = next(iter(line.waiting))
                del line.waiting[key]
                grants.append(Grant(key, self._grant(line, key, now_ms)))
                self._lines[throttle] = self._lines.pop(throttle)  # the others go before it next time
        return grants

    def wait_ms(self, now_ms: int) -> int | None:
        """Return the time until `admit` may have a learner to admit; None if no learner waits."""
        waits = [
            0 if line.bucket is None else line.bucket.wait_ms(now_ms)
            for line in self._lines.values()
            if line.waiting
        ]
        if not waits:
            return None
        return max(min(waits), 0 if self._broker is None else self._broker.wait_ms(now_ms))

    def _bucket(self, rate: int, now_ms: int) -> TokenBucket:
        return TokenBucket(rate, window_ms=self.window_ms, now_ms=now_ms)

    @staticmethod
    def _is_ready(bucket: TokenBucket | None, now_ms: int) -> bool:
        return bucket is None or bucket.level(now_ms) >= bucket.grant_min

    def _grant(self, line: _Line, key: PartitionKey, now_ms: int) -> int:
        size = self.grant_bytes_max
        for bucket in (line.bucket, self._broker):
            if bucket is not None:
                size = min(size, bucket.level(now_ms))
        self._granted[key] = size
        self._take(line, size, now_ms)
        return size

    def _take(self, line: _Line, size_bytes: int, now_ms: int) -> None:
        for bucket in (line.bucket, self._broker):
            if bucket is not None:
                bucket.take(size_bytes, now_ms)
