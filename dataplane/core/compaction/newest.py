"""Finds the newest record of each key in a range of a log, in bounded memory."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from hashlib import blake2b
from itertools import repeat

from springtide.wire.record_batch import BatchHeader, CorruptBatch
from springtide.wire.record_spans import read_payload, read_spans

KEYS_MAX = 500_000
"""Different keys in memory at once: about 70 MB. Kafka's log.cleaner.dedupe.buffer.size of 128 MiB holds ten
times as many in flat memory; more keys here mean more passes over the log, not more memory."""
FINGERPRINT_BYTES = 40
"""Longer than a UUID's text, so that it need not be hashed."""

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
    """Which batch has each key's newest record, of batches that are added in order.

    A batch is known by its base offset, one number for all of its records: a number for each would be made
    and dropped again with every record that a newer one replaces.
    """

    def __init__(self, *, keys_max: int = KEYS_MAX) -> None:
        assert keys_max > 0
        self._keys_max = keys_max
        self._batches: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, view: memoryview, header: BatchHeader) -> bool:
        """Take in the records of the batch that begins `view`; return whether there was room.

        Without room nothing of the batch is taken, except by an empty map: one batch always fits. A control
        batch has no keys (KAFKA-14055). A batch that can't be opened has a key of its own: it stays whole.
        """
        if header.is_control:
            return True
        try:
            keys = fingerprints(read_spans(read_payload(view, header), header).keys)
        except CorruptBatch:
            keys = [header.base_offset]
        known = self._batches
        is_close = known and len(known) + len(keys) > self._keys_max
        if is_close and len(known) + len(set(keys) - known.keys()) > self._keys_max:
            return False
        known.update(zip(keys, repeat(header.base_offset), strict=False))
        known.pop(None, None)
        return True

    def missing(self, keys: list[bytes | None]) -> list[int]:
        """Return the numbers of the keys of which no record was added; None is no key."""
        known = self._batches
        return [
            number for number, key in enumerate(fingerprints(keys)) if key is not None and key not in known
        ]

    def count_in(self, header: BatchHeader) -> int:
        """Return how many records of a batch that was added are the newest of their keys; 1 of one that could
        not be opened. Begin when all batches are added."""
        return self._counts[header.base_offset]

    def numbers_in(self, header: BatchHeader, keys: list[bytes | None]) -> list[int]:
        """Return the numbers of those records, rising. keys: the batch's."""
        known, base_offset = self._batches, header.base_offset
        last = dict(zip(fingerprints(keys), range(len(keys)), strict=True))
        return sorted(number for key, number in last.items() if known.get(key) == base_offset)

    @cached_property
    def _counts(self) -> Counter[int]:
        return Counter(self._batches.values())
