"""The seal of a log: a durable promise that its replica has vouched for nothing beyond an offset.

    open --idle, flushed, file durable--> sealed at X --written to--> opening --file durably gone--> open

A follower vouches for records by its position in a fetch, a leader by moving the high watermark. While the
seal stands the replica does neither beyond X. So a log that is found with its seal, and reaches X, holds all
that its replica ever vouched for, also after a power cut. By that proof a controller may elect after
total power loss (docs/replication.md 3.9). A log without a seal proves nothing: records that were in memory
only may have been committed.

chain_epoch: a number of the controller's (RegisterResponse.chain_epoch). It changes when directories come
back that are not those of the registered incarnation, such as an older copy: older seals prove nothing then.
"""

from __future__ import annotations

import msgspec

from dataplane.core.leader_epochs import LeaderEpochs
from dataplane.storage.disk import Disk, read_whole, replace_durably, unlink_durably

SEAL_FILE = "seal"
SEAL_BYTES_MAX = 1024


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """leader_epoch: the newest of the log's history when it was sealed. end_offset: X, exclusive."""

    chain_epoch: int
    leader_epoch: int
    end_offset: int

    def is_kept_by(self, epochs: LeaderEpochs, *, log_end_offset: int) -> bool:
        """Return whether the log still reaches the seal in the epoch in which the seal was made."""
        if self.leader_epoch < 0:
            return self.end_offset <= log_end_offset
        end = epochs.end_offset_for(self.leader_epoch, log_end_offset=log_end_offset)
        return end.leader_epoch == self.leader_epoch and self.end_offset <= end.end_offset


def read_seal(disk: Disk, directory: str) -> Seal | None:
    """Return the stored seal; None if there is none, or none that can be read. Raise OSError."""
    encoded = read_whole(disk, f"{directory}/{SEAL_FILE}", bytes_max=SEAL_BYTES_MAX)
    try:
        return None if encoded is None else msgspec.json.decode(encoded, type=Seal)
    except msgspec.DecodeError:
        return None


def write_seal(disk: Disk, directory: str, seal: Seal) -> None:
    """Store the seal durably. Raise OSError."""
    replace_durably(disk, f"{directory}/{SEAL_FILE}", msgspec.json.encode(seal))


def remove_seal(disk: Disk, directory: str) -> None:
    """Remove the seal, durably before this returns. Raise OSError."""
    unlink_durably(disk, f"{directory}/{SEAL_FILE}")
