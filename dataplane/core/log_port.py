"""The port through which a replica uses its log.

A replica decides and the log stores; this port is all that they share. It is synchronous, because an append
to the page cache is cheaper than handing it to a thread, and because check, append and state update of one
partition must happen without an await between them. What may block for long (fsync, cold reads, deletion)
is not here: the shell does it in threads.

The log keeps the leader-epoch history and the producer states itself, fed by *every* append (client,
replication, recovery) and rolled back by every truncation, so that a follower can lead at once (KIP-98,
KIP-101).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dataplane.core.compaction.known import KnownRounds
from dataplane.core.leader_epochs import LeaderEpochs
from dataplane.core.producer_state import ProducerStates
from dataplane.core.room import Room
from dataplane.core.transactions import AbortedEntry
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.wire.fetch_response import Compacted
from springtide.wire.framing import FileChunk
from springtide.wire.record_batch import BatchHeader

Buffer = bytes | bytearray | memoryview


class LogError(Exception):
    """The log directory failed (EIO, ENOSPC, ...). It is out of use for the rest of this process's life:
    after a failed write or fsync the content of the disk is unknown (fsyncgate)."""


class LogChanged(LogError):
    """The log was cut, or its oldest part deleted, while a thread read there. The log is intact: look again
    from what it holds now."""


class RottenBytes(LogError):
    """These records are known to be rotten and are given to no reader. The rest of the log is good."""


class SuspectBytes(LogError):
    """A reader met bytes that are no record batch, or a damaged one, where a whole one was written. Reading
    them again from the disk, from `first_offset` on, near `bad_offset`, tells whether they have rotted."""

    def __init__(self, detail: str, *, first_offset: int, bad_offset: int) -> None:
        super().__init__(detail)
        self.first_offset = first_offset
        self.bad_offset = bad_offset


@dataclass(frozen=True, slots=True)
class RottenRange:
    """Records whose bytes at rest are not what was written: those of the batches in [first_offset,
    next_offset). reason: for operators."""

    first_offset: int
    next_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Whole record batches read from a log, in order: `size_bytes` in all; empty if there is nothing.

    `next_offset` is one past the last offset contained, or the asked offset if empty. A FileChunk lies in
    a closed or older part of a segment; its `source` is the storage layer's own handle, which it keeps alive
    even when retention deletes the segment meanwhile.
    """

    parts: tuple[memoryview | FileChunk, ...]
    size_bytes: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class TimestampHit:
    offset: int
    timestamp_ms: int
    leader_epoch: LeaderEpoch


