"""One partition's memory of its idempotent producers, so that a retry is stored once (KIP-98, KIP-360).

State per producer id: the epoch, the last five batches (sequences and offsets), and how far back the
sequences are known without a gap. It is fed by *every* append (client, replication, recovery), never
mutated before the write succeeded (KAFKA-6683), and rolled back by every truncation: state that outlives its
bytes calls a retry a duplicate of something that is gone, and that is an acknowledged loss (S22, appended,
cut and retried).

Only a leader checks; a follower takes what the log says (KAFKA-6003).

A *duplicate* is wider here than in Kafka, which knows the last five batches only: any batch that lies wholly
at or below the last sequence of the same epoch is one, wherever it was cut, **as long as it lies within the
gapless run of sequences that this state has seen**. The run is what makes the superset safe. State that
began in the middle (an expired producer, accepted at any sequence as KIP-360 wants) proves nothing about
sequences before its first: a batch from there was perhaps never stored, and must not be called a duplicate.
A duplicate is not committed: the leader answers it when the high watermark covers `last_offset`.

An id that is new to the partition begins at sequence 0 (6.6, unknown ids). Its first batch may have been
refused while the second was on its way; taken, the second would vouch for the first at its client, and the
first would be lost without a word. What else may be its first, the leader decides (newcomers.py). Only an id
that this state *forgot* may begin at any sequence at once. Any id is
taken: a client may name its own, from NAMED_IDS_MIN on (6.9, named producer ids), and these begin where they
like, for their clients read the log before they write.

The partition's transactions (transactions.py) belong to this state, for they are fed, stored and rolled back
with it. A marker is remembered as the producer's last batch is: its epoch fences what comes late.

Bounds: PRODUCERS_MAX ids a partition, least recently heard of goes first; ids silent for the configured time
expire when `expire` is called (by time, not by the presence of their records: KAFKA-7190). The last
FORGOTTEN_MAX forgotten ones are kept as bare numbers. A producer with an open transaction is never forgotten:
no marker could end it. A leader opens OPEN_MAX at most.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from dataplane.core.titles import NewerFormat
from dataplane.core.transactions import AbortedEntry, MarkerToWrite, PartitionTransactions
from springtide.contract.partition_state import WRITER_IDS
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Marker
from springtide.wire.record_batch import ATTRIBUTE_TRANSACTIONAL, SEQUENCE_MAX, BatchHeader

BATCHES_RETAINED = 5
"""The number of requests that an idempotent client may have in flight on a connection."""
PRODUCERS_MAX = 100_000
"""Producer ids remembered by one partition: about 60 MB at worst."""
OPEN_MAX = 50_000
"""Open transactions in one partition: half of the producers, so that there is always one to be forgotten."""
FORGOTTEN_MAX = 10_000
"""Ids remembered as forgotten: 80 KB of a snapshot at worst."""
NAMED_IDS_MIN = WRITER_IDS.stop
"""No id from here on is ever handed out (6.9, named producer ids)."""
EXPIRATION_MS = 24 * 60 * 60 * 1000
"""Kafka's producer.id.expiration.ms; far above any client's delivery timeout."""

UNKNOWN_OFFSET = -1
NO_SEQUENCE = -1
NO_COORDINATOR_EPOCH = -1
NO_ATTEMPT = -1

_RUN_MAX = (SEQUENCE_MAX + 1) // 2
"""Sequences wrap after 2^31-1 (KAFKA-7692): beyond half a turn, before and after can't be told apart."""

_SNAPSHOT_HEAD = struct.Struct(">4sHIqI")  # magic, version, crc of the rest, end offset, producers
_SNAPSHOT_FORGOTTEN = struct.Struct(">I")  # ids at the end of the snapshot; since version 2
_SNAPSHOT_PRODUCER = struct.Struct(">qhqiB")  # id, epoch, last update ms, run, batches
_SNAPSHOT_BATCH = struct.Struct(">iiqqq")
_SNAPSHOT_MAGIC = b"SPRD"
_SNAPSHOT_VERSION = 2
_SNAPSHOT_VERSION_PARTIAL = 3
"""The same layout, of a state that is not whole."""
_SNAPSHOT_VERSION_TRANSACTIONS = 4
"""The same, and behind it what is known of transactions. Written only where something is, which is not before
level 2: an earlier release reads the others."""
_SNAPSHOT_TRANSACTIONS = struct.Struct(">?III")  # whether it is whole, markers, open ones, ended ones
_SNAPSHOT_MARKER = struct.Struct(">qiq")  # id, coordinator's epoch, offset
_SNAPSHOT_OFFSETS = struct.Struct(">qq")
_CRC_END = 10


