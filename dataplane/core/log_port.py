"""What a replica needs from its log.

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

from dataplane.core.leader_epochs import LeaderEpochs
from dataplane.core.producer_state import ProducerStates
from springtide.wire.record_batch import BatchHeader

Buffer = bytes | bytearray | memoryview


class LogError(Exception):
    """The log directory failed (EIO, ENOSPC, ...). It is finished for this process's life: after a failed
    write or fsync nobody knows what the disk holds (fsyncgate)."""


class LogChanged(LogError):
    """The log was cut, or its oldest part deleted, while a thread read there. Nothing is wrong with it: look
    again from what it holds now."""


class RottenBytes(LogError):
    """These records are known to be rotten: they are not given to anyone. The rest of the log is good."""


class SuspectBytes(LogError):
    """A reader met bytes that are no record batch, or a damaged one, where one was written whole. Reading
    them again from the disk tells whether they have rotted: from `first_offset` on, near `bad_offset`."""

    def __init__(self, detail: str, *, first_offset: int, bad_offset: int) -> None:
        super().__init__(detail)
        self.first_offset = first_offset
        self.bad_offset = bad_offset


@dataclass(frozen=True, slots=True)
class RottenRange:
    """Records whose bytes at rest are not what was written: those of the batches in [first_offset,
    next_offset). reason: for people."""

    first_offset: int
    next_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes of a closed or older part of a segment, to be sent from the file (sendfile) or read in a thread.

    `file` is the storage layer's own handle, kept alive by this object even when retention deletes the
    segment meanwhile.
    """

    file: object
    position: int
    length: int


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Whole record batches read from a log: `size_bytes` in all, in order; empty when there is nothing.

    `next_offset` is one past the last offset contained, or the asked offset when empty.
    """

    parts: tuple[memoryview | FileRange, ...]
    size_bytes: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class TimestampHit:
    offset: int
    timestamp_ms: int
    leader_epoch: int


class LogPort(Protocol):
    """One replica's log. Offsets: log_start_offset <= (high watermark) <= log_end_offset."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def vouched_end_offset(self) -> int:
        """Up to where this replica may say that it has the records: log_end_offset, but for a sealed log
        (docs/replication.md 3.9)."""

    @property
    def must_vouch(self) -> bool:
        """Whether `vouched_end_offset` lies below log_end_offset: the effect `Vouch` asks for more."""

    @property
    def seal_chain_epoch(self) -> int:
        """The chain epoch under which this log was sealed; -1: it proves nothing by itself."""

    @property
    def size_bytes(self) -> int: ...

    def size_below(self, offset: int) -> int:
        """Bytes of what lies below an offset, for operators: exact where a segment begins, in proportion
        within one, and without touching a file."""

    @property
    def epochs(self) -> LeaderEpochs: ...

    @property
    def producers(self) -> ProducerStates: ...

    @property
    def rotten(self) -> Sequence[RottenRange]:
        """What a scrub found and nobody has mended yet (5.7), in order. It outlives the process."""

    def append(self, headers: Sequence[BatchHeader], chunks: Sequence[Buffer], *, now_ms: int) -> None:
        """Write whole batches at the end. `headers` carry final base offsets and leader epochs; `chunks` hold
        the same batches' bytes, already stamped, in order, cut anywhere. The first base offset is at or
        beyond log_end_offset (a gap is legal after compaction at the leader). Rolls segments as configured.
        Updates epochs and producers only after the write succeeded. Raises LogError."""

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        end_offset: int,
        at_least_one: bool = True,
        from_disk: bool = False,
    ) -> LogSlice:
        """Whole batches from the one that contains `offset` on, none at or beyond `end_offset`. The first
        batch is returned even when it is larger than max_bytes if `at_least_one` (KIP-74). `from_disk`: what
        the files say, and not what memory remembers of them.
        Precondition: log_start_offset <= offset <= log_end_offset. Raises LogError; RottenBytes for what is
        known to be rotten, before which a read ends; SuspectBytes."""

    def last_batches(
        self, end_offset: int, *, first_offset: int | None = None
    ) -> Sequence[BatchHeader] | None:
        """Headers of the batches in [first_offset, end_offset), each read and its CRC found right; without
        `first_offset` a few at the end, of one leader epoch; with it a few from there. None if that can't be
        told: something there is rotten or not held any more. Raises LogError."""

    def find_timestamp(self, timestamp_ms: int, *, end_offset: int) -> TimestampHit | None:
        """First record with a timestamp at or after the given one, below end_offset (KIP-79). Raises
        SuspectBytes. A shell may call it in a thread while the loop goes on; then it may raise LogChanged."""

    def find_max_timestamp(self, *, end_offset: int) -> TimestampHit | None:
        """First of the records with the largest timestamp, below end_offset (KIP-734). In a thread: as
        above."""

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """Record that `leader_epoch` starts at log_end_offset, even when no record ever follows (I20)."""

    def note_reconciled(self, leader_epoch: int) -> None:
        """Remember in `epochs` that marks of unclean elections up to this epoch have had their effect (I15),
        so that a killed process knows it when it starts again."""

    def truncate_to(self, offset: int) -> None:
        """Drop everything at or beyond `offset`, epochs and producer states with it. No-op beyond the end
        but for the epochs (KAFKA-10706). Raises LogError."""

    def restart_at(self, offset: int) -> None:
        """Drop everything and begin anew at `offset` (the follower fell below the leader's log start)."""

    def condemn(self, detail: str) -> None:
        """This log is damaged where nobody can mend it: it is over, for the next process too."""

    def advance_log_start(self, offset: int) -> None:
        """Move log_start_offset up (retention at the leader, DeleteRecords). Deletes whole segments later."""
