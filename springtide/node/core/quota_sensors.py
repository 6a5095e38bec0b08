"""What was used of a quota, and how long its user has to wait. Pure: time comes as monotonic milliseconds.

Use is measured over a window of samples (KIP-13): the whole ones and what has passed of the newest. An entity
above its limit waits until its use over the window, made longer by the wait, is what the limit allows:

    delay = (rate - limit) / limit x window

Changes of topics have a token bucket instead (KIP-599), since one call may change a thousand partitions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from math import ceil
from typing import Final, Generic, NamedTuple, TypeVar

from springtide.node.core.quota_limits import Key

DELAY_MS_MAX: Final = 2**31 - 1
"""throttle_time_ms has 32 bits."""
ENTITIES_MAX: Final = 10_000
"""Users of one quota that are remembered. Beyond it the one that was idle longest is forgotten."""
IDLE_MS_MAX: Final = 60 * 60 * 1000
"""A user of a quota is forgotten after this time, as in Kafka."""

S = TypeVar("S")


class SampleWindow(NamedTuple):
    """The window that use is measured over: Kafka's quota.window.num and quota.window.size.seconds."""

    samples: int = 11
    sample_ms: int = 1_000

    @property
    def whole_ms(self) -> int:
        """Return the time of all samples but the newest, which has only begun; one sample at least."""
        return max(1, self.samples - 1) * self.sample_ms

    def length_ms(self, now_ms: int) -> int:
        if self.samples == 1:
            return self.sample_ms
        return self.whole_ms + now_ms % self.sample_ms


class SampledSum:
    """A sum over the window."""

    __slots__ = ("_newest", "_number", "_whole", "_whole_sum", "_window")

    def __init__(self, window: SampleWindow) -> None:
        self._window = window
        #: The newest sample: how many would have passed since time 0, and its sum.
        self._number = 0
        self._newest = 0.0
        #: The samples before it that are in the window and not empty, and their sum.
        self._whole: list[tuple[int, float]] = []
        self._whole_sum = 0.0

    def add(self, value: float, now_ms: int) -> None:
        self._move(now_ms)
        self._newest += value

    def total(self, now_ms: int) -> float:
        self._move(now_ms)
        return self._whole_sum + self._newest

    def _move(self, now_ms: int) -> None:
        number = now_ms // self._window.sample_ms
        if number <= self._number:
            return
        oldest = number - self._window.samples + 1
        whole = [sample for sample in self._whole if sample[0] >= oldest]
        if self._newest and self._number >= oldest:
            whole.append((self._number, self._newest))
        self._whole = whole
        self._number, self._newest = number, 0.0
        self._whole_sum = sum(value for _, value in whole)


class Usage:
    """What one entity has used in the window, and for how long it was throttled."""

    __slots__ = ("_throttled_ms", "_throttles", "_used", "_window")

    def __init__(self, window: SampleWindow) -> None:
        self._window = window
        self._used = SampledSum(window)
        self._throttled_ms = SampledSum(window)
        self._throttles = SampledSum(window)

    def add(self, amount: float, now_ms: int) -> None:
        self._used.add(amount, now_ms)

    def rate(self, now_ms: int) -> float:
        """Return the use per second."""
        return self._used.total(now_ms) * 1_000 / self._window.length_ms(now_ms)

    def delay_ms(self, limit: float, now_ms: int) -> int:
        """Return how long the entity has to wait; 0 if it is within the limit, which is above 0."""
        over_ms = self._used.total(now_ms) * 1_000 / limit - self._window.length_ms(now_ms)
        return ceil(min(over_ms, DELAY_MS_MAX)) if over_ms > 0 else 0

    def on_throttled(self, delay_ms: int, now_ms: int) -> None:
        self._throttled_ms.add(delay_ms, now_ms)
        self._throttles.add(1, now_ms)

    def throttle_time_ms(self, now_ms: int) -> float:
        """Return the mean of the delays in the window, 0 without any."""
        return self._throttled_ms.total(now_ms) / max(1, self._throttles.total(now_ms))


class MutationBucket:
    """A bucket, filled at the limit, up to what a window brings. It begins full and may be overdrawn."""

    __slots__ = ("_filled_ms", "_tokens", "_window")

    def __init__(self, window: SampleWindow) -> None:
        self._window = window
        self._tokens: float | None = None
        self._filled_ms = 0

    def tokens(self, limit: float, now_ms: int) -> float:
        capacity = limit * self._window.samples * self._window.sample_ms / 1_000
        if self._tokens is None:
            self._tokens = capacity
        else:
            self._tokens = min(capacity, self._tokens + limit * (now_ms - self._filled_ms) / 1_000)
        self._filled_ms = now_ms
        return self._tokens

    def take(self, tokens: float, limit: float, now_ms: int) -> None:
        self._tokens = self.tokens(limit, now_ms) - tokens

    def delay_ms(self, limit: float, now_ms: int) -> int:
        """Return the time until the bucket is no longer overdrawn."""
        lacking_ms = -self.tokens(limit, now_ms) * 1_000 / limit
        return ceil(min(lacking_ms, DELAY_MS_MAX)) if lacking_ms > 0 else 0


class Sensors(Generic[S]):
    """One sensor for each entity that uses a quota."""

    __slots__ = ("_by_key", "_make")

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        #: The sensor, and when it was used last: that of the longest time ago is first.
        self._by_key: OrderedDict[Key, tuple[S, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_key)

    def of(self, key: Key, now_ms: int) -> S:
        """Return the sensor of the entity, a new one where none is remembered."""
        by_key = self._by_key
        found = by_key.get(key)
        if found is None:
            self.forget_idle(now_ms)
            if len(by_key) >= ENTITIES_MAX:
                by_key.popitem(last=False)
            found = (self._make(), now_ms)
        by_key[key] = (found[0], now_ms)
        by_key.move_to_end(key)
        return found[0]

    def forget_idle(self, now_ms: int) -> None:
        by_key = self._by_key
        while by_key and now_ms - next(iter(by_key.values()))[1] >= IDLE_MS_MAX:
            by_key.popitem(last=False)

    def newest(self, count: int) -> Iterator[tuple[Key, S]]:
        """Yield those that were used last, with their keys."""
        for key in islice(reversed(self._by_key), count):
            yield key, self._by_key[key][0]
