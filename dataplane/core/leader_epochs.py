"""The leader-epoch history of one replica's log: which epoch began at which offset.

It answers the one question that truncation asks (KIP-101, KIP-279): where does epoch e end in this log? And
it is fed by every append and by every becoming leader, even when no record ever follows (KAFKA-7415): a
leader that can't name the start of its own epoch sends followers to a wrong truncation point (S9, elections
without writes).

Invariant (I20, an epoch's start is recorded): entries increase strictly in epoch *and* in start offset. So an
epoch in which nothing was written vanishes as soon as the next one begins at the same offset; a request for
it gets the one before, with the same end.

Pure: values in, values out. Writing the checkpoint is the storage layer's: in the page cache before the
epoch's first batch is, so that a killed process forgets at most an epoch in which nothing was written, and
durable before the recovery point passes that batch (KAFKA-15046, KAFKA-16541; docs/replication.md 5.3, the
epoch history).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from dataplane.core.titles import CorruptTitle, with_title, without_title
from springtide.contract.epochs import NO_LEADER_EPOCH, LeaderEpoch
from springtide.wire.fetch_response import EpochEnd

UNDEFINED_EPOCH = NO_LEADER_EPOCH
UNDEFINED_OFFSET = -1

CHECKPOINT_BYTES_MAX = 64 * 1024 * 1024
"""More than a million elections of one partition; a larger file is no checkpoint of ours."""

_CHECKPOINT_TITLE = "leader-epochs"
_RECONCILED = "reconciled"


class CorruptEpochCheckpoint(Exception):
    """The bytes are no leader-epoch checkpoint. The history has to be rebuilt from the batches."""


class EpochStart(NamedTuple):
    leader_epoch: int
    start_offset: int


UNDEFINED_END = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
"""The log can't tell where the epoch ends."""


