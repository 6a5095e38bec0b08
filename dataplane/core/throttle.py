"""Learners copy no faster than they may (KIP-73): token buckets, and a queue in which each gets its turn.

A learner is granted a number of bytes before each fetch. What the leader then sends is known only with the
answer, which holds at least one whole batch; the difference is given back, or owed. So over any time no more
is copied than the rate allows, the bucket's content and one batch for each grant that was exceeded, and what
was exceeded is waited for before the next grant.

Learners of one operation wait in a line of their own, because each operation may have its own rate; the lines
take turns at what the broker may take in altogether. Whoever waits is first in its line after finitely many
grants and is then sent a batch of any size: however low the rate, every learner advances.

Pure: time comes as milliseconds of a monotonic clock. Replicas that are in sync never get here.
"""

from __future__ import annotations

from typing import NamedTuple

from controller.contract.partition_state import MoveThrottle, PartitionKey

GRANT_BYTES_MIN = 64 * 1024
"""Below this a bucket collects rather than to send for crumbs, unless it can't hold as much."""
_SCALE = 1_000
"""Buckets count thousandths of a byte: whole numbers for every rate and millisecond."""


class TokenBucket:
    """`rate` bytes per second; holds what `window_ms` bring at most, and begins full. May be overdrawn."""

    __slots__ = ("_capacity", "_filled_ms", "_level", "rate")

    def __init__(self, rate: int, *, window_ms: int, now_ms: int) -> None:
        assert rate > 0 and window_ms > 0
        self.rate = rate
        self._capacity = max(rate * window_ms, _SCALE)
        self._level = self._capacity
        self._filled_ms = now_ms

    def level(self, now_ms: int) -> int:
        """Whole bytes; negative while overdrawn."""
        if now_ms > self._filled_ms:
            self._level = min(self._capacity, self._level + self.rate * (now_ms - self._filled_ms))
            self._filled_ms = now_ms
        return self._level // _SCALE

    def take(self, size_bytes: int, now_ms: int) -> None:
        """Negative: give back what was not used."""
        self.level(now_ms)
        self._level = min(self._capacity, self._level - size_bytes * _SCALE)

    @property
    def grant_min(self) -> int:
        return min(GRANT_BYTES_MIN, self._capacity // _SCALE)

    def wait_ms(self, now_ms: int) -> int:
        """Until it holds the least grant; 0: it does."""
        lacking = self.grant_min * _SCALE - self._level if self.level(now_ms) < self.grant_min else 0
        return -(-lacking // self.rate)


class Grant(NamedTuple):
    key: PartitionKey
    size_bytes: int


class _Line:
    """The learners of one operation at one rate, or those that only the broker's rate bounds."""

    __slots__ = ("bucket", "members", "waiting")

    def __init__(self, bucket: TokenBucket | None) -> None:
        self.bucket = bucket
        self.members = 0
        self.waiting: dict[PartitionKey, None] = {}  # an ordered set


class LearnerThrottle:
    """All learners of a broker that follow somebody. grant_bytes_max: what one fetch asks of a partition.
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
        """The broker's."""
        return None if self._broker is None else self._broker.rate

    def set_rate(self, rate: int | None, now_ms: int) -> None:
        """The broker's, for all learners together; None: unthrottled. Grants out stay good."""
        if rate != self.rate:
            self._broker = None if rate is None else self._bucket(rate, now_ms)

    def add(self, key: PartitionKey, throttle: MoveThrottle | None, now_ms: int) -> None:
        """A learner, or the same under another rate. Idempotent."""
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
        """No learner any more, or not followed. An operation's bucket goes with its last learner."""
        if key not in self._of:
            return
        self.release(key, now_ms)
        throttle = self._of.pop(key)
        line = self._lines[throttle]
        line.members -= 1
        if not line.members:
            del self._lines[throttle]

    def ask(self, key: PartitionKey, now_ms: int) -> int:
        """Bytes that this learner's next fetch may ask for: the grant it has, or one at once if nobody has to
        wait; else 0, and it waits in line."""
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
        """The fetch was answered with so much."""
        granted = self._granted.pop(key, None)
        if granted is not None:
            self._take(self._lines[self._of[key]], used_bytes - granted, now_ms)

    def release(self, key: PartitionKey, now_ms: int) -> None:
        """It asks for nothing any more."""
        self.settle(key, 0, now_ms)
        self._lines[self._of[key]].waiting.pop(key, None)

    def admit(self, now_ms: int) -> list[Grant]:
        """Whose turn it is, one of each line after the other, for as long as there is something to grant."""
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
        """Until `admit` may have somebody to admit; None: nobody waits."""
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
