"""The room that is left in a log directory, and what may still be written there.

A file system that is full fails any write, also one that makes room, and a failed write ends the directory
(S28, EIO or full disk). So a broker keeps a reserve: below it leaders refuse what clients send, and followers
ask their leaders for no records. Both have written nothing, so nothing is undone: no replica fails, nothing
is cut, and all goes on once there is room. The broker's own small files (checkpoints, epochs, rounds, the log
start of a deletion) are written all the same: the reserve is theirs. Half of it is open to the logs of
coordinators, which are small and compacted, because without them no group could commit.

The shell looks at the file system now and then. What is appended between two looks is counted here, so that
a burst does not pass. The room is short until a quarter more than the reserve is free, so that writes do not
come and go.
"""

from __future__ import annotations

from typing import Final

RESERVE_SHARE: Final = 0.01
RESERVE_BYTES_MIN: Final = 256 * 1024 * 1024
RESERVE_BYTES_MAX: Final = 1024 * 1024 * 1024
RESERVE_SHARE_MAX: Final = 0.05
"""Of a small file system the reserve is never more than this."""
AGAIN_FACTOR: Final = 1.25


def reserve_of(total_bytes: int) -> int:
    """Return the reserve of a file system where none is set."""
    wanted = min(max(int(total_bytes * RESERVE_SHARE), RESERVE_BYTES_MIN), RESERVE_BYTES_MAX)
    return min(wanted, int(total_bytes * RESERVE_SHARE_MAX))


class Room:
    """The room of one log directory, shared by its logs. reserve_bytes 0: there is no reserve, or no look
    yet."""

    __slots__ = ("is_short", "left_bytes", "reserve_bytes")

    def __init__(self) -> None:
        self.reserve_bytes = 0
        #: What was free at the last look, less what was appended since.
        self.left_bytes = 0
        self.is_short = False

    def on_look(self, *, free_bytes: int, reserve_bytes: int) -> None:
        """Take in what the file system has free."""
        self.left_bytes, self.reserve_bytes = free_bytes, reserve_bytes
        self.is_short = free_bytes < (self.again_bytes if self.is_short else reserve_bytes)

    def on_appended(self, size_bytes: int) -> None:
        """Count what a log took."""
        self.left_bytes -= size_bytes

    @property
    def again_bytes(self) -> int:
        """Return how much must be free for writes to go on after it was short."""
        return int(self.reserve_bytes * AGAIN_FACTOR)

    def admits(self, size_bytes: int, *, is_internal: bool = False) -> bool:
        """Return whether so many bytes of records may be written. is_internal: of a coordinator's log, or for
        compaction."""
        if not self.reserve_bytes:
            return True
        if is_internal:
            return self.left_bytes - size_bytes >= self.reserve_bytes // 2
        if not self.is_short and self.left_bytes - size_bytes < self.reserve_bytes:
            self.is_short = True
        return not self.is_short

    def __str__(self) -> str:
        return (
            f"no space: {max(self.left_bytes, 0)} bytes free in the log directory, below the reserve of "
            f"{self.reserve_bytes} (log.dir.reserve.bytes); writes go on by themselves once "
            f"{self.again_bytes} are free"
        )
