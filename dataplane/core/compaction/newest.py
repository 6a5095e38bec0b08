"""Finds the newest offset of each key in a range of a log, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from springtide.wire.record_batch import BatchHeader, CorruptBatch
from springtide.wire.records import read_spans

KEYS_MAX = 500_000
"""Different keys in memory at once: about 100 MB. Kafka's log.cleaner.dedupe.buffer.size of 128 MiB holds ten
times as many in flat memory; more keys here mean more passes over the log, not more memory."""
FINGERPRINT_BYTES = 16
_UNOPENED = b"can't be opened: "
"""Begins what stands for the one key of such a batch: longer than any fingerprint."""

BATCH_BYTES_MAX = 256 * 1024 * 1024
"""Cap of one batch's records when they are opened. A batch that claims more stays as it is."""


def fingerprint(key: bytes) -> bytes:
    """Return what stands for the key in memory: the key itself where it is short, else a hash of 16 bytes.
    The two differ in length, so that no key stands for another."""
    return key if len(key) < FINGERPRINT_BYTES else blake2b(key, digest_size=FINGERPRINT_BYTES).digest()


class NewestOffsets:
    """The newest offset of each key, of batches that are added in order.

    The map is in the order of the offsets: which records stay of a batch is found without opening it again.
    """

    __slots__ = ("_keys_max", "_offsets")

    def __init__(self, *, keys_max: int = KEYS_MAX) -> None:
        assert keys_max > 0
        self._keys_max = keys_max
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, view: memoryview, header: BatchHeader) -> bool:
        """Take in the records of the batch that begins `view`; return whether there was room.

        Without room nothing of the batch is taken, except by an empty map: one batch always fits. A control
        batch has no keys (KAFKA-14055). A batch that can't be opened has a key of its own: it stays whole.
        """
        if header.is_control:
            return True
        base_offset = header.base_offset
        try:
            spans = read_spans(view, header, decompressed_bytes_max=BATCH_BYTES_MAX)
        except CorruptBatch:
            keys: list[bytes | None] = [_UNOPENED + base_offset.to_bytes(8)]
            deltas = [0]
        else:
            keys = [None if key is None else fingerprint(key) for key in spans.keys]
            deltas = spans.offset_deltas
        offsets = self._offsets
        is_close = offsets and len(offsets) + len(keys) > self._keys_max
        if is_close and len(offsets) + len(set(keys) - offsets.keys()) > self._keys_max:
            return False
        for key, delta in zip(keys, deltas, strict=True):
            if key is not None:
                offsets.pop(key, None)  # a key that is set again would keep its place
                offsets[key] = base_offset + delta
        return True

    def is_newest(self, key: bytes, offset: int) -> bool:
        """Return whether no newer record of the key was added than the one at `offset`."""
        return self._offsets.get(fingerprint(key), -1) <= offset

    def in_order(self) -> Iterator[int]:
        """Yield the offsets, rising: of a batch that was added those records stay that have one of them. A
        batch that could not be opened has one. Begin when all batches are added."""
        yield from self._offsets.values()