class LeaderEpochs:
    """Mutable history of one log. All offsets absolute; epochs from 0 on (0 is valid: KAFKA-10432)."""

    __slots__ = ("_epochs", "_starts", "reconciled", "version")

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._epochs: list[LeaderEpoch] = []
        self._starts: list[int] = []
        self.reconciled: int = UNDEFINED_EPOCH
        """The latest leader epoch in which this log is known to have agreed with a leader's while the
        partition bore the mark of an unclean election: marks up to here have had their effect (I15, no cut
        below the high watermark)."""
        self.version = 0
        """Counts changes, so that a writer in a thread knows whether the file is still behind."""
        for leader_epoch, start_offset in entries:
            self.assign(leader_epoch, start_offset=start_offset)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(map(EpochStart, self._epochs, self._starts))

    @property
    def latest(self) -> LeaderEpoch:
        """The newest epoch, or UNDEFINED_EPOCH: what a follower sends as `last_fetched_epoch`."""
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    @property
    def latest_start_offset(self) -> int:
        """Return the offset at which the newest epoch began, or UNDEFINED_OFFSET."""
        return self._starts[-1] if self._starts else UNDEFINED_OFFSET

    def assign(self, leader_epoch: int, *, start_offset: int) -> bool:
        """Record that `leader_epoch` begins at `start_offset`; true if that was news.

        A further batch of the newest epoch is none. Entries that begin at the same offset hold nothing any
        more and go. An older epoch than the newest, or an offset before the newest epoch's start, is the
        caller's error (a log never goes back without a truncation): ValueError, nothing changed.
        """
        epochs, starts = self._epochs, self._starts
        if epochs:
            latest = epochs[-1]
            if leader_epoch == latest and start_offset >= starts[-1]:
                return False
            if leader_epoch <= latest or start_offset < starts[-1]:
                raise ValueError(
                    f"epoch {leader_epoch} at offset {start_offset} goes back behind "
                    f"epoch {latest} at offset {starts[-1]}"
                )
        if leader_epoch < 0 or start_offset < 0:
            raise ValueError(f"no such epoch or offset: epoch {leader_epoch} at {start_offset}")
        while starts and starts[-1] >= start_offset:
            epochs.pop()
            starts.pop()
        epochs.append(LeaderEpoch(leader_epoch))
        starts.append(start_offset)
        self.version += 1
        return True

    def end_offset_for(self, leader_epoch: int, *, log_end_offset: int) -> EpochEnd:
        """The largest known epoch not above the asked one, and where it ends in this log.

        - asked the newest: it ends at the log's end;
        - asked an epoch below all known ones: (asked, start of the first), since all that could have been
          written in it lies before that;
        - asked one above all known ones, or none (-1), or the history is empty: undefined. To take the log's
          end for it instead is how diverging logs were called equal (KAFKA-6857).
        """
        epochs = self._epochs
        if leader_epoch < 0 or not epochs or leader_epoch > epochs[-1]:
            return UNDEFINED_END
        if leader_epoch == epochs[-1]:
            return EpochEnd(leader_epoch, log_end_offset)
        following = bisect_right(epochs, leader_epoch)
        if following == 0:
            return EpochEnd(leader_epoch, self._starts[0])
        return EpochEnd(epochs[following - 1], self._starts[following])

    def start_offset_of(self, leader_epoch: int) -> int:
        """Return the offset at which the epoch began, or UNDEFINED_OFFSET."""
        epochs = self._epochs
        index = bisect_right(epochs, leader_epoch) - 1
        return self._starts[index] if index >= 0 and epochs[index] == leader_epoch else UNDEFINED_OFFSET

    def epoch_at(self, log_offset: int) -> LeaderEpoch:
        """The epoch under which `log_offset` was written, or UNDEFINED_EPOCH before the first entry."""
        index = bisect_right(self._starts, log_offset)
        return self._epochs[index - 1] if index else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop the epochs that begin at or beyond `end_offset`; true if any did. Called for every
        truncation, even one that cuts no record (KAFKA-10706: a follower that led and wrote nothing)."""
        if not self._starts or self._starts[-1] < end_offset:
            return False
        while self._starts and self._starts[-1] >= end_offset:
            self._epochs.pop()
            self._starts.pop()
        self.version += 1
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget what lies before `start_offset`; the epoch that reigns there now begins there. True if
        anything changed."""
        if not self._starts or self._starts[0] >= start_offset:
            return False
        reigning = bisect_right(self._starts, start_offset) - 1
        del self._epochs[:reigning]
        del self._starts[:reigning]
        self._starts[0] = start_offset
        self.version += 1
        return True

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.version += 1

    def reconcile(self, leader_epoch: int) -> bool:
        """Raise `reconciled`; true if that was news. Nothing that happens to the log takes it back."""
        if leader_epoch <= self.reconciled:
            return False
        self.reconciled = leader_epoch
        self.version += 1
        return True

    def encode(self) -> bytes:
        """The checkpoint file: a title with the CRC32C of the rest, then one "epoch offset" line each, and
        "reconciled epoch" if there was an unclean election."""
        body = "".join(f"{epoch} {start}\n" for epoch, start in self.entries).encode()
        if self.reconciled != UNDEFINED_EPOCH:
            body += f"{_RECONCILED} {self.reconciled}\n".encode()
        return with_title(_CHECKPOINT_TITLE, body)


def decode_leader_epochs(encoded: bytes) -> LeaderEpochs:
    """The history that `LeaderEpochs.encode` wrote. Raises CorruptEpochCheckpoint, on broken order
    too, and NewerFormat."""
    if len(encoded) > CHECKPOINT_BYTES_MAX:
        raise CorruptEpochCheckpoint(f"{len(encoded)} bytes")
    try:
        body = without_title(_CHECKPOINT_TITLE, encoded)
        lines = [line.split() for line in body.decode("ascii").splitlines()]
        reconciled = int(lines.pop()[1]) if lines and lines[-1][0] == _RECONCILED else UNDEFINED_EPOCH
        epochs = LeaderEpochs(EpochStart(int(epoch), int(start)) for epoch, start in lines)
        epochs.reconcile(reconciled)
    except (CorruptTitle, ValueError, IndexError) as error:
        raise CorruptEpochCheckpoint(str(error)) from error
    return epochs
