"""What a round leaves of one batch. Pure: bytes in, bytes out.

A batch that keeps all its records is kept byte for byte. A batch that keeps some is rebuilt around the
bytes of those records: offsets, timestamps, producer fields and leader epoch stay, the CRC and, in a
compressed batch, the compressed bytes are new; those may differ between versions of the compression library,
so replicas are compared by headers without CRC and length, and by records.

A batch that keeps none goes, unless something else than its records is still needed (`_Boundaries`): then its
header stays, without records, as KIP-98 does it for sequences.

Of an aborted transaction no record stays, and none of them replaces an older record of its key. Its marker
is told by the log's index of aborted transactions and may stand above the round's end (KAFKA-13727), but
below the round's own record, for a leader decides no round beyond the last stable offset. A marker stays
whole until it is as old as a tombstone that goes, no batch of its transaction is left, and its producer has
written another batch: a log that is read again would else find the transaction open for ever.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from dataplane.core.producer_state import PRODUCERS_MAX
from dataplane.core.transactions import AbortedEntry, AbortedRanges
from springtide.wire.compression import Buffer, Compression, compress
from springtide.wire.record_batch import (
    ATTRIBUTE_COMPRESSION,
    BATCH_LENGTH_MIN,
    BatchHeader,
    CorruptBatch,
    TimestampType,
)
from springtide.wire.record_spans import (
    copy_records,
    has_value,
    largest_timestamp_delta,
    place_of,
    read_payload,
    read_spans,
)
from springtide.wire.records import seal_batch

from .newest import KEYS_MAX, NewestRecords
from .rounds import Round, is_round_key

TIMESTAMP_LIMIT = 2**63


class Rewrite:
    """One pass of one replica over its log, by which it applies a round.

    First every batch below the round's end is read in order, from the log's first; then each is asked for
    with `rewritten`, once and in order. `reaches` is how far the pass gets: below the round's end if the map
    of keys became full, and then another pass goes on from there. Tombstones above `reaches` stay for now:
    older records of their keys may stand below it still.
    """

    __slots__ = ("_aborted", "_boundaries", "_from_offset", "_left_open", "_newest", "_round", "reaches")

    def __init__(
        self,
        round_: Round,
        *,
        from_offset: int,
        keys_max: int = KEYS_MAX,
        aborted: Iterable[AbortedEntry] = (),
    ) -> None:
        """from_offset: the end of the last round that this replica applied, or where the last pass got.
        aborted: all that may have records below the round's end."""
        self._round = round_
        self._from_offset = from_offset
        self._newest = NewestRecords(keys_max=keys_max)
        self._boundaries = _Boundaries(round_.producers_floor)
        self._aborted = AbortedRanges(aborted)
        #: The producers of which a transactional batch is left, and no marker behind it yet.
        self._left_open: set[int] = set()
        self.reaches = round_.end_offset

    def read(self, view: memoryview, header: BatchHeader) -> None:
        """Take in the batch that begins `view`; one at or above the round's end is not looked at."""
        if header.base_offset >= self._round.end_offset:
            return
        self._boundaries.add(header)
        if not self._from_offset <= header.base_offset < self.reaches or self._aborted.hold(header):
            return
        if not self._newest.add(view, header):
            self.reaches = header.base_offset

    def rewritten(self, header: BatchHeader, read: Callable[[], memoryview]) -> Buffer | None:
        """Return what this pass leaves of a batch, or None if nothing. read: returns a view that begins with
        the batch; a batch that goes is not read.

        A batch that can't be opened stays as it is: its producer sealed it, its readers fail on it as before,
        and nothing is lost unsaid.
        """
        if header.base_offset >= self.reaches:
            return read()[: header.size_bytes]
        if header.is_transactional:
            return self._rewritten_in_transaction(header, read)
        return self._rewritten(header, read)

    def _rewritten_in_transaction(self, header: BatchHeader, read: Callable[[], memoryview]) -> Buffer | None:
        if header.is_control:
            is_needed = (
                header.producer_id in self._left_open or header.base_offset >= self._round.tombstone_floor
            )
            self._left_open.discard(header.producer_id)
            if is_needed or self._boundaries.holds(header):
                return read()[: header.size_bytes]
            return None
        left = self._emptied(header) if self._aborted.hold(header) else self._rewritten(header, read)
        if left is not None:
            self._left_open.add(header.producer_id)
        return left

    def _rewritten(self, header: BatchHeader, read: Callable[[], memoryview]) -> Buffer | None:
        has_keys_read = not header.is_control and header.base_offset >= self._from_offset
        count = self._newest.count_in(header) if has_keys_read else None
        if count == 0:
            return self._emptied(header)
        view = read()
        whole = view[: header.size_bytes]
        if count == header.record_count and header.base_offset >= self._round.tombstone_floor:
            return whole
        try:
            payload = read_payload(view, header)
            kept = self._kept(payload, header, has_keys_read=has_keys_read)
            if not kept:
                return self._emptied(header)
            return whole if len(kept) == header.record_count else _with_records(header, payload, kept)
        except CorruptBatch:
            return whole

    def _kept(self, payload: bytes, header: BatchHeader, *, has_keys_read: bool) -> list[int]:
        """Return the places of the records that stay. All that this pass has read are newer than those of a
        batch whose keys it has not read. A record without a key goes, as in Kafka: it can't be written to a
        compacted topic, so it is from before the topic's policy was set to compact."""
        spans = read_spans(payload, header)
        places, keys = spans.places, spans.keys
        if header.is_control:
            return [place for place, key in zip(places, keys, strict=True) if not is_round_key(key)]
        numbers = self._newest.numbers_in(header, keys) if has_keys_read else self._newest.missing(keys)
        floor = place_of(self._round.tombstone_floor)
        left = [places[number] for number in numbers]
        return [place for place in left if place >= floor or has_value(payload, place)]

    def _emptied(self, header: BatchHeader) -> bytes | None:
        return _without_records(header) if self._boundaries.holds(header) else None


