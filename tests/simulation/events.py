"""Virtual time: a heap of events, and random streams that do not disturb each other.

Time is integer nanoseconds, ties break by insertion order, and each purpose draws from its own stream keyed
by (seed, purpose), so that removing one kind of event leaves the others' choices as they were. Nothing here
or above it reads a clock or the process's randomness: one seed replays a run to the byte, under any hash
seed."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from random import Random

MS = 1_000_000


def keyed_random(seed: int, *purpose: object) -> Random:
    """An independent stream for one purpose of one seed."""
    key = "/".join([str(seed), *map(str, purpose)])
    return Random(int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big"))


class Timer:
    """A scheduled call that can be taken back."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None


class Events:
    """The heap. `step` runs one event; the trace digest covers everything that was noted."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.count = 0
        self._sequence = 0
        self._first = -(2**60)
        self._heap: list[tuple[int, int, Timer]] = []
        self._digest = hashlib.blake2b(digest_size=16)
        self.recent: list[str] = []

    @property
    def now_ms(self) -> int:
        return self.now_ns // MS

    def after(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        self._sequence += 1
        at_ns = self.now_ns + int(delay_ms * MS)
        assert at_ns >= self.now_ns, delay_ms
        heapq.heappush(self._heap, (at_ns, self._sequence, timer))
        return timer

    def at_ns(self, at_ns: int, call: Callable[[], None]) -> Timer:
        """At an exact time, not before now."""
        assert at_ns >= self.now_ns
        timer = Timer(call)
        self._sequence += 1
        heapq.heappush(self._heap, (at_ns, self._sequence, timer))
        return timer

    def at(self, at_ms: int, call: Callable[[], None]) -> Timer:
        """At a whole millisecond, before all else that falls on it: whoever schedules a strike, early or
        late, it then comes in the same order."""
        assert at_ms * MS >= self.now_ns
        timer = Timer(call)
        self._first += 1
        heapq.heappush(self._heap, (at_ms * MS, self._first, timer))
        return timer

    def step(self, until_ms: int) -> bool:
        """Run the next event if it is due by `until_ms`; otherwise move to that time and say False."""
        while self._heap and self._heap[0][0] <= until_ms * MS:
            at, _, timer = heapq.heappop(self._heap)
            if timer.call is None:
                continue
            self.now_ns = at
            self.count += 1
            call, timer.call = timer.call, None
            call()
            return True
        self.now_ns = max(self.now_ns, until_ms * MS)
        return False

    def run(self, until_ms: int) -> None:
        """All that is due by then, in one loop."""
        heap = self._heap
        until_ns = until_ms * MS
        pop = heapq.heappop
        while heap and heap[0][0] <= until_ns:
            at, _, timer = pop(heap)
            call = timer.call
            if call is not None:
                self.now_ns = at
                self.count += 1
                timer.call = None
                call()
        self.now_ns = max(self.now_ns, until_ns)

    def clear(self) -> None:
        """Nothing is scheduled any more."""
        self._heap.clear()

    def note(self, text: str) -> None:
        """Record what happened: into the digest, and among the last events that a failure prints."""
        line = f"{self.now_ns / MS:>12.3f} {text}"
        self._digest.update(line.encode())
        self.recent.append(line)
        if len(self.recent) > 800:
            del self.recent[:400]

    def digest(self) -> str:
        return self._digest.hexdigest()