class CorruptProducerSnapshot(Exception):
    """The bytes are no producer snapshot: take the next older one."""


class BatchMark(NamedTuple):
    """One remembered batch. Sequences and offsets inclusive, timestamp its max_timestamp."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is stored already.

    base_offset: where its first record is, or UNKNOWN_OFFSET (-1) when it is older than the five remembered
        batches. Clients take -1 in a successful answer as "stored, offset not known", which is what Kafka's
        client makes of DUPLICATE_SEQUENCE_NUMBER.
    last_offset: where its last record is, or an offset that is certainly not before it. The answer to
        acks=all waits for a high watermark above it.
    timestamp_ms: the stored batch's max_timestamp, or -1.
    """

    base_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerView(NamedTuple):
    """One active producer as DescribeProducers (API key 61) shows it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int = -1
    current_txn_start_offset: int = -1


class _Producer:
    """`run` counts the sequences up to and including the last that are known without a gap (capped).
    coordinator_epoch, marker_offset: of the last marker; -1 without one. attempt: the highest number of a
    request of that coordinator by which a leader here has written one; memory of this process."""

    __slots__ = (
        "attempt",
        "batches",
        "coordinator_epoch",
        "marker_offset",
        "producer_epoch",
        "run",
        "updated_ms",
    )

    def __init__(
        self,
        producer_epoch: int,
        batches: tuple[BatchMark, ...],
        run: int,
        updated_ms: int,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        marker_offset: int = UNKNOWN_OFFSET,
    ) -> None:
        self.producer_epoch = producer_epoch
        self.batches = batches
        self.run = run
        self.updated_ms = updated_ms
        self.coordinator_epoch = coordinator_epoch
        self.marker_offset = marker_offset
        self.attempt = NO_ATTEMPT

    @property
    def last_offset(self) -> int:
        """Return the last offset of its last batch or marker, -1 without any."""
        return max(self.batches[-1].last_offset if self.batches else UNKNOWN_OFFSET, self.marker_offset)


class ProducerStates:
    """The producers of one partition."""

    __slots__ = (
        "_end_offset",
        "_forgotten",
        "_producers",
        "_producers_max",
        "evictions",
        "is_whole",
        "transactions",
    )

    def __init__(self, *, producers_max: int = PRODUCERS_MAX) -> None:
        assert producers_max > 0
        self._producers: OrderedDict[int, _Producer] = OrderedDict()  # least recently updated first
        self._producers_max = producers_max
        self._forgotten: dict[int, None] = {}  # the one that was forgotten first comes first
        self._end_offset = 0
        self.transactions = PartitionTransactions()
        self.evictions = 0
        """Producers forgotten because there were too many: each may duplicate a late retry."""
        self.is_whole = True
        """False if batches lay below the log's first that this state was not told of: a follower asks its
        leader for them (6.10, a copy knows its producers)."""

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def end_offset(self) -> int:
        """One past the last offset of a producer's batch that this state has seen."""
        return self._end_offset

    @property
    def last_batches_from(self) -> int:
        """Return where the oldest of the producers' last batches begins, or of the markers of those that have
        none in their epoch; without any, the end."""
        firsts = (
            p.batches[-1].first_offset if p.batches else p.marker_offset
            for p in self._producers.values()
            if p.batches or p.marker_offset >= 0
        )
        return min(firsts, default=self._end_offset)

    def check(self, header: BatchHeader) -> ErrorCode | Duplicate:
        """Return what a leader must do with a batch that a client sent: append it (NONE), answer it as a
        duplicate, or refuse it. Mutates nothing.

        INVALID_PRODUCER_EPOCH: a newer instance of this producer has written. OUT_OF_ORDER_SEQUENCE_NUMBER:
        a gap, a new epoch that does not begin at 0, or a batch older than all this state can vouch for.
        UNKNOWN_PRODUCER_ID: what comes before this batch is not in the log, as far as this state knows.
        INVALID_TXN_STATE: it is of no transaction, and its producer has one open.
        """
        if header.producer_id < 0 or header.base_sequence < 0:
            return ErrorCode.NONE
        producer = self._producers.get(header.producer_id)
        first = header.base_sequence
        if producer is None:
            return ErrorCode.NONE if first == 0 or self._may_go_on(header) else ErrorCode.UNKNOWN_PRODUCER_ID
        if header.producer_epoch != producer.producer_epoch:
            if header.producer_epoch < producer.producer_epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if self._is_outside(header):
                return ErrorCode.INVALID_TXN_STATE
            return ErrorCode.NONE if first == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if not producer.batches:  # only a control batch has been seen in this epoch
            return ErrorCode.NONE if first == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if first == (producer.batches[-1].last_sequence + 1) & SEQUENCE_MAX:
            return ErrorCode.INVALID_TXN_STATE if self._is_outside(header) else ErrorCode.NONE
        return (
            _find_duplicate(producer, first, header.last_sequence) or ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )

    def _may_go_on(self, header: BatchHeader) -> bool:
        return header.producer_id >= NAMED_IDS_MIN or header.producer_id in self._forgotten

    def _is_outside(self, header: BatchHeader) -> bool:
        return not header.attributes & ATTRIBUTE_TRANSACTIONAL and self.transactions.is_open(
            header.producer_id
        )

    def check_marker(self, marker: MarkerToWrite) -> ErrorCode | int:
        """Return what a leader must do with a coordinator's marker: append it (NONE); refuse it; or, because
        it is written already, answer it once all below the returned offset is committed. Mutates nothing.

        TRANSACTION_COORDINATOR_FENCED: a later coordinator has written. INVALID_PRODUCER_EPOCH: a later
        instance of the producer has. Under version 2 a marker carries the epoch after its transaction's
        (KIP-890). So if its own epoch has something open, it is of an earlier transaction (KAFKA-19446); if
        not, it was sent again, and refused it would be sent for ever (KAFKA-19999).
        """
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            return ErrorCode.NONE
        if marker.coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        if marker.producer_epoch != producer.producer_epoch:
            is_later = marker.producer_epoch > producer.producer_epoch
            return ErrorCode.NONE if is_later else ErrorCode.INVALID_PRODUCER_EPOCH
        is_open = self.transactions.is_open(marker.producer_id)
        if marker.transaction_version >= 2:
            return ErrorCode.INVALID_PRODUCER_EPOCH if is_open else producer.last_offset + 1
        is_again = (
            not is_open
            and 0 <= producer.marker_offset == producer.last_offset
            and marker.coordinator_epoch == producer.coordinator_epoch
        )
        return producer.last_offset + 1 if is_again or self.is_late(marker) else ErrorCode.NONE

    def is_late(self, marker: MarkerToWrite) -> bool:
        """Return whether a marker of the last coordinator or a later one of its markers is written here: what
        is open since then is another transaction, though it has the same epoch under version 1."""
        producer = self._producers.get(marker.producer_id)
        return (
            producer is not None
            and marker.coordinator_epoch == producer.coordinator_epoch
            and 0 <= marker.attempt <= producer.attempt
        )

    def note_attempt(self, marker: MarkerToWrite) -> None:
        """Remember by which request a marker came that is in the log."""
        producer = self._producers[marker.producer_id]
        if marker.coordinator_epoch == producer.coordinator_epoch:
            producer.attempt = max(producer.attempt, marker.attempt)

    def epoch_of(self, producer_id: int) -> int:
        """Return the producer's epoch in its last batch or marker, -1 without one."""
        producer = self._producers.get(producer_id)
        return -1 if producer is None else producer.producer_epoch

    def update(
        self, header: BatchHeader, *, now_ms: int, marker: Marker | None = None
    ) -> AbortedEntry | None:
        """Take in a batch that is in the log, without a check. `header` has its final offsets. marker: what
        a control batch is. Return the entry of a transaction that it aborts."""
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        self._end_offset = header.next_offset
        producers = self._producers
        producer = producers.get(producer_id)
        first = header.base_sequence
        is_data = first >= 0 and not header.is_control
        if producer is None:
            producer = _Producer(producer_epoch=header.producer_epoch, batches=(), run=0, updated_ms=now_ms)
            producers[producer_id] = producer
            self._forgotten.pop(producer_id, None)
            if is_data and header.is_transactional:
                self.transactions.on_data(header)  # first, so that it is not the one to be evicted
            self._evict()
        else:
            producers.move_to_end(producer_id)
            producer.updated_ms = now_ms
            if producer.producer_epoch != header.producer_epoch:
                producer.producer_epoch = header.producer_epoch
                producer.batches = ()
                producer.run = 0
        if marker is not None:
            if producer.coordinator_epoch != marker.coordinator_epoch:
                producer.coordinator_epoch, producer.attempt = marker.coordinator_epoch, NO_ATTEMPT
            producer.marker_offset = header.base_offset
            return self.transactions.on_marker(header, marker)
        if not is_data:
            return None
        if header.attributes & ATTRIBUTE_TRANSACTIONAL:
            self.transactions.on_data(header)
        batches = producer.batches
        count = header.last_offset_delta + 1
        if batches and first == (batches[-1].last_sequence + 1) & SEQUENCE_MAX:
            producer.run = min(producer.run + count, _RUN_MAX)
        else:
            producer.run = min(count, _RUN_MAX)
        mark = BatchMark(
            first, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
        )
        producer.batches = (*batches[-(BATCHES_RETAINED - 1) :], mark)
        return None

    def expire(self, *, now_ms: int, expiration_ms: int = EXPIRATION_MS) -> int:
        """Forget the producers that have been silent for the expiration time; returns how many."""
        expired = 0
        producers = self._producers
        for _ in range(len(producers)):
            producer_id = next(iter(producers))
            if now_ms - producers[producer_id].updated_ms < expiration_ms:
                break
            if self.transactions.is_open(producer_id):
                producers.move_to_end(producer_id)  # its marker will make it the youngest
                continue
            del producers[producer_id]
            self._forget(producer_id)
            expired += 1
        return expired

    def _evict(self) -> None:
        producers = self._producers
        excess = len(producers) - self._producers_max
        for _ in range(len(producers) if excess > 0 else 0):
            producer_id = next(iter(producers))
            if self.transactions.is_open(producer_id):
                producers.move_to_end(producer_id)
                continue
            del producers[producer_id]
            self._forget(producer_id)
            self.evictions += 1
            excess -= 1
            if not excess:
                break

    def _forget(self, producer_id: int) -> None:
        self._forgotten[producer_id] = None
        if len(self._forgotten) > FORGOTTEN_MAX:
            del self._forgotten[next(iter(self._forgotten))]

    def has_batch_at_or_beyond(self, log_offset: int) -> bool:
        """Return whether a truncation to `log_offset` concerns this state at all."""
        return self._end_offset > log_offset

    def replace_with(self, other: ProducerStates) -> None:
        """Take over another state's content (a snapshot, a replay) and keep this one's bounds."""
        self._producers = other._producers
        self._forgotten = other._forgotten
        self._end_offset = other._end_offset
        self.transactions = other.transactions
        self.is_whole = other.is_whole
        self._evict()

    def clear(self, *, is_whole: bool = True) -> None:
        self._producers = OrderedDict()
        self.transactions = PartitionTransactions()
        self._forgotten = {}
        self._end_offset = 0
        self.is_whole = is_whole

    def below(self, log_offset: int) -> ProducerStates:
        """Return what is known of batches below an offset, for a follower that fetches from there on. The run
        of a producer that has written beyond it is what the batches that are left show."""
        known = ProducerStates(producers_max=self._producers_max)
        known._forgotten = self._forgotten
        transactions = self.transactions
        for producer_id, producer in self._producers.items():
            batches = tuple(mark for mark in producer.batches if mark.last_offset < log_offset)
            kept = _Producer(producer.producer_epoch, batches, producer.run, producer.updated_ms)
            if producer.marker_offset < log_offset:
                kept.marker_offset = producer.marker_offset
                kept.coordinator_epoch = producer.coordinator_epoch
            if kept.last_offset < 0 and not 0 <= transactions.first_offset_of(producer_id) < log_offset:
                continue
            if batches and batches != producer.batches:
                first = _oldest_mark_in_run(kept).first_sequence
                kept.run = min(((batches[-1].last_sequence - first) & SEQUENCE_MAX) + 1, _RUN_MAX)
            known._producers[producer_id] = kept
            known._end_offset = max(known._end_offset, kept.last_offset + 1)
        open_ = {each: first for each, first in transactions.open.items() if first < log_offset}
        known.transactions = PartitionTransactions(
            open_.items(), (ended for ended in transactions.ended if ended[1] < log_offset)
        )
        known._end_offset = max((known._end_offset, *(first + 1 for first in open_.values())))
        return known

    def learn(self, told: ProducerStates) -> None:
        """Take in what the leader knows of batches below this log's end. What is known here of a later batch
        of the same producer stays."""
        producers = self._producers
        open_ = dict(self.transactions.open)
        for producer_id, first_offset in told.transactions.open.items():
            known = producers.get(producer_id)
            if known is None or known.marker_offset < first_offset:
                open_[producer_id] = min(first_offset, open_.get(producer_id, first_offset))
        for producer_id, theirs in told._producers.items():
            ours = producers.get(producer_id)
            if ours is None or ours.last_offset < theirs.last_offset:
                producers[producer_id] = theirs
                if theirs.marker_offset > open_.get(producer_id, theirs.marker_offset):
                    del open_[producer_id]
            elif ours.marker_offset < theirs.marker_offset:
                ours.marker_offset, ours.coordinator_epoch = theirs.marker_offset, theirs.coordinator_epoch
        self.transactions = PartitionTransactions(
            open_.items(), {*self.transactions.ended, *told.transactions.ended}
        )
        self._producers = OrderedDict(sorted(producers.items(), key=lambda item: item[1].updated_ms))
        forgotten = (*told._forgotten, *self._forgotten)
        self._forgotten = {}
        for producer_id in forgotten:
            if producer_id not in self._producers:
                self._forget(producer_id)
        self._end_offset = max(self._end_offset, told._end_offset)
        self.is_whole = True
        self._evict()

    def active_producers(self) -> list[ProducerView]:
        """Return the producers in order of id, for DescribeProducers. `last_timestamp_ms` is that of the last
        batch's records, or of the update when only a control batch was seen."""
        return [
            ProducerView(
                producer_id,
                producer.producer_epoch,
                producer.batches[-1].last_sequence if producer.batches else NO_SEQUENCE,
                producer.batches[-1].timestamp_ms if producer.batches else producer.updated_ms,
                producer.coordinator_epoch,
                self.transactions.first_offset_of(producer_id),
            )
            for producer_id, producer in sorted(self._producers.items())
        ]

    def encode(self) -> bytes:
        """A snapshot with all five batches of each producer: with one only, as Kafka's file has it, a retry
        of an older one right after a restart fails as out of order (S23, an older batch is retried)."""
        parts: list[bytes] = []
        for producer_id, producer in self._producers.items():
            parts.append(
                _SNAPSHOT_PRODUCER.pack(
                    producer_id,
                    producer.producer_epoch,
                    producer.updated_ms,
                    producer.run,
                    len(producer.batches),
                )
            )
            parts.extend(_SNAPSHOT_BATCH.pack(*mark) for mark in producer.batches)
        forgotten = len(self._forgotten)
        parts.append(_SNAPSHOT_FORGOTTEN.pack(forgotten) + struct.pack(f">{forgotten}q", *self._forgotten))
        version = _SNAPSHOT_VERSION if self.is_whole else _SNAPSHOT_VERSION_PARTIAL
        transactions = self._encoded_transactions()
        if transactions:
            version = _SNAPSHOT_VERSION_TRANSACTIONS
            parts.append(transactions)
        head = _SNAPSHOT_HEAD.pack(_SNAPSHOT_MAGIC, version, 0, self._end_offset, len(self._producers))
        covered = head[_CRC_END:] + b"".join(parts)
        crc = crc32c(covered, _crc_begun(version))
        return struct.pack(">4sHI", _SNAPSHOT_MAGIC, version, crc) + covered

    def _encoded_transactions(self) -> bytes:
        """Return what is known of transactions; nothing if that is nothing."""
        markers = [
            _SNAPSHOT_MARKER.pack(producer_id, producer.coordinator_epoch, producer.marker_offset)
            for producer_id, producer in self._producers.items()
            if producer.marker_offset >= 0
        ]
        open_, ended = self.transactions.open, self.transactions.ended
        if not (markers or open_ or ended):
            return b""
        offsets = [_SNAPSHOT_OFFSETS.pack(*each) for each in (*open_.items(), *ended)]
        head = _SNAPSHOT_TRANSACTIONS.pack(self.is_whole, len(markers), len(open_), len(ended))
        return b"".join((head, *markers, *offsets))

    def _take_transactions(self, encoded: bytes, position: int) -> int:
        """Take in what `_encoded_transactions` has left at a position. Return where it ends."""
        whole, markers, opened, ended = _SNAPSHOT_TRANSACTIONS.unpack_from(encoded, position)
        position += _SNAPSHOT_TRANSACTIONS.size
        self.is_whole = whole
        for _ in range(markers):
            producer_id, coordinator_epoch, offset = _SNAPSHOT_MARKER.unpack_from(encoded, position)
            position += _SNAPSHOT_MARKER.size
            producer = self._producers.get(producer_id)
            if producer is None:
                raise CorruptProducerSnapshot(f"a marker of producer {producer_id}, which is not known")
            producer.coordinator_epoch, producer.marker_offset = coordinator_epoch, offset
        offsets: list[tuple[int, int]] = []
        for _ in range(opened + ended):
            offsets.append(_SNAPSHOT_OFFSETS.unpack_from(encoded, position))
            position += _SNAPSHOT_OFFSETS.size
        self.transactions = PartitionTransactions(offsets[:opened], offsets[opened:])
        if not self.transactions.open.keys() <= self._producers.keys():
            raise CorruptProducerSnapshot("an open transaction of a producer that is not known")
        return position