class LogPort(Protocol):
    """One replica's log. Offsets: log_start_offset <= (high watermark) <= log_end_offset."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def vouched_end_offset(self) -> int:
        """Return the offset up to which this replica may say that it has the records: log_end_offset, except
        for a sealed log (3.9, after total power loss)."""

    @property
    def must_vouch(self) -> bool:
        """Return whether `vouched_end_offset` lies below log_end_offset, so that the effect `Vouch` is
        needed."""

    @property
    def seal_chain_epoch(self) -> BrokerEpoch:
        """Return the chain epoch under which this log was sealed; -1 if the log proves nothing by itself."""

    @property
    def size_bytes(self) -> int: ...

    @property
    def room(self) -> Room:
        """Return the room of the log's directory; `append` counts in it. The caller asks it whether to
        append."""

    def size_below(self, offset: int) -> int:
        """Return the size of what lies below an offset, for operators: exact where a segment begins, in
        proportion within one. Touches no file."""

    @property
    def epochs(self) -> LeaderEpochs: ...

    @property
    def producers(self) -> ProducerStates: ...

    def aborted_in(self, first_offset: int, end_offset: int) -> Sequence[AbortedEntry]:
        """Return the aborted transactions that may have records in [first_offset, end_offset), in order of
        their first offsets. Raises LogError."""

    @property
    def rounds(self) -> KnownRounds: ...

    def learn_producers(self, told: ProducerStates) -> None:
        """Take in with `producers.learn` what the leader knows of batches below log_end_offset, and store it
        before anything is appended. Raises LogError."""

    def note_compacted(self, told: Compacted) -> None:
        """Take in with `rounds.on_told` what the leader's log lacks. A killed process knows it when it starts
        again, before it knows any record that is appended later."""

    @property
    def rotten(self) -> Sequence[RottenRange]:
        """Return what a scrub found and was not mended yet (5.7, scrubbing), in order. It outlives the
        process."""

    def append(
        self, headers: Sequence[BatchHeader], chunks: Sequence[Buffer], *, now_ms: int, are_read: bool = False
    ) -> None:
        """Write whole batches at the end. `headers` carry final base offsets and leader epochs; `chunks` hold
        the same batches' bytes, already stamped, in order, cut anywhere. The first base offset is at or
        beyond log_end_offset (a gap is legal after compaction at the leader). Rolls segments as configured.
        Updates epochs, producers and their transactions only after the write succeeded. Raises LogError.
        are_read: this process has read their records, so the headers' maximum timestamps are true."""

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        end_offset: int,
        at_least_one: bool = True,
        from_disk: bool = False,
    ) -> LogSlice:
        """Return whole batches from the one that contains `offset` on, none at or beyond `end_offset`.
        `at_least_one`: return the first batch even when it is larger than max_bytes (KIP-74). `from_disk`:
        read the files, not what memory remembers of them. Precondition: log_start_offset <= offset <=
        log_end_offset. Raises LogError, SuspectBytes, and RottenBytes for what is known to be rotten; a read
        ends before that."""

    def last_batches(
        self, end_offset: int, *, first_offset: int | None = None
    ) -> Sequence[BatchHeader] | None:
        """Return the headers of the batches in [first_offset, end_offset), each read and its CRC checked: a
        few from `first_offset` on or, without it, a few at the end, of one leader epoch. Return None if that
        is unknown: a batch there is rotten or not held any more. Raises LogError."""

    def last_data_batches(self, count: int) -> Sequence[BatchHeader]:
        """Return the headers of the log's last batches that are no control batches, so many if it holds so
        many, in order; read from the bytes, their CRC checked. Raises LogError, SuspectBytes, and RottenBytes
        if one may stand where it is known to be rotten."""

    def find_timestamp(self, timestamp_ms: int, *, end_offset: int) -> TimestampHit | None:
        """Return the first record with a timestamp at or after the given one, below end_offset (KIP-79).
        Raises SuspectBytes. If a shell calls it in a thread while the loop goes on, it may raise
        LogChanged."""

    def find_max_timestamp(self, *, end_offset: int) -> TimestampHit | None:
        """Return the first of the records with the largest timestamp, below end_offset (KIP-734). In a
        thread: as `find_timestamp`."""

    def begin_leader_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """Record that `leader_epoch` starts at log_end_offset, even if no record ever follows (I20, a
        leadership without records leaves a trace). The caller asks for `PersistEpochs`; a process that dies
        before that, or before the first append, forgets it."""

    def note_reconciled(self, leader_epoch: LeaderEpoch) -> None:
        """Remember in `epochs` that marks of unclean elections up to this epoch have had their effect (I15,
        below one's own high watermark only under a mark), so that a killed process knows it when it starts
        again."""

    def truncate_to(self, offset: int) -> None:
        """Drop everything at or beyond `offset`, with its epochs and producer states. Beyond the end only the
        epochs change (KAFKA-10706). Raises LogError."""

    def restart_at(self, offset: int) -> None:
        """Drop everything and start over at `offset` (the follower fell below the leader's log start)."""

    def condemn(self, detail: str) -> None:
        """End this log, for the next process too: it is damaged and can't be mended."""

    def advance_log_start(self, offset: int) -> None:
        """Move log_start_offset up (retention at the leader, DeleteRecords). Deletes whole segments later."""
