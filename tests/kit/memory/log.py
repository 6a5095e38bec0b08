"""A log in memory that crashes like one on disk.

It implements the LogPort that replicas use, keeps whole batches as bytes, and knows which have reached
the disk. A crash and the recovery after it are two steps, as in life:

    killed                      recover()
    killed in an append         die_in_append(bytes); recover()
    power cut                   crash(random) or lose_unflushed(...); recover()
    empty disk                  wipe()

`recover` scans the bytes as the real one does (length, magic, CRC, order), cuts at the first that is wrong,
and rebuilds the leader-epoch history and the producer states from what is left. Batches that an earlier
recovery read are not read again; they rot only where `rot` says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from dataplane.core.compaction.known import KnownRounds, PlacedRound
from dataplane.core.compaction.newest import KEYS_MAX
from dataplane.core.compaction.rewriting import Rewrite
from dataplane.core.compaction.rounds import Dirt
from dataplane.core.leader_epochs import LeaderEpochs
from dataplane.core.log_port import (
    Buffer,
    LogError,
    LogSlice,
    RottenBytes,
    RottenRange,
    SuspectBytes,
    TimestampHit,
)
from dataplane.core.producer_state import ProducerStates, decode_producer_states
from dataplane.core.room import Room
from dataplane.core.transactions import AbortedEntry, marker_in
from dataplane.storage.compaction import PassPutOff
from dataplane.storage.seal import Seal
from springtide.contract.epochs import NO_BROKER_EPOCH, BrokerEpoch, LeaderEpoch
from springtide.wire.fetch_response import Compacted
from springtide.wire.record_batch import (
    BatchHeader,
    CorruptBatch,
    crc_is_valid,
    decode_header,
    iter_headers,
)
from springtide.wire.records import iter_records

COMPARED_BATCHES = 3
"""By so many of its last batches a log is compared; few, so that a fork may be longer."""


class StoredBatch(NamedTuple):
    header: BatchHeader
    data: bytes


class MemoryLog:
    """See LogPort. `failing`: set a text, and everything that touches the "disk" raises LogError with it."""

    def __init__(self, *, log_start_offset: int = 0) -> None:
        self.failing: str | None = None
        self._batches: list[StoredBatch] = []
        self._bases: list[int] = []
        # Plain values: replicas and oracle ask for them at every step.
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_start_offset
        #: As the disk's checkpoint has it, and what lies below the log start and is still on the disk.
        self.stored_log_start_offset = log_start_offset
        self._deleted: list[StoredBatch] = []
        self._size_bytes = 0
        self._epochs = LeaderEpochs()
        self._producers = ProducerStates()
        #: The aborted transactions whose markers are here, in the order of those.
        self._aborted: list[AbortedEntry] = []
        #: The snapshot of what the leader told of producers, and the log's end at that time.
        self._told: tuple[int, bytes] | None = None
        self._is_told_durable = False
        self._was_begun_anew = False
        self.rounds = KnownRounds()
        self._flushed_batches = 0
        #: So many from the first on were scanned by a recovery.
        self._scanned_batches = 0
        self._torn = b""
        self._is_tail_lost = False
        self._is_epoch_unstored = False
        #: The seal on the disk and in memory, and whether the disk has it (storage/seal.py).
        self.seal: Seal | None = None
        self._is_seal_durable = False
        self._vouched_max = 0
        #: What the disk holds of a batch, by base offset, where that is not what was written.
        self.at_rest: dict[int, bytes] = {}
        self.rotten: list[RottenRange] = []
        #: Of what has rotted, where not even the header can be read.
        self.unreadable: set[int] = set()
        self.condemned = ""
        self.room = Room()

    @property
    def vouched_end_offset(self) -> int:
        return self.log_end_offset if self.seal is None else min(self.log_end_offset, self._vouched_max)

    @property
    def must_vouch(self) -> bool:
        return self.vouched_end_offset < self.log_end_offset

    @property
    def seal_chain_epoch(self) -> BrokerEpoch:
        return self.seal.chain_epoch if self.seal is not None and self._is_seal_durable else NO_BROKER_EPOCH

    @property
    def is_sealed(self) -> bool:
        return self.seal is not None

    def begin_seal(self, chain_epoch: BrokerEpoch) -> None:
        self.seal = Seal(
            chain_epoch=chain_epoch,
            leader_epoch=self._epochs.epoch_at(self.log_end_offset - 1),
            end_offset=self.log_end_offset,
        )
        self._is_seal_durable, self._vouched_max = False, self.log_end_offset

    def store_seal(self) -> None:
        self.flush()
        assert self.seal is not None
        self._is_seal_durable = self.log_end_offset >= self.seal.end_offset

    def open_seal(self) -> None:
        """Its removal is durable."""
        self._touch_disk()
        self.seal, self._is_seal_durable = None, False

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def size_below(self, offset: int) -> int:
        return sum(len(data) for header, data in self._batches if header.next_offset <= offset)

    @property
    def epochs(self) -> LeaderEpochs:
        return self._epochs

    @property
    def producers(self) -> ProducerStates:
        return self._producers

    def aborted_in(self, first_offset: int, end_offset: int) -> list[AbortedEntry]:
        """See LogPort."""
        self._touch_disk()
        found = []
        for entry in self._aborted:
            if entry.last_offset < first_offset:
                continue
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                break
        return sorted(found, key=lambda entry: entry.first_offset)

    def _note(self, states: ProducerStates, batch: StoredBatch, *, now_ms: int) -> None:
        header, data = batch
        marker = marker_in(header, data) if header.is_control else None
        aborted = states.update(header, now_ms=now_ms, marker=marker)
        if aborted is not None:
            self._aborted.append(aborted)

    @property
    def has_lost_its_tail(self) -> bool:
        """Whether a power cut took something that was not flushed; until recovery has seen it."""
        return self._is_tail_lost

    @property
    def batches(self) -> Sequence[StoredBatch]:
        return self._batches

    def headers(self, offset: int, end_offset: int) -> list[BatchHeader]:
        """Of the whole batches in [offset, end_offset), for who looks on; touches no disk."""
        found: list[BatchHeader] = []
        for index in range(self._index_of(offset), len(self._batches)):
            header = self._batches[index].header
            if header.next_offset > end_offset:
                break
            found.append(header)
        return found

    def data_of(self, header: BatchHeader) -> bytes:
        return self._batches[self._bases.index(header.base_offset)].data

    def append(
        self, headers: Sequence[BatchHeader], chunks: Sequence[Buffer], *, now_ms: int, are_read: bool = False
    ) -> None:
        self._touch_disk()
        data = b"".join(chunks)
        position = 0
        for header in headers:
            assert header.base_offset >= self.log_end_offset, (header, self.log_end_offset)
            size = header.size_bytes
            self._batches.append(StoredBatch(header, data[position : position + size]))
            self._bases.append(header.base_offset)
            position += size
            if header.is_control:
                self.rounds.on_appended(header, memoryview(self._batches[-1].data))
            self._epochs.assign(header.leader_epoch, start_offset=self.log_end_offset)
            self._note(self._producers, self._batches[-1], now_ms=now_ms)
            self.log_end_offset = header.next_offset
        assert position == len(data), "headers and bytes disagree"
        self._is_epoch_unstored = False
        self._size_bytes += position
        self.room.on_appended(position)

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        end_offset: int,
        at_least_one: bool = True,
        from_disk: bool = False,
    ) -> LogSlice:
        self._touch_disk()
        assert self.log_start_offset <= offset <= self.log_end_offset, offset
        if offset >= end_offset or offset >= self.log_end_offset:
            return LogSlice((), 0, offset)
        for found in self.rotten:
            if found.first_offset <= offset < found.next_offset:
                raise RottenBytes(found.reason)
            if offset < found.first_offset:
                end_offset = min(end_offset, found.first_offset)
        parts: list[memoryview] = []
        size = 0
        next_offset = offset
        for index in range(self._index_of(offset), len(self._batches)):
            header, data = self._batches[index]
            if header.next_offset > end_offset:
                break
            if size + len(data) > max_bytes and (parts or not at_least_one):
                break
            if header.base_offset in self.unreadable:
                raise SuspectBytes("no batch here", first_offset=offset, bad_offset=header.base_offset)
            parts.append(memoryview(data))
            size += len(data)
            next_offset = header.next_offset
        return LogSlice(tuple(parts), size, next_offset)

    def last_batches(self, end_offset: int, *, first_offset: int | None = None) -> list[BatchHeader] | None:
        """See LogPort."""
        self._touch_disk()
        if self.rotten or (first_offset is not None and first_offset < self.log_start_offset):
            return None
        first = self._index_of(end_offset - 1 if first_offset is None else first_offset)
        if first_offset is None:
            first = max(0, first - COMPARED_BATCHES + 1)
        found: list[BatchHeader] = []
        for header, data in self._batches[first:]:
            if header.next_offset > end_offset:
                break
            if not crc_is_valid(memoryview(data), header):
                return None
            if first_offset is None and found and found[-1].leader_epoch != header.leader_epoch:
                found.clear()
            found.append(header)
        return found

    def last_data_batches(self, count: int) -> list[BatchHeader]:
        """See LogPort."""
        self._touch_disk()
        last = [batch for batch in self._batches if not batch.header.is_control][-count:]
        begin = last[0].header.base_offset if len(last) == count else self.log_start_offset
        for found in self.rotten:
            if found.next_offset > begin:
                raise RottenBytes(found.reason)
        for header, data in last:
            if header.base_offset in self.unreadable or not crc_is_valid(memoryview(data), header):
                raise SuspectBytes(
                    "no batch here", first_offset=header.base_offset, bad_offset=header.base_offset
                )
        return [header for header, _ in last]

    def find_timestamp(self, timestamp_ms: int, *, end_offset: int) -> TimestampHit | None:
        self._touch_disk()
        for header, data in self._batches:
            if header.next_offset > end_offset:
                return None
            if header.max_timestamp < timestamp_ms:
                continue
            for record in iter_records(data):
                if record.timestamp >= timestamp_ms and record.offset >= self.log_start_offset:
                    return TimestampHit(record.offset, record.timestamp, LeaderEpoch(header.leader_epoch))
        return None

    def find_max_timestamp(self, *, end_offset: int) -> TimestampHit | None:
        self._touch_disk()
        found: TimestampHit | None = None
        for header, data in self._batches:
            if header.next_offset > end_offset:
                break
            for record in iter_records(data):
                if record.offset >= self.log_start_offset and (
                    found is None or record.timestamp > found.timestamp_ms
                ):
                    found = TimestampHit(record.offset, record.timestamp, LeaderEpoch(header.leader_epoch))
        return found

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        self._touch_disk()
        if self._epochs.assign(leader_epoch, start_offset=self.log_end_offset):
            self._is_epoch_unstored = True

    def note_reconciled(self, leader_epoch: int) -> None:
        self._touch_disk()
        if self._epochs.reconcile(leader_epoch):
            self._is_epoch_unstored = False

    def truncate_to(self, offset: int) -> None:
        self._touch_disk()
        assert offset >= self.log_start_offset
        if offset < self.log_end_offset:
            kept = bisect_right(self._bases, offset)
            while kept and self._batches[kept - 1].header.next_offset > offset:
                kept -= 1
            cut = self._batches[kept].header.base_offset if kept < len(self._batches) else offset
            self._keep(kept, end_offset=min(offset, cut))
            self.rounds.on_cut(self.log_end_offset)
        if self._epochs.truncate_from_end(min(offset, self.log_end_offset)):
            self._is_epoch_unstored = False

    def restart_at(self, offset: int) -> None:
        self._touch_disk()
        self.log_start_offset = offset
        self.stored_log_start_offset = min(self.stored_log_start_offset, offset)
        self._deleted.clear()
        self._keep(0, end_offset=offset)
        self._epochs.clear()
        self._aborted.clear()
        self._producers.clear(is_whole=offset == 0)
        self._told, self._was_begun_anew = None, offset > 0
        self.rounds.clear()

    def advance_log_start(self, offset: int) -> None:
        self._touch_disk()
        assert self.log_start_offset <= offset <= self.log_end_offset
        self.log_start_offset = offset
        self._forget_rot(offset, self.log_end_offset)
        self._epochs.truncate_from_start(offset)
        gone = 0
        while gone < len(self._batches) and self._batches[gone].header.next_offset <= offset:
            self._size_bytes -= len(self._batches[gone].data)
            gone += 1
        self._deleted += self._batches[:gone]
        del self._batches[:gone]
        del self._bases[:gone]
        self._flushed_batches = max(0, self._flushed_batches - gone)
        self._scanned_batches = max(0, self._scanned_batches - gone)

    def store_log_start(self, offset: int) -> None:
        """The log start was made durable while it was `offset`."""
        self._touch_disk()
        self.stored_log_start_offset = max(self.stored_log_start_offset, min(offset, self.log_start_offset))

    @property
    def log_start_after_crash(self) -> int:
        """Where the log begins again if the process dies now: where the disk says, but not before the first
        batch. Nothing of what was deleted has been unlinked."""
        batches = self._deleted + self._batches
        if not batches:
            return self.log_start_offset
        return min(self.log_start_offset, max(self.stored_log_start_offset, batches[0].header.base_offset))

    def _uncover(self) -> None:
        self.log_start_offset = self.log_start_after_crash
        uncovered = [b for b in self._deleted if b.header.next_offset > self.log_start_offset]
        if not uncovered:
            return
        del self._deleted[-len(uncovered) :]
        self._batches[:0] = uncovered
        self._flushed_batches += len(uncovered)
        self._scanned_batches += len(uncovered)
        epochs = LeaderEpochs()
        for header, _ in uncovered:
            epochs.assign(header.leader_epoch, start_offset=header.base_offset)
        for entry in self._epochs.entries:
            if entry.leader_epoch > epochs.latest:
                epochs.assign(entry.leader_epoch, start_offset=entry.start_offset)
        epochs.reconcile(self._epochs.reconciled)
        self._epochs = epochs

    # Compaction.

    def note_compacted(self, told: Compacted) -> None:
        self._touch_disk()
        self.rounds.on_told(told, log_start_offset=self.log_start_offset, log_end_offset=self.log_end_offset)

    @property
    def is_whole(self) -> bool:
        """Whether it has the newest record of each key that it was copied with."""
        return self.log_end_offset >= self.rounds.whole_from

    def dirt(self, high_watermark: int, *, before_ms: int) -> Dirt:
        """What a leader measures: up to the high watermark or the first record as young as `before_ms`."""
        last = self.rounds.last
        clean_to = 0 if last is None else last.end_offset
        clean, dirty, end_offset, oldest_ms = 0, 0, clean_to, None
        for header, data in self._batches:
            if header.next_offset > high_watermark or header.max_timestamp >= before_ms:
                break
            if header.next_offset <= clean_to:
                clean += len(data)
                continue
            dirty, end_offset = dirty + len(data), header.next_offset
            oldest_ms = header.base_timestamp if oldest_ms is None else min(oldest_ms, header.base_timestamp)
        return Dirt(end_offset, clean, dirty, oldest_ms)

    def compact(self, placed: PlacedRound, *, keys_max: int = KEYS_MAX) -> None:
        """Make one pass. What it rewrote, the round's record and the log start are durable before it, or a
        crash would bring back what stood below, or leave a log that ends below what was done to it. Raise
        PassPutOff or SuspectBytes where bytes are rotten, as the pass of a log on disk does."""
        self._touch_disk()
        self._check_whole(placed.round_.end_offset)
        self.stored_log_start_offset = self.log_start_offset
        self._deleted.clear()
        rewrite = Rewrite(
            placed.round_,
            from_offset=self.rounds.reaches,
            keys_max=keys_max,
            aborted=self.aborted_in(self.log_start_offset, placed.round_.end_offset),
        )
        for header, data in self._batches:
            rewrite.read(memoryview(data), header)
        rewritten, untouched = [], []
        for stored in self._batches:
            if stored.header.base_offset >= rewrite.reaches:
                untouched.append(stored)
            elif (left := rewrite.rewritten(stored.header, memoryview(stored.data).toreadonly)) is not None:
                rewritten.append(StoredBatch(decode_header(left), bytes(left)))
        gone = len(self._batches) - len(rewritten) - len(untouched)
        at = sum(header.base_offset <= placed.offset for header, _ in self._batches) - gone
        self._flushed_batches = max(self._flushed_batches - gone, at)
        self._scanned_batches = max(self._scanned_batches - gone, at)
        self._batches = rewritten + untouched
        self._bases = [header.base_offset for header, _ in self._batches]
        self._size_bytes = sum(len(data) for _, data in self._batches)
        self.rounds.on_pass(placed, reaches=rewrite.reaches)
        self._aborted = [entry for entry in self._aborted if entry.last_offset >= rewrite.reaches]
        # Written anew, from what memory had right.
        self.at_rest = {base: data for base, data in self.at_rest.items() if base >= rewrite.reaches}

    def _check_whole(self, end_offset: int) -> None:
        if self.rotten and self.rotten[0].first_offset < end_offset:
            raise PassPutOff(self.rotten[0].reason)
        for header, data in self._batches:
            base_offset = header.base_offset
            if base_offset not in self.at_rest or base_offset >= end_offset:
                continue
            if base_offset in self.unreadable or not crc_is_valid(memoryview(data), header):
                raise SuspectBytes("no batch here", first_offset=base_offset, bad_offset=base_offset)

    # Rot (5.7, scrubbing).

    def condemn(self, detail: str) -> None:
        """Strikes let only what is committed rot, so the simulation never comes here."""
        self.condemned = detail

    def rot(self, base_offset: int, *, is_cached: bool, is_header: bool = False) -> None:
        """The disk holds one bit of this batch wrong. is_cached: whoever reads it is given the right bytes
        from memory, until the process starts anew. is_header: a reader can't even tell where it ends. What
        rots had been flushed, and no recovery reads it again."""
        index = self._bases.index(base_offset)
        header, data = self._batches[index]
        bad = bytearray(data)
        bad[-1] ^= 1
        self.at_rest[base_offset] = bytes(bad)
        self._flushed_batches = max(self._flushed_batches, index + 1)
        self._scanned_batches = max(self._scanned_batches, index + 1)
        if is_header:
            self.unreadable.add(base_offset)
        if not is_cached:
            self._batches[index] = StoredBatch(header, bytes(bad))

    def scrub(self, end_offset: int) -> list[RottenRange]:
        """What is rotten on the disk and was not known, below `end_offset`."""
        known = {found.first_offset for found in self.rotten}
        found = []
        for base_offset, data in sorted(self.at_rest.items()):
            header = decode_header(data)
            if base_offset in known or header.next_offset > end_offset:
                continue
            if not crc_is_valid(memoryview(self.read_at_rest(base_offset)), header):
                found.append(RottenRange(base_offset, header.next_offset, "CRC does not match"))
        return found

    def read_at_rest(self, base_offset: int) -> bytes:
        return self.at_rest[base_offset]

    def size_of(self, base_offset: int) -> int:
        return len(self._batches[self._bases.index(base_offset)].data)

    def note_rotten(self, found: RottenRange) -> None:
        self.rotten = sorted((*self.rotten, found), key=lambda other: other.first_offset)

    def mend(self, found: RottenRange, data: bytes) -> None:
        index = self._bases.index(found.first_offset)
        header, _ = self._batches[index]
        self._batches[index] = StoredBatch(header, data)
        self.at_rest[found.first_offset] = data
        if crc_is_valid(memoryview(data), header):
            del self.at_rest[found.first_offset]
            self.unreadable.discard(found.first_offset)
        self.rotten.remove(found)

    def _forget_rot(self, first_offset: int, end_offset: int) -> None:
        """Of what was cut or deleted: only [first_offset, end_offset) is left."""
        self.rotten = [r for r in self.rotten if r.next_offset > first_offset and r.next_offset <= end_offset]
        self.at_rest = {
            base: data
            for base, data in self.at_rest.items()
            if first_offset < decode_header(data).next_offset <= end_offset
        }
        self.unreadable &= self.at_rest.keys()

    # The disk below it.

    def flush(self) -> None:
        self._touch_disk()
        self._flushed_batches = len(self._batches)
        self._is_epoch_unstored = False
        self._is_told_durable = True

    def copy(self) -> MemoryLog:
        """What a backup of the disk has now: everything written, flushed or not."""
        other = MemoryLog()
        other._batches = list(self._batches)
        other._bases = list(self._bases)
        other.log_start_offset = self.log_start_offset
        other.stored_log_start_offset = self.stored_log_start_offset
        other._deleted = list(self._deleted)
        other.log_end_offset = self.log_end_offset
        other._size_bytes = self._size_bytes
        other._epochs = LeaderEpochs(self._epochs.entries)
        other._is_epoch_unstored = self._is_epoch_unstored
        other._told, other._was_begun_anew = self._told, self._was_begun_anew
        other._is_told_durable = self._told is not None
        other._flushed_batches = len(self._batches)
        other._scanned_batches = self._scanned_batches
        other._torn = self._torn
        other.rounds = self.rounds.copy()
        if self._is_seal_durable:
            other.seal, other._is_seal_durable = self.seal, True
        other.at_rest, other.rotten = dict(self.at_rest), list(self.rotten)
        other.unreadable = set(self.unreadable)
        other.recover()  # rebuilds the producers' states
        return other

    def crash(self, random: Random) -> None:
        """A power cut: of what was not flushed a random prefix survives, perhaps with a torn end."""
        unflushed = len(self._batches) - self._flushed_batches
        self.lose_unflushed(
            batches_kept=random.randint(0, unflushed), torn_bytes=random.choice((0, 0, 7, 40, 70))
        )

    def lose_unflushed(self, *, batches_kept: int = 0, torn_bytes: int = 0) -> None:
        """Of the batches that were not flushed, keep so many, and so many bytes of the next one."""
        count = min(len(self._batches), self._flushed_batches + batches_kept)
        self._torn = self._batches[count].data[:torn_bytes] if count < len(self._batches) else b""
        self._is_tail_lost = self._is_tail_lost or count < len(self._batches)
        if not self._is_told_durable:
            self._told = None
        del self._batches[count:]
        del self._bases[count:]
        self._scanned_batches = min(self._scanned_batches, count)

    def lose_end(self, offset: int) -> None:
        """Every batch that reaches beyond `offset` is gone, flushed or not."""
        count = sum(header.next_offset <= offset for header, _ in self._batches)
        self._is_tail_lost = True
        self._torn = b""
        del self._batches[count:]
        del self._bases[count:]
        self._flushed_batches = min(self._flushed_batches, count)
        self._scanned_batches = min(self._scanned_batches, count)

    def die_in_append(self, written: bytes) -> None:
        """The process died while it wrote a batch: these first bytes of it are there."""
        self._torn = written

    def wipe(self) -> None:
        """An empty disk in its place."""
        self.__init__()  # type: ignore[misc]

    def recover(self, *, is_clean: bool = False) -> None:
        """What the next process makes of the bytes it finds. Unless the last one ended cleanly, it had no
        time to store an epoch in which it wrote nothing (I20, a leadership without records leaves a trace),
        and perhaps none to store the log start."""
        if is_clean:
            self.stored_log_start_offset = self.log_start_offset
        self._uncover()
        known = [
            StoredBatch(header, self.at_rest.get(header.base_offset, data))
            for header, data in self._batches[: self._scanned_batches]
        ]
        found = b"".join([data for _, data in self._batches[self._scanned_batches :]]) + self._torn
        entries, reconciled = self._epochs.entries, self._epochs.reconciled
        end_offset = self.log_end_offset
        self._torn = b""
        self._batches, self._bases, self._size_bytes = [], [], 0
        self.log_end_offset = self.log_start_offset
        self.rounds.on_read_again()
        for batch in known:
            self._take(batch)
        self._scan(found)
        self._aborted = []
        self._producers = self._replayed_producers()
        self._scanned_batches = len(self._batches)
        if self._is_tail_lost:
            self.rounds.on_cut(self.log_end_offset)
        else:  # the end can lie beyond the last batch: an emptied log begun anew
            self.log_end_offset = end_offset
        # An epoch that began where the cut is has no record left that would prove it.
        is_forgotten = self._is_tail_lost or (self._is_epoch_unstored and not is_clean)
        self._epochs = LeaderEpochs(
            entry for entry in entries if not is_forgotten or entry.start_offset < self.log_end_offset
        )
        self._is_epoch_unstored = False
        self._epochs.reconcile(reconciled)
        self._is_tail_lost = False
        self._flushed_batches = len(self._batches)
        self._forget_rot(
            self.log_start_offset, self.log_end_offset
        )  # as load_rotten: the file may be shorter now
        seal = self.seal
        if seal is not None and not (
            self._is_seal_durable and seal.is_kept_by(self._epochs, log_end_offset=self.log_end_offset)
        ):
            self.seal, self._is_seal_durable = None, False
        elif seal is not None:
            self._vouched_max = seal.end_offset

    def _scan(self, found: bytes) -> None:
        view = memoryview(found)
        try:
            for position, header in iter_headers(view):
                batch = view[position : position + header.size_bytes]
                if header.next_offset <= self.log_start_offset:
                    continue
                if not crc_is_valid(batch, header):
                    return
                if self._batches and header.base_offset < self.log_end_offset:
                    return
                self._take(StoredBatch(header, bytes(batch)))
        except CorruptBatch:
            return

    def _take(self, batch: StoredBatch) -> None:
        header, data = batch
        self._batches.append(batch)
        self._bases.append(header.base_offset)
        self._size_bytes += len(data)
        if header.is_control:
            self.rounds.on_appended(header, memoryview(data))
        self.log_end_offset = header.next_offset

    def _keep(self, count: int, *, end_offset: int) -> None:
        """The first `count` batches; epochs are the caller's."""
        del self._batches[count:]
        del self._bases[count:]
        self.log_end_offset = end_offset
        self._vouched_max = min(self._vouched_max, end_offset)
        self._forget_rot(self.log_start_offset, end_offset)
        self._size_bytes = sum(len(data) for _, data in self._batches)
        self._flushed_batches = min(self._flushed_batches, count)
        self._scanned_batches = min(self._scanned_batches, count)
        self._aborted = [entry for entry in self._aborted if entry.last_offset < end_offset]
        if self._producers.has_batch_at_or_beyond(end_offset):
            kept, self._aborted = self._aborted, []  # the replay finds them again
            self._producers.replace_with(self._replayed_producers())
            self._aborted = kept

    def learn_producers(self, told: ProducerStates) -> None:
        """See LogPort."""
        self._touch_disk()
        self._producers.learn(told)
        self._told = (self.log_end_offset, self._producers.encode())
        self._is_told_durable = False

    def _replayed_producers(self) -> ProducerStates:
        """From the snapshot, if there is one, and the batches after it, deleted ones among them: retention
        leaves a snapshot behind."""
        if self._told is not None and self._told[0] > self.log_end_offset:
            self._told = None
        if self._told is not None:
            from_offset, states = self._told[0], decode_producer_states(self._told[1])
        else:
            from_offset, states = 0, ProducerStates()
            states.is_whole = not self._was_begun_anew
        before = ProducerStates()
        for batch in (*self._deleted, *self._batches):
            known = states if batch.header.base_offset >= from_offset else before
            self._note(known, batch, now_ms=batch.header.max_timestamp)
        return states

    def _index_of(self, offset: int) -> int:
        """The batch that contains `offset`, or the next one after a gap."""
        index = max(0, bisect_right(self._bases, offset) - 1)
        while index < len(self._batches) and self._batches[index].header.next_offset <= offset:
            index += 1
        return index

    def _touch_disk(self) -> None:
        if self.failing is not None:
            raise LogError(self.failing)