def _crc_begun(version: int) -> int:
    """Return what the CRC goes on from. From version 4 on it begins with the version, for a flipped bit is no
    later release."""
    return crc32c(struct.pack(">H", version)) if version > _SNAPSHOT_VERSION_PARTIAL else 0


def decode_producer_states(encoded: bytes) -> ProducerStates:
    """Reverse `ProducerStates.encode`; trust no count before the CRC. Raises CorruptProducerSnapshot,
    NewerFormat."""
    if len(encoded) < _SNAPSHOT_HEAD.size:
        raise CorruptProducerSnapshot(f"{len(encoded)} bytes")
    magic, version, crc, end_offset, producers = _SNAPSHOT_HEAD.unpack_from(encoded)
    if magic != _SNAPSHOT_MAGIC or version < 1:
        raise CorruptProducerSnapshot(f"magic {magic!r}, version {version}")
    if crc32c(memoryview(encoded)[_CRC_END:], _crc_begun(version)) != crc:
        raise CorruptProducerSnapshot("CRC does not match")
    if version > _SNAPSHOT_VERSION_TRANSACTIONS:
        raise NewerFormat("a snapshot of producers", version, known=_SNAPSHOT_VERSION_TRANSACTIONS)
    states = ProducerStates()
    states._end_offset = end_offset
    states.is_whole = version != _SNAPSHOT_VERSION_PARTIAL
    position = _SNAPSHOT_HEAD.size
    try:
        for _ in range(producers):
            producer_id, producer_epoch, updated_ms, run, count = _SNAPSHOT_PRODUCER.unpack_from(
                encoded, position
            )
            position += _SNAPSHOT_PRODUCER.size
            batches = tuple(
                BatchMark._make(_SNAPSHOT_BATCH.unpack_from(encoded, position + index * _SNAPSHOT_BATCH.size))
                for index in range(count)
            )
            position += count * _SNAPSHOT_BATCH.size
            states._producers[producer_id] = _Producer(
                producer_epoch=producer_epoch, batches=batches, run=run, updated_ms=updated_ms
            )
        if version >= 2:
            (forgotten,) = _SNAPSHOT_FORGOTTEN.unpack_from(encoded, position)
            position += _SNAPSHOT_FORGOTTEN.size
            states._forgotten = dict.fromkeys(struct.unpack_from(f">{forgotten}q", encoded, position))
            position += 8 * forgotten
        if version == _SNAPSHOT_VERSION_TRANSACTIONS:
            position = states._take_transactions(encoded, position)
    except struct.error as error:
        raise CorruptProducerSnapshot(str(error)) from error
    if position != len(encoded):
        raise CorruptProducerSnapshot("bytes after the last producer")
    return states


