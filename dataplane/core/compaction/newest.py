"""Finds the newest record of each key in a range of a log, in bounded memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import blake2b

from springtide.wire.record_batch import BatchHeader, CorruptBatch
from springtide.wire.record_spans import POSITION_OF_NONE, place_of, read_payload, read_spans

KEYS_MAX = 500_000
"""Different keys in memory at once: about 100 MB. Kafka's log.cleaner.dedupe.buffer.size of 128 MiB holds ten
times as many in flat memory; more keys here mean more passes over the log, not more memory."""
FINGERPRINT_BYTES = 40
"""Longer than a UUID's text, so that it need not be hashed."""
SORTED_AT_ONCE = 10_000
"""Places: about a millisecond, in which the interpreter takes no other thread's turn."""
PARTS = 64

Key = bytes | int | None
"""A fingerprint; the base offset of a batch that can't be opened; None of a record without a key."""


def fingerprints(keys: list[bytes | None]) -> list[Key]:
    """Return what stands for each key in memory: the key itself where it is short, else a hash. The two
    differ in length, so that no key stands for another."""
    return [
        key
        if key is None or len(key) < FINGERPRINT_BYTES
        else blake2b(key, digest_size=FINGERPRINT_BYTES).digest()
        for key in keys
    ]


class NewestRecords:
    """The place of each key's newest record, of batches that are added in order."""

    __slots__ = ("_first_offset", "_keys_max", "_next_offset", "_places")

    def __init__(self, *, keys_max: int = KEYS_MAX) -> None:
        assert keys_max > 0
        self._keys_max = keys_max
        self._places: dict[Key, int] = {}
        self._first_offset = self._next_offset = 0

    def __len__(self) -> int:
        return len(self._places)

    def add(self, view: memoryview, header: BatchHeader) -> bool:
        """Take in the records of the batch that begins `view`; return whether there was room.

        Without room nothing of the batch is taken, except by an empty map: one batch always fits. A control
        batch has no keys (KAFKA-14055). A batch that can't be opened has a key of its own: it stays whole.
        """
        if header.is_control:
            return True
        try:
            spans = read_spans(read_payload(view, header), header)
        except CorruptBatch:
            keys: list[Key] = [header.base_offset]
            places = [place_of(header.base_offset) + POSITION_OF_NONE]
        else:
            keys, places = fingerprints(spans.keys), spans.places
        known = self._places
        is_close = known and len(known) + len(keys) > self._keys_max
        if is_close and len(known) + len(set(keys) - known.keys()) > self._keys_max:
            return False
        if not known:
            self._first_offset = header.base_offset
        self._next_offset = header.next_offset
        known.update(zip(keys, places, strict=True))
        known.pop(None, None)
        return True

    def missing(self, keys: list[bytes | None]) -> list[int]:
        """Return the numbers of the keys of which no record was added; None is no key."""
        known = self._places
        return [
            number for number, key in enumerate(fingerprints(keys)) if key is not None and key not in known
        ]

    def in_order(self) -> Iterator[list[int]]:
        """Yield the places, rising, in lists. Of a batch that was added those records stay that have one of
        them; of a batch that could not be opened there is one, with POSITION_OF_NONE. Begin when all batches
        are added."""
        yield from _sorted_in_parts(
            self._places.values(), place_of(self._first_offset), place_of(self._next_offset)
        )


def _sorted_in_parts(places: Collection[int], low: int, high: int) -> Iterator[list[int]]:
    """Yield the places in [low, high), rising, in lists of at most SORTED_AT_ONCE."""
    if len(places) <= SORTED_AT_ONCE:
        yield sorted(places)
        return
    parts: list[list[int]] = [[] for _ in range(PARTS)]
    width = -(-(high - low) // PARTS)
    for place in places:
        parts[(place - low) // width].append(place)
    for number, part in enumerate(parts):
        yield from _sorted_in_parts(part, low + number * width, low + (number + 1) * width)