class _Boundaries:
    """The batches below a round's end that stay even without records. Headers are added in order.

    The last batch of each leader epoch: without it a sound replica would be told to cut its log below its
    high watermark (KIP-101). The last data batch: the writer of a coordinator's topic is judged by it. The
    last batch of each producer from the round's floor on, and the last with a sequence of the same epoch
    behind which there are markers only, PRODUCERS_MAX at most as in the leader's memory: the next one has to
    follow it. The last of all: the round's end stays the end of a batch.
    """

    __slots__ = ("_by_epoch", "_by_producer", "_last", "_last_data", "_producers_floor")

    def __init__(self, producers_floor: int) -> None:
        self._producers_floor = producers_floor
        self._by_epoch: dict[int, int] = {}
        #: (epoch, last with a sequence, -1 without one; last)
        self._by_producer: OrderedDict[int, tuple[int, int, int]] = OrderedDict()
        self._last_data = self._last = -1

    def add(self, header: BatchHeader) -> None:
        self._last = self._by_epoch[header.leader_epoch] = header.base_offset
        if not header.is_control:
            self._last_data = header.base_offset
        if header.has_producer_id and header.base_offset >= self._producers_floor:
            with_sequence = header.base_offset
            if header.is_control:
                epoch, with_sequence, _ = self._by_producer.get(header.producer_id, (-1, -1, -1))
                if epoch != header.producer_epoch:
                    with_sequence = -1
            self._by_producer[header.producer_id] = header.producer_epoch, with_sequence, header.base_offset
            self._by_producer.move_to_end(header.producer_id)
            if len(self._by_producer) > PRODUCERS_MAX:
                self._by_producer.popitem(last=False)

    def holds(self, header: BatchHeader) -> bool:
        """Return whether this batch stays, empty if need be."""
        offset = header.base_offset
        return (
            offset in (self._last, self._last_data)
            or self._by_epoch.get(header.leader_epoch) == offset
            or offset in self._by_producer.get(header.producer_id, ())[1:]
        )


def _with_records(header: BatchHeader, payload: bytes, kept: Sequence[int]) -> bytes:
    """Return the batch with only the records at these places. Raise CorruptBatch if no header can hold their
    largest timestamp."""
    codec = Compression(header.compression)
    body = compress(codec, copy_records(payload, kept))
    max_timestamp = header.max_timestamp
    if header.timestamp_type is TimestampType.CREATE_TIME:
        max_timestamp = header.base_timestamp + largest_timestamp_delta(payload, kept)
        if not -TIMESTAMP_LIMIT <= max_timestamp < TIMESTAMP_LIMIT:
            raise CorruptBatch(f"timestamp {max_timestamp}")
    return _sealed(header._replace(max_timestamp=max_timestamp, record_count=len(kept)), codec, body)


def _without_records(header: BatchHeader) -> bytes:
    """Return the batch's header alone. It is not compressed: no codec has an empty stream that all clients
    read."""
    return _sealed(header._replace(record_count=0), Compression.NONE, b"")


def _sealed(header: BatchHeader, codec: Compression, body: bytes) -> bytes:
    return seal_batch(
        header._replace(
            batch_length=BATCH_LENGTH_MIN + len(body),
            attributes=header.attributes & ~ATTRIBUTE_COMPRESSION | codec,
        ),
        body,
    )