def decode_told_states(encoded: bytes, *, log_offset: int) -> ProducerStates:
    """Return what a leader told of the batches below `log_offset`. Raise CorruptProducerSnapshot if it is
    more than a leader may know, or of batches beyond."""
    states = decode_producer_states(encoded)
    last_offsets = (producer.last_offset for producer in states._producers.values())
    transactions = states.transactions
    offsets = (*transactions.open.values(), *(marker_offset for _, marker_offset in transactions.ended))
    if (
        len(states) > PRODUCERS_MAX
        or len(states._forgotten) > FORGOTTEN_MAX
        or any(len(producer.batches) > BATCHES_RETAINED for producer in states._producers.values())
        or max((offset for offset in (*last_offsets, *offsets)), default=-1) >= log_offset
        or states.end_offset > log_offset
    ):
        raise CorruptProducerSnapshot(f"{len(states)} producers below {log_offset}, out of bounds")
    return states


def _find_duplicate(producer: _Producer, first: int, last: int) -> Duplicate | None:
    """The stored batch or batches that hold the sequences first..last, if they are certainly stored."""
    for mark in reversed(producer.batches):
        if mark.first_sequence == first and mark.last_sequence == last:
            return Duplicate(mark.first_offset, mark.last_offset, mark.timestamp_ms)
    newest = producer.batches[-1].last_sequence
    behind_first = (newest - first) & SEQUENCE_MAX
    behind_last = (newest - last) & SEQUENCE_MAX
    if not behind_last <= behind_first < producer.run:
        return None
    # Cut elsewhere, or older than the five. Within a batch, sequences and offsets advance together.
    first_mark = _mark_holding(producer, behind_first)
    last_mark = _mark_holding(producer, behind_last)
    oldest_in_run = _oldest_mark_in_run(producer)
    return Duplicate(
        base_offset=(
            UNKNOWN_OFFSET
            if first_mark is None
            else first_mark.first_offset + ((first - first_mark.first_sequence) & SEQUENCE_MAX)
        ),
        last_offset=(
            oldest_in_run.first_offset - 1
            if last_mark is None
            else last_mark.first_offset + ((last - last_mark.first_sequence) & SEQUENCE_MAX)
        ),
        timestamp_ms=-1 if last_mark is None else last_mark.timestamp_ms,
    )


def _mark_holding(producer: _Producer, behind: int) -> BatchMark | None:
    """The remembered batch that holds the sequence `behind` places before the newest one."""
    newest = producer.batches[-1].last_sequence
    for mark in reversed(producer.batches):
        if (
            (newest - mark.last_sequence) & SEQUENCE_MAX
            <= behind
            <= (newest - mark.first_sequence) & SEQUENCE_MAX
        ):
            return mark
    return None


def _oldest_mark_in_run(producer: _Producer) -> BatchMark:
    """All sequences of the run before this batch were stored before it, so their offsets are lower."""
    oldest = producer.batches[-1]
    for older in reversed(producer.batches[:-1]):
        if (older.last_sequence + 1) & SEQUENCE_MAX != oldest.first_sequence:
            break
        oldest = older
    return oldest
