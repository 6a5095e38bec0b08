"""Finds the newest offset of each key in a range of a log, in bounded memory."""

from __future__ import annotations

from hashlib import blake2b

from springtide.wire.record_batch import BatchHeader, CorruptBatch
from springtide.wire.records import read_spans

KEYS_MAX = 500_000
"""Different keys in memory at once: about 100 MB. Kafka's log.cleaner.dedupe.buffer.size of 128 MiB holds ten
times as many in flat memory; more keys here mean more passes over the log, not more memory."""
FINGERPRINT_BYTES = 16

BATCH_BYTES_MAX = 256 * 1024 * 1024
"""Cap of one batch's records when they are opened. A batch that claims more stays as it is."""


def fingerprint(key: bytes) -> bytes:
    """Return what stands for the key in memory: the key itself where it is short, else a hash of 16 bytes.
    The two differ in length, so that no key stands for another."""
    return key if len(key) < FINGERPRINT_BYTES else blake2b(key, digest_size=FINGERPRINT_BYTES).digest()


class NewestOffsets:
    """The newest offset of each key, of batches that are added in order."""

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
        batch has no keys (KAFKA-14055). A batch that can't be opened adds nothing: it stays whole.
        """
        if header.is_control:
            return True
        try:
            _, spans = read_spans(view, header, decompressed_bytes_max=BATCH_BYTES_MAX)
        except CorruptBatch:
            return True
        base_offset = header.base_offset
        found = {fingerprint(s.key): base_offset + s.offset_delta for s in spans if s.key is not None}
        offsets = self._offsets
        is_close = offsets and len(offsets) + len(found) > self._keys_max
        if is_close and len(offsets) + sum(key not in offsets for key in found) > self._keys_max:
            return False
        offsets.update(found)
        return True

    def is_newest(self, key: bytes, offset: int) -> bool:
        """Return whether no newer record of the key was added than the one at `offset`."""
        return self._offsets.get(fingerprint(key), -1) <= offset
