"""The seal of a log: a durable promise that its replica has vouched for nothing beyond an offset.

    open --idle, flushed, file durable--> sealed at X --written to--> opening --file durably gone--> open

A follower vouches for records by its position in a fetch, a leader by moving the high watermark. While the
seal stands the replica does neither beyond X. So a log that is found with its seal, and reaches X, holds all
that its replica ever vouched for, also after a power cut. By that proof a controller may elect after
total power loss (docs/replication.md 3.9, after total power loss). A log without a seal proves nothing:
records that were in memory only may have been committed.

chain_epoch: a number of the controller's (RegisterResponse.chain_epoch). It changes when directories come
back that are not those of the registered incarnation, such as an older copy: older seals prove nothing then.
"""

from __future__ import annotations

import msgspec

from dataplane.core.leader_epochs import LeaderEpochs
from dataplane.storage.checked_json import CorruptJson, decode_checked, encode_checked
from dataplane.storage.disk import Disk, read_whole, replace_durably, unlink_durably
from dataplane.storage.durability import Durability
from dataplane.storage.health import LogHealth
from dataplane.storage.segment_list import SegmentList
from springtide.contract.epochs import NO_BROKER_EPOCH, BrokerEpoch, LeaderEpoch

SEAL_FILE = "seal"
SEAL_BYTES_MAX = 1024


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """leader_epoch: under which the log's last record was written; -1: it had none. (A newer one that has
    written nothing may go from the history, and the records stay.) end_offset: X, exclusive."""

    chain_epoch: BrokerEpoch
    leader_epoch: LeaderEpoch
    end_offset: int

    def is_kept_by(self, epochs: LeaderEpochs, *, log_end_offset: int) -> bool:
        """Return whether the log still reaches the seal in the epoch in which the seal was made."""
        if self.leader_epoch < 0:
            return self.end_offset <= log_end_offset
        end = epochs.end_offset_for(self.leader_epoch, log_end_offset=log_end_offset)
        return end.leader_epoch == self.leader_epoch and self.end_offset <= end.end_offset


def read_seal(disk: Disk, directory: str) -> Seal | None:
    """Return the stored seal; None if there is none, or none that can be read. Raise OSError,
    NewerFormat."""
    encoded = read_whole(disk, f"{directory}/{SEAL_FILE}", bytes_max=SEAL_BYTES_MAX)
    try:
        return None if encoded is None else msgspec.convert(decode_checked(encoded, SEAL_FILE), Seal)
    except (CorruptJson, msgspec.ValidationError):
        return None


def write_seal(disk: Disk, directory: str, seal: Seal) -> None:
    """Store the seal durably. Raise OSError."""
    replace_durably(disk, f"{directory}/{SEAL_FILE}", encode_checked(msgspec.structs.asdict(seal)))


def remove_seal(disk: Disk, directory: str) -> None:
    """Remove the seal, durably before this returns. Raise OSError."""
    unlink_durably(disk, f"{directory}/{SEAL_FILE}")


class LogSeal:
    """The seal of an open log. The caller runs only one of these methods at a time.

    `vouched_max` holds while there is a seal: the replica vouches for nothing beyond. It ends a batch.
    """

    __slots__ = (
        "_changes",
        "_disk",
        "_durability",
        "_epochs",
        "_health",
        "_is_durable",
        "_segments",
        "current",
        "vouched_max",
    )

    def __init__(
        self,
        disk: Disk,
        health: LogHealth,
        segments: SegmentList,
        durability: Durability,
        epochs: LeaderEpochs,
    ) -> None:
        self._disk = disk
        self._durability = durability
        self._epochs = epochs
        self._health = health
        self._segments = segments
        self._is_durable = False
        self._changes = 0  # of the segments, when the seal was begun
        self.current: Seal | None = None
        self.vouched_max = 0

    @property
    def chain_epoch(self) -> BrokerEpoch:
        """Return the chain epoch of the stored seal; -1 without one."""
        return self.current.chain_epoch if self.current is not None and self._is_durable else NO_BROKER_EPOCH

    def adopt(self, seal: Seal) -> None:
        """Adopt the stored seal: the log was opened and holds what the seal promises."""
        self.current, self._is_durable, self.vouched_max = seal, True, seal.end_offset

    def begin(self, chain_epoch: BrokerEpoch, *, end_offset: int) -> None:
        """Vouch for nothing more from now on, at the log's end. Loop; `store` in a thread follows."""
        leader_epoch = self._epochs.epoch_at(end_offset - 1)
        self.current = Seal(chain_epoch=chain_epoch, leader_epoch=leader_epoch, end_offset=end_offset)
        self._is_durable, self.vouched_max = False, end_offset
        self._changes = self._segments.changes

    def store(self) -> None:
        """Flush, then store the seal that was begun. A log that was cut meanwhile is unsealed: it may have
        grown again to the seal's end, with other records. Thread. Raise LogError.
        """
        seal = self.current
        assert seal is not None
        recovery_point = self._durability.flush()
        if self._segments.has_changed_since(self._changes):
            self.current = None
        elif recovery_point >= seal.end_offset:
            with self._health.guarded("sealing"):
                write_seal(self._disk, self._health.path, seal)
            self._is_durable = True

    def remove(self) -> None:
        """Remove the seal durably. Thread; `open` on the loop follows. Raise LogError."""
        self._health.check()
        with self._health.guarded("unsealing"):
            remove_seal(self._disk, self._health.path)

    def open(self) -> None:
        """Allow vouching for everything written: the stored seal is gone."""
        self.current, self._is_durable = None, False

    def on_log_cut(self, log_end_offset: int) -> None:
        """What the log will hold beyond its new end is not what was sealed."""
        self.vouched_max = min(self.vouched_max, log_end_offset)

    def vouch_for_flushed(self) -> None:
        """Allow vouching for what is fsynced, although the seal stays."""
        self.vouched_max = max(self.vouched_max, self._durability.recovery_point.offset)
