"""Records as nobody should send them: what two implementations that walk records have to judge alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

EDGES = (
    *(0, -1, -2, 1, 63, 64, 127, 128, 8_191, 8_192, 2**20),
    *(sign * 2**bits + more for bits in (31, 32, 34, 62, 63, 64) for sign in (1, -1) for more in (-1, 0, 1)),
)
TIMESTAMP_DELTAS = (*range(-3, 4), 64, -65, 10_000, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63))
SIZES = (0, 1, 2, 3, 10, 63, 64, 65, 8_191, 8_192)
COUNTS = (-(2**64), -(2**63), -1, 0, 1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64)

Walk = Callable[[bytes, int, bool], tuple[int, int, int, int]]


class Case(NamedTuple):
    """The arguments of `walk_records`."""

    payload: bytes
    record_count: int
    needs_keys: bool


def first_difference(one: Walk, other: Walk, *, seed: int = 1, cases: int = 10_000) -> Case | None:
    """Return the first case that the two judge differently; None if they agree on all."""
    return next((case for case in draw_cases(seed, cases) if one(*case) != other(*case)), None)


def draw_cases(seed: int, count: int) -> Iterator[Case]:
    """Yield cases of which about a third are sound, and the others break a rule or two."""
    rng = random.Random(seed)
    for _ in range(count):
        yield _Drawing(rng).case()


class _Drawing:
    """Draws one case. lies: the share of its numbers that are not what they should be."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._lies = rng.choice((0, 0, 0, 0.01, 0.05))

    def case(self) -> Case:
        rng = self._rng
        count = rng.choice((1, 1, 2, 3, 4, 70)) if rng.random() < 0.98 else 200
        needs_keys = rng.random() < 0.3
        payload = bytearray()
        for number in range(count):
            record = self._record(number, has_key=rng.random() < (0.98 if needs_keys else 0.5))
            payload += self._number(len(record)) + record
        if rng.random() < 0.4:
            self._mutate(payload)
        if rng.random() < 0.01:
            payload, count = bytearray(), rng.randrange(2)
        if rng.random() < 0.1:
            count = rng.choice((count - 1, count + 1, *COUNTS))
        return Case(bytes(payload), count, needs_keys)

    def _record(self, number: int, *, has_key: bool) -> bytes:
        rng = self._rng
        record = bytearray([rng.choice((0, 0, 0, 255))])
        record += self._number(rng.choice(TIMESTAMP_DELTAS), size_max=10) + self._number(number)
        record += self._sized(is_null=not has_key) + self._sized(is_null=rng.random() < 0.2)
        header_count = rng.choice((0, 0, 0, 1, 2, 70)) if rng.random() < 0.3 else 0
        record += self._number(header_count)
        for _ in range(header_count):
            record += self._sized(is_null=rng.random() < self._lies) + self._sized(is_null=rng.random() < 0.2)
        if rng.random() < self._lies:
            self._mutate(record)
        return bytes(record)

    def _sized(self, *, is_null: bool) -> bytes:
        rng = self._rng
        size = rng.choice(SIZES) if rng.random() < 0.1 else rng.randrange(4)
        null = -2 if rng.random() < self._lies else -1
        return self._number(null) if is_null else self._number(size) + rng.choice((b"a", b"\xff")) * size

    def _number(self, value: int, *, size_max: int = 5) -> bytes:
        """Return a zigzag varint of the value, or of another one; now and then longer than it has to be."""
        rng = self._rng
        if rng.random() < self._lies:
            value = rng.choice((value - 1, value + 1, -value, *EDGES))
        raw = 2 * value if value >= 0 else -2 * value - 1
        found = bytearray()
        while raw > 0x7F:
            found.append(raw & 0x7F | 0x80)
            raw >>= 7
        found.append(raw)
        if rng.random() < self._lies / 2:
            size = rng.choice((len(found) + 1, size_max, size_max + 1))
            if size > len(found):
                found[-1] |= 0x80
                found += bytes([0x80]) * (size - len(found) - 1) + b"\0"
        return bytes(found)

    def _mutate(self, found: bytearray) -> None:
        rng = self._rng
        if not found:
            return
        at = rng.randrange(len(found))
        match rng.randrange(7):
            case 0:
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                del found[at:]
            case 2:
                del found[-1]
            case 3:
                del found[at]
            case 4:
                found.insert(at, rng.randrange(256))
            case 5:
                found[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case _:
                found += bytes([rng.randrange(256)])
